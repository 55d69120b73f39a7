"""Run ``nczarr copy`` and ``nczarr gen``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import nczarr
from nczarr.cli.opening import add_dimension_option, refuse_twice, selection_of, storage_options
from nczarr.cli.terminal import progress_bar, say
from nczarr.convert import Report
from nczarr.display import format_bytes, shown_location, visible
from nczarr.errors import DatasetNotFoundError, UnsupportedError
from nczarr.formats import kind_of_source
from nczarr.transfer import NoProgress

SOURCE = "a Zarr hierarchy (path or URL), a netCDF file, or a CDL file (.cdl)"

COPYING = """\
  nczarr copy run42.nc run42.zarr               netCDF to Zarr; exchange the arguments for the reverse
  nczarr copy -v temp,salt run42.nc part.zarr   two variables and their coordinates
  nczarr copy -d time=2020-01:2020-06 -d lat=30.:60. run42.nc spring.zarr
  nczarr copy -c time=1,lat=100 --shards 128MiB --compression zstd:5 run42.nc fine.zarr
  nczarr copy -k classic -u run42.zarr run42.nc
  nczarr copy 'daily/*.nc' all.zarr --concat time
  nczarr copy yesterday.nc all.zarr --append
  nczarr copy daily/*.nc out/                   write out/NAME.zarr for each source
"""
GENERATING = """\
  nczarr gen sample.cdl sample.zarr
  ncdump run42.nc | nczarr gen - run42.zarr
"""

#: Options that are passed unchanged to :func:`nczarr.copy` as keywords.
_PASSED = (
    "only", "groups", "exclude", "chunks", "chunk_bytes", "shards", "compression", "quantize",
    "unlimited", "concat", "join", "layout", "codecs", "char", "compound", "format", "memory", "workers", "dask",
    "durable",
)  # fmt: skip
_FLAGS = (
    "append",
    "replace",
    "resume",
    "digest",
    "virtual",
    "checksum",
    "manifest",
    "fixed",
    "extensions",
    "nzug",
    "lossy",
    "overwrite",
)


def add_copy_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr copy``."""
    parser.add_argument("source", nargs="*", help=SOURCE + "; several, or a quoted pattern 'in/*.nc'")
    parser.add_argument(
        "target",
        help="NAME.nc for a netCDF file, NAME.cdl for CDL text, DIR/ for one Zarr dataset per source; any other name "
        "for Zarr",
    )
    _add_sources_options(parser)
    _add_subset_options(parser)
    _add_storage_options(parser)
    _add_output_options(parser)
    _add_verification_options(parser)
    parser.add_argument(
        "--virtual",
        action="store_true",
        help="write references to the chunks of netCDF files: TARGET is NAME.json, .parquet or .icechunk",
    )
    parser.add_argument("--json", action="store_true", help="print the plan, the result or the error as JSON")


def add_gen_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr gen``."""
    parser.add_argument("source", help="the CDL file; - for standard input")
    parser.add_argument("target", help="NAME.nc for a netCDF file, any other name for Zarr")
    _add_storage_options(parser)
    _add_output_options(parser)


def _add_sources_options(parser: argparse.ArgumentParser) -> None:
    several = parser.add_argument_group("several sources")
    several.add_argument(
        "--concat",
        metavar="DIM",
        help="join the sources along this dimension, or a new dimension of this name",
    )
    several.add_argument(
        "--files-from",
        metavar="FILE",
        help="read the names of sources from a file, one per line; - for standard input",
    )
    several.add_argument(
        "--join",
        choices=["outer", "first", "exact"],
        help="outer: keep the attributes of all files, and refuse conflicts that change their meaning; first: keep "
        "the attributes of the first file; exact: refuse any difference (default: outer)",
    )
    several.add_argument(
        "--append", action="store_true", help="append to the target along its unlimited dimension"
    )
    several.add_argument("--replace", action="store_true", help="with --append: overwrite existing steps")


def _add_subset_options(parser: argparse.ArgumentParser) -> None:
    subset = parser.add_argument_group(
        "subset (patterns: /ocean/t* matches full names, t* matches names in all groups)"
    )
    subset.add_argument(
        "-v",
        "--variables",
        action="append",
        metavar="A,B",
        help="copy these variables and their coordinates",
    )
    subset.add_argument("-V", "--only", action="append", metavar="A,B", help="copy exactly these variables")
    subset.add_argument("-g", "--groups", action="append", metavar="A,B", help="copy these groups")
    subset.add_argument(
        "-x", "--exclude", action="append", metavar="A,B", help="copy all but these variables and groups"
    )
    add_dimension_option(subset)
    subset.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="/A/B=C",
        help="rename a variable, dimension or group, or an attribute: /a/b@units=c",
    )


def _add_verification_options(parser: argparse.ArgumentParser) -> None:
    verification = parser.add_argument_group("verification")
    verification.add_argument(
        "--verify", action="store_true", help="read source and target again after the copy, and compare them"
    )
    verification.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted copy, and keep the partial output of an interrupt; compare a finished copy",
    )
    verification.add_argument(
        "--digest", action="store_true", help="store the digest as the attribute nczarr_sha256"
    )
    verification.add_argument("--dry-run", action="store_true", help="print the plan, and write nothing")


def _add_storage_options(parser: argparse.ArgumentParser) -> None:
    storage = parser.add_argument_group("storage")
    storage.add_argument(
        "-c",
        "--chunks",
        metavar="DIM=N,…",
        help="chunk lengths: time=1,lat=100 (-1: whole dimension), or auto",
    )
    storage.add_argument("--chunk-bytes", metavar="SIZE", help="approximate size of a chunk: 4MiB")
    storage.add_argument(
        "--shards", metavar="DIM=N,…", help="Zarr: shard lengths, a size such as 128MiB, or auto"
    )
    storage.add_argument(
        "--compression",
        metavar="CODEC",
        help="zstd:3, gzip:6, blosc:lz4:5, none, or source (default from netCDF to Zarr: blosc:zstd, from plain Zarr "
        "to netCDF: deflate)",
    )
    storage.add_argument(
        "--checksum", action="store_true", help="store a checksum for every chunk (crc32c, fletcher32)"
    )
    storage.add_argument(
        "--manifest", action="store_true", help="Zarr: record the chunks, so that check finds deleted chunks"
    )
    storage.add_argument(
        "--quantize", metavar="[NAME=]DIGITS", help="round floats to significant digits: temp=3, BitRound:10"
    )
    storage.add_argument("-u", "--fixed", action="store_true", help="make all unlimited dimensions fixed")
    storage.add_argument("--unlimited", metavar="DIM", action="append", help="make this dimension unlimited")
    storage.add_argument(
        "-k",
        "--format",
        metavar="KIND",
        help="netCDF: classic, 64-bit-offset, cdf5, nc4, nc7, or nccopy's numbers",
    )
    storage.add_argument(
        "--memory", metavar="SIZE", help="maximum size of the values in memory (default: 512MiB)"
    )
    storage.add_argument(
        "--workers", type=int, metavar="N", help="number of writer threads (default: number of processors)"
    )
    storage.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="distribute the blocks over the Dask cluster at this address; local: over --workers processes on this "
        "machine",
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    zarr = parser.add_argument_group("Zarr output")
    zarr.add_argument(
        "--layout",
        choices=["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"],
        help="representation of netCDF on Zarr (default: nczarr-v3)",
    )
    zarr.add_argument(
        "--codecs",
        choices=["portable", "numcodecs"],
        help="portable: codecs that all readers support; numcodecs: numcodecs' codecs (default: portable)",
    )
    zarr.add_argument(
        "--char",
        choices=["bytes", "uint8"],
        help="store char as null_terminated_bytes or as uint8 (default: bytes)",
    )
    zarr.add_argument(
        "--compound",
        choices=["struct", "bytes"],
        help="store compounds as struct (zarr-python 3.2 and later) or as uint8 (default: bytes)",
    )
    zarr.add_argument("--no-consolidated", action="store_true", help="write no consolidated metadata")
    zarr.add_argument(
        "--extensions",
        action="store_true",
        help="write the 'extensions' list of ZEP 10, which most current readers refuse",
    )
    zarr.add_argument(
        "--nzug", action="store_true", help="declare NZUG-1.0 in the attributes of the root group"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset")
    parser.add_argument(
        "--durable",
        action=argparse.BooleanOptionalAction,
        help="sync the output to disk before the command ends, so that it survives a power failure (default: on local "
        "disks)",
    )
    parser.add_argument(
        "--lossy", action="store_true", help="omit content that the format cannot represent, and list it"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the given options as keywords of :func:`nczarr.copy`; omit options that have their default."""
    chosen: dict[str, Any] = {
        name: getattr(options, name) for name in _PASSED if getattr(options, name, None) is not None
    }
    for name in ("variables", "only", "groups", "exclude", "unlimited"):
        if getattr(options, name, None):
            chosen[name] = [part for text in getattr(options, name) for part in text.split(",") if part]
    chosen |= {name: True for name in _FLAGS if getattr(options, name, False)}
    if options.no_consolidated:
        chosen["consolidated"] = False
    if getattr(options, "dimension", None):
        chosen["select"] = selection_of(options.dimension)
    if getattr(options, "rename", None):
        renamed = [text.rpartition("=") for text in options.rename]
        for text, (old, equals, new) in zip(options.rename, renamed, strict=True):
            if not (old and equals and new):
                raise UnsupportedError(
                    f"--rename {text!r} is not OLD=NEW", hint="for example --rename /ocean/temp=t"
                )
        refuse_twice([old for old, _, _ in renamed], "--rename")
        chosen["rename"] = {old: new for old, _, new in renamed}
    return chosen


def _copy(source: Any, options: argparse.Namespace, **more: Any) -> None:
    where = storage_options(options)
    bar = progress_bar(options.quiet)
    as_json, dry = getattr(options, "json", False), bool(more.get("dry_run"))
    # Create a report only if it is printed: it reads the sizes of all written files.
    virtual = getattr(options, "virtual", False)
    report = Report() if as_json or virtual or not isinstance(bar, NoProgress) else None
    lines = nczarr.copy(
        source,
        options.target,
        progress=bar,
        source_options=where,
        target_options=where,
        report=report,
        **chosen_options(options),
        **more,
    )
    if as_json and report is not None:
        print(json.dumps(report.to_json()))
    elif dry:
        say(*lines)
    elif report is not None and not (isinstance(bar, NoProgress) and not report.allow):
        print(visible(closing_line(report)), file=sys.stderr)
    for loss in () if dry else lines:
        print(visible(f"nczarr: omitted from {shown_location(options.target)}: {loss}"), file=sys.stderr)


def closing_line(report: Report) -> str:
    """Summarise a copy in one line: sources, bytes read and written, compression ratio, seconds."""
    parts = [f"{report.sources} source{'s' * (report.sources != 1)}"]
    if report.bytes_in is not None:
        parts.append(f"{format_bytes(report.bytes_in)} in")
    if report.bytes_out:
        ratio = report.bytes_of_values / report.bytes_out
        parts.append(f"{format_bytes(report.bytes_out)} out ({ratio:.1f} times smaller than the values)")
    if report.finished_before:
        parts.append(f"{report.finished_before} already complete and verified")
    line = f"nczarr: {', '.join(parts)}, {report.seconds:.1f} s"
    if report.allow:
        allow = " ".join(f"--allow {shlex.quote(folder)}" for folder in report.allow)
        line += f"; the files are outside of the directory of the references: read them with {allow}"
    return line


def run_copy(options: argparse.Namespace) -> None:
    """Run ``nczarr copy``."""
    sources = [*options.source, *_listed_files(options.files_from)]
    if not sources:
        raise UnsupportedError("no source is given", hint="nczarr copy SOURCE TARGET")
    one = sources if len(sources) > 1 else sources[0]
    _copy(one, options, verify=options.verify, dry_run=options.dry_run)


def _listed_files(name: str | None) -> list[str]:
    if name is None:
        return []
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise DatasetNotFoundError(f"--files-from: {error.strerror}", path=name) from None
    return [line for line in text.splitlines() if line.strip()]


def run_gen(options: argparse.Namespace) -> None:
    """Run ``nczarr gen``."""
    from nczarr import cdl

    if options.source == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        dataset = cdl.loads(text, path="<stdin>")
    else:
        if (kind := kind_of_source(options.source)) == "netcdf" or os.path.isdir(options.source):
            what = "a netCDF file" if kind == "netcdf" else "a directory"
            raise UnsupportedError(
                f"this is {what}, not CDL text", path=options.source, hint="use nczarr copy"
            )
        dataset = cdl.load(options.source)
    _copy(dataset, options)

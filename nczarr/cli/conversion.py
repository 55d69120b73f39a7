"""Run ``nczarr copy`` and ``nczarr gen``: their options, and what they say at the end."""

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
  nczarr copy run42.nc run42.zarr               to Zarr, and back with the arguments exchanged
  nczarr copy -v temp,salt run42.nc part.zarr   two variables and their coordinates
  nczarr copy -d time=2020-01:2020-06 -d lat=30.:60. run42.nc spring.zarr
  nczarr copy -c time=1,lat=100 --shards 128MiB --compression zstd:5 run42.nc fine.zarr
  nczarr copy -k classic -u run42.zarr run42.nc
  nczarr copy 'daily/*.nc' all.zarr --concat time
  nczarr copy yesterday.nc all.zarr --append
  nczarr copy daily/*.nc out/                   each as out/NAME.zarr
"""
GENERATING = """\
  nczarr gen sample.cdl sample.zarr
  ncdump run42.nc | nczarr gen - run42.zarr
"""

#: Keywords of :func:`nczarr.copy` that are passed on as they are.
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
        help="NAME.nc makes a netCDF file, NAME.cdl text, DIR/ one Zarr dataset for each source, else Zarr",
    )
    _several(parser)
    _what(parser)
    _how(parser)
    _writing(parser)
    _trust(parser)
    parser.add_argument(
        "--virtual",
        action="store_true",
        help="write references to the chunks of netCDF files: TARGET is NAME.json, .parquet or .icechunk",
    )
    parser.add_argument("--json", action="store_true", help="print the plan, the result or the error as JSON")


def add_gen_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr gen``."""
    parser.add_argument("source", help="the CDL file; - is standard input")
    parser.add_argument("target", help="NAME.nc makes a netCDF file, any other name Zarr")
    _how(parser)
    _writing(parser)


def _several(parser: argparse.ArgumentParser) -> None:
    several = parser.add_argument_group("many files")
    several.add_argument(
        "--concat", metavar="DIM", help="join along this dimension, or a new one of this name"
    )
    several.add_argument(
        "--files-from", metavar="FILE", help="read names of sources, line by line; - is stdin"
    )
    several.add_argument(
        "--join",
        choices=["outer", "first", "exact"],
        help="attributes: of all files, refused where they mean something else; of the first file only; or refused "
        "where any differs (default: outer)",
    )
    several.add_argument(
        "--append", action="store_true", help="append to the target along its unlimited dimension"
    )
    several.add_argument(
        "--replace", action="store_true", help="with --append: write over steps that are there"
    )


def _what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group(
        "what is copied (patterns: /ocean/t* of full names, t* of names anywhere)"
    )
    what.add_argument(
        "-v",
        "--variables",
        action="append",
        metavar="A,B",
        help="these variables and the coordinates they need",
    )
    what.add_argument("-V", "--only", action="append", metavar="A,B", help="exactly these variables")
    what.add_argument("-g", "--groups", action="append", metavar="A,B", help="these groups")
    what.add_argument(
        "-x", "--exclude", action="append", metavar="A,B", help="all but these variables and groups"
    )
    add_dimension_option(what)
    what.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="/A/B=C",
        help="rename a variable, dimension or group, or an attribute: /a/b@units=c",
    )


def _trust(parser: argparse.ArgumentParser) -> None:
    trust = parser.add_argument_group("trust")
    trust.add_argument("--verify", action="store_true", help="read both sides again and compare them")
    trust.add_argument(
        "--resume",
        action="store_true",
        help="go on with a copy that was stopped; keep it if this one is, too; compare one that is finished",
    )
    trust.add_argument(
        "--digest", action="store_true", help="store the digest as the attribute nczarr_sha256"
    )
    trust.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")


def _how(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how it is stored")
    how.add_argument(
        "-c", "--chunks", metavar="DIM=N,…", help="chunk lengths: time=1,lat=100 (-1: all of it), or auto"
    )
    how.add_argument("--chunk-bytes", metavar="SIZE", help="about how large chunks are: 4MiB")
    how.add_argument(
        "--shards", metavar="DIM=N,…", help="Zarr: shard lengths, a size such as 128MiB, or auto"
    )
    how.add_argument(
        "--compression",
        metavar="CODEC",
        help="zstd:3, gzip:6, blosc:lz4:5, none, or source (default from netCDF to Zarr: blosc:zstd, from plain Zarr "
        "to netCDF: deflate)",
    )
    how.add_argument(
        "--checksum", action="store_true", help="a checksum for every chunk (crc32c, fletcher32)"
    )
    how.add_argument(
        "--manifest", action="store_true", help="Zarr: record the chunks, so that check finds deleted ones"
    )
    how.add_argument(
        "--quantize", metavar="[NAME=]DIGITS", help="round floats to significant digits: temp=3, BitRound:10"
    )
    how.add_argument("-u", "--fixed", action="store_true", help="make unlimited dimensions fixed")
    how.add_argument("--unlimited", metavar="DIM", action="append", help="make this dimension unlimited")
    how.add_argument(
        "-k",
        "--format",
        metavar="KIND",
        help="netCDF: classic, 64-bit-offset, cdf5, nc4, nc7, or nccopy's numbers",
    )
    how.add_argument("--memory", metavar="SIZE", help="bound on the values in memory (default: 512MiB)")
    how.add_argument("--workers", type=int, metavar="N", help="threads that write (default: the processors)")
    how.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="spread the blocks over a Dask cluster; local: over N processes on this machine",
    )


def _writing(parser: argparse.ArgumentParser) -> None:
    zarr = parser.add_argument_group("Zarr output")
    zarr.add_argument(
        "--layout",
        choices=["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"],
        help="how netCDF is laid out on Zarr (default: nczarr-v3)",
    )
    zarr.add_argument(
        "--codecs",
        choices=["portable", "numcodecs"],
        help="codecs that every reader knows, or numcodecs' own (default: portable)",
    )
    zarr.add_argument(
        "--char",
        choices=["bytes", "uint8"],
        help="char as null_terminated_bytes or as uint8 (default: bytes)",
    )
    zarr.add_argument(
        "--compound",
        choices=["struct", "bytes"],
        help="compounds as struct (zarr-python 3.2 and later) or as uint8 (default: bytes)",
    )
    zarr.add_argument("--no-consolidated", action="store_true", help="leave out the consolidated metadata")
    zarr.add_argument(
        "--extensions",
        action="store_true",
        help="add the ZEP 10 'extensions' list, which most readers refuse today",
    )
    zarr.add_argument("--nzug", action="store_true", help="declare NZUG-1.0 in the root's attributes")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset")
    parser.add_argument(
        "--durable",
        action=argparse.BooleanOptionalAction,
        help="end when the disk has the output, so that a loss of power leaves it (default: yes, on local disks)",
    )
    parser.add_argument(
        "--lossy", action="store_true", help="write what the format can hold, and say what was lost"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the chosen options as keywords of :func:`nczarr.copy`; its defaults do the rest."""
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
                raise UnsupportedError(f"--rename {text}: not OLD=NEW", hint="for example /ocean/temp=t")
        refuse_twice([old for old, _, _ in renamed], "--rename")
        chosen["rename"] = {old: new for old, _, new in renamed}
    return chosen


def _copy(source: Any, options: argparse.Namespace, **more: Any) -> None:
    where = storage_options(options)
    bar = progress_bar(options.quiet)
    as_json, dry = getattr(options, "json", False), bool(more.get("dry_run"))
    # It looks at every file that was written: only where its figures are shown.
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
        print(visible(f"nczarr: not in {shown_location(options.target)}: {loss}"), file=sys.stderr)


def closing_line(report: Report) -> str:
    """Return what a copy did in one line: sources, bytes in and out, ratio, seconds."""
    parts = [f"{report.sources} source{'s' * (report.sources != 1)}"]
    if report.bytes_in is not None:
        parts.append(f"{format_bytes(report.bytes_in)} in")
    if report.bytes_out:
        ratio = report.bytes_of_values / report.bytes_out
        parts.append(f"{format_bytes(report.bytes_out)} out ({ratio:.1f} times smaller than the values)")
    if report.finished_before:
        parts.append(f"{report.finished_before} finished before, and compared")
    line = f"nczarr: {', '.join(parts)}, {report.seconds:.1f} s"
    if report.allow:
        allow = " ".join(f"--allow {shlex.quote(folder)}" for folder in report.allow)
        line += f"; files are not beside the references, so reading these needs {allow}"
    return line


def run_copy(options: argparse.Namespace) -> None:
    """``nczarr copy``."""
    sources = [*options.source, *_listed_files(options.files_from)]
    if not sources:
        raise UnsupportedError("there is no source", hint="nczarr copy SOURCE TARGET")
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
    """``nczarr gen``."""
    from nczarr import cdl

    if options.source == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        dataset = cdl.loads(text, path="<stdin>")
    else:
        if (kind := kind_of_source(options.source)) == "netcdf" or os.path.isdir(options.source):
            what = "a netCDF file" if kind == "netcdf" else "a directory"
            raise UnsupportedError(
                f"this is {what}, not CDL text", path=options.source, hint="nczarr copy copies it"
            )
        dataset = cdl.load(options.source)
    _copy(dataset, options)

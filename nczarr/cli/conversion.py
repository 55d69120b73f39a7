"""Run ``nczarr copy`` and ``nczarr gen``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import nczarr
from nczarr.cli import options as shared
from nczarr.cli.options import SOURCE, Options, define, option, storage_options
from nczarr.cli.terminal import progress_bar, say
from nczarr.convert import Report
from nczarr.convert.endpoints import expand_sources
from nczarr.convert.many.fit import ADJUSTMENTS, JOINS, REPACKS
from nczarr.display import format_bytes, shown_location, visible
from nczarr.errors import DatasetNotFoundError, UnsupportedError
from nczarr.formats import kind_of_source, local_path
from nczarr.mapping.options import FormatOptions
from nczarr.model.typed import list_names, partition_typed
from nczarr.transfer import NoProgress

#: Options with the name of a keyword of :func:`nczarr.copy` and another form, and those that a command passes itself.
_OTHER = frozenset({"source", "target", "tolerance", "rename", "progress", "allow"})
#: Flags that are None where the command line does not give them.
_CHOICES = ("consolidated", "durable")
#: An option that is given several times, each time with names that commas separate.
_LIST: dict[str, Any] = {"action": "extend", "type": list_names}
#: Number of sources that are scanned faster than processes start.
_FEW = 100


def define_copy(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr copy``."""
    option(parser, "source", SOURCE + "; several, or a quoted pattern 'in/*.nc'", nargs="*")
    text = "NAME.nc for a netCDF file, NAME.cdl for CDL text, DIR/ for one Zarr dataset per source; any other name "
    option(parser, "target", text + "for Zarr")
    several = parser.add_argument_group("several sources")
    option(
        several, "--concat", "join the sources along this dimension, or a new dimension of this name", "DIM"
    )
    text = "join the variables of all sources; with --concat, after the steps of each variable"
    option(several, "--merge", text)
    _add_files_from(several)
    text = (
        "outer: keep the attributes of all files, and refuse conflicts that change their meaning; first: keep the "
        "attributes of the first file; exact: refuse any difference; fill: outer, with fill values for variables and "
        "expected steps that files lack (default: outer)"
    )
    option(several, "--join", text, choices=JOINS)
    text = (
        "join numbers with their own packing as floats, in the packing of the first file, or in a new one; the maximum "
        "error is printed"
    )
    option(several, "--repack", text, choices=REPACKS)
    text = (
        "accept words for the same unit, calendars that agree, another order of dimensions, flipped coordinates, "
        "narrower types: " + ", ".join(ADJUSTMENTS)
    )
    option(several, "--adjust", text, "WORD,…", **_LIST)
    text = "accept values of a variable without the joined dimension that differ by at most N"
    option(several, "--tolerance", text, "NAME=N", action="append", default=[])
    text = "name missing and repeated steps of the joined coordinate: 6h, 1d, 1mo, 1y, a number, or auto"
    option(several, "--expect-step", text, "STEP")
    text = "a Python function that changes the model of each source: gets and returns a nczarr.model.Dataset"
    option(parser, "--preprocess", text, "MODULE:FUNCTION")
    option(several, "--append", "append to the target along its unlimited dimension")
    option(several, "--replace", "with --append: overwrite existing steps")
    subset = parser.add_argument_group(
        "subset (patterns: /ocean/t* matches full names, t* matches names in all groups)"
    )
    for names, text in (
        ("-v --variables", "copy these variables and their coordinates"),
        ("-V --only", "copy exactly these variables"),
        ("-g --groups", "copy these groups"),
        ("-x --exclude", "copy all but these variables and groups"),
    ):
        option(subset, names, text, "A,B", **_LIST)
    shared.add_dimension_option(subset)
    text = "rename a variable, dimension or group, or an attribute: /a/b@units=c"
    option(subset, "--rename", text, "/A/B=C", action="append", default=[])
    _add_storage_options(parser)
    _add_output_options(parser)
    verification = parser.add_argument_group("verification")
    option(verification, "--verify", "read source and target again after the copy, and compare them")
    text = (
        "continue an interrupted copy, and keep the partial output of an interrupt; compare a finished copy"
    )
    option(verification, "--resume", text)
    option(verification, "--digest", "store the digest as the attribute nczarr_sha256")
    text = (
        "Zarr: record name, size, digest and steps of the sources; --append then skips those that are there"
    )
    option(several, "--record-sources", text)
    option(verification, "--dry-run", "print the plan, and write nothing")
    text = "take all choices from this plan (TOML); with --dry-run, write it if it does not exist"
    option(verification, "--plan", text, "FILE")
    text = "write references to the chunks of netCDF files: TARGET is NAME.json, .parquet or .icechunk"
    option(parser, "--virtual", text)
    option(parser, "--json", "print the plan, the result or the error as JSON")
    define(
        parser,
        run_copy,
        """\
  nczarr copy run42.nc run42.zarr               netCDF to Zarr; exchange the arguments for the reverse
  nczarr copy -v temp,salt run42.nc part.zarr   two variables and their coordinates
  nczarr copy -d time=2020-01:2020-06 -d lat=30.:60. run42.nc spring.zarr
  nczarr copy -c time=1,lat=100 --shards 128MiB --compression zstd:5 run42.nc fine.zarr
  nczarr copy -k classic -u run42.zarr run42.nc
  nczarr copy 'daily/*.nc' all.zarr --concat time
  nczarr copy tas_*.nc pr_*.nc all.zarr --concat time --merge
  nczarr copy yesterday.nc all.zarr --append
  nczarr copy daily/*.nc out/                   write out/NAME.zarr for each source
""",
    )


def define_scan(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr scan``."""
    option(parser, "source", SOURCE + "; several, or a quoted pattern 'in/*.nc'", nargs="*")
    text = "the scan file, NAME.parquet; if it exists, only new and changed sources are opened"
    option(parser, "-o --output", text, "FILE", required=True, dest="target")
    _add_files_from(parser)
    _add_engine_options(parser, "open the sources on", "processes")
    shared.add_progress_options(parser)
    examples = (
        "  nczarr scan 'in/*.nc' -o scan.parquet\n  nczarr copy scan.parquet all.zarr --concat time\n"
        "  nczarr copy scan.parquet all.json --concat time --virtual\n"
    )
    define(parser, run_scan, examples)


def define_gen(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr gen``."""
    option(parser, "source", "the CDL file; - for standard input")
    option(parser, "target", "NAME.nc for a netCDF file, any other name for Zarr", nargs="?")
    option(parser, "-o --output", "the target, as in ncgen", "TARGET", dest="output_target")
    _add_storage_options(parser)
    _add_output_options(parser)
    examples = (
        "  nczarr gen sample.cdl sample.zarr\n  nczarr gen -k nc4 -o sample.nc sample.cdl\n"
        "  ncdump run42.nc | nczarr gen - run42.zarr\n"
    )
    define(parser, run_gen, examples)


def _add_storage_options(parser: argparse.ArgumentParser) -> None:
    storage = parser.add_argument_group("storage")
    text = "chunk lengths: time=1,lat=100 (-1: whole dimension), or auto; of some variables: temp:time=1"
    option(storage, "-c --chunks", text, "[NAME:]DIM=N,…", action="append")
    option(storage, "--chunk-bytes", "approximate size of a chunk: 4MiB", "SIZE")
    text = "Zarr: shard lengths, a size such as 128MiB, or auto"
    option(storage, "--shards", text, "[NAME:]DIM=N,…", action="append")
    text = (
        "zstd:3, gzip:6, blosc:lz4:5, none, a codec's name or JSON, or source (default from netCDF to Zarr: "
        "blosc:zstd, from plain Zarr to netCDF: deflate); of some variables: 'precip*:zstd'"
    )
    option(storage, "--compression", text, "[NAME:]CODEC", action="append")
    option(storage, "--checksum", "store a checksum for every chunk (crc32c, fletcher32)")
    option(storage, "--manifest", "Zarr: record the chunks, so that check finds deleted chunks")
    text = "round floats to significant digits: temp=3, BitRound:10"
    option(storage, "--quantize", text, "[NAME=]DIGITS", action="append")
    option(storage, "-u --fixed", "make all unlimited dimensions fixed")
    option(storage, "--unlimited", "make this dimension unlimited", "DIM", **_LIST)
    text = "netCDF: classic, 64-bit-offset, cdf5, nc4, nc7, or nccopy's numbers"
    option(storage, "-k --format", text, "KIND")
    for number, name in {"3": "classic", "4": "nc4", "5": "cdf5", "6": "64-bit-offset", "7": "nc7"}.items():
        option(storage, f"-{number}", f"netCDF: {name}", action="store_const", const=name, dest="format")
    option(storage, "--memory", "maximum size of the values in memory (default: 512MiB)", "SIZE")
    _add_engine_options(storage, "distribute the blocks over", None)


def _add_files_from(options: Options) -> None:
    text = "read the names of sources from a file, one per line; - for standard input"
    option(options, "--files-from", text, "FILE")


def _add_engine_options(options: Options, what: str, executor: str | None) -> None:
    text = "number of writer threads, or of processes (default: number of processors)"
    option(options, "--workers", text, "N", type=int)
    text = f"{what} the Dask cluster at this address; local: --workers processes on this machine"
    option(options, "--dask", text, "ADDRESS")
    text = (
        f"{what} an executor of concurrent.futures, which this function returns: mpi4py.futures:MPIPoolExecutor; "
        "processes: --workers processes on this machine" + (f" (default: {executor})" if executor else "")
    )
    option(options, "--executor", text, "MODULE:FUNCTION")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    zarr = parser.add_argument_group("Zarr output")
    layouts = ["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]
    option(zarr, "--layout", "representation of netCDF on Zarr (default: nczarr-v3)", choices=layouts)
    option(zarr, "--portable", "replace codecs of a Zarr source that not all readers have, and list them")
    text = "store char as null_terminated_bytes or as uint8 (default: bytes)"
    option(zarr, "--char", text, choices=["bytes", "uint8"])
    text = "store compounds as struct (zarr-python 3.2 and later) or as uint8 (default: bytes)"
    option(zarr, "--compound", text, choices=["struct", "bytes"])
    text = "write no consolidated metadata"
    option(zarr, "--no-consolidated", text, action="store_const", const=False, dest="consolidated")
    option(zarr, "--extensions", "write the 'extensions' list of ZEP 10, which most current readers refuse")
    text = (
        "give names that differ in case only different directories (default: where the target ignores case)"
    )
    flag = argparse.BooleanOptionalAction
    option(zarr, "--case-insensitive", text, action=flag, default=None)
    option(zarr, "--nzug", "declare NZUG-1.0 in the attributes of the root group")
    option(parser, "--overwrite", "replace an existing dataset")
    text = (
        "sync the output to disk before the command ends, so that it survives a power failure (default: on local "
        "disks)"
    )
    option(parser, "--durable", text, action=argparse.BooleanOptionalAction)
    option(parser, "--lossy", "omit content that the format cannot represent, and list it")
    shared.add_progress_options(parser)


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the given options as keywords of :func:`nczarr.copy`; omit options that have their default."""
    keywords = {*signature(nczarr.copy).parameters, *FormatOptions.__annotations__} - _OTHER
    given = {name: value for name, value in vars(options).items() if value not in (None, [])}
    chosen = {n: v for n, v in given.items() if n in keywords and (v is not False or n in _CHOICES)}
    if "dimension" in given:
        chosen["select"] = shared.selection_of(options.dimension)
    if "tolerance" in given:
        chosen["tolerance"] = dict(map(_tolerance, options.tolerance))
    if "rename" in given:
        chosen["rename"] = shared.pairs_in(options.rename, "--rename", "OLD=NEW", "/ocean/temp=t")
    return chosen


def _check_target(target: str, *, virtual: bool, append: bool) -> None:
    """Refuse a target in a missing directory, a missing target of ``--append``, and names of references."""
    path = local_path(target)
    if path is None:
        return
    if append and not path.exists():
        hint = "without --append, nczarr copy creates the dataset"
        raise DatasetNotFoundError("there is no dataset to append to", path=target, hint=hint)
    if path.suffix in (".json", ".parquet", ".icechunk") and not virtual:
        raise UnsupportedError(
            f"a name with the suffix {path.suffix} is that of references to chunks",
            path=target,
            hint="--virtual writes references; a Zarr dataset has another name, such as run42.zarr",
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise UnsupportedError(f"{path.parent} is not a directory", path=target)
        command = f"mkdir -p {shlex.quote(str(path.parent))} creates it"
        raise UnsupportedError(f"the directory {path.parent} does not exist", path=target, hint=command)


def _tolerance(text: str) -> tuple[str, float]:
    name, _, number = partition_typed(text, "=", last=True)
    try:
        return name or "*", float(number)
    except ValueError:
        raise UnsupportedError(f"--tolerance {text!r} is not NAME=N", hint="for example lat=1e-5") from None


def _copy(source: Any, options: argparse.Namespace) -> None:
    flags = ("virtual", "append", "json", "dry_run")
    virtual, append, as_json, dry = (getattr(options, name, False) for name in flags)
    _check_target(options.target, virtual=virtual, append=append)
    where, bar = storage_options(options), progress_bar(options.progress)
    # Create a report only if it is printed: it reads the sizes of all written files.
    report = Report() if as_json or virtual or dry or not isinstance(bar, NoProgress) else None
    lines = nczarr.copy(
        source,
        options.target,
        progress=bar,
        source_options=where,
        target_options=where,
        report=report,
        **chosen_options(options),
    )
    if as_json and report is not None:
        print(json.dumps(report.to_json()))
    elif dry:
        count, median = report.planned_objects if report is not None else (0, 0)
        total = f"total: {count} objects, median {format_bytes(median)} before compression"
        say(*lines, *([total] if count else []))
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
    if report.objects_out is not None and str(report.objects_out):
        parts.append(str(report.objects_out))
        if report.objects_out.hint:
            parts.append(report.objects_out.hint)
    if report.finished_before:
        parts.append(f"{report.finished_before} already complete and verified")
    if report.skipped:
        parts.append(f"{report.skipped} already in the dataset")
    line = f"nczarr: {', '.join(parts)}, {report.seconds:.1f} s"
    if report.allow:
        allow = " ".join(f"--allow {shlex.quote(folder)}" for folder in report.allow)
        line += f"; the files are outside of the directory of the references: read them with {allow}"
    return line


def run_copy(options: argparse.Namespace) -> None:
    """Run ``nczarr copy``."""
    sources = _sources(options)
    if not sources:
        missing = "target" if os.path.exists(options.target) else "source"
        raise UnsupportedError(f"the {missing} is missing", hint="nczarr copy SOURCE TARGET")
    _copy(sources if len(sources) > 1 else sources[0], options)


def _sources(options: argparse.Namespace) -> list[str]:
    """Return the sources of the command line and of ``--files-from``."""
    sources: list[str] = options.source
    if (name := options.files_from) is None:
        return sources
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise DatasetNotFoundError(f"--files-from: {error.strerror}", path=name) from None
    return [*sources, *(line for line in text.splitlines() if line.strip())]


def run_scan(options: argparse.Namespace) -> None:
    """Run ``nczarr scan``."""
    sources = _sources(options)
    if not sources:
        raise UnsupportedError("the source is missing", hint="nczarr scan SOURCE... -o scan.parquet")
    where, bar = storage_options(options), progress_bar(options.progress)
    found = expand_sources(sources, where)
    engine = {name: getattr(options, name) for name in ("workers", "dask", "executor")}
    if engine["dask"] is None and engine["executor"] is None and len(found) > _FEW:
        engine["executor"] = "processes"
    count, opened = nczarr.scan(found, options.target, source_options=where, progress=bar, **engine)
    if not isinstance(bar, NoProgress):
        print(visible(f"nczarr: {count} sources, {opened} opened"), file=sys.stderr)


def run_gen(options: argparse.Namespace) -> None:
    """Run ``nczarr gen``."""
    from nczarr import cdl

    targets = [target for target in (options.target, options.output_target) if target is not None]
    if len(targets) != 1:
        problem = "the target is given twice" if targets else "the target is missing"
        raise UnsupportedError(problem, hint="nczarr gen SOURCE TARGET, or nczarr gen -o TARGET SOURCE")
    options.target = targets[0]
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

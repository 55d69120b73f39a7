"""Run the commands that convert: ``copy``, ``join``, ``append``, ``scan`` and ``gen``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import nczarr
from nczarr.cli.options import (
    SOURCE,
    Options,
    add_derived_options,
    add_progress_options,
    define,
    given_options,
    option,
    storage_options,
)
from nczarr.cli.terminal import progress_bar, say
from nczarr.convert import Report
from nczarr.convert.endpoints import expand_sources
from nczarr.convert.request import PARTS
from nczarr.display import format_bytes, shown_location, visible
from nczarr.errors import DatasetNotFoundError, UnsupportedError
from nczarr.formats import is_references, kind_of_source, local_path
from nczarr.transfer import NoProgress

#: Number of sources that are scanned faster than processes start.
_FEW = 100
#: At most so many appends of one command are described.
_NAMED_APPENDS = 3
_SEVERAL = SOURCE + "; several, or a quoted pattern 'in/*.nc'"


def define_copy(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr copy``."""
    option(parser, "source", SOURCE + "; several, or a quoted pattern 'in/*.nc', into a directory", nargs="*")
    text = "NAME.nc for a netCDF file, NAME.cdl for CDL text, DIR/ for one Zarr dataset per source; any other name "
    option(parser, "target", text + "for Zarr")
    _define_verb(
        parser,
        "copy",
        """\
  nczarr copy run42.nc run42.zarr               netCDF to Zarr; exchange the arguments for the reverse
  nczarr copy -v temp,salt run42.nc part.zarr   two variables and their coordinates
  nczarr copy -d time=2020-01:2020-06 -d lat=30.:60. run42.nc spring.zarr
  nczarr copy -c time=1,lat=100 --shards 128MiB --compression zstd:5 run42.nc fine.zarr
  nczarr copy -k classic -u run42.zarr run42.nc
  nczarr copy daily/*.nc out/                   write out/NAME.zarr for each source
""",
    )


def define_join(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr join``."""
    option(parser, "source", _SEVERAL, nargs="*")
    option(parser, "target", "NAME.nc for a netCDF file, NAME.cdl for CDL text; any other name for Zarr")
    _define_verb(
        parser,
        "join",
        """\
  nczarr join 'daily/*.nc' all.zarr             the steps of all files, along time
  nczarr join --along member run?.nc all.zarr   along a new dimension
  nczarr join tas_*.nc pr_*.nc all.zarr --merge the steps of each variable, then the variables side by side
  nczarr join 'daily/*.nc' all.zarr --join fill --adjust units,flip --dry-run
  nczarr join 'daily/*.nc' refs.json --virtual  references to the chunks of the files
""",
    )


def define_append(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr append``."""
    option(parser, "source", _SEVERAL, nargs="*")
    option(parser, "target", "the dataset that grows: a Zarr hierarchy or a netCDF file")
    _define_verb(
        parser,
        "append",
        """\
  nczarr append today.nc all.zarr               behind the last step
  nczarr append 'daily/*.nc' all.zarr --replace also write over steps that are there
""",
    )


def _define_verb(parser: argparse.ArgumentParser, verb: str, examples: str) -> None:
    add_derived_options(parser, verb, PARTS)
    _add_files_from(parser)
    add_progress_options(parser)
    option(parser, "--json", "print the plan, the result or the error as JSON")
    run = {"copy": run_copy, "join": run_join, "append": run_append}[verb]
    define(parser, run, examples)


def define_scan(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr scan``."""
    option(parser, "source", _SEVERAL, nargs="*")
    text = "the scan file, NAME.parquet; if it exists, only new and changed sources are opened"
    option(parser, "-o --output", text, "FILE", required=True, dest="target")
    _add_files_from(parser)
    add_derived_options(parser, "scan", PARTS)
    add_progress_options(parser)
    examples = (
        "  nczarr scan 'in/*.nc' -o scan.parquet\n  nczarr join scan.parquet all.zarr\n"
        "  nczarr join scan.parquet all.json --virtual\n"
    )
    define(parser, run_scan, examples)


def define_gen(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr gen``."""
    option(parser, "source", "the CDL file; - for standard input")
    option(parser, "target", "NAME.nc for a netCDF file, any other name for Zarr", nargs="?")
    option(parser, "-o --output", "the target, as in ncgen", "TARGET", dest="output_target")
    add_derived_options(parser, "gen", PARTS)
    add_progress_options(parser)
    examples = (
        "  nczarr gen sample.cdl sample.zarr\n  nczarr gen -k nc4 -o sample.nc sample.cdl\n"
        "  ncdump run42.nc | nczarr gen - run42.zarr\n"
    )
    define(parser, run_gen, examples)


def _add_files_from(options: Options) -> None:
    text = "read the names of sources from a file, one per line; - for standard input"
    option(options, "--files-from", text, "FILE").usual = False


def _check_target(target: str, *, virtual: bool, append: bool) -> None:
    """Refuse a target in a missing directory, a missing target of an append, and names of references."""
    path = local_path(target)
    if path is None:
        return
    if append and not path.exists():
        hint = "nczarr copy and nczarr join create one"
        raise DatasetNotFoundError("there is no dataset to append to", path=target, hint=hint)
    # A Zarr directory of this name would be opened as references.
    is_virtual = virtual or (append and is_references(path))
    if path.suffix in (".json", ".parquet", ".icechunk") and not is_virtual:
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


def _run(verb: str, source: Any, options: argparse.Namespace) -> None:
    flags = ("virtual", "json", "dry_run")
    virtual, as_json, dry = (getattr(options, name, False) for name in flags)
    _check_target(options.target, virtual=virtual, append=verb == "append")
    where, bar = storage_options(options), progress_bar(options.progress)
    # Create a report only if it is printed: it reads the sizes of all written files.
    report = Report() if as_json or virtual or dry or not isinstance(bar, NoProgress) else None
    run = getattr(nczarr, "copy" if verb == "gen" else verb)
    lines = run(
        source,
        options.target,
        progress=bar,
        source_options=where,
        target_options=where,
        report=report,
        **given_options(options, verb, PARTS),
    )
    if as_json and report is not None:
        print(json.dumps(report.to_json()))
    elif dry:
        count, median = report.planned_objects if report is not None else (0, 0)
        total = f"total: {count} objects, median {format_bytes(median)} before compression"
        chunks = report.chosen_chunks if report is not None else ""
        say(*lines, *([f"chunks: {chunks}"] if chunks else []), *([total] if count else []))
    # Without the line's `--allow`, readers refuse the references: it is printed without a bar, too.
    elif report is not None and not (isinstance(bar, NoProgress) and not report.allow):
        print(visible(closing_line(report)), file=sys.stderr)
    for loss in () if dry else lines:
        print(
            visible(f"nczarr: {shown_location(options.target)} differs from the source: {loss}"),
            file=sys.stderr,
        )


def closing_line(report: Report) -> str:
    """Summarise a copy in one line: sources, bytes read and written, compression ratio, seconds."""
    parts = [f"{report.sources} source{'s' * (report.sources != 1)}"]
    parts += map(str, report.appended[:_NAMED_APPENDS])
    if len(report.appended) > _NAMED_APPENDS:
        parts.append(f"and {len(report.appended) - _NAMED_APPENDS} more appends")
    if report.bytes_in is not None:
        parts.append(f"{format_bytes(report.bytes_in)} in")
    if report.bytes_out:
        ratio = report.bytes_of_values / report.bytes_out
        parts.append(f"{format_bytes(report.bytes_out)} out ({ratio:.1f} times smaller than the values)")
    if report.objects_out is not None and str(report.objects_out):
        parts.append(str(report.objects_out))
        if report.objects_out.hint:
            parts.append(report.objects_out.hint)
    if report.chosen_chunks:
        parts.append(f"chunks: {report.chosen_chunks}")
    # No form of the store avoids it: xarray refuses fills of characters, and JSON's numbers have no type.
    if report.read_otherwise:
        named = report.read_otherwise[:_NAMED_APPENDS]
        more = len(report.read_otherwise) - len(named)
        parts.append(f"xarray's engine zarr reads {', '.join(named)}{f' and {more} more' if more else ''}")
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
    _run_verb("copy", options)


def run_join(options: argparse.Namespace) -> None:
    """Run ``nczarr join``."""
    _run_verb("join", options)


def run_append(options: argparse.Namespace) -> None:
    """Run ``nczarr append``."""
    _run_verb("append", options)


def _run_verb(verb: str, options: argparse.Namespace) -> None:
    sources = _sources(options)
    if not sources:
        # The parser takes a single argument for the target.
        missing = "target" if os.path.exists(options.target) else "source"
        several = "..." if verb != "copy" else ""
        raise UnsupportedError(f"the {missing} is missing", hint=f"nczarr {verb} SOURCE{several} TARGET")
    _run(verb, sources if len(sources) > 1 else sources[0], options)


def _sources(options: argparse.Namespace) -> list[str]:
    """Return the sources of the command line and of ``--files-from``."""
    sources: list[str] = options.source
    if (name := options.files_from) is None:
        return sources
    try:
        # File names on Unix are bytes, which need not be UTF-8.
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
    engine = given_options(options, "scan", PARTS)
    # Few sources are read sooner than processes start.
    if "dask" not in engine and "executor" not in engine and len(found) > _FEW:
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
        # ncdump prints characters in any encoding as they are.
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        dataset = cdl.loads(text, path="<stdin>")
    else:
        # The bytes of a netCDF file would be reported as a syntax error.
        if (kind := kind_of_source(options.source)) == "netcdf" or os.path.isdir(options.source):
            what = "a netCDF file" if kind == "netcdf" else "a directory"
            raise UnsupportedError(
                f"this is {what}, not CDL text", path=options.source, hint="use nczarr copy"
            )
        dataset = cdl.load(options.source)
    _run("gen", dataset, options)

"""Run ``nczarr dump``: convert ncdump's flags to :class:`nczarr.cdl.DumpOptions` and print CDL."""

from __future__ import annotations

import argparse
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TextIO

from nczarr.cli.options import (
    SOURCE,
    add_dimension_option,
    add_progress_options,
    define,
    names_in,
    option,
    selection_of,
    storage_options,
)
from nczarr.cli.terminal import progress_bar
from nczarr.convert import Progress, open_source
from nczarr.convert.change.selecting import select
from nczarr.convert.endpoints import provenance, read_whole, watch_reading
from nczarr.display import shown_location
from nczarr.errors import NCZarrError, StoreError, error_context
from nczarr.formats import local_path
from nczarr.system.atomic import text_output
from nczarr.transfer import NoProgress

if TYPE_CHECKING:
    from nczarr import cdl


def define_dump(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr dump``: the flags of ncdump, and those of nczarr."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "-o --output", "write to a file instead of standard output", "FILE")
    option(parser, "-h --header", "header only, no data")
    option(parser, "-c --coordinates", "header, and data of coordinate variables")
    option(parser, "-v --variables", "data of these variables only", "A,B")
    option(parser, "-g --groups", "data of these groups only", "A,B")
    add_dimension_option(parser)
    option(parser, "-b --brief", "add comments with the indices of each row", choices=["c", "f"])
    option(parser, "-f --full", "add comments with the indices of each value", choices=["c", "f"])
    option(parser, "-l --line-length", "maximum length of a data line", "N", type=int, default=80)
    option(parser, "-n --name", "name of the dataset in the first line", action="store")
    option(parser, "-p --precision", "significant digits of floats and doubles", "F[,D]")
    option(parser, "-t --times", "print times as dates")
    option(parser, "-i --iso-times", "print times as ISO 8601 dates with a T")
    option(parser, "-k --kind", "print the kind of the dataset only")
    option(parser, "-s --special", "also print special virtual attributes (_Storage, …)")
    option(parser, "-F --filters", "with -s: print all filters as one _Filter attribute")
    option(parser, "-x --ncml", "print the header as NcML instead of CDL")
    option(parser, "-w --whole", "for URLs: fetch each variable in one request")
    option(parser, "-X --suppress", "-Xp: with -s, omit _NCProperties", "p", choices=["p"])
    text = "log messages of libraries to standard error: 0 errors, 1 warnings, 2 information, 3 every request"
    option(parser, "-L --log-level", text, "N", type=int)
    option(parser, "--ncdump", "print exactly the output of ncdump, byte for byte")
    add_progress_options(parser)
    define(
        parser,
        run_dump,
        "  nczarr dump run42.zarr\n  nczarr dump -h s3://bucket/run42.zarr\n"
        "  nczarr dump -v time -i -o time.cdl run42.nc\n  nczarr dump -v temp -d time=2020-03 run42.zarr\n",
        lambda options: "xml" if options.ncml else "cdl",
    )


def _digits(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise NCZarrError(f"-p {text!r} is not F or F,D", hint="give one or two numbers of digits: -p 9,17")
    return numbers[0], numbers[1] if len(numbers) == 2 else None


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that replaces `path` when it is complete."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # surrogateescape writes bytes that are not UTF-8 unchanged.
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        with text_output(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write: {error.strerror}", path=path) from error


def run_dump(options: argparse.Namespace) -> None:
    """Run ``nczarr dump``."""
    if len(options.source) > 1 and (options.ncml or options.name is not None):
        flag = "-x" if options.ncml else "-n"
        raise NCZarrError(f"{flag} works with one dataset only, not with {len(options.source)}")
    if options.log_level is not None:
        _log(options.log_level)
    # Show the progress bar only if the output goes to a file.
    bar = progress_bar("none" if options.output is None else options.progress)
    with _output(options.output) as out:
        for number, source in enumerate(options.source):
            if number:
                out.write("\n")
            _dump(source, out, options, bar)


def _dump(source: str, out: TextIO, options: argparse.Namespace, bar: Progress) -> None:
    from nczarr import cdl

    chosen = _chosen(source, options)
    with open_source(source, storage_options=storage_options(options)) as dataset, error_context(source):
        if chosen.name is None:
            place = source.partition("?")[0] if "://" in source else source
            stem = PurePosixPath(place.rstrip("/").partition("#")[0]).stem
            chosen = replace(chosen, name=stem or dataset.name)
        dataset = select(dataset, selection_of(options.dimension))
        if options.whole and local_path(source) is None:
            dataset = read_whole(dataset)
        if isinstance(bar, NoProgress):
            cdl.dump(dataset, out, chosen)
            return
        with watch_reading(dataset, cdl.dumped_variables(dataset, chosen), bar) as watched:
            cdl.dump(watched, out, chosen)


def _chosen(source: str, options: argparse.Namespace) -> cdl.DumpOptions:
    from nczarr import cdl

    floats, doubles = _digits(options.precision)
    hidden = provenance(source) if options.special else ()
    if options.suppress and not options.ncdump:  # ncdump accepts the flag, but prints _NCProperties anyway
        hidden = tuple(a for a in hidden if a.name != "_NCProperties")
    return cdl.DumpOptions(
        header_only=options.header,
        coordinates=options.coordinates,
        variables=names_in(options.variables),
        groups=names_in(options.groups),
        brief=options.brief,
        full=options.full,
        line_length=options.line_length,
        name=options.name,
        float_digits=floats,
        double_digits=doubles,
        times=options.times,
        iso_times=options.iso_times,
        kind=options.kind,
        special=options.special,
        filters=options.filters,
        hidden=hidden,
        ncml=options.ncml,
        location=shown_location(source),
        ncdump=options.ncdump,
    )


def _log(level: int) -> None:
    if level < 0:
        raise NCZarrError(f"-L {level}: the level must not be negative", hint="give a level from 0 to 3")
    levels = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    logging.basicConfig(level=levels[min(level, 3)], format="nczarr: %(name)s: %(message)s", force=True)

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

from nczarr.cli.opening import add_dimension_option, selection_of, storage_options
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


def add_dump_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ncdump, and those of nczarr."""
    parser.add_argument("-h", "--header", action="store_true", help="header only, no data")
    parser.add_argument(
        "-c", "--coordinates", action="store_true", help="header, and data of coordinate variables"
    )
    parser.add_argument("-v", "--variables", metavar="A,B", help="data of these variables only")
    parser.add_argument("-g", "--groups", metavar="A,B", help="data of these groups only")
    add_dimension_option(parser)
    parser.add_argument("-b", "--brief", choices=["c", "f"], help="add comments with the indices of each row")
    parser.add_argument(
        "-f", "--full", choices=["c", "f"], help="add comments with the indices of each value"
    )
    parser.add_argument(
        "-l", "--line-length", type=int, default=80, metavar="N", help="maximum length of a data line"
    )
    parser.add_argument("-n", "--name", help="name of the dataset in the first line")
    parser.add_argument("-p", "--precision", metavar="F[,D]", help="significant digits of floats and doubles")
    parser.add_argument("-t", "--times", action="store_true", help="print times as dates")
    parser.add_argument(
        "-i", "--iso-times", action="store_true", help="print times as ISO 8601 dates with a T"
    )
    parser.add_argument("-k", "--kind", action="store_true", help="print the kind of the dataset only")
    parser.add_argument(
        "-s", "--special", action="store_true", help="also print special virtual attributes (_Storage, …)"
    )
    parser.add_argument(
        "-F", "--filters", action="store_true", help="with -s: print all filters as one _Filter attribute"
    )
    parser.add_argument("-x", "--ncml", action="store_true", help="print the header as NcML instead of CDL")
    parser.add_argument(
        "-w", "--whole", action="store_true", help="for URLs: fetch each variable in one request"
    )
    parser.add_argument(
        "-X",
        "--suppress",
        choices=["p"],
        metavar="p",
        help="-Xp: with -s, omit _NCProperties",
    )
    parser.add_argument(
        "-L",
        "--log-level",
        type=int,
        metavar="N",
        help="log messages of libraries to standard error: 0 errors, 1 warnings, 2 information, 3 every request",
    )
    parser.add_argument(
        "--ncdump", action="store_true", help="print exactly the output of ncdump, byte for byte"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


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


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(",") if part)


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


def shown_as(options: argparse.Namespace) -> str:
    """Return the language of the output, for syntax highlighting."""
    return "xml" if options.ncml else "cdl"


def run_dump(options: argparse.Namespace) -> None:
    """Run ``nczarr dump``."""
    if len(options.source) > 1 and (options.ncml or options.name is not None):
        flag = "-x" if options.ncml else "-n"
        raise NCZarrError(f"{flag} works with one dataset only, not with {len(options.source)}")
    if options.log_level is not None:
        _log(options.log_level)
    # Show the progress bar only if the output goes to a file.
    bar = progress_bar(options.quiet or options.output is None)
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
        variables=_listed(options.variables),
        groups=_listed(options.groups),
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

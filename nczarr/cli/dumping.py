"""Turn ncdump's flags into :class:`nczarr.cdl.DumpOptions` and print."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TextIO

from nczarr.atomic import text_output
from nczarr.cli.commands import storage_options
from nczarr.convert import open_source
from nczarr.convert.edges import provenance
from nczarr.errors import NCZarrError, StoreError


def add_dump_options(parser: argparse.ArgumentParser) -> None:
    """Add ncdump's flags."""
    parser.add_argument("-h", "--header", action="store_true", help="header only, no data")
    parser.add_argument("-c", "--coordinates", action="store_true", help="header and coordinate variables")
    parser.add_argument("-v", "--variables", metavar="A,B", help="data of these variables only")
    parser.add_argument("-g", "--groups", metavar="A,B", help="data of these groups only")
    parser.add_argument("-b", "--brief", choices=["c", "f"], help="comments with the indices of each row")
    parser.add_argument("-f", "--full", choices=["c", "f"], help="comments with the indices of each value")
    parser.add_argument("-l", "--line-length", type=int, default=80, metavar="N", help="longest line of data")
    parser.add_argument("-n", "--name", help="name of the dataset in the first line")
    parser.add_argument("-p", "--precision", metavar="F[,D]", help="significant digits of floats and doubles")
    parser.add_argument("-t", "--times", action="store_true", help="times as dates")
    parser.add_argument("-i", "--iso-times", action="store_true", help="times as dates with a T")
    parser.add_argument("-k", "--kind", action="store_true", help="print the kind of the dataset only")
    parser.add_argument("-s", "--special", action="store_true", help="virtual attributes too (_Storage, …)")
    parser.add_argument("-F", "--filters", action="store_true", help="with -s, all filters in one _Filter")
    parser.add_argument("-x", "--ncml", action="store_true", help="NcML instead of CDL, header only")
    parser.add_argument("--ncdump", action="store_true", help="print byte for byte what ncdump prints")


def _digits(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise NCZarrError(f"-p {text!r} is not F or F,D: one or two numbers of digits")
    return numbers[0], numbers[1] if len(numbers) == 2 else None


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(",") if part)


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Standard output, or a file that gets its name only when it is complete."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Text that is not UTF-8 passes through as the bytes that it is.
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
    """``nczarr dump``."""
    from nczarr import cdl

    floats, doubles = _digits(options.precision)
    chosen = cdl.DumpOptions(
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
        hidden=provenance(options.source) if options.special else (),
        ncml=options.ncml,
        location=options.source,
        ncdump=options.ncdump,
    )
    with open_source(options.source, storage_options=storage_options(options)) as dataset:
        if chosen.name is None:
            stem = PurePosixPath(options.source.rstrip("/").partition("#")[0]).stem
            chosen = replace(chosen, name=stem or dataset.name)
        with _output(options.output) as out:
            cdl.dump(dataset, out, chosen)

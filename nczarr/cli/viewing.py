"""Run ``nczarr plot`` and ``nczarr view``."""

from __future__ import annotations

import argparse
import sys

from nczarr.cli.opening import refuse_twice, storage_options
from nczarr.display import shown_location
from nczarr.errors import NCZarrError

_SOURCE = "a Zarr hierarchy (path or URL), a netCDF file, or a CDL file (.cdl)"

PLOTTING = """\
  nczarr plot run.nc temp -o map.png                the first step and level
  nczarr plot run.zarr /ocean/temp -d time=2020-03 -d depth=0 -o map.svg
  nczarr plot run.nc temp -d lat=10 -d lon=20       on the terminal: time by depth"""
VIEWING = """\
  nczarr view run.zarr
  nczarr view run.zarr /ocean/temp -d time=2020-03
  nczarr view s3://bucket/run.zarr --no-open --port 8000"""


def add_plot_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr plot``."""
    parser.add_argument("source", metavar="DATASET", help=_SOURCE)
    parser.add_argument("variable", metavar="VARIABLE", help="name or full name: temp, /ocean/temp")
    _add_step_option(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="png, svg, pdf, jpg or webp (default: draw on the terminal)"
    )
    parser.add_argument("--colours", "--colors", metavar="MAP", help="name of a matplotlib colour map")
    parser.add_argument(
        "--limits",
        metavar="LOW,HIGH",
        help="values of the first and the last colour; either may be omitted",
    )
    parser.add_argument("--dpi", type=int, default=150, metavar="N", help="pixels per inch (default: 150)")


def _add_step_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-d",
        "--dimension",
        action="append",
        default=[],
        metavar="NAME=INDEX",
        help="position on a dimension that is not drawn: an index from 0 (negative: from the end), a value with a "
        "decimal point, or for times a date or a year: time=2020-03; # marks an index: time=#2001; may be repeated",
    )


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``nczarr view``."""
    parser.add_argument("source", metavar="DATASET", help=_SOURCE)
    parser.add_argument("variable", metavar="VARIABLE", nargs="?", help="the variable to show first")
    _add_step_option(parser)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port (default: any free port)")
    parser.add_argument("--no-open", action="store_true", help="print the address, but do not open a browser")


def run_plot(options: argparse.Namespace) -> None:
    """Run ``nczarr plot``."""
    from nczarr.view.plotting import plot

    if options.output is None and not sys.stdout.isatty():
        raise NCZarrError("standard output is not a terminal", hint="write a file: -o map.png")
    data = plot(
        options.source,
        options.variable,
        options.output,
        at=_steps(options.dimension),
        colours=options.colours,
        limits=_limits(options.limits),
        dpi=options.dpi,
        storage_options=storage_options(options),
    )
    if options.output is None:
        from nczarr.view.plotting import show_image

        show_image(data)


def _steps(items: list[str]) -> dict[str, str]:
    steps: dict[str, str] = {}
    for item in items:
        name, equals, index = item.rpartition("=")
        if not equals or not name or not index:
            raise NCZarrError(f"-d {item!r} is not NAME=INDEX", hint="for example -d time=0")
        refuse_twice([*steps, name], "-d")
        steps[name] = index
    return steps


def _limits(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    low, comma, high = text.partition(",")
    try:
        limits = [float(part) if part.strip() else None for part in (low, high)]
    except ValueError:
        limits = []
    if not comma or len(limits) != 2:
        raise NCZarrError(f"--limits {text!r} is not LOW,HIGH", hint="for example --limits 0,10")
    return limits[0], limits[1]


def run_view(options: argparse.Namespace) -> None:
    """Run ``nczarr view``."""
    from nczarr.view import serve

    with serve(
        options.source,
        variable=options.variable,
        at=_steps(options.dimension),
        port=options.port,
        open_browser=not options.no_open,
        storage_options=storage_options(options),
    ) as page:
        print(f"Serving {shown_location(options.source)} at {page.url}", flush=True)
        print("Press Ctrl-C to stop.", flush=True)
        page.wait()

"""Run ``nczarr plot`` and ``nczarr view``."""

from __future__ import annotations

import argparse
import sys

from nczarr.cli.options import SOURCE, define, option, pairs_in, storage_options
from nczarr.display import shown_location
from nczarr.errors import NCZarrError


def define_plot(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr plot``."""
    option(parser, "source", SOURCE, "DATASET")
    option(parser, "variable", "name or full name: temp, /ocean/temp", "VARIABLE")
    _add_step_option(parser)
    text = "png, svg, pdf, jpg or webp; gif or mp4 with a frame for each step (default: draw on the terminal)"
    option(parser, "-o --output", text, "FILE")
    option(parser, "--colours --colors", "name of a matplotlib colour map", "MAP")
    option(parser, "--limits", "values of the first and the last colour; either may be omitted", "LOW,HIGH")
    text = "values that these limits take in: of this step, of all steps of its level, or of all (default: of the step)"
    option(parser, "--of", text, "step|level|all", choices=("step", "level", "all"), default="step")
    text = (
        "the limits are the 2nd and the 98th percentile (default: only where a few values spoil the picture)"
    )
    option(parser, "--robust", text)
    option(
        parser, "--log", "a logarithmic scale of colours (default: for concentrations such as chlorophyll)"
    )
    option(parser, "--linear", "a linear scale of colours")
    text = "plate carrée, orthographic, north polar, south polar, Robinson or Mollweide (default: that of the grid)"
    option(parser, "--projection", text, "NAME", default="")
    option(parser, "--contours", "draw contours above the picture")
    option(parser, "--vectors", "draw arrows of a pair of components, such as u and v")
    text = "coastlines of a map: GeoJSON or a shapefile (default: Natural Earth at 1:110 million)"
    option(parser, "--coast", text, "FILE")
    option(parser, "--over", "dimension of the frames of gif and mp4 (default: the first)", "DIMENSION")
    option(parser, "--dpi", "pixels per inch (default: 150)", "N", type=int, default=150)
    define(
        parser,
        run_plot,
        """\
  nczarr plot run.nc temp -o map.png                the first step and level
  nczarr plot run.zarr /ocean/temp -d time=2020-03 -d depth=0 -o map.svg
  nczarr plot run.nc temp -d lat=10 -d lon=20       on the terminal: time by depth""",
    )


def define_view(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr view``."""
    option(parser, "source", SOURCE, "DATASET")
    option(parser, "variable", "the variable to show first", "VARIABLE", nargs="?")
    _add_step_option(parser)
    text = "another dataset, shown as a group beside the first; may be repeated"
    option(parser, "--beside", text, "DATASET", action="append", default=[])
    option(parser, "--port", "port (default: any free port)", "N", type=int, default=0)
    option(parser, "--no-open", "print the address, but do not open a browser")
    define(
        parser,
        run_view,
        """\
  nczarr view run.zarr
  nczarr view run.zarr /ocean/temp -d time=2020-03
  nczarr view run.zarr --beside control.zarr          compare variables of two datasets
  nczarr view s3://bucket/run.zarr --no-open --port 8000""",
    )


def _add_step_option(parser: argparse.ArgumentParser) -> None:
    text = (
        "position on a dimension that is not drawn: an index from 0 (negative: from the end), a value with a decimal "
        "point, or for times a date or a year: time=2020-03; # marks an index: time=#2001; may be repeated"
    )
    option(parser, "-d --dimension", text, "NAME=INDEX", action="append", default=[])


def run_plot(options: argparse.Namespace) -> None:
    """Run ``nczarr plot``."""
    from nczarr.view.plotting import PlotOptions, drawn, plot

    # A pipe has no size to draw for.
    if options.output is None and not sys.stdout.isatty():
        raise NCZarrError("standard output is not a terminal", hint="write a file: -o map.png")
    arguments = {
        "at": pairs_in(options.dimension, "-d", "NAME=INDEX", "time=0"),
        "colours": options.colours,
        "limits": _limits(options.limits),
        "projection": options.projection,
        "overlay": [name for name in ("contours", "vectors") if getattr(options, name)],
        "of": options.of,
        "coast": options.coast,
        "reach": "robust" if options.robust else "",
        "progression": "log" if options.log else "linear" if options.linear else "",
        "storage_options": storage_options(options),
    }
    if options.output is not None:
        over = {"over": options.over, "dpi": options.dpi}
        plot(options.source, options.variable, options.output, **arguments, **over)
        return
    from nczarr.view.terminal import show

    with drawn(options.source, options.variable, PlotOptions(**arguments)) as (drawings, colours):
        show(next(drawings), colours)


def _limits(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    low, comma, high = text.partition(",")
    try:
        limits = [float(part) if part.strip() else None for part in (low, high)]
    except ValueError:
        comma = ""
    if not comma:
        raise NCZarrError(f"--limits {text!r} is not LOW,HIGH", hint="for example --limits 0,10")
    return limits[0], limits[1]


def run_view(options: argparse.Namespace) -> None:
    """Run ``nczarr view``."""
    from nczarr.view import serve

    with serve(
        [options.source, *options.beside] if options.beside else options.source,
        variable=options.variable,
        at=pairs_in(options.dimension, "-d", "NAME=INDEX", "time=0"),
        port=options.port,
        open_browser=not options.no_open,
        storage_options=storage_options(options),
    ) as page:
        # Flushed: a program that has started the viewer waits for the address in a pipe.
        print(f"Serving {shown_location(options.source)} at {page.url}", flush=True)
        print("Press Ctrl-C to stop.", flush=True)
        page.wait()

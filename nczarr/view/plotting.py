"""Draw a variable with matplotlib to an image file or on the terminal."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nczarr.display import visible
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import Dataset
from nczarr.system.atomic import partial_path
from nczarr.view.opened import OpenedDataset
from nczarr.view.picture.colours import (
    DIVERGING,
    MISSING,
    SEQUENTIAL,
    Colours,
    adjust_colours,
    choose_colours,
)
from nczarr.view.picture.drawer import Drawer
from nczarr.view.picture.drawings import Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.grids import coastlines
from nczarr.view.picture.selection import select

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK = "#222222"
_DAY = 86_400_000.0
FORMATS = ("png", "svg", "pdf", "jpg", "webp")


def plot(
    source: object,
    variable: str,
    output: str | Path | None = None,
    *,
    at: Mapping[str, int | str] | None = None,
    colours: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    dpi: int = 150,
    storage_options: Mapping[str, object] | None = None,
) -> bytes:
    """Draw a variable as a line, an image or a map.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Any source that nczarr reads.
    variable : str
        Name or FQN of the variable, such as ``/ocean/temp``.
    output : path, optional
        The file to write; its suffix selects the format (png, svg, pdf, jpg, webp).
    at : mapping, optional
        Positions by dimension name: an index, or a string with the syntax of the command line (an index, a value with
        a decimal point, or a date). Other dimensions are drawn, or fixed at index 0.
    colours : str, optional
        Name of a matplotlib colour map; default: chosen from the variable.
    limits : (float or None, float or None)
        Values of the first and the last colour.
    dpi : int
        Pixels per inch.
    storage_options : mapping, optional
        Options for remote stores.

    Returns
    -------
    bytes
        The image file (PNG if `output` is None).

    Raises
    ------
    NCZarrError
        If the dataset, variable, dimension, index, format or colour map does not exist.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d { dimensions: y = 2; x = 3; variables: int v(y, x); data: v = 1, 2, 3, 4, 5, 6; }"
    >>> plot(cdl.loads(text), "v")[1:4]
    b'PNG'
    """
    try:
        from matplotlib import colormaps
    except ImportError:
        raise UnsupportedError("plotting needs matplotlib", hint="pip install matplotlib scipy") from None

    format_ = "png" if output is None else Path(output).suffix.lstrip(".").lower()
    if format_ not in FORMATS:
        raise UnsupportedError(
            f"unknown image format {format_!r}" if format_ else "the output file has no suffix",
            path=str(output),
            hint=f"use one of the suffixes {', '.join(FORMATS)}",
        )
    if colours is not None and colours not in colormaps:
        near = get_close_matches(colours, list(colormaps), 1) or [*SEQUENTIAL[:3], *DIVERGING[:1]]
        raise UnsupportedError(f"there is no colour map {colours!r}", hint=f"try {', '.join(near)}")
    with OpenedDataset(source, storage_options) as opened:
        drawer = Drawer(opened)
        fqn = find_variable(opened.model, variable)
        drawing = drawer.draw(select(opened, drawer.coordinates, fqn, as_texts(at)))
        chosen = choose_colours(opened.variable(fqn), drawing.sample)
        data = to_image(drawing, adjust_colours(chosen, colours, *limits), format=format_, dpi=dpi)
    if output is not None:
        partial = partial_path(str(output))
        try:
            partial.write_bytes(data)
            partial.replace(output)
        finally:
            partial.unlink(missing_ok=True)
    return data


def as_texts(at: Mapping[str, int | str] | None) -> dict[str, str]:
    """Return positions with the syntax of the command line; ``#`` marks an index, so that it is not read as a year.

    Examples
    --------
    >>> as_texts({"depth": 3, "time": "2001"})
    {'depth': '#3', 'time': '2001'}
    """
    return {name: i if isinstance(i, str) else f"#{index(i)}" for name, i in (at or {}).items()}


def find_variable(dataset: Dataset, name: str) -> str:
    """Return the FQN of a variable, from its FQN or its simple name.

    Raises
    ------
    ModelError
        If there is no such variable, or several variables have the simple name.

    Examples
    --------
    >>> from nczarr import cdl
    >>> find_variable(cdl.loads("netcdf d { group: g { variables: int v; } }"), "v")
    '/g/v'
    """
    variables = dataset.all_variables
    for fqn in (name, f"/{name}"):
        if fqn in variables:
            return fqn
    same = [fqn for fqn, variable in variables.items() if variable.name == name]
    if len(same) == 1:
        return same[0]
    if same:
        hint = f"give a full name: {', '.join(same[:5])}"
        raise ModelError(f"there are {len(same)} variables {name!r}", hint=hint)
    near = get_close_matches(name, [*variables, *(v.name for v in variables.values())], 1)
    listed = f"the variables are {', '.join(list(variables)[:8])}" if variables else "there are no variables"
    hint = f"did you mean {near[0]!r}?" if near else listed
    raise ModelError(f"there is no variable {name!r}", hint=hint)


def to_image(drawing: Drawing, colours: Colours, *, format: str = "png", dpi: int = 150) -> bytes:
    """Draw a drawing as an image file, and return its bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.BytesIO()
    # Disable mathematical notation ($), and ignore warnings about missing glyphs and extreme values.
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(figsize=_size(drawing), dpi=dpi, layout="constrained")
        axes = figure.add_subplot()
        if isinstance(drawing, Picture):
            _draw_picture(axes, drawing, colours)
        elif isinstance(drawing, Line):
            _draw_line(axes, drawing, colours)
        elif isinstance(drawing, Table):
            _draw_table(axes, drawing)
        axes.set_title(_printable(drawing.title), loc="left", fontsize=11, color=_INK, fontweight="bold")
        axes.set_title(_printable(drawing.where), loc="right", fontsize=8, color="#555555")
        figure.savefig(out, format=format)
    return out.getvalue()


def _printable(text: str) -> str:
    return visible(text[:120] + ("…" if len(text) > 120 else ""))


def _size(drawing: Drawing) -> tuple[float, float]:
    if isinstance(drawing, Picture) and drawing.is_map:
        e = drawing.extent
        ratio = (e.top - e.bottom) / max(e.right - e.left, 1e-9)
        width = 9.0 if ratio < 0.8 else 6.0
        return width, float(np.clip((width - 1.4) * ratio + 1.0, 2.5, 9.0))
    return 8.0, 4.5


def _draw_picture(axes: Axes, picture: Picture, colours: Colours) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap, Normalize

    e = picture.extent
    x_ends, y_ends = _dates(picture.x, (e.left, e.right)), _dates(picture.y, (e.bottom, e.top))
    axes.set_facecolor(MISSING)
    colour_map = ListedColormap(colours.palette)
    scale = Normalize(colours.low, colours.high)
    axes.imshow(
        colours.numbered(picture.pixels),
        origin="lower",
        extent=(*x_ends, *y_ends),
        cmap=colour_map,
        norm=scale,
        aspect="equal" if picture.is_map else "auto",
        interpolation="none",
    )
    if picture.is_map:
        axes.add_collection(LineCollection(coastlines(e), colors="#202020", linewidths=0.6))
        axes.set_xlim(*x_ends)
        axes.set_ylim(*y_ends)
    assert axes.figure is not None
    beside = axes.inset_axes((1.02, 0, 0.022, 1))
    bar = axes.figure.colorbar(ScalarMappable(scale, colour_map), cax=beside)
    bar.outline.set_visible(False)
    bar.set_label(_printable(picture.label), fontsize=9)
    if colours.categories:
        bar.set_ticks(range(len(colours.categories)), labels=[_printable(c.name) for c in colours.categories])
    bar.ax.tick_params(labelsize=8)
    _style(axes, picture.x, picture.y)


def _draw_line(axes: Axes, line: Line, colours: Colours) -> None:
    places = _dates(line.x, line.places)
    values = colours.numbered(np.ma.asanyarray(line.sample))
    is_profile = line.x.down and not colours.categories  # draw the depth as the vertical axis
    axes.plot(
        *((values, places) if is_profile else (places, values)),
        color="#0b7285",
        linewidth=1.4,
        marker="o" if len(line.places) <= 100 else "",
        markersize=3,
        drawstyle="steps-mid" if colours.categories else "default",
    )
    if colours.categories:
        axes.set_yticks(range(len(colours.categories)), [_printable(c.name) for c in colours.categories])
    scales = (line.x, Scale(line.label))
    _style(axes, *(scales[::-1] if is_profile else scales))
    axes.grid(color="#e3e3e3", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_table(axes: Axes, table: Table) -> None:
    axes.axis("off")
    rows = table.rows[:20]
    text = "\n".join(f"{label}  {value}"[:100] for label, value in rows) or "no values"
    more = len(table.rows) + table.left_out - len(rows)
    if more > 0:
        text += f"\n… {more:,} more"
    lines = [_printable(line) for line in text.split("\n")]
    axes.text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=9, transform=axes.transAxes)


def _dates(scale: Scale, numbers: np.ndarray | tuple[float, float]) -> np.ndarray:
    """Return numbers on a scale as matplotlib's numbers: it counts days since 1970."""
    return np.asarray(numbers) / (_DAY if scale.kind == "date" else 1.0)


def _style(axes: Axes, x: Scale, y: Scale) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for scale, axis, ends in ((x, axes.xaxis, axes.set_xlim), (y, axes.yaxis, axes.set_ylim)):
        if scale.kind == "date":
            locator = AutoDateLocator()
            axis.set_major_locator(locator)
            axis.set_major_formatter(ConciseDateFormatter(locator))
        elif scale.kind == "named":
            axis.set_ticks([n for n, _ in scale.names], labels=[_printable(t) for _, t in scale.names])
        if scale.down:
            low, high = sorted(axis.get_view_interval())
            ends(high, low)
        axis.set_label_text(_printable(scale.label), fontsize=9)
        axis.set_tick_params(labelsize=8)
    if x.kind == "named":
        axes.tick_params(axis="x", rotation=30)


def show_image(data: bytes) -> None:
    """Show an image file on standard output, at the width of the terminal.

    Parameters
    ----------
    data : bytes
        A PNG file.

    Raises
    ------
    UnsupportedError
        If the size of the terminal is unknown.
    """
    if not os.get_terminal_size(sys.stdout.fileno()).columns:
        raise UnsupportedError("the size of the terminal is unknown", hint="write a file: -o map.png")
    from PIL import Image as ImageFile
    from rich.console import Console
    from textual_image.renderable import Image

    console = Console(file=sys.stdout)
    with ImageFile.open(io.BytesIO(data)) as image:
        console.print(Image(image.convert("RGB"), width=min(console.width, 110), height="auto"))

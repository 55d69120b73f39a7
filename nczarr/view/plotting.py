"""Draw a variable with matplotlib to an image file or on the terminal."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nczarr.display import visible
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import Dataset
from nczarr.system.atomic import partial_path
from nczarr.view.coordinates import Coordinates
from nczarr.view.opened import OpenedDataset
from nczarr.view.picture.colours import (
    DIVERGING,
    MISSING,
    SEQUENTIAL,
    Colours,
    adjust_colours,
    choose_colours,
    palette,
)
from nczarr.view.picture.drawer import Drawer
from nczarr.view.picture.drawings import MOST_CURVES, Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.grids import map_lines
from nczarr.view.picture.overlays import with_overlay
from nczarr.view.picture.selection import select
from nczarr.view.planes import PROJECTIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_INK, _COAST = "#222222", "#202020"
_DAY = 86_400_000.0
#: Frames of a film in a second.
_FRAMES = 7
#: Formats of still pictures, and of those with a frame for each step.
FORMATS, FILMS = ("png", "svg", "pdf", "jpg", "webp"), ("gif", "mp4")


@contextmanager
def drawn(
    source: object,
    variable: str,
    at: Mapping[str, int | str] | None = None,
    colours: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    projection: str = "",
    overlay: Sequence[str] = (),
    over: str | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Iterator[tuple[Iterator[Drawing], Colours]]:
    """Yield the drawings of a variable and their colours: one drawing, or one for each step of the dimension `over`.

    The parameters are those of :func:`plot`.
    """
    try:
        from matplotlib import colormaps
    except ImportError:
        raise UnsupportedError("plotting needs matplotlib", hint="pip install matplotlib scipy") from None
    if colours is not None and colours not in colormaps:
        near = get_close_matches(colours, list(colormaps), 1) or [*SEQUENTIAL[:3], *DIVERGING[:1]]
        raise UnsupportedError(f"there is no colour map {colours!r}", hint=f"try {', '.join(near)}")
    if projection and projection not in PROJECTIONS:
        raise UnsupportedError(
            f"there is no projection {projection!r}", hint=f"one of {', '.join(PROJECTIONS)}"
        )
    with OpenedDataset(source, storage_options) as opened:
        drawer = Drawer(opened)
        fqn = find_variable(opened.model, variable)
        selection = replace(select(opened, drawer.coordinates, fqn, as_texts(at)), projection=projection)
        steps = {selection.axes[i].name: i for i in selection.fixed if selection.axes[i].size > 1}
        if over is not None and over not in steps:
            hint = (
                f"the dimensions are {', '.join(steps)}"
                if steps
                else "all dimensions are drawn, or have one step"
            )
            raise UnsupportedError(f"there are no steps of {over!r}", fqn=fqn, hint=hint)
        first = drawer.draw(selection)
        spread = drawer.spread(first) if over is not None else None
        values = first.sample if spread is None else np.ma.array([spread.low, spread.high])
        chosen = adjust_colours(choose_colours(opened.variable(fqn), values), colours, *limits)

        def draw() -> Iterator[Drawing]:
            count = 1 if over is None else selection.axes[steps[over]].size
            for index in range(count):
                drawing = first if over is None else drawer.draw(selection.moved(steps[over], index))
                if overlay and isinstance(drawing, Picture):
                    drawing = with_overlay(drawer, drawing, tuple(overlay), chosen.low, chosen.high)
                yield drawing

        yield draw(), chosen


def plot(
    source: object,
    variable: str,
    output: str | Path | None = None,
    *,
    at: Mapping[str, int | str] | None = None,
    colours: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    projection: str = "",
    overlay: Sequence[str] = (),
    over: str | None = None,
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
        The file to write; its suffix selects the format (png, svg, pdf, jpg, webp, gif, mp4).
    at : mapping, optional
        Positions by dimension name: an index, or a string with the syntax of the command line (an index, a value with
        a decimal point, or a date). Other dimensions are drawn, or fixed at index 0; a vertical one at the surface.
    colours : str, optional
        Name of a matplotlib colour map; default: chosen from the variable.
    limits : (float or None, float or None)
        Values of the first and the last colour.
    projection : str
        Projection of a map: plate carrée, orthographic, north polar, south polar, Robinson or Mollweide; default: that
        of the grid.
    overlay : sequence of str
        Lines above a picture: ``contours``, ``vectors`` (arrows of a pair such as u and v), or both.
    over : str, optional
        The dimension with a frame for each step, for gif and mp4; default: the first that is not drawn.
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
        If the dataset, variable, dimension, index, format, projection or colour map does not exist.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d { dimensions: y = 2; x = 3; variables: int v(y, x); data: v = 1, 2, 3, 4, 5, 6; }"
    >>> plot(cdl.loads(text), "v")[1:4]
    b'PNG'
    """
    format_ = "png" if output is None else Path(output).suffix.lstrip(".").lower()
    if format_ not in (*FORMATS, *FILMS):
        raise UnsupportedError(
            f"unknown image format {format_!r}" if format_ else "the output file has no suffix",
            path=str(output),
            hint=f"use one of the suffixes {', '.join((*FORMATS, *FILMS))}",
        )
    if format_ in FILMS and over is None:
        with OpenedDataset(source, storage_options) as opened:
            chosen = select(opened, Coordinates(opened), find_variable(opened.model, variable), as_texts(at))
            moving = (chosen.axes[i] for i in chosen.fixed if chosen.axes[i].name not in (at or {}))
            over = next((axis.name for axis in moving if axis.size > 1), "")
    elif format_ not in FILMS:
        over = None
    options = (at, colours, limits, projection, overlay, over, storage_options)
    with drawn(source, variable, *options) as (drawings, shown):
        data = (
            to_film(drawings, shown, format_, dpi) if over else to_image(next(drawings), shown, format_, dpi)
        )
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


def to_image(drawing: Drawing, colours: Colours, format: str = "png", dpi: int = 150) -> bytes:
    """Draw a drawing as an image file, and return its bytes."""
    out = io.BytesIO()
    with _figure(drawing, dpi) as figure:
        _draw(figure, drawing, colours)
        figure.savefig(out, format=format)
    return out.getvalue()


def to_film(drawings: Iterator[Drawing], colours: Colours, format: str, dpi: int = 100) -> bytes:
    """Draw a frame for each drawing, and return the bytes of a GIF or MP4 file."""
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if format == "mp4" and not FFMpegWriter.isAvailable():
        raise UnsupportedError("an MP4 file needs ffmpeg", hint="install ffmpeg, or write a GIF: -o film.gif")
    writer = (FFMpegWriter if format == "mp4" else PillowWriter)(fps=_FRAMES)
    first = next(drawings)
    with tempfile.TemporaryDirectory() as folder, _figure(first, dpi) as figure:
        path = Path(folder, f"film.{format}")
        with writer.saving(figure, path, dpi):
            for drawing in chain((first,), drawings):
                figure.clear()
                _draw(figure, drawing, colours)
                writer.grab_frame()
        return path.read_bytes()


@contextmanager
def _figure(drawing: Drawing, dpi: int) -> Iterator[Figure]:
    """Yield an empty figure, without mathematical notation ($) and warnings about glyphs and extreme values."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(figsize=_size(drawing), dpi=dpi, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def _draw(figure: Figure, drawing: Drawing, colours: Colours) -> None:
    axes = figure.add_subplot()
    if isinstance(drawing, Picture):
        _draw_picture(axes, drawing, colours)
    elif isinstance(drawing, Line):
        _draw_line(axes, drawing, colours)
    elif isinstance(drawing, Table):
        _draw_table(axes, drawing)
    if drawing.notes and not isinstance(drawing, Table) and not drawing.sample.count():
        axes.set_xlabel(_printable(drawing.notes[0]), fontsize=9)
    title = drawing.title[: max(100 - len(drawing.where), 40)]
    axes.set_title(_printable(title), loc="left", fontsize=11, color=_INK, fontweight="bold")
    axes.set_title(_printable(drawing.where), loc="right", fontsize=8, color="#555555")


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
    coasts = map_lines(picture.grid.plane, e) if picture.grid.plane is not None else ([], [])
    over = [
        np.stack((_dates(picture.x, o[:, 0]), _dates(picture.y, o[:, 1])), axis=-1) for o in picture.overlay
    ]
    for lines, width in zip((*coasts, over), (0.6, 0.25, 0.8)):
        axes.add_collection(LineCollection(lines, colors=_COAST, linewidths=width), autolim=False)
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
    for (name, part), colour in zip(line.curves[:MOST_CURVES], palette("tab10", 10)):
        axes.plot(
            *((values[part], places[part]) if is_profile else (places[part], values[part])),
            color=colour if line.instances else "#0b7285",
            label=_printable(name)[:30],
            linewidth=1.4,
            marker="o" if len(line.places) <= 100 else "",
            markersize=3,
            drawstyle="steps-mid" if colours.categories else "default",
        )
    if line.instances:
        axes.legend(fontsize=8, frameon=False)
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

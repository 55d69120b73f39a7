"""Draw a variable with matplotlib to an image file."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from operator import index
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from nczarr.display import visible
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import Dataset
from nczarr.model.typed import fqn_of_typed, is_named, similar_name, typed, unescape
from nczarr.options import named
from nczarr.system.atomic import Output
from nczarr.system.failures import writing
from nczarr.text import missing_package, nearest_name
from nczarr.view.opened import OpenedDataset
from nczarr.view.picture.colours import (
    DIVERGING,
    MISSING,
    SEQUENTIAL,
    Colours,
    Progression,
    Reach,
    choose_colours,
    colour_maps,
)
from nczarr.view.picture.drawer import Drawer, with_overlay
from nczarr.view.picture.drawings import HALO, Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.map_lines import read_coast
from nczarr.view.picture.selection import Hyperslab, select
from nczarr.view.planes import PROJECTIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The steps whose values the limits of the colours take in.
Steps = Literal["step", "level", "all"]
_Drawings = tuple[Iterator[Drawing], Colours]
_INK = "#222222"
_DAY = 86_400_000.0
#: Longer names of ticks are slanted, and longer titles have several lines.
_LONG_NAME, _LONG_TITLE = 8, 80
#: Frames of a film in a second.
_FRAMES = 7
#: Formats of still pictures, and of those with a frame for each step.
FORMATS, FILMS = ("png", "svg", "pdf", "jpg", "webp"), ("gif", "mp4")


@dataclass(frozen=True)
class PlotOptions:
    """The options of a picture; see :func:`plot`."""

    at: Mapping[str, int | str] | None = None
    colours: str | None = None
    limits: tuple[float | None, float | None] = (None, None)
    projection: str = ""
    overlay: Sequence[str] = ()
    over: str | None = None
    storage_options: Mapping[str, object] | None = None
    of: Steps = "step"
    reach: Reach = ""
    progression: Progression = ""
    coast: str | Path | None = None

    def __post_init__(self) -> None:
        """Refuse colours and projections that do not exist, and a missing matplotlib."""
        for name, value, known in (
            ("of", self.of, get_args(Steps)),
            ("reach", self.reach, get_args(Reach)),
            ("progression", self.progression, get_args(Progression)),
        ):
            if value not in known:
                words = ", ".join(repr(word) for word in known if word)
                raise UnsupportedError(
                    f"{named(name, value)}: there is no such choice", hint=f"one of {words}"
                )
        try:
            colormaps = colour_maps()
        except ImportError:
            raise UnsupportedError(
                "plotting needs matplotlib and cmocean",
                hint=missing_package("matplotlib cmocean scipy", "view"),
            ) from None
        if self.colours is not None and self.colours not in colormaps:
            near = nearest_name(self.colours, colormaps)
            some = [*SEQUENTIAL[:3], *DIVERGING[:1]] if near is None else [near]
            raise UnsupportedError(f"there is no colour map {self.colours!r}", hint=f"try {', '.join(some)}")
        if self.projection and self.projection not in PROJECTIONS:
            hint = f"one of {', '.join(PROJECTIONS)}"
            raise UnsupportedError(f"there is no projection {self.projection!r}", hint=hint)


@contextmanager
def drawn(source: object, variable: str, options: PlotOptions, *, moves: bool = False) -> Iterator[_Drawings]:
    """Yield the drawings of a variable and their colours: one drawing, or if it `moves`, one for each step."""
    with OpenedDataset(source, options.storage_options) as opened:
        coast = None if options.coast is None else read_coast(options.coast)
        drawer, fqn = Drawer(opened, coast), find_variable(opened.model, variable)
        selection = select(drawer.coordinates, fqn, as_texts(options.at))
        selection = replace(selection, projection=options.projection)
        axis = _moving_axis(selection, options) if moves else None
        first = drawer.draw(selection)
        is_step = axis is None and options.of == "step"
        spread = None if is_step else drawer.spread(first, of_level=options.of == "level")
        values = first.sample if spread is None else spread.range
        chosen = choose_colours(opened.variable(fqn), values, options.reach, options.progression)
        colours = chosen.adjusted(options.colours, *options.limits)

        def draw() -> Iterator[Drawing]:
            for step in range(1 if axis is None else selection.axes[axis].size):
                drawing = first if axis is None else drawer.draw(selection.moved(axis, step))
                if options.overlay and isinstance(drawing, Picture):
                    drawing = with_overlay(drawer, drawing, options.overlay, colours)
                yield drawing

        yield draw(), colours


def _moving_axis(selection: Hyperslab, options: PlotOptions) -> int | None:
    """Return the axis with a frame for each step: the given one, or the first that is not drawn."""
    axes = selection.axes
    steps = {axes[i].name: i for i in selection.fixed if axes[i].size > 1}
    if options.over is None:
        return next((i for name, i in steps.items() if name not in (options.at or {})), None)
    over = unescape(options.over)
    if over not in steps:
        given = ", ".join(steps)
        hint = f"the dimensions are {given}" if given else "all dimensions are drawn, or have one step"
        raise UnsupportedError(f"there are no steps of {options.over!r}", fqn=selection.fqn, hint=hint)
    return steps[over]


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
    of: Steps = "step",
    reach: Reach = "",
    progression: Progression = "",
    coast: str | Path | None = None,
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
    of : {'step', 'level', 'all'}
        The limits of the colours are those of this step, of all steps of its level, or of all steps and levels. A film
        has the limits of its level or of all.
    reach : {'', 'whole', 'robust'}
        Which values are between the limits: all, or those between the second and the 98th percentile. By default all,
        but where a few are so far from the others that these would have one colour.
    progression : {'', 'linear', 'log'}
        Equal steps of colour are equal differences or equal ratios; by default ratios for concentrations, such as
        chlorophyll, over two decades and more.
    coast : path, optional
        GeoJSON or shapefile of the coastlines of a map; default: those of Natural Earth at 1:110 million.
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
        problem = f"unknown image format {format_!r}" if format_ else "the output file has no suffix"
        hint = f"use one of the suffixes {', '.join((*FORMATS, *FILMS))}"
        raise UnsupportedError(problem, path=str(output), hint=hint)
    options = PlotOptions(
        at, colours, limits, projection, overlay, over, storage_options, of, reach, progression, coast
    )
    with drawn(source, variable, options, moves=format_ in FILMS) as (drawings, shown):
        data = to_file(drawings, shown, format_, dpi)
    if output is not None:
        # A picture that fails half-way must not replace the one before.
        with writing(str(output)):
            file = Output(output)
            try:
                with file.open() as content:
                    content.write(data)
                file.commit()
            finally:
                file.discard()
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
    same = [fqn for fqn in variables if is_named(fqn, name)]
    exact = [fqn for fqn in [fqn_of_typed(name)] if fqn in variables]
    if exact or len(same) == 1:
        return (exact or same)[0]
    shown = [typed(fqn) for fqn in variables]
    listed = f"the variables are {', '.join(shown[:8])}" if variables else "there are no variables"
    hint = similar_name(name, variables) or listed
    if same:
        hint = f"give a full name: {', '.join(map(typed, same[:5]))}"
    problem = f"there are {len(same)} variables" if same else "there is no variable"
    raise ModelError(f"{problem} {name!r}", hint=hint)


def to_file(drawings: Iterator[Drawing], colours: Colours, format: str, dpi: int = 150) -> bytes:
    """Draw a picture of the first drawing, or a film with a frame for each, and return the bytes of the file."""
    from matplotlib.animation import FFMpegWriter, PillowWriter

    first = next(drawings)
    if format not in FILMS:
        return to_image(first, colours, format, dpi)
    # matplotlib would fail in the middle of a film.
    if format == "mp4" and not FFMpegWriter.isAvailable():
        raise UnsupportedError("an MP4 file needs ffmpeg", hint="install ffmpeg, or write a GIF: -o film.gif")
    writer = (FFMpegWriter if format == "mp4" else PillowWriter)(fps=_FRAMES)
    with tempfile.TemporaryDirectory() as folder, _figure(first, dpi) as figure:
        path = Path(folder, f"film.{format}")
        # A film is written frame by frame, so that its frames are never in memory together.
        with writer.saving(figure, path, dpi):
            for drawing in chain((first,), drawings):
                figure.clear()
                _draw(figure, drawing, colours)
                writer.grab_frame()
        return path.read_bytes()


def to_image(drawing: Drawing, colours: Colours, format: str = "png", dpi: int = 150) -> bytes:
    """Draw a drawing as an image file, and return its bytes."""
    out = io.BytesIO()
    with _figure(drawing, dpi) as figure:
        _draw(figure, drawing, colours)
        figure.savefig(out, format=format)
    return out.getvalue()


@contextmanager
def _figure(drawing: Drawing, dpi: int) -> Iterator[Figure]:
    """Yield an empty figure, without mathematical notation ($) and warnings about glyphs and extreme values."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    size = (8.0, 4.5)
    if isinstance(drawing, Picture) and drawing.is_map:
        e = drawing.extent
        ratio = (e.top - e.bottom) / max(e.right - e.left, 1e-9)
        width = 9.0 if ratio < 0.8 else 6.0
        size = (width, float(np.clip((width - 1.4) * ratio + 1.0, 2.5, 9.0)))
    # A name such as $T_{max} would be read as mathematics, and may not parse.
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Figure(figsize=size, dpi=dpi, layout="constrained")


def _draw(figure: Figure, drawing: Drawing, colours: Colours) -> None:
    axes = figure.add_subplot()
    match drawing:
        case Picture():
            _draw_picture(axes, drawing, colours)
        case Line():
            _draw_line(axes, drawing, colours)
        case Table():
            _draw_table(axes, drawing)
    if drawing.notes and not isinstance(drawing, Table) and not drawing.sample.count():
        axes.set_xlabel(_printable(drawing.notes[0]), fontsize=9)
    width = int(_LONG_TITLE * figure.get_figwidth() / 8.0)
    title, where = (fill(_printable(text), width) for text in (drawing.title, drawing.where))
    if len(title) + len(where) <= width * 0.85:
        axes.set_title(where, loc="right", fontsize=8, color="#555555")
    else:  # below each other
        title += f"\n{where}" if where else ""
    axes.set_title(title, loc="left", fontsize=11, color=_INK, fontweight="bold")


def _printable(text: str) -> str:
    return visible(text[:120] + ("…" if len(text) > 120 else ""))


def _draw_picture(axes: Axes, picture: Picture, colours: Colours) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    e, scales, (norm, cmap) = picture.extent, (picture.x, picture.y), colours.for_matplotlib()
    x_ends, y_ends = _dates(picture.x, (e.left, e.right)), _dates(picture.y, (e.bottom, e.top))
    axes.set_facecolor(MISSING)
    pixels, extent = colours.numbered(picture.pixels), (*x_ends, *y_ends)
    # A logarithm masks zero and values below, which are there, and less than the first colour.
    pixels = np.ma.maximum(pixels, colours.low) if colours.is_log else pixels
    image = axes.imshow(pixels, cmap, norm, origin="lower", extent=extent, interpolation="none")
    axes.set_aspect("equal" if picture.is_map else "auto")
    for colour, lines, width in picture.lines():
        lines = [np.stack([_dates(s, n) for s, n in zip(scales, line.T)], axis=-1) for line in lines]
        # On dark colours, only a light edge tells a dark line.
        halo = [withStroke(linewidth=0.75 * width + 1.2, foreground=HALO, alpha=0.55)]
        drawn = LineCollection(lines, colors=colour, linewidths=0.75 * width, path_effects=halo)
        axes.add_collection(drawn, autolim=False)
    axes.set_xlim(*x_ends)
    axes.set_ylim(*y_ends)
    if picture.key is not None:
        _draw_key(axes, *picture.key)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.02, 0, 0.022, 1)), extend=colours.beyond)
    if colours.is_log:  # matplotlib's own formatter writes powers in mathematical notation
        bar.ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)
    bar.set_label(_printable(picture.label), fontsize=9)
    if colours.categories:
        bar.set_ticks(range(len(colours.categories)), labels=[_printable(c.name) for c in colours.categories])
    bar.ax.tick_params(labelsize=8)
    _style(axes, *scales)


def _draw_key(axes: Axes, length: float, label: str) -> None:
    """Draw an arrow of a known speed in a corner, on a plate that the picture does not shine through."""
    from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

    bar = AnchoredSizeBar(
        axes.transData, length, label, "lower right", frameon=True, color=_INK, pad=0.4, sep=3
    )
    axes.add_artist(bar)


def _draw_line(axes: Axes, line: Line, colours: Colours) -> None:
    is_profile = line.x.upright and not colours.categories
    points = (_dates(line.x, line.places), colours.numbered(np.ma.asanyarray(line.sample)))
    for name, part, colour in line.curves:
        x, y = (n[part] for n in (points[::-1] if is_profile else points))
        # Single points of a short line would be invisible.
        style = "o-" if len(line.places) <= 100 else "-"
        (curve,) = axes.plot(x, y, style, color=colour, linewidth=1.4, markersize=3)
        curve.set_drawstyle("steps-mid" if colours.categories else "default")
        curve.set_label(_printable(name)[:30])
    if line.instances:
        axes.legend(fontsize=8, frameon=False)
    scales = (line.x, Scale.of_values(line.label, colours.categories))
    _style(axes, *(scales[::-1] if is_profile else scales))
    axes.grid(color="#e3e3e3", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_table(axes: Axes, table: Table) -> None:
    axes.axis("off")
    lines = [f"{label}  {value}"[:100] for label, value in table.rows[:20]] or ["no values"]
    more = len(table.rows[20:]) + table.left_out
    lines += [f"… {more:,} more"] if more > 0 else []
    text = "\n".join(map(_printable, lines))
    axes.text(0, 1, text, va="top", family="monospace", fontsize=9, transform=axes.transAxes)


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
        # Depths and pressures grow downwards.
        if scale.down:
            low, high = sorted(axis.get_view_interval())
            ends(high, low)
        axis.set_label_text(_printable(scale.label), fontsize=9)
        axis.set_tick_params(labelsize=8)
    if x.kind == "named" and any(len(name) > _LONG_NAME for _, name in x.names):
        axes.tick_params(axis="x", rotation=30)

"""Draw pictures to image files with matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr.view.picture.coastlines import coastlines
from nczarr.view.picture.colours import MISSING, Colours
from nczarr.view.picture.pictures import Drawing, Line, Picture, Scale, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#222222"


def draw_figure(drawing: Drawing, colours: Colours, *, dpi: int = 150) -> Figure:
    """Draw a drawing as a matplotlib figure."""
    from matplotlib.figure import Figure

    with _quiet():
        figure = Figure(figsize=_size(drawing), dpi=dpi, layout="constrained")
        axes = figure.add_subplot()
        if isinstance(drawing, Picture):
            _draw_picture(axes, drawing, colours)
        elif isinstance(drawing, Line):
            _draw_line(axes, drawing, colours)
        else:
            assert isinstance(drawing, Table)
            _draw_table(axes, drawing)
        axes.set_title(_printable(drawing.title), loc="left", fontsize=11, color=_INK, fontweight="bold")
        if drawing.where:
            axes.set_title(_printable(drawing.where), loc="right", fontsize=8, color="#555555")
        figure.canvas.draw()
    return figure


def to_image(drawing: Drawing, colours: Colours, *, format: str = "png", dpi: int = 150) -> bytes:
    """Draw a drawing as an image file, and return its bytes."""
    figure = draw_figure(drawing, colours, dpi=dpi)
    out = io.BytesIO()
    with _quiet():
        figure.savefig(out, format=format)
    return out.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable mathematical notation (``$``), and ignore warnings about missing glyphs and extreme values."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _printable(text: str) -> str:
    from nczarr.display import visible

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
    figure = axes.figure
    assert figure is not None
    beside = axes.inset_axes((1.02, 0, 0.022, 1))
    bar = figure.colorbar(ScalarMappable(scale, colour_map), cax=beside)
    bar.outline.set_visible(False)
    bar.set_label(_printable(picture.label), fontsize=9)
    if colours.categories:
        bar.set_ticks(range(len(colours.categories)), labels=[_printable(c.name) for c in colours.categories])
    bar.ax.tick_params(labelsize=8)
    _style(axes, picture.x, picture.y)


def _draw_line(axes: Axes, line: Line, colours: Colours) -> None:
    places = _dates(line.x, line.places)
    values = colours.numbered(np.ma.asanyarray(line.sample))
    few = len(line.places) <= 100
    style: dict[str, Any] = {
        "color": "#0b7285",
        "linewidth": 1.4,
        "marker": "o" if few else "",
        "markersize": 3,
    }
    if colours.categories:
        axes.step(places, values, where="mid", **style)
        axes.set_yticks(range(len(colours.categories)), [_printable(c.name) for c in colours.categories])
        _style(axes, line.x, Scale(line.label))
    elif line.x.down:  # a profile: draw the depth as the vertical axis
        axes.plot(values, places, **style)
        _style(axes, Scale(line.label), line.x)
    else:
        axes.plot(places, values, **style)
        _style(axes, line.x, Scale(line.label))
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


def _dates(scale: Scale, numbers: Any) -> Any:
    if scale.kind != "date":
        return numbers
    return np.asarray(numbers) / 86_400_000.0  # matplotlib counts days since 1970


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

"""Draw a variable on the terminal: as an image where it shows images, otherwise with blocks and braille dots."""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nczarr.display import visible
from nczarr.errors import UnsupportedError
from nczarr.view.picture.colours import MISSING, Colours
from nczarr.view.picture.drawings import Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.grids import Extent, map_lines
from nczarr.view.plotting import to_image

if TYPE_CHECKING:
    from plotille import Figure
    from rich.console import Console

#: Characters beside and below a picture for the numbers of the axes.
_BESIDE, _BELOW = 14, 8


def show(drawing: Drawing, colours: Colours) -> None:
    """Show a drawing on standard output, at the size of the terminal.

    Raises
    ------
    UnsupportedError
        If the size of the terminal is unknown.
    """
    if not os.get_terminal_size(sys.stdout.fileno()).columns:
        raise UnsupportedError("the size of the terminal is unknown", hint="write a file: -o map.png")
    from rich.console import Console
    from rich.text import Text
    from textual_image import renderable

    console = Console(file=sys.stdout)
    if renderable.Image in (renderable.SixelImage, renderable.TGPImage):
        from PIL import Image as ImageFile

        with ImageFile.open(io.BytesIO(to_image(drawing, colours))) as image:
            console.print(
                renderable.Image(image.convert("RGB"), width=min(console.width, 110), height="auto")
            )
        return
    console.print(Text(visible(f"{drawing.title[:80]}  {drawing.where[:120]}".rstrip()), "bold"))
    if isinstance(drawing, Table):
        for label, value in drawing.rows[: console.height]:
            console.print(Text(visible(f"{label}  {value}"[:300])), no_wrap=True, overflow="ellipsis")
    else:
        _show_figure(drawing, colours, console)
    for note in drawing.notes:
        console.print(Text(visible(note), "dim"))


def _show_figure(drawing: Drawing, colours: Colours, console: Console) -> None:
    from plotille import Figure
    from rich.text import Text

    figure = Figure()
    figure.width, figure.height = max(console.width - _BESIDE, 10), max(min(console.height, 50) - _BELOW, 4)
    figure.color_mode, figure.origin = "rgb", False
    if isinstance(drawing, Picture):
        scales = (drawing.x, drawing.y)
        _add_picture(figure, drawing, colours)
    else:
        assert isinstance(drawing, Line)
        scales = (drawing.x, Scale(drawing.label))
        values: np.ndarray = np.ma.asanyarray(
            colours.numbered(np.ma.asanyarray(drawing.sample)), float
        ).filled(np.nan)
        x, y = drawing.places, values
        if drawing.x.down:
            x, y, scales = y, -x, scales[::-1]
        e = Extent.around(x, y)
        figure.set_x_limits(e.left, e.right)
        figure.set_y_limits(e.bottom, e.top)
        for name, part in drawing.curves:
            fine = part[np.isfinite(y[part])]
            figure.plot(x[fine].tolist(), y[fine].tolist(), lc=(11, 154, 176), label=visible(name[:30]))
    figure.x_ticks_fkt, figure.y_ticks_fkt = (partial(_tick, scale) for scale in scales)
    figure.x_label, figure.y_label = (visible(scale.label[:40]) or " " for scale in scales)
    console.print(Text.from_ansi(figure.show(legend=isinstance(drawing, Line) and bool(drawing.instances))))
    if isinstance(drawing, Picture):
        shown = (
            colours.palette if colours.categories else colours.palette[:: max(len(colours.palette) // 30, 1)]
        )
        names = [f" {visible(c.name[:20])}  " for c in colours.categories] or [""] * len(shown)
        bar = Text.assemble(*(part for c, name in zip(shown, names) for part in (("█", c), name)))
        ends = ("", "") if colours.categories else (f"{colours.low:.4g} ", f" {colours.high:.4g}")
        console.print(Text.assemble(visible(f"{drawing.label[:40]}: "), ends[0], bar, ends[1]))


def _add_picture(figure: Figure, picture: Picture, colours: Colours) -> None:
    """Add an image of one pixel for each character, and the coastlines in braille dots."""
    from matplotlib.colors import to_rgb

    e = picture.extent
    if picture.is_map:  # characters are twice as high as wide
        ratio = 2 * (e.right - e.left) / (e.top - e.bottom)
        figure.width = max(min(figure.width, int(figure.height * ratio)), 10)
        figure.height = max(min(figure.height, int(figure.width / ratio)), 3)
    high, wide = picture.pixels.shape
    rows, columns = (
        (np.arange(n) + 0.5) * size // n for n, size in ((figure.height, high), (figure.width, wide))
    )
    values = np.ma.masked_invalid(
        colours.numbered(picture.pixels[np.ix_(rows.astype(int), columns.astype(int))])
    )
    palette = [tuple(round(255 * c) for c in to_rgb(name)) for name in (*colours.palette, MISSING)]
    last = len(palette) - 1
    part = (np.ma.asanyarray(values, float) - colours.low) / (colours.high - colours.low) * last
    colour = np.where(
        np.ma.getmaskarray(values), last, np.clip(np.ma.filled(part, 0), 0, last - 1).astype(int)
    )
    up = -1 if not picture.y.down else 1
    figure.imgshow([[palette[number] for number in row] for row in colour[::up].tolist()])
    figure.set_x_limits(e.left, e.right)
    figure.set_y_limits(*((-e.top, -e.bottom) if picture.y.down else (e.bottom, e.top)))
    for line in map_lines(picture.grid.plane, e)[0] if picture.grid.plane is not None else ():
        figure.plot(*(line[:, i].tolist() for i in (0, 1)), lc=(16, 16, 16))


def _tick(scale: Scale, number: float, following: float) -> str:
    """Return the label of a tick of at most nine characters."""
    number, width = -number if scale.down else number, abs(following - number)
    if scale.kind == "date":
        text = str(np.datetime64(int(number), "ms").astype("datetime64[m]"))
        return text[:7] if width > 2e9 else text[5:10] if width > 9e7 else text[8:]
    if scale.kind == "named":
        return visible(min(scale.names, key=lambda n: abs(n[0] - number))[1][:9]) if scale.names else ""
    return f"{0.0 if abs(number) < width * 1e-6 else number:.4g}"

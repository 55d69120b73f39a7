"""Draw a variable on the terminal: as an image where it shows images, otherwise with blocks and braille dots."""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from nczarr.display import visible
from nczarr.errors import UnsupportedError
from nczarr.view.picture.colours import Colours
from nczarr.view.picture.drawings import Drawing, Line, Picture, Scale, Table
from nczarr.view.picture.grids import Extent
from nczarr.view.plotting import to_image

if TYPE_CHECKING:
    from plotille import Figure
    from rich.console import Console
    from rich.text import Text

#: Characters beside and below a picture for the numbers of the axes.
_BESIDE, _BELOW = 14, 8
#: Width of lines that are too many for the terminal, such as those of latitude and longitude.
_THIN = 0.5


def show(drawing: Drawing, colours: Colours) -> None:
    """Show a drawing on standard output, at the size of the terminal.

    Raises
    ------
    UnsupportedError
        If the size of the terminal is unknown.
    """
    # Some terminals report 0 columns.
    if not os.get_terminal_size(sys.stdout.fileno()).columns:
        raise UnsupportedError("the size of the terminal is unknown", hint="write a file: -o map.png")
    from rich.console import Console
    from rich.text import Text
    from textual_image import renderable

    console = Console(file=sys.stdout)
    if renderable.Image in (renderable.SixelImage, renderable.TGPImage):
        file = io.BytesIO(to_image(drawing, colours))
        return console.print(renderable.Image(file, min(console.width, 110), "auto"))
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

    assert isinstance(drawing, Picture | Line)
    figure = Figure()
    figure.width, figure.height = max(console.width - _BESIDE, 10), max(min(console.height, 50) - _BELOW, 4)
    figure.color_mode, figure.origin = "rgb", False
    if isinstance(drawing, Picture):
        scales = (drawing.x, drawing.y)
        _add_picture(figure, drawing, colours)
    else:
        scales = (drawing.x, Scale.of_values(drawing.label, colours.categories))
        numbered = colours.numbered(np.ma.asanyarray(drawing.sample))
        x: np.ndarray = drawing.places
        y: np.ndarray = np.ma.filled(np.ma.asanyarray(numbered, float), np.nan)
        if drawing.x.upright:
            x, y, scales = y, (-x if drawing.x.down else x), scales[::-1]
        e = Extent.around(x, y)
        figure.set_x_limits(e.left, e.right)
        figure.set_y_limits(e.bottom, e.top)
        for name, part, colour in drawing.curves:
            fine = part[np.isfinite(x[part]) & np.isfinite(y[part])]
            figure.plot(x[fine].tolist(), y[fine].tolist(), lc=colour[1:], label=visible(name[:30]))
    figure.x_ticks_fkt, figure.y_ticks_fkt = (partial(_tick, scale) for scale in scales)
    figure.x_label, figure.y_label = (visible(scale.label[:40]) or " " for scale in scales)
    console.print(Text.from_ansi(figure.show(legend=isinstance(drawing, Line) and bool(drawing.instances))))
    if isinstance(drawing, Picture):
        console.print(_legend(drawing, colours))


def _legend(picture: Picture, colours: Colours) -> Text:
    from rich.text import Text

    names = [f" {visible(c.name[:20])}  " for c in colours.categories]
    ends = ("", "") if names else (f"{colours.low:.4g} ", f" {colours.high:.4g}")
    shown = colours.palette[:: 1 if names else max(len(colours.palette) // 30, 1)]
    bar = [part for c, name in zip_longest(shown, names, fillvalue="") for part in (("█", c), name)]
    return Text.assemble(visible(f"{picture.label[:40]}: "), ends[0], *bar, ends[1])


def _add_picture(figure: Figure, picture: Picture, colours: Colours) -> None:
    """Add an image of one pixel for each character, and the lines in braille dots."""
    e = picture.extent
    if picture.is_map:  # characters are twice as high as wide
        ratio = 2 * (e.right - e.left) / (e.top - e.bottom)
        figure.width = max(min(figure.width, int(figure.height * ratio)), 10)
        figure.height = max(min(figure.height, int(figure.width / ratio)), 3)
    sizes = zip((figure.height, figure.width), picture.pixels.shape)
    rows, columns = (((np.arange(n) + 0.5) * size // n).astype(int) for n, size in sizes)
    values = np.ma.masked_invalid(colours.numbered(picture.pixels[np.ix_(rows, columns)]))
    norm, cmap = colours.for_matplotlib()
    pixels = cmap(norm(values), bytes=True)[:: 1 if picture.y.down else -1, :, :3]
    figure.imgshow([[tuple(pixel) for pixel in row] for row in pixels.tolist()])
    figure.set_x_limits(e.left, e.right)
    figure.set_y_limits(*((-e.top, -e.bottom) if picture.y.down else (e.bottom, e.top)))
    for colour, lines, width in picture.lines():
        for line in lines if width > _THIN else ():
            x, y = line.T
            figure.plot(x.tolist(), (-y if picture.y.down else y).tolist(), lc=colour[1:])


def _tick(scale: Scale, number: float, following: float) -> str:
    """Return the label of a tick of at most nine characters."""
    number, width = -number if scale.down else number, abs(following - number)
    if scale.kind == "date":
        text = str(np.datetime64(int(number), "ms").astype("datetime64[m]"))
        return text[:7] if width > 2e9 else text[5:10] if width > 9e7 else text[8:]
    if scale.kind == "named":
        return visible(min(scale.names, key=lambda n: abs(n[0] - number))[1][:9]) if scale.names else ""
    return f"{0.0 if abs(number) < width * 1e-6 else number:.4g}"

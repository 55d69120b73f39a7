"""Show an image on the terminal with the Sixel or Kitty protocol, or with half-block characters."""

from __future__ import annotations

import io
import os
import sys

from nczarr.errors import UnsupportedError


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

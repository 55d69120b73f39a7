"""Show an image on the terminal: as Sixel or with Kitty's protocol where the terminal has one, else in half blocks."""

from __future__ import annotations

import io
import sys


def show_image(data: bytes) -> None:
    """Show an image file on standard output, as wide as the terminal lets it be.

    Parameters
    ----------
    data : bytes
        A PNG file.
    """
    from PIL import Image as ImageFile
    from rich.console import Console
    from textual_image.renderable import Image

    console = Console(file=sys.stdout)
    with ImageFile.open(io.BytesIO(data)) as image:
        console.print(Image(image.convert("RGB"), width=min(console.width, 110), height="auto"))

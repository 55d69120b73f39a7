"""Draw the picture of the README: what ``nczarr dump -h`` prints. Needs rich (extra ``docs``)."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "tests" / "data" / "example.nc"


def draw(commands: list[str], name: str, lines: int) -> None:
    """Run commands in a fresh folder and draw the terminal."""
    console = Console(record=True, width=96, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "example.nc").write_bytes(EXAMPLE.read_bytes())
        for command in commands:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")))
            arguments = [str(Path(sys.executable).parent / "nczarr"), *command.split()[1:]]
            result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
            shown = result.stdout.expandtabs(4).splitlines()
            for line in shown[:lines]:
                console.print(Text(line))
            if len(shown) > lines:
                console.print(Text("…", "dim"))
    path = HERE / "images" / name
    path.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title="nczarr", theme=MONOKAI)
    # No fonts from elsewhere: the reader's own will do. Blanks at the start of a line are kept as they are.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    path.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    draw(["nczarr copy example.nc example.zarr", "nczarr dump -h example.zarr"], "dump.svg", 44)

"""Draw terminals: what ``nczarr dump``, ``tree`` and ``info`` print there. Needs Rich (extra ``cli``)."""

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


def draw(commands: list[str], name: str, lines: int, width: int = 96) -> None:
    """Run commands in a fresh folder and draw the terminal, at most so many lines of each."""
    console = Console(record=True, width=width, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "example.nc").write_bytes(EXAMPLE.read_bytes())
        for command in commands:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")))
            verb, *rest = command.split()[1:]
            colour = ["--color=always"] if verb in ("dump", "tree", "info") else []
            result = subprocess.run(
                [sys.executable, "-m", "nczarr", verb, *colour, *rest],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            shown = (
                result.stdout.replace("        ", "    ").splitlines()
                if verb == "dump"
                else result.stdout.splitlines()
            )
            for line in shown[:lines]:
                console.print(Text.from_ansi(line))
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
    draw(["nczarr copy example.nc example.zarr", "nczarr dump -h example.zarr"], "dump.svg", 34, 80)
    draw(
        ["nczarr copy example.nc example.zarr", "nczarr tree example.zarr", "nczarr info example.zarr"],
        "info.svg",
        40,
        190,
    )

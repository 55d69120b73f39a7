"""Draw the packages of nczarr on their floors, and who imports whom, from the imports themselves."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "helpers")]

import import_graph  # noqa: E402
from test_floors import FLOORS  # noqa: E402

PICTURE = HERE / "images" / "house.svg"
WIDTH, MARGIN, GAP, LINE = 860, 24, 20, 15
LEFT = MARGIN + 52
#: Where the middle of a box is, from 0 to 1, and how wide it is; the others share their floor equally.
PLACES = {
    "cdl": (0.15, 0.3),
    "mapping": (0.5, 0.36),
    "netcdf": (0.85, 0.3),
    "zarr": (0.62, 0.36),
    "stores": (0.62, 0.36),
    "transfer": (0.22, 0.36),
    "model": (0.38, 0.76),
    "formats": (0.895, 0.21),
    "convert": (0.5, 1.0),
    "netcdf4": (0.5, 0.7),
    "session": (0.5, 0.7),
}
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1b2a36; }
  .name { font-weight: 600; font-size: 14px; }
  .floor { font-size: 11px; fill: #6b7c88; }
  .box { fill: #ffffff; stroke: #2f6f8f; stroke-width: 1.4; }
  .room { fill: #e4f0f5; }
  .arrow { fill: none; stroke: #7d97a5; stroke-width: 1.2; marker-end: url(#head); }
"""


def reduced(graph: import_graph.Graph) -> list[tuple[str, str]]:
    """The arrows, without those that a longer way says already."""

    def reaches(start: str, goal: str) -> bool:
        return start == goal or any(reaches(each, goal) for each in graph[start])

    return [
        (a, b)
        for a in sorted(graph)
        for b in sorted(graph[a])
        if not any(reaches(other, b) for other in graph[a] if other != b)
    ]


def purpose(part: str) -> list[str]:
    """First line of the docstring, wrapped."""
    tree = ast.parse(import_graph.modules()[part].read_text("utf-8"))
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    return [re.sub(r":\w+:`(\w+)`|``", r"\1", first)]


def box(part: str, x: float, y: float, width: float, height: float) -> list[str]:
    short = part.removeprefix("nczarr.")
    lines = [
        f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="7"/>',
        f'<text class="name" x="{x + 10:.0f}" y="{y + 19:.0f}">{escape(short)}</text>',
    ]
    at = y + 19
    for line in wrapped(part, width):
        at += LINE
        lines.append(f'<text x="{x + 10:.0f}" y="{at:.0f}">{escape(line)}</text>')
    left, at = x + 10, at + 9
    for room in rooms(part):
        wide = 7 * len(room) + 12
        if left + wide > x + width - 8:
            left, at = x + 10, at + 24
        lines.append(
            f'<rect class="room" x="{left:.0f}" y="{at:.0f}" width="{wide}" height="19" rx="5"/>'
            f'<text x="{left + 6:.0f}" y="{at + 13.5:.0f}">{escape(room)}</text>'
        )
        left += wide + 6
    return lines


def wrapped(part: str, width: float) -> list[str]:
    return textwrap.wrap(purpose(part)[0], int((width - 16) / 6.6))


def rooms(part: str) -> list[str]:
    return [p.rpartition(".")[2] for p in import_graph.packages() if p.rpartition(".")[0] == part]


def tall(part: str, width: float) -> float:
    rows, left = (1 if rooms(part) else 0), 10.0
    for room in rooms(part):
        wide = 7 * len(room) + 12
        if left + wide > width - 8:
            rows, left = rows + 1, 10
        left += wide + 6
    return 30 + LINE * len(wrapped(part, width)) + 24 * rows


Box = tuple[float, float, float, float]


def arrow(source: Box, target: Box, others: list[Box], used: list[float]) -> str:
    """Straight down where the boxes lie above each other, past what stands between; else a curve."""
    (ax, ay, aw, ah), (bx, by, bw, _) = source, target
    top, bottom = ay + ah, by - 3
    low, high = max(ax, bx) + 12, min(ax + aw, bx + bw) - 12
    if low <= high:
        between = [o for o in others if top < o[1] + o[3] / 2 < bottom]

        def cost(x: float) -> tuple[int, int, float]:
            hidden = sum(o[0] - 6 < x < o[0] + o[2] + 6 for o in between)
            return hidden, sum(abs(x - each) < 16 for each in used), abs(x - (ax + aw / 2))

        x = min((low + step for step in range(0, int(high - low) + 1, 4)), key=cost)
        used.append(x)
        return f'<path class="arrow" d="M{x:.0f},{top:.0f} V{bottom:.0f}"/>'
    x1 = ax + 24 if bx < ax else ax + aw - 24
    x2 = bx + bw - 24 if bx < ax else bx + 24
    middle = (top + bottom) / 2
    bend = f"C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} {x2:.0f},{bottom:.0f}"
    return f'<path class="arrow" d="M{x1:.0f},{top:.0f} {bend}"/>'


def main() -> None:
    """Write the picture."""
    graph = import_graph.parts_graph("nczarr")
    model = next(number for number, names in enumerate(FLOORS) if "model" in names)
    lower = [name for names in FLOORS[:model] for name in sorted(names)]
    upper = [sorted(names - {"__main__"}) for names in FLOORS[model:]]
    levels = [[f"nczarr.{name}" for name in names] for names in [lower, *filter(None, upper)]]
    ground = {*levels[0], "nczarr.__main__"}  # which all may use: no arrows
    graph = {a: below - ground - {"nczarr"} for a, below in graph.items() if a not in ground | {"nczarr"}}
    whole = WIDTH - MARGIN - LEFT
    where: dict[str, Box] = {}
    drawn: list[str] = []
    y = float(MARGIN)
    for number in reversed(range(len(levels))):
        level = levels[number]
        share = (whole - GAP * (len(level) - 1)) / len(level)
        places = {}
        for index, part in enumerate(level):
            middle, wide = PLACES.get(part.removeprefix("nczarr."), (0.0, 0.0))
            width = wide * whole if wide else share
            x = LEFT + middle * whole - width / 2 if wide else LEFT + index * (share + GAP)
            places[part] = (x, width)
        height = max(tall(part, width) for part, (_, width) in places.items())
        drawn.append(f'<text class="floor" x="{MARGIN}" y="{y + height / 2 + 4:.0f}">floor {number}</text>')
        for part, (x, width) in places.items():
            where[part] = (x, y, width, height)
            drawn += box(part, x, y, width, height)
        y += height + 34
    total = y - 34 + MARGIN
    used: list[float] = []
    arrows = [arrow(where[a], where[b], list(where.values()), used) for a, b in reduced(graph)]
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total:.0f}" width="{WIDTH}" role="img">',
        "<title>The packages of nczarr on their floors; arrows are imports</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#7d97a5"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{total:.0f}" rx="10" fill="#f7fafb"/>',
        *arrows,
        *drawn,
        "</svg>",
    ]
    PICTURE.write_text("\n".join(picture) + "\n", "utf-8")


if __name__ == "__main__":
    main()

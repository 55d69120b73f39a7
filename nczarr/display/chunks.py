"""Draw the chunks of an array as inline SVG: the last two axes as a sheet, the other axes as a stack of sheets."""

from __future__ import annotations

import math

_LONG, _SHORT = 112.0, 34.0
#: Most grid lines in one direction; more would merge into a grey area.
_MOST_LINES = 28
_MOST_SHEETS = 5
_SHEET_STEP = 7.0
_MARGIN = 3.0


def draw_chunks(
    shape: tuple[int, ...], chunks: tuple[int, ...] | None, inner: tuple[int, ...] | None = None
) -> str:
    """Return the figure, or empty text for scalars and empty arrays.

    Parameters
    ----------
    shape : tuple of int
    chunks : tuple of int or None
        None: stored in one piece.
    inner : tuple of int, optional
        The chunks inside a shard; drawn in the first one.

    Examples
    --------
    >>> draw_chunks((4, 6), (2, 3)).startswith("<svg")
    True
    >>> draw_chunks((), ())
    ''
    """
    if not shape or 0 in shape:
        return ""
    chunks = tuple(max(c, 1) for c in chunks) if chunks and len(chunks) == len(shape) else shape
    rows, columns = (1, shape[0]) if len(shape) == 1 else shape[-2:]
    width, height = _sheet_size(rows, columns, flat=len(shape) == 1)
    down, across = (1, chunks[0]) if len(shape) == 1 else chunks[-2:]
    piles = math.prod(-(-n // c) for n, c in zip(shape[:-2], chunks[:-2]))
    sheets = min(piles, _MOST_SHEETS) - 1
    shift = sheets * _SHEET_STEP
    parts = []
    for i in range(sheets, 0, -1):
        parts.append(
            _rectangle("nz-sheet", shift + i * _SHEET_STEP - shift, shift - i * _SHEET_STEP, width, height)
        )
    cell_width, cell_height = width * min(across / columns, 1), height * min(down / rows, 1)
    parts.append(_rectangle("nz-sheet", 0, shift, width, height))
    parts.append(_rectangle("nz-chunk", 0, shift, cell_width, cell_height))
    if inner is not None and len(inner) == len(shape):
        fine_down, fine_across = (1, inner[0]) if len(shape) == 1 else inner[-2:]
        parts += _grid(
            "nz-inner", 0, shift, cell_width, cell_height, (down, fine_down), (across, fine_across)
        )
    parts += _grid("nz-line", 0, shift, width, height, (rows, down), (columns, across))
    full_width, full_height = width + shift + 2 * _MARGIN, height + shift + 2 * _MARGIN
    return (
        f'<svg class="nz-figure" role="img" aria-label="chunks" width="{full_width:.0f}" height="{full_height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {full_width:.1f} {full_height:.1f}">{"".join(parts)}</svg>'
    )


def _sheet_size(rows: int, columns: int, *, flat: bool) -> tuple[float, float]:
    if flat:
        return _LONG, _SHORT * 0.6
    ratio = rows / columns
    if ratio >= 1:
        return max(_LONG / ratio, _SHORT), _LONG
    return _LONG, max(_LONG * ratio, _SHORT)


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _grid(
    kind: str, x: float, y: float, width: float, height: float, down: tuple[int, int], across: tuple[int, int]
) -> list[str]:
    """Return the grid lines between chunks; `down` and `across` are pairs of axis size and chunk size."""
    path = []
    for place in _cuts(*down):
        path.append(f"M{x:.1f} {y + height * place:.1f}h{width:.1f}")
    for place in _cuts(*across):
        path.append(f"M{x + width * place:.1f} {y:.1f}v{height:.1f}")
    return [f'<path class="{kind}" d="{"".join(path)}"/>'] if path else []


def _cuts(size: int, chunk: int) -> list[float]:
    """Return the positions of chunk borders from 0 to 1; an even sample of them if there are too many."""
    number = -(-size // chunk) - 1
    step = -(-number // _MOST_LINES) if number > _MOST_LINES else 1
    return [i * chunk / size for i in range(1, number + 1, step)]

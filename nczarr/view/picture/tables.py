"""Write the values of a drawing as CSV."""

from __future__ import annotations

import csv
import io

import numpy as np

from nczarr.view.picture.pictures import Drawing, Line, Picture, Table


def to_csv(drawing: Drawing) -> str:
    """Return the values of a drawing as CSV, one row per value with its coordinates; missing values are empty.

    The first columns contain the positions on the axes that are not drawn.

    Examples
    --------
    >>> from nczarr import cdl
    >>> from nczarr.view.data.opened import OpenedDataset
    >>> from nczarr.view.picture.make import Drawer
    >>> from nczarr.view.picture.selection import first_selection
    >>> with OpenedDataset(cdl.loads("netcdf d { dimensions: x = 2; variables: int v(x); data: v = 7, _; }")) as o:
    ...     drawer = Drawer(o)
    ...     print(to_csv(drawer.draw(first_selection(o, drawer.coordinates, "/v"))))
    x,v
    0,7
    1,
    <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(drawing, Table):
        writer.writerow(["index", _safe(drawing.label)])
        writer.writerows([_safe(label), _safe(value)] for label, value in drawing.rows)
    elif isinstance(drawing, Line):
        names, step = _step(drawing)
        writer.writerow([*names, *(_safe(name) for name, _ in drawing.columns), _safe(drawing.label)])
        (_, labels), values = drawing.columns[0], drawing.sample
        writer.writerows([*step, _safe(str(place)), _number(value)] for place, value in zip(labels, values))
    elif isinstance(drawing, Picture):
        _write_picture(writer, drawing)
    return out.getvalue()


def _step(drawing: Drawing) -> tuple[list[str], list[str]]:
    """Return the names of the axes that are not drawn, and the labels of the positions on them."""
    return [_safe(name) for name, _ in drawing.step], [_safe(label) for _, label in drawing.step]


def _write_picture(writer: object, picture: Picture) -> None:
    rows = writer.writerow  # type: ignore[attr-defined]
    (first, y), (second, x) = picture.columns
    names, step = _step(picture)
    rows([*names, _safe(first), _safe(second), _safe(picture.label)])
    sample = np.ma.asanyarray(picture.sample)
    for index in np.ndindex(sample.shape):
        if y.shape == sample.shape:
            place = (y[index], x[index])
        else:
            place = (y[index[0]], x[index[1]])
        rows(
            [*step, *(_safe(p) if isinstance(p, str) else _number(p) for p in place), _number(sample[index])]
        )


def _number(value: object) -> str:
    if value is np.ma.masked:
        return ""
    text = str(value.item()) if isinstance(value, np.generic) and value.dtype.kind != "f" else str(value)
    return "" if text == "nan" else text


def _safe(text: str) -> str:
    """Escape text that a spreadsheet would interpret as a formula."""
    return (
        "'" + text
        if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and not _is_number(text))
        else text
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

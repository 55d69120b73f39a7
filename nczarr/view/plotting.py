"""Draw one picture of a variable."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from operator import index
from pathlib import Path
from typing import Any

from nczarr.atomic import partial_path
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import Dataset
from nczarr.view.data.opened import OpenedDataset
from nczarr.view.picture.colours import DIVERGING, SEQUENTIAL, adjust_colours, choose_colours
from nczarr.view.picture.make import Drawer
from nczarr.view.picture.selection import select

FORMATS = ("png", "svg", "pdf", "jpg", "webp")


def plot(
    source: Any,
    variable: str,
    output: str | Path | None = None,
    *,
    at: Mapping[str, int | str] | None = None,
    colours: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    dpi: int = 150,
    storage_options: Mapping[str, Any] | None = None,
) -> bytes:
    """Draw a variable: a line, an image or a map, whichever suits it.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Anything that nczarr reads.
    variable : str
        Its name, or its FQN such as ``/ocean/temp``.
    output : path, optional
        The file to write; the suffix says the format (png, svg, pdf, jpg, webp).
    at : mapping, optional
        For dimensions by name an index, or text: an index, a value with a point, or a date, as on the command line.
        Those not given are drawn or stand at their first index.
    colours : str, optional
        One of matplotlib's colour maps; default: one that suits.
    limits : (float or None, float or None)
        Values of the first and of the last colour.
    dpi : int
        Pixels per inch.
    storage_options : mapping, optional
        For remote stores.

    Returns
    -------
    bytes
        The image file (PNG if there is no `output`).

    Raises
    ------
    NCZarrError
        If there is no such dataset, variable, dimension, index, format or colour map.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d { dimensions: y = 2; x = 3; variables: int v(y, x); data: v = 1, 2, 3, 4, 5, 6; }"
    >>> plot(cdl.loads(text), "v")[1:4]
    b'PNG'
    """
    require_matplotlib()
    from nczarr.view.picture.files import to_image

    format_ = "png" if output is None else Path(output).suffix.lstrip(".").lower()
    if format_ not in FORMATS:
        raise UnsupportedError(
            f"{format_ or 'no suffix'!r} is not a format of pictures",
            path=str(output),
            hint=", ".join(FORMATS),
        )
    check_colour_map(colours)
    with OpenedDataset(source, storage_options) as opened:
        drawer = Drawer(opened)
        fqn = find_variable(opened.model, variable)
        drawing = drawer.draw(select(opened, drawer.coordinates, fqn, as_texts(at)))
        chosen = choose_colours(opened.variable(fqn), drawing.sample)
        data = to_image(drawing, adjust_colours(chosen, colours, *limits), format=format_, dpi=dpi)
    if output is not None:
        partial = partial_path(str(output))
        try:
            partial.write_bytes(data)
            partial.replace(output)
        finally:
            partial.unlink(missing_ok=True)
    return data


def as_texts(at: Mapping[str, int | str] | None) -> dict[str, str]:
    """Return indices, values and dates as the command line writes them; a number is an index and never a year.

    Examples
    --------
    >>> as_texts({"depth": 3, "time": "2001"})
    {'depth': '#3', 'time': '2001'}
    """
    return {name: i if isinstance(i, str) else f"#{index(i)}" for name, i in (at or {}).items()}


def require_matplotlib() -> None:
    """Raise :class:`UnsupportedError` if what draws pictures is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UnsupportedError("pictures need matplotlib", hint="pip install matplotlib scipy") from None


def check_colour_map(name: str | None) -> None:
    """Raise :class:`UnsupportedError` for a colour map that there is not."""
    from matplotlib import colormaps

    if name is not None and name not in colormaps:
        near = get_close_matches(name, list(colormaps), 1) or [*SEQUENTIAL[:3], *DIVERGING[:1]]
        raise UnsupportedError(f"there is no colour map {name!r}", hint=f"such as {', '.join(near)}")


def find_variable(dataset: Dataset, name: str) -> str:
    """Return the FQN of the variable that a name means: an FQN, or a simple name that only one variable has.

    Raises
    ------
    ModelError
        If there is none, or more than one.

    Examples
    --------
    >>> from nczarr import cdl
    >>> find_variable(cdl.loads("netcdf d { group: g { variables: int v; } }"), "v")
    '/g/v'
    """
    variables = dataset.all_variables
    for fqn in (name, f"/{name}"):
        if fqn in variables:
            return fqn
    same = [fqn for fqn, variable in variables.items() if variable.name == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise ModelError(f"there are {len(same)} variables {name!r}", hint=f"one of {', '.join(same[:5])}")
    near = get_close_matches(name, [*variables, *(v.name for v in variables.values())], 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(list(variables)[:8]) or 'none'}"
    raise ModelError(f"there is no variable {name!r}", hint=hint)

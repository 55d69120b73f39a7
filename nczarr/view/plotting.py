"""Draw a variable to an image file."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from operator import index
from pathlib import Path
from typing import Any

from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import Dataset
from nczarr.system.atomic import partial_path
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
    """Draw a variable as a line, an image or a map.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Any source that nczarr reads.
    variable : str
        Name or FQN of the variable, such as ``/ocean/temp``.
    output : path, optional
        The file to write; its suffix selects the format (png, svg, pdf, jpg, webp).
    at : mapping, optional
        Positions by dimension name: an index, or a string with the syntax of the command line (an index, a value with
        a decimal point, or a date). Other dimensions are drawn, or fixed at index 0.
    colours : str, optional
        Name of a matplotlib colour map; default: chosen from the variable.
    limits : (float or None, float or None)
        Values of the first and the last colour.
    dpi : int
        Pixels per inch.
    storage_options : mapping, optional
        Options for remote stores.

    Returns
    -------
    bytes
        The image file (PNG if `output` is None).

    Raises
    ------
    NCZarrError
        If the dataset, variable, dimension, index, format or colour map does not exist.

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
            f"unknown image format {format_!r}" if format_ else "the output file has no suffix",
            path=str(output),
            hint=f"use one of the suffixes {', '.join(FORMATS)}",
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
    """Return positions with the syntax of the command line; ``#`` marks an index, so that it is not read as a year.

    Examples
    --------
    >>> as_texts({"depth": 3, "time": "2001"})
    {'depth': '#3', 'time': '2001'}
    """
    return {name: i if isinstance(i, str) else f"#{index(i)}" for name, i in (at or {}).items()}


def require_matplotlib() -> None:
    """Raise :class:`UnsupportedError` if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UnsupportedError("plotting needs matplotlib", hint="pip install matplotlib scipy") from None


def check_colour_map(name: str | None) -> None:
    """Raise :class:`UnsupportedError` if matplotlib has no colour map of this name."""
    from matplotlib import colormaps

    if name is not None and name not in colormaps:
        near = get_close_matches(name, list(colormaps), 1) or [*SEQUENTIAL[:3], *DIVERGING[:1]]
        raise UnsupportedError(f"there is no colour map {name!r}", hint=f"try {', '.join(near)}")


def find_variable(dataset: Dataset, name: str) -> str:
    """Return the FQN of a variable, from its FQN or its simple name.

    Raises
    ------
    ModelError
        If there is no such variable, or several variables have the simple name.

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
        raise ModelError(
            f"there are {len(same)} variables {name!r}", hint=f"give a full name: {', '.join(same[:5])}"
        )
    near = get_close_matches(name, [*variables, *(v.name for v in variables.values())], 1)
    listed = f"the variables are {', '.join(list(variables)[:8])}" if variables else "there are no variables"
    hint = f"did you mean {near[0]!r}?" if near else listed
    raise ModelError(f"there is no variable {name!r}", hint=hint)

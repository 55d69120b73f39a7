"""See datasets: one picture in a file (:func:`plot`), or all of a dataset in the browser (:func:`serve`).

Needs the extra ``view``. The names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nczarr.view.page.server import serve
    from nczarr.view.plotting import plot

__all__ = ["plot", "serve"]

_HOMES = {"plot": "plotting", "serve": "page.server"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"nczarr.view.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nczarr.view' has no attribute {name!r}")

"""See datasets: one picture in a file (:func:`plot`), or all of a dataset in the browser (:func:`serve`).

Needs the extra ``view``. The names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.view.page.server import serve
    from nczarr.view.plotting import plot
else:
    __getattr__ = lazy(__name__, {"page.server": ["serve"], "plotting": ["plot"]})

__all__ = ["plot", "serve"]

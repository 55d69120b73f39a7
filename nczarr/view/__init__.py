"""Visualise datasets: :func:`plot` draws a variable to a file, :func:`serve` shows a dataset in the browser.

Requires the extra ``view``. The functions are imported on first use.
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

"""Hold the choices by which the values of one variable are converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(slots=True)
class Settings:
    """How a program wants the values of a variable.

    Parameters
    ----------
    dtype : numpy.dtype or type
        What the program sees; ``str`` for text.
    view : numpy.dtype, optional
        For compounds: the same with characters as bytes.
    mask, scale, always_mask, chartostring : bool
        See the methods ``set_auto_…`` of the variable.
    digit : int, optional
        The decimal digit to which values are rounded on writing.
    quantization : (int, str), optional
        Number of digits or bits, and the mode.
    complex : numpy.dtype, optional
        For compounds, and pairs of numbers, that are shown as complex numbers.
    paired : bool
        The complex numbers are pairs of numbers: the last dimension is not shown.
    """

    dtype: Any
    view: np.dtype | None = None
    mask: bool = True
    scale: bool = True
    always_mask: bool = True
    chartostring: bool = True
    digit: int | None = None
    quantization: tuple[int, str] | None = None
    complex: np.dtype | None = None
    paired: bool = False

    @classmethod
    def stored(cls, dtype: Any, view: np.dtype | None = None) -> Settings:
        """The settings of who takes values as they are stored: neither masked, nor unpacked, nor joined to text."""
        return cls(dtype, view, mask=False, scale=False, always_mask=False, chartostring=False)

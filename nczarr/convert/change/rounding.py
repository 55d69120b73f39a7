"""Round the floats of a copy to significant digits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nczarr.convert.change.choosing import matches
from nczarr.errors import UnsupportedError
from nczarr.model import INT, Attribute, Dataset, Variable, fill_value_of, rewrite
from nczarr.model.sources import ChangedSource


@dataclass(frozen=True, eq=False)
class QuantizedSource(ChangedSource):
    """Values rounded to some digits, as netCDF-C rounds them."""

    digits: int
    mode: str
    fill: Any

    def changed(self, values: np.ndarray) -> np.ndarray:
        """Return the values rounded."""
        from nczarr.netcdf4.values.quantize import quantize

        return quantize(values, self.digits, self.mode, self.fill)


def rounded(dataset: Dataset, text: str) -> Dataset:
    """Return a dataset whose float variables, or the named ones, are rounded as ``[NAME,…=][MODE:]DIGITS`` says.

    Raises
    ------
    UnsupportedError
        If that makes no sense, or names no variable.

    Examples
    --------
    >>> from nczarr.model import DOUBLE
    >>> rounded(Dataset("d", variables=(Variable("v", DOUBLE),)), "v=3").variables[0].attributes
    ()
    """
    from nczarr.netcdf4.values.quantize import ATTRIBUTE_OF_MODE

    names, equals, rest = text.rpartition("=")
    mode, _, number = rest.rpartition(":")
    modes = {name.lower(): name for name in ATTRIBUTE_OF_MODE}
    if (mode and mode.lower() not in modes) or not number.isdecimal() or not 1 <= int(number) <= 52:
        raise UnsupportedError(
            f"--quantize {text}: not a number of digits",
            hint="temp=3 or GranularBitRound:3; BitRound counts bits",
        )
    digits, mode = int(number), modes.get(mode.lower(), "GranularBitRound")
    patterns = names.split(",") if equals else []
    floats = {fqn for fqn, v in dataset.all_variables.items() if v.type.dtype.kind == "f"}
    for pattern in patterns:
        if not any(matches(fqn, pattern) for fqn in floats):
            raise UnsupportedError(f"--quantize {pattern}: there is no float or double variable of this name")
    for fqn in floats:
        limit = (
            (23 if dataset.all_variables[fqn].type.dtype.itemsize == 4 else 52)
            if mode == "BitRound"
            else (7 if dataset.all_variables[fqn].type.dtype.itemsize == 4 else 15)
        )
        if any(matches(fqn, p) for p in patterns) and digits > limit:
            raise UnsupportedError(f"--quantize {text}: {fqn} has {limit} at most")

    def variable(fqn: str, old: Variable) -> Variable:
        chosen = any(matches(fqn, p) for p in patterns) if patterns else fqn not in dataset.all_dimensions
        if fqn not in floats or not chosen or old.data is None:
            return old
        note = Attribute.of(ATTRIBUTE_OF_MODE[mode], digits, INT)
        data = QuantizedSource(old.data, digits, mode, old.type.dtype.type(fill_value_of(old)))
        return replace(old, attributes=(*old.attributes, note), data=data)

    return rewrite(dataset, variable=variable)

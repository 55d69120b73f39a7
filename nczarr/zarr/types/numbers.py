"""Define data types of numbers: bool, integers, floats, complex, and times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.lazy import cached_property
from nczarr.zarr.types.base import DataType, bad, show

_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_NAT = -(2**63)
_TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic")


@dataclass(frozen=True)
class BoolType(DataType):
    """True or false, one byte each."""

    name: str = "bool"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(bool)

    def fill_from_json(self, value: Any) -> np.bool_:
        if not isinstance(value, bool):
            raise bad(f"{show(value)} is not true or false")
        return np.bool_(value)

    def fill_to_json(self, value: Any) -> bool:
        return bool(value)


@dataclass(frozen=True)
class IntegerType(DataType):
    """``int8`` to ``int64`` and ``uint8`` to ``uint64``; the fill value is a JSON integer."""

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)

    def fill_from_json(self, value: Any) -> Any:
        if type(value) is not int:
            raise bad(f"{show(value)} is not an integer")
        limits = np.iinfo(self.dtype)
        if not limits.min <= value <= limits.max:
            raise bad(f"{show(value)} is outside the range of {self.name}")
        return self.dtype.type(value)

    def fill_to_json(self, value: Any) -> int:
        return int(self.to_scalar(value))

    def to_scalar(self, value: Any) -> Any:
        if type(value) is self.dtype.type:
            return value
        result = super().to_scalar(value)
        if np.ndim(value) or result != value:  # numpy truncates fractions and wraps around
            raise bad(f"{show(value)} is not a value of {self.name}")
        return result


@dataclass(frozen=True)
class FloatType(DataType):
    """``float16``, ``float32``, ``float64``.

    The fill value is a JSON number, ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, or the bits as a hexadecimal string
    with the most significant byte first. NaNs with another payload are written as such strings.

    Examples
    --------
    >>> t = FloatType("float32")
    >>> t.fill_to_json(t.fill_from_json("0x7fc00001"))
    '0x7fc00001'
    """

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)

    @property
    def _bits(self) -> np.dtype:
        return np.dtype(f"u{self.dtype.itemsize}")

    def fill_from_json(self, value: Any) -> Any:
        if isinstance(value, str):
            if value in _NAMED:
                return self.dtype.type(_NAMED[value])
            digits = 2 * self.dtype.itemsize
            if _HEX.fullmatch(value) and len(value) == digits + 2:
                return np.array(int(value, 16), self._bits).view(self.dtype)[()]
            raise bad(f"{show(value)} is not NaN, Infinity, -Infinity or 0x with {digits} hexadecimal digits")
        if type(value) not in (int, float):
            raise bad(f"{show(value)} is not a number")
        try:
            number = float(value)
        except OverflowError:
            raise bad(f"{show(value)} is outside the range of {self.name}") from None
        with np.errstate(over="ignore"):
            result = self.dtype.type(number)
        if np.isinf(result) and math.isfinite(number):
            raise bad(f"{show(value)} is outside the range of {self.name}")
        return result

    def to_scalar(self, value: Any) -> Any:
        if type(value) is self.dtype.type:
            return value
        with np.errstate(over="ignore"):
            result = super().to_scalar(value)
        if np.ndim(value) or (np.isinf(result) and not np.isinf(value)):
            raise bad(f"{show(value)} is not a value of {self.name}")
        return result

    def fill_to_json(self, value: Any) -> float | str:
        scalar = np.asarray(self.to_scalar(value), self.dtype)
        number = float(scalar)
        if math.isfinite(number):
            return number
        if math.isinf(number):
            return "Infinity" if number > 0 else "-Infinity"
        bits = int(scalar.view(self._bits))
        if bits == int(np.array(math.nan, self.dtype).view(self._bits)):
            return "NaN"
        return f"0x{bits:0{2 * self.dtype.itemsize}x}"


@dataclass(frozen=True)
class ComplexType(DataType):
    """``complex64`` and ``complex128``; the fill value is a list of two float fill values."""

    @cached_property
    def dtype(self) -> np.dtype:
        return np.dtype(self.name)

    @cached_property
    def _part(self) -> FloatType:
        return FloatType(f"float{self.dtype.itemsize * 4}")

    def fill_from_json(self, value: Any) -> Any:
        if not isinstance(value, list) or len(value) != 2:
            raise bad(f"{show(value)} is not a list of two numbers")
        # A view of an array of parts keeps NaN payloads and signed zeros; arithmetic does not.
        parts = np.array([self._part.fill_from_json(part) for part in value], self._part.dtype)
        return parts.view(self.dtype)[0]

    def fill_to_json(self, value: Any) -> list[float | str]:
        parts = np.array([self.to_scalar(value)], self.dtype).view(self._part.dtype)
        return [self._part.fill_to_json(part) for part in parts]


@dataclass(frozen=True)
class TimeType(DataType):
    """``numpy.datetime64`` and ``numpy.timedelta64``: int64 counts of `scale_factor` units.

    Parameters
    ----------
    unit : str
        numpy's code: ``Y M W D h m s ms us ns ps fs as`` or ``generic``.
    scale_factor : int
        The number of units in one count.

    Examples
    --------
    >>> TimeType("numpy.datetime64", "s", 10).dtype
    dtype('<M8[10s]')
    """

    unit: str = "generic"
    scale_factor: int = 1

    @cached_property
    def dtype(self) -> np.dtype:
        code = "M8" if self.name == "numpy.datetime64" else "m8"
        if self.unit == "generic":
            return np.dtype(code)
        return np.dtype(f"{code}[{self.scale_factor}{self.unit}]")

    @classmethod
    def parse(cls, name: str, configuration: Mapping[str, Any]) -> TimeType:
        """Return the type for a name and the ``configuration`` of a document."""
        unit, scale = configuration.get("unit"), configuration.get("scale_factor", 1)
        if unit not in _TIME_UNITS:
            raise bad(f"configuration.unit: {show(unit)} is not one of {', '.join(_TIME_UNITS)}")
        if type(scale) is not int or not 1 <= scale < 2**31:
            raise bad(f"configuration.scale_factor: {show(scale)} is not an integer between 1 and 2147483647")
        if unit == "generic" and scale != 1:
            raise bad("configuration.scale_factor: generic units cannot be scaled")
        return cls(name, "us" if unit == "μs" else unit, scale)

    @property
    def configuration(self) -> Mapping[str, Any]:
        return {"unit": self.unit, "scale_factor": self.scale_factor}

    def zero(self) -> Any:
        """Return NaT, because 1970-01-01 is a valid time."""
        return np.array(_NAT, np.int64).view(self.dtype)[()]

    def fill_from_json(self, value: Any) -> Any:
        if value == "NaT" and isinstance(value, str):
            value = _NAT
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise bad(f'{show(value)} is not a 64-bit integer or "NaT"')
        return np.array(value, np.int64).view(self.dtype)[()]

    def fill_to_json(self, value: Any) -> int | str:
        count = int(np.asarray(self.to_scalar(value), self.dtype).view(np.int64))
        return "NaT" if count == _NAT else count


#: The numeric core types by name.
NUMERIC_TYPES: dict[str, DataType] = {
    "bool": BoolType(),
    **{f"{u}int{8 * n}": IntegerType(f"{u}int{8 * n}") for u in ("", "u") for n in (1, 2, 4, 8)},
    **{f"float{8 * n}": FloatType(f"float{8 * n}") for n in (2, 4, 8)},
    **{f"complex{8 * n}": ComplexType(f"complex{8 * n}") for n in (8, 16)},
}

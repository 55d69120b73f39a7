"""Define the base class of data types and their shared checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nczarr.errors import MetadataError, UnsupportedError

Endian = Literal["little", "big"]

#: numpy stores the item size in a C int.
MAX_ITEM_BYTES = 2**31 - 1


def show(value: Any) -> str:
    """Return a short text of a JSON value for messages.

    Examples
    --------
    >>> show({"a": [1, 2]})
    "{'a': [1, 2]}"
    >>> show(None)
    'null'
    >>> show("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of more than 256 bits"
    text = repr(value[:64]) if isinstance(value, str | list | tuple) else repr(value)
    return text if len(text) <= 58 and text == repr(value) else text[:57] + "…"


def bad(message: str) -> MetadataError:
    """Return the error for an invalid JSON value; a caller adds the document to it."""
    return MetadataError(message)


@dataclass(frozen=True)
class DataType(ABC):
    """A Zarr data type: its name, its values in memory, and its fill value in JSON.

    Implements the sections *Data types* and *Fill value* of the Zarr v3 core specification and the data types
    of its registry. Objects are immutable, and arrays share them.

    Parameters
    ----------
    name : str
        The registered name, such as ``int32`` or ``numpy.datetime64``.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import parse_data_type
    >>> t = parse_data_type("float32")
    >>> t.dtype, t.itemsize, float(t.fill_from_json("NaN")), t.to_json()
    (dtype('float32'), 4, nan, 'float32')
    """

    name: str

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """The numpy dtype in memory, in native byte order; object for string and bytes."""

    @abstractmethod
    def fill_from_json(self, value: Any) -> Any:
        """Return the fill value for its JSON in a v3 document.

        Returns
        -------
        numpy scalar, str or bytes
            A value of `dtype`.

        Raises
        ------
        MetadataError
            If `value` is not a fill value of this type.
        """

    @abstractmethod
    def fill_to_json(self, value: Any) -> Any:
        """Return a fill value as JSON of a v3 document; the exact inverse of `fill_from_json`."""

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration in the document; empty for types without parameters."""
        return {}

    def to_json(self) -> Any:
        """Return the value of ``data_type`` in a v3 document: the name, or an object with a configuration."""
        configuration = self.configuration
        return {"name": self.name, "configuration": dict(configuration)} if configuration else self.name

    @property
    def is_variable(self) -> bool:
        """True if the values have no fixed number of bytes (string, bytes)."""
        return bool(self.dtype.hasobject)

    @property
    def itemsize(self) -> int | None:
        """The number of bytes of one value in a chunk; None if it varies."""
        return None if self.is_variable else self.dtype.itemsize

    @property
    def needs_endian(self) -> bool:
        """True if the ``bytes`` codec requires a byte order."""
        return not self.is_variable and self.stored_dtype("little") != self.stored_dtype("big")

    def stored_dtype(self, endian: Endian | None = None) -> np.dtype:
        """Return the numpy dtype of the values in a chunk, in byte order `endian` (default: native).

        Raises
        ------
        UnsupportedError
            If the type has no fixed size.
        """
        if self.is_variable:
            raise UnsupportedError(f"the values of data type {self.name!r} have no fixed size")
        if endian is None:
            return self.dtype
        return self.dtype.newbyteorder("<" if endian == "little" else ">")

    def zero(self) -> Any:
        """Return the default fill value: zero, false or empty."""
        return np.zeros((), self.dtype)[()]

    def to_scalar(self, value: Any) -> Any:
        """Return `value` as a scalar of `dtype`.

        Raises
        ------
        MetadataError
            If the value does not fit.
        """
        try:
            return np.asarray(value, self.dtype)[()]
        except (TypeError, ValueError, OverflowError):
            raise bad(f"{show(value)} is not a value of {self.name}") from None

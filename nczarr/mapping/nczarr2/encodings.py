"""Encode what only NCZarr v2 needs: text cut at a fixed length, and scalars as arrays of one element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nczarr.errors import LossError
from nczarr.mapping.values.encodings import Encoding, PlainEncoding
from nczarr.model import STRING
from nczarr.zarr import data_type_for


@dataclass(frozen=True)
class FixedTextEncoding(Encoding):
    """Strings in elements of a fixed number of bytes, as netcdf-c keeps them.

    Examples
    --------
    >>> e = FixedTextEncoding(STRING, data_type_for("S4"))
    >>> e.decode(e.encode(np.array(["ab", "é"], object))).tolist()
    ['ab', 'é']
    """

    @property
    def limited(self) -> bool:
        return True

    def encode(self, values: np.ndarray) -> np.ndarray:
        size = self.data_type.dtype.itemsize
        out = np.empty(values.shape, self.data_type.dtype)
        flat = out.reshape(-1)
        for i, value in enumerate(values.reshape(-1)):
            raw = (value or "").encode("utf-8", "surrogateescape")
            if len(raw) > size or b"\0" in raw:
                raise LossError(
                    f"the text {value[:20]!r}… has {len(raw)} bytes; this layout holds {size}, without NUL",
                    hint="write the dataset as nczarr-v3",
                )
            flat[i] = raw
        return out

    def decode(self, raw: np.ndarray) -> np.ndarray:
        out = np.empty(raw.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(raw.reshape(-1)):
            flat[i] = bytes(value).decode("utf-8", "surrogateescape")
        return out


@dataclass(frozen=True)
class ScalarEncoding(Encoding):
    """A scalar as an array of one element; `inner` says how the element is held.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> e = ScalarEncoding(INT, data_type_for("int32"), (1,), PlainEncoding(INT, data_type_for("int32")))
    >>> e.encode(np.array(5, "i4")), int(e.decode(np.array([5], "i4"))[()])
    (array([5], dtype=int32), 5)
    """

    inner: Encoding = field(default=PlainEncoding(STRING, data_type_for("string")))

    @property
    def limited(self) -> bool:
        return self.inner.limited

    def encode(self, values: np.ndarray) -> np.ndarray:
        return self.inner.encode(np.asarray(values, self.dtype).reshape(1))

    def decode(self, raw: np.ndarray) -> np.ndarray:
        values = self.inner.decode(raw)
        return values.reshape(values.shape[:-1])

    def encode_fill(self, value: Any) -> Any:
        return self.inner.encode_fill(value)

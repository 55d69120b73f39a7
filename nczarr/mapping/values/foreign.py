"""Encode values for arrays that other programs have created: plain Zarr, and NCZarr on Zarr v2."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nczarr.errors import LossError, UnsupportedError
from nczarr.mapping.values.encodings import Encoding, PlainEncoding, ViewEncoding
from nczarr.mapping.values.scalars import Scalar
from nczarr.model import STRING
from nczarr.zarr import data_type_for


@dataclass(frozen=True)
class CastEncoding(Encoding):
    """Numbers for which netCDF has a wider type only."""

    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            raw = values.astype(self.data_type.dtype)
        if (np.isinf(raw) & np.isfinite(values)).any():
            raise UnsupportedError(
                f"a value is out of range for {self.data_type.name}, the array's data type"
            )
        return raw

    def encode_fill(self, value: Scalar) -> Scalar:
        with np.errstate(over="ignore"):
            return self.data_type.dtype.type(value)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return raw.astype(self.dtype)


@dataclass(frozen=True)
class TruthEncoding(ViewEncoding):
    """Truth values as 0 and 1."""

    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        if (values.view(np.uint8) > 1).any():
            raise UnsupportedError("a value is neither 0 nor 1, and the array stores truth values only")
        return super().encode(values)

    def encode_fill(self, value: Scalar) -> Scalar:
        return self.data_type.dtype.type(value)


@dataclass(frozen=True)
class TimeEncoding(Encoding):
    """Times as whole numbers of the unit `step`, which divides the unit of the array."""

    step: str = "s"
    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        whole = np.ascontiguousarray(values, np.int64)
        raw = self._converted(whole.view(f"{dtype.kind}8[{self.step}]"), dtype)
        if (self.decode(raw) != whole).any():
            raise UnsupportedError(f"a time is not a multiple of the unit of the array, which has {dtype}")
        return raw

    def decode(self, raw: np.ndarray) -> np.ndarray:
        counted = self._converted(raw, np.dtype(f"{raw.dtype.kind}8[{self.step}]"))
        # Some versions of numpy wrap values around that are too large.
        if (self._converted(counted, raw.dtype).view(np.int64) != raw.view(np.int64)).any():
            raise self._too_large(raw.dtype)
        return counted.view(np.int64)

    def _converted(self, times: np.ndarray, dtype: np.dtype) -> np.ndarray:
        try:
            return times.astype(dtype)
        except OverflowError:
            raise self._too_large(self.data_type.dtype) from None

    def _too_large(self, dtype: np.dtype) -> UnsupportedError:
        return UnsupportedError(f"a time of {dtype} is too large for a number of units of {self.step!r}")


@dataclass(frozen=True)
class TextEncoding(Encoding):
    """Text of a fixed number of characters or bytes."""

    limited = True

    def encode(self, values: np.ndarray) -> np.ndarray:
        dtype = self.data_type.dtype
        texts = [v or "" for v in values.reshape(-1)]
        items: list[str] | list[bytes] = texts
        limit = dtype.itemsize // 4
        if dtype.kind == "S":
            items = [t.encode("utf-8", "surrogateescape") for t in texts]
            limit = dtype.itemsize
        for item in items:
            if item[-1:] in ("\0", b"\0"):
                raise UnsupportedError(
                    f"the text {item!r} ends with NUL, which the array cannot distinguish from padding"
                )
            if len(item) > limit:
                raise UnsupportedError(f"the text {item!r} is longer than {limit}, the limit of the array")
        return np.array(items, dtype).reshape(values.shape)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        if raw.dtype.kind == "U":
            _check_characters(raw)
        out = np.empty(raw.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(raw.reshape(-1).tolist()):
            flat[i] = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return out


def _check_characters(raw: np.ndarray) -> None:
    """Refuse numbers that are not characters, which numpy accepts but writers of text do not."""
    codes = np.ascontiguousarray(raw).reshape(-1).view(np.uint32)
    # U+DC80 to U+DCFF stand for bytes that are not UTF-8.
    wrong = codes[(codes > 0x10FFFF) | ((codes & ~np.uint32(0x7FF)) == 0xD800)]
    wrong = wrong[(wrong < 0xDC80) | (wrong > 0xDCFF)]
    if wrong.size:
        raise UnsupportedError(f"a text contains {wrong[0]:#x}, which is not a character")


@dataclass(frozen=True)
class FixedTextEncoding(TextEncoding):
    """Strings in elements of a fixed number of bytes, as netcdf-c stores them in NCZarr v2.

    Examples
    --------
    >>> e = FixedTextEncoding(STRING, data_type_for("S4"))
    >>> e.decode(e.encode(np.array(["ab", "é"], object))).tolist()
    ['ab', 'é']
    """

    def encode(self, values: np.ndarray) -> np.ndarray:
        size = self.data_type.dtype.itemsize
        items = []
        for value in values.reshape(-1):
            raw = (value or "").encode("utf-8", "surrogateescape")
            if len(raw) > size or b"\0" in raw:
                raise LossError(
                    f"the text {value[:20]!r}… has {len(raw)} bytes; this layout stores {size}, without NUL",
                    hint="write the dataset as nczarr-v3",
                )
            items.append(raw)
        return np.array(items, self.data_type.dtype).reshape(values.shape)


@dataclass(frozen=True)
class ScalarEncoding(Encoding):
    """A scalar as an array of one element, as in NCZarr v2; `inner` is the encoding of the element.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> e = ScalarEncoding(INT, data_type_for("int32"), (1,), PlainEncoding(INT, data_type_for("int32")))
    >>> e.encode(np.array(5, "i4")), int(e.decode(np.array([5], "i4"))[()])
    (array([5], dtype=int32), 5)
    """

    inner: Encoding = field(default=PlainEncoding(STRING, data_type_for("string")))

    @property
    def limited(self) -> bool:  # type: ignore[override]
        return self.inner.limited

    def encode(self, values: np.ndarray) -> np.ndarray:
        return self.inner.encode(np.asarray(values, self.dtype).reshape(1))

    def decode(self, raw: np.ndarray) -> np.ndarray:
        values = self.inner.decode(raw)
        return values.reshape(values.shape[:-1])

    def encode_fill(self, value: Scalar) -> Scalar:
        return self.inner.encode_fill(value)

"""Convert text to arrays of characters and back."""

from __future__ import annotations

import numpy as np

from nczarr.errors import ArgumentError
from nczarr.netcdf4.errors import translating

#: Encodings of raw bytes.
RAW = ("none", "None", "bytes")


def stringtoarr(string: str, NUMCHARS: int, dtype: str = "S") -> np.ndarray:
    """Make a one-dimensional array of characters from a text, padded with NUL.

    Parameters
    ----------
    string : str
    NUMCHARS : int
        Length of the result; a longer text raises :class:`ValueError`.
    dtype : {'S', 'U'}
        Kind of the result: ``S1`` or ``U1``.

    Returns
    -------
    ndarray
        Of shape ``(NUMCHARS,)``.

    Examples
    --------
    >>> stringtoarr("ab", 3).tolist()
    [b'a', b'b', b'']
    """
    if dtype not in ("S", "U"):
        raise ArgumentError(f"dtype must be 'S' or 'U', got {dtype!r}")
    # As in netCDF4-python: numpy would cut the text.
    if len(string) > NUMCHARS:
        raise ArgumentError(f"the text has {len(string)} characters, more than {NUMCHARS}")
    array = np.zeros(NUMCHARS, dtype + "1")
    array[: len(string)] = list(string)
    return array


def _encoding(array: np.ndarray, encoding: str | None) -> str:
    if array.dtype.kind not in "SU":
        raise ArgumentError(f"an array of 'S' or 'U' is needed, got {array.dtype}")
    if encoding is not None:
        return encoding
    return "ascii" if array.dtype.kind == "S" else "utf-8"


def stringtochar(a: np.ndarray, encoding: str | None = None, n_strlen: int | None = None) -> np.ndarray:
    """Turn an array of text into an array of characters with one more dimension.

    Parameters
    ----------
    a : ndarray
        Of dtype ``SN`` or ``UN``; what is masked has its fill value.
    encoding : str, optional
        Default: ``ascii`` for ``SN``, ``utf-8`` for ``UN``; ``none`` or ``bytes``: raw bytes.
    n_strlen : int, optional
        Length of the new dimension; default: the bytes of one element. Text is cut or padded with NUL.

    Returns
    -------
    ndarray
        ``S1`` (``U1`` for unicode input in ascii), of shape ``a.shape + (n_strlen,)``.

    Examples
    --------
    >>> stringtochar(np.array([b"ab", b"c"])).tolist()
    [[b'a', b'b'], [b'c', b'']]
    """
    encoding = _encoding(a, encoding)
    a = np.ma.filled(a)
    length = a.dtype.itemsize if n_strlen is None else n_strlen
    if length < 0:
        raise ArgumentError(f"n_strlen is negative: {length}")
    # As in netCDF4-python, the bytes are taken as they are.
    if encoding in RAW:
        raw = np.frombuffer(a.tobytes(), "S1").reshape(*a.shape, a.dtype.itemsize)
        return _resized(raw, length)
    if encoding == "ascii" and a.dtype.kind == "U":
        # Four bytes for a character: the row must have the length of the text.
        step = a.dtype.itemsize // 4
        letters = np.ascontiguousarray(a).reshape(-1).view("U1").reshape(*a.shape, step)
        return _resized(letters, length if n_strlen is not None else step)
    if not a.ndim:
        a = a.reshape((1,) if a.dtype.kind == "U" else ())
    if a.dtype.kind == "S":
        raw = np.ascontiguousarray(a)
    else:
        raw = np.array([text.encode(encoding) for text in a.flat], dtype="S").reshape(a.shape)
    chars = raw.reshape(-1).view("S1").reshape(*a.shape, max(raw.dtype.itemsize, 1))
    return _resized(chars, length)


def _resized(chars: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros((*chars.shape[:-1], length), chars.dtype)
    used = min(length, chars.shape[-1])
    result[..., :used] = chars[..., :used]
    return result


def chartostring(b: np.ndarray, encoding: str | None = None) -> np.ndarray:
    """Join the last dimension of an array of characters to text.

    Parameters
    ----------
    b : ndarray
        Of dtype ``S1`` or ``U1``.
    encoding : str, optional
        As for :func:`stringtochar`; ``none`` or ``bytes`` gives bytes.

    Returns
    -------
    ndarray
        ``UN`` (``SN`` for raw bytes), of shape ``b.shape[:-1]``; N is the size of the last dimension.

    Examples
    --------
    >>> chartostring(np.array([[b"a", b"b"], [b"c", b""]])).tolist()
    ['ab', 'c']
    """
    encoding = _encoding(b, encoding)
    if b.dtype.itemsize != (4 if b.dtype.kind == "U" else 1):
        raise ArgumentError(f"single characters are needed, not {b.dtype}")
    length = int(b.shape[-1])
    raw = b.tobytes()
    step = length * b.dtype.itemsize
    pieces = [raw[i : i + step] for i in range(0, len(raw), step)] if step else []
    if encoding in RAW:
        return np.array(pieces, f"S{length}").reshape(b.shape[:-1])
    if b.dtype.kind == "U":
        joined = np.ascontiguousarray(b).reshape(-1, length).view(f"U{length}")
        return joined.reshape(b.shape[:-1])
    with translating("the characters are not {}", encoding):
        texts = [piece.decode(encoding) for piece in pieces]
    return np.array(texts, f"U{length}").reshape(b.shape[:-1])

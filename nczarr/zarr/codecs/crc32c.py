"""Compute the checksum CRC-32C (Castagnoli), with numpy or, where it is installed, with google_crc32c."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

_POLYNOMIAL = np.uint32(0x82F63B78)
_BLOCK = 4096


@functools.cache
def _byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ _POLYNOMIAL, table >> np.uint32(1))
    return table.astype(np.uint32)


def _advance(state: np.ndarray) -> np.ndarray:
    """Push one zero byte through each checksum state."""
    return _byte_table()[state & np.uint32(0xFF)] ^ (state >> np.uint32(8))


@functools.cache
def _position_table() -> np.ndarray:
    """What each value of a byte does to the checksum, for each distance (0 … _BLOCK - 1) from the end."""
    table = np.empty((_BLOCK, 256), np.uint32)
    table[0] = _byte_table()
    for i in range(1, _BLOCK):
        table[i] = _advance(table[i - 1])
    return table


@functools.cache
def _skip_tables(distance: int) -> np.ndarray:
    """What each byte of a state (shape (4, 256)) becomes after `distance` zero bytes."""
    if distance == 0:
        values = np.arange(256, dtype=np.uint32)
        return np.stack([values << np.uint32(8 * i) for i in range(4)])
    half = _skip_tables(distance // 2)
    result = _apply(half, half)
    return _advance(result) if distance % 2 else result


def _apply(tables: np.ndarray, state: Any) -> np.ndarray:
    result = tables[0][state & np.uint32(0xFF)]
    for i in range(1, 4):
        result = result ^ tables[i][(state >> np.uint32(8 * i)) & np.uint32(0xFF)]
    return result


def crc32c_numpy(data: Any) -> int:
    """Return the CRC-32C of a buffer, computed with numpy.

    A checksum is linear: each byte adds what it alone, followed by zeros, would give. So blocks of bytes are
    looked up and combined at once, without a Python loop for each byte.

    Examples
    --------
    >>> hex(crc32c_numpy(b"123456789"))
    '0xe3069283'
    """
    values = np.frombuffer(data, np.uint8)
    state = np.uint32(0xFFFFFFFF)
    table = _position_table()
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        distance = np.arange(block.size - 1, -1, -1)
        state = _apply(_skip_tables(block.size), state) ^ np.bitwise_xor.reduce(table[distance, block])
    return int(state) ^ 0xFFFFFFFF


def _fastest() -> Callable[[Any], int]:
    try:
        import google_crc32c
    except ImportError:
        return crc32c_numpy
    if google_crc32c.implementation != "c":
        return crc32c_numpy
    return google_crc32c.value


@functools.cache
def _implementation() -> Callable[[Any], int]:
    return _fastest()


def crc32c(data: Any) -> int:
    """Return the CRC-32C of a contiguous buffer.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return _implementation()(data)

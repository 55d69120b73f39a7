"""Compute the checksum CRC-32C (Castagnoli), with google_crc32c if it is installed, else with numpy."""

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
    """Return each checksum state after one more zero byte."""
    return _byte_table()[state & np.uint32(0xFF)] ^ (state >> np.uint32(8))


@functools.cache
def _position_table() -> np.ndarray:
    """Return the checksum contribution of each byte value at each distance (0 … _BLOCK - 1) from the end."""
    table = np.empty((_BLOCK, 256), np.uint32)
    table[0] = _byte_table()
    for i in range(1, _BLOCK):
        table[i] = _advance(table[i - 1])
    return table


@functools.cache
def _skip_tables(distance: int) -> np.ndarray:
    """Return the contribution of each byte of a state after `distance` zero bytes, of shape (4, 256)."""
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

    CRCs are linear: the checksum is the XOR of each byte's contribution, which depends on its value and its distance
    from the end. Table lookups and one reduction therefore process a whole block without a Python loop over bytes.

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

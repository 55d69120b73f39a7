"""Convert Zarr v2's ``order``, ``filters`` and ``compressor`` to v3 codecs, and back.

The v2 codec ``{"id": "zlib", "level": 4}`` becomes the v3 codec ``numcodecs.zlib`` with the other members as its
configuration. Filters of numbers (``delta``, ``fixedscaleoffset``, …) precede the ``bytes`` codec; their dtypes become
native, and ``bytes`` gets the byte order of the chunk. Values of netcdf-c are normalized: an ``elementsize`` that is 0
or missing becomes the size of an element, and numbers in strings become numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from nczarr.errors import UnsupportedError
from nczarr.zarr.metadata import NamedConfig
from nczarr.zarr.types.base import DataType, Endian, bad, show
from nczarr.zarr.types.text import BytesType, StringType

#: Filters that encode object arrays as bytes; ``vlen-array`` has the same format as ``vlen-bytes``.
VARIABLE_FILTERS = {"vlen-utf8": "vlen-utf8", "vlen-bytes": "vlen-bytes", "vlen-array": "vlen-bytes"}
_ON_NUMBERS = frozenset(("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize"))
_TO_BYTES = frozenset(("pcodec", "zfpy"))
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def object_type(filters: Any) -> DataType:
    """Return the data type of a v2 array of dtype ``|O``, which its first filter defines.

    Raises
    ------
    UnsupportedError
        If the filter is not one of text, bytes or sequences (``pickle`` runs code from the data).

    Examples
    --------
    >>> object_type([{"id": "vlen-utf8"}]).name
    'string'
    """
    first = filters[0] if isinstance(filters, list) and filters else None
    name = first.get("id") if isinstance(first, dict) else None
    if name == "vlen-utf8":
        return StringType()
    if isinstance(name, str) and name in VARIABLE_FILTERS:
        return BytesType()
    raise UnsupportedError(
        f"dtype: the first filter of an object array is {show(name)}; supported: {', '.join(VARIABLE_FILTERS)}"
    )


def _codec(value: Any, key: str, data_type: DataType) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise bad(f"{key}: {show(value)} is not an object with an id")
    name = value.get("id")
    if not isinstance(name, str) or not name:
        raise bad(f"{key}.id: {show(name)} is not a name")
    configuration = {
        option: int(setting) if isinstance(setting, str) and _INTEGER.fullmatch(setting) else setting
        for option, setting in value.items()
        if option != "id"
    }
    if name == "shuffle" and not configuration.get("elementsize"):
        configuration["elementsize"] = data_type.itemsize or 1
    if name == "blosc" and not configuration.get("typesize"):
        configuration["typesize"] = min(data_type.itemsize or 1, 255)
    return name, configuration


def _native(
    configuration: dict[str, Any], key: str, given: Endian | None
) -> tuple[dict[str, Any], Endian | None]:
    """Return the configuration of a filter with native dtypes, and the byte order of the filter's output."""
    result = dict(configuration)
    order: Endian | None = None
    # numcodecs interprets its input as its own dtype, without a check.
    for option in ("dtype", "decode_dtype", "astype", "encode_dtype"):  # the last one is that of the output
        text = configuration.get(option)
        if text is None:
            continue
        try:
            dtype = np.dtype(text)
        except (TypeError, ValueError):
            raise bad(f"{key}.{option}: {show(text)} is not a dtype") from None
        if dtype.hasobject:
            raise UnsupportedError(f"{key}.{option}: {show(text)} is a dtype of objects")
        result[option] = dtype.newbyteorder("=").str
        order = None if dtype.itemsize == 1 else "big" if dtype.str[0] == ">" else "little"
        if option in ("dtype", "decode_dtype") and given and order and order != given:
            raise UnsupportedError(
                f"{key}.{option}: {show(text)}, but the input of the filter is {given}-endian"
            )
    return result, order


def codecs_from_v2(
    data_type: DataType, endian: Endian | None, ndim: int, order: Any, filters: Any, compressor: Any
) -> tuple[NamedConfig, ...]:
    """Return the v3 codecs for the order, filters and compressor of a v2 array.

    Raises
    ------
    MetadataError
        If one of them is invalid.
    UnsupportedError
        If a filter of numbers follows a filter of bytes, or has another byte order than its input.

    Examples
    --------
    >>> from nczarr.zarr.types.registry import data_type_for
    >>> for codec in codecs_from_v2(data_type_for("i4"), "little", 2, "F",
    ...                             [{"id": "shuffle", "elementsize": "0"}], {"id": "zlib", "level": "4"}):
    ...     print(codec.name, dict(codec.configuration))
    transpose {'order': [1, 0]}
    bytes {'endian': 'little'}
    numcodecs.shuffle {'elementsize': 4}
    numcodecs.zlib {'level': 4}
    """
    if order not in ("C", "F"):
        raise bad(f'order: {show(order)} is not "C" or "F"')
    codecs: list[NamedConfig] = []
    if order == "F" and ndim > 1:
        codecs.append(NamedConfig("transpose", {"order": list(range(ndim))[::-1]}))
    in_bytes = False
    for key, item in _steps(filters, compressor):
        name, configuration = _codec(item, key, data_type)
        if not in_bytes and data_type.is_variable and name in VARIABLE_FILTERS:
            codecs.append(NamedConfig(VARIABLE_FILTERS[name]))
            in_bytes = True
            continue
        if name in _ON_NUMBERS or name in _TO_BYTES:
            if in_bytes:
                raise UnsupportedError(f"{key}: the filter {name!r} follows a filter whose output is bytes")
            configuration, output = _native(configuration, key, endian)
            if name == "packbits":
                endian = None
            elif "dtype" in configuration or "encode_dtype" in configuration:
                endian = output
            in_bytes = name in _TO_BYTES
        elif not in_bytes:
            codecs.append(_to_bytes(endian))
            in_bytes = True
        codecs.append(NamedConfig(f"numcodecs.{name}", configuration))
    if not in_bytes:
        codecs.append(_to_bytes(endian))
    return tuple(codecs)


def _steps(filters: Any, compressor: Any) -> list[tuple[str, Any]]:
    """Return the filters and then the compressor, with their keys in the document."""
    if filters in (None, {}):
        filters = []
    if not isinstance(filters, list):
        raise bad(f"filters: {show(filters)} is not a list")
    steps = [(f"filters[{i}]", item) for i, item in enumerate(filters)]
    return steps if compressor is None else [*steps, ("compressor", compressor)]


def _to_bytes(endian: Endian | None) -> NamedConfig:
    return NamedConfig("bytes", {"endian": endian} if endian else {})


def codecs_to_v2(
    codecs: Sequence[NamedConfig], ndim: int
) -> tuple[Endian | None, str, list[dict[str, Any]] | None, dict[str, Any] | None]:
    """Return byte order, ``order``, ``filters`` and ``compressor`` of a v2 array for v3 codecs.

    The last bytes-to-bytes codec becomes the compressor.

    Raises
    ------
    UnsupportedError
        If v2 has no such codec, or not at this position.

    Examples
    --------
    >>> codecs_to_v2([NamedConfig("bytes", {"endian": "big"}), NamedConfig("numcodecs.shuffle", {"elementsize": 4}),
    ...               NamedConfig("gzip", {"level": 1})], 1)
    ('big', 'C', [{'id': 'shuffle', 'elementsize': 4}], {'id': 'gzip', 'level': 1})
    """
    order, endian, in_bytes = "C", None, False
    filters: list[dict[str, Any]] = []
    on_bytes: list[dict[str, Any]] = []
    for i, codec in enumerate(codecs):
        name = codec.name.removeprefix("numcodecs.")
        if codec.name == "transpose":
            permutation = list(codec.configuration.get("order", ()))
            if i or permutation not in (list(range(ndim)), list(range(ndim))[::-1]):
                raise UnsupportedError(f"codecs[{i}]: Zarr v2 supports no transpose except order F")
            order = "F" if ndim > 1 and permutation[0] else "C"
        elif codec.name == "bytes":
            endian, in_bytes = codec.configuration.get("endian"), True
        elif codec.name in ("vlen-utf8", "vlen-bytes"):
            filters.append({"id": codec.name})
            in_bytes = True
        elif in_bytes:
            on_bytes.append(_v2_codec(codec, i))
        elif codec.name.startswith("numcodecs.") and (name in _ON_NUMBERS or name in _TO_BYTES):
            (on_bytes if name in _TO_BYTES else filters).append({"id": name, **codec.configuration})
            in_bytes = name in _TO_BYTES
        elif codec.name == "bitround":
            filters.append({"id": "bitround", **codec.configuration})
        else:
            raise UnsupportedError(f"codecs[{i}]: Zarr v2 has no codec {codec.name!r}")
    compressor = on_bytes.pop() if on_bytes else None
    return endian, order, [*filters, *on_bytes] or None, compressor


def _v2_codec(codec: NamedConfig, i: int) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    if codec.name.startswith("numcodecs."):
        name = codec.name.removeprefix("numcodecs.")
        if name == "blosc":
            configuration.pop("typesize", None)
        return {"id": name, **configuration}
    if codec.name == "blosc":
        shuffle = configuration.get("shuffle", "noshuffle")
        return {
            "id": "blosc",
            "cname": configuration.get("cname", "lz4"),
            "clevel": configuration.get("clevel", 5),
            "shuffle": _SHUFFLES.index(shuffle) if shuffle in _SHUFFLES else shuffle,
            "blocksize": configuration.get("blocksize", 0),
        }
    if codec.name == "zstd":
        result = {"id": "zstd", "level": configuration.get("level", 0)}
        return {**result, "checksum": True} if configuration.get("checksum") else result
    if codec.name == "gzip":
        return {"id": "gzip", "level": configuration.get("level", 5)}
    raise UnsupportedError(f"codecs[{i}]: Zarr v2 has no codec {codec.name!r}")

"""Read damaged chunks through all codecs: an error of our own, never a wrong value where there is a checksum."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from budget import Budget, main

from nczarr.errors import NCZarrError
from nczarr.stores import MemoryStore
from nczarr.zarr import Array, ArrayMetadata, NamedConfig, RegularGrid, data_type_for
from nczarr.zarr.limits import LIMITS

N = NamedConfig
LITTLE = N("bytes", {"endian": "little"})
GZIP, ZSTD = N("gzip", {"level": 1}), N("zstd", {"level": 1, "checksum": False})
CRC = N("crc32c")


def blosc(name: str, shuffle: str = "shuffle") -> NamedConfig:
    return N("blosc", {"cname": name, "clevel": 5, "shuffle": shuffle, "typesize": 4, "blocksize": 0})


def shards(*codecs: NamedConfig, index: tuple[NamedConfig, ...] = (LITTLE, CRC)) -> NamedConfig:
    def plain(chain: tuple[NamedConfig, ...]) -> list[dict[str, Any]]:
        return [{"name": c.name, "configuration": dict(c.configuration)} for c in chain]

    return N(
        "sharding_indexed",
        {
            "chunk_shape": [2, 4],
            "codecs": plain(codecs),
            "index_codecs": plain(index),
            "index_location": "end",
        },
    )


ONE_BIT = "one bit"
#: Chains, and whether they say for certain whether what is read is what was written.
CHAINS: dict[str, tuple[tuple[NamedConfig, ...], str, bool | str]] = {
    "none": ((LITTLE,), "int32", False),
    "gzip": ((LITTLE, GZIP), "int32", True),
    "zstd": ((LITTLE, ZSTD), "int32", False),
    # Of several changes one may clear the flag that says that there is a checksum.
    "zstd checksum": ((LITTLE, N("zstd", {"level": 1, "checksum": True})), "int32", ONE_BIT),
    "blosc lz4": ((LITTLE, blosc("lz4")), "int32", False),
    "blosc zstd": ((LITTLE, blosc("zstd", "bitshuffle")), "int32", False),
    "blosc zlib": ((LITTLE, blosc("zlib")), "int32", False),
    "crc32c": ((LITTLE, CRC), "int32", True),
    "blosc crc32c": ((LITTLE, blosc("lz4"), CRC), "int32", True),
    "transpose": ((N("transpose", {"order": [1, 0]}), LITTLE, GZIP, CRC), "float64", True),
    "shuffle": ((LITTLE, N("numcodecs.shuffle", {"elementsize": 4}), N("numcodecs.zlib", {"level": 1})), "int32", True),
    "fletcher32": ((LITTLE, N("numcodecs.fletcher32")), "int32", False),
    "lz4": ((LITTLE, N("numcodecs.lz4", {"acceleration": 1})), "int32", False),
    "bz2": ((LITTLE, N("numcodecs.bz2", {"level": 1})), "int32", True),
    "strings": ((N("vlen-utf8"),), "string", False),
    "strings zstd crc32c": ((N("vlen-utf8"), ZSTD, CRC), "string", True),
    "bytes": ((N("vlen-bytes"), GZIP), "bytes", True),
    "shards": ((shards(LITTLE, ZSTD, CRC),), "int32", True),
    "shards without checksum": ((shards(LITTLE, index=(LITTLE,)),), "int32", False),
    "shards of strings": ((shards(N("vlen-utf8"), ZSTD),), "string", False),
    "shards with a checksum": ((shards(LITTLE), CRC), "int32", True),
    "booleans": ((N("packbits", {"padding_encoding": "first_byte"}),), "bool", False),
}  # fmt: skip

FILLS: dict[str, Any] = {
    "int32": np.int32(0), "float64": np.float64(0), "bool": np.False_, "string": "", "bytes": b"",
}  # fmt: skip


def values(name: str) -> np.ndarray:
    if name == "string":
        return np.array([f"wörd {i}" * (i % 5) for i in range(64)], object).reshape(8, 8)
    if name == "bytes":
        return np.array([b"\0x" * (i % 7) for i in range(64)], object).reshape(8, 8)
    return (np.arange(64).reshape(8, 8) % 50).astype(name)


def trial(budget: Budget) -> None:
    """Damage one chunk of an array."""
    warnings.simplefilter("ignore")
    LIMITS.variable_chunk_bytes = min(LIMITS.variable_chunk_bytes, 1 << 24)
    chance = budget.random
    made = []
    for name, (codecs, dtype, certain) in CHAINS.items():
        data_type = data_type_for(dtype)
        sharded = any(codec.name == "sharding_indexed" for codec in codecs)
        metadata = ArrayMetadata(
            (8, 8),
            data_type,
            RegularGrid((4, 8) if sharded else (4, 4)),
            fill_value=FILLS[dtype],
            codecs=codecs,
        )
        store = MemoryStore()
        try:
            Array(store, "v", metadata).write(..., values(dtype))
        except NCZarrError:
            assert name == "booleans"  # the codec may not be there
            continue
        made.append((name, metadata, {key: bytes(store.get(key) or b"") for key in store.list()}, certain))
    assert len(made) >= len(CHAINS) - 1
    for _ in budget:
        name, metadata, keys, certain = chance.choice(made)
        expected = values(CHAINS[name][1])
        store = MemoryStore()
        for key, data in keys.items():
            store.set(key, data)
        key = chance.choice(list(keys))
        raw = bytearray(keys[key])
        acts = [chance.randrange(8) for _ in range(chance.choice([1, 1, 1, 2, 5]))]
        for act in acts:
            at = chance.randrange(len(raw) or 1)
            if act <= 3 and raw:
                raw[at] ^= 1 << chance.randrange(8)
            elif act == 4:
                raw[at : at + 1] = bytes([chance.choice([0, 255, chance.randrange(256)])])
            elif act == 5:
                del raw[at : at + chance.choice([1, 4, 1000])]
            elif act == 6:
                raw[at:at] = bytes(raw[at : at + chance.randrange(20)])
            else:
                raw[at : at + 8] = chance.choice([0, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1]).to_bytes(
                    8, "little"
                )
        store.set(key, bytes(raw))
        budget.shown = (name, key, bytes(raw))
        array = Array(store, "v", metadata)
        selection = chance.choice([..., (slice(0, 4), slice(None)), (3, 3), (slice(None, None, 3), [1, 5])])
        try:
            found = array.read(selection)
        except NCZarrError:
            budget.count("errors")
            continue
        wanted = expected[selection] if selection is ... else np.asarray(expected[selection])
        assert np.shape(found) == wanted.shape, name
        if (np.asarray(found) == wanted).all():
            budget.count("right values")
        else:
            one_bit = len(acts) == 1 and acts[0] <= 3
            assert not certain or (certain == ONE_BIT and not one_bit), (name, selection)
            budget.count("other values, without a checksum")


if __name__ == "__main__":
    main(trial)

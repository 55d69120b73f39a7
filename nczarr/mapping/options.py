"""Declare how a dataset is written on Zarr: the options, their defaults and what each one costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from nczarr.errors import UnsupportedError
from nczarr.zarr import DataType, NamedConfig

LayoutName = Literal["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]


@dataclass(frozen=True)
class ArrayShape:
    """How the array of one variable is cut, where that is not what its storage hints say.

    Parameters
    ----------
    chunks, shards : tuple of int, optional
        Without inner dimensions; shards hold whole chunks.

    Examples
    --------
    >>> ArrayShape(chunks=(1, 100), shards=(10, 100)).shards
    (10, 100)
    """

    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None
    #: The codecs of chunks, where the array has this data type.
    codecs: tuple[NamedConfig, ...] | None = None
    data_type: DataType | None = None


@dataclass(frozen=True)
class WriteOptions:
    """How :func:`nczarr.mapping.create_dataset` writes.

    Parameters
    ----------
    layout : str
        ``nczarr-v3`` (the default) holds the whole netCDF-4 model. ``zarr-v3`` and ``zarr-v2`` are plain Zarr
        with xarray's conventions and without NCZarr's keys; what they drop is listed in
        ``StoredDataset.losses``. ``nczarr-v2`` is the form of netcdf-c, ``draft-2019`` that of the draft of
        2019.
    char : {'bytes', 'uint8'}
        How char variables are stored: ``bytes`` is ``null_terminated_bytes`` of length 1, which xarray reads
        as it reads the netCDF file; ``uint8`` is readable by every Zarr reader, as numbers.
    compound : {'bytes', 'struct'}
        How compounds of fixed size are stored: ``bytes`` is ``uint8`` with one more dimension, which every Zarr
        reader opens, as bytes. ``struct`` is the registered data type, which zarr-python has from 3.2 on (Python
        3.12); an older one refuses the whole group.
    codecs : {'portable', 'numcodecs'}
        netCDF filters as codecs that all readers have, or as ``numcodecs.*``, which keep netCDF's own byte
        stream and which only zarr-python reads.
    compress : bool
        Compress variables that ask for no filter at all, with blosc (zstd, shuffle), if their chunks have more than
        1 KiB.
    compression : str
        How chunks are compressed: ``source`` is what the filters say; ``default`` blosc with zstd and shuffle,
        whatever they say, chunks of at most 1 KiB not at all; else a codec with its level, ``zstd:3``,
        ``blosc:lz4:5``, ``gzip:6``, or ``none``. The filters are recorded in each case, so that the way back to
        netCDF restores them.
    checksum : bool
        A crc32c behind every chunk, also where the variable has no fletcher32.
    manifest : bool
        Record which chunks were written, when the dataset is closed, so that ``nczarr check --data`` finds those that
        have gone. Only on Zarr v3.
    arrays : mapping
        Chunks and shards by the FQN of the variable, where they are not what its storage hints say.
    chunk_keys : {'default', 'v2'}
        Keys of chunks on Zarr v3: ``v/c/0/1``, or ``v/0.1`` as on v2.
    consolidated : bool
        Write consolidated metadata, so that opening is one request.
    extensions : bool
        Write the list ``extensions`` of the draft ZEP 10 beside the attributes. Today's zarr-python, xarray,
        tensorstore and zarrs refuse to open such a node.
    zarr_conventions : bool
        Declare the convention in the root's attribute ``zarr_conventions``. xarray shows it, and cannot write it
        to a netCDF file.
    nzug : bool
        Declare and follow the proposal NZUG-1.0: a root attribute ``conventions``, and an annotation on every
        text attribute.
    lossy : bool
        Write what the layout can hold, and list the rest in ``StoredDataset.losses``, where it would be refused.
    case_insensitive : bool or None
        Give names that differ only in case distinct node names. None: ask the store.

    Raises
    ------
    UnsupportedError
        If an option has a value that it cannot have.

    Examples
    --------
    >>> WriteOptions().layout
    'nczarr-v3'
    """

    layout: LayoutName = "nczarr-v3"
    char: Literal["bytes", "uint8"] = "bytes"
    compound: Literal["struct", "bytes"] = "bytes"
    codecs: Literal["portable", "numcodecs"] = "portable"
    compress: bool = True
    compression: str = "source"
    checksum: bool = False
    manifest: bool = False
    arrays: Mapping[str, ArrayShape] = field(default_factory=dict, hash=False)
    chunk_keys: Literal["default", "v2"] = "default"
    consolidated: bool = True
    extensions: bool = False
    zarr_conventions: bool = False
    nzug: bool = False
    lossy: bool = False
    case_insensitive: bool | None = None

    def __post_init__(self) -> None:
        for option, known in (
            ("layout", get_args(LayoutName)),
            ("char", ("bytes", "uint8")),
            ("compound", ("struct", "bytes")),
            ("codecs", ("portable", "numcodecs")),
            ("chunk_keys", ("default", "v2")),
        ):
            if getattr(self, option) not in known:
                raise UnsupportedError(
                    f"the option {option} cannot be {getattr(self, option)!r}",
                    hint=f"it is one of {', '.join(known)}",
                )
        if self.manifest and self.layout not in ("nczarr-v3", "zarr-v3"):
            raise UnsupportedError(f"the layout {self.layout} has no place for a manifest of the chunks")

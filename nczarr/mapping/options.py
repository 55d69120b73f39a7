"""Declare the options for writing a dataset on Zarr, their defaults and their costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict, get_args

from nczarr.errors import UnsupportedError
from nczarr.zarr import DataType, NamedConfig

#: The layouts on Zarr v3, which has shards.
ON_V3 = frozenset({"nczarr-v3", "zarr-v3"})

LayoutName = Literal["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]


@dataclass(frozen=True)
class ArrayShape:
    """The chunks of the array of one variable, instead of its storage hints.

    Parameters
    ----------
    chunks : tuple of int, optional
        Without inner dimensions.
    compression : str, optional
        That of this variable; see :class:`WriteOptions`.

    Examples
    --------
    >>> ArrayShape(chunks=(1, 100)).chunks
    (1, 100)
    """

    chunks: tuple[int, ...] | None = None
    #: The codecs of the array or of the chunks in its shards, if the array has this data type.
    codecs: tuple[NamedConfig, ...] | None = None
    data_type: DataType | None = None
    compression: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """Options of :func:`nczarr.mapping.create_dataset`.

    Parameters
    ----------
    layout : str
        ``nczarr-v3`` (the default) represents the whole netCDF-4 model. ``zarr-v3`` and ``zarr-v2`` are plain Zarr with
        xarray's conventions and without NCZarr's keys; ``StoredDataset.losses`` lists the dropped parts. ``nczarr-v2``
        is the form of netcdf-c, ``draft-2019`` that of the draft of 2019.
    char : {'bytes', 'uint8'}
        The form of char variables: ``bytes`` is ``null_terminated_bytes`` of length 1, which xarray reads like the
        netCDF file; every Zarr reader reads ``uint8``, as numbers.
    compound : {'bytes', 'struct'}
        The form of compounds of fixed size: ``bytes`` is ``uint8`` with an additional dimension, which every Zarr
        reader opens, as bytes. ``struct`` is the registered data type, which zarr-python supports from 3.2 on (Python
        3.12); earlier versions refuse the whole group.
    codecs : {'portable', 'numcodecs'}
        Encode netCDF filters as codecs that all readers support, or as ``numcodecs.*``, which keep netCDF's byte stream
        and which only zarr-python reads.
    compress : bool
        Compress variables without filters with blosc (zstd, shuffle), if their chunks have more than 1 KiB.
    compression : str
        The compression of chunks: ``source`` follows the filters; ``default`` is blosc with zstd and shuffle for all
        variables, and none for chunks of at most 1 KiB; otherwise a codec with its level, ``zstd:3``, ``blosc:lz4:5``,
        ``gzip:6``, or ``none``. The filters are recorded in each case, so that a copy to netCDF restores them.
    checksum : bool
        Add a crc32c to every chunk, also for variables without fletcher32.
    manifest : bool
        Record the written chunks when the dataset is closed, so that ``nczarr check --data`` finds missing chunks. Only
        on Zarr v3.
    arrays : mapping
        Chunks by the FQN of the variable, instead of its storage hints.
    chunk_keys : {'default', 'v2'}
        Keys of chunks on Zarr v3: ``v/c/0/1``, or ``v/0.1`` as on v2.
    consolidated : bool
        Write consolidated metadata, so that opening needs one request.
    extensions : bool
        Write the list ``extensions`` of the draft ZEP 10 beside the attributes. The current zarr-python, xarray,
        tensorstore and zarrs refuse to open such a node.
    zarr_conventions : bool
        Declare the convention in the root's attribute ``zarr_conventions``. xarray shows it, and cannot write it to a
        netCDF file.
    nzug : bool
        Declare and follow the proposal NZUG-1.0: a root attribute ``conventions``, and an annotation of every text
        attribute.
    lossy : bool
        Write the parts that the layout can represent, and list the others in ``StoredDataset.losses``, instead of
        refusing them.
    case_insensitive : bool or None
        Choose distinct node names for names that differ in case only. None: if the store requires it.

    Raises
    ------
    UnsupportedError
        An option has an invalid value.

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
        if self.manifest and self.layout not in ON_V3:
            raise UnsupportedError(f"the layout {self.layout} has no place for a manifest of the chunks")


class FormatOptions(TypedDict, total=False):
    """The options of the output formats of :func:`nczarr.copy`: the fields of :class:`WriteOptions`, and ``format``."""

    format: str | int
    layout: LayoutName
    char: Literal["bytes", "uint8"]
    compound: Literal["struct", "bytes"]
    codecs: Literal["portable", "numcodecs"]
    compress: bool
    manifest: bool
    arrays: Mapping[str, ArrayShape]
    chunk_keys: Literal["default", "v2"]
    consolidated: bool
    extensions: bool
    zarr_conventions: bool
    nzug: bool
    lossy: bool
    case_insensitive: bool | None

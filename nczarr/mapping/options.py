"""Declare the options for writing a dataset on Zarr, their defaults and their costs."""

from __future__ import annotations

from typing import Literal, TypedDict, get_args

from nczarr.dataclass import dataclass
from nczarr.errors import UnsupportedError
from nczarr.options import NEW, Take, option

#: The layouts on Zarr v3, which has shards.
ON_V3 = frozenset({"nczarr-v3", "zarr-v3"})

LayoutName = Literal["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019"]


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
    compression : str
        The compression of variables whose storage has no codecs. ``auto`` follows the filters with codecs that all
        readers support, and compresses variables without filters with blosc (zstd, shuffle), if their chunks have more
        than 1 KiB; ``source`` does not compress these. ``numcodecs`` follows the filters with codecs that keep netCDF's
        byte stream, and which only zarr-python reads. ``default`` is blosc with zstd and shuffle for all variables, and
        none for chunks of at most 1 KiB. All others name codecs, as :func:`nczarr.copy` takes them. The filters are
        recorded in each case, so that a copy to netCDF restores them.
    checksum : bool
        Add a crc32c to every chunk, also for variables without fletcher32.
    manifest : bool
        Record the written chunks when the dataset is closed, so that ``nczarr check --data`` finds missing chunks. Only
        on Zarr v3.
    chunk_keys : {'default', 'v2'} or None
        Keys of chunks on Zarr v3: ``v/c/0/1``, or ``v/0.1`` as on v2. None: as in the storage of a variable, else
        ``default``.
    consolidated : bool
        Write consolidated metadata, so that opening needs one request.
    write_empty_chunks : bool
        Store chunks in which every value is the fill value. False leaves out new ones, as zarr-python does. Chunks that
        a copy takes undecoded stay as they are in the source.
    extensions : bool
        Write the list ``extensions`` of the draft ZEP 10 beside the attributes. The current zarr-python, xarray,
        tensorstore and zarrs refuse to open such a node.
    zarr_conventions : bool
        Declare the convention in the root's attribute ``zarr_conventions``. xarray shows it, and cannot write it to a
        netCDF file.
    nz : bool
        Declare and follow the proposal NZ-1.0 (the NetCDF Zarr convention): ``zarr_conventions`` in every node,
        ``conventions`` in every group, and the types of numbers in the attribute ``_nczarr_attr`` of every node. Its
        schema knows data types by name only: `char` is always ``uint8``, and `compound` always ``bytes``.
    lossy : bool
        Write the parts that the layout can represent, and list the others in ``StoredDataset.losses``, instead of
        refusing them.
    keys_in_attributes : bool
        Write the keys of arrays as attributes, for readers that refuse arrays with other members than Zarr's:
        zarr-python before 3.1.4. xarray shows the attributes, and cannot write them to a netCDF file. Only with the
        layout ``nczarr-v3``.
    case_insensitive : bool
        Choose distinct node names for names that differ in case only, also for a store that tells them apart.

    Raises
    ------
    UnsupportedError
        An option has an invalid value.

    Examples
    --------
    >>> WriteOptions().layout
    'nczarr-v3'
    """

    layout: LayoutName = option(
        "nczarr-v3",
        "representation of netCDF on Zarr (default: nczarr-v3)",
        choices=get_args(LayoutName),
        verbs=NEW,
        usual=True,
        planned=True,
    )
    char: Literal["bytes", "uint8"] = option(
        "bytes",
        "store char as null_terminated_bytes or as uint8 (default: bytes, and uint8 with the convention NZ)",
        choices=("bytes", "uint8"),
        verbs=NEW,
        planned=True,
    )
    # Every reader opens bytes.
    compound: Literal["struct", "bytes"] = option(
        "bytes",
        "store compounds as struct (zarr-python 3.2 and later) or as uint8 (default: bytes)",
        choices=("struct", "bytes"),
        verbs=NEW,
        planned=True,
    )
    compression: str = "auto"
    checksum: bool = False
    manifest: bool = option(
        False, "record the chunks, so that check finds deleted chunks", Take.FLAG, verbs=NEW, planned=True
    )
    chunk_keys: Literal["default", "v2"] | None = option(
        None,
        "keys of chunks: default, as v/c/0/1, or v2, as v/0.1",
        choices=("default", "v2"),
        verbs=NEW,
        planned=True,
    )
    consolidated: bool = option(True, "write no consolidated metadata", Take.OFF, verbs=NEW, planned=True)
    write_empty_chunks: bool = option(
        True, "store chunks in which every value is the fill value", Take.OBJECT, verbs=NEW
    )
    extensions: bool = option(
        False,
        "write the 'extensions' list of ZEP 10, which most current readers refuse",
        Take.FLAG,
        verbs=NEW,
        planned=True,
    )
    zarr_conventions: bool = option(
        False,
        "declare the convention in the root's attribute zarr_conventions",
        Take.FLAG,
        verbs=NEW,
        planned=True,
    )
    nz: bool = option(
        False,
        "declare NZ-1.0 in the attributes of every node",
        Take.FLAG,
        verbs=NEW,
        planned=True,
    )
    lossy: bool = option(
        False,
        "omit content that the format cannot represent, and list it",
        Take.FLAG,
        verbs=("copy", "join", "append", "gen"),
        planned=True,
    )
    case_insensitive: bool = option(
        False,
        "give names that differ in case only different directories (default: where the target ignores case)",
        Take.SWITCH,
        verbs=NEW,
        planned=True,
    )

    # Set by `portable`: zarr-python before 3.1.4 refuses arrays with a top-level object.
    keys_in_attributes: bool = False

    def __post_init__(self) -> None:
        for name, known in (
            ("layout", get_args(LayoutName)),
            ("char", ("bytes", "uint8")),
            ("compound", ("struct", "bytes")),
            ("chunk_keys", ("default", "v2", None)),
        ):
            if getattr(self, name) not in known:
                raise UnsupportedError(
                    f"the option {name} cannot be {getattr(self, name)!r}",
                    hint=f"it is one of {', '.join(filter(None, known))}",
                )
        # Other layouts have no key for it.
        if self.manifest and self.layout not in ON_V3:
            raise UnsupportedError(f"the layout {self.layout} has no place for a manifest of the chunks")


class FormatOptions(TypedDict, total=False):
    """The options of the output formats of :func:`nczarr.copy`: the fields of :class:`WriteOptions`, and ``format``."""

    format: str | int
    layout: LayoutName
    char: Literal["bytes", "uint8"]
    compound: Literal["struct", "bytes"]
    manifest: bool
    chunk_keys: Literal["default", "v2"] | None
    consolidated: bool
    write_empty_chunks: bool
    extensions: bool
    zarr_conventions: bool
    nz: bool
    lossy: bool
    case_insensitive: bool

"""Choose the codecs and filters of the variables of a copy, and describe those that it must replace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeGuard

from nczarr.compression import (
    BLOSC,
    BLOSC_COMPRESSORS,
    BUILT_IN,
    CHOICES,
    ENCODED,
    FILTERS,
    FLETCHER32,
    LZF,
    OF_REFERENCES,
    PORTABLE,
    SHUFFLE,
    AskedCodecs,
    Filter,
    NamedConfig,
    codec_name,
    codecs_for,
    filter_name,
    filters_for,
    netcdf_filters,
    packing_of,
    parse_codecs,
)
from nczarr.errors import UnsupportedError, error_context
from nczarr.model import Dataset, Storage, Variable, rewrite
from nczarr.options import named
from nczarr.zarr.codecs.base import find_codec, requested_codecs

#: The replacement of h5py's own filter LZF, which netCDF-C does not read.
_DEFLATE = Filter(Filter.DEFLATE, (1,))


def is_choice(asked: AskedCodecs | None) -> TypeGuard[str]:
    """Return True for a word that leaves the codecs to the filters of each variable."""
    return isinstance(asked, str) and asked in CHOICES


def names_codec(text: str) -> bool:
    """Return True for a value of ``--compression`` without names of variables."""
    if is_choice(text):
        return True
    with suppress(UnsupportedError):
        return all(find_codec(codec.name) is not None for codec in parse_codecs(text))
    return text.partition(":")[0] in ("zstd", "gzip", "blosc", "none")  # with a wrong level


def codecs_of_copy(
    variable: Variable, asked: AskedCodecs | None, general: AskedCodecs | None, chunks: Sequence[int]
) -> tuple[NamedConfig, ...] | None:
    """Return the codecs of a variable in a Zarr copy; None leaves them to the filters and the general option.

    Parameters
    ----------
    asked, general : codecs, or None
        The option ``--compression`` of this variable, and of all.
    chunks : sequence of int
        The shape of a chunk, also of one in a shard.
    """
    storage = variable.storage
    # Codecs go from Zarr to Zarr as they are. By way of HDF5's filters, those without one were lost.
    if asked is None or (asked in ("source", "auto") and storage.codecs is not None):
        return storage.codecs
    if not is_choice(asked):
        checksum = [NamedConfig("crc32c")] if FLETCHER32 in {f.id for f in storage.filters} else []
        return (*requested_codecs(asked), *checksum)
    if asked == general:
        return None
    itemsize = _itemsize(variable)
    nbytes = None if variable.type.dtype.hasobject else math.prod(chunks) * variable.type.dtype.itemsize
    return codecs_for(storage.filters, asked, itemsize, nbytes)


def portable_codecs(variable: Variable) -> tuple[NamedConfig, ...] | None:
    """Return codecs of every reader instead of the codecs of a variable; None if all readers have these."""
    codecs = variable.storage.codecs
    if codecs is None or all(codec.name in PORTABLE for codec in codecs):
        return None
    filters = tuple(f for f in filters_for(codecs).filters if f.id in ENCODED)
    return codecs_for(filters, "auto", _itemsize(variable), None)


def _itemsize(variable: Variable) -> int:
    """Return the bytes of a stored element; compounds and opaque values are stored as bytes."""
    plain = variable.type.value_type.is_atomic and not variable.type.dtype.hasobject
    return variable.type.dtype.itemsize if plain else 1


def describe_codecs(codecs: Sequence[NamedConfig]) -> str:
    """Return the names of codecs, for messages."""
    return ", ".join(map(codec_name, packing_of(codecs))) or "no compression"


def refused_filters(fqn: str, variable: Variable, asked: AskedCodecs | None) -> Iterator[str]:
    """Yield the filters that a Zarr copy is asked to keep, and for which Zarr has no codec."""
    if asked in ("source", "numcodecs") and variable.storage.codecs is None:
        for f in variable.storage.filters:
            if f.id not in ENCODED:
                yield f"{fqn}: the filter {filter_name(f.id)}, for which Zarr has no codec; blosc with zstd replaces it"


# --- netCDF files


def in_any_file(storage: Storage) -> Storage:
    """Return a storage without the parts that only Zarr has."""
    return replace(
        storage, codecs=None, array_chunks=None, shard_shape=None, shard_index=None, chunk_keys=None
    )


def storage_in_file(
    variable: Variable, asked: AskedCodecs | None, *, checksum: bool, for_zarr: bool
) -> Storage:
    """Return the storage of a variable in a netCDF-4 file, without chunks that its filters require.

    Parameters
    ----------
    for_zarr : bool
        The filters stand for the codecs of another program: readers of netCDF may lack plugins for them.

    Raises
    ------
    UnsupportedError
        If the copy is asked to keep codecs, or to use codecs, that HDF5 does not have.
    """
    storage, dtype = variable.storage, variable.type.dtype
    found = netcdf_filters(storage.filters, storage.codecs)
    # "source" promises the same codecs, so none is replaced in silence.
    if asked == "source" and found.missing:
        raise UnsupportedError(
            f"HDF5 has no filter for the codec {found.missing[0]!r}",
            hint=f"{named('compression', 'gzip:5')} replaces it",
        )
    plain = in_any_file(storage)
    if (
        dtype.hasobject
    ):  # chunks contain only pointers, which HDF5 does not check and plug-ins cannot compress
        return replace(plain, filters=tuple(f for f in found.filters if f.id in OF_REFERENCES))
    checksums = tuple(f for f in found.filters if f.id == FLETCHER32)
    # h5py alone has LZF: netCDF-C does not read it.
    filters = tuple(_DEFLATE if f.id == LZF else f for f in found.filters)
    unfit = any(f.id not in BUILT_IN for f in filters) or (found.missing and not filters)
    # Without a request, the file has filters that each netCDF library has.
    if asked is None and unfit and (for_zarr or filters != storage.filters):
        filters = (*filters_asked("gzip:4", dtype.itemsize), *checksums)
    if asked not in (None, "source", "auto"):
        filters = (*filters_asked(asked, dtype.itemsize), *checksums)
    if checksum and not checksums:
        filters += (Filter(FLETCHER32),)
    return replace(plain, filters=filters)


def in_file(dataset: Dataset) -> Dataset:
    """Return a dataset with filters for the codecs of its variables; refuse codecs that HDF5 does not have."""

    def variable(fqn: str, old: Variable) -> Variable:
        with error_context(fqn=fqn):
            storage = storage_in_file(old, "source", checksum=False, for_zarr=False)
        layout = "chunked" if storage.filters and old.dimensions else storage.layout
        return replace(old, storage=replace(storage, layout=layout))

    return rewrite(dataset, variable=variable)


def filters_asked(asked: AskedCodecs, itemsize: int) -> tuple[Filter, ...]:
    """Return the filters for the option ``--compression``.

    Raises
    ------
    UnsupportedError
        If HDF5 has no filter for a codec.

    Examples
    --------
    >>> filters_asked("gzip:5", 4)
    (Filter(id=2, parameters=()), Filter(id=1, parameters=(5,)))
    """
    if asked == "numcodecs":
        raise UnsupportedError(f"{named('compression', 'numcodecs')} is for Zarr output")
    codecs = requested_codecs("zstd" if is_choice(asked) else asked)
    if len(codecs) == 1 and codecs[0].name == "blosc" and "shuffle" not in codecs[0].configuration:
        settings = codecs[0].configuration
        number = BLOSC_COMPRESSORS.index(settings["cname"])
        return (Filter(BLOSC, (0, 0, 0, 0, settings["clevel"], 1, number)),)
    found = filters_for(codecs)
    if found.missing:
        raise UnsupportedError(
            f"HDF5 has no filter for the codec {found.missing[0]!r}", hint="gzip:5 or zstd:5"
        )
    # A word names a compression, to which a shuffle belongs; a codec as JSON or an object is exact.
    word = asked.partition(":")[0] if isinstance(asked, str) else ""
    shuffle = word in ("zstd", "gzip", *CHOICES) and itemsize > 1
    return (*([Filter(SHUFFLE)] if shuffle else []), *found.filters)


def replaced_filters(
    fqn: str, before: Variable, after: Storage, asked: AskedCodecs | None, *, checksum: bool, for_zarr: bool
) -> Iterator[str]:
    """Yield the codecs and filters that a netCDF file cannot have and that no option replaces."""
    own = asked is None or asked in ("source", "auto")
    found = netcdf_filters(before.storage.filters, before.storage.codecs)
    is_object = before.type.dtype.hasobject
    where = "HDF5 stores strings and sequences outside of the chunks"
    if own and found.missing:
        then = " and ".join(filter_name(f.id) for f in after.filters) or "no compression"
        verb = "replace" if len(after.filters) > 1 else "replaces"
        yield f"{fqn}: {_codecs(found.missing)}, for which HDF5 has no filter; {then} {verb} {_them(found.missing)}"
    if own and LZF in {f.id for f in found.filters} and _DEFLATE in after.filters:
        yield f"{fqn}: the filter lzf, which netCDF-C does not read; deflate replaces it"
    if not is_object:
        return
    lost = [
        FILTERS[f.id].name if f.id in FILTERS else f"filter {f.id}"
        for f in found.filters
        if f.id not in OF_REFERENCES and (not checksum if f.id == FLETCHER32 else own and not for_zarr)
    ]
    if lost:
        yield f"{fqn}: {', '.join(lost)}; {where}"
    if checksum:
        yield f"{fqn}: a checksum; {where} that it checks"


def _codecs(names: Sequence[str]) -> str:
    return f"the codec{'s' * (len(names) > 1)} {', '.join(names)}"


def _them(names: Sequence[str]) -> str:
    return "them" if len(names) > 1 else "it"

"""Open sources and create targets through the edge of their format."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from nczarr.display import shown_location
from nczarr.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    StoreError,
    UnsupportedError,
)
from nczarr.formats import is_icechunk, is_references, kind_of_source, kind_of_target, local_path
from nczarr.model import Attribute, Dataset, DatasetSink, long_names
from nczarr.stores import open_store
from nczarr.system.atomic import holds_nothing
from nczarr.system.environment import is_on
from nczarr.targets import check_slashes, parse_target


def expand_sources(sources: Any, storage_options: Mapping[str, Any] | None = None) -> list[Any]:
    """Return the sources that patterns and lists name, those of a pattern in the order of their numbers.

    In a URL only ``*`` makes a pattern, and only in the last part.

    Raises
    ------
    DatasetNotFoundError
        If a pattern fits nothing.

    Examples
    --------
    >>> expand_sources(["b.nc", "a.nc"])
    ['b.nc', 'a.nc']
    """
    if isinstance(sources, str | os.PathLike) or not isinstance(sources, Sequence):
        sources = [sources]
    found: list[Any] = []
    for source in sources:
        text = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
        check_slashes(text)
        if isinstance(text, str) and text.lower().startswith("file://") and (path := local_path(text)):
            text = source = str(path) if glob.has_magic(str(path)) else text
        if isinstance(text, str) and "://" in text and "*" in text.partition("?")[0].rpartition("/")[2]:
            found += _expanded_url(text, storage_options)
            continue
        if isinstance(text, str) and glob.has_magic(text) and "://" not in text and not os.path.exists(text):
            paths = sorted(glob.glob(os.path.expanduser(text), recursive=True), key=_natural)
            if not paths:
                raise DatasetNotFoundError("no file fits this pattern", path=text)
            found += paths
        else:
            found.append(source)
    return found


def _expanded_url(url: str, storage_options: Mapping[str, Any] | None) -> list[str]:
    address, mark, query = url.partition("?")
    folder, _, pattern = address.rpartition("/")
    with open_store(folder + mark + query, "r", _plain(storage_options)) as store:
        if not store.listable:
            raise UnsupportedError("what is there cannot be listed, so a pattern finds nothing", path=url)
        # Files are keys, Zarr datasets prefixes of keys.
        keys, prefixes = store.list_dir()
        names = {name for name in (*keys, *prefixes) if fnmatchcase(name, pattern)}
    if not names:
        raise DatasetNotFoundError("no file fits this pattern", path=url)
    return [f"{folder}/{name}{mark}{query}" for name in sorted(names, key=_natural)]


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A key that puts ``a2`` before ``a10``."""
    return [(0, int(p), p) if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", path) if p]


@contextmanager
def open_source(
    source: Any, *, storage_options: Mapping[str, Any] | None = None, fresh: bool = False
) -> Iterator[Dataset]:
    """Open anything that nczarr reads, as a model with lazy data.

    Parameters
    ----------
    source : str, path, store or Dataset
        A Zarr hierarchy (path, URL, store), a netCDF file, a CDL file (``.cdl``), or a dataset of the model.
    storage_options : mapping, optional
        For fsspec.
    fresh : bool, default False
        Read the documents themselves where the store can be listed, not their consolidated copy: what another
        program has added or made longer may not be in that.

    Yields
    ------
    Dataset
        Its data can be read until the context ends.

    Raises
    ------
    NCZarrError
        If nothing readable is there.

    Examples
    --------
    >>> from nczarr import copy
    >>> store = {}
    >>> copy(Dataset("d"), store)
    ()
    >>> with open_source(store) as dataset:
    ...     list(dataset.all_groups)
    ['/']
    """
    if isinstance(source, Dataset):
        yield source
        return
    kind = kind_of_source(source)
    if kind == "cdl":
        from nczarr import cdl

        yield cdl.load(local_path(source) or source)
    elif kind == "netcdf":
        from nczarr import netcdf

        path = local_path(source)
        if path is None:
            opening = netcdf.open_remote(source, storage_options, _ranges(source, storage_options))
        else:
            opening = netcdf.open_isolated(path) if is_on("NCZARR_ISOLATED") else netcdf.open_dataset(path)
        with opening as opened:
            yield opened.dataset
    else:
        from nczarr import mapping

        options = _plain(storage_options)
        if not fresh or is_references(source) or is_icechunk(source):
            with mapping.open_dataset(source, storage_options=options) as stored:
                yield stored.dataset
            return
        store = open_store(source, "r", options)
        with mapping.open_dataset(store, consolidated=False if store.listable else None) as stored:
            yield stored.dataset


def _ranges(url: str, storage_options: Mapping[str, Any] | None) -> Any:
    """The bytes of a file behind a URL, through the store that its folder is; None if there is no such store."""
    from urllib.parse import unquote

    from nczarr.netcdf.bytes.ranges import RemoteRanges

    address, mark, query = url.partition("?")
    folder, _, name = address.rpartition("/")
    if url.lower().startswith("http"):
        name = unquote(name)
    try:
        store = open_store(folder + mark + query, "r", _plain(storage_options))
    except NCZarrError:
        return None
    return RemoteRanges(
        lambda ranges: store.get_ranges([(name, offset, size) for offset, size in ranges]), store.close
    )


def provenance(source: Any) -> tuple[Attribute, ...]:
    """Return what a netCDF file says of itself beside the dataset; nothing for other sources.

    See :func:`nczarr.netcdf.provenance`.
    """
    path = None if isinstance(source, Dataset) else local_path(source)
    if path is None or kind_of_source(source) != "netcdf":
        return ()
    from nczarr import netcdf

    return netcdf.provenance_isolated(path) if is_on("NCZARR_ISOLATED") else netcdf.provenance(path)


def create_sink(
    target: Any,
    dataset: Dataset,
    *,
    overwrite: bool = False,
    durable: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    resume: bool = False,
    **options: Any,
) -> DatasetSink:
    """Create the output of a conversion: everything but the values.

    Parameters
    ----------
    target : str, path or store
        See :func:`kind_of_target`.
    dataset : Dataset
        What will be written.
    overwrite : bool, default False
        Replace an existing dataset of the same kind.
    durable : bool, optional
        False: committing does not wait for the disk.
    storage_options : mapping, optional
        For fsspec.
    resume : bool, default False
        Go on with an unfinished Zarr dataset.
    **options
        For Zarr: the fields of :class:`nczarr.mapping.WriteOptions`; for netCDF: ``format``.

    Raises
    ------
    DatasetExistsError
        If something is there and `overwrite` is false, or if what is there is of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> from nczarr.model import INT, Variable
    >>> store = {}
    >>> sink = create_sink(store, Dataset("d", variables=(Variable("v", INT),)))
    >>> sink.write("/v", (), np.array(7, "i4"))
    >>> sink.commit()
    >>> with open_source(store) as dataset:
    ...     print(dataset.all_variables["/v"].data.read(()))
    7
    """
    kind = kind_of_target(target)
    path = local_path(target)
    if path is not None:
        _check_name(target)
    if resume and kind != "zarr":
        raise UnsupportedError("--resume: only a Zarr dataset can be gone on with", path=str(target))
    if kind == "netcdf":
        from nczarr import netcdf

        chosen = options.pop("format", None)
        _refuse_options(options, "a netCDF file")
        if path is None:
            return netcdf.RemoteSink(
                target, dataset, overwrite=overwrite, format=chosen, options=storage_options
            )
        file = netcdf.create_dataset(path, dataset, overwrite=overwrite, format=chosen)
        file.durable = durable
        return file
    if kind == "cdl":
        _refuse_options(options, "CDL text")
        return _create_cdl(path or Path(target), dataset, overwrite=overwrite)
    from nczarr import mapping

    if path is not None and path.exists() and not path.is_dir() and not path.is_file():
        raise DatasetExistsError(
            "this is a device or a pipe; a Zarr dataset needs a file or a directory", path=str(path)
        )
    _refuse_options(
        {n: o for n, o in options.items() if n not in mapping.WriteOptions.__dataclass_fields__},
        "a Zarr dataset",
    )
    stored = mapping.create_dataset(
        target,
        dataset,
        mapping.WriteOptions(**options),
        overwrite=overwrite,
        storage_options=_plain(storage_options),
        resume=resume,
    )
    stored.durable = durable
    return stored


def _create_cdl(path: Path, dataset: Dataset, *, overwrite: bool) -> DatasetSink:
    from nczarr.convert.text import CDLSink

    if path.is_dir():
        raise DatasetExistsError("this is a directory; a file cannot take its place", path=str(path))
    if not path.parent.is_dir():
        raise StoreError("the folder for the file does not exist", path=str(path))
    if path.is_file() and not overwrite:
        raise DatasetExistsError(
            "the file exists already",
            path=str(path),
            hint="--overwrite, in Python overwrite=True, replaces it",
        )
    for fqn, wrong in long_names(dataset):
        raise UnsupportedError(
            f"CDL cannot have this name: {wrong}",
            path=str(path),
            fqn=fqn if len(fqn) < 80 else f"{fqn[:80]}…",
            hint="--rename, in Python rename=, gives it another one",
        )
    return CDLSink(path, dataset)


def _check_name(target: Any) -> None:
    if str(target) in ("", "-"):
        raise UnsupportedError(
            "the target needs a name",
            path=str(target) or None,
            hint="nczarr dump writes CDL to standard output",
        )


def _refuse_options(options: Mapping[str, Any], what: str) -> None:
    if options:
        raise UnsupportedError(f"{what} has no option {', '.join(sorted(options))}")


def _plain(storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if storage_options is None else dict(storage_options)


def name_of(source: Any) -> str:
    """Return a source as messages name it.

    Examples
    --------
    >>> name_of("a.nc"), name_of(Dataset("d"))
    ('a.nc', 'the dataset d in memory')
    """
    return (
        f"the dataset {source.name} in memory" if isinstance(source, Dataset) else shown_location(str(source))
    )


def same_place(source: Any, target: Any) -> bool:
    """True if a copy would write onto what it reads, into it, or over a directory that it is in."""
    paths = local_path(source), local_path(target)
    if paths[0] is not None and paths[1] is not None:
        try:
            first, second = paths[0].resolve(), paths[1].resolve()
            if second in first.parents:
                # Into a directory that does not become the dataset there is no way; one that does would go.
                return second.is_dir() and kind_of_target(target) == "zarr"
            return first == second or first in second.parents
        except (OSError, ValueError, RuntimeError) as error:
            raise NCZarrError(str(error), path=str(source)) from None
    return source is target or (isinstance(source, str) and source == target)


def is_folder(target: Any) -> bool:
    """True if a target is a place for datasets, not the name of one: it ends in ``/``, or is such a directory.

    Examples
    --------
    >>> is_folder("out/"), is_folder("out.zarr")
    (True, False)
    """
    if isinstance(target, str) and target.endswith(("/", os.sep)):
        return True
    path = local_path(target)
    # No text is no folder, and a folder that is named like one dataset of a kind is not a place for others.
    if path is None or target == "" or not path.is_dir() or path.suffix.lower() in (".zarr", ".nc", ".cdl"):
        return False
    from nczarr.mapping.guarding.destination import UNFINISHED, is_zarr

    with open_store(path) as store:
        return not is_zarr(store) and not store.exists(UNFINISHED)


def refuse_existing(target: Any, storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuse the place of a new Zarr dataset where something is; what is written last finds out more.

    Raises
    ------
    DatasetExistsError
        If something is there.
    """
    from nczarr.mapping.guarding.destination import UNFINISHED, is_zarr

    path = local_path(target)
    if path is not None:
        found = path.exists() and not (path.is_dir() and holds_nothing(path))
    else:
        with open_store(target, "r", _plain(storage_options)) as store:
            found = is_zarr(store) or store.exists(UNFINISHED)
    if found:
        raise DatasetExistsError(
            "the dataset exists already",
            path=str(target),
            hint="--overwrite, in Python overwrite=True, replaces it",
        )


def inside_folder(source: Any, target: Any) -> Any:
    """Return the target of one source: in a folder ``NAME.zarr``, NAME being the source's.

    Raises
    ------
    UnsupportedError
        If the source has no name.
    """
    if isinstance(source, Dataset) or not isinstance(source, str | os.PathLike) or not is_folder(target):
        return target
    place = parse_target(os.fspath(source)).location
    place = place.partition("?")[0] if "://" in place else place
    name = place.rstrip("/").rpartition("/")[2]
    stem = Path(name).stem
    if not stem:
        raise UnsupportedError("the source has no name that the target could have", path=str(source))
    folder = os.fspath(target)
    return f"{folder}{'' if folder.endswith('/') else '/'}{stem}.zarr"

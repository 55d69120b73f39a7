"""Open sources and create targets of any format."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nczarr import mapping, model
from nczarr.dataclass import dataclass
from nczarr.display import shown_location
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError, StoreError, UnsupportedError
from nczarr.formats import Kind, is_icechunk, is_references, kind_of_source, kind_of_target, local_path
from nczarr.mapping import WriteOptions
from nczarr.mapping.dataset.destination import UNFINISHED, is_zarr
from nczarr.model import Attribute, Dataset, DatasetSink, MemorySource, Region, Variable, resolve
from nczarr.model.sources import ChangedSource
from nczarr.options import NEW, named, option, options_of, verb_named
from nczarr.stores import open_store
from nczarr.system.atomic import holds_nothing, text_output
from nczarr.system.environment import is_on
from nczarr.targets import check_slashes, parse_target
from nczarr.transfer import Progress, data_bytes, reporting, value_bytes

if TYPE_CHECKING:
    from nczarr.netcdf.bytes.file import RemoteRanges


def overwriting() -> str:
    """Return the hint of the errors for existing targets."""
    return f"{named('overwrite', True)} replaces it"


#: Maximum number of errors that are raised together.
_LISTED = 20
_T = TypeVar("_T")


def expand_sources(sources: object, storage_options: Mapping[str, object] | None = None) -> list[object]:
    """Return the sources of lists and glob patterns; numbers in the names sort the matches of a pattern.

    In a URL, only ``*`` in the last part makes a pattern.

    Raises
    ------
    DatasetNotFoundError
        If a pattern matches nothing.

    Examples
    --------
    >>> expand_sources(["b.nc", "a.nc"])
    ['b.nc', 'a.nc']
    """
    if isinstance(sources, str | os.PathLike) or not isinstance(sources, Sequence):
        sources = [sources]
    found: list[object] = []
    for source in map(_modelled, sources):
        text = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
        check_slashes(text)
        if not isinstance(text, str):
            found.append(source)
            continue
        if text.lower().startswith("file://") and (path := local_path(text)):
            text = source = str(path) if glob.has_magic(str(path)) else text
        # A signature in the query of a URL may have a * of its own.
        if "://" in text and "*" in text.partition("?")[0].rpartition("/")[2]:
            found += _expanded_url(text, storage_options)
        # A name with brackets that exists is a name, and no pattern.
        elif "://" not in text and glob.has_magic(text) and not os.path.exists(text):
            found += _sorted_matches(glob.glob(os.path.expanduser(text), recursive=True), text)
        else:
            found.append(source)
    return found


def _expanded_url(url: str, storage_options: Mapping[str, object] | None) -> list[str]:
    address, mark, query = url.partition("?")
    folder, _, pattern = address.rpartition("/")
    with open_store(folder + mark + query, "r", storage_options) as store:
        if not store.listable:
            raise UnsupportedError("the server does not list files, so patterns are not supported", path=url)
        # Files are keys, Zarr datasets prefixes of keys.
        keys, prefixes = store.list_dir()
        names = {name for name in (*keys, *prefixes) if fnmatchcase(name, pattern)}
    return [f"{folder}/{name}{mark}{query}" for name in _sorted_matches(names, url)]


def _sorted_matches(names: Collection[str], pattern: str) -> list[str]:
    """Sort the matches of a pattern so that ``a2`` is before ``a10``."""
    if not names:
        raise DatasetNotFoundError("no file matches this pattern", path=pattern)

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts if part]

    return sorted(names, key=key)


def _modelled(source: object) -> object:
    """Return the model of a dataset or tree of xarray; other sources unchanged."""
    if type(source).__module__.partition(".")[0] != "xarray":
        return source
    from nczarr.xarray_model.write import from_xarray

    return from_xarray(source)


Hook = Callable[[Any], Any]
"""A function of the user that changes each source: its model, or a dataset or tree of xarray."""


def named_function(name: str, option: str) -> Callable[..., Any]:
    """Return the function that an option names: ``module:function``, also in the working directory.

    Raises
    ------
    UnsupportedError
        If there is no such function.

    Examples
    --------
    >>> named_function("nczarr.model:resolve", "preprocess").__name__
    'resolve'
    """
    module, _, function = name.partition(":")
    try:
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise ImportError("the form is MODULE:FUNCTION")
        sys.path.insert(0, os.getcwd())  # as Python does for scripts
        try:
            found: object = getattr(import_module(module), function)
        finally:
            sys.path.remove(os.getcwd())
        if not callable(found):
            raise ImportError(f"{function} is no function")
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"{named(option, name)}: {error}") from error
    return found


def xarray_kind(hook: Hook) -> str:
    """Return the class of xarray that the annotation of the first parameter names; an empty string for the model.

    Examples
    --------
    >>> def shifted(ds: "xr.Dataset"): ...
    >>> xarray_kind(shifted), xarray_kind(resolve)
    ('Dataset', '')
    """
    try:
        try:
            parameters = signature(hook, eval_str=True).parameters
        except NameError:  # only type checkers import it
            parameters = signature(hook).parameters
    except (TypeError, ValueError):  # a function in C
        return ""
    found = next((p.annotation for p in parameters.values()), None)
    if isinstance(found, type):
        found = f"{found.__module__}.{found.__qualname__}"
    module, _, name = str(found).rpartition(".")
    return name if module.partition(".")[0] in ("xarray", "xr") and name in ("Dataset", "DataTree") else ""


@contextmanager
def open_processed(
    source: object, storage_options: Mapping[str, object] | None, hook: Hook | None, *, fresh: bool = True
) -> Iterator[Dataset]:
    """Open a source, and apply a function of the user to it.

    Raises
    ------
    UnsupportedError
        If the function does not return a dataset, or gets only a part of one.
    """
    with ExitStack() as stack:
        dataset = stack.enter_context(open_source(source, storage_options=storage_options, fresh=fresh))
        if hook is None:
            yield dataset
            return
        given: object = dataset
        if kind := xarray_kind(hook):
            from nczarr.xarray_model.read import as_xarray

            if kind == "Dataset" and dataset.groups:
                raise UnsupportedError(
                    f"{named('preprocess')}: the function takes xarray.Dataset, which has no groups, "
                    "and the source has some",
                    path=name_of(source),
                    hint="a function with the parameter tree: xarray.DataTree gets all groups",
                )
            given = stack.enter_context(as_xarray(dataset, kind))
        found = hook(given)
        try:
            found = _modelled(found)
        except (KeyError, ValueError, TypeError, NotImplementedError) as error:
            raise UnsupportedError(
                f"{named('preprocess')}: xarray cannot encode the result of the function: {error}",
                path=name_of(source),
            ) from error
        if not isinstance(found, Dataset):
            raise UnsupportedError(
                f"{named('preprocess')}: the function returned {type(found).__name__}, not nczarr.model.Dataset, "
                "xarray.Dataset or xarray.DataTree",
                path=name_of(source),
            )
        if given is not dataset:  # xarray knows nothing of these
            found = replace(found, name=dataset.name, left_out=dataset.left_out, gone=dataset.gone)
        else:
            found = model.rewrite(found, variable=partial(_with_own_type, dataset))
        yield resolve(found)


def _with_own_type(before: Dataset, fqn: str, variable: Variable) -> Variable:
    """Return a variable of a function of the user, without the data type of the source if it has other values."""
    old = before.all_variables.get(fqn)
    is_same = old is not None and old.data is variable.data
    return variable if is_same else variable.with_new_values(variable.data)


@contextmanager
def open_source(
    source: object, *, storage_options: Mapping[str, object] | None = None, fresh: bool = False
) -> Iterator[Dataset]:
    """Open a dataset of any format as a model with lazy data.

    Parameters
    ----------
    source : str, path, store, Dataset, or dataset or tree of xarray
        A Zarr hierarchy (path, URL, store), a netCDF file, a CDL file (``.cdl``), a dataset of the model, or one of
        xarray.
    storage_options : mapping, optional
        Options of the file system of a URL.
    fresh : bool, default False
        If the store can list its keys, ignore consolidated metadata, which may lack changes by other programs.

    Yields
    ------
    Dataset
        Its data are readable until the context ends.

    Raises
    ------
    NCZarrError
        If the source does not exist or cannot be read.

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
    source = _modelled(source)
    if isinstance(source, Dataset):
        yield resolve(source)
        return
    kind = kind_of_source(source)
    if kind == "cdl":
        from nczarr import cdl

        yield cdl.load(local_path(source) or str(source))
    elif kind == "netcdf":
        from nczarr import netcdf

        path = local_path(source)
        if path is None:
            url = str(source)
            opening = netcdf.open_remote(url, storage_options, _ranges(url, storage_options))
        else:
            # A damaged file may crash or hang HDF5, which ends the child only.
            opening = netcdf.open_isolated(path) if is_on("NCZARR_ISOLATED") else netcdf.open_dataset(path)
        with opening as opened:
            yield opened.dataset
    else:
        # A consolidated copy may be older than the documents. References have no other copy.
        if not fresh or is_references(source) or is_icechunk(source):
            stored = mapping.open_dataset(source, storage_options=storage_options)
        else:
            store = open_store(source, "r", storage_options)
            stored = mapping.open_dataset(store, consolidated=False)
        with stored:
            yield stored.dataset


def _ranges(url: str, storage_options: Mapping[str, object] | None) -> RemoteRanges | None:
    """Return byte ranges of a remote file through the store of its directory; None if there is no such store."""
    from urllib.parse import unquote

    from nczarr.netcdf.bytes.file import RemoteRanges

    address, mark, query = url.partition("?")
    folder, _, name = address.rpartition("/")
    # The path of a URL has escapes, and the keys of a store have none.
    if url.lower().startswith("http"):
        name = unquote(name)
    # The directory may be no store that opens. The file is then read through fsspec alone.
    try:
        store = open_store(folder + mark + query, "r", storage_options)
    except NCZarrError:
        return None
    return RemoteRanges(
        lambda ranges: store.get_ranges([(name, offset, size) for offset, size in ranges]), store.close
    )


def provenance(source: object) -> tuple[Attribute, ...]:
    """Return the provenance attributes of a netCDF file (:func:`nczarr.netcdf.provenance`); none of other sources."""
    path = None if isinstance(source, Dataset) else local_path(source)
    if path is None or kind_of_source(source) != "netcdf":
        return ()
    from nczarr import netcdf

    return netcdf.provenance_isolated(path) if is_on("NCZARR_ISOLATED") else netcdf.provenance(path)


@dataclass(frozen=True, eq=False)
class _WatchedSource(ChangedSource):
    """Reports the progress of reading."""

    fqn: str
    progress: Progress

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        values = self.inner.read(region, out)
        self.progress.advance(values.size * value_bytes(values.dtype), self.fqn)
        return values


@contextmanager
def watch_reading(dataset: Dataset, fqns: Collection[str], progress: Progress) -> Iterator[Dataset]:
    """Yield a dataset that reports the progress of reading the variables `fqns`."""

    def watched(fqn: str, variable: Variable) -> Variable:
        if fqn not in fqns or variable.data is None:
            return variable
        return variable.with_data(_WatchedSource(variable.data, fqn, progress))

    sources = [dataset.all_variables[fqn].data for fqn in set(fqns)]
    with reporting(progress, sum(data_bytes(data) for data in sources if data is not None)):
        yield model.rewrite(dataset, variable=watched)


@dataclass(frozen=True, eq=False)
class _WholeSource(ChangedSource):
    """Reads all values at the first request."""

    #: The values of the last variable.
    cache: dict[_WholeSource, MemorySource]

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        """Read a region; see :meth:`nczarr.model.ArraySource.read`."""
        if self not in self.cache:
            self.cache.clear()  # free the memory first
            self.cache[self] = MemorySource(self.inner.read(tuple(slice(0, n) for n in self.shape)))
        return self.cache[self].read(region, out)


def read_whole(dataset: Dataset) -> Dataset:
    """Return a dataset that reads each variable as a whole at the first request, and caches the last variable."""
    cache: dict[_WholeSource, MemorySource] = {}
    return model.rewrite(
        dataset, variable=lambda fqn, v: v if v.data is None else v.with_data(_WholeSource(v.data, cache))
    )


@dataclass(frozen=True)
class TargetFormat(WriteOptions):
    """The format of a target: the options of Zarr, and the format of a netCDF file.

    Parameters
    ----------
    format : str, optional
        The format of a netCDF file, in the words of nccopy; default: that of the source.
    """

    format: str | int | None = option(
        None,
        "netCDF: classic, 64-bit-offset, cdf5, nc4, nc7, or nccopy's numbers",
        metavar="KIND",
        flags="-k --format",
        verbs=(*NEW, "append"),
        usual=True,
        planned=True,
    )

    def refuse_for(self, kind: Kind, given: Collection[str] = ()) -> None:
        """Refuse the options that a target of another kind would ignore.

        Parameters
        ----------
        given : collection of str
            The options that a caller has named: one with the value of the default is asked for too.
        """
        what = {"netcdf": "a netCDF file", "zarr": "a Zarr dataset", "cdl": "CDL text"}[kind]
        if kind != "netcdf" and self.format is not None:
            raise UnsupportedError(
                f"{named('format')}: {what} has no netCDF format", hint="a target NAME.nc is a netCDF file"
            )
        own = {"format", "lossy"} if kind == "netcdf" else {"lossy"}
        default, asked = (
            TargetFormat(),
            {each.name for each, _ in options_of(TargetFormat)}.intersection(given),
        )
        unknown = [
            f.name
            for f in fields(self)
            if f.name not in own and (f.name in asked or getattr(self, f.name) != getattr(default, f.name))
        ]
        if kind != "zarr" and unknown:
            raise UnsupportedError(f"{what} has no option {', '.join(sorted(unknown))}")


def create_sink(
    target: object,
    dataset: Dataset,
    *,
    overwrite: bool = False,
    durable: bool = True,
    storage_options: Mapping[str, object] | None = None,
    resume: bool = False,
    **options: Any,
) -> DatasetSink:
    """Create the output of a conversion with all metadata, but without values.

    Parameters
    ----------
    target : str, path or store
        The name determines the format; see :func:`kind_of_target`.
    dataset : Dataset
        The dataset to write.
    overwrite : bool, default False
        Replace an existing dataset of the same format.
    durable : bool, default True
        If False, committing does not wait for the disk.
    storage_options : mapping, optional
        Options of the file system of a URL.
    resume : bool, default False
        Continue an unfinished Zarr dataset.
    **options
        For Zarr the fields of :class:`nczarr.mapping.WriteOptions`; for netCDF ``format``.

    Returns
    -------
    DatasetSink
        It takes the values; ``commit`` makes the dataset visible, and ``abort`` removes it.

    Raises
    ------
    DatasetExistsError
        If the target exists and `overwrite` is false, or if it has another format.

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
    known = {f.name for f in fields(TargetFormat)}
    if unknown := sorted(options.keys() - known):
        raise UnsupportedError(f"no format has the option {', '.join(unknown)}")
    return sink_of(
        target,
        dataset,
        TargetFormat(**options),
        overwrite=overwrite,
        durable=durable,
        storage_options=storage_options,
        resume=resume,
    )


def sink_of(
    target: object,
    dataset: Dataset,
    form: TargetFormat,
    *,
    overwrite: bool = False,
    durable: bool = True,
    storage_options: Mapping[str, object] | None = None,
    resume: bool = False,
) -> DatasetSink:
    """Create the output of a conversion in a format; see :func:`create_sink`."""
    kind = kind_of_target(target)
    path = local_path(target)
    if path is not None and str(target) in ("", "-"):
        raise UnsupportedError(
            "the target needs a name",
            path=str(target) or None,
            hint="nczarr dump writes CDL to standard output",
        )
    if resume and kind != "zarr":
        raise UnsupportedError(
            f"{named('resume')}: only the copy to a Zarr dataset can continue: an incomplete netCDF file does not show "
            "which of its values are written",
            path=str(target),
            hint=f"copy to NAME.zarr with {named('resume', True)}, then NAME.zarr to the file",
        )
    form.refuse_for(kind)
    if kind == "netcdf":
        from nczarr import netcdf

        format_ = None if form.format is None else str(form.format)
        if path is None:
            return netcdf.RemoteSink(
                str(target), dataset, overwrite=overwrite, format=format_, options=storage_options
            )
        file = netcdf.create_dataset(path, dataset, overwrite=overwrite, format=format_)
        file.durable = durable
        return file
    if kind == "cdl":
        return CDLSink(path or Path(str(target)), dataset, overwrite=overwrite)
    # A pipe waits for its reader, so it is refused before it is opened.
    if path is not None and path.exists() and not path.is_dir() and not path.is_file():
        raise DatasetExistsError(
            "this is a device or a pipe; a Zarr dataset needs a file or a directory", path=str(path)
        )
    stored = mapping.create_dataset(
        target,
        dataset,
        form,
        overwrite=overwrite,
        storage_options=storage_options,
        resume=resume,
    )
    stored.durable = durable
    return stored


class CDLSink:
    """Writes a dataset as CDL text when it is committed, directly from the sources of the dataset.

    CDL has no random access, so :meth:`write` does nothing.
    """

    concurrent = False
    #: The sink reads the sources itself, so that a copy needs to move no values.
    pulls = True

    def __init__(self, path: Path, dataset: Dataset, *, overwrite: bool) -> None:
        if path.is_dir():
            raise DatasetExistsError(
                "this is a directory, and a file cannot replace a directory", path=str(path)
            )
        if not path.parent.is_dir():
            raise StoreError("the directory of the file does not exist", path=str(path))
        if path.is_file() and not overwrite:
            raise DatasetExistsError("the file exists already", path=str(path), hint=overwriting())
        for fqn, problem in model.long_names(dataset):
            raise UnsupportedError(
                f"CDL does not allow this name: {problem}",
                path=str(path),
                fqn=fqn if len(fqn) < 80 else f"{fqn[:80]}…",
                hint=f"{named('rename')} changes it",
            )
        self._path = path
        self._dataset = dataset

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of the variable."""
        return tuple(max(n, 1) for n in self._dataset.shape_of(self._dataset.variable_at(fqn)))

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Write the text."""
        from nczarr import cdl

        with text_output(self._path) as file:
            cdl.dump(self._dataset, file, cdl.DumpOptions(name=self._path.stem))

    def abort(self) -> None:
        """Do nothing: the file appears only when it is complete."""


def call_all(calls: Iterable[Callable[[], _T]]) -> list[_T]:
    """Return all results; raise the first error with the other errors as notes.

    Examples
    --------
    >>> call_all([lambda: 1, lambda: 2])
    [1, 2]
    """
    return list(call_each(calls))


def call_each(calls: Iterable[Callable[[], _T]]) -> Iterator[_T]:
    """Yield the results; raise the first error with the other errors as notes, when all are called."""
    errors: list[NCZarrError] = []
    for call in calls:
        try:
            result = call()
        except NCZarrError as error:
            errors.append(error)
        else:
            yield result
    raise_all(errors)


def raise_all(errors: Sequence[NCZarrError]) -> None:
    """Raise the first error, if there is one, with the others as notes."""
    if errors:
        # A join of a thousand files with another unit listed each of them.
        for other in errors[1:_LISTED]:
            errors[0].add_note(str(other))
        if len(errors) > _LISTED:
            errors[0].add_note(f"and {len(errors) - _LISTED} more")
        raise errors[0]


def name_of(source: object) -> str:
    """Return the name of a source for messages.

    Examples
    --------
    >>> name_of("a.nc"), name_of(Dataset("d"))
    ('a.nc', 'the dataset d in memory')
    """
    if isinstance(source, Dataset):
        return f"the dataset {source.name} in memory"
    return shown_location(str(source))


def refuse_same_place(sources: Iterable[object], target: object) -> None:
    """Raise an error if a copy would overwrite a source, write inside it, or replace a directory that contains it."""
    if any(_is_same_place(source, target) for source in sources):
        raise UnsupportedError(
            "the source and the target are the same, or one is inside the other", path=str(target)
        )


def _is_same_place(source: object, target: object) -> bool:
    paths = local_path(source), local_path(target)
    if paths[0] is not None and paths[1] is not None:
        try:
            # A link, or a way through "..", names the same place.
            first, second = paths[0].resolve(), paths[1].resolve()
            if second in first.parents:
                # Only a Zarr dataset replaces a directory.
                return second.is_dir() and kind_of_target(target) == "zarr"
            return first == second or first in second.parents
        # A loop of links, or a name that the system refuses.
        except (OSError, ValueError, RuntimeError) as error:
            raise NCZarrError(str(error), path=str(source)) from None
    return source is target or (isinstance(source, str) and source == target)


def refuse_existing(target: object, storage_options: Mapping[str, object] | None = None) -> None:
    """Raise an error if the target of a new Zarr dataset exists; creating the dataset checks it more thoroughly.

    Raises
    ------
    DatasetExistsError
        If the target exists.
    """
    if (path := local_path(target)) is None:
        exists = _has_zarr(target, storage_options)
    else:
        # An empty directory becomes the dataset.
        exists = path.exists() and not (path.is_dir() and holds_nothing(path))
    if exists:
        raise DatasetExistsError("the dataset exists already", path=str(target), hint=overwriting())


def _has_zarr(target: object, storage_options: Mapping[str, object] | None = None) -> bool:
    """True if a store has a Zarr hierarchy, complete or not."""
    with open_store(target, "r", storage_options) as store:
        return is_zarr(store) or store.exists(UNFINISHED)


def is_folder(target: object) -> bool:
    """True if a target is a directory for datasets: its name ends in ``/``, or it is a directory without a dataset.

    Examples
    --------
    >>> is_folder("out/"), is_folder("out.zarr")
    (True, False)
    """
    if isinstance(target, str) and target.endswith(("/", os.sep)):
        return True
    path = local_path(target)
    # An empty string is not a directory. A directory with the suffix of a dataset stands for one dataset.
    if path is None or target == "" or not path.is_dir() or path.suffix.lower() in (".zarr", ".nc", ".cdl"):
        return False
    return not _has_zarr(path)


def targets_of(sources: Sequence[object], target: object) -> list[object]:
    """Return the target of each source; in a directory, ``NAME.zarr`` with the name of the source.

    Raises
    ------
    UnsupportedError
        If several sources have the same target, or a source has no name.
    """
    into_folder = is_folder(target)
    if len(sources) > 1 and not into_folder:
        raise UnsupportedError(
            f"{len(sources)} sources and one target",
            path=str(target),
            hint=f"{verb_named('join')} makes one dataset of them; a directory, or a name that ends in /, gets one "
            "output for each source",
        )
    targets = [target if not into_folder else _inside_folder(source, target) for source in sources]
    # The second copy would replace the first one.
    twins = {str(path) for i, path in enumerate(targets) if path in targets[:i]}
    if twins:
        raise UnsupportedError("two sources would have this target", path=min(twins))
    return targets


def _inside_folder(source: object, target: object) -> object:
    if isinstance(source, Dataset) or not isinstance(source, str | os.PathLike):
        return target
    place = parse_target(os.fspath(source)).location
    # A signature in the query of a URL is no part of a name.
    place = place.partition("?")[0] if "://" in place else place
    stem = Path(place.rstrip("/").rpartition("/")[2]).stem
    if not stem:
        raise UnsupportedError("the source has no name for its target in the directory", path=str(source))
    folder = os.fspath(target) if isinstance(target, os.PathLike) else str(target)
    return f"{folder}{'' if folder.endswith('/') else '/'}{stem}.zarr"

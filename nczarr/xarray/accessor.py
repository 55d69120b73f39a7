"""Write datasets, data arrays and trees of xarray with their accessor ``nczarr``: new ones, and into existing ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr

from nczarr import convert, model
from nczarr.convert.change.classic_types import in_classic_types
from nczarr.convert.change.packing import in_file
from nczarr.convert.change.shaping import parse_kind
from nczarr.convert.values.dasked import aligned, is_chunked, store_chunked
from nczarr.errors import (
    ArgumentError,
    ArgumentTypeError,
    DatasetExistsError,
    DatasetNotFoundError,
    NCZarrError,
    UnsupportedError,
    also,
)
from nczarr.formats import FileName, local_path
from nczarr.mapping import WriteOptions
from nczarr.model import Attribute, Region, regions
from nczarr.model.paths import join_path
from nczarr.model.stored_form import StoredForm
from nczarr.model.typed import plain_path
from nczarr.netcdf4 import Dataset
from nczarr.netcdf4.compatibility import CLASSIC_FORMATS, DATA_MODELS, FORMAT_OF_MODEL
from nczarr.session import GroupNode, Session, VariableNode
from nczarr.system.warning import warn
from nczarr.targets import parse_target
from nczarr.transfer import BLOCK_BYTES, Work, block_shape, value_bytes
from nczarr.xarray.planned import TaskTarget
from nczarr.xarray_model import from_xarray
from nczarr.xarray_model.read import KEPT, Kept, ReopenedDataset, fqn_of, is_path, opened, place_of
from nczarr.xarray_model.variables import EncodedSource, Fit
from nczarr.xarray_model.write import XarrayData, groups_of, model_of

#: The parts of a dataset to write, by group and dimension.
Places: TypeAlias = dict[str, dict[str, slice]]


@xr.register_dataset_accessor("nczarr")
@xr.register_dataarray_accessor("nczarr")
@xr.register_datatree_accessor("nczarr")
class NCZarrAccessor:
    """Write a dataset, a data array or a tree of xarray as netCDF-4, on Zarr or in a file.

    ``import nczarr.xarray`` registers the accessor, and so does the first dataset that xarray opens.

    Examples
    --------
    >>> import xarray as xr
    >>> store = {}
    >>> xr.Dataset({"v": ("x", [1, 2])}).nczarr.to_zarr(store, unlimited_dims=["x"])
    >>> xr.open_dataset(store, engine="nczarr").encoding["unlimited_dims"]
    {'x'}
    """

    def __init__(self, data: XarrayData) -> None:
        self._data = data

    def to_model(
        self, *, encoding: Mapping[str, Any] | None = None, unlimited_dims: Sequence[str] | None = None
    ) -> model.Dataset:
        """Return the model; see :func:`nczarr.from_xarray`."""
        return from_xarray(self._data, encoding=encoding, unlimited_dims=unlimited_dims)

    def to_zarr(
        self,
        store: Any,
        mode: Literal["w", "w-", "a", "a-", "r+"] | None = None,
        group: str | None = None,
        encoding: Mapping[str, Any] | None = None,
        *,
        unlimited_dims: Sequence[str] | None = None,
        append_dim: str | None = None,
        region: Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None = None,
        compute: bool = True,
        safe_chunks: bool = True,
        align_chunks: bool = False,
        unsafe: bool = False,
        wait: float = 0,
        write_inherited_coords: bool = False,
        write_empty_chunks: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Write to a Zarr hierarchy.

        A new dataset appears when it is complete. Dask arrays are written task by task, whole chunks or shards each.

        Parameters
        ----------
        store : path, URL, mapping or store
        mode : {'w', 'w-', 'a', 'a-', 'r+'}, optional
            As in xarray: ``w`` replaces the dataset, or the group, ``w-`` refuses to, ``a`` adds variables and
            overwrites existing ones, ``a-`` overwrites none without `append_dim`, ``r+`` only overwrites values.
            Default: ``a`` with `append_dim`, ``r+`` with `region`, else ``w-``.
        group : str, optional
            The path of the group to write. Other groups of an existing dataset stay.
        encoding, unlimited_dims
            As for :func:`nczarr.from_xarray`.
        append_dim : str, optional
            Append along this dimension of an existing dataset, which becomes unlimited if it is not.
        region : mapping or 'auto', optional
            The part of an existing dataset to write: slices by dimension; ``auto`` finds a slice by coordinates.
            Several processes may write regions at the same time. On object stores, parts of chunks are changed by
            conditional writes, and exclude writers of anything but regions; without conditional writes, all writers.
        compute : bool, default True
            False writes all but the values of Dask arrays, and returns a delayed object that writes those.
        safe_chunks : bool, default True
            Refuse chunks of Dask that share a chunk which `encoding` or the existing dataset sets.
        align_chunks : bool, default False
            Cut and join such chunks of Dask instead.
        unsafe : bool, default False
            Store values that the stored units, packing or type change, and coordinates that differ from the stored
            ones. By default they are refused before the first byte is written; chunks of Dask, before that chunk.
        wait : float, default 0
            Seconds to wait while other writers have an existing dataset open.
        write_inherited_coords : bool, default False
            Write the coordinates that groups of a tree inherit into each group, too.
        write_empty_chunks : bool, default False
            Store chunks in which every value is the fill value; as in xarray, new ones are left out by default.
        storage_options : mapping, optional
            Options of the file system of a URL.
        **options
            For a new dataset, the options of :func:`nczarr.copy`.

        Returns
        -------
        None, or dask.delayed.Delayed with ``compute=False``

        Raises
        ------
        ValueError, TypeError
            As xarray raises them for arguments, encodings and sizes that do not fit.
        NCZarrError
            With the problem and its location.
        """
        # to_zarr wrote a netCDF file under a name that says so.
        if convert.kind_of_target(store) != "zarr":
            raise ValueError(
                f"{store!r} is no name of a Zarr hierarchy: to_netcdf and nczarr.copy write files"
            )
        how = _mode(mode, append_dim, region)
        options = _own_options(options)
        place = Shared(
            store,
            None if storage_options is None else dict(storage_options),
            wait,
            write_empty_chunks=write_empty_chunks,
        )
        group = None if group is None else plain_path(group)
        top = fqn_of(group or "")
        is_safe = not safe_chunks or align_chunks
        if group and top != "/" and how in ("w", "w-") and (there := place.groups()):
            if top in there:
                if how == "w-" or not compute:
                    raise DatasetExistsError(
                        "the group exists",
                        path=place_of(store),
                        fqn=top,
                        hint="mode='w' with compute=True replaces it",
                    )
                # The old group is readable until the new one beside it is complete.
                with place.replacing(top, beside := f"{group.rstrip('/')}.{token_hex(4)}"):
                    return self.to_zarr(
                        store, mode, beside, encoding, unlimited_dims=unlimited_dims, safe_chunks=safe_chunks,
                        align_chunks=align_chunks, unsafe=unsafe, wait=wait,
                        write_inherited_coords=write_inherited_coords, write_empty_chunks=write_empty_chunks,
                        storage_options=storage_options, **options,
                    )  # fmt: skip
            how = "a"
        groups, given = groups_of(self._data, encoding, group, inherited=write_inherited_coords)
        late: LateValues | None = None
        if how in ("a", "a-", "r+"):
            update = Update(place, how, append_dim, region, options, is_unsafe=unsafe)
            late = update.run(groups, given, unlimited_dims, is_safe=is_safe)
        if late is None:
            dataset = unchecked(model_of(groups, given, unlimited_dims), unsafe=unsafe)
            work = chunked_work(dataset)
            # Two tasks that write parts of one chunk each lose what the other one writes.
            for one in () if is_safe else work:
                block = block_of(one)
                check_aligned(one, (0,) * len(block or ()), block)
            if not compute:
                dataset = without_values(dataset, {fqn for fqn, _, _ in work})
            _create(
                dataset, store, how, storage_options, {"write_empty_chunks": write_empty_chunks, **options}
            )
            if compute:
                return None
            late = LateValues(work, place.targets_of(fqn for fqn, _, _ in work))
        if compute and not late.work:
            return None
        blocks = {fqn: target.block for fqn, target in late.targets.items()}
        place = replace(place, targets=late.targets)
        return store_chunked(late.work, place, blocks, starts=late.starts, compute=compute)

    def to_netcdf(
        self,
        path: Any = None,
        mode: Literal["w", "a"] = "w",
        format: str | None = None,
        group: str | None = None,
        *,
        encoding: Mapping[str, Any] | None = None,
        unlimited_dims: Sequence[str] | None = None,
        compute: bool = True,
        unsafe: bool = False,
        write_inherited_coords: bool = False,
    ) -> Any:
        """Write to a netCDF file. A new file replaces an existing one when it is complete.

        Parameters
        ----------
        path : path, URL or binary file, optional
            The name of a file, with any suffix but ``.zip`` and ``.cdl``. Without it, the result is the file as a
            memoryview.
            A URL of netCDF-C with ``#mode=nczarr`` or ``#mode=zarr`` is the place of a Zarr hierarchy.
        mode : {'w', 'a'}
            ``w`` writes a new file, ``a`` adds variables to an existing file and overwrites existing ones.
        format : str, optional
            The format of a new file, as for :func:`nczarr.copy` or as in xarray: ``"netCDF-4"``, ``"NETCDF4"``, …
        group : str, optional
            The path of the group to write.
        encoding, unlimited_dims
            As for :func:`nczarr.from_xarray`.
        compute : bool, default True
            False returns a delayed object that writes the file of this name. A new file is there at once, without the
            values of Dask arrays; an existing one stays until the delayed object is computed.
        unsafe : bool, default False
            Store values that the stored units, packing or type change. By default they are refused.
        write_inherited_coords : bool, default False
            Write the coordinates that groups of a tree inherit into each group, too.

        Raises
        ------
        ValueError, TypeError
            As xarray raises them for arguments, encodings and sizes that do not fit.
        NCZarrError
            With the problem and its location.
        """
        # Paths of py.path, as pytest gives them, have a method of that name, too.
        if path is None or (hasattr(path, "write") and not is_path(path)):
            return self._in_memory(
                path, format=format, group=group, encoding=encoding, unlimited_dims=unlimited_dims,
                compute=compute, unsafe=unsafe, write_inherited_coords=write_inherited_coords,
            )  # fmt: skip
        # xarray's own words, for which its tests look.
        if mode not in ("w", "a"):
            raise ValueError(f"The only supported options for mode are 'w' and 'a', but mode={mode!r}")
        if isinstance(path, str) and parse_target(path).modes & {"nczarr", "zarr"}:
            return self.to_zarr(
                path, mode, group, encoding, unlimited_dims=unlimited_dims, compute=compute, unsafe=unsafe,
                write_inherited_coords=write_inherited_coords,
            )  # fmt: skip
        if convert.kind_of_target(path) != "netcdf":
            path = _file_name(path)
        data_model = DATA_MODELS.get(str(format), "")
        name = FORMAT_OF_MODEL.get(data_model, format)
        options: dict[str, Any] = {} if name is None else {"format": name}
        top = None if group is None else plain_path(group)
        groups, given = groups_of(self._data, encoding, top, inherited=write_inherited_coords)
        _refuse_for_files(groups, given, is_classic=data_model in CLASSIC_FORMATS)
        write: Any = partial(_update_file, path, groups, given, unlimited_dims, options, unsafe=unsafe)
        if mode == "w":
            dataset = unchecked(
                in_file(model_of(groups, given, unlimited_dims, for_file=True)), unsafe=unsafe
            )
            write = partial(_write_file, dataset, path, overwrite=True, **options)
        if compute:
            write()
            return None
        import dask

        # Dask arrays may read the file that is replaced: it stays until the new one is complete.
        if mode == "w" and (local := local_path(path)) is not None and not local.exists():
            late = {fqn for fqn, _, _ in chunked_work(dataset)}
            _write_file(without_values(dataset, late), path, **options)
        return dask.delayed(write, traverse=False)()

    def _in_memory(self, file: Any, *, compute: bool, **options: Any) -> memoryview | None:
        """Write a netCDF file, and return its bytes or write them to an open file."""
        if not compute:
            raise also(UnsupportedError, NotImplementedError)(
                "to_netcdf() with compute=False is not yet implemented for bytes and open files",
                hint="give the name of a file: to_netcdf('NAME.nc', compute=False)",
            )
        with TemporaryDirectory() as folder:
            path = Path(folder, "dataset.nc")
            self.to_netcdf(path, **options)
            data = path.read_bytes()
        if file is None:
            return memoryview(data)
        file.write(data)
        return None


def _file_name(path: Any) -> FileName:
    """Return the name of a netCDF file that has no suffix of one, or refuse that of another format."""
    local = local_path(path)
    if local is None or local.is_dir() or local.suffix.lower() in (".zip", ".cdl"):
        raise ArgumentError(
            f"{path!r} is not the name of a netCDF file", hint="NAME.nc; to_zarr writes Zarr hierarchies"
        )
    return FileName(local)


def _create(
    dataset: object,
    store: Any,
    how: str,
    storage_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> None:
    """Write a new dataset; the hint of a copy names its own option, which :meth:`to_zarr` calls its mode."""
    try:
        convert.copy(dataset, store, overwrite=how == "w", target_options=storage_options, **options)
    # The error of a copy advises its option overwrite, which to_zarr calls mode.
    except DatasetExistsError as error:
        if how == "w":
            raise
        hint = "mode='w' replaces it, mode='a' changes it"
        raise DatasetExistsError(error.message, path=error.path, hint=hint) from error


def _refuse_for_files(
    groups: Mapping[str, xr.Dataset], given: Mapping[str, Mapping[str, Any]], *, is_classic: bool
) -> None:
    """Raise as xarray for what Zarr stores, and netCDF files do not.

    A slash separates groups there, and the classic formats have characters in place of strings.
    """
    for path, dataset in groups.items():
        for name, encoding in given.get(path, {}).items():
            if is_classic and isinstance(encoding, Mapping) and encoding.get("dtype") is str:
                raise ArgumentError(
                    f"encoding dtype=str for vlen strings is only supported with format='NETCDF4' (variable {name!r})",
                    hint="without dtype, texts are stored as characters",
                )
        for name in (*dataset.variables, *dataset.sizes):
            # The netCDF library refuses slashes, and random names of xarray's own tests have them.
            if isinstance(name, str) and "/" in name:
                raise ArgumentError(
                    f"Forward slashes '/' are not allowed in variable and dimension names of files (got {name!r})",
                    hint="rename() gives it another name",
                )


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a copy; refuse those for which the accessor has other words."""
    found = dict(options)
    if "overwrite" in found:
        hint = "mode='w' replaces a dataset, mode='w-' refuses one, mode='a' changes it"
        raise ArgumentTypeError("to_zarr has no option overwrite=: its mode says it", hint=hint)
    version = found.pop("zarr_format", 3)
    if version not in (None, 3):
        raise also(UnsupportedError, ValueError)(
            f"zarr_format={version!r}: the option layout= says the version of Zarr",
            hint="layout='zarr-v2' is Zarr v2 as xarray writes it, layout='nczarr-v2' that of netCDF-C with all its "
            "types; the default is Zarr v3",
        )
    return found


def _mode(mode: str | None, append_dim: str | None, region: object) -> str:
    """Return the mode of :meth:`NCZarrAccessor.to_zarr`; raise as xarray for arguments that exclude each other."""
    chosen = mode or ("a" if append_dim is not None else "r+" if region is not None else "w-")
    # xarray's own words, for which its tests look.
    if chosen not in ("w", "w-", "a", "a-", "r+"):
        raise ValueError(
            f"The only supported options for mode are 'w', 'w-', 'a', 'a-' and 'r+', but mode={mode!r}"
        )
    if region is not None and chosen not in ("a", "a-", "r+"):
        raise ValueError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
    if region not in (None, "auto") and not isinstance(region, Mapping):
        raise TypeError(f"``region`` must be a dict or 'auto', got {region!r}")
    if append_dim is not None and chosen not in ("a", "a-"):
        raise ValueError("cannot set append_dim unless mode='a', mode='a-' or mode=None")
    return chosen


def _update_file(
    path: Any, groups: Any, given: Any, unlimited_dims: Any, options: Any, *, unsafe: bool
) -> None:
    if Update(Shared(path), "a", in_file=True, is_unsafe=unsafe).run(groups, given, unlimited_dims) is None:
        dataset = in_file(model_of(groups, given, unlimited_dims, for_file=True))
        _write_file(unchecked(dataset, unsafe=unsafe), path, **options)


def _write_file(dataset: model.Dataset, path: Any, **options: Any) -> None:
    # As in xarray, nothing is said of types of the classic formats that keep every value.
    kind = options.get("format")
    dataset, _ = in_classic_types(dataset, None if kind is None else parse_kind(str(kind)))
    for loss in convert.copy(dataset, path, **options):
        warn(f"{path}: {loss}")


def unchecked(dataset: model.Dataset, *, unsafe: bool) -> model.Dataset:
    """Return a dataset whose values may change as they are stored, if that is asked for."""
    return model.rewrite(dataset, variable=lambda _, v: _unchecked(v)) if unsafe else dataset


def _unchecked(variable: model.Variable) -> model.Variable:
    data = variable.data
    return variable.with_data(replace(data, fit=None)) if isinstance(data, EncodedSource) else variable


# --- existing datasets


@dataclass(frozen=True)
class Shared:
    """An existing dataset, which each task opens to write whole chunks."""

    store: Any
    options: dict[str, Any] | None = None
    #: Seconds to wait for other writers.
    wait: float = 0
    #: By FQN, the variables as the tasks expect them.
    targets: Mapping[str, TaskTarget] = field(default_factory=dict)
    write_empty_chunks: bool = True

    def dataset(self, mode: str, **how: Any) -> Dataset:
        """Open the dataset."""
        if not self.write_empty_chunks:  # a file has no options of Zarr
            how["options"] = WriteOptions(compression="source", write_empty_chunks=False)
        return Dataset(self.store, mode, storage_options=self.options, wait=self.wait, **how)

    def open(self) -> _DatasetWriter:
        """Open the dataset beside other writers."""
        return _DatasetWriter(self.dataset("r+", shared=True), self.targets, place_of(self.store))

    def targets_of(self, fqns: Iterable[str]) -> dict[str, TaskTarget]:
        """Return variables as tasks are planned for them."""
        with self.dataset("r") as dataset:
            session = dataset._nc_session
            nodes = _nodes(session)
            return {fqn: TaskTarget.of(session, nodes[fqn]) for fqn in fqns}

    def groups(self) -> set[str]:
        """Return the FQNs of the groups; none without a dataset."""
        try:
            with self.dataset("r") as dataset:
                return {group.fqn for group in dataset._nc_session.root.walk()}
        except (DatasetNotFoundError, FileNotFoundError):
            return set()

    @contextmanager
    def replacing(self, fqn: str, path: str) -> Iterator[None]:
        """Put the group at a path beside another one in its place, or remove the new one after an error."""
        (above, name), new = model.split_fqn(fqn), model.split_fqn(fqn_of(path))[1]
        gone = new
        try:
            yield
            gone = name
        finally:
            with self.dataset("r+") as dataset:
                session = dataset._nc_session
                node = next(group for group in session.root.walk() if group.fqn == above)
                with session.tree.lock:
                    node.groups.pop(gone, None)
                    node.touch()
                if gone == name:
                    node.rename_group(new, name)


@dataclass(frozen=True)
class _DatasetWriter:
    dataset: Dataset
    targets: Mapping[str, TaskTarget]
    path: str

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        session = self.dataset._nc_session
        self.targets[fqn].write(session, fqn, _nodes(session).get(fqn), region, values, self.path)

    def close(self) -> None:
        self.dataset.close()


def _nodes(session: Session) -> dict[str, VariableNode]:
    return {node.fqn: node for node in session.root.walk_variables()}


def chunked_work(dataset: model.Dataset) -> list[Work]:
    """Return the variables whose values are Dask arrays."""
    found = [(fqn, v, v.data) for fqn, v in dataset.all_variables.items() if v.data is not None]
    return [one for one in found if is_chunked(one)]


def without_values(dataset: model.Dataset, fqns: Collection[str]) -> model.Dataset:
    """Return a dataset without the values of some variables, which tasks write later."""
    return model.rewrite(dataset, variable=lambda at, v: v.with_data(None) if at in fqns else v)


def block_of(one: Work) -> tuple[int, ...] | None:
    """Return the shape of the shards or chunks that a new variable asks for."""
    storage = one[1].storage
    return storage.shard_shape or storage.array_chunks or storage.chunk_shape


def check_aligned(one: Work, start: tuple[int, ...], block: tuple[int, ...] | None) -> None:
    """Raise ValueError if two tasks of Dask would write to one chunk."""
    _, variable, source = one
    chunks = source.chunked.chunks  # type: ignore[attr-defined]
    if block is not None and aligned(chunks, start, block) != chunks:
        raise ValueError(
            f"Specified Zarr chunks encoding['chunks']={block!r} for variable named {variable.name!r} would overlap "
            "multiple Dask chunks: two tasks would write one chunk, and Zarr has uniform chunk sizes. Rechunk the "
            "array with chunk(), modify or delete encoding['chunks'], or give align_chunks=True."
        )


@dataclass(frozen=True)
class LateValues:
    """The Dask arrays whose values are written after the metadata, task by task, and their place in the store.

    Parameters
    ----------
    targets, starts : dict
        By FQN, the variables as the tasks expect them, and the positions of the first values.
    """

    work: list[Work]
    targets: dict[str, TaskTarget]
    starts: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Update:
    """A change of an existing dataset, with the checks of xarray."""

    place: Shared
    mode: str
    append_dim: str | None = None
    region: Any = None
    #: Options of a new dataset, which an existing one refuses.
    refused: Collection[str] = ()
    #: Write to a file, through one handle; otherwise tasks write Dask arrays.
    in_file: bool = False
    #: Store values that do not fit.
    is_unsafe: bool = False
    #: By FQN, the forms of values that the program has not decoded.
    given: dict[str, StoredForm] = field(default_factory=dict)
    #: By FQN, the units and the packing that the program gives to variables that are replaced as a whole.
    own: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(
        self,
        groups: dict[str, xr.Dataset],
        given: Mapping[str, Any],
        unlimited_dims: Collection[str] | None,
        *,
        is_safe: bool = True,
    ) -> LateValues | None:
        """Check everything, grow dimensions, and write the values, to Zarr all but those of Dask arrays.

        Returns
        -------
        LateValues or None
            None if there is no dataset, and the mode creates it.
        """
        # In xarray, the modes a and a- make a dataset that is missing, and r+ and region do not.
        if not self.place.groups():
            if self.mode == "r+" or self.region is not None:
                raise DatasetNotFoundError("there is no dataset to change", path=place_of(self.place.store))
            return None
        groups = {path: self._loaded(ds) for path, ds in groups.items()} if self.in_file else groups
        # Other processes may write values at the same time, and neither documents nor a file of HDF5.
        with self.place.dataset("r+", shared=self.mode == "r+" and not self.in_file) as target:
            # Chunks and compression of a call would be dropped without a word for variables that exist.
            if self.refused:
                raise UnsupportedError(
                    f"the dataset exists, and has its own {', '.join(self.refused)}",
                    path=place_of(self.place.store),
                    hint="give options of a new dataset only with mode='w' or 'w-'",
                )
            session = target._nc_session
            groups, places = self._compared(target, groups, given)
            dataset = model_of(groups, given, unlimited_dims, for_file=self.in_file)
            # Each xarray dataset with a date has int64, which the classic formats lack.
            if self.in_file:
                dataset, _ = in_classic_types(dataset, session.stored.dataset.format, _nodes(session))
            starts = {
                fqn: _start(groups, places, fqn, len(variable.dimensions))
                for fqn, variable in dataset.all_variables.items()
            }
            nodes = _nodes(session)
            forms: dict[str, tuple[Attribute, ...]] = {}
            dataset = model.rewrite(
                dataset, variable=lambda at, v: self._fitted(at, v, nodes.get(at), starts[at], forms)
            )
            work = [] if self.in_file else chunked_work(dataset)
            for one in () if is_safe else work:
                there = session.chunk_shape(nodes[one[0]]) if one[0] in nodes else block_of(one)
                check_aligned(one, starts[one[0]], there)
            with _kept_after_errors(session.root):
                for path in dataset.all_groups:
                    self._declare(session, dataset, path, groups[path], places[path])
            self._grow(session, places)
            session.flush()
            nodes = _nodes(session)
            for fqn, attributes in forms.items():
                for attribute in attributes:
                    nodes[fqn].set_attribute(attribute)
            late = LateValues(work, {fqn: TaskTarget.of(session, nodes[fqn]) for fqn in starts}, starts)
            now = without_values(dataset, {fqn for fqn, _, _ in work})
            written = [(fqn, v.data) for fqn, v in now.all_variables.items() if v.data is not None]
            session.exclude_others(
                (nodes[fqn], [slice(n, n + size) for n, size in zip(starts[fqn], data.shape, strict=True)])
                for fqn, data in written
            )
            for fqn, data in written:
                _write(session, nodes[fqn], data, starts[fqn], late.targets[fqn].block)
        return late

    def _compared(
        self, target: Dataset, groups: Mapping[str, xr.Dataset], given: Mapping[str, Any]
    ) -> tuple[dict[str, xr.Dataset], Places]:
        """Return the datasets with the encoding of the target, and the parts of it to write, or raise as xarray."""
        known = {node.fqn: node for node in target._nc_session.root.walk()}
        checked: dict[str, xr.Dataset] = {}
        places: Places = {}
        # HDF5 has one handle of a file here: a second one would not see what this one has not written.
        again = target if self.in_file else self.place.store
        with closing(ReopenedDataset(again, self.place.options)) as source:
            for path, ds in groups.items():
                at = join_path(model.parse_fqn(path))
                old = opened(source, at, {}) if path in known else xr.Dataset()
                places[path] = self._places(ds, old) if ds.variables else {}
                checked[path] = self._checked(
                    path, ds, old, places[path], given.get(path, {}), known.get(path)
                )
        return checked, places

    def _loaded(self, ds: xr.Dataset) -> xr.Dataset:
        """Load the variables that come from this file, and close it: HDF5 cannot read beside a writer."""
        ds, here = ds.copy(), local_path(self.place.store)
        for variable in ds.variables.values():
            kept = variable.encoding.get(KEPT)
            path = local_path(kept.store.source.target) if isinstance(kept, Kept) else None
            if path is not None and here is not None and path.resolve() == here.resolve():
                variable.load()
                variable.encoding = {k: v for k, v in variable.encoding.items() if k != KEPT}
                kept.store.source.close()
        return ds

    def _places(self, ds: xr.Dataset, old: xr.Dataset) -> dict[str, slice]:
        """Return the part of the target to write, by dimension."""
        region: dict[Any, Any] = (
            dict.fromkeys(ds.dims, "auto") if self.region == "auto" else dict(self.region or {})
        )
        # The errors have xarray's own words, for which its tests look.
        for dim, part in region.items():
            if dim not in ds.dims:
                raise ValueError(
                    f"all keys in ``region`` are not in Dataset dimensions, got {list(region)} and {list(ds.dims)}"
                )
            region[dim] = part = _found(ds, old, dim) if part == "auto" else part
            if not isinstance(part, slice):
                raise TypeError(f"all values in ``region`` must be slice objects, got region={region}")
            if part.step not in (1, None):
                raise ValueError(f"step on all slices in ``region`` must be 1 or None, got region={region}")
            start, stop, _ = part.indices(old.sizes[dim])
            region[dim] = slice(start, stop)
            self._refuse_beyond(str(dim), part, old.sizes[dim], ds.sizes[dim])
        lonely = [k for k, v in ds.variables.items() if region and not set(region) & set(v.dims)]
        if lonely and self.region != "auto":
            raise ValueError(
                "when setting `region` explicitly in to_zarr(), all variables in the dataset to write must have at "
                f"least one dimension in common with the region's dimensions {list(region)}, but that is not the case "
                f"for some variables here. To drop these variables from this dataset before exporting to zarr, write: "
                f".drop_vars({lonely!r})"
            )
        if self.append_dim is not None:
            if self.append_dim in region:
                raise ValueError(
                    f"cannot list the same dimension in both ``append_dim`` and ``region``: {region}"
                )
            if self.append_dim not in ds.dims or (old.variables and self.append_dim not in old.dims):
                raise ValueError(
                    f"append_dim={self.append_dim!r} does not match any existing dataset dimensions {old.dims}"
                )
            start = old.sizes.get(self.append_dim, 0)
            region[self.append_dim] = slice(start, start + ds.sizes[self.append_dim])
        return region

    def _refuse_beyond(self, dim: str, part: slice, size: int, wanted: int) -> None:
        """Refuse a region that ends behind the dimension; xarray's error compares sizes that the call does not give."""
        ends = [n for n in (part.start, part.stop) if n is not None]
        start, stop, _ = part.indices(size)
        if stop - start == wanted or all(-size <= n <= size for n in ends):
            return
        raise ArgumentError(
            f"the region {dim}={part.start}:{part.stop} ends outside of the dimension, which has the length {size}",
            path=place_of(self.place.store),
            hint=f"append_dim={dim!r} writes behind the end; nczarr.copy(…, template=) makes room for regions",
        )

    def _fitted(
        self,
        fqn: str,
        variable: model.Variable,
        node: VariableNode | None,
        start: tuple[int, ...],
        forms: dict[str, tuple[Attribute, ...]],
    ) -> model.Variable:
        """Return a variable whose values fit the stored one, or whose new form does; note that form in `forms`."""
        data = variable.data
        if node is None or not isinstance(data, EncodedSource):
            return _unchecked(variable) if self.is_unsafe else variable
        place = place_of(self.place.store)
        problem: NCZarrError | None = None
        # The stored units stay where the values fit them; units that the program gives come first.
        for attributes in [*self._other_forms(fqn, node), ()][:: 1 if self.own.get(fqn) else -1]:
            merged = {**node.attributes, **{a.name: a for a in attributes}}
            form = StoredForm.of(node.type, merged)
            if form is None:
                return variable
            fit = Fit(form, self.given.get(fqn), True, place, fqn, start, self.is_unsafe)
            is_other = bool(attributes) or fit.given is not None
            # xarray's encoder chose units of its own, and wrapped numbers that do not fit the stored packing.
            fitted = (data.anew() if is_other else data).fitted(node.type, fit)
            try:
                found = variable.with_data(_checked_values(fitted))
            except NCZarrError as error:
                # The error for the stored units says more than that of a guess.
                problem = error if problem is None or not attributes else problem
                continue
            if attributes:
                forms[fqn] = attributes
            return replace(found, type=node.type)
        assert problem is not None
        raise problem

    def _other_forms(self, fqn: str, node: VariableNode) -> list[tuple[Attribute, ...]]:
        """Return the units that a variable may get that is replaced as a whole: those given, or finer ones."""
        own = self.own.get(fqn)
        if own is None:
            return []
        if own:
            return [tuple(Attribute.of(name, value) for name, value in own.items())]
        units = node.attributes.get("units")
        word, since, date = ("", "", "") if units is None else units.text.partition(" since ")
        finer = ("nanoseconds", "microseconds", "milliseconds", "seconds", "minutes", "hours")
        return [(Attribute.of("units", f"{u}{since}{date}"),) for u in finer if since and u != word]

    def _refuse_other_coordinates(self, path: str, ds: xr.Dataset, old: xr.Dataset) -> None:
        """Refuse coordinates without the appended dimension that differ from the stored ones."""
        for name, variable in ds.coords.variables.items():
            there = old.variables.get(name)
            # xarray stores levels of another order over the stored ones, which turns all earlier values.
            if there is None or self.append_dim in variable.dims or variable.dims != there.dims:
                continue
            if variable.shape != there.shape or _are_close(variable.to_numpy(), there.to_numpy()):
                continue
            raise UnsupportedError(
                f"the coordinate differs from the stored one, and {self.append_dim} does not run along it",
                path=place_of(self.place.store),
                fqn=model.join_fqn(path, str(name)),
                hint="reindex the dataset to the stored coordinate, for example with reindex_like; drop_vars leaves "
                "the coordinate as it is stored; unsafe=True replaces it",
            )

    def _checked(
        self,
        path: str,
        ds: xr.Dataset,
        old: xr.Dataset,
        places: Mapping[str, slice],
        given: Mapping[str, Any],
        node: GroupNode | None,
    ) -> xr.Dataset:
        """Return the dataset with the encoding of the target, or raise the errors of xarray."""
        if self.append_dim is not None and not self.is_unsafe:
            self._refuse_other_coordinates(path, ds, old)
        if self.region == "auto":  # the coordinates have given the region
            ds = ds.drop_vars(
                [k for k, v in ds.variables.items() if k in ds.dims or not set(v.dims) & set(places)]
            )
        # In mode a-, xarray leaves variables without the appended dimension as they are.
        if self.mode == "a-":
            ds = ds.drop_vars(
                [k for k, v in ds.variables.items() if k in old.variables and self.append_dim not in v.dims]
            )
        new = [name for name in ds.variables if name not in old.variables]
        if new and self.mode == "r+":
            raise ValueError(
                f"dataset contains non-pre-existing variables {new}, which mode='r+' does not add"
            )
        ds = ds.copy()
        for name, variable in list(ds.variables.items()):
            there = old.variables.get(name)
            # xarray transposes, too: it knows axes by their names.
            if there is not None and variable.dims != there.dims and set(variable.dims) == set(there.dims):
                ds[name] = variable.transpose(*there.dims)
        own: dict[Hashable, int] = {} if node is None else {d.name: d.size for d in node.dimensions.values()}
        for name, variable in ds.variables.items():
            if name in new:
                self._refuse_other_shape(name, variable, variable.dims, {**own, **old.sizes}, places)
                continue
            there = old.variables[name]
            # An encoding of the call would have no effect on stored chunks.
            if name in given:
                raise ValueError(f"variable {name!r} already exists, but encoding was provided")
            self._refuse_other_shape(name, variable, there.dims, dict(there.sizes), places)
            self._take_stored_form(model.join_fqn(path, str(name)), variable, there, places)
        ds.encoding = {k: v for k, v in ds.encoding.items() if k != KEPT}
        return ds

    def _refuse_other_shape(
        self,
        name: Hashable,
        variable: xr.Variable,
        dims: tuple[Hashable, ...],
        sizes: dict[Hashable, int],
        places: Mapping[str, slice],
    ) -> None:
        """Refuse a variable whose dimensions or sizes are not those of the target, as far as these stay."""
        call = "to_netcdf" if self.in_file else "to_zarr"
        if dims != variable.dims:
            raise ValueError(
                f"variable {name!r} already exists with different dimension names {dims} != "
                f"{variable.dims}, but changing variable dimensions is not supported by {call}()."
            )
        for dim, part in places.items():
            if dim in sizes:
                sizes[dim] = part.stop - part.start
        sizes.pop(self.append_dim, None)
        other = next((d for d, n in variable.sizes.items() if n != sizes.get(d, n)), None)
        if other is not None and self.in_file:
            raise ArgumentError(
                f"variable {name!r} already exists with different dimension sizes: Unable to update size for existing "
                f"dimension {other!r} ({variable.sizes[other]} != {sizes[other]})",
                hint="mode='w' writes a new file; nczarr.append() appends to one",
            )
        if other is not None:
            raise ValueError(
                f"variable {name!r} already exists with different dimension sizes: {sizes} != "
                f"{dict(variable.sizes)}. to_zarr() only supports changing dimension sizes when explicitly "
                f"appending, but append_dim={self.append_dim!r}. If you are attempting to write to a subset of the "
                "existing store without changing dimension sizes, consider using the region argument in to_zarr()."
            )

    def _take_stored_form(
        self, fqn: str, variable: xr.Variable, there: xr.Variable, places: Mapping[str, slice]
    ) -> None:
        """Give a variable the attributes and the encoding of the stored one; note the form that it has itself."""
        # Longer text would be cut to the length that is stored.
        if "S" in variable.dtype.kind + there.dtype.kind and variable.dtype != there.dtype:
            raise ValueError(
                f"Mismatched dtypes for variable {model.split_fqn(fqn)[1]} between Zarr store on disk and dataset to "
                f"append. Store has dtype {there.dtype} but dataset to append has dtype {variable.dtype}."
            )
        # Numbers that a program read undecoded would be encoded a second time.
        if (form := _form_of_attributes(variable)) is not None:
            self.given[fqn] = form
        if self.mode == "a" and not set(variable.dims) & set(places):
            self.own[fqn] = _own_form(variable, there)
        # As in xarray, attributes of a variable are set in files alone.
        attrs = dict(variable.attrs) if self.in_file else {}
        variable.attrs, variable.encoding = {**there.attrs, **attrs}, dict(there.encoding)

    def _declare(
        self, session: Session, dataset: model.Dataset, path: str, ds: xr.Dataset, places: Mapping[str, slice]
    ) -> None:
        """Declare the new nodes of a group, and set its attributes."""
        group, root = dataset.all_groups[path], session.root
        node = next((g for g in root.walk() if g.fqn == path), None)
        if node is None:
            above, name = model.split_fqn(path)
            node = next(g for g in root.walk() if g.fqn == above).add_group(name)
        for type_ in group.types:
            there = root.all_types().get(type_.fqn)
            if there is None or there.type != type_:
                node.add_type(type_)
        if self.mode != "r+":
            for attribute in group.attributes:
                if attribute.name in ds.attrs:
                    node.set_attribute(attribute)
        for variable in group.variables:
            if variable.name in node.variables:
                old, wanted = node.variables[variable.name], ds[variable.name].attrs
                for attribute in variable.attributes:
                    if attribute.name in wanted and attribute != old.attribute(attribute.name):
                        old.set_attribute(attribute)
                continue
            dimensions = []
            for ref, size in zip(variable.dimensions, dataset.shape_of(variable), strict=True):
                name = model.split_fqn(ref)[1] if isinstance(ref, str) else f"dim_{ref}"
                found = node.find_dimension(name)
                is_other = found is not None and found.group is not node and found.size != size
                # A dimension that grows has not got its new size yet, and groups below share it.
                if found is None or (is_other and name not in places):
                    unlimited = isinstance(ref, str) and dataset.is_unlimited(ref)
                    found = node.add_dimension(name, size, unlimited=unlimited)
                dimensions.append(found)
            made: Any = variable.type
            if made.is_user_defined:
                made = root.all_types()[made.fqn]
            node.add_variable(variable.name, made, tuple(dimensions), variable.storage, variable.attribute)

    def _grow(self, session: Session, places: Places) -> None:
        """Make the dimension of appended values longer, and unlimited."""
        dim = self.append_dim or ""
        for node in session.root.walk():
            growing = node.find_dimension(dim) if dim in places.get(node.fqn, {}) else None
            if growing is not None:
                with session.tree.lock:
                    # In netCDF, only an unlimited dimension grows.
                    if not growing.unlimited:
                        growing.unlimited = True
                        growing.group.touch()
                session.extend(growing, max(growing.size, places[node.fqn][dim].stop))


def _start(groups: Mapping[str, xr.Dataset], places: Places, fqn: str, ndim: int) -> tuple[int, ...]:
    """Return where the values of a variable begin in the target, whose last dimension may be one of characters."""
    path, name = model.split_fqn(fqn)
    start = [places[path][d].start if d in places[path] else 0 for d in groups[path][name].dims]
    return (*start, *[0] * (ndim - len(start)))


def _form_of_attributes(variable: xr.Variable) -> StoredForm | None:
    """Return the form of numbers that the program has read without decoding them; None of decoded values."""
    type_ = model.primitive_for_dtype(variable.dtype)
    says = {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"} & variable.attrs.keys()
    if type_ is None or not (says or " since " in str(variable.attrs.get("units", ""))):
        return None
    names = (*says, "units", "calendar")
    return StoredForm.of(type_, {n: Attribute.of(n, variable.attrs[n]) for n in names if n in variable.attrs})


def _own_form(variable: xr.Variable, there: xr.Variable) -> dict[str, Any]:
    """Return the units and the packing of a variable, as far as the stored one has others."""
    now, then = variable.encoding, there.encoding
    names = ["units", "calendar"] if {"units", "calendar"} & then.keys() else []
    if now.get("dtype") == then.get("dtype"):
        names += [name for name in ("scale_factor", "add_offset") if name in then]
    return {n: now[n] for n in names if now.get(n) is not None and now[n] != then.get(n)}


#: Encoded values of a variable up to this size are kept from the check until they are written.
_KEPT_BYTES = 64 << 20


def _checked_values(source: EncodedSource) -> model.ArraySource:
    """Return the values of a source, after a look at all that are no Dask array, which tasks check.

    Raises
    ------
    UnsupportedError
        If a value does not fit.
    """
    # A look at a Dask array would compute it twice.
    if not source.may_change or source.chunked is not None:
        return source
    shape, size = source.shape, value_bytes(source.dtype)
    # Values are read once: a second look would decode them again.
    if size * int(np.prod(shape)) <= _KEPT_BYTES:
        return model.MemorySource(source.read(tuple(slice(0, n, 1) for n in shape)))
    for region in regions(shape, block_shape(shape, (1,) * len(shape), None, size, BLOCK_BYTES)):
        source.read(region)
    return source


def _are_close(a: np.ndarray, b: np.ndarray) -> bool:
    """True if coordinates are equal within the rounding of the narrower type."""
    kinds = a.dtype.kind + b.dtype.kind
    # Rounding is a matter of floats; times and text are equal or not.
    if "f" not in kinds or set(kinds) - set("iuf"):
        return bool(np.array_equal(a, b))
    eps = max(float(np.finfo(x.dtype).eps) for x in (a, b) if x.dtype.kind == "f")
    return bool(np.allclose(a, b, rtol=4 * eps, atol=0, equal_nan=True))


@contextmanager
def _kept_after_errors(root: GroupNode) -> Iterator[None]:
    """Restore the tree of nodes after an error, so that nothing of a refused change is stored."""
    parts = ("groups", "variables", "dimensions", "types", "attributes")
    nodes: list[Any] = [*root.walk(), *root.walk_variables()]
    before = [(n, {part: copy(getattr(n, part)) for part in parts if hasattr(n, part)}) for n in nodes]
    try:
        yield
    except BaseException:
        for node, content in before:
            for part, value in content.items():
                setattr(node, part, value)
            node.touch()
        raise


def _write(
    session: Session,
    node: VariableNode,
    data: model.ArraySource,
    start: tuple[int, ...],
    block: tuple[int, ...],
) -> None:
    """Write values, block by block."""
    size = block_shape(data.shape, block, None, value_bytes(data.dtype), BLOCK_BYTES)
    for region in regions(data.shape, size):
        there = tuple(slice(r.start + n, r.stop + n, 1) for r, n in zip(region, start, strict=True))
        if all(r.stop > r.start for r in region):
            session.write(node, there, data.read(region))


def _found(ds: xr.Dataset, old: xr.Dataset, dim: str) -> slice:
    """Return where the coordinates of a dimension are in the target."""
    if dim not in ds.indexes or dim not in old.variables:
        raise KeyError(f"region='auto' needs a coordinate of {dim!r} in the store and in the dataset")
    positions = old.variables[dim].to_index().get_indexer(ds.indexes[dim])
    if (positions == -1).any():
        raise KeyError(
            f"Not all values of coordinate '{dim}' in the new array were found in the original store. Writing to a "
            "zarr region slice requires that no dimensions or metadata are changed by the write."
        )
    if (np.diff(positions) != 1).any():
        raise ValueError(
            f"The auto-detected region of coordinate '{dim}' for writing new data to the original store had "
            "non-contiguous indices. Writing to a zarr region slice requires that the new data constitute a contiguous "
            "subset of the original store."
        )
    return slice(int(positions[0]), int(positions[-1]) + 1)

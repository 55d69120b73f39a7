"""Read groups as xarray's datasets, which note in their encoding what xarray cannot say of them.

Values are read lazily, from any number of threads. Datasets opened by path or URL can be pickled, for example by Dask.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from nczarr import model
from nczarr.display import shown_location
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError, also
from nczarr.lazy import cached_property
from nczarr.mapping.plain.write import Labels
from nczarr.model import FLOAT, STRING, EnumType
from nczarr.model.chunk_shapes import chunks_in_shards
from nczarr.model.paths import join_path, split_path
from nczarr.netcdf4 import Dataset
from nczarr.netcdf4.opening import Opening
from nczarr.netcdf4.values.access import read, read_stored
from nczarr.netcdf4.values.attributes import attribute_value
from nczarr.netcdf4.values.indexing import parse_selection
from nczarr.netcdf4.values.points import read_points, read_stored_points
from nczarr.netcdf4.values.types import (
    Settings,
    chunking_of,
    complex_dtype,
    describe_filters,
    shown_dtype,
    view_dtype,
)
from nczarr.options import named, verb_named
from nczarr.session import DimensionNode, GroupNode, Session, VariableNode
from nczarr.session.tree import freeze
from nczarr.system.finalizing import close_with
from nczarr.system.locks import Rank, make_lock
from nczarr.text import missing_package
from nczarr.zarr import Hierarchy

try:
    import xarray as xr
    from xarray import conventions
    from xarray.backends import AbstractDataStore, BackendArray, StoreBackendEntrypoint
    from xarray.core import indexing
except ImportError as error:  # pragma: no cover
    raise NCZarrError("xarray is not installed", hint=missing_package("xarray zarr", "xarray")) from error
if [int(number) for number in xr.__version__.split(".")[:2]] < [2025, 6]:
    raise NCZarrError(f"xarray {xr.__version__} is too old", hint="install a newer one")

#: The options of xarray's decoding.
_OPTIONS = frozenset(inspect.signature(StoreBackendEntrypoint.open_dataset).parameters) - {
    "self",
    "filename_or_obj",
}
#: The key of the encoding of variables and datasets that holds a :class:`Kept`.
KEPT = "nczarr"
#: The name under which xarray stores a variable whose name is None.
UNNAMED = "__values__"


def fqn_of(path: str) -> str:
    """Return the FQN for a path of xarray."""
    return model.format_fqn(split_path(path))


def tree_of(groups: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """Return a tree of groups by their paths.

    Raises
    ------
    UnsupportedError
        If the name of a group contains ``/``: xarray would take it for two groups.
    """
    for path in groups:
        # xarray takes the name for the path of two groups.
        if any("/" in name for name in split_path(path)):
            raise UnsupportedError(
                f"xarray has no tree with this group: its name contains '/': {path}",
                fqn=fqn_of(path),
                hint="open the group with open_dataset(group=), all with open_groups(), or rename it: "
                + verb_named("copy", named("rename")),
            )
    return xr.DataTree.from_dict(groups)


class ReopenedDataset:
    """An open dataset that can be pickled; unpickling opens it again on first use."""

    def __init__(
        self, target: Any, storage_options: dict[str, Any] | None, header: model.Dataset | None = None
    ) -> None:
        self.target = target
        self.storage_options = storage_options
        self._header = header
        self._whole: model.Dataset | None = None
        self._session: Session | None = None
        # Tasks of Dask may open one unpickled dataset at the same time.
        self._lock = make_lock(Rank.OWNER)

    @property
    def session(self) -> Session:
        """The open dataset; opened on first use."""
        return self.open()

    def open(self, on_plain: Callable[[Hierarchy], object] | None = None) -> Session:
        """Open the dataset on first use; see :func:`nczarr.mapping.open_dataset`."""
        # A second handle of HDF5 does not see what the first one has not written.
        if isinstance(self.target, Dataset):
            return self.target._nc_session
        with self._lock:
            if self._session is None:
                in_memory = self.target if isinstance(self.target, bytes) else None
                target = self.target if in_memory is None else "memory"
                opening = Opening(
                    target, memory=in_memory, storage_options=self.storage_options, on_plain=on_plain
                )
                self._session = opening.open()
                close_with(self, self._session)
            return self._session

    def keep_model(self) -> None:
        """Keep the model as it is now for :attr:`header`."""
        if self._header is None and self._whole is None:
            session = self.session
            with session.tree.lock:
                self._whole = freeze(session.root, session.stored.dataset.name, session.rules.format)

    @property
    def header(self) -> model.Dataset:
        """The model without values, as it was at the first use."""
        if self._header is None:
            self.keep_model()
            assert self._whole is not None
            self._header = model.rewrite(self._whole, variable=lambda fqn, v: v.with_data(None))
            self._whole = None
        return self._header

    def label(self, group: GroupNode, dimension: DimensionNode) -> str:
        """Return the name of a dimension for xarray's variables of a group, which has one dimension of a name.

        A dimension of a group above that a nearer one hides has the label that Zarr gives it: ``x_hidden1``.
        """
        if group.find_dimension(dimension.name) is dimension:
            return dimension.name
        return Labels(self.header).label(group.fqn, str(dimension.ref))

    def group(self, path: str) -> GroupNode:
        """Return the group at a path such as ``/a/b``."""
        group = self.session.root
        for name in split_path(path):
            if name not in group.groups:
                raise DatasetNotFoundError(f"there is no group {path!r}", path=place_of(self.target))
            group = group.groups[name]
        return group

    def close(self) -> None:
        """Close; a later use opens it again."""
        with self._lock:  # a dataset that the program has opened stays open
            session, self._session = self._session, None
        if session is not None and session.is_open:
            session.close()

    def __getstate__(self) -> dict[str, object]:
        header = self._header if self._whole is None else self.header
        return {"target": self.target, "storage_options": self.storage_options, "header": header}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class LazyVariable(BackendArray):  # type: ignore[misc]
    """The values of one variable, read on demand: as a program sees them, or in the model's form."""

    def __init__(
        self,
        source: ReopenedDataset,
        group: str,
        name: str,
        *,
        in_model: bool = False,
        node: VariableNode | None = None,
    ) -> None:
        self.source, self.group, self.name, self.in_model = source, group, name, in_model
        node = node or self.node
        self.shape = node.shape
        self.dtype = node.type.dtype if in_model else _dtype(node)

    @cached_property
    def settings(self) -> Settings:
        """How values are read; most variables of a dataset are opened and never read."""
        type_ = self.node.type
        # xarray masks, scales and joins characters itself.
        view = view_dtype(type_) if type_.kind == "compound" else None
        stored = Settings.stored(shown_dtype(type_, self.node.storage), view)
        return replace(stored, complex=complex_dtype(type_))

    @property
    def node(self) -> VariableNode:
        """The variable in the open dataset."""
        return self.source.group(self.group).variables[self.name]

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._read_points(key.tuple)
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        """Read in a thread, so that ``load_async`` reads several variables at a time."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, key: tuple[object, ...]) -> np.ndarray:
        session, node = self.source.session, self.node
        if self.in_model:
            values = read_stored(session, node, parse_selection(key, self.shape), self.shape)
        else:
            values = read(session, node, self.settings, key)
            # netCDF has no float16, so the session gives float32.
            if self.dtype == np.float16:
                values = values.astype(self.dtype)
        integers = sum(isinstance(k, int | np.integer) for k in key)
        if self.dtype != object or (isinstance(values, np.ndarray) and integers < len(self.shape)):
            return values
        boxed = np.empty((), object)  # a string or a sequence is a single element
        boxed[()] = values
        return boxed

    def _read_points(self, key: tuple[object, ...]) -> np.ndarray:
        """Read single elements, each chunk once: a box around them may have a million times more elements."""
        session, node = self.source.session, self.node
        if self.in_model:
            return read_stored_points(session, node, key)
        return np.asarray(read_points(session, node, self.settings, key)).astype(self.dtype, copy=False)

    def whole(self) -> model.ArraySource | None:
        """Return the source of the model, whose chunks a copy takes undecoded; None where changes are pending."""
        session = self.source.session
        return None if session.writable else session.stored.dataset.variable_at(self.node.fqn).data


def _dtype(node: VariableNode) -> np.dtype:
    if node.type == STRING:
        return np.dtype("O", metadata={"element_type": str})
    if node.type.kind == "vlen":
        return np.dtype("O")
    return np.dtype(_number_dtype(node) or shown_dtype(node.type, node.storage))


def _number_dtype(node: VariableNode) -> np.dtype | None:
    """Return the dtype of numbers that xarray has, and netCDF only in another form; None for other values."""
    is_half = node.type == FLOAT and node.storage.data_type == "float16"
    return np.dtype(np.float16) if is_half else complex_dtype(node.type)


class Kept:
    """The origin of a variable or of a dataset, in its encoding: a node of a source, with what xarray cannot say of it.

    Copies of the encoding share it, so that it follows the variable through xarray's operations.
    """

    def __init__(self, store: GroupStore, name: str | None = None) -> None:
        self.store, self.name = store, name

    def __repr__(self) -> str:
        return f"<from {self.store.place}, group {self.store.path!r}>"

    # xarray's deep copies include the encoding, and a copy of the source would be opened again.
    def __deepcopy__(self, memo: object) -> Kept:
        return self


class GroupStore(AbstractDataStore):  # type: ignore[misc]
    """One group, with the interface that xarray's decoding needs."""

    def __init__(self, source: ReopenedDataset, group: str, options: Mapping[str, Any]) -> None:
        self.source, self.path, self.options = source, group, options
        #: The encodings of strings, which xarray drops.
        self.texts: dict[str, dict[str, object]] = {}
        self._variables: tuple[dict[str, xr.Variable], dict[str, xr.Variable]] | None = None

    @property
    def place(self) -> str:
        """The location of the source, without secrets."""
        return place_of(self.source.target)

    def get_variables(self) -> Mapping[str, xr.Variable]:
        group, place = self.source.group(self.path), self.place
        labels = _LabelOfDimension(self.source, group)
        return {name: self._variable(name, v, labels, place) for name, v in group.variables.items()}

    def refuse_scalar_coordinates(self, dropped: str | Iterable[str] | None) -> None:
        """Refuse a scalar that has the name of a dimension, of which xarray's error names no way out."""
        group = self.source.group(self.path)
        labels = _LabelOfDimension(self.source, group)
        dropped = {dropped} if isinstance(dropped, str) else set(dropped or ())
        kept = {name: node for name, node in group.variables.items() if name not in dropped}
        scalars = {name for name, node in kept.items() if not node.dimensions}
        for node in kept.values():
            for name in scalars.intersection(labels[dimension] for dimension in node.dimensions):
                raise also(UnsupportedError, ValueError)(
                    f"xarray has no dataset in which dimension {name!r} already exists as a scalar variable",
                    path=self.place,
                    fqn=model.join_fqn(fqn_of(self.path), name),
                    hint=f"drop_variables=[{name!r}] opens the others",
                )

    def refuse_undecodable(self) -> None:
        """Refuse a variable that xarray cannot decode, whose error names the units or the packing alone."""
        for name, variable in self.get_variables().items():
            try:
                conventions.decode_cf_variables({name: variable}, {}, **self.options)
            except ValueError as error:
                units = "units" in variable.attrs
                raise also(UnsupportedError, ValueError)(
                    f"xarray cannot decode the variable: {error}",
                    path=self.place,
                    fqn=model.join_fqn(fqn_of(self.path), name),
                    hint=f"{'decode_times=False' if units else 'mask_and_scale=False'} leaves the values as they are "
                    f"stored, drop_variables=[{name!r}] opens the others",
                ) from error

    def variables(self) -> tuple[dict[str, xr.Variable], dict[str, xr.Variable]]:
        """Return the variables as they are stored, and as xarray has decoded them at opening, with lazy values."""
        if self._variables is None:
            stored, attributes = self.load()
            copies = {name: v.copy(deep=False) for name, v in stored.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # opening has warned
                decoded, _, _ = conventions.decode_cf_variables(copies, attributes, **self.options)
            self._variables = stored, decoded
        return self._variables

    def _variable(
        self, name: str, node: VariableNode, labels: Mapping[DimensionNode, str], place: str
    ) -> xr.Variable:
        attributes = _attributes(node)
        values = LazyVariable(self.source, self.path, name, node=node)
        names = [labels[dimension] for dimension in node.dimensions]
        if values.dtype.kind == "S" and "_FillValue" in attributes:
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        if values.dtype.kind in "VOc" and node.type != STRING:
            attributes.pop("_FillValue", None)  # xarray masks neither records nor bytes nor sequences
        encoding = _encoding(self.source.session, node, names, values.dtype)
        if "least_significant_digit" in attributes:
            encoding["least_significant_digit"] = attributes.pop("least_significant_digit")
        encoding["source"] = place
        encoding[KEPT] = Kept(self, name)
        if node.type == STRING:
            self.texts[name] = dict(encoding)
            if encoding["dtype"] is str and self.source.session.stored.disk_format == "ZARR":
                del encoding["dtype"]  # xarray would load all strings when it opens the dataset
        data = indexing.LazilyIndexedArray(values)
        return xr.Variable(names, data, attributes, encoding)

    def get_attrs(self) -> Mapping[str, object]:
        return _attributes(self.source.group(self.path))

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_variables": None}

    def get_dimensions(self) -> Mapping[str, int]:
        return {name: d.size for name, d in self.source.group(self.path).dimensions.items()}

    def get_encoding(self) -> Mapping[str, object]:
        return {"unlimited_dims": self.unlimited(), KEPT: Kept(self)}

    def unlimited(self) -> set[str]:
        """Return the names of the unlimited dimensions."""
        dimensions = self.source.header.all_groups[fqn_of(self.path)].dimensions
        return {d.name for d in dimensions if d.unlimited}

    def close(self) -> None:
        self.source.close()


class _LabelOfDimension(dict[DimensionNode, str]):
    """The labels of dimensions in a group, each found once; see :meth:`ReopenedDataset.label`."""

    def __init__(self, source: ReopenedDataset, group: GroupNode) -> None:
        super().__init__()
        self._source, self._group = source, group

    def __missing__(self, dimension: DimensionNode) -> str:
        self[dimension] = label = self._source.label(self._group, dimension)
        return label


def _attributes(node: GroupNode | VariableNode) -> dict[str, Any]:
    return {name: shown_attribute(attribute) for name, attribute in node.attributes.items()}


def shown_attribute(attribute: model.Attribute) -> Any:
    """Return the value of an attribute for xarray: an object of Zarr's JSON as it is, of which netCDF has the text."""
    is_object = attribute.json is not None and attribute.json.startswith("{")
    return json.loads(attribute.json or "") if is_object else attribute_value(attribute)


def _encoding(
    session: Session, node: VariableNode, labels: Sequence[str], read_as: np.dtype
) -> dict[str, object]:
    # The dtype of sequences and strings in memory says nothing of their elements.
    dtype = shown_dtype(node.type, node.storage) if read_as.kind == "O" else read_as
    # A cast to the type of their elements would not fit sequences; xarray casts no strings with one dimension twice.
    if node.type.kind == "vlen" or (dtype is str and len(set(node.dimensions)) < len(node.dimensions)):
        dtype = np.dtype("O")
    encoding: dict[str, object] = {"dtype": dtype, "original_shape": node.shape}
    if isinstance(node.type, EnumType):
        members = {"enum": dict(node.type.members), "enum_name": node.type.name}
        encoding["dtype"] = np.dtype(dtype, metadata=members)
    if not session.rules.netcdf3:
        encoding.update(describe_filters(node.storage.filters))
        encoding["chunksizes"] = chunking_of(session, node)
        encoding["contiguous"] = encoding["chunksizes"] is None
    # In Zarr, the stored chunks may differ from the chunk sizes that netCDF reports.
    in_zarr = session.stored.disk_format == "ZARR"
    chunks: Any = encoding.get("chunksizes")
    stored: Any = (node.storage.array_chunks or session.chunk_shape(node)) if in_zarr else chunks
    shards = node.storage.shard_shape
    if shards:  # the names of xarray's Zarr engine
        encoding["chunks"], encoding["shards"] = stored or chunks_in_shards(shards, chunks or shards), shards
    elif in_zarr and chunks and stored:
        encoding["chunks"] = stored
    if stored:
        encoding["preferred_chunks"] = dict(zip(labels, stored, strict=True))
    return encoding


def is_path(target: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(target, str | os.PathLike)


def place_of(target: object) -> str:
    """Return the location of a target, without secrets."""
    return shown_location(str(target)) if is_path(target) else "memory"


def opened(source: ReopenedDataset, group: str, options: Mapping[str, Any]) -> xr.Dataset:
    """Return a group as a dataset that xarray has decoded with the options of :func:`xarray.open_dataset`."""
    if unknown := sorted(options.keys() - _OPTIONS):
        raise also(UnsupportedError, TypeError)(
            f"the engine nczarr has no option {', '.join(unknown)}",
            hint=f"the options of decoding are {', '.join(sorted(_OPTIONS))}; formats are found by themselves",
        )
    store = GroupStore(source, group, options)
    try:
        source.keep_model()  # while the source is there
        dataset = StoreBackendEntrypoint().open_dataset(store, **options)
    except BaseException as error:
        try:
            if isinstance(error, ValueError):
                store.refuse_scalar_coordinates(options.get("drop_variables"))
                store.refuse_undecodable()
        finally:
            store.close()
        raise
    for name in store.texts.keys() & dataset.variables.keys():
        encoding = dataset.variables[name].encoding
        for key, value in store.texts[name].items():
            # xarray drops the encoding of strings when it decodes them.
            if key not in encoding or (value is str and getattr(encoding[key], "kind", "") == "O"):
                encoding[key] = value
    return dataset


@contextmanager
def as_xarray(dataset: model.Dataset, kind: str) -> Iterator[xr.Dataset | xr.DataTree]:
    """Give the root group, or all groups, of a dataset of the model to xarray.

    Parameters
    ----------
    kind : {'Dataset', 'DataTree'}
    """
    with Dataset(dataset) as open_dataset:
        source = ReopenedDataset(open_dataset, None)
        paths = [join_path(model.parse_fqn(fqn)) for fqn in dataset.all_groups]
        groups = {path: opened(source, path, {}) for path in (paths if kind == "DataTree" else ["/"])}
        yield tree_of(groups) if kind == "DataTree" else groups["/"]

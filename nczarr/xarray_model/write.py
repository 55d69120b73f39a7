"""Turn datasets and trees of xarray into the model, with lazy values.

xarray encodes the variables: times, packing, fill values, characters. Where a variable or dataset has an origin
(:class:`nczarr.xarray_model.read.Kept`), its origin says what xarray cannot: types, the types and order of attributes,
dimensions of groups above, unused dimensions and types, the order of nodes, the storage. A part of the origin counts as
long as xarray's objects say the same as when they were read; what a program has changed wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from xarray import conventions

from nczarr import model
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.mapping.dataset.subgroup import Rooter
from nczarr.mapping.node_names import free_name
from nczarr.mapping.values.attributes import infer_attribute
from nczarr.model import CHAR, STRING, Attribute, Dimension, Type, UserType, Variable, join_fqn, split_fqn
from nczarr.model.nodes import dataset_of
from nczarr.model.types import map_parts
from nczarr.netcdf4.values.attributes import attribute_value, make_attribute
from nczarr.system.warning import warn
from nczarr.xarray_model.read import KEPT, UNNAMED, Kept, ReopenedDataset, fqn_of, shown_attribute
from nczarr.xarray_model.variables import VariableOrigin, XarrayVariable, check_encoding, encode, same

XarrayData: TypeAlias = "xr.Dataset | xr.DataArray | xr.DataTree | Mapping[str, xr.Dataset]"


def from_xarray(
    data: XarrayData,
    *,
    encoding: Mapping[str, Any] | None = None,
    unlimited_dims: Sequence[str] | None = None,
    name: str | None = None,
) -> model.Dataset:
    """Return the model of a dataset, a data array or a tree of xarray.

    Values stay lazy: those of Dask arrays are computed, and those of files read, when the model's values are read. A
    dataset that was opened with ``engine="nczarr"`` has the types, dimensions, attributes and storage of its source,
    bit by bit, except for what the program has changed.

    Parameters
    ----------
    data : xarray.Dataset, xarray.DataArray, xarray.DataTree or mapping
        A mapping has a dataset for each path of a group, as from :func:`xarray.open_groups`.
    encoding : mapping, optional
        Encodings by variable, which replace those of the variables, as in xarray: ``{"temp": {"zlib": True}}``. For a
        tree, by path of the group and variable: ``{"/ocean": {"temp": {"zlib": True}}}``.
    unlimited_dims : sequence of str, optional
        The unlimited dimensions; default: ``encoding["unlimited_dims"]`` of each dataset.
    name : str, optional
        The name of the dataset.

    Raises
    ------
    KeyError, ValueError, TypeError, NotImplementedError
        As xarray raises them where encoding and data do not fit.
    NCZarrError
        If netCDF lacks a type for a variable or an attribute.

    Examples
    --------
    >>> import xarray as xr
    >>> data = xr.Dataset({"v": ("x", [1.5, 2.5], {"units": "K"})})
    >>> data["v"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    >>> variable = from_xarray(data, unlimited_dims=["x"]).variables[0]
    >>> variable.type, variable.data.read((slice(0, 2),)).tolist()
    (SHORT, [3, 5])
    """
    return model_of(*groups_of(data, encoding), unlimited_dims, name)


def model_of(
    groups: Mapping[str, xr.Dataset],
    encoding: Mapping[str, Any],
    unlimited_dims: Collection[str] | None = None,
    name: str | None = None,
    *,
    for_file: bool = False,
) -> model.Dataset:
    """Return the model of the datasets of :func:`groups_of`; see :func:`from_xarray`.

    With `for_file`, new attributes that are objects are refused, of which Zarr alone has the form.
    """
    unlimited_dims = [unlimited_dims] if isinstance(unlimited_dims, str) else unlimited_dims
    # xarray's own words, for which its tests look.
    if unknown := sorted(set(unlimited_dims or ()).difference(*(ds.dims for ds in groups.values()))):
        raise ValueError(
            f"Unlimited dimension(s) {unknown!r} declared in 'unlimited_dims-kwarg', but not part of the data"
        )
    return _Writing(groups, encoding, unlimited_dims, for_file=for_file).dataset(name)


def groups_of(
    data: XarrayData,
    encoding: Mapping[str, Any] | None,
    top: str | None = None,
    *,
    inherited: bool = False,
) -> tuple[dict[str, xr.Dataset], dict[str, Mapping[str, Any]]]:
    """Return the datasets and the given encodings by FQN of the group, parents first, below the group at a path.

    The other arguments are those of :func:`from_xarray`. With `inherited`, groups of a tree also have the coordinates
    of the groups above.
    """
    if isinstance(data, xr.DataArray):
        data = _dataset_of(data)
    if isinstance(data, xr.Dataset):
        data, encoding = {"/": data}, {"/": encoding or {}}
    if isinstance(data, xr.DataTree):
        parts = {}
        for node in data.subtree:
            # Below a part of a tree, the coordinates from above would be missing.
            own = parts[node.relative_to(data)] = node.to_dataset(inherit=inherited or node is data)
            own.encoding = dict(node.encoding)
        data = parts
    groups = {"/": xr.Dataset()}
    for path, ds in data.items():
        fqn = fqn_of(f"{top or ''}/{path}")
        for above in _parents(fqn):
            # The parents of a group must exist in a netCDF file.
            groups.setdefault(above, xr.Dataset())
        # xarray's own calls take a variable without a name.
        groups[fqn] = ds.rename({None: UNNAMED}) if None in ds.variables else ds
    given = {fqn_of(f"{top or ''}/{path}"): one for path, one in (encoding or {}).items()}
    # xarray's own words, for which its tests look.
    if unknown := sorted(given.keys() - groups.keys()):
        raise ValueError(f"unexpected encoding group name(s) provided: {unknown}")
    return groups, given


def _dataset_of(array: xr.DataArray) -> xr.Dataset:
    """Return the dataset of an array as xarray stores it; a name that a coordinate has is kept as an attribute."""
    name = array.name
    if name is not None and name not in array.coords and name not in array.dims:
        return array.to_dataset()
    # xarray's readers of data arrays know these two names.
    found = array.to_dataset(name="__xarray_dataarray_variable__")
    return found if name is None else found.assign_attrs(__xarray_dataarray_name__=name)


def _parents(fqn: str) -> list[str]:
    return [] if fqn == "/" else [*_parents(above := split_fqn(fqn)[0]), above]


@dataclass
class _XarrayGroup:
    """One group of the new model. `before` is the same group of the source, if the dataset has an origin."""

    path: str
    labelled: xr.Dataset
    before: model.Group | None
    kept: Kept | None
    types: list[UserType]
    dimensions: dict[str, Dimension] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    attributes: tuple[Attribute, ...] = ()


class _Writing:
    """The conversion of all groups; parents come before their children."""

    def __init__(
        self,
        groups: Mapping[str, xr.Dataset],
        encoding: Mapping[str, Any],
        unlimited: Collection[str] | None,
        *,
        for_file: bool,
    ) -> None:
        self.encoding, self.unlimited, self.for_file = encoding, unlimited, for_file
        kept = _origin(groups["/"])
        #: The source of the root, whose groups keep what xarray does not see, and the group in it that is the root.
        self.source: ReopenedDataset | None = None if kept is None else kept.store.source
        self.base = "/" if kept is None else fqn_of(kept.store.path)
        header = model.Dataset("dataset", format="netCDF-4") if kept is None else kept.store.source.header
        self.header = header if self.base == "/" else Rooter(header, self.base).dataset(header.name)
        self.groups = {path: self._group(path, ds) for path, ds in groups.items()}

    def _group(self, path: str, labelled: xr.Dataset) -> _XarrayGroup:
        kept = _origin(labelled)
        at = self._inside(fqn_of(kept.store.path)) if kept and kept.store.source is self.source else None
        before = self.header.all_groups.get(path) if at == path else None
        return _XarrayGroup(path, labelled, before, kept, list(before.types) if before else [])

    def _inside(self, fqn: str) -> str:
        """Return the FQN in the header for one in the source."""
        base = self.base.rstrip("/")
        return fqn[len(base) :] or "/" if f"{fqn}/".startswith(f"{base}/") else ""

    def dataset(self, name: str | None) -> model.Dataset:
        for group in self.groups.values():
            self._fill(group)
        root = self._content(self.groups["/"])
        nodes = (root, *root.variables)
        used = {v.type for v in root.variables} | {a.type for node in nodes for a in node.attributes}
        before = (self.header, *self.header.variables)
        known = {v.type for v in self.header.variables} | {a.type for node in before for a in node.attributes}
        # A classic model stays one until it gets what only netCDF-4 has.
        more = any(not t.is_classic for t in used - known)
        more = more or sum(d.unlimited for d in root.dimensions) > 1
        format_ = (
            "netCDF-4" if self.header.format and (more or root.groups or root.types) else self.header.format
        )
        return dataset_of(root, name or self.header.name, format_)

    def _content(self, group: _XarrayGroup) -> model.Group:
        before = group.before or model.Group("/")
        children = [g for p, g in self.groups.items() if p != "/" and split_fqn(p)[0] == group.path]
        used = {ref for v in self.header.all_variables.values() for ref in v.dimensions}
        # A dimension without variables has gone with them; one that never had any is still there.
        idle = {d.name: d for d in before.dimensions if join_fqn(group.path, d.name) not in used}
        return model.Group(
            split_fqn(group.path)[1] if group.path != "/" else "/",
            attributes=group.attributes,
            types=tuple(group.types),
            dimensions=_in_order([*(idle | group.dimensions).values()], before.dimensions),
            variables=_in_order(group.variables, before.variables),
            groups=_in_order([self._content(child) for child in children], before.groups),
        )

    # -- variables

    def _fill(self, group: _XarrayGroup) -> None:
        ds, given = group.labelled, dict(self.encoding.get(group.path, {}))
        asked = given.pop("unlimited_dims", self.unlimited)
        # An unknown name passed without effect.
        if unknown := sorted(given.keys() - ds.variables.keys()):
            raise KeyError(f"unexpected encoding for variables that are not in the dataset: {unknown}")
        unlimited = self._unlimited(group, asked)
        for name in {**ds.variables, **ds.sizes}:
            _check_name(name)
            check_encoding(str(name), given.get(name, {}))
        variables, _ = conventions.encode_dataset_coordinates(ds)
        for name, new in given.items():
            # As in xarray, the encoding of a call replaces that of the variable, but never the origin.
            origin = {k: v for k, v in variables[name].encoding.items() if k == KEPT}
            variables[name].encoding = {**new, **origin}
        for variable in variables.values():
            # None stands for no entry, as in xarray's own calls; it forbids a fill value alone.
            variable.encoding = {
                k: v for k, v in variable.encoding.items() if v is not None or k == "_FillValue"
            }
            if getattr(variable.encoding.get("dtype"), "kind", "") == "U":  # xarray would cut longer text
                variable.encoding = {**variable.encoding, "dtype": str}
        parts = {name: XarrayVariable(name, v, self._variable_origin(v)) for name, v in variables.items()}
        old = {name for name, part in parts.items() if part.origin is not None}
        for name, part in parts.items():
            part.drop_coordinates(
                "coordinates" in ds.variables[name].encoding | ds.variables[name].attrs, old
            )
        group.attributes = self._attributes(group, _global(group, ds, parts), group.before)
        encode([part for part in parts.values() if not part.is_same])
        group.variables += [self._variable(group, part, unlimited) for part in parts.values()]

    def _unlimited(self, group: _XarrayGroup, asked: Any) -> Collection[str] | None:
        """Return the unlimited dimensions: those asked for, or those of an encoding that the program has changed.

        Return None where each dimension is as in its source.
        """
        noted = group.labelled.encoding.get("unlimited_dims")
        if asked is None and noted is not None:
            seen = group.kept.store.unlimited() if group.kept else None
            asked = None if seen == noted else noted
        unlimited = [asked] if isinstance(asked, str) else asked
        is_own = unlimited is not None and unlimited is not self.unlimited
        # As in xarray, a warning: an encoding outlives the selection of one step, which drops the dimension.
        if is_own and (gone := sorted(set(unlimited) - set(group.labelled.dims))):
            warn(
                f"Unlimited dimension(s) {gone!r} declared in 'dataset.encoding' are not part of the dataset"
            )
        return unlimited

    def _variable(
        self, group: _XarrayGroup, part: XarrayVariable, unlimited: Collection[str] | None
    ) -> Variable:
        """Return a variable of the new model, with its values; declare its type and dimensions."""
        references = tuple(self._dimension(group, part, i, n, unlimited) for i, n in enumerate(part.shape))
        type_ = self._declared(group, part.type())
        before = part.origin.variable if part.origin else None
        attributes = self._attributes(group, part.attributes(type_), before)
        if part.encoded is not None:
            attributes = tuple(_as_fill(a, type_) if a.name == "_FillValue" else a for a in attributes)
        storage = part.storage([self._is_unlimited(ref) for ref in references])
        made = Variable(part.name, type_, references, attributes=attributes, storage=storage)
        return made.with_data(part.source(made))

    def _variable_origin(self, variable: xr.Variable) -> VariableOrigin | None:
        kept = variable.encoding.get(KEPT)
        if not isinstance(kept, Kept) or kept.name is None:
            return None
        header, at = kept.store.source.header, join_fqn(fqn_of(kept.store.path), kept.name)
        if at not in header.all_variables:
            return None
        try:
            stored, decoded = kept.store.variables()
        except (NCZarrError, OSError):  # the source is gone: xarray encodes all that it had decoded
            stored, decoded = {}, {}
        is_here = kept.store.source is self.source and self._inside(at) in self.header.all_variables
        header, at = (self.header, self._inside(at)) if is_here else (header, at)
        found = header.all_variables[at]
        return VariableOrigin(kept, header, found, stored.get(kept.name), decoded.get(kept.name), is_here)

    def _attributes(
        self, group: _XarrayGroup, values: Mapping[Any, Any], before: model.Group | Variable | None
    ) -> tuple[Attribute, ...]:
        """Return attributes: those of the origin that have the same value, in their order, then the new ones."""
        old = before.attribute if before is not None else {}
        found = []
        for name in [*(n for n in old if n in values), *(n for n in values if n not in old)]:
            attribute = old.get(name)
            if attribute is None or not same(values[name], shown_attribute(attribute)):
                attribute = _new_attribute(name, values[name], attribute, for_file=self.for_file)
            elif attribute.type.is_user_defined:
                attribute = replace(attribute, type=self._declared(group, attribute.type))
            found.append(attribute)
        return tuple(found)

    # -- dimensions and types

    def _above(self, path: str) -> Iterator[_XarrayGroup]:
        """Yield a group and those above it, the nearest first."""
        while True:
            yield self.groups[path]
            if path == "/":
                return
            path = split_fqn(path)[0]

    def _dimension(
        self,
        group: _XarrayGroup,
        part: XarrayVariable,
        axis: int,
        size: int,
        unlimited: Collection[str] | None,
    ) -> model.DimensionRef:
        """Return the reference for an axis: as in the origin, or the nearest dimension of the name and size."""
        name, ref = str(part.dims[axis]), part.reference(axis)
        if isinstance(ref, int) and ref == size and name in part.stored.dims:
            return ref
        old = part.origin.header.all_dimensions[ref] if part.origin and isinstance(ref, str) else None
        # Computed data have no origin, but the dataset still names its unlimited dimensions.
        declared = group.labelled.encoding.get("unlimited_dims", ()) if unlimited is None else unlimited
        is_unlimited = old.unlimited if unlimited is None and old is not None else name in declared
        new = Dimension(name, size, is_unlimited)
        is_same = old is not None and name in (old.name, *part.stored.dims)
        if part.origin is not None and part.origin.is_here and old is not None and is_same:
            home, above = split_fqn(str(ref))[0], {g.path: g for g in self._above(group.path)}
            same = replace(new, name=old.name)  # a hidden dimension has another label
            # Another variable may have made the dimension with another length.
            if home in above and above[home].dimensions.setdefault(old.name, same).size == size:
                return str(ref)
        for owner in self._above(group.path):
            if name in owner.dimensions:
                if owner.dimensions[name].size == size:
                    return join_fqn(owner.path, name)
                break
        if group.dimensions.setdefault(name, new).size != size:
            raise UnsupportedError(
                f"the dimension {name!r} has the lengths {group.dimensions[name].size} and {size}",
                fqn=join_fqn(group.path, part.name),
                hint="rename it; for characters, encoding['char_dim_name'] names it",
            )
        return join_fqn(group.path, name)

    def _is_unlimited(self, ref: model.DimensionRef) -> bool:
        path, name = split_fqn(ref) if isinstance(ref, str) else ("", "")
        return isinstance(ref, str) and self.groups[path].dimensions[name].unlimited

    def _declared(self, group: _XarrayGroup, type_: Type) -> Type:
        """Return a type as it is declared in any group; declare it in this one if it is missing."""
        if not isinstance(type_, UserType) or any(type_ in g.types for g in self.groups.values()):
            return type_
        type_ = map_parts(type_, partial(self._declared, group))
        here = replace(type_, fqn=join_fqn(group.path, type_.name))
        taken = {t.name: t for t in group.types}
        # Groups of several sources may have different types of one name.
        if taken.get(here.name, here) != here:
            here = replace(here, fqn=join_fqn(group.path, free_name(here.name, taken)))
        if here not in group.types:
            group.types.append(here)
        return here


def _origin(labelled: xr.Dataset) -> Kept | None:
    """Return the origin of a dataset: its own, or the one group from which all its variables come."""
    kept = labelled.encoding.get(KEPT)
    if isinstance(kept, Kept):
        return kept
    found = [v.encoding.get(KEPT) for v in labelled.variables.values()]
    stores = {k.store for k in found if isinstance(k, Kept)}
    return Kept(stores.pop()) if len(stores) == 1 and None not in found else None


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(
            f"Invalid name {name!r} for DataArray or Dataset key: in xarray it is a string or None, in netCDF a string"
        )
    if not name:
        raise ValueError(
            f"Invalid name {name!r} for DataArray or Dataset key: string must be length 1 or greater"
        )


def _in_order(nodes: Sequence[Any], before: Sequence[Any]) -> tuple[Any, ...]:
    """Return nodes in the order of the origin; new ones are last."""
    order = {node.name: i for i, node in enumerate(before)}
    return tuple(sorted(nodes, key=lambda node: order.get(node.name, len(order))))


def _global(group: _XarrayGroup, ds: xr.Dataset, parts: Mapping[str, XarrayVariable]) -> dict[Any, Any]:
    """Return the attributes of a group, with the coordinates that no variable lists."""
    own = group.before.attribute.get("coordinates") if group.before else None
    coordinates = set(map(str, ds.coords))
    if "coordinates" in ds.attrs:
        return dict(ds.attrs)
    if own is not None and coordinates >= set(own.text.split()) & set(parts):
        return {**ds.attrs, "coordinates": attribute_value(own)}
    listed = {name for part in parts.values() for name in part.listed()}
    # A name with a blank cannot be told from two names.
    lost = sorted(c for c in coordinates - listed - set(map(str, ds.dims)) if " " not in c)
    return {**ds.attrs, **({"coordinates": " ".join(lost)} if lost else {})}


def _new_attribute(name: Any, value: Any, before: Attribute | None, *, for_file: bool) -> Attribute:
    if not isinstance(name, str):
        raise TypeError(f"Invalid name for attr: {name!r} must be a string, as all names of netCDF are")
    if not name:
        raise ValueError(f"Invalid name for attr {name!r}: in netCDF, a name has a character or more")
    value = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "OU" else value
    if isinstance(value, np.ndarray | np.generic) and value.dtype == np.float16:
        value = value.astype(np.float32)  # no attribute has this type
    # None was left out of a variable, and became the text null in a dataset.
    if value is None:
        raise TypeError(
            f"Invalid value for attr {name!r}: None is no value of netCDF; remove the attribute, or give it text or "
            "a number"
        )
    if isinstance(value, xr.Dataset | xr.DataArray | xr.Variable):
        raise TypeError(
            f"Invalid attribute in Dataset.attrs. The value of {name!r} is a {type(value).__name__}, which no "
            "attribute can be: .values gives its numbers"
        )
    if for_file and isinstance(value, dict):
        raise TypeError(
            f"Invalid value for attr {name!r}: {value!r} is an object, which no attribute of a netCDF file can be: "
            "json.dumps() makes text of it, and to_zarr() stores it"
        )
    try:
        # netCDF has no truth values, and an object keeps its JSON for Zarr.
        if isinstance(value, bool | np.bool_ | dict):
            return infer_attribute(name, value.item() if isinstance(value, np.bool_) else value)
        return make_attribute(name, value, group=None, as_string=before is not None and before.type == STRING)
    except NCZarrError as error:
        raise TypeError(f"Invalid value for attr {name!r}: {value!r}: {error}") from error


def _as_fill(attribute: Attribute, type_: Type) -> Attribute:
    """Return ``_FillValue`` with the type of its variable."""
    if type_ == STRING and attribute.type == CHAR:
        return make_attribute(attribute.name, attribute.text, group=None, as_string=True)
    if attribute.type == type_ or type_.dtype.kind in "OV" or not len(attribute.values):
        return attribute
    # Programs write _FillValue = "NaN", of which numpy makes a number.
    value = attribute.values[:1] if attribute.type != CHAR or type_ == CHAR else np.array([attribute.text])
    return Attribute(attribute.name, type_, value.astype(type_.dtype))

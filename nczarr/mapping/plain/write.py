"""Plan the documents of plain Zarr: groups, arrays, labels and attributes without NCZarr's keys, for v3 and v2.

NCZarr adds its keys to the same documents (``docs/spec/nczarr-v3.md``). The plan of a new plain dataset lists in
``losses`` the differences between the model and the documents: it reads the documents again and compares
(``docs/spec/plain-zarr.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Literal

from nczarr import model
from nczarr.dataclass import dataclass
from nczarr.errors import ModelError, error_context
from nczarr.json_values import JsonObject
from nczarr.mapping.dialect import Binding, KeptNodes, Plan, array_at
from nczarr.mapping.node_names import NodeNames, free_name
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.plain.read import DIMENSIONS_KEY, labels_of, read_plain
from nczarr.mapping.values.arrays import V2_KEYS, chunk_keys, grid_and_codecs
from nczarr.mapping.values.attributes import RESERVED, encode_attributes
from nczarr.mapping.values.encodings import Encoding, TruthEncoding, encoding_for_writing, kept_encoding
from nczarr.model import Attribute, Dataset, Group, Type, Variable, join_fqn, split_fqn
from nczarr.model.common_chunks import ChunkWish, common_chunks
from nczarr.model.types import names_inside
from nczarr.stores import MemoryStore
from nczarr.transfer import value_bytes
from nczarr.zarr import ArrayMetadata, GroupMetadata, NamedConfig, create_hierarchy, open_hierarchy
from nczarr.zarr.documents.v2 import codecs_to_v2
from nczarr.zarr.grids import ChunkGrid

#: The loss of the order of nodes: without consolidated metadata, the order is that of a listing.
ORDER = "/: the order of variables, groups and dimensions"
_LONGEST = 60
#: xarray's attribute of truth values in a type of numbers.
_TRUTH = ("dtype", "bool")


def plan_plain(
    layout: Literal["v2", "v3"],
    dataset: Dataset,
    options: WriteOptions,
    names: NodeNames,
    known: KeptNodes | None = None,
) -> Plan:
    """Plan the documents for a version of Zarr; see :meth:`nczarr.mapping.dialect.Dialect.plan`.

    xarray's convention on v2 has the names of dimensions in ``_ARRAY_DIMENSIONS``, and ``fill_value`` is
    ``_FillValue``.
    """
    plan = DocumentPlanner(dataset, replace(options, nz=False), names, known or KeptNodes()).planned()
    for fqn, variable in dataset.all_variables.items():
        path = plan.variables[fqn].path
        array = array_at(plan.nodes, path)
        if isinstance(plan.variables[fqn].encoding, TruthEncoding):  # reading adds the attribute
            array = array.with_attributes({k: v for k, v in array.attributes.items() if (k, v) != _TRUTH})
            plan.nodes[path] = array
        if layout != "v2":
            continue
        older = for_v2(array)
        with error_context(fqn=fqn):
            # Codecs that version 2 lacks are refused before anything is written.
            codecs_to_v2(older.codecs, older.ndim)
        attributes = {k: v for k, v in array.attributes.items() if k != "_FillValue"}
        # xarray looks for the dimensions of version 2 there.
        if array.dimension_names is not None:
            attributes[DIMENSIONS_KEY] = list(array.dimension_names)
        # xarray masks all values that equal the fill value, so arrays without _FillValue have none.
        fill_value = None if model.own_fill_value(variable) is None else array.fill_value
        plan.nodes[path] = replace(older, attributes=attributes, fill_value=fill_value)
    return plan if known else replace(plan, losses=tuple(_losses_of(dataset, plan, layout)))


def for_v2(array: ArrayMetadata) -> ArrayMetadata:
    """Return the metadata of an array for versions before 3; numcodecs' crc32c has another byte order."""
    codecs = tuple(NamedConfig("numcodecs.crc32c") if c.name == "crc32c" else c for c in array.codecs)
    return replace(array, codecs=codecs, chunk_key_encoding=V2_KEYS, dimension_names=None)


# --- documents


@dataclass
class DocumentPlanner:
    """Plans documents group by group; a subclass chooses other node names, encodings and attributes, or adds keys.

    Attributes
    ----------
    plan : Plan
    annotations : dict
        By path, the content of ``_nczarr_attr``, which plain attributes lack.
    kept : set of str
        The paths of arrays whose documents do not change.
    """

    dataset: Dataset
    options: WriteOptions
    names: NodeNames
    known: KeptNodes
    plan: Plan = field(default_factory=lambda: Plan({}, {}, {}), init=False)
    annotations: dict[str, JsonObject] = field(default_factory=dict, init=False)
    kept: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.labels = Labels(self.dataset)

    def planned(self) -> Plan:
        """Return the plan of the whole dataset."""
        self.group("/", self.dataset, "")
        return self.plan

    def group(self, fqn: str, group: Group, path: str) -> None:
        children = [("array", v.name) for v in group.variables] + [("group", g.name) for g in group.groups]
        nodes = self.node_names(fqn, children)
        self.plan.groups[fqn] = path
        for dimension in group.dimensions:
            _check_text(dimension.name, f"{fqn}: dimension")
        for type_ in group.types:
            _check_text(type_.name, f"{fqn}: type")
            for name in names_inside(type_):
                _check_text(name, f"{type_.fqn}: member")
        reserved = RESERVED | {"conventions"} if self.options.nz else RESERVED
        self.plan.nodes[path] = GroupMetadata(self.attributes(group.attributes, path, fqn, reserved, None))
        prefix = f"{path}/" if path else ""
        for variable in group.variables:
            self.variable(fqn, variable, prefix + nodes["array", variable.name])
        for child in group.groups:
            self.group(join_fqn(fqn, child.name), child, prefix + nodes["group", child.name])

    def children(self, fqn: str, group: Group) -> dict[str, list[str]]:
        """Return the node names of the arrays and groups in a planned group, in order."""
        arrays = [self.plan.variables[join_fqn(fqn, v.name)].path for v in group.variables]
        groups = [self.plan.groups[join_fqn(fqn, g.name)] for g in group.groups]
        return {
            k: [p.rpartition("/")[2] for p in paths] for k, paths in (("arrays", arrays), ("groups", groups))
        }

    def node_names(self, fqn: str, children: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the node name of each child of a group, by kind and name."""
        known = {c: self.known.nodes[fqn, *c] for c in children if (fqn, *c) in self.known.nodes}
        return self.names.assign(children, known)

    def attributes(
        self,
        attributes: tuple[Attribute, ...],
        path: str,
        fqn: str,
        reserved: frozenset[str],
        array: Type | None,
    ) -> dict[str, object]:
        for attribute in attributes:
            _check_text(attribute.name, f"{fqn}: attribute")
        plain, info = encode_attributes(attributes, array=array, reserved=reserved)
        if info:
            self.annotations[path] = info
        return plain

    def encoding(self, fqn: str, variable: Variable) -> Encoding:
        options, fill = self.options, model.fill_value_of(variable)
        kept = kept_encoding(variable.type, variable.storage.data_type, model.own_fill_value(variable))
        # NZ-1.0 knows data types by name, and null_terminated_bytes and struct have a configuration.
        forms = ("uint8", "bytes") if options.nz else (options.char, options.compound)
        return (
            self.known.encodings.get(fqn)
            or kept
            or encoding_for_writing(variable.type, fill, char=forms[0], compound=forms[1])
        )

    def variable(self, group: str, variable: Variable, path: str) -> None:
        fqn = join_fqn(group, variable.name)
        plan = self.plan
        # A variable that a change does not concern keeps its document as another program may have written
        # it.
        if fqn in self.known.arrays and self.known.arrays[fqn][1].path == path:
            plan.nodes[path], plan.variables[fqn] = self.known.arrays[fqn]
            self.kept.add(path)
            return
        shape, encoding = self.dataset.shape_of(variable), self.encoding(fqn, variable)
        fill = model.fill_value_of(variable)
        grid, codecs = self.grid_and_codecs(fqn, variable, encoding)
        plan.nodes[path] = ArrayMetadata(
            shape=shape + encoding.inner_shape,
            data_type=encoding.data_type,
            chunk_grid=grid,
            chunk_key_encoding=chunk_keys(variable.storage, self.options),
            # An array that cannot represent netCDF's default has Zarr's.
            fill_value=encoding.encode_fill(fill) if encoding.can_fill(fill) else encoding.data_type.zero(),
            codecs=codecs,
            attributes=self.attributes(variable.attributes, path, fqn, RESERVED, variable.type),
            dimension_names=self.labels.of(group, variable.dimensions, encoding.inner_shape),
        )
        plan.variables[fqn] = Binding(path, encoding)

    @cached_property
    def default_chunks(self) -> Mapping[str, tuple[int, ...]]:
        """The chunk shapes of the variables whose storage names none."""

        def wish(fqn: str, v: Variable) -> ChunkWish:
            stored = self.known.stored.get(fqn)
            chunks = v.storage.array_chunks or v.storage.chunk_shape
            if stored is not None:
                chunks = stored.shapes[0][: len(v.dimensions)]
            unlimited = [self.dataset.is_unlimited(ref) for ref in v.dimensions]
            shape, itemsize = self.dataset.shape_of(v), value_bytes(v.type.dtype)
            return ChunkWish.of(fqn, v.dimensions, shape, unlimited, itemsize, chunks)

        found = {fqn: v for fqn, v in self.dataset.all_variables.items() if v.dimensions}
        if all(
            v.storage.array_chunks or v.storage.chunk_shape or fqn in self.known.stored
            for fqn, v in found.items()
        ):
            return {}
        return common_chunks([wish(fqn, v) for fqn, v in found.items()]).shapes

    def grid_and_codecs(
        self, fqn: str, variable: Variable, encoding: Encoding
    ) -> tuple[ChunkGrid, tuple[NamedConfig, ...]]:
        """Return those of the stored array, if a variable keeps its values, or choose them."""
        if stored := self.known.stored.get(fqn):
            return stored.chunk_grid, stored.codecs
        default = self.default_chunks.get(fqn, ())
        with error_context(fqn=fqn):
            return grid_and_codecs(variable.storage, default, encoding, self.options)


def _check_text(name: str, where: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(f"{where}: the name {name!r} is not Unicode text, as JSON requires") from None


class Labels:
    """Gives the dimensions of each variable their labels, which are the array's ``dimension_names``.

    Other readers see labels only. Therefore labels are unique in an array, and a label has one meaning in a group. The
    label of a dimension is its simple name, if that means this dimension in the variable's group. Dimensions that are
    hidden by a nearer dimension of the same name, repeated dimensions of a variable, and anonymous dimensions get a
    label that no dimension of the dataset has.

    Examples
    --------
    >>> labels = Labels(Dataset("d", dimensions=(model.Dimension("x", 2),)))
    >>> labels.of("/", ("/x", "/x", 3)), labels.of("/", ("/x",), inner=(4,))
    (('x', 'x_2', 'anonymous_3'), ('x', 'bytes_4'))
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        #: The names of all dimensions.
        self.names = {d.name for d in dataset.all_dimensions.values()}
        self._visible: dict[tuple[str, str], str] = {}

    def of(
        self, group: str, references: Sequence[model.DimensionRef], inner: tuple[int, ...] = ()
    ) -> tuple[str, ...]:
        """Return the labels of a variable of a group; `inner` are the lengths of added dimensions."""
        labels: list[str] = []
        for reference in references:
            # Two dimensions of one label would be one for xarray.
            if isinstance(reference, int):
                labels.append(free_name(f"anonymous_{reference}", self.names, labels))
                continue
            label = self.label(group, reference)
            # tensorstore refuses an array with two equal labels.
            labels.append(free_name(label, self.names, labels) if label in labels else label)
        for length in inner:
            labels.append(free_name(f"bytes_{length}", self.names, labels))
        return tuple(labels)

    def label(self, group: str, reference: str) -> str:
        """Return the label of a dimension in a group; a hidden dimension has one that no dimension has."""
        key = (group, reference)
        if key not in self._visible:
            name = split_fqn(reference)[1]
            nearest = self._dataset.find_dimension(name, group)
            # xarray raised 'conflicting sizes' for a group with a dimension of the same name.
            if nearest != reference:
                # Hidden dimensions of one name are numbered by their order in the dataset.
                others = [d for d in self._dataset.all_dimensions if split_fqn(d)[1] == name and d != nearest]
                name = free_name(f"{name}_hidden{others.index(reference) + 1}", self.names)
            self._visible[key] = name
        return self._visible[key]


# --- losses


def _losses_of(dataset: Dataset, plan: Plan, layout: Literal["v2", "v3"]) -> Iterator[str]:
    """Yield a sentence for each difference between a model and its documents, as plain Zarr is read."""
    store = MemoryStore()
    create_hierarchy(store, layout=layout).put_many(plan.nodes.items())
    read = read_plain(open_hierarchy(store, consolidated=False), dataset.name).dataset
    yield from _lost_dimensions(dataset)
    for type_fqn in dataset.all_types:
        yield f"{type_fqn}: the type is dropped; values keep the encoding that NCZarr uses for the type"
    for fqn, group in dataset.all_groups.items():
        other = read.all_groups.get(fqn)
        if other is None:
            yield f"{fqn}: the group is dropped"
            continue
        yield from _lost_attributes(fqn, group, other)
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            found = read.all_variables.get(at)
            if found is None:
                yield f"{at}: the variable is dropped"
            else:
                yield from _lost_in_variable(at, variable, found, plan)
    if any(_is_reordered(a, read.all_groups.get(fqn)) for fqn, a in dataset.all_groups.items()):
        yield ORDER


def _lost_dimensions(dataset: Dataset) -> Iterator[str]:
    used = {ref for v in dataset.all_variables.values() for ref in v.named_dimensions}
    for fqn, dimension in dataset.all_dimensions.items():
        if fqn not in used:
            yield f"{fqn}: the dimension is dropped, because no variable uses it"
        elif dimension.unlimited:
            yield f"{fqn}: the dimension is no longer unlimited"


def _lost_in_variable(fqn: str, variable: Variable, found: Variable, plan: Plan) -> Iterator[str]:
    if variable.type != found.type:
        types = [model.describe_type(v.type) for v in (variable, found)]
        yield f"{fqn}: the type {types[0]} is read as {types[1]}"
    listed = list(_lost_labels(fqn, variable, plan))
    yield from listed
    if variable.dimensions != found.dimensions and not listed:
        sides = [", ".join(map(str, v.dimensions)) for v in (variable, found)]
        yield f"{fqn}: the dimensions ({sides[0]}) are read as ({sides[1]})"
    if variable.storage != model.Storage():
        yield f"{fqn}: storage hints are dropped (layout, filter list, requested byte order, fill mode)"
    yield from _lost_attributes(fqn, variable, found)


def _lost_labels(fqn: str, variable: Variable, plan: Plan) -> Iterator[str]:
    node = array_at(plan.nodes, plan.variables[fqn].path)
    group = split_fqn(fqn)[0]
    for ref, label in zip(variable.dimensions, labels_of(node), strict=False):
        if isinstance(ref, int):
            yield f"{fqn}: the anonymous dimension of {ref} is named {label!r}"
        elif label != split_fqn(ref)[1]:
            yield f"{fqn}: the dimension {ref} is named {label!r}"
        elif ref != join_fqn(group, str(label)) and group != "/":
            yield f"{fqn}: the dimension {ref} is known by its simple name only"


def _lost_attributes(fqn: str, node: Group | Variable, found: Group | Variable) -> Iterator[str]:
    for attribute in node.attributes:
        other = found.attribute.get(attribute.name)
        if other is None:
            yield f"{fqn}: the attribute {attribute.name!r} is dropped"
        elif other != attribute:
            shown = [_show(a) for a in (attribute, other)]
            becomes = f"of type {attribute.type.name} becomes {other.type.name}"
            if attribute.type == other.type:
                becomes = f"{shown[0]} becomes {shown[1]}"
            elif shown[0] != shown[1]:
                becomes += f": {shown[0]} is {shown[1]}"
            yield f"{fqn}: the attribute {attribute.name!r} {becomes}"
    for name in found.attribute:
        if name not in node.attribute:
            yield f"{fqn}: the attribute {name!r} is added"
    if not _same_order(node.attributes, found.attributes):
        yield f"{fqn}: the order of the attributes"


def _show(attribute: Attribute) -> str:
    text = repr(attribute.text if attribute.type.name == "char" else attribute.values.tolist())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _is_reordered(a: Group, b: Group | None) -> bool:
    """Return whether common nodes of two groups have another order."""
    return b is not None and not (
        _same_order(a.variables, b.variables)
        and _same_order(a.groups, b.groups)
        and _same_order(a.dimensions, b.dimensions)
    )


def _same_order(a: Sequence[_Named], b: Sequence[_Named]) -> bool:
    names = [[node.name for node in side] for side in (a, b)]
    return [n for n in names[0] if n in names[1]] == [n for n in names[1] if n in names[0]]


_Named = Attribute | Variable | Group | model.Dimension

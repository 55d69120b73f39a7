"""Plan the Zarr documents of a netCDF model: groups, arrays, labels and plain attributes, without NCZarr's keys.

Plain Zarr is this and no more; NCZarr puts its keys on top (``docs/spec/nczarr-v3.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nczarr.errors import ModelError
from nczarr.mapping.dialect import Binding, Known, Plan
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.attributes import RESERVED, encode_attributes
from nczarr.mapping.values.encodings import Encoding, encoding_for_writing
from nczarr.mapping.values.storage import stored_form
from nczarr.model import (
    Attribute,
    CompoundType,
    Dataset,
    DimensionRef,
    EnumType,
    Group,
    Type,
    Variable,
    fill_value_of,
    join_fqn,
    split_fqn,
)
from nczarr.model.chunk_shapes import default_chunks
from nczarr.zarr import ArrayMetadata, GroupMetadata
from nczarr.zarr.chunk_keys import ChunkKeyEncoding

_CHUNK_KEYS = {"default": ChunkKeyEncoding(), "v2": ChunkKeyEncoding("v2", ".")}

#: Bytes that a value of variable size is taken for when chunks are chosen.
_VARIABLE_SIZE = 64


@dataclass
class Documents:
    """The documents of a model, and what NCZarr's keys need beside them.

    Attributes
    ----------
    plan : Plan
    attributes : dict
        By path, what plain attributes do not say: the content of ``_nczarr_attr``.
    kept : set of str
        The paths of arrays whose documents stay as they are.
    """

    plan: Plan
    attributes: dict[str, dict[str, object]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)


def plan_documents(
    dataset: Dataset,
    options: WriteOptions,
    names: NodeNames,
    known: Known,
    root_reserved: frozenset[str] = RESERVED,
) -> Documents:
    """Plan all documents; `root_reserved` are names that have no plain form among the root's attributes."""
    planner = _Planner(dataset, options, names, known, root_reserved)
    planner.group("/", dataset, "")
    return planner.documents


def chunks_of(
    dataset: Dataset, variable: Variable, encoding: Encoding, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the chunk shape of a variable's array, without the inner dimensions."""
    if variable.storage.chunk_shape is not None:
        return variable.storage.chunk_shape
    itemsize = _VARIABLE_SIZE if encoding.dtype.hasobject else encoding.dtype.itemsize
    return default_chunks(shape, [dataset.is_unlimited(ref) for ref in variable.dimensions], itemsize)


@dataclass
class _Planner:
    dataset: Dataset
    options: WriteOptions
    names: NodeNames
    known: Known
    root_reserved: frozenset[str]

    def __post_init__(self) -> None:
        self.labels = Labels(self.dataset)
        self.documents = Documents(Plan({}, {}, {}))

    def group(self, fqn: str, group: Group, path: str) -> None:
        plan = self.documents.plan
        children = [("array", v.name) for v in group.variables] + [("group", g.name) for g in group.groups]
        known = {
            child: self.known.nodes[fqn, *child] for child in children if (fqn, *child) in self.known.nodes
        }
        nodes = self.names.assign(children, known)
        plan.groups[fqn] = path
        _check_names(fqn, group)
        plan.nodes[path] = GroupMetadata(
            self._attributes(
                group.attributes, path, fqn, self.root_reserved if fqn == "/" else RESERVED, None
            )
        )
        prefix = f"{path}/" if path else ""
        for variable in group.variables:
            self._variable(fqn, variable, prefix + nodes["array", variable.name])
        for child in group.groups:
            self.group(join_fqn(fqn, child.name), child, prefix + nodes["group", child.name])

    def _attributes(
        self,
        attributes: tuple[Attribute, ...],
        path: str,
        fqn: str,
        reserved: frozenset[str],
        array: Type | None,
    ) -> dict[str, object]:
        for attribute in attributes:
            _check_text(attribute.name, f"{fqn}: attribute")
        plain, info = encode_attributes(
            attributes, array=array, reserved=reserved, annotate_text=self.options.nzug
        )
        if info:
            self.documents.attributes[path] = info
        return plain

    def _variable(self, group: str, variable: Variable, path: str) -> None:
        fqn = join_fqn(group, variable.name)
        plan = self.documents.plan
        if fqn in self.known.arrays and self.known.arrays[fqn][1].path == path:
            plan.nodes[path], plan.variables[fqn] = self.known.arrays[fqn]
            self.documents.kept.add(path)
            return
        shape = self.dataset.shape(variable)
        fill = fill_value_of(variable)
        kept = self.known.encodings.get(fqn)
        encoding = kept or encoding_for_writing(
            variable.type, fill, char=self.options.char, compound=self.options.compound
        )
        # Where the array cannot have the fill value, it keeps its own.
        can_fill = kept is None or kept.can_fill(fill)
        chunks = chunks_of(self.dataset, variable, encoding, shape)
        grid, codecs = stored_form(fqn, variable.storage, chunks, encoding, self.options)
        plan.nodes[path] = ArrayMetadata(
            shape=shape + encoding.inner_shape,
            data_type=encoding.data_type,
            chunk_grid=self.known.grids.get(fqn, grid),
            chunk_key_encoding=_CHUNK_KEYS[self.options.chunk_keys],
            fill_value=encoding.encode_fill(fill) if can_fill else encoding.data_type.zero(),
            codecs=codecs,
            attributes=self._attributes(variable.attributes, path, fqn, RESERVED, variable.type),
            dimension_names=self.labels.of(group, variable.dimensions, encoding.inner_shape),
        )
        plan.variables[fqn] = Binding(path, encoding)


def _check_names(fqn: str, group: Group) -> None:
    for dimension in group.dimensions:
        _check_text(dimension.name, f"{fqn}: dimension")
    for type_ in group.types:
        _check_text(type_.name, f"{fqn}: type")
        if isinstance(type_, EnumType):
            inside = [name for name, _ in type_.members]
        else:
            inside = [f.name for f in type_.fields] if isinstance(type_, CompoundType) else []
        for name in inside:
            _check_text(name, f"{type_.fqn}: member")


def _check_text(name: str, where: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelError(f"{where}: the name {name!r} is not Unicode text; JSON cannot hold it") from None


class Labels:
    """Gives the dimensions of each variable their labels, which are its array's ``dimension_names``.

    Foreign readers see labels only, so that they have to make sense by themselves: inside an array they are unique,
    and inside a group one label has one meaning.

    A dimension's label is its simple name, if that means this dimension in the variable's group. One that is
    hidden behind a nearer dimension of the same name, one that the variable has twice, and an anonymous one,
    get a label that no dimension of the dataset has.

    Examples
    --------
    >>> from nczarr.model import Dimension
    >>> labels = Labels(Dataset("d", dimensions=(Dimension("x", 2),)))
    >>> labels.of("/", ("/x", "/x", 3)), labels.of("/", ("/x",), inner=(4,))
    (('x', 'x_2', 'anonymous_3'), ('x', 'bytes_4'))
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._names = {d.name for d in dataset.all_dimensions.values()}
        self._visible: dict[tuple[str, str], str] = {}

    def of(
        self, group: str, references: Sequence[DimensionRef], inner: tuple[int, ...] = ()
    ) -> tuple[str, ...]:
        """Return the labels of a variable of the group given; `inner` are the lengths of added dimensions."""
        labels: list[str] = []
        for reference in references:
            if isinstance(reference, int):
                labels.append(self._unique(f"anonymous_{reference}", labels))
                continue
            label = self._label(group, reference)
            labels.append(self._unique(label, labels) if label in labels else label)
        for length in inner:
            labels.append(self._unique(f"bytes_{length}", labels))
        return tuple(labels)

    def _label(self, group: str, reference: str) -> str:
        key = (group, reference)
        if key not in self._visible:
            name = split_fqn(reference)[1]
            nearest = self._dataset.find_dimension(name, group)
            if nearest != reference:
                # Hidden dimensions of one name are numbered by their order in the dataset.
                others = [d for d in self._dataset.all_dimensions if split_fqn(d)[1] == name and d != nearest]
                name = self._unique(f"{name}_hidden{others.index(reference) + 1}", ())
            self._visible[key] = name
        return self._visible[key]

    def _unique(self, label: str, taken: Sequence[str]) -> str:
        if label not in self._names and label not in taken:
            return label
        number = 2
        while f"{label}_{number}" in self._names or f"{label}_{number}" in taken:
            number += 1
        return f"{label}_{number}"

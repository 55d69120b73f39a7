"""Define the editable tree of a dataset, which is built from a model and frozen into one.

Each change holds the lock of its :class:`EditedTree`, is counted there, and discards the frozen form of the nodes
that it changes. The other nodes keep their frozen form, so a small change of a large tree is frozen at low cost. A
node stays valid after renames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, TypeVar

from nczarr import errors, model
from nczarr.errors import ModelError, NCZarrError
from nczarr.model import Attribute, DimensionRef, Storage, Type, UserType, join_fqn, normalize_name
from nczarr.model.names import check_new_name, check_reach
from nczarr.model.types import requalified
from nczarr.session.backend import StoredArray
from nczarr.session.errors import check_unicode
from nczarr.session.rules import EditRules
from nczarr.system.locks import Rank, make_lock

Node = TypeVar("Node")


class EditedTree:
    """A tree of nodes: its root, its lock, and the counters of its changes.

    Attributes
    ----------
    root : GroupNode
    rules : EditRules
        Which changes are allowed.
    lock : RLock
        Held while the tree changes or is read as a whole; never during input and output.
    generation : int
        The number of changes.
    structure : int
        The number of changes other than growth of dimensions.
    """

    def __init__(self, rules: EditRules) -> None:
        self.rules = rules
        self.lock = make_lock(Rank.SESSION)
        self.generation = self.structure = 0
        self.root = GroupNode(self, None, "/")


class _AttributedNode:
    """A node with a name and attributes: a group or a variable."""

    __slots__ = ("__weakref__", "attributes", "frozen", "name", "tree")

    name: str
    tree: EditedTree
    attributes: dict[str, Attribute]
    #: The model of this node; None after a change.
    frozen: model.Variable | model.Group | None

    def touch(self) -> None:
        """Count a change; the caller holds the lock."""
        raise NotImplementedError

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute with a name in any Unicode form, or None."""
        other = kept_name(name)
        # Another program may have stored a name that is not NFC: such a name is found as it is stored.
        return self.attributes.get(name) or self.attributes.get(other)

    def set_attribute(self, attribute: Attribute) -> None:
        """Set an attribute. An existing attribute keeps its place."""
        with self.tree.lock:
            self.tree.rules.check_structure()
            self.check_attribute(attribute)
            self.attributes[attribute.name] = attribute
            self.touch()

    def check_attribute(self, attribute: Attribute) -> None:
        """Raise if the store cannot hold an attribute."""
        if f"{self.fqn}@{attribute.name}" in self.tree.rules.restrictions.omitted:
            # The file still has the attribute, so its name stays taken.
            raise errors.NodeAttributeError(
                f"NetCDF: the attribute {attribute.name!r} has a type that netCDF lacks", fqn=self.fqn
            )
        if attribute.name not in self.attributes:  # attributes of other programs stay changeable
            checked_name(attribute.name, "attribute", errors.NodeAttributeError)
        # A string with a NUL or half a surrogate pair would be refused at the flush, with the changes beside
        # it.
        if attribute.type == model.STRING:
            for text in attribute.values:
                self.tree.rules.check_text(text, self.fqn)
        # netCDF-C hides these names (_NCProperties, DIMENSION_LIST …): no program would see the attribute
        # again.
        if attribute.name in self.tree.rules.restrictions.reserved_names:
            raise errors.NodeAttributeError(
                f"NetCDF: String match to name in use: {attribute.name!r} is netCDF-4's own", fqn=self.fqn
            )
        if "attribute" in self.tree.rules.restrictions.limited:
            self.tree.rules.check_model(self.sample((attribute,)))

    def sample(self, attributes: tuple[Attribute, ...]) -> model.Dataset:
        """Return a dataset of only this node, with the given attributes, for a check by the store."""
        raise NotImplementedError

    def delete_attribute(self, name: str) -> None:
        """Delete an attribute, or raise :class:`EditError`."""
        with self.tree.lock:
            self.tree.rules.check_structure()
            if self.attributes.pop(kept_name(name), None) is None:
                raise self._no_attribute(name)
            self.touch()

    def rename_attribute(self, old: str, new: str) -> None:
        """Rename an attribute in its place, or raise :class:`EditError`."""
        with self.tree.lock:
            self.tree.rules.check_structure()
            new = checked_name(new, "attribute")
            if old not in self.attributes:
                raise self._no_attribute(old)
            if new in self.attributes or new in self.tree.rules.restrictions.reserved_names:
                raise errors.EditError(f"NetCDF: String match to name in use: {new!r}", fqn=self.fqn)
            # A new dictionary: another thread may iterate over the old one.
            self.attributes = {
                new if key == old else key: replace(a, name=new) if key == old else a
                for key, a in self.attributes.items()
            }
            self.touch()

    def _no_attribute(self, name: str) -> errors.EditError:
        check_unicode(kept_name(name), "the name of an attribute", self.fqn)
        return errors.EditError(f"NetCDF: Attribute not found: {name!r}", fqn=self.fqn)

    @property
    def fqn(self) -> str:
        """The fully qualified name."""
        raise NotImplementedError


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class DimensionNode:
    """A dimension of a group."""

    group: GroupNode
    name: str
    size: int
    unlimited: bool
    #: True for a size without a name in the model.
    anonymous: bool = False

    @property
    def ref(self) -> DimensionRef:
        """The reference of the model's variables to the dimension."""
        return self.size if self.anonymous else join_fqn(self.group.fqn, self.name)

    def grow(self, size: int) -> None:
        """Grow to at least `size`."""
        with self.group.tree.lock:
            if size > self.size:
                self.group.tree.rules.check_structure()
                self.group.tree.rules.check_growth(self.name, size)
                self.size = size
                self.group.touch_length()


@dataclass(eq=False, repr=False, slots=True, weakref_slot=True)
class TypeNode:
    """A user-defined type of a group. Its model changes with a rename of a group above it."""

    group: GroupNode
    type: UserType
    #: The object of an interface for the type.
    view: object = None


@dataclass(eq=False, repr=False, slots=True)
class VariableNode(_AttributedNode):
    """A variable of a group.

    Attributes
    ----------
    stored_as : str or None
        Its fully qualified name in the store; None before it is stored.
    source : StoredArray or None
        Its values in the store.
    is_new : bool
        True if the dataset did not have it at the opening, so that all its values come from this session.
    """

    group: GroupNode
    name: str
    declared: InitVar[Type | TypeNode]
    dimensions: tuple[DimensionNode, ...]
    storage: Storage
    tree: EditedTree = field(init=False)
    type: Type = field(init=False)
    type_node: TypeNode | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    frozen: model.Variable | None = None
    stored_as: str | None = None
    source: StoredArray | None = None
    is_new: bool = True

    def __post_init__(self, declared: Type | TypeNode) -> None:
        self.tree = self.group.tree
        self.type_node = declared if isinstance(declared, TypeNode) else None
        self.type = declared.type if isinstance(declared, TypeNode) else declared

    @property
    def fqn(self) -> str:
        return join_fqn(self.group.fqn, self.name)

    def sample(self, attributes: tuple[Attribute, ...]) -> model.Dataset:
        # Dimensions of two groups may have one name, and the sample has one group.
        names = {d: f"d{i}" for i, d in enumerate(dict.fromkeys(self.dimensions))}
        variable = model.Variable(
            self.name,
            self.type,
            tuple([join_fqn("/", names[d]) for d in self.dimensions]),
            attributes=attributes,
            storage=self.storage,
        )
        return replace(
            self.group.sample_of_types(),
            dimensions=tuple([model.Dimension(name, d.size, d.unlimited) for d, name in names.items()]),
            variables=(variable,),
        )

    def check_refill(self, *, has_values: bool) -> None:
        """Raise if a fill value, or another one, would change the meaning of values."""
        # As netCDF-C: elements that were never written would get another value.
        if has_values:
            raise errors.NodeAttributeError(
                "NetCDF: Attempt to define fill value when data already exists.", fqn=self.fqn
            )

    def freeze(self) -> model.Variable:
        """Return the variable as a part of the model. The caller holds the tree's lock."""
        if self.frozen is None:
            self.frozen = model.Variable(
                self.name,
                self.type,
                tuple(d.ref for d in self.dimensions),
                attributes=tuple(self.attributes.values()),
                storage=self.storage,
                data=self.source,
            )
        return self.frozen

    @property
    def shape(self) -> tuple[int, ...]:
        """Current sizes of the dimensions."""
        return tuple([d.size for d in self.dimensions])

    def grown(self) -> StoredArray:
        """Return the stored array, for writing: it accepts values up to the current shape."""
        source = self.source
        assert source is not None
        # A killed writer or another program may have left the array shorter than its dimensions.
        if source.shape != (shape := self.shape):
            source.grow(shape)
        return source

    def touch(self) -> None:
        self.frozen = None
        self.group.touch()


class GroupNode(_AttributedNode):
    """A group; the root has no parent."""

    __slots__ = ("dimensions", "fqn", "groups", "parent", "types", "variables")

    fqn: str  # stored, since a computation at each use takes longer

    def __init__(self, tree: EditedTree, parent: GroupNode | None, name: str) -> None:
        self.tree = tree
        self.parent = parent
        self.name = name
        self.fqn = name if parent is None else join_fqn(parent.fqn, name)
        self.attributes = {}
        self.dimensions: dict[str, DimensionNode] = {}
        self.types: list[TypeNode] = []
        self.variables: dict[str, VariableNode] = {}
        self.groups: dict[str, GroupNode] = {}
        self.frozen: model.Group | None = None

    def touch(self) -> None:
        self.tree.structure += 1
        self.touch_length()

    def touch_length(self) -> None:
        """Count growth of a dimension of the group; the caller holds the lock."""
        self.tree.generation += 1
        group: GroupNode | None = self
        while group is not None:
            group.frozen = None
            group = group.parent

    # -- finding

    def ancestors(self) -> Iterator[GroupNode]:
        """Yield this group and those above it, up to the root."""
        group: GroupNode | None = self
        while group is not None:
            yield group
            group = group.parent

    @property
    def root(self) -> GroupNode:
        """The root group."""
        *_, root = self.ancestors()
        return root

    def find_dimension(self, name: str) -> DimensionNode | None:
        """Return the nearest dimension with a name, here or above, or None."""
        name = normalize_name(name)
        found = (g.dimensions.get(name) for g in self.ancestors())  # one lookup: another thread may rename it
        return next((d for d in found if d is not None), None)

    def dimension_at(self, fqn: str) -> DimensionNode:
        """Return the dimension with a fully qualified name, here or below."""
        return next(d for group in self.walk() for d in group.dimensions.values() if d.ref == fqn)

    def walk(self) -> Iterator[GroupNode]:
        """Yield this group and all below it, parents first."""
        yield self
        for group in self.groups.values():
            yield from group.walk()

    def walk_variables(self) -> Iterator[VariableNode]:
        """Yield the variables here and below."""
        for group in self.walk():
            yield from group.variables.values()

    def sample(self, attributes: tuple[Attribute, ...]) -> model.Dataset:
        return replace(self.sample_of_types(), attributes=attributes)

    def sample_of_types(self) -> model.Dataset:
        """Return a dataset with only the types of this dataset."""

        def groups(node: GroupNode) -> tuple[model.Group, ...]:
            found = [
                model.Group(child.name, types=tuple([t.type for t in child.types]), groups=groups(child))
                for child in node.groups.values()
            ]
            return tuple([group for group in found if group.types or group.groups])

        root = self.root
        types = tuple([node.type for node in root.types])
        return model.Dataset("sample", format=self.tree.rules.format, types=types, groups=groups(root))

    def all_types(self) -> dict[str, TypeNode]:
        """Return the user-defined types here and below, by fully qualified name."""
        return {node.type.fqn: node for group in self.walk() for node in group.types}

    # -- making

    def add_dimension(self, name: str, size: int, *, unlimited: bool) -> DimensionNode:
        """Create a dimension.

        Raises
        ------
        EditError
            If the name is in use or invalid, or the data model lacks a second unlimited dimension or the size.
        RangeError
            If the size is negative, or needs more than 63 bits.
        """
        with self.tree.lock:
            name = self._new_name(name, "dimension")
            self.tree.rules.check_size(name, size)
            self._check_storable(dimensions=(model.Dimension(name, size, unlimited),))
            if unlimited and self.tree.rules.classic and any(d.unlimited for d in self.dimensions.values()):
                raise errors.EditError("NetCDF: NC_UNLIMITED size already in use", path=self.tree.rules.name)
            node = self.dimensions[name] = DimensionNode(self, name, size, unlimited)
            self.touch()
            return node

    def add_group(self, name: str) -> GroupNode:
        """Create a group; errors as :meth:`add_dimension`."""
        with self.tree.lock:
            self.tree.rules.check_structure()
            self.tree.rules.check_enhanced("a group")
            name = self._new_name(name, "group")
            self._check_storable(groups=(model.Group(name),))
            node = self.groups[name] = GroupNode(self.tree, self, name)
            self.touch()
            return node

    def add_type(self, type_: UserType) -> TypeNode:
        """Declare a user-defined type; errors as :meth:`add_dimension`."""
        with self.tree.lock:
            self.tree.rules.check_structure()
            self.tree.rules.check_enhanced(f"the type {type_.name!r}")
            _check_type(type_)
            self._check_free(type_.name, "type")
            declared = self.root.all_types()
            for part in model.parts_of(type_):
                if part.fqn in declared:
                    self._check_type_first(declared[part.fqn], type_.fqn)
            node = TypeNode(self, type_)
            self.types.append(node)
            # A type that stays after its refusal would be a part of the sample in each later check.
            try:
                if "type" in self.tree.rules.restrictions.limited:
                    self.tree.rules.check_model(self.sample_of_types())
            except NCZarrError:
                self.types.remove(node)
                raise
            self.touch()
            return node

    def add_variable(
        self,
        name: str,
        type_: Type | TypeNode,
        dimensions: tuple[DimensionNode, ...],
        storage: Storage,
        attributes: Mapping[str, Attribute],
    ) -> VariableNode:
        """Create a variable; errors as :meth:`add_dimension`, and ArgumentError for a dimension out of reach."""
        with self.tree.lock:
            name = self._new_name(name, "variable")
            self._check_scales(self.dimensions, name)
            for dimension in dimensions:
                self._check_reach(dimension, join_fqn(self.fqn, name))
            if isinstance(type_, TypeNode):
                self._check_type_first(type_, join_fqn(self.fqn, name))
            node = VariableNode(self, name, type_, dimensions, storage)
            for attribute in attributes.values():
                node.check_attribute(attribute)
            # Codecs that the store lacks were dropped silently at the flush (issue 48).
            if "variable" in self.tree.rules.restrictions.limited or storage.codecs is not None:
                self.tree.rules.check_model(node.sample(tuple(attributes.values())))
            node.attributes.update(attributes)
            self.variables[name] = node
            self.touch()
            return node

    def _new_name(self, name: str, kind: str) -> str:
        """Return the name of a new or renamed node, or raise if it is invalid or in use."""
        self.tree.rules.check_structure()
        name = checked_name(name, kind)
        self.tree.rules.check_node_name(name, kind)
        self._check_free(name, kind)
        return name

    def _check_reach(self, dimension: DimensionNode, user: str) -> None:
        # The netCDF library can neither close nor read a file with a dimension out of reach.
        wrong = check_reach(self.fqn, join_fqn(dimension.group.fqn, dimension.name))
        if wrong is not None:
            hint = "create the dimension in a group around both"
            raise errors.ArgumentError(wrong, path=self.tree.rules.name, fqn=user, hint=hint)

    def _check_type_first(self, node: TypeNode, user: str) -> None:
        """Raise if readers of this group would not find a type."""
        # netCDF-C reads the groups of a file in their order, and knows no type of a later one.
        if not self.tree.rules.restrictions.types_first or node.group in self.ancestors():
            return
        order = list(self.root.walk())
        if order.index(node.group) > order.index(self):
            raise _type_too_late(node.type.fqn, user)

    def _check_free(self, name: str, kind: str) -> None:
        """Raise if a name is in use by the same kind, or by a kind that shares its name space."""
        shared = self.tree.rules.restrictions.one_name_space
        # In one name space, a dimension still shares the name of its coordinate variable.
        used = (
            (kind in ("variable", "group") and (name in self.variables or name in self.groups))
            or (kind == "dimension" and name in self.dimensions)
            or ((shared or kind == "type") and any(node.type.name == name for node in self.types))
            or (shared and name in self.groups)
            or (shared and kind in ("group", "type") and name in self.dimensions)
            or (shared and kind == "type" and name in self.variables)
        )
        if used:
            raise errors.EditError(f"NetCDF: String match to name in use: the {kind} {name!r}", fqn=self.fqn)
        # A node of this name that netCDF cannot represent would be overwritten.
        if shared or kind in ("variable", "group"):
            # Refused by the flush, the name stayed in the tree, and no later change was stored.
            self._check_omitted(lambda fqn: fqn == join_fqn(self.fqn, name))

    def _check_omitted(self, touches: Callable[[str], bool]) -> None:
        """Raise if a change would remove a node that is not in the tree."""
        for fqn in filter(touches, self.tree.rules.restrictions.omitted):
            raise ModelError(
                f"this change would remove or damage {fqn!r}, which netCDF cannot represent",
                path=self.tree.rules.name,
                hint="rename or remove it with a Zarr library first",
            )

    def _check_scales(self, others: Mapping[str, object], *names: str) -> None:
        """Raise if the scale of a dimension would change, to which a node that is not in the tree may refer."""
        # The rename of a dimension to the name of such a variable never ended.
        if self.tree.rules.restrictions.one_name_space and any(name in others for name in names):
            self._check_omitted(lambda fqn: fqn.startswith(join_fqn(self.fqn, "")) and "@" not in fqn)

    # -- renaming

    def rename_dimension(self, old: str, new: str) -> DimensionNode:
        """Rename a dimension; see :meth:`rename_variable`."""
        with self.tree.lock:
            new = self._check_rename(self.dimensions, old, new, "dimension")
            self._check_scales(self.variables, old, new)
            node = self.dimensions[old]
            node.name = new
            self.dimensions = _renamed(self.dimensions, old, new, to_end=False)
            for variable in self.root.walk_variables():
                if node in variable.dimensions:
                    variable.touch()
            self.touch()
            return node

    def rename_variable(self, old: str, new: str) -> VariableNode:
        """Rename a variable, in its place unless the store moves it to the end.

        Raises
        ------
        UnknownNameError
            If the variable does not exist.
        EditError
            If the name `new` is in use or invalid, or the dataset is read-only.
        """
        with self.tree.lock:
            new = self._check_rename(self.variables, old, new, "variable")
            self._check_scales(self.dimensions, old, new)
            node = self.variables[old]
            node.name = new
            to_end = self.tree.rules.restrictions.renamed_last and node.stored_as is not None
            self.variables = _renamed(self.variables, old, new, to_end=to_end)
            node.touch()
            return node

    def rename_group(self, old: str, new: str) -> GroupNode:
        """Rename a group; see :meth:`rename_variable`."""
        with self.tree.lock:
            new = self._check_rename(self.groups, old, new, "group")
            node = self.groups[old]
            self._check_moving(node)
            before = node.fqn
            # A refusal at the flush came after the tree had the new name, and no later change was stored.
            self._check_omitted(lambda fqn: fqn.startswith(f"{before}/"))
            node.name = new
            self.groups = _renamed(self.groups, old, new, to_end=self.tree.rules.restrictions.renamed_last)
            self.root._requalify(before, join_fqn(self.fqn, new))
            self.touch()
            return node

    def _check_moving(self, group: GroupNode) -> None:
        """Raise if a group cannot move to the end, because other groups use its types."""
        if not self.tree.rules.restrictions.types_first:
            return
        own = {node.type.fqn for member in group.walk() for node in member.types}
        others = [child for child in self.groups.values() if child is not group]
        for other in itertools.chain.from_iterable(child.walk() for child in others):
            used = [(v.fqn, v.type) for v in other.variables.values()]
            used += [(node.type.fqn, part) for node in other.types for part in model.parts_of(node.type)]
            for user, type_ in used:
                if isinstance(type_, UserType) and type_.fqn in own:
                    raise _type_too_late(type_.fqn, user)

    def _check_rename(self, nodes: Mapping[str, object], old: str, new: str, what: str) -> str:
        if old not in nodes:
            raise errors.UnknownNameError(f"{old} not a valid {what} name", fqn=self.fqn)
        new = self._new_name(new, what)
        sample = {
            "variable": model.Variable(new, model.INT, ()),
            "dimension": model.Dimension(new, 1),
            "group": model.Group(new),
        }[what]
        self._check_storable(**{f"{what}s": (sample,)})
        return new

    def _check_storable(self, **content: Any) -> None:
        """Raise if the store cannot hold the name of a dimension, group or variable."""
        if "name" in self.tree.rules.restrictions.limited:
            self.tree.rules.check_model(model.Dataset("sample", format=self.tree.rules.format, **content))

    def _requalify(self, old: str, new: str) -> None:
        """Replace the group name `old` in all references here and below."""
        if self.parent is not None:
            self.fqn = join_fqn(self.parent.fqn, self.name)
        self.frozen = None

        def moved(fqn: str) -> str:
            return new + fqn[len(old) :] if fqn.startswith(f"{old}/") else fqn

        for node in self.types:
            node.type = requalified(node.type, moved)
        for variable in self.variables.values():
            variable.type = requalified(variable.type, moved)
            variable.frozen = None
        # Zarr refused to rename a group whose enum was the type of a _FillValue.
        for owner in (self, *self.variables.values()):
            owner.attributes = {
                name: replace(a, type=requalified(a.type, moved)) if isinstance(a.type, UserType) else a
                for name, a in owner.attributes.items()
            }
        for group in self.groups.values():
            group._requalify(old, new)


def _type_too_late(type_: str, user: str) -> errors.EditError:
    return errors.EditError(
        f"NetCDF: Bad type ID: netCDF-4 files cannot hold a use of the type {type_} before the group that declares it",
        fqn=user,
        hint="declare the type in the root group",
    )


def _check_type(type_: UserType) -> None:
    """Raise if a type is not valid in netCDF.

    Raises
    ------
    EditError
        For an enum without members, a compound without fields, a field without elements, invalid or repeated names of
        members and fields, and repeated values of members.
    TextError
        For a name with half a surrogate pair.
    """
    if isinstance(type_, model.EnumType):
        names, what = [name for name, _ in type_.members], "member"
    elif isinstance(type_, model.CompoundType):
        names, what = [field.name for field in type_.fields], "field"
    else:
        return
    if not names:
        raise errors.EditError(f"NetCDF: Invalid argument: the type has no {what}s", fqn=type_.fqn)
    for name in names:
        checked_name(name, what)
    # A field name in two Unicode forms was refused at the flush only, with the changes beside it.
    _check_different([normalize_name(name) for name in names], what, type_.fqn)
    if isinstance(type_, model.EnumType):
        _check_different([value for _, value in type_.members], "value", type_.fqn)
    else:
        for field in type_.fields:
            if 0 in field.shape:
                raise errors.EditError(
                    f"NetCDF: Invalid argument: the field {field.name!r} has no elements", fqn=type_.fqn
                )


def _check_different(items: Sequence[str | int], what: str, fqn: str) -> None:
    if len(set(items)) != len(items):
        twice = next(item for item in items if items.count(item) > 1)
        raise errors.EditError(
            f"NetCDF: String match to name in use: the {what} {twice!r} is there twice", fqn=fqn
        )


def _renamed(nodes: dict[str, Node], old: str, new: str, *, to_end: bool) -> dict[str, Node]:
    """Return the nodes with one of them renamed, in its place or at the end."""
    if not to_end:
        return {new if name == old else name: node for name, node in nodes.items()}
    rest = {name: node for name, node in nodes.items() if name != old}
    return {**rest, new: nodes[old]}


_HINT = "begin with a letter, a digit or '_'; no control character, no blank at the end"


#: The objects whose names may contain "/" where the store allows it; netCDF creates no other with such a name.
_NODES = ("dimension", "variable", "group", "type")


def checked_name(name: object, what: str, error: type[NCZarrError] = errors.EditError) -> str:
    """Return the name of a dimension, variable, group, type or attribute, or raise :class:`EditError` or `error`.

    Examples
    --------
    >>> checked_name("lat", "dimension")
    'lat'
    """
    text = kept_name(name)
    check_unicode(text, f"the name of a {what}")
    wrong = check_new_name(text)
    if wrong is None and "/" in text and what not in _NODES:
        wrong = f"the name {text!r} contains '/'"
    if wrong is not None:
        raise error(f"NetCDF: Name contains illegal characters: {what}: {wrong}", hint=_HINT)
    return text


def kept_name(name: object) -> str:
    """Return a name in netCDF's Unicode form, or raise :class:`ArgumentTypeError` if it is not a string."""
    # netCDF4-python raises a TypeError, too.
    if not isinstance(name, str | bytes):
        raise errors.ArgumentTypeError(f"a name is text, not {type(name).__name__}: {name!r}")
    try:
        return normalize_name(str(name) if isinstance(name, str) else str(name, "utf-8"))
    except UnicodeDecodeError:
        raise errors.EditError(
            f"NetCDF: Name contains illegal characters: {name!r} is not UTF-8", hint=_HINT
        ) from None


def freeze(root: GroupNode, name: str, format: str | None) -> model.Dataset:
    """Return the tree as a model, with the data of stored variables. The caller holds the tree's lock."""

    def group(node: GroupNode) -> model.Group:
        if node.frozen is None:
            node.frozen = model.Group(node.name, **content(node))
        return node.frozen

    def content(node: GroupNode) -> dict[str, Any]:
        dimensions = [d for d in node.dimensions.values() if not d.anonymous]
        return {
            "attributes": tuple(node.attributes.values()),
            "types": tuple(t.type for t in node.types),
            "dimensions": tuple(model.Dimension(d.name, d.size, d.unlimited) for d in dimensions),
            "variables": tuple(v.freeze() for v in node.variables.values()),
            "groups": tuple(group(g) for g in node.groups.values()),
        }

    return model.Dataset(name, format=format, **content(root))


def thaw(root: GroupNode, dataset: model.Dataset) -> None:
    """Build the nodes of a model below the root.

    Anonymous dimensions become dimensions of the root with the names of netCDF-C: ``_Anonymous_Dim_<size>``.
    """
    dimensions: dict[model.DimensionRef, DimensionNode] = {}

    def skeleton(group: GroupNode, frozen: model.Group) -> list[tuple[GroupNode, model.Group]]:
        group.attributes.update((a.name, a) for a in frozen.attributes)
        group.types = [TypeNode(group, t) for t in frozen.types]
        for d in frozen.dimensions:
            node = group.dimensions[d.name] = DimensionNode(group, d.name, d.size, d.unlimited)
            dimensions[node.ref] = node
        pairs = [(group, frozen)]
        for g in frozen.groups:
            group.groups[g.name] = GroupNode(group.tree, group, g.name)
            pairs.extend(skeleton(group.groups[g.name], g))
        return pairs

    def anonymous(size: int) -> DimensionNode:
        # netCDF-C reads a dimension without a name under this one.
        name = f"_Anonymous_Dim_{size}"
        while name in root.dimensions:
            name += "_"
        node = DimensionNode(root, name, size, False, anonymous=True)
        dimensions[size] = root.dimensions[name] = node
        return node

    # All types and dimensions first: a reference may point to any group.
    pairs = skeleton(root, dataset)
    types = root.all_types()
    for group, content in pairs:
        for v in content.variables:
            along = [
                anonymous(ref) if isinstance(ref, int) and ref not in dimensions else dimensions[ref]
                for ref in v.dimensions
            ]
            kind = types[v.type.fqn] if isinstance(v.type, UserType) else v.type
            node = group.variables[v.name] = VariableNode(group, v.name, kind, tuple(along), v.storage)
            node.attributes.update((a.name, a) for a in v.attributes)
            node.stored_as = node.fqn
            node.frozen = v
            node.is_new = False

"""Datasets and groups as nodes of the tree: what they hold, and how they become a frozen model."""

from __future__ import annotations

import posixpath
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from nczarr import model
from nczarr.model import Attribute, join_fqn
from nczarr.netcdf4.attributes import AttributeOwner
from nczarr.netcdf4.dimension import Dimension
from nczarr.netcdf4.user_types import CompoundType, EnumType, OpaqueType, VLType, _UserType
from nczarr.netcdf4.variable import Variable

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset
    from nczarr.netcdf4.group import Group
    from nczarr.netcdf4.session import Session


class GroupNode(AttributeOwner):
    """A node of the tree: dimensions, types, variables, groups, attributes, each in order."""

    __slots__ = (
        "__weakref__",
        "_nc_attributes",
        "_nc_dimensions",
        "_nc_fqn_",
        "_nc_frozen",
        "_nc_groups",
        "_nc_name",
        "_nc_ncstring",
        "_nc_parent",
        "_nc_path",
        "_nc_session",
        "_nc_types",
        "_nc_variables",
        "_nc_weak",
    )

    _nc_attributes: dict[str, Attribute]
    _nc_dimensions: dict[str, Dimension]
    _nc_fqn_: str
    _nc_frozen: model.Group | None
    _nc_groups: dict[str, Group]
    _nc_name: str
    _nc_ncstring: bool
    _nc_parent: Dataset | None
    _nc_path: str
    _nc_session: Session
    _nc_types: list[_UserType]
    _nc_variables: dict[str, Variable]
    _nc_weak: bool

    def _nc_setup(self, session: Session, parent: Dataset | None, name: str, *, weak: bool) -> None:
        self._nc_session = session
        self._nc_parent = None if parent is None else parent._nc_reference()
        self._nc_name = name
        self._nc_weak = weak
        self._nc_attributes = {}
        self._nc_dimensions = {}
        self._nc_groups = {}
        self._nc_types = []
        self._nc_variables = {}
        self._nc_frozen = None
        self._nc_ncstring = parent._nc_ncstring if parent is not None else False
        self._nc_path = name if parent is None else posixpath.join(parent.path, name)
        self._nc_fqn_ = name if parent is None else join_fqn(parent._nc_fqn, name)

    # -- the tree ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, Group]:
        """Groups by name."""
        return self._nc_groups

    @property
    def dimensions(self) -> dict[str, Dimension]:
        """Dimensions by name."""
        return self._nc_dimensions

    @property
    def variables(self) -> dict[str, Variable]:
        """Variables by name."""
        return self._nc_variables

    def _nc_types_of(self, kind: type[_UserType]) -> dict[str, Any]:
        return {str(t.name): t for t in self._nc_types if isinstance(t, kind)}

    @property
    def cmptypes(self) -> dict[str, CompoundType]:
        """Compound types by name."""
        return self._nc_types_of(CompoundType)

    @property
    def vltypes(self) -> dict[str, VLType]:
        """Variable-length types by name."""
        return self._nc_types_of(VLType)

    @property
    def enumtypes(self) -> dict[str, EnumType]:
        """Enum types by name."""
        return self._nc_types_of(EnumType)

    @property
    def opaquetypes(self) -> dict[str, OpaqueType]:
        """Opaque types by name (netCDF4-python does not know them)."""
        return self._nc_types_of(OpaqueType)

    @property
    def parent(self) -> Dataset | None:
        """The group above; None at the root."""
        return self._nc_parent

    @property
    def path(self) -> str:
        """Names of the groups down to this one, with slashes."""
        return self._nc_path

    @property
    def name(self) -> str:
        """The simple name; ``/`` for the root."""
        self._nc_session.check_open()
        return self._nc_name

    @property
    def data_model(self) -> str:
        """``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``, …"""
        return self._nc_session.data_model

    @property
    def file_format(self) -> str:
        """The same as :attr:`data_model`."""
        return self._nc_session.data_model

    @property
    def disk_format(self) -> str:
        """How it is stored: ``ZARR``."""
        return self._nc_session.disk_format

    @property
    def keepweakref(self) -> bool:
        """True if what is inside holds only weak references to its group."""
        return self._nc_weak

    @property
    def auto_complex(self) -> bool:
        """Always False: complex numbers are compounds."""
        return False

    @property
    def _ncstring_attrs__(self) -> bool:
        return self._nc_ncstring

    @property
    def __orthogonal_indexing__(self) -> bool:
        return True

    @property
    def _nc_fqn(self) -> str:
        return self._nc_fqn_

    def _nc_reference(self) -> Dataset:
        """What the nodes inside hold of this group."""
        return cast("Dataset", weakref.proxy(self) if self._nc_weak else self)

    def _nc_type_scope(self) -> Any:
        return self

    def _nc_touch(self) -> None:
        """Note a change: this group and all above are frozen anew."""
        group: Any = self
        while group is not None and group._nc_frozen is not None:
            group._nc_frozen = None
            group = group._nc_parent
        self._nc_session.changed()

    def _nc_freeze(self) -> model.Group:
        if self._nc_frozen is None:
            self._nc_frozen = model.Group(self._nc_name, **self._nc_content())
        return self._nc_frozen

    def _nc_content(self) -> dict[str, Any]:
        return {
            "attributes": tuple(self._nc_attributes.values()),
            "types": tuple(t._nc_model for t in self._nc_types),
            "dimensions": tuple(
                model.Dimension(d._nc_name, d._nc_size, d._nc_unlimited)
                for d in self._nc_dimensions.values()
                if not d._nc_anonymous
            ),
            "variables": tuple(v._nc_freeze() for v in self._nc_variables.values()),
            "groups": tuple(g._nc_freeze() for g in self._nc_groups.values()),
        }

    def _nc_thaw_all(self) -> None:
        """Forget all that is frozen, here and below."""
        self._nc_frozen = None
        for variable in self._nc_variables.values():
            variable._nc_frozen = None
        for group in self._nc_groups.values():
            group._nc_thaw_all()

    def _nc_add_type(self, type_: _UserType) -> None:
        self._nc_types.append(type_)

    def _nc_all_types(self) -> dict[str, _UserType]:
        """All user types here and below, by fully qualified name."""
        found = {cast(model.UserType, t._nc_model).fqn: t for t in self._nc_types}
        for group in self._nc_groups.values():
            found.update(group._nc_all_types())
        return found

    def _nc_new_group(self, name: str) -> Group:
        from nczarr.netcdf4.group import Group

        group = Group.__new__(Group)
        group._nc_setup(self._nc_session, cast("Dataset", self), name, weak=self._nc_weak)
        self._nc_groups[name] = group
        return group

    def _nc_walk_variables(self) -> Iterator[Variable]:
        yield from self._nc_variables.values()
        for group in self._nc_groups.values():
            yield from group._nc_walk_variables()

    def _nc_move(self, old: str, new: str) -> None:
        """Give everything that names the group `old` the name `new`; from the root downwards."""
        from nczarr.netcdf4.tree import moved_type

        if self._nc_parent is not None:
            self._nc_fqn_ = join_fqn(self._nc_parent._nc_fqn, self._nc_name)
        self._nc_frozen = None
        for t in self._nc_types:
            t._nc_model = moved_type(t._nc_model, old, new)
        for variable in self._nc_variables.values():
            variable._nc_type = moved_type(variable._nc_type, old, new)
            variable._nc_frozen = None
        for group in self._nc_groups.values():
            group._nc_move(old, new)

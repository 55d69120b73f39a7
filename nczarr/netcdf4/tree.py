"""Between the frozen model and the interface's tree: :func:`thaw`, and renaming inside types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model
from nczarr.model import Type
from nczarr.netcdf4.dimension import Dimension
from nczarr.netcdf4.quantize import ATTRIBUTE_OF_MODE
from nczarr.netcdf4.user_types import bind_type
from nczarr.netcdf4.variable import Variable

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset


def thaw(root: Dataset, dataset: model.Dataset) -> None:
    """Fill the root group with the nodes of a model.

    Dimensions without a name get one at the root, as netCDF-C names them: ``_Anonymous_Dim_<size>``.
    """
    _Thaw(root).groups(root, dataset)


class _Thaw:
    def __init__(self, root: Dataset) -> None:
        self.root = root
        self.dimensions: dict[str, Dimension] = {}
        self.anonymous: dict[int, Dimension] = {}

    def groups(self, top: Dataset, frozen: model.Group) -> None:
        # Types and dimensions first, everywhere: a reference may point to any group.
        pairs = list(self.skeleton(top, frozen))
        types = self.root._nc_all_types()
        for group, content in pairs:
            for v in content.variables:
                self.variable(group, v, types)

    def skeleton(self, group: Dataset, frozen: model.Group) -> list[tuple[Dataset, model.Group]]:
        group._nc_attributes.update((a.name, a) for a in frozen.attributes)
        for t in frozen.types:
            group._nc_add_type(bind_type(t))
        for d in frozen.dimensions:
            dimension = Dimension.__new__(Dimension)
            dimension._nc_setup(group, d.name, d.size, unlimited=d.unlimited)
            group.dimensions[d.name] = dimension
            self.dimensions[str(dimension._nc_ref)] = dimension
        pairs = [(group, frozen)]
        for g in frozen.groups:
            pairs.extend(self.skeleton(group._nc_new_group(g.name), g))
        return pairs

    def variable(self, group: Dataset, frozen: model.Variable, types: Mapping[str, Any]) -> None:
        variable = Variable.__new__(Variable)
        variable._nc_setup(
            group,
            frozen.name,
            frozen.type,
            tuple(self.dimension(ref) for ref in frozen.dimensions),
            storage=frozen.storage,
            datatype=types[frozen.type.fqn] if isinstance(frozen.type, model.UserType) else None,
        )
        variable._nc_attributes.update((a.name, a) for a in frozen.attributes)
        variable._nc_stored = True
        digit = variable._nc_lookup("least_significant_digit")
        variable._nc_lsd = int(digit) if isinstance(digit, np.number) else None
        for mode, name in ATTRIBUTE_OF_MODE.items():
            digits = variable._nc_lookup(name)
            if isinstance(digits, np.integer) and frozen.type.dtype.kind == "f":
                variable._nc_quantization = (int(digits), mode)
        group.variables[frozen.name] = variable

    def dimension(self, ref: model.DimensionRef) -> Dimension:
        if isinstance(ref, str):
            return self.dimensions[ref]
        known = self.anonymous.get(ref)
        if known is None:
            name = f"_Anonymous_Dim_{ref}"
            while name in self.root.dimensions:
                name += "_"
            known = Dimension.__new__(Dimension)
            known._nc_setup(self.root, name, ref, unlimited=False, anonymous=True)
            self.root.dimensions[name] = self.anonymous[ref] = known
        return known


def moved_type(type_: Type, old: str, new: str) -> Type:
    """The type with the group `old` renamed to `new` in all fully qualified names.

    Examples
    --------
    >>> moved_type(model.OpaqueType("/g/blob", 4), "/g", "/h").fqn
    '/h/blob'
    """
    if not isinstance(type_, model.UserType):
        return type_
    fqn = new + type_.fqn[len(old) :] if type_.fqn.startswith(old + "/") else type_.fqn
    if isinstance(type_, model.VlenType):
        return replace(type_, fqn=fqn, base=moved_type(type_.base, old, new))
    if isinstance(type_, model.CompoundType):
        fields = tuple(replace(f, type=moved_type(f.type, old, new)) for f in type_.fields)
        return replace(type_, fqn=fqn, fields=fields)
    return replace(type_, fqn=fqn)

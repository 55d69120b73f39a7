"""User-defined types as JSON: the ``types`` of ``_nczarr_group`` (``docs/spec/nczarr-v3.md``, *Types*).

A type is named by its Zarr v3 name (``int32``, ``char``, ``string``) or, if it is user-defined, by its FQN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nczarr.errors import MetadataError, ModelError
from nczarr.mapping.values.json import int_from_json, show
from nczarr.model import (
    CHAR,
    PRIMITIVES,
    CompoundType,
    EnumType,
    Field,
    OpaqueType,
    Type,
    UserType,
    VlenType,
    join_fqn,
    parse_fqn,
    primitive_for_dtype,
)

#: numpy counts the bytes of one value in a C int.
_MAX_BYTES = 2**31 - 1
_BY_NAME = {t.zarr_name: t for t in PRIMITIVES.values()}


def type_name(type_: Type) -> str:
    """Return the name of a type in NCZarr metadata.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> type_name(INT), type_name(OpaqueType("/g/blob", 4))
    ('int32', '/g/blob')
    """
    if isinstance(type_, UserType):
        return type_.fqn
    return type_.zarr_name  # type: ignore[attr-defined]


def find_type(name: Any, types: Mapping[str, UserType]) -> Type:
    """Return the type that a name in NCZarr metadata stands for.

    numpy's names with a byte order (``<f4``), which NCZarr on Zarr v2 uses, are understood too.

    Raises
    ------
    MetadataError
        If there is no such type.

    Examples
    --------
    >>> find_type("float32", {}), find_type("<f4", {})
    (FLOAT, FLOAT)
    """
    if isinstance(name, str):
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name in types:
            return types[name]
        if name[:1] in ("<", ">", "|"):
            if name in (">S1", "|S1", "<S1", "|J0", "<U1", ">U1"):
                return CHAR
            if name[1:2] == "S":
                return PRIMITIVES["string"]
            try:
                found = primitive_for_dtype(np.dtype(name))
            except TypeError:
                found = None
            if found is not None:
                return found
    raise MetadataError(f"there is no type {show(name)}")


def types_to_json(types: Iterable[UserType]) -> dict[str, Any]:
    """Return the declarations of a group's types, in order.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> types_to_json([EnumType("/g/e", BYTE, (("a", 1),))])
    {'e': {'class': 'enum', 'base': 'int8', 'members': {'a': 1}}}
    """
    return {t.name: _declaration(t) for t in types}


def _declaration(type_: UserType) -> dict[str, Any]:
    if isinstance(type_, EnumType):
        return {"class": "enum", "base": type_name(type_.base), "members": dict(type_.members)}
    if isinstance(type_, OpaqueType):
        return {"class": "opaque", "size": type_.size}
    if isinstance(type_, VlenType):
        return {"class": "vlen", "base": type_name(type_.base)}
    assert isinstance(type_, CompoundType)
    return {
        "class": "compound",
        "fields": [
            {"name": f.name, "type": type_name(f.type), **({"shape": list(f.shape)} if f.shape else {})}
            for f in type_.fields
        ],
    }


def types_from_json(declared: Mapping[str, Any]) -> dict[str, tuple[UserType, ...]]:
    """Return the types of a dataset, bound to each other.

    Parameters
    ----------
    declared : mapping
        The ``types`` of each group, by the group's FQN.

    Returns
    -------
    dict
        The types of each group, in order, by the group's FQN.

    Raises
    ------
    MetadataError
        If a declaration is damaged, refers to no type, or contains itself.

    Examples
    --------
    >>> types_from_json({"/": {"v": {"class": "vlen", "base": "/o"}, "o": {"class": "opaque", "size": 2}}})
    {'/': (VlenType(fqn='/v', base=OpaqueType(fqn='/o', size=2)), OpaqueType(fqn='/o', size=2))}
    """
    binder = _Binder()
    fqns: dict[str, list[str]] = {}
    for group, types in declared.items():
        if not isinstance(types, dict):
            raise MetadataError(f"types: {show(types)} is not an object", fqn=group)
        fqns[group] = []
        for name, declaration in types.items():
            fqn = join_fqn(group, name)
            try:
                parse_fqn(fqn)
            except ModelError:
                raise MetadataError(f"types: {name!r} is not a name", fqn=group) from None
            fqns[group].append(fqn)
            binder.declared[fqn] = declaration
    return {group: tuple(binder.bind(fqn) for fqn in names) for group, names in fqns.items()}


class _Binder:
    def __init__(self) -> None:
        self.declared: dict[str, Any] = {}
        self.bound: dict[str, UserType] = {}
        self.under_way: set[str] = set()

    def bind(self, fqn: str) -> UserType:
        if fqn not in self.bound:
            if fqn in self.under_way:
                raise MetadataError("the type contains itself", fqn=fqn)
            self.under_way.add(fqn)
            try:
                self.bound[fqn] = self._parse(fqn, self.declared[fqn])
            except MetadataError as error:
                error.fqn = error.fqn or fqn
                raise
            self.under_way.discard(fqn)
        return self.bound[fqn]

    def _find(self, name: Any) -> Type:
        if isinstance(name, str) and name in self.declared:
            return self.bind(name)
        return find_type(name, {})

    def _parse(self, fqn: str, declaration: Any) -> UserType:
        if not isinstance(declaration, dict):
            raise MetadataError(f"{show(declaration)} is not a type declaration")
        kind = declaration.get("class")
        if kind == "enum":
            return _enum(fqn, self._find(declaration.get("base")), declaration.get("members"))
        if kind == "opaque":
            size = declaration.get("size")
            if type(size) is not int or not 1 <= size < 2**31:
                raise MetadataError(f"size: {show(size)} is not a number of bytes")
            return OpaqueType(fqn, size)
        if kind == "vlen":
            return VlenType(fqn, self._find(declaration.get("base")))
        if kind == "compound":
            return self._compound(fqn, declaration.get("fields"))
        raise MetadataError(f"class: {show(kind)} is not enum, opaque, vlen or compound")

    def _compound(self, fqn: str, items: Any) -> CompoundType:
        if not isinstance(items, list) or not items:
            raise MetadataError(f"fields: {show(items)} is not a list of fields")
        fields = []
        size = 0
        for i, item in enumerate(items):
            name = item.get("name") if isinstance(item, dict) else None
            shape = item.get("shape", []) if isinstance(item, dict) else None
            if not isinstance(name, str) or not name:
                raise MetadataError(f"fields[{i}]: {show(item)} is not a field")
            if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
                raise MetadataError(f"fields[{i}].shape: {show(shape)} is not a list of sizes")
            type_ = self._find(item.get("type"))
            size += type_.dtype.itemsize * math.prod(shape)
            if size >= _MAX_BYTES:
                raise MetadataError(f"fields[{i}]: the compound has more than {_MAX_BYTES} bytes")
            fields.append(Field(name, type_, tuple(shape)))
        if len({f.name for f in fields}) != len(fields):
            raise MetadataError("fields: two of them have one name")
        return CompoundType(fqn, tuple(fields))


def _enum(fqn: str, base: Type, members: Any) -> EnumType:
    if base not in PRIMITIVES.values() or base.dtype.kind not in "iu":
        raise MetadataError("base: an enum needs an integer type")
    if not isinstance(members, dict):
        raise MetadataError(f"members: {show(members)} is not an object")
    values = tuple((name, int(int_from_json(value, base.dtype))) for name, value in members.items())
    return EnumType(fqn, base, values)  # type: ignore[arg-type]

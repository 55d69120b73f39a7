"""Write user-defined types as JSON, and read them (``docs/spec/nczarr-v3.md``, *Types*).

A type is named by its Zarr v3 name (``int32``, ``char``, ``string``) or, if it is user-defined, by its FQN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from nczarr import model
from nczarr.errors import MetadataError, ModelError, error_context
from nczarr.json_values import as_list, as_object, as_text, checked_list, checked_object, only_integers, show
from nczarr.mapping.values.scalars import check_unicode, int_from_json
from nczarr.model import PrimitiveType, Type, UserType, join_fqn, parse_fqn
from nczarr.model.names import find_nearest

#: numpy stores the number of bytes of one value in a C int.
_MAX_BYTES = 2**31 - 1
_BY_NAME = {t.zarr_name: t for t in model.PRIMITIVES.values()}


def type_name(type_: Type) -> str:
    """Return the name of a type in NCZarr metadata.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> type_name(INT), type_name(model.OpaqueType("/g/blob", 4))
    ('int32', '/g/blob')
    """
    if isinstance(type_, UserType):
        return type_.fqn
    assert isinstance(type_, PrimitiveType)
    return type_.zarr_name


def find_type(name: object, types: Mapping[str, UserType]) -> Type:
    """Return the type of a name in NCZarr metadata.

    NCZarr on Zarr v2 uses numpy's names with a byte order (``<f4``); they are accepted too.

    Raises
    ------
    MetadataError
        The type does not exist.

    Examples
    --------
    >>> find_type("float32", {}), find_type("<f4", {})
    (FLOAT, FLOAT)
    """
    text = as_text(name)
    if text in _BY_NAME:
        return _BY_NAME[text]
    if text in types:
        return types[text]
    # netCDF-C's NCZarr names types by numpy's strings.
    if text.startswith(("<", ">", "|")):
        # The names that netCDF-C gives char: <U1 until 4.9.0, >S1 later, and |J0 for text that is JSON.
        if text in (">S1", "|S1", "<S1", "|J0", "<U1", ">U1"):
            return model.CHAR
        # netCDF-C names a string with its longest length, as in |S128.
        if text[1:2] == "S":
            return model.PRIMITIVES["string"]
        try:
            found = model.primitive_for_dtype(np.dtype(text))
        except TypeError:
            found = None
        if found is not None:
            return found
    raise MetadataError(f"there is no type {show(name)}")


def types_to_json(types: Iterable[UserType], *, full_names: bool = False) -> list[dict[str, object]]:
    """Return declarations in order, by simple name or by FQN.

    Examples
    --------
    >>> from nczarr.model import BYTE
    >>> types_to_json([model.EnumType("/g/e", BYTE, (("a", 1),))])
    [{'name': 'e', 'class': 'enum', 'base': 'int8', 'members': [['a', 1]]}]
    """
    return [{"name": t.fqn if full_names else t.name, **_declaration(t)} for t in types]


def _declaration(type_: UserType) -> dict[str, object]:
    match type_:
        case model.EnumType(base=base, members=members):
            return {"class": "enum", "base": type_name(base), "members": [list(m) for m in members]}
        case model.OpaqueType(size=size):
            return {"class": "opaque", "size": size}
        case model.VlenType(base=base):
            return {"class": "vlen", "base": type_name(base)}
    assert isinstance(type_, model.CompoundType)
    fields = [
        {"name": f.name, "type": type_name(f.type), **({"shape": list(f.shape)} if f.shape else {})}
        for f in type_.fields
    ]
    return {"class": "compound", "fields": fields}


def declarations(value: object) -> dict[str, object]:
    """Return declarations by name: from a list (version 3.1), or from an object (version 3.0).

    Raises
    ------
    MetadataError
        The value is neither, or contains a name twice.
    """
    # tensorstore sorts the members of an object, so that version 3.1 has a list.
    if isinstance(value, dict):
        return dict(value)
    found: dict[str, object] = {}
    for item in checked_list(value, "types"):
        name = as_text(as_object(item).get("name"))
        if not name:
            raise MetadataError(f"types: {show(item)} is not a type declaration with a name")
        if name in found:
            raise MetadataError(f"types: two types are named {name!r}")
        found[name] = item
    return found


class TypeBinder:
    """Binds declarations to each other, in any order.

    A reference into a missing group means the type of that simple name in the nearest enclosing group, because another
    program may have renamed the group.
    """

    def __init__(self) -> None:
        self.declared: dict[str, object] = {}
        self.bound: dict[str, UserType] = {}
        self._unfinished: set[str] = set()
        #: References that were resolved by their simple name only, by the FQN of the type that contains them.
        self.moved: dict[str, str] = {}

    def declare(self, group: str, name: str, declaration: object) -> str:
        """Add a declaration of a group, and return the FQN of the type; raise MetadataError for an invalid name."""
        if problem := model.check_name(name):
            raise MetadataError(f"types: {problem}", fqn=group)
        fqn = join_fqn(group, name)
        self.declared[fqn] = declaration
        return fqn

    def resolve(self, name: str, group: str) -> str | None:
        """Return the FQN of the declared type that a reference in a group means; None if there is none."""
        if name in self.declared:
            return name
        if not name.startswith("/"):
            return None
        try:
            simple = parse_fqn(name)[-1]
            nearest = find_nearest(simple, group, self.declared)
        except (ModelError, IndexError):
            return None
        # A program has renamed or removed the group: the last name is searched upwards.
        if nearest is not None:
            return nearest
        # Types are visible from everywhere, so a unique name is enough.
        candidates = [fqn for fqn in self.declared if parse_fqn(fqn)[-1] == simple]
        return candidates[0] if len(candidates) == 1 else None

    def bind(self, fqn: str) -> UserType:
        """Return a declared type.

        Raises
        ------
        MetadataError
            The declaration is damaged, refers to a missing type, or contains itself.
        """
        if fqn not in self.bound:
            # A hostile document would end Python's stack.
            if fqn in self._unfinished:
                raise MetadataError("the type contains itself", fqn=fqn)
            self._unfinished.add(fqn)
            try:
                with error_context(fqn=fqn):
                    self.bound[fqn] = self._parse(fqn, self.declared[fqn])
            finally:
                self._unfinished.discard(fqn)
        return self.bound[fqn]

    def find(self, name: object, group: str = "/") -> Type:
        """Return the type, user-defined or not, that a reference in a group means; raise MetadataError for none."""
        fqn = self.resolve(as_text(name), group)
        return find_type(name, {}) if fqn is None else self.bind(fqn)

    def _find(self, name: object, owner: str) -> Type:
        found = self.find(name, model.split_fqn(owner)[0])
        if isinstance(found, UserType) and found.fqn != name:
            self.moved[owner] = str(name)
        return found

    def _parse(self, fqn: str, declaration: object) -> UserType:
        given = checked_object(declaration, "", "a type declaration")
        kind = given.get("class")
        if kind == "enum":
            return _enum(fqn, self._find(given.get("base"), fqn), given.get("members"))
        if kind == "opaque":
            size = given.get("size")
            # numpy stores the size in a C int.
            if type(size) is not int or not 1 <= size < 2**31:
                raise MetadataError(f"size: {show(size)} is not a size in bytes")
            return model.OpaqueType(fqn, size)
        if kind == "vlen":
            return model.VlenType(fqn, self._find(given.get("base"), fqn))
        if kind == "compound":
            return self._compound(fqn, given.get("fields"))
        raise MetadataError(f"class: {show(kind)} is not enum, opaque, vlen or compound")

    def _compound(self, fqn: str, items: object) -> model.CompoundType:
        if not as_list(items):
            raise MetadataError(f"fields: {show(items)} is not a list of fields")
        fields = []
        size = 0
        for i, item in enumerate(as_list(items)):
            given = as_object(item)
            name = as_text(given.get("name"))
            if not name:
                raise MetadataError(f"fields[{i}]: {show(item)} is not a field")
            check_unicode(name, f"fields[{i}]")
            shape = only_integers(given.get("shape", []), 1)
            if shape is None:
                raise MetadataError(f"fields[{i}].shape: {show(given['shape'])} is not a list of sizes")
            type_ = self._find(given.get("type"), fqn)
            # Small documents can name huge types: the size is checked before numpy makes one.
            size += type_.dtype.itemsize * math.prod(shape)
            # A few bytes may declare a value that no memory holds.
            if size >= _MAX_BYTES:
                raise MetadataError(f"fields[{i}]: the compound has more than {_MAX_BYTES} bytes")
            fields.append(model.Field(name, type_, tuple(shape)))
        if len({f.name for f in fields}) != len(fields):
            raise MetadataError("fields: two fields have the same name")
        return model.CompoundType(fqn, tuple(fields))


def _enum(fqn: str, base: Type, members: object) -> model.EnumType:
    if not isinstance(base, PrimitiveType) or not base.is_integer:
        raise MetadataError("base: an enum needs an integer type")
    # Version 3.0 has an object.
    pairs = [[*pair] for pair in as_object(members).items()] or as_list(members)
    if (not pairs and members not in ([], {})) or not all(
        len(as_list(m)) == 2 and as_text(m[0]) for m in pairs
    ):
        raise MetadataError(f"members: {show(members)} is not a list of names and values")
    for name, _ in pairs:
        check_unicode(name, "members")
    values = tuple((name, int(int_from_json(value, base.dtype))) for name, value in pairs)
    return model.EnumType(fqn, base, values)

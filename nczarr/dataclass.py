"""Make dataclasses that share their methods, so that an import compiles no function.

The standard library compiles six functions for a frozen dataclass, which takes 0.8 ms: half of the time of
``import nczarr; nczarr.Dataset`` beyond numpy's own import. Here only ``__init__`` is compiled, at its first use: most
programs use few of the classes. The other methods are functions that all classes share. Fields, ``replace``,
``asdict``, errors and results are those of the standard library.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Factory:
    """Stands for a value that is made at each call."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **others):
        """Return the class as a dataclass, as :func:`dataclasses.dataclass` does.

        Frozen classes with slots have all methods of the standard library.

        Examples
        --------
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(3), Point(3) == Point(3, 0), hash(Point(3)) == hash(Point(3))
        (Point(x=3, y=0), True, True)
        >>> Point(3).x = 4
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, frozen=frozen, eq=eq, repr=repr, **others)
        slots = others.keys() & {"slots", "weakref_slot"}
        if others.keys() - {"kw_only"} - slots or (slots and frozen):
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq, repr=repr, **others)
        cls.__doc__ = cls.__doc__ or cls.__name__  # or the standard library writes the signature
        own = vars(cls).copy()
        if frozen and any(dataclasses.is_dataclass(base) for base in cls.__bases__):
            _collect_fields(cls, own, **others)
        else:  # slots make another class
            cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **others)
        if "__init__" not in own:
            cls.__init__ = _Initialiser(cls)
        if repr and "__repr__" not in own:
            cls.__repr__ = _repr
        if eq:
            equals, hashed = _comparison([f.name for f in dataclasses.fields(cls) if f.compare])
            cls.__eq__ = own.get("__eq__", equals)
            cls.__hash__ = own.get("__hash__") or (hashed if frozen else None)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
            cls.__dataclass_params__.frozen = True
        return cls


def _collect_fields(cls: type, own: dict[str, Any], kw_only: bool = False) -> None:
    """Set the fields of a class below a frozen dataclass.

    Of such a class, the standard library compiles two refusals of its own. So it gets a class without bases, and the
    fields of the bases are added.
    """
    annotations = inspect.get_annotations(cls)
    given = {name: own[name] for name in annotations if name in own}
    head = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__annotations__": annotations}
    alone: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(
        type(cls.__name__, (), head | given)
    )
    for name in given:
        if name in vars(alone):
            setattr(cls, name, vars(alone)[name])
        else:  # `field()` without a default leaves no attribute
            delattr(cls, name)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, "__dataclass_fields__", {})
    made: Any = cls
    made.__dataclass_fields__ = fields | alone.__dataclass_fields__
    made.__dataclass_params__ = alone.__dataclass_params__
    if "__match_args__" not in own:
        positional = tuple([f.name for f in dataclasses.fields(made) if f.init and not f.kw_only])
        type.__setattr__(cls, "__match_args__", positional)


class _Initialiser:
    """Stands for the ``__init__`` of a dataclass until its first use, which puts the compiled function in its place."""

    def __init__(self, cls: type) -> None:
        self._class = cls

    def __get__(self, instance: object, owner: type) -> Any:
        made: Any = _initialiser(self._class)
        # Two threads may compile it, and both functions are the same.
        type.__setattr__(self._class, "__init__", made)
        return made.__get__(instance, owner)


def _initialiser(cls: type) -> Callable[..., None]:
    """Compile the ``__init__`` of a dataclass."""
    # Python reads the attributes of an instance twice as fast if nothing has asked for its `__dict__`.
    is_frozen = any("__setattr__" in vars(base) for base in cls.__mro__[:-1])
    assign = "_set(self, {!r}, {})" if is_frozen else "self.{} = {}"
    known: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": object.__setattr__}
    positional, named, body = ["self"], list[str](), list[str]()
    annotations: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, parameter, value = field.name, field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_FACTORY"
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (named if field.kw_only else positional).append(parameter)
            annotations[name] = field.type
            # An initialiser that asks for __dict__ makes each later read of an attribute take twice as long.
            body.append(assign.format(name, value))
        elif field.default is dataclasses.MISSING:
            body.append(assign.format(name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*"] if named else []), *named])
    text = f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"])
    exec(text, known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {**annotations, "return": None}
    return made


def _comparison(names: list[str]) -> tuple[Callable[[Any, Any], bool], Callable[[Any], int]]:
    """Return ``__eq__`` and ``__hash__`` of a class that is compared by some attributes."""
    values: Callable[[Any], Any]
    if len(names) > 1:
        values = attrgetter(*names)
    else:  # a tuple, as of the standard library: two arrays are equal if they are one object
        values = lambda instance: tuple([getattr(instance, name) for name in names])  # noqa: E731

    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        equal: bool = values(self) == values(other)
        return equal

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __eq__, __hash__


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    _check_own(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    _check_own(self, name, "delete")
    object.__delattr__(self, name)


def _check_own(self: Any, name: str, verb: str) -> None:
    """Raise if an attribute is that of a dataclass; a subclass that is none may have others."""
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {verb} field {name!r}")

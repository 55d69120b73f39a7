"""Test that nczarr's dataclasses are those of the standard library, which serves as the oracle."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from nczarr.dataclass import dataclass
from nczarr.model import INT, Variable


def classes(make: Callable[..., Any]) -> dict[str, Any]:
    """Return classes of all forms in use, made by a decorator."""

    @make(frozen=True)
    class Point:
        x: int
        values: list[int] = field(default_factory=list)
        hidden: int = field(default=1, repr=False, compare=False)
        kind: ClassVar[str] = "point"

    @make(frozen=True)
    class Named(Point):
        name: str = field(default="", kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", abs(self.x))

    @make
    class Open:
        only: int
        made: list[int] = field(default_factory=list, init=False)
        fixed: int = field(default=4, init=False)

    @make(frozen=True, eq=False)
    class Identity:
        x: int = 0

    @make(frozen=True)
    class Own:
        x: int = 0

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @make(frozen=True)
    class Empty:
        pass

    @make(frozen=True, slots=True)
    class Slots:
        x: int = 2

    class Plain(Point):
        def __init__(self) -> None:
            super().__init__(3)
            self.more = 5

    found = (Point, Named, Open, Identity, Own, Empty, Slots, Plain)
    return {cls.__name__: cls for cls in found}


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, [2], 3), {}),
    ("Point", (), {"x": 1, "values": [3]}),
    ("Point", (), {}),
    ("Point", (1, 2, 3, 4), {}),
    ("Named", (-1,), {"name": "n"}),
    ("Named", (1, [], 1, "n"), {}),
    ("Open", (1,), {}),
    ("Open", (1,), {"fixed": 2}),
    ("Identity", (), {}),
    ("Own", (1,), {}),
    ("Empty", (), {}),
    ("Slots", (), {}),
    ("Plain", (), {}),
]


def described(found: Any) -> list[object]:
    """Return what a program sees of an instance."""
    seen: list[object] = [repr(found).rpartition("<locals>.")[2]]
    seen += [found == copy.deepcopy(found), found == found, found != 3, [f.name for f in fields(found)]]
    seen += [asdict(found), type(found).__match_args__, str(inspect.signature(type(found)))]
    for action in (
        lambda: hash(found) == hash(copy.copy(found)) or "by identity",
        lambda: setattr(found, "x", 9),
        lambda: setattr(found, "other", 9),
        lambda: delattr(found, "x"),
        lambda: replace(found, x=5) == found,
    ):
        try:
            seen.append(action())
        except (AttributeError, TypeError, ValueError) as error:
            seen.append((type(error), str(error)))
    return seen


def test_classes_behave_as_those_of_the_standard_library() -> None:
    ours, theirs = classes(dataclass), classes(dataclasses.dataclass)
    for name, positional, named in CALLS:
        results: list[object] = []
        for cls in (ours[name], theirs[name]):
            try:
                results.append(described(cls(*positional, **named)))
            except TypeError as error:
                results.append(str(error))
        assert results[0] == results[1], name
    assert ours["Point"](1) != theirs["Point"](1)
    assert ours["Named"].__mro__[1] is ours["Point"]


def test_classes_of_a_program_extend_frozen_ones() -> None:
    """A data type or codec of another package is a dataclass of the standard library."""
    base = classes(dataclass)["Point"]

    @dataclasses.dataclass(frozen=True)
    class Below(base):  # type: ignore[misc]
        y: int = 0

    assert (Below(1).x, Below(1, y=2) == Below(1, y=2)) == (1, True)
    with pytest.raises(FrozenInstanceError):
        Below(1).x = 2
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Other", (base,), {"__annotations__": {}}))


def test_an_instance_that_holds_itself_has_a_repr() -> None:
    point = classes(dataclass)["Point"](1, [])
    point.values.append(point)
    assert "Point(x=1, values=[...])" in repr(point)


def test_instances_travel_between_processes() -> None:
    variable = Variable("v", INT, ("x",), attributes={"units": "K"})
    assert pickle.loads(pickle.dumps(variable)) == variable

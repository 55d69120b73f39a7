"""Compare the public names and their parameters with `tests/data/public_names.json`."""

from __future__ import annotations

import public_names

import nczarr
from nczarr import netcdf4


def test_nothing_that_is_pinned_is_gone() -> None:
    assert public_names.missing(public_names.read(), public_names.described()) == []


def test_what_is_new_is_pinned() -> None:
    new = public_names.missing(public_names.described(), public_names.read())
    assert new == [], "python tests/helpers/public_names.py --write"


def test_the_comparison_sees_what_a_user_would() -> None:
    pinned = {"f": ["a", "b=1"], "C": {"made of": ["x"], "members": {"m": ["self"], "p": "attribute"}}}
    assert public_names.missing(pinned, pinned) == []
    assert public_names.missing(pinned, pinned | {"f": ["a", "b=1", "c=2"], "g": []}) == []
    assert public_names.missing(pinned, {"C": pinned["C"]}) == [".f is gone"]
    assert public_names.missing(pinned, pinned | {"f": ["b=1", "a"]}) == [".f: was (a, b=1), is (b=1, a)"]
    assert public_names.missing(pinned, pinned | {"f": ["a", "b"]}) == [".f: was (a, b=1), is (a, b)"]
    assert public_names.missing(pinned, pinned | {"C": "value"}) != []


def test_programs_for_netcdf4_python_find_its_names_here() -> None:
    """The front lists them, so that ``import nczarr`` need not load what they are."""
    inner = {"_Dimension", "_Variable"}
    assert [name for name in netcdf4.__all__ if name not in inner and not hasattr(nczarr, name)] == []
    assert set(netcdf4.__all__) >= nczarr._ALSO

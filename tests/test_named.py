"""Test that each public name is named in a test, in a page or in an example."""

from __future__ import annotations

import unnamed


def test_each_public_name_is_named() -> None:
    assert unnamed.unnamed(unnamed.texts()) == []


def test_a_name_that_nothing_names_is_found() -> None:
    assert "nczarr.model.USHORT" in unnamed.unnamed(["USHORTS"])
    assert "nczarr.model.Type.is_classic" in unnamed.unnamed(["Type"])
    assert "nczarr.model.Type.is_classic" not in unnamed.unnamed(["`is_classic`"])

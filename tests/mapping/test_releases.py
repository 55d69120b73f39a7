"""Test that this version reads the stores of every release as that release has written them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import nczarr

DATA = Path(__file__).parents[1] / "data"
STORES = sorted((DATA / "stores").glob("release_*/*.zarr.zip"))

sys.path.insert(0, str(DATA))
from make_release import FORMS  # noqa: E402


def test_each_release_keeps_its_stores() -> None:
    changelog = (DATA.parents[1] / "docs" / "changelog.md").read_text("utf-8")
    for version in re.findall(r"^## (\S+) \(", changelog, re.MULTILINE):
        kept = {
            path.name.removesuffix(".zarr.zip") for path in STORES if path.parent.name == f"release_{version}"
        }
        assert kept, f"run tests/data/make_release.py for {version}"
        if version == nczarr.__version__:
            assert kept == set(FORMS)


@pytest.mark.parametrize("store", STORES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_store_of_a_release_is_read(store: Path) -> None:
    source, options = FORMS[store.name.removesuffix(".zarr.zip")]
    if "lossy" not in options:
        assert list(nczarr.diff(DATA / source, store)) == []
        return
    fresh: dict[str, bytes] = {}
    nczarr.copy(DATA / source, fresh, **options)
    assert list(nczarr.diff(fresh, store)) == []

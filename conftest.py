"""Give examples in docstrings folders that go with them, and select the quick tests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Test files by folder, with the core of the packages: ``-m quick`` runs them in less than a minute on two processors.
QUICK = {
    "": ("documented", "floors", "lazy", "prose", "public_names", "where_to_look"),
    "cdl": ("load_errors", "load_values"),
    "cli": ("terminal",),
    "convert": ("selecting",),
    "display": ("html",),
    "mapping": ("plain", "spec"),
    "model": ("chunk_shapes", "names", "nodes", "types_and_values"),
    "netcdf": ("reader",),
    "netcdf4": ("attributes", "dataset", "tree", "unlimited"),
    "session": ("chunk_cache",),
    "stores": ("local", "open"),
    "view": ("grids", "overview"),
    "zarr": ("documents_v3", "hierarchy", "names_grids_keys", "selection", "shards"),
}
_QUICK_FILES = {
    HERE / "tests" / folder / f"test_{name}.py" for folder, names in QUICK.items() for name in names
}


def pytest_configure(config: pytest.Config) -> None:
    missing = sorted(str(path.relative_to(HERE)) for path in _QUICK_FILES if not path.is_file())
    if missing:
        raise pytest.UsageError(f"conftest.py: QUICK names files that do not exist: {', '.join(missing)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With ``-n auto``, run more workers than processors: many tests wait for servers and other processes."""
    return -(-3 * (os.cpu_count() or 1) // 2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m quick``, do not import the other files: that would take most of the time."""
    is_other = collection_path.is_file() and collection_path not in _QUICK_FILES
    return True if is_other and config.option.markexpr == "quick" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path in _QUICK_FILES:
            item.add_marker("quick")


@pytest.fixture(autouse=True)
def temporary_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example makes with :mod:`tempfile` is below pytest's own folder, which pytest removes."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setattr(tempfile, "tempdir", str(request.getfixturevalue("tmp_path")))

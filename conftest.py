"""Give examples in docstrings folders that go with them, and select the quick and the heavy tests."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Hashable
from pathlib import Path

import pytest
import rotation
from _pytest.doctest import DoctestModule

HERE = Path(__file__).parent

# The workers share the tests that one of them has rewritten, and the processes that tests start share the compiled
# package: without, each of a thousand interpreters compiles it anew, which is half of its start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
#: Test files by folder, with the core of the packages: ``-m quick`` runs them in less than a minute on two processors.
QUICK = {
    "": ("documented", "floors", "lazy", "public_names", "where_to_look"),
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
#: Test files that start clusters, browsers, or processes that they kill, or run the tests of xarray. Two ways run them:
#: ``-m heavy``, as in ``.ci/run``, and a command that names the file.
HEAVY = (
    "trust/trials",
    "view/browser",
    "convert/dask",
    "convert/engines",
    "convert/one_archive",
    "convert/appending_together",
    "mapping/killed_changes",
    "netcdf/killed_edits",
    "system/forks",
    "xarray/cluster",
    "xarray/backends_of_xarray",
    "core_alone",
    "benchmarks",
    "notebooks",
    "typing/messages",
)
#: Pages whose blocks draw pictures, each alone: one in eight of them runs, as of slow tests.
SLOW_PAGES = (HERE / "docs" / "gallery.md", HERE / "docs" / "view.md")
#: The test files that take longest, the longest first. Several workers begin with them, and end together.
LONGEST = (
    "trust/trials",
    "view/browser",
    "xarray/backends_of_xarray",
    "convert/dask",
    "convert/one_archive",
    "core_alone",
    "cli/screen",
    "convert/every_source",
    "cdl/load_corpus",
    "cli/hostile",
    "stores/silent_servers",
    "mapping/killed_changes",
    "mapping/requests",
    "stores/zip",
    "netcdf/isolated",
    "cli/secrets",
    "netcdf4/silent_losses",
    "netcdf4/netcdf_files",
    "mapping/damage",
    "netcdf4/growth",
    "system/durability",
    "stores/s3",
    "second_reader/second_reader",
    "convert/verification",
    "cli/commands",
    "mapping/roundtrip",
)


def _file(name: str) -> Path:
    folder, _, stem = name.rpartition("/")
    return HERE / "tests" / folder / f"test_{stem}.py"


_HEAVY_FILES = {*map(_file, HEAVY)}
_QUICK_FILES = {
    HERE / "tests" / folder / f"test_{name}.py" for folder, names in QUICK.items() for name in names
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-cases",
        action="store_true",
        help=f"run all cases, not one in {rotation.TURNS} of the slow tests, and of the functions with "
        f"{rotation.MANY} cases and more; "
        "a command that names a file or a folder always does",
    )
    parser.addoption("--rotation", type=int, help="the cases that run; by default the number of commits")


def pytest_configure(config: pytest.Config) -> None:
    # A developer who names a file wants all of it.
    whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    rotation.everything = config.option.all_cases or not whole_suite
    rotation.all_examples = not whole_suite or os.environ.get("NCZARR_NEW_EXAMPLES") == "1"
    named = {*_QUICK_FILES, *_HEAVY_FILES, *map(_file, LONGEST)}
    missing = sorted(str(path.relative_to(HERE)) for path in named if not path.is_file())
    if missing:
        raise pytest.UsageError(f"conftest.py names files that do not exist: {', '.join(missing)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With ``-n auto``, run more workers than processors: many tests wait for servers and other processes."""
    return -(-3 * (os.cpu_count() or 1) // 2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m quick`` and ``-m heavy``, do not import the other files; without, not the heavy files, unless named."""
    if not collection_path.is_file():
        return None
    selection = config.option.markexpr
    if selection in ("quick", "heavy"):
        return None if collection_path in (_QUICK_FILES if selection == "quick" else _HEAVY_FILES) else True
    named = any(collection_path.name in argument for argument in config.args)
    return True if collection_path in _HEAVY_FILES and not named and "heavy" not in selection else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in files that have some: to look in all imports the scripts, and takes a third of the start."""
    collectors = yield
    if file_path.suffix != ".py" or ">>> " in file_path.read_text("utf-8"):
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


def _function(item: pytest.Item) -> Hashable:
    return rotation.SLOW if item.get_closest_marker("slow") else (item.path, item.nodeid.partition("[")[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path in SLOW_PAGES:
            item.add_marker("slow")
    if not rotation.everything:
        turn = config.option.rotation
        turn = rotation.rotation_of(HERE) if turn is None else turn
        cases = [(_function(item), item) for item in items]
        items[:], waiting = rotation.select(cases, turn)
        config.hook.pytest_deselected(items=waiting)
    for item in items:
        if item.path in _QUICK_FILES:
            item.add_marker("quick")
        if item.path in _HEAVY_FILES:
            item.add_marker("heavy")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        _sort_by_length(items)


def pytest_collection_finish() -> None:
    _spare_the_collector()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of a file, when no object of a test lives: see what earlier tests have imported."""
    global _last_file
    if item.path != _last_file and len(sys.modules) > _spared + 100:
        _spare_the_collector()
    _last_file = item.path


_last_file: Path | None = None
#: Number of modules when the collector was spared last.
_spared = 0


def _spare_the_collector() -> None:
    """Take modules and tests, a million objects, out of garbage collection: each collection would visit them all."""
    global _spared
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _spared = len(sys.modules)


def _sort_by_length(items: list[pytest.Item]) -> None:
    """Sort the files for several workers: the longest first, then those with the most tests."""
    order = {_file(name): -i for i, name in enumerate(reversed(LONGEST), 1)}
    tests = Counter(item.path for item in items)
    # Files of one length keep their order, and the tests of a file stay together.
    files = {path: i for i, path in enumerate(tests)}
    items.sort(key=lambda item: (order.get(item.path, 0), -tests[item.path], files[item.path]))


@pytest.fixture(autouse=True)
def temporary_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example makes with :mod:`tempfile` is below pytest's own folder, which pytest removes."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setattr(tempfile, "tempdir", str(request.getfixturevalue("tmp_path")))

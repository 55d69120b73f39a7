"""Tell the core of nczarr from the rooms beside it, and copy it alone, with its tests."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import import_graph

import nczarr
from nczarr.rooms import room_of

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: Tests of each part of the core that need a few seconds.
FEW = (
    "model/test_nodes.py", "model/test_types_and_values.py", "cdl/test_dump_numbers.py", "cdl/test_load_roundtrip.py",
    "zarr/test_selection.py", "zarr/test_json.py", "mapping/test_lengths.py", "session/test_growing_chunks.py",
)  # fmt: skip
#: Folders of tests that belong to packages of the core.
FOLDERS = ("model", "cdl", "zarr", "stores", "mapping", "session", "netcdf4", "system")


@cache
def modules_of(room: str | None) -> tuple[str, ...]:
    """Return the modules of a room, or of the core (None)."""
    return tuple(name for name in import_graph.modules() if room_of(name) == room)


def lines_of(room: str | None) -> int:
    """Count the lines of a room, or of the core (None)."""
    return sum(len(import_graph.modules()[name].read_text().splitlines()) for name in modules_of(room))


def copy_core(folder: Path) -> None:
    """Copy the modules of the core, their data files, and the grammars."""
    for name in modules_of(None):
        source = import_graph.modules()[name]
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        if source.name == "__init__.py":
            for data in source.parent.glob("*.json"):
                shutil.copy(data, target.parent)
    shutil.copytree(ROOT / "grammar", folder / "grammar")
    shutil.copy(ROOT / "pyproject.toml", folder)


def _imports(path: Path) -> set[str]:
    """Return the modules that a file of the tests imports, also through the helpers, and names of nczarr's front."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update({str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names})
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "nczarr"
        ):
            found.add(f"nczarr.{node.attr}")
    for name in list(found):
        helper = TESTS / "helpers" / f"{name}.py"
        if helper.is_file():
            found |= _imports(helper)
    return found


def core_tests() -> list[Path]:
    """Return the files of tests that import no room."""
    homes = {f"nczarr.{name}": home for name, home in nczarr._HOMES.items()}
    return [
        path
        for folder in FOLDERS
        for path in sorted((TESTS / folder).glob("test_*.py"))
        if not any(room_of(homes.get(name, name)) for name in _imports(path))
    ]


def copy_tests(folder: Path, files: Iterable[str]) -> None:
    """Copy files of tests, with the helpers and data of all tests, beside a copy of the core."""
    for name in ("helpers", "data"):
        shutil.copytree(TESTS / name, folder / "tests" / name, dirs_exist_ok=True)
    for name in ("conftest.py", *files):
        target = folder / "tests" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(TESTS / name, target)
        if (conftest := (TESTS / name).with_name("conftest.py")).is_file():
            shutil.copy(conftest, target.parent)
    (folder / "tests" / "trust").mkdir(exist_ok=True)

"""The core of nczarr: it imports no room beside it, and works alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import core
import import_graph
import pytest

from nczarr.rooms import ROOMS, Door, room_of

ROOT = Path(__file__).parents[1]
MODULES = import_graph.modules()
#: A script that uses the core only, and meets the doors of rooms.
USE = """
import nczarr, numpy as np
from nczarr import cdl, mapping, zarr
from nczarr.stores import open_store
for target in ("a.zarr", "a.zarr.zip"):
    with nczarr.Dataset(target, "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("g/v", "f8", ("x",))[:] = [1, 2, 3]
    with nczarr.Dataset(target) as ds:
        print(ds["g/v"][1:].tolist(), ds.tocdl().count("g"))
print(cdl.dumps(cdl.loads("netcdf a { dimensions: x = 2 ; }")).split())
print(zarr.open_hierarchy(open_store("a.zarr")).nodes["g/v"].shape)
for use in (
    lambda: nczarr.copy, lambda: nczarr.Dataset("a.nc", "w"), lambda: nczarr.Dataset("s3://b/a.zarr"),
    lambda: nczarr.Dataset("a.zarr")._repr_html_(), lambda: nczarr.from_xarray,
):
    try:
        use()
    except nczarr.NCZarrError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    core.copy_core(folder)
    return folder


def test_the_core_imports_no_room() -> None:
    """A room is imported behind a door only, and beside it under TYPE_CHECKING, for readers and type checkers."""
    found = []
    for name in core.modules_of(None):
        source = MODULES[name].read_text("utf-8")
        doors = set(re.findall(r'Door\("([\w.]+)"\)', source))
        hidden: set[str] = set()
        for node in ast.parse(source).body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                hidden |= {ast.dump(inner) for inner in ast.walk(node)}
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            base = getattr(node, "module", None)
            whole = [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
            for imported in (each if each in MODULES else str(base) for each in whole):
                if room_of(imported) and not (
                    ast.dump(node) in hidden and (imported in doors or name == "nczarr")
                ):
                    found.append(f"{name} imports {imported}")
        found += [f"{name}: a door to {door}, which is no module" for door in doors if door not in MODULES]
    assert not found, "\n".join(found)


def test_every_module_of_a_room_exists() -> None:
    for room, found in ROOMS.items():
        assert all(f"nczarr.{module}" in MODULES for module in found.modules), room
    assert room_of("nczarr.netcdf.classic") == "files"
    assert room_of("nczarr.netcdf4") is None


def test_a_door_passes_errors_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("no h5py", name="h5py")

    monkeypatch.setattr("nczarr.rooms.import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="h5py"):
        Door("nczarr.netcdf").open_dataset  # noqa: B018


def test_the_core_works_without_the_rooms_and_names_what_is_missing(alone: Path) -> None:
    done = core.run(alone, "-c", USE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("[2.0, 3.0]")
    assert lines[1] == lines[0]
    assert lines[3] == "(3,)"
    assert [re.findall(r"lacks the room '(\w+)'", line) for line in lines[4:]] == [
        ["conversion"], ["files"], ["remote"], ["html"], ["xarray"]
    ]  # fmt: skip


@pytest.mark.slow
def test_a_few_tests_of_the_core_pass_without_the_rooms(alone: Path) -> None:
    assert core.run_tests(alone, core.FEW) > 50


def test_the_page_tells_the_size_of_the_core_and_of_each_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = {
        cells[0]: cells[1:]
        for cells in (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in page.splitlines()
            if line.startswith("|")
        )
        if cells[0] in {"the core", *ROOMS}
    }
    assert rows.keys() == {"the core", *ROOMS}
    for name, cells in rows.items():
        room = None if name == "the core" else name
        lines = core.lines_of(room)
        told = int(cells[1].replace(",", ""))
        assert abs(told - lines) <= max(0.05 * lines, 100), (name, lines)
        if room is not None:
            assert cells[0] == ROOMS[room].purpose
            assert set(re.findall(r"`(\w+)`", cells[2])) == set(ROOMS[room].extras)
            assert abs(int(cells[3]) - core.words_of(room)) <= 3, (name, core.words_of(room))

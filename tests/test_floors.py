"""The floors of the architecture: a package imports only from floors below it, at any depth of a function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nczarr"

#: Floor of each package or module of nczarr; packages on one floor do not know each other.
FLOORS = {
    "errors": 0,
    "grammar": 0,
    "atomic": 0,
    "model": 1,
    "stores": 2,
    "zarr": 3,
    "mapping": 4,
    "cdl": 4,
    "netcdf": 4,
    "netcdf4": 5,
    "convert": 6,
    "cli": 7,
    "xarray": 7,
}

#: The engine and its stores know bytes and arrays, not netCDF.
FORBIDDEN = {"stores": {"model"}, "zarr": {"model"}, "cdl": {"stores", "zarr"}, "netcdf": {"stores", "zarr"}}

MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """First component below ``nczarr`` of every import in a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "nczarr" and len(parts) > 1 and parts[1] in FLOORS:
                found.add(parts[1])
    return found


def home(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_from_floors_below(path: Path) -> None:
    own = home(path)
    if own not in FLOORS:  # the package's front door sees everything
        assert own in {"__init__"}, f"{path.name}: give the new module a floor"
        return
    for other in imported(path) - {own}:
        assert FLOORS[other] < FLOORS[own], f"{path} (floor {FLOORS[own]}) imports nczarr.{other}"
        assert other not in FORBIDDEN.get(own, set()), f"{path}: nczarr.{own} must not know nczarr.{other}"

"""The architecture, proved from the imports: no circle at any level, and no arrow up.

Imports inside functions and under TYPE_CHECKING count: what a reader has to know is the same.
"""

from __future__ import annotations

import ast
import re

import import_graph
import pytest

#: Floors, the lowest first: a package or module of nczarr imports only from floors below its own.
FLOORS = [
    {"display", "grammar"},
    {"errors"},
    {"atomic", "limits", "targets"},
    {"model", "formats"},
    {"stores"},
    {"zarr"},
    {"mapping", "cdl", "netcdf"},
    {"netcdf4"},
    {"convert"},
    {"view"},
    {"cli", "xarray"},
    {"__main__"},
]
#: Floors of the sub-packages inside a package. Its modules beside them have no floor, but are in no circle.
SUB_FLOORS = {
    "stores": [{"remote", "zip"}],
    "zarr": [{"types"}, {"codecs", "documents"}, {"arrays"}, {"hierarchy"}, {"zom"}],
    "mapping": [{"values"}, {"plain"}, {"nczarr3"}, {"nczarr2"}, {"dataset"}],
    "cdl": [{"read", "write"}],
    "netcdf": [{"classic", "hdf5"}],
    "convert": [{"change"}, {"many"}],
    "netcdf4": [{"edit"}, {"values"}],
    "view": [{"data"}, {"picture"}, {"page"}],
}
#: Packages of lower floors that a package must not know all the same: the engine and its stores know bytes and
#: arrays, not netCDF; the edges do not know Zarr.
UNKNOWN = {"stores": {"model"}, "zarr": {"model"}, "cdl": {"stores", "zarr"}, "netcdf": {"stores", "zarr"}}

#: Circles that are being opened. Take a line out as soon as its circle is gone; nothing may be added.
KNOWN_CIRCLES: list[str] = []
#: Arrows up between sub-packages, in those circles.
KNOWN_ARROWS_UP: set[tuple[str, str]] = set()
#: Modules whose first line still begins with "What". Take a line out when it says what the module does.
KNOWN_WHATS: set[str] = set()

MODULES = sorted(import_graph.modules())
PACKAGES = import_graph.packages()


def inside(name: str) -> str:
    """A name below ``nczarr``."""
    return name.removeprefix("nczarr").removeprefix(".")


def known() -> list[set[str]]:
    return [{f"nczarr.{name}" for name in line.split()} for line in KNOWN_CIRCLES]


def circles() -> list[set[str]]:
    """Circles of modules, and of the parts of every package."""
    found = import_graph.circles(import_graph.module_graph())
    for package in PACKAGES:
        found += import_graph.circles(import_graph.parts_graph(package))
    return found


def test_no_circles() -> None:
    for circle in circles():
        assert any(circle <= listed for listed in known()), f"these import each other: {sorted(circle)}"


def test_listed_circles_are_still_there() -> None:
    for listed in known():
        assert any(circle <= listed for circle in circles()), f"take it out of the list: {sorted(listed)}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_only_from_floors_below(module: str) -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    own = inside(module).split(".")[0]
    if not own:  # the package's front sees everything
        return
    assert own in floor, f"{module}: give it a floor"
    for imported in import_graph.imports_of(module):
        other = inside(imported).split(".")[0]
        if other and other != own:
            assert floor[other] < floor[own], f"{module} (floor {floor[own]}) imports {imported}"
            assert other not in UNKNOWN.get(own, ()), f"{module}: nczarr.{own} must not know nczarr.{other}"


@pytest.mark.parametrize("package", [p for p in PACKAGES if inside(p) and "." not in inside(p)])
def test_sub_packages_import_only_from_floors_below(package: str) -> None:
    floors = SUB_FLOORS.get(inside(package), [])
    floor = {f"{package}.{name}": number for number, names in enumerate(floors) for name in names}
    deep = [p for p in PACKAGES if p.startswith(package + ".")]
    assert {p for p in deep if p.count(".") == 2} <= set(floor), "give each sub-package a floor"
    assert all(p.count(".") == 2 for p in deep), "two levels of packages are enough"
    graph = import_graph.parts_graph(package)
    up = {(a, b) for a in floor for b in graph.get(a, ()) if floor.get(b, -1) >= floor[a]}
    listed = {(f"nczarr.{a}", f"nczarr.{b}") for a, b in KNOWN_ARROWS_UP}
    assert up == {(a, b) for a, b in listed if a.startswith(package + ".")}


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_do(module: str) -> None:
    tree = ast.parse(import_graph.modules()[module].read_text("utf-8"))
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    assert first, "no docstring"
    assert not re.match(r"What\b", first) or inside(module) in KNOWN_WHATS, first
    assert first.endswith((".", ":")), first
    assigned = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    names = {target.id for target in assigned if isinstance(target, ast.Name)}
    assert module in PACKAGES or "__all__" not in names, "only the front of a package has __all__"

"""The architecture, proved from the imports: no circle at any level, and no arrow up.

Imports inside functions and under TYPE_CHECKING count: what a reader has to know is the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import import_graph
import pytest

#: Floors, the lowest first: a package or module of nczarr imports only from floors below its own.
FLOORS = [
    {"lazy"},
    {"display", "grammar"},
    {"errors"},
    {"filters", "system", "targets"},
    {"model", "formats"},
    {"stores", "transfer"},
    {"zarr"},
    {"mapping", "cdl", "netcdf"},
    {"session"},
    {"netcdf4"},
    {"convert"},
    {"view"},
    {"cli", "xarray"},
    {"__main__"},
]
#: Floors of the sub-packages inside a package. Its modules beside them have no floor, but are in no circle.
SUB_FLOORS = {
    "stores": [{"remote", "zip"}],
    "zarr": [{"types"}, {"codecs", "documents"}, {"chunks"}, {"hierarchy"}, {"zom"}],
    "mapping": [{"values"}, {"plain"}, {"nczarr3"}, {"nczarr2"}, {"guarding"}, {"rewriting"}, {"dataset"}],
    "cdl": [{"syntax", "write"}, {"read"}],
    "netcdf": [{"bytes"}, {"classic", "hdf5"}, {"edit"}],
    "convert": [{"verify"}, {"values"}, {"change"}, {"many"}, {"virtual"}],
    "netcdf4": [{"values"}, {"classes"}],
}
#: Packages of lower floors that a package must not know all the same: the engine and its stores know bytes and
#: arrays, not netCDF; the edges do not know Zarr.
UNKNOWN = {"stores": {"model"}, "zarr": {"model"}, "cdl": {"stores", "zarr"}, "netcdf": {"stores", "zarr"}}

MODULES = sorted(import_graph.modules())
PACKAGES = import_graph.packages()


def inside(name: str) -> str:
    """A name below ``nczarr``."""
    return name.removeprefix("nczarr").removeprefix(".")


def test_no_circle_of_modules() -> None:
    assert import_graph.circles(import_graph.module_graph()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_of_the_parts_of_a_package(package: str) -> None:
    assert import_graph.circles(import_graph.parts_graph(package)) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert sorted(map(sorted, import_graph.circles(graph))) == [["a", "b", "c"], ["d", "e"]]


def test_every_floor_is_lived_on() -> None:
    names = set().union(*FLOORS)
    parts = {inside(part) for part in import_graph.parts_graph("nczarr")} - {""}
    assert names == parts
    rooms = {
        f"nczarr.{package}.{name}" for package, floors in SUB_FLOORS.items() for name in set().union(*floors)
    }
    assert rooms == {package for package in PACKAGES if package.count(".") == 2}


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


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("nczarr.session")])
def test_the_core_of_editing_knows_nothing_of_netcdf4_python(module: str) -> None:
    around = {m for m in import_graph.imports_of(module) if m.startswith("nczarr.netcdf4")}
    assert {m for m in around if not m.startswith("nczarr.session")} == set()
    assert "NetCDF" not in "".join(
        re.findall(r"class \w+|raise \w+", import_graph.modules()[module].read_text())
    )


@pytest.mark.parametrize("package", [p for p in PACKAGES if inside(p) and "." not in inside(p)])
def test_sub_packages_import_only_from_floors_below(package: str) -> None:
    floors = SUB_FLOORS.get(inside(package), [])
    floor = {f"{package}.{name}": number for number, names in enumerate(floors) for name in names}
    deep = [p for p in PACKAGES if p.startswith(package + ".")]
    assert all(p.count(".") == 2 for p in deep), "two levels of packages are enough"
    graph = import_graph.parts_graph(package)
    up = {(a, b) for a in floor for b in graph.get(a, ()) if floor.get(b, -1) >= floor[a]}
    assert up == set()


def inner_imports(module: str) -> Iterator[tuple[str, str]]:
    """Names that a module imports, as it is loaded, from modules of other rooms. In functions it may: to load less."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    for node in ast.parse(import_graph.modules()[module].read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module in import_graph.modules():
            room = str(node.module).rpartition(".")[0]
            outside = package != room and not package.startswith(f"{room}.")
            if outside and node.module not in PACKAGES:
                yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("module", [m for m in MODULES if m != "nczarr"])
def test_rooms_are_entered_by_their_fronts(module: str) -> None:
    own = module.split(".")[:2]
    for inner, name in inner_imports(module):
        parts = inner.split(".")
        front = import_module(".".join(parts[:2]))
        if parts[:2] != own and name in getattr(front, "__all__", ()):
            exported = getattr(front, name) is getattr(import_module(inner), name)
            assert not exported, f"{module}: import {name} from {front.__name__}, not from {inner}"


@pytest.mark.parametrize("package", [p for p in PACKAGES if p.count(".") == 2])
def test_fronts_say_what_the_room_is_for(package: str) -> None:
    source = import_graph.modules()[package].read_text("utf-8")
    tree = ast.parse(source)
    assert len((ast.get_docstring(tree) or "").splitlines()) > 1, "one line is not a paragraph"


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "nczarr"])
def test_fronts_give_what_they_import(package: str) -> None:
    """Names that are loaded when they are first used are those that readers and type checkers see."""
    tree = ast.parse(import_graph.modules()[package].read_text("utf-8"))
    front = import_module(package)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and str(node.module).startswith("nczarr")
            and node.module != "nczarr.lazy"
        ):
            for alias in node.names:
                if f"{node.module}.{alias.name}" not in MODULES:
                    assert getattr(front, alias.name) is getattr(import_module(str(node.module)), alias.name)
                    lazily = node not in tree.body
                    # The module would take the place of what has its name.
                    assert not (lazily and f"{package}.{alias.name}" in MODULES)


@pytest.mark.parametrize("module", [m for m in MODULES if m not in PACKAGES])
def test_imports_are_seen(module: str) -> None:
    """Only fronts load parts of nczarr by name; they name them under TYPE_CHECKING too."""
    source = import_graph.modules()[module].read_text("utf-8")
    assert not re.search(r"import_module\(f?.nczarr|__import__\(", source)


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_do(module: str) -> None:
    tree = ast.parse(import_graph.modules()[module].read_text("utf-8"))
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    assert first, "no docstring"
    assert not re.match(r"What\b", first), first
    # A verb and its object; a package may be named by what it is.
    nouns = r"(The|An?|One|How|Where|Which|Names|Types|Errors|Helpers|Arrays|Plain|NCZarr|netCDF|Zarr)\b"
    assert module in PACKAGES or not re.match(nouns, first), first
    assert first.endswith((".", ":")), first
    assigned = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    names = {target.id for target in assigned if isinstance(target, ast.Name)}
    assert module in PACKAGES or "__all__" not in names, "only the front of a package has __all__"

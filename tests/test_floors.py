"""The architecture, proved from the imports: no circle at any level, and no arrow up.

Imports inside functions and under TYPE_CHECKING count: what a reader has to know is the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import import_graph

#: Floors, the lowest first: a package or module of nczarr imports only from floors below its own.
FLOORS = [
    {"dataclass"},
    {"lazy", "options", "text"},
    {"display", "grammar", "errors"},
    {"compression", "indices", "json_values", "rooms", "system", "targets"},
    {"model", "formats"},
    {"stores", "transfer"},
    {"zarr"},
    {"mapping", "cdl", "netcdf"},
    {"session"},
    {"netcdf4"},
    {"xarray_model"},
    {"convert"},
    {"view"},
    {"cli", "xarray"},
    {"__main__"},
]
#: Floors of the sub-packages inside a package. Its modules beside them have no floor, but are in no circle.
SUB_FLOORS = {
    "stores": [{"remote"}],
    "zarr": [{"codecs", "documents"}, {"chunks"}, {"hierarchy"}],
    "mapping": [{"values"}, {"plain"}, {"nczarr3"}, {"nczarr2"}, {"dataset"}],
    "cdl": [{"syntax", "write"}, {"read"}],
    "netcdf": [{"bytes"}, {"hdf5"}, {"edit"}],
    "convert": [{"verify"}, {"values"}, {"change"}, {"many"}],
    "netcdf4": [{"values"}],
    "view": [{"picture"}, {"page"}],
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


def test_no_circle_of_the_parts_of_a_package() -> None:
    found = {package: import_graph.circles(import_graph.parts_graph(package)) for package in PACKAGES}
    assert {package: circles for package, circles in found.items() if circles} == {}


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


def test_imports_only_from_floors_below() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    found = []
    for module in MODULES:
        own = inside(module).split(".")[0]
        if not own:  # the package's front sees everything
            continue
        for imported in sorted(import_graph.imports_of(module)):
            other = inside(imported).split(".")[0]
            if other and other != own:
                if floor[other] >= floor[own]:
                    found.append(f"{module} (floor {floor[own]}) imports {imported} (floor {floor[other]})")
                if other in UNKNOWN.get(own, ()):
                    found.append(f"{module} imports {imported}: nczarr.{own} must not know nczarr.{other}")
    assert not found, "\n".join(found)


def test_the_core_of_editing_knows_nothing_of_netcdf4_python() -> None:
    found = []
    for module in (m for m in MODULES if m.startswith("nczarr.session")):
        found += [
            f"{module} imports {m}" for m in import_graph.imports_of(module) if m.startswith("nczarr.netcdf4")
        ]
        classes = re.findall(r"class \w+|raise \w+", import_graph.modules()[module].read_text())
        found += [f"{module}: {name}" for name in classes if "NetCDF" in name]
    assert not found, "\n".join(found)


def test_sub_packages_import_only_from_floors_below() -> None:
    found = []
    for package in (p for p in PACKAGES if inside(p) and "." not in inside(p)):
        floors = SUB_FLOORS.get(inside(package), [])
        floor = {f"{package}.{name}": number for number, names in enumerate(floors) for name in names}
        deep = [p for p in PACKAGES if p.startswith(package + ".")]
        assert all(p.count(".") == 2 for p in deep), "two levels of packages are enough"
        graph = import_graph.parts_graph(package)
        found += [f"{a} imports {b}" for a in floor for b in graph.get(a, ()) if floor.get(b, -1) >= floor[a]]
    assert not found, "\n".join(found)


def test_the_edge_to_xarray_stands_on_the_values_of_netcdf4() -> None:
    """It creates variables by the rules of netCDF4-python, which lie below its classes: in ``netcdf4.values``."""
    inside_only = re.compile(r"nczarr\.netcdf4\.(creation|declarations|variable|dataset|multi_file)")
    edge = [m for m in MODULES if m.startswith(("nczarr.xarray.", "nczarr.xarray_model."))]
    found = [f"{m} imports {i}" for m in edge for i in import_graph.imports_of(m) if inside_only.match(i)]
    assert len(edge) > 4
    assert not found, "\n".join(found)


def inner_imports(module: str) -> Iterator[tuple[str, str]]:
    """Names that a module imports, as it is loaded, from modules of other rooms. In functions it may: to load less."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    for node in ast.parse(import_graph.modules()[module].read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module in import_graph.modules():
            room = str(node.module).rpartition(".")[0]
            outside = package != room and not package.startswith(f"{room}.")
            if outside and node.module not in PACKAGES:
                yield from ((str(node.module), alias.name) for alias in node.names)


def test_rooms_are_entered_by_their_fronts() -> None:
    found = []
    for module in (m for m in MODULES if m != "nczarr"):
        own = module.split(".")[:2]
        for inner, name in inner_imports(module):
            front = import_module(".".join(inner.split(".")[:2]))
            exported = name in getattr(front, "__all__", ()) and front.__name__.split(".") != own
            if exported and getattr(front, name) is getattr(import_module(inner), name):
                found.append(f"{module}: import {name} from {front.__name__}, not from {inner}")
    assert not found, "\n".join(found)


def test_fronts_say_what_the_room_is_for() -> None:
    for package in (p for p in PACKAGES if p.count(".") == 2):
        tree = ast.parse(import_graph.modules()[package].read_text("utf-8"))
        assert len((ast.get_docstring(tree) or "").splitlines()) > 1, (
            f"{package}: one line is not a paragraph"
        )


def test_fronts_give_what_they_import() -> None:
    """Names that are loaded when they are first used are those that readers and type checkers see."""
    for package in (p for p in PACKAGES if p != "nczarr"):
        tree = ast.parse(import_graph.modules()[package].read_text("utf-8"))
        front = import_module(package)
        for node in ast.walk(tree):
            home = str(node.module) if isinstance(node, ast.ImportFrom) else ""
            if not isinstance(node, ast.ImportFrom) or not home.startswith("nczarr") or home == "nczarr.lazy":
                continue
            for name in (alias.name for alias in node.names if f"{home}.{alias.name}" not in MODULES):
                assert getattr(front, name) is getattr(import_module(home), name), f"{package}: {name}"
                # A module of this name would take the place of what is loaded lazily.
                lazily = node not in tree.body
                assert not (lazily and f"{package}.{name}" in MODULES), f"{package}: {name} is a module too"


def test_imports_are_seen() -> None:
    """Only fronts load parts of nczarr by name; they name them under TYPE_CHECKING too."""
    pattern = re.compile(r"import_module\(f?.nczarr|__import__\(")
    sources = {m: import_graph.modules()[m].read_text("utf-8") for m in MODULES if m not in PACKAGES}
    assert [module for module, source in sources.items() if pattern.search(source)] == []


def test_modules_say_what_they_do() -> None:
    # A verb and its object; a package may be named by what it is.
    nouns = r"(The|An?|One|How|Where|Which|Names|Types|Errors|Helpers|Arrays|Plain|NCZarr|netCDF|Zarr)\b"
    found = []
    for module in MODULES:
        tree = ast.parse(import_graph.modules()[module].read_text("utf-8"))
        first = (ast.get_docstring(tree) or "").partition("\n")[0]
        if not first or re.match(r"What\b", first) or not first.endswith((".", ":")):
            found.append(f"{module}: the first line is no sentence with a verb: {first!r}")
        if module not in PACKAGES:
            assigned = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
            names = {target.id for target in assigned if isinstance(target, ast.Name)}
            if re.match(nouns, first):
                found.append(f"{module}: begin with a verb: {first!r}")
            if "__all__" in names:
                found.append(f"{module}: only the front of a package has __all__")
    assert not found, "\n".join(found)


#: Class names that several modules define, and why. Any other name is a word for one thing.
REPEATED = {
    **dict.fromkeys(
        ("Attribute", "Dimension", "Group", "Variable"), "a rule of CDL, a node of the model, an object"
    ),
    **dict.fromkeys(
        ("Dataset", "CompoundType", "EnumType", "OpaqueType"), "of the model, and of netCDF4-python"
    ),
    "Field": "a rule of CDL, and the field of a compound type",
    "Values": "a rule of CDL, and the view of a mapping, which is shown as dict_values",
}


def test_a_class_name_stands_for_one_thing() -> None:
    homes: dict[str, set[str]] = {}
    for module in MODULES:
        for node in ast.walk(ast.parse(import_graph.modules()[module].read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), set()).add(module)
    several = {name: sorted(modules) for name, modules in homes.items() if len(modules) > 1}
    assert several.keys() == REPEATED.keys(), {n: m for n, m in several.items() if n not in REPEATED}


def test_a_flag_has_two_states() -> None:
    """A third state has a name: an enum, another function, or a default. Some signatures are of other libraries."""
    sources = [import_graph.modules()[module].read_text("utf-8") for module in MODULES]
    assert sum(len(re.findall(r"\bbool \| None\b", source)) for source in sources) <= 15

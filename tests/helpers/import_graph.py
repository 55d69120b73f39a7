"""Read the import graph of the package from its source: modules, and the parts of each package."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "nczarr"

Graph = dict[str, set[str]]


def name_of(path: Path) -> str:
    """Return the dotted name of a module. A package has the name of its folder."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Return every module by its name."""
    return {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def packages() -> tuple[str, ...]:
    """Return the names of the package and its sub-packages."""
    return tuple(name for name, path in modules().items() if path.name == "__init__.py")


@cache
def imports_of(name: str) -> set[str]:
    """Return the modules of this package that a module imports, also in functions and under TYPE_CHECKING."""
    known, found = modules(), set()
    for node in ast.walk(ast.parse(known[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{known[name]}:{node.lineno}: a relative import")
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [each if each in known else str(node.module) for each in whole]
        else:
            continue
        found.update(each for each in names if each in known)
    return found - {name}


@cache
def module_graph() -> Graph:
    """Return the imports of each module."""
    return {name: imports_of(name) for name in modules()}


def part_of(module: str, package: str) -> str | None:
    """Return the part of a package (module, sub-package, or its front) that contains a module, or None."""
    if module == package:
        return package
    if not module.startswith(package + "."):
        return None
    return package + "." + module[len(package) + 1 :].split(".")[0]


def parts_graph(package: str) -> Graph:
    """Return the imports between the parts of a package."""
    graph: Graph = {}
    for module, imported in module_graph().items():
        own = part_of(module, package)
        if own is not None:
            others = {part_of(each, package) for each in imported}
            graph.setdefault(own, set()).update(each for each in others if each not in (None, own))
    return graph


def circles(graph: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            circle = set(stack[at:])
            del stack[at:]
            if len(circle) > 1:
                found.append(circle)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found

"""Functions of many branches: none of more than 25."""

from __future__ import annotations

import ast
from functools import cache

import import_graph

MOST = 25
#: Functions that have more, with their number of branches. No function comes to this list: a rule in it has a name of
#: its own, and becomes a function, a table, or a method of the type that it is about.
KNOWN: dict[str, int] = {}
#: Each of these nodes is a branch; a chain of `and` or `or` is one for each operand after the first.
BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.BoolOp, ast.comprehension, ast.Match
)  # fmt: skip


def branches(function: ast.AST) -> int:
    """Return the number of ways that a reader of a function keeps in mind."""
    found = [node for node in ast.walk(function) if isinstance(node, BRANCHES)]
    return 1 + sum(len(node.values) - 1 if isinstance(node, ast.BoolOp) else 1 for node in found)


@cache
def functions() -> list[tuple[str, int]]:
    """Return the names of all functions, with their numbers of branches."""
    found = []
    for module, path in import_graph.modules().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((f"{module}.{node.name}", branches(node)))
    return found


def test_no_function_has_many_branches() -> None:
    found = {name: count for name, count in functions() if count > KNOWN.get(name, MOST)}
    assert not found, f"split by idea what has more than {MOST} branches: {found}"


def test_the_list_has_only_functions_of_many_branches() -> None:
    many = {name for name, count in functions() if count > MOST}
    assert KNOWN.keys() <= many, "take from the list what has been split"


def test_branches_are_counted() -> None:
    text = "def f(a, b, c):\n    if a and b or c:\n        return [x for x in a if x]\n    return b if c else a\n"
    assert branches(ast.parse(text)) == 1 + 1 + 2 + 1 + 1

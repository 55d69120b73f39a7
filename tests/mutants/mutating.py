"""Write mutants into a copy of the package: each is a changed expression or statement, off until it is switched on."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

#: The package is copied with this module beside it. A mutant is on by the environment, so that children have it too.
SWITCH = '''"""Switch mutants, and note which are reached."""

import os

ON = int(os.environ.get("NCZARR_MUTANT", "-1"))
NOTES = os.environ.get("NCZARR_MUTANTS_REACHED")
reached = set()


def on(number):
    if NOTES and number not in reached:
        reached.add(number)
        with open(NOTES, "a") as notes:
            notes.write(f"{number}\\n")
    return number == ON
'''
#: Nearly every test kills a function that returns nothing: these are chosen less often.
RARELY = {"return": 0.3, "dropped": 0.8}
#: What no test of a run of mutants looks at: pages in the browser, colours.
LEFT_OUT = ("nczarr/view/", "nczarr/cdl/highlighting.py")
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
}
FUTURE = b"from __future__ import annotations\n"


@dataclass(frozen=True)
class Mutant:
    """A change of the bytes between two places of a file."""

    file: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    new: str
    number: int = -1

    @property
    def package(self) -> str:
        return self.file.split("/")[1].removesuffix(".py")

    @property
    def overlaid(self) -> str:
        """The source that has both, the old and the new."""
        if self.new == "":
            return f"if not _mutant({self.number}): {self.old}"
        return f"({self.new} if _mutant({self.number}) else ({self.old}))"

    def __str__(self) -> str:
        new = self.new or "nothing"
        return f"{self.number} {self.file}:{self.line} [{self.operator}] {self.old!r} -> {new!r}"


class Finder(ast.NodeVisitor):
    """Find what can be changed inside functions; wordings of messages, annotations and tables are left alone."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.found: list[Mutant] = []
        self.inside = False
        lengths = [len(line) + 1 for line in source.split(b"\n")]
        self.starts = [sum(lengths[:i]) for i in range(len(lengths))]

    # -- places

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def text(self, start: int, end: int) -> str:
        return self.source[start:end].decode()

    def expression(self, operator: str, node: ast.expr, new: str) -> None:
        start, end = self.span(node)
        self.found.append(Mutant(self.file, node.lineno, operator, start, end, self.text(start, end), new))

    def statement(self, operator: str, node: ast.stmt) -> None:
        """Drop a simple statement that begins its line."""
        start, end = self.span(node)
        if not hasattr(node, "body") and not self.source[self.starts[node.lineno - 1] : start].strip():
            self.found.append(Mutant(self.file, node.lineno, operator, start, end, self.text(start, end), ""))

    def between(
        self, operator: str, node: ast.expr, left: ast.expr, right: ast.expr, signs: tuple[str, str]
    ) -> None:
        """Change the sign between two operands of an expression."""
        (start, end), here, there = self.span(node), self.span(left)[1], self.span(right)[0]
        old, new = signs
        word = rf"\b{old}\b" if old[0].isalpha() else old
        if place := re.search(word, self.text(here, there)):
            at, behind = here + place.start(), here + place.end()
            self.expression(operator, node, f"({self.text(start, at)}{new}{self.text(behind, end)})")

    # -- what is entered

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "_repr_html_"):
            return
        self.inside, outside = True, self.inside
        for statement in node.body:
            self.visit(statement)
        self.inside = outside

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.inside, outside = False, self.inside
        for statement in node.body:
            self.visit(statement)
        self.inside = outside

    def visit_match_case(self, node: ast.match_case) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def pass_over(self, node: ast.AST) -> None:
        """Leave a node alone."""

    visit_Import = visit_ImportFrom = visit_JoinedStr = visit_Assert = visit_Raise = visit_Lambda = pass_over

    # -- what is changed

    def visit(self, node: ast.AST) -> None:
        """Change a node, if it is in a function, and enter it."""
        if self.inside:
            match node:
                case ast.Compare():
                    for left, sign, right in zip([node.left, *node.comparators], node.ops, node.comparators):
                        self.between("comparison", node, left, right, COMPARISONS[type(sign)])
                case ast.BoolOp():
                    signs = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                    for left, right in zip(node.values, node.values[1:]):
                        self.between("boolean", node, left, right, signs)
                case ast.UnaryOp(op=ast.Not()):
                    self.expression("not", node, f"({self.text(*self.span(node.operand))})")
                case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node):
                    self.between("arithmetic", node, node.left, node.right, ARITHMETIC[type(node.op)])
                case ast.Constant(value=bool(value)):
                    self.expression("constant", node, str(not value))
                case ast.Constant(value=int(value)):
                    self.expression("constant", node, str(value + 1))
                case ast.If() | ast.IfExp() | ast.While():
                    self.expression("condition", node.test, "False")
                case ast.With():
                    for item in node.items:
                        if item.optional_vars is None and "lock" in ast.unparse(item.context_expr).lower():
                            off = "__import__('contextlib').nullcontext()"
                            self.expression("lock", item.context_expr, off)
                case ast.ExceptHandler() if not isinstance(node.body[0], ast.Pass | ast.Raise):
                    self.statement("handler", node.body[0])
                case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                    self.expression("return", value, "None")
                case (
                    ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete()
                ):
                    self.statement("dropped", node)
                case ast.Assign() if all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets):
                    self.statement("dropped", node)
        super().visit(node)


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def find(file: str, source: bytes) -> list[Mutant]:
    """Find all mutants of a module.

    >>> for mutant in find("nczarr/a.py", b"def f(x):\\n    return x < 1\\n"):
    ...     print(mutant)
    -1 nczarr/a.py:2 [return] 'x < 1' -> 'None'
    -1 nczarr/a.py:2 [comparison] 'x < 1' -> '(x <= 1)'
    -1 nczarr/a.py:2 [constant] '1' -> '2'
    """
    finder = Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.found


def choose(sources: dict[str, bytes], seed: int, count: int) -> list[Mutant]:
    """Choose mutants by a seed, one a line at most; none lies in another."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for file in sorted(sources):
        for mutant in find(file, sources[file]):
            by_line.setdefault((file, mutant.line), []).append(mutant)
    choice = random.Random(seed)
    chosen: list[Mutant] = []
    for line in choice.sample(sorted(by_line), len(by_line)):
        weights = [RARELY.get(mutant.operator, 1) for mutant in by_line[line]]
        (mutant,) = choice.choices(by_line[line], weights)
        if not any(_overlap(mutant, other) for other in chosen):
            chosen.append(replace(mutant, number=len(chosen)))
        if len(chosen) == count:
            break
    return chosen


def _overlap(one: Mutant, other: Mutant) -> bool:
    return one.file == other.file and one.start < other.end and other.start < one.end


def overlay(source: bytes, mutants: Iterable[Mutant]) -> bytes:
    """Write mutants of one module into its source; no line moves."""
    for mutant in sorted(mutants, key=lambda m: -m.start):
        source = source[: mutant.start] + mutant.overlaid.encode() + source[mutant.end :]
    return source.replace(FUTURE, FUTURE[:-1] + b"; from nczarr_mutants import on as _mutant\n", 1)


def modules(root: Path, packages: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes]]:
    """Give the modules of the package that can be mutated, and their sources."""
    for path in sorted((root / "nczarr").rglob("*.py")):
        file, source = path.relative_to(root).as_posix(), path.read_bytes()
        wanted = not packages or file.split("/")[1].removesuffix(".py") in packages
        if wanted and not file.startswith(LEFT_OUT) and FUTURE in source:
            yield file, source


def write(root: Path, mutants: list[Mutant]) -> None:
    """Write mutants, and their switch, into a copy of the project."""
    for file in {mutant.file for mutant in mutants}:
        path = root / file
        source = overlay(path.read_bytes(), [mutant for mutant in mutants if mutant.file == file])
        compile(source, file, "exec")
        path.write_bytes(source)
    (root / "nczarr_mutants.py").write_text(SWITCH)

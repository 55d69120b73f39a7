"""Render the tree of exceptions as a page: run this script, and read ``docs/reference/generated/errors.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from nczarr import errors

OUTPUT = Path(__file__).parent / "reference" / "generated" / "errors.md"

_HEAD = """# Errors

All errors that nczarr raises are below `nczarr.NCZarrError`. The others are in `nczarr.errors`. A message tells the
file or store, the node, the problem and, if known, the remedy; `path`, `fqn`, `message` and `hint` have these parts. An
indented class is a special case of the one above it. The netCDF4 interface also raises the builtin exception that
netCDF4-python raises in the same place.

| exception | builtin base | when it is raised |
|---|---|---|
"""


def rows(kind: type[errors.NCZarrError] = errors.NCZarrError, depth: int = 0) -> Iterator[str]:
    """Yield the rows of a class and of those below it."""
    builtin = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
    own = builtin[0] if builtin[0] != "Exception" else ""
    when = (inspect.getdoc(kind) or "").splitlines()[0]
    when = re.sub(r" \(also an? :class:`\w+`\)", "", re.sub(r":\w+:`~?([^`]+)`", r"`\1`", when))
    when = re.sub(r" \(also an? `\w+`\)", "", when)
    yield f"| {'&emsp;' * depth}`{kind.__name__}` | {f'`{own}`' if own else ''} | {when} |"
    for child in tree(kind):
        yield from rows(child, depth + 1)


def tree(kind: type[errors.NCZarrError]) -> list[type[errors.NCZarrError]]:
    """Return the classes of the module directly below a class, in the order of the module."""
    return [each for each in vars(errors).values() if isinstance(each, type) and kind in each.__bases__]


def page() -> str:
    """Return the page."""
    return _HEAD + "\n".join(rows()) + "\n"


def main() -> None:
    """Write the page."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()

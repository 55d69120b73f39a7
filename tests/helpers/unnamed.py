"""List the public names that no test, page or example names: ``python tests/helpers/unnamed.py``.

An example of a docstring is a test, which the test command runs; the description of a class names its attributes in the
reference. The changelog, and the pages that are generated, do not count.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from public_names import FRONTS, front

ROOT = Path(__file__).parents[2]
_WORD = re.compile(r"\w+")


@cache
def described() -> dict[str, dict[str, Any]]:
    return {name: front(name) for name in FRONTS}


def texts() -> Iterator[str]:
    """The tests, the pages, and what the docstrings of public names show or describe."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "generated"]
    for path in [*pages, ROOT / "README.md", *(ROOT / "tests").rglob("*.py")]:
        if path.name not in ("changelog.md", Path(__file__).name):
            yield path.read_text("utf-8")
    for module, names in described().items():
        for name in names:
            yield from shown_by(getattr(import_module(module), name))


def shown_by(value: Any) -> Iterator[str]:
    """The description of a class, and the examples of a class, its methods, or a function."""
    if inspect.isclass(value):
        yield value.__doc__ or ""
        for cls in value.__mro__:
            if cls.__module__.startswith("nczarr"):
                yield from (examples(getattr(member, "__doc__", None)) for member in vars(cls).values())
    else:
        yield examples(getattr(value, "__doc__", None))


def examples(docstring: object) -> str:
    lines = docstring.splitlines() if isinstance(docstring, str) else []
    return "\n".join([line for line in lines if line.lstrip().startswith((">>>", "..."))])


def unnamed(known: Iterable[str]) -> list[str]:
    """The public names, and members of public classes, that are no word of the texts."""
    words = {word for text in known for word in _WORD.findall(text)}
    found = set()
    for module, names in described().items():
        for name, value in names.items():
            members = value.get("members", ()) if isinstance(value, dict) else ()
            found |= {f"{module}.{name}"} if name not in words else set()
            # Attributes of OSError are Python's own.
            members = [member for member in members if member not in words and member not in vars(OSError)]
            found |= {f"{module}.{name}.{member}" for member in members}
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(unnamed(texts())) or "every public name is named")

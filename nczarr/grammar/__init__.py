"""Read the Lark grammars: they are beside this file when nczarr is installed, and at the top of a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__all__ = ["read"]


def read(name: str) -> str:
    """The text of a grammar.

    Examples
    --------
    >>> "fqn" in read("names.lark")
    True
    """
    installed = files(__name__).joinpath(name)
    return (installed if installed.is_file() else _checkout() / name).read_text("utf-8")


def _checkout() -> Path:
    return Path(__file__).parents[2] / "grammar"

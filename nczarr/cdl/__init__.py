"""The CDL edge: datasets as text.

:func:`load` and :func:`loads` read what ncgen reads, :func:`dump` and :func:`dumps` print what ncdump prints, or more
where ncdump loses something. Reading and writing share no code: ``cdl.read`` needs Lark and is imported when it is
first used, ``cdl.write`` does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nczarr.cdl.write import DumpOptions, dump, dumped_variables, dumps

if TYPE_CHECKING:
    from nczarr.cdl.read import load, loads

__all__ = ["DumpOptions", "dump", "dumped_variables", "dumps", "load", "loads"]


def __getattr__(name: str) -> Any:
    if name in ("load", "loads"):
        return getattr(import_module("nczarr.cdl.read"), name)
    raise AttributeError(f"module 'nczarr.cdl' has no attribute {name!r}")

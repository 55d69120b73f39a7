"""The CDL edge: datasets as text."""

from typing import TYPE_CHECKING, Any

from nczarr.cdl.write.dump import dump, dumps
from nczarr.cdl.write.options import DumpOptions

if TYPE_CHECKING:
    from nczarr.cdl.read.load import load, loads

__all__ = ["DumpOptions", "dump", "dumps", "load", "loads"]


def __getattr__(name: str) -> Any:
    # Reading needs Lark; writing does not.
    if name in ("load", "loads"):
        from nczarr.cdl.read import load as loading

        return getattr(loading, name)
    raise AttributeError(f"module 'nczarr.cdl' has no attribute {name!r}")

"""The CDL edge: datasets as text."""

from nczarr.cdl.dump import dump, dumps
from nczarr.cdl.options import DumpOptions

__all__ = ["DumpOptions", "dump", "dumps"]

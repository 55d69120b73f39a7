"""The CDL edge: datasets as text.

:func:`load` and :func:`loads` read the language of ncgen. :func:`dump` and :func:`dumps` print the text of ncdump, or
more where ncdump loses information. Reading and writing share no code: ``cdl.read`` needs Lark and is imported on first
use.
"""

from typing import TYPE_CHECKING

from nczarr.cdl.write.dump import dump, dumped_variables, dumps
from nczarr.cdl.write.options import DumpOptions
from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.cdl.read.analyzer import load, loads
else:
    __getattr__ = lazy(__name__, {"read.analyzer": ["load", "loads"]})

__all__ = ["DumpOptions", "dump", "dumped_variables", "dumps", "load", "loads"]

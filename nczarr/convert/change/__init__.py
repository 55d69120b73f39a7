"""Change a model before it is written: parts of it, other names, other chunks.

Each function takes a dataset and gives another one, whose data are read through the first. Whatever does not fit
is refused here, before anything is written.
"""

from nczarr.convert.change.choose import choose
from nczarr.convert.change.rename import rename
from nczarr.convert.change.select import select
from nczarr.convert.change.shape import Shaping, shape

__all__ = ["Shaping", "choose", "rename", "select", "shape"]

"""Keep the value of a property with its object, as Python 3.12 does: without a lock.

Before, one lock for all objects is held while a value is made. The garbage collector may come then, and close a netCDF
file, for which it needs HDF5's lock; a thread that has that one may ask for a value, and both wait for ever.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is computed once; by two threads at a time it may be twice."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__(function)
            self.lock = nullcontext()

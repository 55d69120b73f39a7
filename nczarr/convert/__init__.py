"""Conversion: anything that nczarr reads to anything that it writes, through the model."""

from nczarr.convert.copying import copy
from nczarr.convert.formats import Kind, create_sink, kind_of_target, open_source
from nczarr.convert.progress import Progress
from nczarr.convert.verify import diff

__all__ = ["Kind", "Progress", "copy", "create_sink", "diff", "kind_of_target", "open_source"]

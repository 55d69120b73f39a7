"""Convert anything that nczarr reads to anything that it writes, through the model."""

from nczarr.convert.copying import copy
from nczarr.convert.edges import create_sink, open_source
from nczarr.convert.progress import Progress
from nczarr.convert.verify import diff
from nczarr.formats import Kind, kind_of_target

__all__ = ["Kind", "Progress", "copy", "create_sink", "diff", "kind_of_target", "open_source"]

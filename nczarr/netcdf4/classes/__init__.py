"""Show an open dataset as the classes of netCDF4-python: Dataset, Group, Dimension, Variable, and the user types.

Each holds a node and the session of the editable core (``netcdf4.edit``) and says what they hold in that library's
words; values go through ``netcdf4.values``.
"""

from nczarr.netcdf4.classes.attributes import data_model_of, node_of, session_of
from nczarr.netcdf4.classes.dataset import Dataset, Group
from nczarr.netcdf4.classes.dimension import Dimension
from nczarr.netcdf4.classes.user_types import CompoundType, EnumType, OpaqueType, VLType
from nczarr.netcdf4.classes.variable import Variable

__all__ = [
    "CompoundType",
    "Dataset",
    "Dimension",
    "EnumType",
    "Group",
    "OpaqueType",
    "VLType",
    "Variable",
    "data_model_of",
    "node_of",
    "session_of",
]

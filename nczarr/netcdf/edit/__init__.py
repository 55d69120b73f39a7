"""Edit netCDF files in place: change the model and the values without a copy of the file.

:func:`open_file` opens an existing file, :func:`create_file` creates a new one. Both return an object with
the model (``dataset``) and the values of each variable (``data``). ``update`` changes the model,
``data(fqn).write`` changes values, ``sync`` writes all changes to the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.lazy import lazy

if TYPE_CHECKING:
    from nczarr.netcdf.edit.files import EditedFile, create_file, edit_copy, edit_records, open_file
    from nczarr.netcdf.edit.hdf5_file import FixedFileError
else:
    __getattr__ = lazy(
        __name__,
        {
            "files": ["EditedFile", "create_file", "edit_copy", "edit_records", "open_file"],
            "hdf5_file": ["FixedFileError"],
        },
    )

__all__ = ["EditedFile", "FixedFileError", "create_file", "edit_copy", "edit_records", "open_file"]

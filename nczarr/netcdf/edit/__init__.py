"""Edit netCDF files in place: all changes of the model and its values, without a copy of the file in between.

:func:`open_file` opens one that is there, :func:`create_file` makes a new one. What they give says its model
(``dataset``) and the values of a variable (``data``), and takes changes of both (``update``, ``data(fqn).write``);
``sync`` brings everything to the file.
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

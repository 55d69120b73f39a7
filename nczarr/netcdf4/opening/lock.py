"""Keep other writers away from a dataset in the local file system."""

from __future__ import annotations

import gc

from nczarr.netcdf4.errors import NetCDFLockedError
from nczarr.system.finalizing import close_dropped
from nczarr.system.locks import Lock

_HINT = "close it there; or open it with shared=True, here and there, to write different chunks"


class WriterLock(Lock):
    """A :class:`~nczarr.system.locks.Lock` whose errors are those of the interface.

    Raises
    ------
    NetCDFLockedError
        If it is taken.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = WriterLock(folder)
    ...     lock.release()
    """

    def __init__(self, path: str, *, shared: bool = False, hint: str = _HINT) -> None:
        try:
            super().__init__(path, shared=shared)
            return
        except BlockingIOError:
            gc.collect()  # a dataset that the program has dropped may hold it, HDF5's reader of a file, too
            close_dropped()
        try:
            super().__init__(path, shared=shared)
        except BlockingIOError as error:
            raise NetCDFLockedError(
                "the dataset is open for writing, here or in another process",
                path=path,
                hint=hint,
            ) from error

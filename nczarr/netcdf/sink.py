"""Write a netCDF file under a temporary name, and rename it when it is complete."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from nczarr.errors import NCZarrError, NetCDFFileError, PartlyStoredError, SelectionError
from nczarr.model import Dataset, Region
from nczarr.model.sources import refuse_cast
from nczarr.netcdf.bytes.file import DiskFile, file_errors
from nczarr.netcdf.edit.opening import check_target, edited_file
from nczarr.system.atomic import Output
from nczarr.system.locks import Rank, make_lock
from nczarr.transfer import block_shape

#: Target size of the blocks in which values are written, in bytes.
_BLOCK_BYTES = 4 << 20


class FileSink:
    """Writes a netCDF file; implements :class:`~nczarr.model.DatasetSink`.

    The file grows under a temporary name beside the target. :meth:`commit` renames it to the target,
    :meth:`abort` removes it. As a context manager, the sink aborts on exit unless it was committed. Methods
    are safe to call from any thread.

    Attributes
    ----------
    path : str
        The target.
    dataset : Dataset
        The dataset that the file stores.

    Examples
    --------
    >>> import os, tempfile
    >>> from nczarr.netcdf import create_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "a.nc")
    >>> with create_dataset(path, Dataset("a", format="classic")) as sink:
    ...     print(os.path.exists(path))
    ...     sink.commit()
    False
    >>> os.path.exists(path)
    True
    >>> folder.cleanup()
    """

    concurrent = True
    #: False if :meth:`commit` does not wait for the disk.
    durable = True

    def __init__(self, path: str, dataset: Dataset, overwrite: bool) -> None:
        self.path = path
        self.dataset = dataset
        self._overwrite = overwrite
        self._lock = make_lock(Rank.STRUCTURE)
        self._open = True
        with file_errors(path):
            self._output = Output(path)
        self._check_target()
        with file_errors(path):
            content = DiskFile(str(self._output.path), "x", self._output.create())
        content.durable = False  # `commit` syncs the complete file
        try:
            self._file = edited_file(path, content, dataset, self._output)
        # An editor stores what it can and names the rest. A new file with a missing part is
        # removed instead.
        except PartlyStoredError as error:
            raise error.failures[0][1] from None

    def _check_target(self) -> None:
        if not self._output.is_stream:
            check_target(self.path, self._overwrite)

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the block shape for efficient writes of a variable: whole chunks, a few MiB."""
        variable = self.dataset.variable_at(fqn)
        chunk, itemsize = self._file.data(fqn).chunk_shape, variable.type.dtype.itemsize
        return block_shape(self.dataset.shape_of(variable), chunk, None, itemsize, _BLOCK_BYTES)

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write values to a region of a variable.

        Parameters
        ----------
        fqn : str
        region : tuple of slice
            With a step of 1 on every axis.
        values : ndarray
            With the variable's dtype and the region's shape.

        Raises
        ------
        ModelError
            If the values have another dtype.
        SelectionError
            If the region exceeds the variable, or the shape of the values differs from the region's.
        NetCDFFileError
            If the file cannot be written.
        """
        variable = self.dataset.variable_at(fqn)
        shape = self.dataset.shape_of(variable)
        fits = len(region) == len(shape) and all(
            0 <= s.start <= s.stop <= n and (s.step or 1) == 1 for s, n in zip(region, shape, strict=True)
        )
        values = np.asarray(values)
        # numpy casts in silence: a float64 source for an int lost its fractions.
        refuse_cast(values, variable.type.dtype, fqn)
        if not fits or values.shape != tuple(s.stop - s.start for s in region):
            raise SelectionError(
                f"values of the shape {values.shape} for the region {region} of a variable of the shape {shape}",
                path=self.path,
                fqn=fqn,
            )
        if not self._open:
            raise NetCDFFileError("the file is closed", path=self.path, fqn=fqn)
        if values.size:
            self._file.data(fqn).write(region, values)

    def commit(self) -> None:
        """Complete the file and rename it to the target.

        Raises
        ------
        DatasetExistsError
            If another file took the target's name meanwhile and `overwrite` is false.
        """
        with self._lock:
            if not self._open:
                return
            try:
                self._file.sync()
                self._check_target()
                self._output.durable = self.durable
                self._file.close()
            except BaseException:
                self.abort()
                raise
            self._open = False

    def abort(self) -> None:
        """Close and remove the unfinished file. After :meth:`commit` this has no effect."""
        with self._lock:
            if self._open:
                self._open = False
                # Closing fails again after a full disk. The caller raises the first
                # error.
                with suppress(NCZarrError, OSError, RuntimeError, ValueError):
                    self._file.abandon()

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()

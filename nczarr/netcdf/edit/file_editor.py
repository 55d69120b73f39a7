"""Share the model, publication and closing among the editors of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from nczarr.errors import ModelError, NCZarrError, NetCDFFileError
from nczarr.model import Dataset, with_lengths
from nczarr.netcdf.bytes.file import ByteFile, DiskFile
from nczarr.system.atomic import Output
from nczarr.system.forks import Origin


class FileEditor(ABC):
    """A netCDF file, open for reading and writing.

    Parameters
    ----------
    path : str
        The path in error messages and for finding the file again.
    output : Output, optional
        Renames a new file when it is published. None if the file has its final name.
    content : ByteFile
        The bytes of the file.
    """

    #: The netCDF library's name of the disk format.
    disk_format: str
    _dataset: Dataset

    def __init__(self, path: str, output: Output | None, content: ByteFile) -> None:
        self.path = path
        self._content = content
        self.origin = Origin()
        self._output = output
        #: Dimension lengths that the model does not have yet.
        self._sizes: dict[str, int] = {}

    @property
    def dataset(self) -> Dataset:
        """The model, with the data of its variables."""
        if self._sizes:
            self._dataset = with_lengths(self._dataset, self._sizes)
            self._sizes.clear()
        return self._dataset

    @property
    def durable(self) -> bool | None:
        """False if :meth:`sync` and :meth:`close` do not wait for the disk."""
        return self._content.durable

    @durable.setter
    def durable(self, durable: bool | None) -> None:
        if isinstance(self._content, DiskFile):
            self._content.durable = durable is not False
        if self._output is not None:
            self._output.durable = durable is not False

    @property
    def place(self) -> str:
        """The current path of the bytes: a temporary name until a new file is published."""
        return self.path if self._output is None else str(self._output.path)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """False after :meth:`close`."""

    @property
    @abstractmethod
    def _data(self) -> Mapping[str, Any]:
        """The values of all variables, by FQN."""

    def data(self, fqn: str) -> Any:
        """Return the values of a variable."""
        try:
            return self._data[fqn]
        except KeyError:
            raise ModelError(f"the file has no variable {fqn!r}", path=self.path) from None

    @abstractmethod
    def check_model(self, dataset: Dataset) -> None:
        """Raise the errors of :meth:`update` for the parts of a dataset, without a change."""

    @abstractmethod
    def update(self, dataset: Dataset) -> None:
        """Change the file's content to `dataset`.

        A variable with data of :meth:`data` is that existing variable.
        """

    @abstractmethod
    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the lengths of unlimited dimensions, by FQN. Return False if this requires an update."""

    @abstractmethod
    def sync(self) -> None:
        """Write all pending changes."""

    def publish(self) -> None:
        """Rename a new file to its final name."""
        if self._output is not None:
            self.sync()
            output, self._output = self._output, None
            try:
                output.commit()
            except OSError as error:
                raise self._failed(error) from error

    def leave_unfinished(self, reason: str) -> None:
        """Close; what could not be written is not in the file."""
        self.close()

    def close(self) -> None:
        """Sync, publish and close. A new file whose completion fails is removed."""
        if not self.is_open:
            return
        try:
            self.sync()
            self._finish()
            if self._output is not None:
                self._output.commit()
                self._output = None
        except OSError as error:
            if isinstance(error, NCZarrError):
                raise
            raise self._failed(error) from error
        finally:
            self._let_go()
            self._discard()

    def abandon(self) -> None:
        """Close and remove a new file."""
        self._discard()
        self._let_go()

    @abstractmethod
    def _finish(self) -> None:
        """Write the last bytes to the file."""

    @abstractmethod
    def _let_go(self) -> None:
        """Close the file in any state. It may be closed already."""

    def _check_open(self) -> None:
        if not self.is_open:
            raise NetCDFFileError("the file is closed", path=self.path)

    def _failed(self, error: OSError) -> NetCDFFileError:
        return NetCDFFileError(f"the file cannot be written: {error.strerror or error}", path=self.path)

    def _discard(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.discard()

"""Keep what is the same for edited files of all formats: the model, the name of a new file, the end."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from nczarr.atomic import Output
from nczarr.errors import ModelError, NCZarrError, NetCDFFileError
from nczarr.model import Dataset, with_lengths
from nczarr.netcdf.bytes import ByteFile, DiskFile


class FileEditor(ABC):
    """A netCDF file that is open for reading and writing.

    Parameters
    ----------
    path : str
        For messages, and to find the file again.
    output : Output, optional
        Gives the file its name when it is published; None if it has it.
    content : ByteFile
        Its bytes.
    """

    #: The library's name of the kind of file.
    disk_format: str
    _dataset: Dataset

    def __init__(self, path: str, output: Output | None, content: ByteFile) -> None:
        self.path = path
        self._content = content
        self.process = os.getpid()
        self._output = output
        #: Lengths that the model does not say yet.
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
        """False: :meth:`sync` and :meth:`close` do not wait until the disk has everything."""
        return self._content.durable

    @durable.setter
    def durable(self, durable: bool | None) -> None:
        if isinstance(self._content, DiskFile):
            self._content.durable = durable is not False
        if self._output is not None:
            self._output.durable = durable is not False

    @property
    def place(self) -> str:
        """Where the bytes are now: under another name until a new file is published."""
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
        """The values of a variable."""
        try:
            return self._data[fqn]
        except KeyError:
            raise ModelError(f"there is no variable {fqn!r}", path=self.path) from None

    @abstractmethod
    def check_model(self, dataset: Dataset) -> None:
        """Raise what :meth:`update` would raise for the parts of a dataset, and change nothing."""

    @abstractmethod
    def update(self, dataset: Dataset) -> None:
        """Make the file say what `dataset` says; a variable with data of :meth:`data` is that variable."""

    @abstractmethod
    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the lengths of unlimited dimensions, given by FQN; False if this takes an update."""

    @abstractmethod
    def sync(self) -> None:
        """Write everything."""

    def publish(self) -> None:
        """Give a new file its name."""
        if self._output is not None:
            self.sync()
            output, self._output = self._output, None
            try:
                output.commit()
            except OSError as error:
                raise self._failed(error) from error

    def leave_unfinished(self) -> None:
        """Close; what could not be written is not in the file."""
        self.close()

    def close(self) -> None:
        """Sync, publish, and close; a new file that cannot be completed is removed."""
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
        """Close a new file that nobody wants any more: it goes."""
        self._discard()
        self._let_go()

    @abstractmethod
    def _finish(self) -> None:
        """Bring the last bytes to the file."""

    @abstractmethod
    def _let_go(self) -> None:
        """Close the file, whatever happened; it may be closed already."""

    def _check_open(self) -> None:
        if not self.is_open:
            raise NetCDFFileError("the file is closed", path=self.path)

    def _failed(self, error: OSError) -> NetCDFFileError:
        return NetCDFFileError(f"the file cannot be written: {error.strerror or error}", path=self.path)

    def _discard(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.discard()

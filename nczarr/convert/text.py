"""Write CDL text as the target of a copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nczarr.errors import StoreError
from nczarr.model import Dataset, Region
from nczarr.system.atomic import text_output


class CDLSink:
    """Writes a dataset as CDL; the text is streamed from the source's own data at the end.

    CDL has no random access, so nothing is done in :meth:`write`.
    """

    concurrent = False
    #: The copy need not read the values: :meth:`commit` does.
    pulls = True

    def __init__(self, path: Path, dataset: Dataset) -> None:
        self._path = path
        self._dataset = dataset

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """The whole variable."""
        return tuple(max(n, 1) for n in self._dataset.shape(self._dataset.variable_at(fqn)))

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Write the text."""
        from nczarr import cdl

        try:
            with text_output(self._path) as file:
                cdl.dump(self._dataset, file, cdl.DumpOptions(name=self._path.stem))
        except OSError as error:
            raise StoreError(f"cannot write: {error.strerror}", path=str(self._path)) from error

    def abort(self) -> None:
        """Do nothing: the text appears only when it is complete."""

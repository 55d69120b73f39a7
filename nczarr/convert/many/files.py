"""Keep few of many source files open, and notice one that changes meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from nczarr.convert.endpoints import open_source
from nczarr.errors import NCZarrError
from nczarr.formats import state_of_file
from nczarr.model import Dataset, Region, Variable, rewrite
from nczarr.system.locks import Rank, make_lock

#: Files that are open at once.
_OPEN = 24


class Files:
    """The sources of one dataset: their models, and values from those that are open."""

    def __init__(self, sources: Sequence[Any], options: Mapping[str, Any] | None = None) -> None:
        self.sources = list(sources)
        self._options = options
        self._lock = make_lock(Rank.OWNER)
        self._open: OrderedDict[int, tuple[AbstractContextManager[Dataset], Dataset]] = OrderedDict()
        self._marks = [state_of_file(source) for source in self.sources]

    def header(self, number: int) -> Dataset:
        """The model of a file; its data open the file when they are read."""
        with self._lock:
            dataset = self._opened(number)

        def lazy(fqn: str, variable: Variable) -> Variable:
            if variable.data is None:
                return variable
            return variable.with_data(FilePart(self, number, fqn, variable.data.shape, variable.data.dtype))

        return rewrite(dataset, variable=lazy)

    def read(self, number: int, fqn: str, region: Region, out: np.ndarray | None) -> np.ndarray:
        """Read values of a file."""
        with self._lock:
            data = self._opened(number).variable_at(fqn).data
            assert data is not None
            return data.read(region, out)

    def places(self, number: int, fqn: str) -> Any:
        """Return where the chunks of a variable of a file are; None if its values have no bytes of their own."""
        with self._lock:
            ask = getattr(self._opened(number).variable_at(fqn).data, "chunk_places", None)
            return None if ask is None else ask()

    def _opened(self, number: int) -> Dataset:
        found = self._open.pop(number, None)
        if found is None:
            source = self.sources[number]
            if state_of_file(source) != self._marks[number]:
                raise NCZarrError("the file has changed while it was copied", path=str(source))
            context: AbstractContextManager[Dataset] = open_source(
                source, storage_options=self._options, fresh=True
            )
            found = context, context.__enter__()
        self._open[number] = found
        while len(self._open) > _OPEN:
            _, (context, _) = self._open.popitem(last=False)
            context.__exit__(None, None, None)
        return found[1]

    def close(self) -> None:
        """Close all files."""
        with self._lock, ExitStack() as stack:
            for context, _ in self._open.values():
                stack.callback(context.__exit__, None, None, None)
            self._open.clear()

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, eq=False)
class FilePart:
    """The values of a variable of one file; an :class:`~nczarr.model.ArraySource`."""

    files: Files
    number: int
    fqn: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def read(self, region: Region, out: np.ndarray | None = None) -> np.ndarray:
        return self.files.read(self.number, self.fqn, region, out)

    @property
    def source(self) -> Any:
        """The file."""
        return self.files.sources[self.number]

    def chunk_places(self) -> Any:
        """Return where the chunks are in the file; see :class:`nczarr.netcdf.places.FilePlaces`."""
        return self.files.places(self.number, self.fqn)

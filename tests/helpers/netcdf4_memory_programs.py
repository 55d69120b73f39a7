"""Generate random programs on datasets in memory: diskless, persistent or not, and from or to bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
from hypothesis import strategies as st
from netcdf4_programs import FORMATS
from netcdf4_wide_programs import WideRun, wide_programs

import nczarr.netcdf4 as ours

#: Ways to open a dataset next: from its bytes, in memory with or without a final write, or on disk.
_WAYS = st.sampled_from(["memory", "persist", "lose", "disk"])


@st.composite
def memory_programs(draw: st.DrawFn, formats: tuple[str, ...] = FORMATS) -> tuple[str, list[tuple[Any, ...]]]:
    """A wide program that opens its dataset in several ways."""
    format, steps = draw(wide_programs(formats))
    return format, [("reopen", step[1], draw(_WAYS)) if step[0] == "open" else step for step in steps]


class MemoryRun(WideRun):
    """A program whose nczarr datasets are in memory.

    netCDF4-python's datasets are in files where netCDF-C's differ from its documentation: netCDF-C writes
    nothing of a diskless dataset that was opened for appending.
    """

    #: The creation of the dataset: ``memory``, ``persist`` or ``disk``.
    begin = "memory"
    #: netCDF4-python reads nczarr's file.
    both_read = True

    def __init__(self, library: Any, path: str, format: str, log: Any) -> None:
        self._way = self.begin
        self._before: bytes | None = None
        super().__init__(library, path, format, log)

    def opened(self, mode: str, **options: Any) -> Any:
        way = self._way
        # netCDF-C sometimes cannot append to a netCDF-4 file that it created in memory.
        reliable = self.library is ours or "NETCDF3" in options.get("format", "")
        if way == "memory" and mode == "w" and reliable:
            return self.library.Dataset(self.path, mode, memory=100, **options)
        if way == "memory" and mode == "r" and Path(self.path).is_file():
            content = Path(self.path).read_bytes()
            if self.library is netCDF4 and content[:3] == b"CDF":
                content += bytes(4096)  # netCDF-C rejects a classic file that is only a header
            return self.library.Dataset(self.path, mode, memory=content, **options)
        if self.library is ours and way in ("persist", "lose") and mode != "r":
            return ours.Dataset(self.path, mode, diskless=True, persist=way == "persist", **options)
        if way == "lose" and mode != "r":
            self._before = Path(self.path).read_bytes()
        return self.library.Dataset(self.path, mode, **options)

    def closed(self) -> None:
        content = self.ds.close()
        if content is not None:
            Path(self.path).write_bytes(content)
        if self._before is not None:
            Path(self.path).write_bytes(self._before)
            self._before = None

    def reopen(self, mode: str, way: str) -> None:
        self.closed()
        self._way = way
        self.ds = self.opened(mode)
        self._find_types(make=False)
        self.look()

    def close(self) -> None:
        """Close the dataset, and read it with both libraries."""
        self._way = "disk"
        super().close()
        self._way, library = "memory", self.library
        for reader in (ours, netCDF4) if self.both_read else (ours,):
            self.log.library = self.library = reader
            with self.opened("r") as self.ds:
                self.look()
        self.log.library = self.library = library

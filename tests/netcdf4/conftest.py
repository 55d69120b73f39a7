"""The same script against netCDF4-python and nczarr: what both log must be equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from netcdf4_view import builtin_of, plain

netCDF4 = pytest.importorskip("netCDF4")

import nczarr.netcdf4 as ours  # noqa: E402
from nczarr.errors import NCZarrError  # noqa: E402
from nczarr.netcdf4.values.changes import ChangedValueWarning  # noqa: E402


@dataclass(eq=False, repr=False)
class Chunking:
    """A chunk shape. Where it grows, Zarr's default differs from that of netCDF files."""

    shape: Any
    is_default: bool
    zarr: bool

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chunking):
            return NotImplemented
        if self.zarr != other.zarr and self.is_default and other.is_default:
            return True
        return bool(self.shape == other.shape)

    def __repr__(self) -> str:
        return "default chunks" if self.zarr and self.is_default else f"chunks of {self.shape}"


class Log:
    """What a script saw."""

    def __init__(self, library: Any, *, zarr: bool = False) -> None:
        self.library = library
        #: True if the logs of a Zarr hierarchy and of a netCDF file are compared.
        self.zarr = zarr
        self.entries: list[Any] = []

    def __call__(self, *values: Any) -> None:
        self.entries.extend(plain(v) for v in values)

    def attempt(self, action: Callable[[], Any]) -> None:
        """Log a result, or the builtin class of the error."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self.entries.append(plain(action()))
            except Exception as error:
                if self.library is ours and not isinstance(error, NCZarrError):
                    raise
                self.entries.append(("error", builtin_of(error).__name__))
        # The garbage collector may free a dataset of another test here; numpy deprecates what older peers do.
        # netCDF4-python says nothing of values that change.
        own = ChangedValueWarning if self.library is ours else DeprecationWarning
        ignored = (ResourceWarning, own)
        categories = {w.category for w in caught if not issubclass(w.category, ignored)}
        self.entries.append(sorted(category.__name__ for category in categories))

    def chunking(self, variable: Any, *, requested: bool = False) -> Chunking:
        """Return the chunk shape, which compares like itself."""
        grows = any(d.isunlimited() for d in variable.get_dims())
        return Chunking(variable.chunking(), grows and not requested, self.zarr)

    def assign(self, variable: Any, index: Any, data: Any) -> None:
        """Log what an assignment does: the error, or what the variable holds then."""

        def action() -> Any:
            variable[index] = data
            return variable[...]

        self.attempt(action)


Script = Callable[[Any, str, Log], None]


@pytest.fixture
def make_log() -> type[Log]:
    """The class of logs, for tests that compare scripts of their own."""
    return Log


@pytest.fixture
def same(tmp_path: Path) -> Callable[[Script], None]:
    """Run a script with netCDF4-python, and with ours on a netCDF file and on Zarr, and compare the logs."""

    def run(script: Script, library: Any, folder: str, file: str) -> list[Any]:
        (tmp_path / folder).mkdir(exist_ok=True)
        log = Log(library, zarr=file == "data.zarr")
        script(library, str(tmp_path / folder / file), log)
        return log.entries

    def check(script: Script) -> None:
        theirs = run(script, netCDF4, "theirs", "data.nc")
        assert theirs, "the script logged nothing"
        for file in ("data.nc", "data.zarr"):
            mine = run(script, ours, f"ours {file[5:]}", file)
            for i, (their, my) in enumerate(zip(theirs, mine, strict=True)):
                assert my == their, f"entry {i} with {file}"

    return check

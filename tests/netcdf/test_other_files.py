"""Test that a file reaches other files only with permission."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import h5py
import numpy as np
import pytest

from nczarr.errors import NetCDFFileError
from nczarr.formats import is_netcdf
from nczarr.netcdf import open_dataset

SECRET = np.arange(8, dtype="u1")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.bin"
    path.write_bytes(SECRET.tobytes())
    return path


def _read(path: Path) -> np.ndarray:
    with open_dataset(path) as file:
        data = file.dataset.variable_at("/v").data
        assert data is not None
        return data.read((slice(0, 8),))


@pytest.mark.parametrize("how", ["external storage", "virtual dataset", "external link"])
def test_other_files_are_followed_only_when_asked(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path, other = tmp_path / "a.nc", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["v"] = SECRET
    with h5py.File(path, "w") as file:
        if how == "external storage":
            file.create_dataset("v", (8,), "u1", external=[(str(secret), 0, 8)])
        elif how == "external link":
            file["v"] = h5py.ExternalLink(str(other), "/v")
        else:
            layout = h5py.VirtualLayout((8,), "u1")
            layout[:] = h5py.VirtualSource(str(other), "v", (8,))
            file.create_virtual_dataset("v", layout)
    with pytest.raises(NetCDFFileError, match=r"/v: .*in another file, .*NCZARR_EXTERNAL_FILES=1"):
        _read(path)
    monkeypatch.setenv("NCZARR_EXTERNAL_FILES", "1")
    assert _read(path).tolist() == SECRET.tolist()


def test_a_virtual_dataset_of_its_own_file_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["w"] = SECRET
        layout = h5py.VirtualLayout((8,), "u1")
        layout[:] = h5py.VirtualSource(".", "w", (8,))
        file.create_virtual_dataset("v", layout)
    assert _read(tmp_path / "a.nc").tolist() == SECRET.tolist()


@pytest.mark.skipif(os.name == "nt", reason="no such files")
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_refused_before_it_is_opened(tmp_path: Path, kind: str) -> None:
    """Opening a pipe without a writer waits for ever."""
    path = tmp_path / "a.nc"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(NetCDFFileError, match=f"this is a {kind}, not a netCDF file"):
        open_dataset(path)
    assert not is_netcdf(path)

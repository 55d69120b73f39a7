"""Compare the errors of opening with netCDF4-python: exception, number and file name."""

import errno
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import netCDF4
import pytest

import nczarr.netcdf4 as nc
from nczarr import NCZarrError

BUILTINS = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
    OSError,
    RuntimeError,
    IndexError,
    KeyError,
    AttributeError,
    ValueError,
    TypeError,
)
MODES = ("r", "a", "r+", "w", "x")


def file_of(folder: Path, format: str) -> bytes:
    with netCDF4.Dataset(folder / "source.nc", "w", format=format) as ds:
        ds.createDimension("x", 4)
        ds.createVariable("v", "i4", ("x",))[:] = 1
        ds.title = "t"
    return (folder / "source.nc").read_bytes()


def failure(library, path, mode: str, **options) -> OSError | None:
    try:
        library.Dataset(path, mode, **options).close()
    except Exception as error:
        return error
    return None


def put(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def linked(path: Path) -> str:
    path.symlink_to(path.name)
    return str(path)


PLACES = {
    "missing": lambda folder: str(folder / "missing.nc"),
    "without suffix": lambda folder: str(folder / "missing"),
    "missing folder": lambda folder: str(folder / "missing/a.nc"),
    "below a file": lambda folder: put(folder / "file", b"x") + "/a.nc",
    "below a file, Zarr": lambda folder: put(folder / "file", b"x") + "/a.zarr",
    "below a file, zip": lambda folder: put(folder / "file", b"x") + "/a.zip",
    "too long a name": lambda folder: str(folder / ("x" * 300 + ".nc")),
    "too long a name, Zarr": lambda folder: str(folder / ("x" * 300 + ".zarr")),
    "a link to itself": lambda folder: linked(folder / "link.nc"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "mode"),
    [
        *((place, mode) for place in PLACES for mode in MODES),
        ("http://127.0.0.1:9/a.nc", "r"),
    ],
)
def test_places_without_a_file(place: str, mode: str, tmp_path: Path) -> None:
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    theirs, ours = (
        failure(library, PLACES[place](folder) if place in PLACES else place, mode)
        for library, folder in zip((netCDF4, nc), folders, strict=True)
    )
    assert (theirs is None) == (ours is None)
    if theirs is None:
        return
    assert isinstance(ours, NCZarrError)
    assert [b for b in BUILTINS if isinstance(theirs, b)] == [
        b for b in BUILTINS if isinstance(ours, b) and (isinstance(theirs, b) or b is not FileNotFoundError)
    ]
    assert (ours.errno, Path(ours.filename).name) == (theirs.errno, Path(theirs.filename).name)


def test_truncated_files(tmp_path: Path) -> None:
    """Cut anywhere, a file is refused as netCDF4-python refuses it, or where that reads values of what is not there."""
    path = tmp_path / "a.nc"
    cases = [
        (format, file_of(tmp_path, format)) for format in ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA")
    ]
    for format, content in cases:
        for length in range(9 if format == "NETCDF4" else 4, len(content), 97 if format == "NETCDF4" else 4):
            path.write_bytes(content[:length])
            for mode in ("r", "a"):
                error = failure(nc, path, mode)
                assert isinstance(error, OSError), (format, length, mode)
                assert isinstance(error, NCZarrError), (format, length, mode)
                assert error.filename == str(path)
                assert str(path) in str(error)
                # A classic file that is too short netCDF-C makes longer, or does not notice.
                expected = failure(netCDF4, path, mode).errno if format == "NETCDF4" else -51
                assert error.errno == expected, (format, length, mode, error)
            assert path.read_bytes() == content[:length]


DAMAGED = {
    "empty.nc": b"",
    "garbage.nc": b"garbage" * 100,
    "garbage.zarr": b"garbage" * 100,
    "garbage.zip": b"PK\3\4" + b"x" * 200,
    "unknown.nc": b"CDF\x09" + bytes(60),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    path = put(tmp_path / name, DAMAGED[name])
    ours, theirs = failure(nc, path, "r"), failure(netCDF4, path, "r")
    assert (ours.errno, ours.filename) == (theirs.errno, theirs.filename) == (-51, path)
    assert type(ours.errno) is int
    assert path in str(ours)


def test_damaged_inside(tmp_path: Path) -> None:
    content = file_of(tmp_path, "NETCDF4")
    path = put(tmp_path / "a.nc", content[:100] + b"\xff" * 300 + content[400:])
    ours, theirs = failure(nc, path, "r"), failure(netCDF4, path, "r")
    assert (ours.errno, ours.filename) == (theirs.errno, theirs.filename) == (-101, path)


@pytest.mark.parametrize(
    "document", [b"", b"{no", b"[]", bytes(range(256)), b"{}", b'{"zarr_format": 9, "node_type": "group"}']
)
@pytest.mark.parametrize("mode", ["r", "a"])
def test_damaged_documents(document: bytes, mode: str, tmp_path: Path) -> None:
    with nc.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 3)
    (tmp_path / "a.zarr/zarr.json").write_bytes(document)
    error = failure(nc, tmp_path / "a.zarr", mode)
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (-51, str(tmp_path / "a.zarr"))
    assert str(error).startswith(str(tmp_path / "a.zarr"))


def test_damaged_zip(tmp_path: Path) -> None:
    with nc.Dataset(tmp_path / "a.zip", "w") as ds:
        ds.createDimension("x", 3)
    content = (tmp_path / "a.zip").read_bytes()
    for length in range(4, len(content), 53):
        path = put(tmp_path / "b.zip", content[:length])
        error = failure(nc, path, "r")
        assert isinstance(error, OSError)
        assert (error.errno, error.filename) == (-51, path)
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as file:
        file.writestr("read.me", "nothing of ours")
    assert isinstance(failure(nc, tmp_path / "c.zip", "r"), FileNotFoundError)


def test_memory_that_is_no_file() -> None:
    for content in (b"", b"garbage" * 10, b"PK\3\4garbage", b"CDF\1", b"\x89HDF\r\n\x1a\n" + bytes(40)):
        error = failure(nc, "name.nc", "r", memory=content)
        assert isinstance(error, OSError)
        assert error.filename == "name.nc"
        assert error.errno < 0


@pytest.mark.parametrize("name", ["a.nc", "a.zarr", "a.zip"])
def test_existing_ones_that_are_not_to_be_replaced(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    nc.Dataset(path, "w").close()
    for options in ({"mode": "x"}, {"mode": "w", "clobber": False}):
        error = failure(nc, path, **options)
        assert isinstance(error, FileExistsError)
        assert (error.errno, error.filename) == (errno.EEXIST, str(path))
        assert "overwrite" not in str(error)
        assert 'mode "w"' in str(error)


def test_directories_that_are_never_replaced(tmp_path: Path) -> None:
    """netCDF4-python says PermissionError."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/letter.txt").write_text("keep")
    error = failure(nc, tmp_path / "a", "w")
    assert isinstance(error, PermissionError)
    assert isinstance(error, FileExistsError)
    assert (tmp_path / "a/letter.txt").read_text() == "keep"


@pytest.mark.parametrize("mode", ["w", "a", "r+", "x"])
@pytest.mark.parametrize("name", ["a", "a.zarr"])
def test_an_empty_directory_becomes_a_dataset(name: str, mode: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with nc.Dataset(tmp_path / name, mode) as ds:
        ds.title = "t"
        with pytest.raises(PermissionError, match="open for writing"):
            nc.Dataset(tmp_path / name, "a")
    with nc.Dataset(tmp_path / name) as ds:
        assert ds.title == "t"


AS_NOBODY = """
import os, sys, tempfile
import nczarr.netcdf4 as nc
with tempfile.TemporaryDirectory() as folder:  # imports what is used, which somebody else may not reach
    for name in ("a.nc", "a.zarr", "a.zip"):
        for mode in ("x", "w", "a", "r"):
            nc.Dataset(os.path.join(folder, name), mode).close()
os.seteuid(65534)
for path, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        nc.Dataset(path, mode)
    except PermissionError as error:
        print(error.errno, error.filename == path)
    except BaseException as error:
        print(type(error), error)
    else:
        print("opened")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else"
)
def test_no_permission(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    for name in ("a.nc", "a.zarr", "a.zip"):
        nc.Dataset(folder / name, "w").close()
    folder.chmod(0o700)
    places = [(str(folder / name), mode) for name in ("a.nc", "a.zarr", "a.zip", "b.nc") for mode in MODES]
    words = [word for place in places for word in place]
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *words], capture_output=True, text=True, check=True
    )
    told = dict(zip(places, done.stdout.splitlines(), strict=True))
    assert told == dict.fromkeys(places, "13 True")


def test_errors_keep_number_and_name_between_processes(tmp_path: Path) -> None:
    for path, mode in ((tmp_path / "a.nc", "r"), (tmp_path / "no/a.nc", "w")):
        error = failure(nc, path, mode)
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert (copied.errno, copied.filename) == (error.errno, error.filename) != (None, None)


def test_a_name_with_a_nul(tmp_path: Path) -> None:
    assert isinstance(failure(nc, f"{tmp_path}/a\0b.nc", "r"), FileNotFoundError)
    assert isinstance(failure(nc, f"{tmp_path}/a\0b.nc", "w"), ValueError)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["a.zarr", "a.zip", "a.nc"])
def test_close_releases_what_could_not_be_stored(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes once; then the dataset is closed, and others may write."""
    with nc.Dataset(tmp_path / name, "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("v", "i4", ("x",))[:] = 1
    ds = nc.Dataset(tmp_path / name, "a")
    ds.title = "new"

    def refuse(*_: object) -> None:
        raise NCZarrError("refused")

    with monkeypatch.context() as context:
        context.setattr(type(ds._nc_session.stored), "update", refuse)
        with pytest.raises(NCZarrError, match="refused"):
            ds.close()
    assert not ds.isopen()
    with pytest.raises(RuntimeError, match="closed"):
        ds.close()
    with nc.Dataset(tmp_path / name, "a") as again:
        assert again["v"][:].tolist() == [1, 1]

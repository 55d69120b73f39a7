"""Open directories, pipes and unreadable files in place of documents and chunks: an error names them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import NCZarrError, StoreError
from nczarr.mapping.options import LayoutName
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kinds of files of POSIX")

#: Where the chunks and the document of the array "v" are, by layout.
PLACES: dict[LayoutName, tuple[str, str]] = {
    "nczarr-v3": ("v/c/1", "v/zarr.json"),
    "zarr-v3": ("v/c/1", "v/zarr.json"),
    "nczarr-v2": ("v/1", "v/.zarray"),
    "zarr-v2": ("v/1", "v/.zarray"),
    "draft-2019": ("data/v/1", "meta/root/v.array"),
}


def bind(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (lambda path: path.mkdir(), "this is a directory, not a file"),
    "pipe": (lambda path: os.mkfifo(path), "this is a pipe, not a file"),
    "device": (lambda path: path.symlink_to(os.devnull), "this is a device, not a file"),
    "socket": (bind, "it may be a socket"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "has no target"),
    "circle": (lambda path: path.symlink_to(path.name), "symbolic links form a loop"),
    "below a file": (lambda path: path.symlink_to("/dev/null/x"), "itself a key|has no target"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    return Path("a.zarr")


def write(path: Path, layout: LayoutName = "nczarr-v3", shards: tuple[int, ...] | None = None) -> None:
    storage = Storage(chunk_shape=(2,), shard_shape=shards)
    data = MemorySource(np.full(80, 5, "i4"))
    variables = (Variable("v", INT, ("/x",), storage=storage, data=data),)
    dataset = Dataset("d", dimensions=(Dimension("x", 80),), variables=variables)
    nczarr.copy(dataset, path, layout=layout, consolidated=False)


def look(path: Path) -> None:
    """A single chunk, a few, and many."""
    with nczarr.Dataset(path) as dataset:
        for selection in (2, slice(0, 4), slice(None)):
            assert (dataset["v"][selection] == 5).all()


@pytest.mark.parametrize("layout", PLACES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [0, 1])
def test_no_file_is_not_a_missing_one(layout: LayoutName, kind: str, which: int, here: Path) -> None:
    if (layout, kind, which) == ("draft-2019", "directory", 1):
        pytest.skip("documents are found by listing: a directory of that name is a group's")
    write(here, layout)
    look(here)
    path = here / PLACES[layout][which]
    path.unlink()
    make, message = KINDS[kind]
    make(path)
    with pytest.raises(NCZarrError, match=message):
        look(here)


@pytest.mark.parametrize("selection", [2, slice(0, 4), slice(None)])
def test_each_way_of_reading_says_so(selection: object, here: Path) -> None:
    for shards in (None, (4,)):
        write(here, shards=shards)
        chunk = here / "v/c/0"
        chunk.unlink()
        chunk.mkdir()
        with nczarr.Dataset(here) as dataset, pytest.raises(StoreError, match=r"v/c/0: /v: .*a directory"):
            dataset["v"][1 if selection == 2 else selection]
        shutil.rmtree(here)


def test_a_file_in_the_place_of_the_folder_of_chunks(here: Path) -> None:
    write(here)
    shutil.rmtree(here / "v/c")
    (here / "v/c").write_bytes(b"")
    with pytest.raises(StoreError, match="itself a key"):
        look(here)


def test_check_says_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here)
    (here / "v/c/7").unlink()
    (here / "v/c/7").mkdir()
    assert main(["check", "--data", str(here)]) != 0
    assert "v/c/7" in "".join(capsys.readouterr())


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may read; those of pytest are its user's alone."""
    folder = Path(tempfile.mkdtemp(prefix="nczarr-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


READER = """
import os
import sys
import nczarr
from nczarr.errors import NCZarrError
def read(path):
    try:
        with nczarr.Dataset(path) as dataset:
            for selection in (2, slice(0, 4), slice(None)):
                print(path, *set(dataset["v"][selection].filled(-1).ravel().tolist()))
    except NCZarrError as error:
        print(path, type(error).__name__, error)
read(sys.argv[1])  # imports all that is needed: another user may not read the environment
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
for path in sys.argv[2:]:
    read(path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", PLACES)
def test_what_may_not_be_read_is_no_fill(layout: LayoutName, public: Path) -> None:
    """Read as a user whom permissions bind: root reads everything."""
    chunk, document = PLACES[layout]
    parts = {
        "nothing": None,
        "chunk": chunk,
        "chunks": os.path.dirname(chunk),
        "document": document,
        "array": os.path.dirname(document),
        "root": "zarr.json" if layout in ("nczarr-v3", "zarr-v3", "draft-2019") else ".zgroup",
        "dataset": ".",
    }
    forbidden = []
    for name, part in parts.items():
        write(public / f"{name}.zarr", layout)
        if part is not None:
            forbidden.append((public / f"{name}.zarr" / part).resolve())
    modes = [path.stat().st_mode for path in forbidden]
    for path in forbidden:
        path.chmod(0)
    environment = {**os.environ, "PYTHONPATH": str(Path(nczarr.__file__).parents[1]), "HOME": "/nonexistent"}
    command = [sys.executable, "-c", READER, "nothing.zarr", *(f"{name}.zarr" for name in parts)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=public, check=False
        )
    finally:
        for path, mode in zip(forbidden, modes, strict=True):
            path.chmod(mode)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:6] == ["nothing.zarr 5"] * 6
    for name in list(parts)[1:]:
        (said,) = [line for line in lines if line.startswith(f"{name}.zarr")]
        assert "Error" in said
        assert "Permission denied" in said

"""Reproduce earlier failures, one small test each; README.md lists their causes.

They use nothing that a version before the mending does not have, so that each can be seen to fail there.
"""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dying_store import Died, DyingStore
from odd_server import OddServer, send

import nczarr
from nczarr.cli import main
from nczarr.errors import NCZarrError
from nczarr.mapping import create_dataset, open_dataset
from nczarr.model import INT, Attribute, Dataset, Dimension, Group, MemorySource, Storage, Variable
from nczarr.netcdf import isolated
from nczarr.stores import LocalStore, MemoryStore, open_store

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
pytestmark = pytest.mark.filterwarnings("ignore")
posix = pytest.mark.skipif(os.name == "nt", reason="pipes, links and signals of POSIX")


def model(n: int, *, data: bool = True) -> Dataset:
    def variable(name: str) -> Variable:
        values = MemorySource(np.full(8, n, "i4")) if data else None
        return Variable(name, INT, ("/x",), storage=Storage(chunk_shape=(2,)), data=values)

    return Dataset(
        "d",
        attributes=(Attribute.of("n", n),),
        dimensions=(Dimension("x", 8),),
        variables=(variable("a"), variable("b")),
    )


def values(target: Any, name: str = "a") -> set[int]:
    with open_dataset(target) as stored:
        return set(stored.data(f"/{name}").read((slice(0, 8),)).tolist())


# --- 1: metadata between threads


def test_what_threads_change_while_another_syncs_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 4)
        ended = threading.Event()

        def change(number: int) -> None:
            for step in range(12):
                dataset.setncattr(f"a{number}_{step}", step)
                variable = dataset.createVariable(f"v{number}_{step}", "i4", ("x",))
                variable[:] = step

        def sync() -> None:
            while not ended.is_set():
                dataset.sync()

        with ThreadPoolExecutor(9) as pool:
            syncing = pool.submit(sync)
            work = [pool.submit(change, number) for number in range(8)]
            for future in work:
                future.exception()
            ended.set()
            for future in (*work, syncing):
                future.result()
    with nczarr.Dataset(path) as dataset:
        assert len(dataset.ncattrs()) == len(dataset.variables) == 8 * 12
        assert all((dataset[f"v{n}_{step}"][:] == step).all() for n in range(8) for step in range(12))


# --- 2: overwriting a store that cannot rename


@pytest.mark.parametrize("steps", [3, 8])
def test_an_overwriting_that_ends_early_leaves_the_old_dataset(steps: int) -> None:
    store = MemoryStore()
    nczarr.copy(model(1), store)
    with pytest.raises(Died):
        nczarr.copy(model(2), DyingStore(store, steps), overwrite=True)
    assert values(store) == {1}


# --- 4: a login page is no missing chunk


def test_a_redirect_to_a_page_is_an_error() -> None:
    server = OddServer()
    server.answers = {
        "/d/k": lambda h: send(h, 302, Location="/login/"),
        "/login/": lambda h: send(h, 200, b"<html>"),
    }
    try:
        with pytest.raises(NCZarrError):
            open_store(f"{server.url}/d").get("k")
    finally:
        server.stop()


# --- 5: netCDF-4 on a full disk

FULL = """
import resource, sys
import numpy as np
import nczarr
from nczarr.errors import NCZarrError
from nczarr.model import DOUBLE, Dataset, Dimension, Filter, MemorySource, Storage, Variable
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
data = MemorySource(np.random.default_rng(0).normal(size=20000))
chunked = Storage("chunked", (1000,), (Filter(1, (1,)),))
variables = tuple(Variable(f"v{i}", DOUBLE, ("/x",), data=data, storage=chunked) for i in range(8))
try:
    nczarr.copy(Dataset("d", dimensions=(Dimension("x", 20000),), variables=variables), sys.argv[1])
except NCZarrError:
    sys.exit(7)
"""


@pytest.mark.slow
@posix
@pytest.mark.parametrize("limit", [40_000, 300_000, 900_000])
def test_a_full_disk_is_an_error_and_the_program_goes_on(tmp_path: Path, limit: int) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "a.nc"), str(limit)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 7
    assert not list(tmp_path.iterdir())


# --- 6: outputs that are no regular files


@posix
def test_an_output_that_is_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real.cdl")
    assert main(["dump", "-h", str(EXAMPLE), "-o", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.cdl").read_text().startswith("netcdf ")


@posix
def test_an_output_that_is_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["dump", "-h", str(EXAMPLE), "-o", str(pipe)]) == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 7) == b"netcdf "
    finally:
        os.close(reader)


# --- 7: zip files


def test_what_was_synced_to_a_new_zip_file_is_there_without_closing(tmp_path: Path) -> None:
    dataset = nczarr.Dataset(tmp_path / "a.zip", "w")
    dataset.createDimension("x", 8)
    dataset.createVariable("a", "i4", ("x",))[:] = 3
    dataset.sync()
    copied = tmp_path / "b.zip"
    copied.write_bytes((tmp_path / "a.zip").read_bytes())  # as a killed process leaves it
    dataset.close()
    assert values(copied) == {3}


def test_a_member_with_another_local_name_is_not_served(tmp_path: Path) -> None:
    import zipfile

    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in ("v/c/0", "v/c/1"):
            archive.writestr(name, name)
    data = memory.getvalue()
    first = data.index(b"v/c/0")
    (tmp_path / "a.zip").write_bytes(data[:first] + b"v/c/7" + data[first + 5 :])
    store = open_store(tmp_path / "a.zip")
    with pytest.raises(NCZarrError):
        store.get("v/c/0")
    assert store.get("v/c/1") == b"v/c/1"


# --- 9: an interrupt while writing


def test_an_interrupt_while_writing_stays_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, "r+")
    real = os.replace

    def interrupted(*names: Any) -> None:
        real(*names)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.set("v/c/0", b"x")


# --- 10: a kill while a variable is renamed


def test_no_name_shows_fill_after_a_kill_while_renaming() -> None:
    from dataclasses import replace

    for steps in range(200):
        store = MemoryStore()
        nczarr.copy(model(1), store)
        try:
            with open_dataset(DyingStore(store, steps), "r+") as stored:
                first, second = stored.dataset.variables
                stored.update(replace(stored.dataset, variables=(replace(first, name="z"), second)))
            break
        except Died:
            pass
        with warnings.catch_warnings(), open_dataset(store) as stored:
            warnings.simplefilter("ignore")
            names = list(stored.dataset.all_variables)
        assert all(values(store, name[1:]) == {1} for name in names), (steps, names)
    assert steps > 3


# --- 11: two writers


@posix
def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(model(1), path)
    with nczarr.Dataset(path, "a"):
        script = "import sys, nczarr; nczarr.Dataset(sys.argv[1], 'a').close()"
        second = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
        )
    assert second.returncode
    assert "open for writing" in second.stderr


# --- 12: unfinished copies


def test_no_part_of_an_unfinished_copy_opens(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    sink = create_dataset(path, model(1))
    sink.write("/a", (slice(0, 8),), np.ones(8, "i4"))
    with pytest.raises(NCZarrError, match="unfinished"):
        open_dataset(path)
    with pytest.raises(NCZarrError):
        open_dataset(path / "a")
    sink.commit()
    assert values(path) == {1}


# --- 13: a pipe inside a store


@posix
def test_a_pipe_in_the_place_of_a_chunk_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(model(1), path)
    chunk = path / "a" / "c" / "0"
    data = chunk.read_bytes()
    chunk.unlink()
    os.mkfifo(chunk)

    def serve() -> None:  # a program that waits for a reader; without it reading would wait for ever
        with open(chunk, "wb", buffering=0) as pipe:
            pipe.write(data)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        with pytest.raises(NCZarrError, match="this is a pipe, not a file"):
            values(path)
    finally:
        os.close(os.open(chunk, os.O_RDONLY | os.O_NONBLOCK))


# --- 14: bounds


def test_values_of_declared_size_do_not_fill_the_memory(tmp_path: Path) -> None:
    text = "netcdf d { types: opaque(2147483647) o; variables: o v; data: v = 0x01; }"
    (tmp_path / "a.cdl").write_text(text)
    with pytest.raises(NCZarrError, match="bytes"):
        nczarr.copy(tmp_path / "a.cdl", tmp_path / "a.zarr")


@pytest.mark.parametrize("depth", [101, 340, 1200])
def test_deep_nesting_is_no_traceback(depth: int) -> None:
    store = MemoryStore()
    for level in range(depth + 1):
        key = "g/" * level + "zarr.json"
        store.set(key, json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode())
    with pytest.raises(NCZarrError):
        open_dataset(store)


def test_no_deeper_nesting_is_written() -> None:
    deep = Group("g")
    for _ in range(99):
        deep = Group("g", groups=(deep,))
    store = MemoryStore()
    nczarr.copy(Dataset("d", groups=(deep,)), store)
    with open_dataset(store) as stored:
        assert len(stored.dataset.all_groups) == 101
    with pytest.raises(NCZarrError):
        nczarr.copy(Dataset("d", groups=(Group("g", groups=(deep,)),)), MemoryStore())


# --- 15: errors of Python's own


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def test_an_odd_codec_is_refused() -> None:
    store = MemoryStore()
    variable = Variable("a", INT, ("/x", "/x"), storage=Storage(chunk_shape=(4, 4)))
    nczarr.copy(
        Dataset("d", dimensions=(Dimension("x", 4),), variables=(variable,)), store, consolidated=False
    )
    document = json.loads(store.get("a/zarr.json"))
    document["codecs"] = [{"name": "transpose", "configuration": {"order": ["1", 0]}}, LITTLE]
    store.set("a/zarr.json", json.dumps(document).encode())
    with pytest.raises(NCZarrError), open_dataset(store) as stored:
        stored.data("/a").read((slice(0, 4), slice(0, 4)))


@pytest.mark.parametrize(
    ("path", "value"),
    [(("groups",), [""]), (("types", "n"), "\ud800"), (("types", "n"), "2i<")],
)
def test_odd_keys_of_nczarr_v2_are_refused(path: tuple[str, ...], value: Any) -> None:
    store = MemoryStore()
    nczarr.copy(model(1), store, layout="nczarr-v2", consolidated=False)
    document = json.loads(store.get(".zattrs"))
    holder = document["_nczarr_group" if path[0] == "groups" else "_nczarr_attr"]
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    store.set(".zattrs", json.dumps(document).encode())
    with pytest.raises(NCZarrError):
        open_dataset(store)


@posix
def test_a_closed_output_ends_quietly(tmp_path: Path) -> None:
    script = "import sys; from nczarr.cli import main; sys.exit(main(['dump', sys.argv[1]]))"
    command = f'{sys.executable} -c "{script}" {EXAMPLE} 2>{tmp_path / "said"} >&-'
    subprocess.run(["bash", "-c", command], check=False)
    assert "Traceback" not in (tmp_path / "said").read_text()


# --- 16: control characters


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b31m", "\u202e"])
def test_control_characters_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(Dataset("d", attributes=(Attribute.of("title", text),)), path)
    nczarr.copy(Dataset("d", attributes=(Attribute.of("title", "other"),)), tmp_path / "b.zarr")
    with nczarr.Dataset(path) as dataset:
        print(dataset)
    main(["diff", str(path), str(tmp_path / "b.zarr")])
    assert text[0] not in capsys.readouterr().out


# --- 17: links inside a store


@posix
def test_nothing_is_written_by_way_of_a_link(tmp_path: Path) -> None:
    nczarr.copy(model(1), tmp_path / "mine.zarr")
    nczarr.copy(model(2), tmp_path / "yours.zarr")
    chunks = tmp_path / "mine.zarr" / "a" / "c"
    for chunk in chunks.iterdir():
        chunk.unlink()
    chunks.rmdir()
    chunks.symlink_to(tmp_path / "yours.zarr" / "a" / "c")
    with pytest.raises(NCZarrError, match="link"), open_dataset(tmp_path / "mine.zarr", "r+") as stored:
        stored.write("/a", (slice(0, 8),), np.full(8, 9, "i4"))
    assert values(tmp_path / "yours.zarr") == {2}


# --- 18: what a closed dataset keeps, and what hangs inside HDF5


def test_a_closed_dataset_keeps_no_chunks(tmp_path: Path) -> None:
    size = 4 << 20
    data = MemorySource(np.arange(size, dtype="i4"))
    storage = Storage(chunk_shape=(size,))
    variable = Variable("v", INT, ("/x",), storage=storage, data=data)
    dimensions = (Dimension("x", size),)
    nczarr.copy(Dataset("d", dimensions=dimensions, variables=(variable,)), tmp_path / "a.zarr")
    tracemalloc.start()
    try:
        with open_dataset(tmp_path / "a.zarr") as stored:
            assert stored.data("/v").read((slice(3, 5),)).tolist() == [3, 4]
            assert stored.data("/v").read((slice(7, 9),)).tolist() == [7, 8]
        del stored
        assert tracemalloc.get_traced_memory()[0] < size
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@posix
def test_a_library_that_hangs_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nczarr.copy(model(1), tmp_path / "a.nc")
    # Not for ever, so that a program that waits for it ends, too.
    code = (
        "import time\n"
        "import nczarr.netcdf.hdf5.source as s\n"
        "def read(self, region, out=None):\n    time.sleep(20)\n"
        "s.HDF5Source.read = read\n"
    )
    begin, serve = isolated._PROGRAM.split("serve(sys", 1)
    monkeypatch.setattr(isolated, "_PROGRAM", f"{begin}{code}\nserve(sys{serve}")
    monkeypatch.setenv("NCZARR_ISOLATED_SECONDS", "2")
    assert main(["check", "--data", str(tmp_path / "a.nc")]) == 1
    assert "longer than 2 s" in capsys.readouterr().out


# --- 19: silent damage


def test_a_deleted_chunk_and_a_flipped_bit_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    assert main(["copy", "-q", "--manifest", "--checksum", str(EXAMPLE), str(path)]) == 0
    assert main(["check", "--data", str(path)]) == 0
    chunks = sorted(p for p in path.rglob("*") if p.is_file() and "c" in p.relative_to(path).parts)
    data = bytearray(chunks[0].read_bytes())
    data[len(data) // 2] ^= 4
    original = chunks[0].read_bytes()
    chunks[0].write_bytes(data)
    assert main(["check", "--data", str(path)]) == 1
    chunks[0].write_bytes(original)
    assert main(["check", "--data", str(path)]) == 0
    chunks[0].unlink()
    assert main(["check", "--data", str(path)]) == 1

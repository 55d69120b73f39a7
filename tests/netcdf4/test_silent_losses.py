"""Search for silent losses: forks, kills, other writers, text in records, datasets in memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import programs
import pytest

import nczarr.netcdf4 as ours
from nczarr.errors import MetadataError, NCZarrError, PartlyStoredError, StoreError
from nczarr.stores import MemoryStore

Same = Callable[[Callable[[Any, str, Any], None]], None]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def forked(action: Callable[[], None]) -> None:
    """Run an action in a forked child that ends as multiprocessing's do."""
    process = multiprocessing.get_context("fork").Process(target=action)
    process.start()
    process.join()
    assert process.exitcode == 0


def nothing() -> None:
    pass


IMPORTS = "import os, sys\nimport nczarr.netcdf4 as nc\n"


def script(code: str, *arguments: object, check: bool = True) -> str:
    return programs.run("-c", IMPORTS + code, *arguments, check=check).stdout


# -- fork


@needs_fork
@pytest.mark.parametrize("name", ["a.zarr", "a.zip"])
@pytest.mark.parametrize("existing", [False, True])
def test_a_forked_child_leaves_the_parent_s_dataset_alone(tmp_path: Path, name: str, existing: bool) -> None:
    path = tmp_path / name
    if existing:
        with ours.Dataset(path, "w") as ds:
            ds.title = "old"
    ds = ours.Dataset(path, "w")
    ds.createDimension("x", 4)
    v = ds.createVariable("v", "i4", ("x",))
    v[:2] = [1, 2]
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    forked(nothing)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    v[2:] = [3, 4]
    ds.close()
    with ours.Dataset(path) as ds:
        assert ds["v"][:].tolist() == [1, 2, 3, 4]


@needs_fork
def test_a_forked_child_cannot_write(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        v = ds.createVariable("v", "i4")
        ds.sync()
        v[...] = 5

        def child() -> None:
            for action in (lambda: v.__setitem__(..., 7), ds.sync, lambda: ds.setncattr("a", 1)):
                with pytest.raises(NCZarrError, match="before the fork"):
                    action()
            ds.close()
            assert not ds.isopen()

        forked(child)
        assert v[...] == 5
    with ours.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"][...] == 5
        assert not ds.ncattrs()


@needs_fork
def test_a_forked_child_reads(tmp_path: Path) -> None:
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createVariable("v", "i4")[...] = 5
    with ours.Dataset(tmp_path / "a.zarr") as ds:

        def child() -> None:
            assert ds["v"][...] == 5

        forked(child)
        assert ds["v"][...] == 5


# -- several writers


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    attempt = (
        "try:\n    nc.Dataset(sys.argv[1], sys.argv[2]).close()\n    print('opened')\n"
        "except OSError as error:\n    print(type(error).__name__, error.errno)"
    )
    with ours.Dataset(path, "w") as ds:
        ds.a = 1
        ds.sync()
        for mode in ("a", "r+", "w"):
            for name in (path, f"file://{path}#mode=nczarr"):
                assert script(attempt, name, mode) == "LockedError 13\n"
            with pytest.raises(PermissionError):
                ours.Dataset(path, mode)
        assert script(attempt, path, "r") == "opened\n"
    assert script(attempt, path, "a") == "opened\n"
    with ours.Dataset(path) as ds:
        assert ds.a == 1


def test_a_dead_writer_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.a = 1
    script("ds = nc.Dataset(sys.argv[1], 'a')\nos.kill(os.getpid(), 9)", path, check=False)
    with ours.Dataset(path, "a") as ds:
        ds.b = 2
    assert sorted(p.name for p in path.iterdir()) == ["zarr.json"]


def test_processes_write_different_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 40)
        ds.createVariable("v", "i4", ("x",), chunksizes=(10,))
    code = (
        "n = int(sys.argv[2])\nds = nc.Dataset(sys.argv[1], 'a', shared=True)\n"
        "for i in range(10 * n, 10 * n + 10):\n    ds['v'][i] = i\nds.close()"
    )
    children = [programs.Piped("-c", IMPORTS + code, path, n) for n in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    with ours.Dataset(path) as ds:
        assert ds["v"][:].tolist() == list(range(40))


@pytest.mark.parametrize(
    "work", ["for i in range(n, 40, 2): v[i] = i", "for i in range(n, 5, 2): v[:, i] = list(range(40))"]
)
def test_processes_write_parts_of_the_same_chunks(tmp_path: Path, work: str) -> None:
    """By default several steps share a chunk, and each process writes steps, or columns, of its own."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 5)
        v = ds.createVariable("v", "i4", ("t", "x"))
        v[39] = 0
        assert v.chunking()[0] > 40
    code = (
        "n = int(sys.argv[2])\nds = nc.Dataset(sys.argv[1], 'a', shared=True)\n"
        "print('open', flush=True)\nsys.stdin.readline()\n"
        f"v = ds['v']\n{work}\nds.close()"
    )
    children = [programs.Piped("-c", IMPORTS + code, path, n) for n in range(2)]
    assert [child.stdout.readline() for child in children] == ["open\n"] * 2
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0, 0]
    with ours.Dataset(path) as ds:
        assert ds["v"][:].tolist() == [[step] * 5 for step in range(40)]


def test_shared_writers_change_no_structure(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createVariable("v", "i4", ("t",))[:] = [1, 2]
    with ours.Dataset(path, "a", shared=True) as ds, ours.Dataset(path, "r+", shared=True) as other:
        ds["v"][0] = 5
        for action in (
            lambda: ds.setncattr("a", 1),
            lambda: ds.createDimension("d", 1),
            lambda: ds.createVariable("w", "i4"),
            lambda: ds["v"].__setitem__(2, 1),
            lambda: ds.renameVariable("v", "w"),
        ):
            with pytest.raises(RuntimeError, match="shared"):
                action()
        with pytest.raises(PermissionError):
            ours.Dataset(path, "a")
        assert other["v"].shape == ds["v"].shape == (2,)
    with ours.Dataset(path) as ds:
        assert (ds["v"][:].tolist(), ds.ncattrs(), list(ds.dimensions)) == ([5, 2], [], ["t"])


def test_shared_writers_of_one_chunk_see_what_the_others_have_synced(tmp_path: Path) -> None:
    """A chunk of which one has written a part is out of date as soon as it is stored: it is read anew."""
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("x", 4)
        ds.createVariable("v", "i4", ("x",), fill_value=-1, chunksizes=(4,))
    with ours.Dataset(path, "a", shared=True) as one, ours.Dataset(path, "a", shared=True) as other:
        for step, ds in enumerate((one, other, one)):
            ds["v"][step] = step
            ds.sync()
            wanted = [*range(step + 1), *[-1] * (3 - step)]
            for eyes in (one, other):
                assert eyes["v"][:].filled().tolist() == wanted


# -- kills


@pytest.mark.parametrize("place", ["directory", "object store", "store without listings"])
@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("dtype", ["i4", str])
def test_no_ghosts_of_a_dead_run(tmp_path: Path, place: str, chunk: int, dtype: Any) -> None:
    from nczarr.mapping import open_dataset
    from nczarr.stores import MemoryStore

    target: Any = str(tmp_path / "a.zarr")
    if place != "directory":
        target = MemoryStore()
        target.lists_by_folder = True
        target.listable = target.lists_all = place == "object store"
    with ours.Dataset(target, "w") as ds:
        ds.createDimension("t")
        ds.createDimension("x", 3)
        for name in "vw":
            v = ds.createVariable(name, dtype, ("t", "x"), chunksizes=(chunk, 2))
            v[:2] = np.full((2, 3), "1", object) if dtype is str else 1
    # Values that come before the size that claims them, and a writer that dies in between.
    stored = open_dataset(target, "r+")
    for name in ("/v", "/w"):
        data = stored.data(name)
        data.grow((9, 3))
        data.write(
            (slice(2, 9), slice(0, 3)),
            np.full((7, 3), "9", object) if dtype is str else np.full((7, 3), 9, "i4"),
        )
    with ours.Dataset(target) as ds:
        assert ds["v"].shape == (2, 3)
    with ours.Dataset(target, "a") as ds:
        for step in (3, 8):  # a program that grows once, and one that does so again
            ds["v"][step, 1] = "5" if dtype is str else 5
            kept, filled, new = ("1", "", "5") if dtype is str else (1, None, 5)
            wanted = [[kept] * 3] * 2 + [[filled] * 3] * (step - 1)
            assert ds["w"][:].tolist() == wanted
            for place in {3, step}:
                wanted[place] = [filled, new, filled]
            assert ds["v"][:].tolist() == wanted
            ds.sync()
            with ours.Dataset(target) as other:
                assert other["v"][:].tolist() == wanted
                assert other["w"][:].tolist() == [[kept] * 3] * 2 + [[filled] * 3] * (step - 1)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("moment", range(6))
def test_what_sync_acknowledged_is_there_after_a_kill(tmp_path: Path, moment: int) -> None:
    path = tmp_path / "a.zarr"
    code = """
ds = nc.Dataset(sys.argv[1], "w")
ds.createDimension("t"); ds.createDimension("x", 5)
v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(7, 5))
w = ds.createVariable("w", "i4", ("t",))
i = 0
while True:
    v[i] = i; w[i] = i
    i += 1
    if i % 10 == 0:
        ds.sync()
        print(i, flush=True)
"""
    child = programs.Piped("-c", IMPORTS + code, path)
    said = [int(child.stdout.readline()) for _ in range(moment + 1)]
    child.kill()
    said += [int(line) for line in child.stdout.read().split()]
    child.wait()
    acknowledged = said[-1]
    with ours.Dataset(path) as ds:
        n = len(ds.dimensions["t"])
        assert n >= acknowledged
        assert ds["v"][:acknowledged, 2].tolist() == list(range(acknowledged))
        assert ds["w"][:acknowledged].tolist() == list(range(acknowledged))
    with ours.Dataset(path, "a") as ds:
        ds["w"][n + 20] = 1
        assert ds["v"][n:].mask.all()
        assert ds["w"][n : n + 20].mask.all()


# -- records, memory


def test_text_in_compound_attributes(same: Same) -> None:
    def run(nc: Any, path: str, log: Any) -> None:
        text = np.dtype([("speed", "S8"), ("n", "i4"), ("direction", "S8")])
        with nc.Dataset(path, "w") as ds:
            ds.createCompoundType(text, "text")
            ds.one = np.array((b"m/s", 3, b"degrees"), text)
            ds.v = np.array([(b"K", 1, b"")], text)
            log(ds.one, ds.v)
        with nc.Dataset(path) as ds:
            log(ds.one, ds.v)

    same(run)


@pytest.mark.parametrize("persist", [False, True])
@pytest.mark.parametrize("mode", ["a", "r+"])
def test_diskless_appending(tmp_path: Path, mode: str, persist: bool) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createDimension("t")
        ds.createVariable("v", "i4", ("t",))[:] = [1, 2]
    with ours.Dataset(path, mode, diskless=True, persist=persist) as ds:
        ds["v"][2] = 3
        ds.note = "x"
        assert ds["v"][:].tolist() == [1, 2, 3]
    with ours.Dataset(path) as ds:
        assert ds["v"][:].tolist() == ([1, 2, 3] if persist else [1, 2])
        assert ds.ncattrs() == (["note"] if persist else [])


# -- errors and details


def test_errors_that_programs_catch(same: Same, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.nc"
    garbage.write_bytes(b"this is not netCDF" * 20)

    def run(nc: Any, path: str, log: Any) -> None:
        for mode in ("r", "a"):
            log.attempt(lambda mode=mode: nc.Dataset(str(garbage), mode))
        log.attempt(lambda: nc.Dataset(path + "-missing"))
        try:
            nc.Dataset(path + "-missing")
        except OSError as error:
            log(error.errno, error.filename == path + "-missing")
        try:
            nc.Dataset(str(garbage))
        except OSError as error:
            log(error.errno)
        with nc.Dataset(path, "w") as ds:
            log.attempt(partial(ds.createVariable, "f", "u1", fill_value=300))
        ds = nc.Dataset(path, "w", keepweakref=True)
        v = ds.createVariable("v", "i4")
        del ds
        # Without the interpreter lock, the next opening closes what was dropped.
        log.attempt(lambda: nc.Dataset(path + "-missing"))
        log.attempt(lambda: v[:])

    same(run)


@pytest.mark.parametrize(
    "format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC", "NETCDF4"]
)
def test_an_unlimited_dimension_that_is_not_first(same: Same, format: str) -> None:
    def run(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w", format=format) as ds:
            ds.createDimension("t")
            ds.createDimension("x", 2)
            log.attempt(lambda: ds.createVariable("v", "f4", ("x", "t")).shape)
            log(list(ds.variables))

    same(run)


def test_a_damaged_dataset_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with ours.Dataset(path, "w") as ds:
        ds.createVariable("v", "i4")
    (path / "zarr.json").write_text("{")
    with pytest.raises(OSError, match=r"zarr\.json") as caught:
        ours.Dataset(path)
    assert isinstance(caught.value, MetadataError)


def test_subclasses(tmp_path: Path) -> None:
    class Mine(ours.Dataset):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(cls, *args, **kwargs)

    with Mine(tmp_path / "a.zarr", "w") as ds:
        assert isinstance(ds, Mine)


def test_names_and_indices_that_programs_use(same: Same) -> None:
    def run(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            v = ds.createVariable("v", str, ("x",))
            v[1.0] = "a"
            log(v[1.0], v._name, ds.dimensions["x"]._name)

    same(run)


def test_subclasses_without_hash(tmp_path: Path) -> None:
    class Mine(ours.Dataset):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = None  # type: ignore[assignment]

    with Mine(tmp_path / "a.zarr", "w") as ds:
        assert ds.isopen()


def test_an_empty_file_gets_the_dataset(same: Same) -> None:
    def run(nc: Any, path: str, log: Any) -> None:
        with tempfile.NamedTemporaryFile(suffix=".nc", dir=os.path.dirname(path)) as file:
            with nc.Dataset(file.name, "w") as ds:
                ds.createVariable("v", "i4")[...] = 3
            log(os.path.isfile(file.name))
            with nc.Dataset(file.name) as ds:
                log(ds["v"][...])

    same(run)


def test_variables_without_filters_are_not_compressed(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    for mode, name in (("w", "v"), ("a", "w")):
        with ours.Dataset(path, mode) as ds:
            x = ds.dimensions.get("x") or ds.createDimension("x", 1000)
            v = ds.createVariable(name, "f8", (x,))
            v[:] = 0.5
            assert v.filters()["complevel"] == 0
        assert (path / name / "c" / "0").stat().st_size == 8000


def test_what_a_dropped_dataset_writes_with_is_not_dropped_before_it(tmp_path: Path) -> None:
    """The collector finalizes what it finds together in any order; without the interpreter lock, by their addresses."""
    gc.collect()  # what other tests have left
    ds = ours.Dataset(tmp_path / "a.zarr.zip", "w")
    ds.createDimension("x", 3)
    ds.createVariable("v", "i4", ("x",))[:] = 1
    session = weakref.ref(ds._nc_session)
    circle: list[Any] = [ds]
    circle.append(circle)
    del ds, circle
    gc.collect()
    assert session() is not None
    with ours.Dataset(tmp_path / "a.zarr.zip") as again:
        assert again["v"][:].tolist() == [1, 1, 1]
    gc.collect()
    assert session() is None


class Refusing(MemoryStore):
    """Takes no value for some keys."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.refused = set(refused)

    def set(self, key: str, data: Any) -> None:
        if key in self.refused:
            raise StoreError("no room", path=key)
        super().set(key, data)


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize(
    ("refused", "names", "variables"),
    [
        (["b/zarr.json"], {"/b"}, {"/a", "/c", "/g/d"}),
        (["g/zarr.json"], {"/g"}, {"/a", "/b", "/c"}),
        (["g/d/zarr.json", "a/zarr.json"], {"/g/d", "/a"}, {"/b", "/c"}),
    ],
)
def test_one_document_of_a_new_dataset_is_refused(
    refused: list[str], names: set[str], variables: set[str], synced: bool
) -> None:
    """All else is published at the end, and the error says what is not there."""
    store = Refusing(*refused)
    ds = ours.Dataset(store, "w")
    ds.title = "kept"
    ds.createDimension("x", 3)
    for path in ("a", "b", "c", "g/d"):
        ds.createVariable(path, "i4", ("x",))[:] = [1, 2, 3]
    if synced:
        with pytest.raises(StoreError):
            ds.sync()
    with pytest.raises(NCZarrError) as caught:
        ds.close()
    error = caught.value
    assert names == (
        {name for name, _ in error.failures} if isinstance(error, PartlyStoredError) else {error.fqn}
    )
    with ours.Dataset(store) as ds:
        assert ds.title == "kept"
        found = {
            f"{g.path.rstrip('/')}/{name}": v
            for g in (ds, *ds.groups.values())
            for name, v in g.variables.items()
        }
        assert set(found) == variables
        assert all(v[:].tolist() == [1, 2, 3] for v in found.values())


def test_a_store_that_recovers_has_all_of_a_new_dataset() -> None:
    store = Refusing("a/zarr.json")
    ds = ours.Dataset(store, "w")
    ds.createVariable("a", "i4")[...] = 5
    with pytest.raises(StoreError):
        ds.sync()
    store.refused.clear()
    ds.close()
    with ours.Dataset(store) as ds:
        assert ds["a"][...] == 5


def test_bytes_in_an_encoding_of_several_bytes(tmp_path: Path) -> None:
    """numpy drops the NUL at the end of a character of UTF-16; it is no half character for that."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("x", 2)
        ds.createDimension("n", 6)
        v = ds.createVariable("v", "S1", ("x", "n"))
        v._Encoding = "utf-16-le"
        v[:] = np.array(["ab".encode("utf-16-le"), "é".encode("utf-16-le")])
        assert [text.rstrip("\0") for text in v[:].tolist()] == ["ab", "é"]


@pytest.mark.parametrize("place", [..., slice(None)])
@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_one_text_is_one_step(tmp_path: Path, name: str, place: Any) -> None:
    """The characters of a text are no steps of a dimension that can grow."""
    for library, path in ((netCDF4, "theirs.nc"), (ours, name)):
        with library.Dataset(tmp_path / path, "w") as ds:
            ds.createDimension("t")
            ds.createDimension("n", 3)
            v = ds.createVariable("v", "S1", ("t", "n"))
            v._Encoding = "utf-8"
            v[:2] = np.array(["old", "new"])
            v[place] = "ab"
            assert v.shape == (2, 3)
            assert v[:].tolist() == ["ab", "new"]


@pytest.mark.parametrize("steps", [0, 2])
def test_text_is_not_packed(tmp_path: Path, steps: int) -> None:
    for library, path in ((netCDF4, "theirs.nc"), (ours, "a.zarr"), (ours, "a.nc")):
        with library.Dataset(tmp_path / path, "w") as ds:
            ds.createDimension("t")
            v = ds.createVariable("v", "i2", ("t",))
            v.scale_factor = 0.5
            v[:steps] = np.ones(steps)
            for data in (np.array("abc"), np.array(["a", "b"])):
                with pytest.raises(TypeError) as refused:
                    v[:] = data
                assert library is netCDF4 or isinstance(refused.value, NCZarrError)

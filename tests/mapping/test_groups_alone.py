"""Open a group instead of its dataset: it is read through the dataset, and cannot be changed alone."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray

import nczarr
from nczarr.cli import main
from nczarr.errors import UnsupportedError
from nczarr.mapping import RecoveryWarning, check_metadata, open_dataset, repair
from nczarr.model import (
    BYTE,
    INT,
    SHORT,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    MemorySource,
    Variable,
    VlenType,
    compare,
)

STORES = Path(__file__).parents[1] / "data" / "stores"
FLAG = EnumType("/flag_t", BYTE, (("good", 1), ("bad", 0)))
PAIR = CompoundType("/ocean/pair", (Field("a", FLAG), Field("b", SHORT)))
ROW = VlenType("/ocean/deep/flag_t", PAIR)


def steps(name: str, dimension: str, n: int) -> Variable:
    return Variable(name, INT, (dimension,), data=MemorySource(np.arange(n, dtype="i4")))


def sea() -> Dataset:
    """Dimensions and types of one name at three levels."""
    deep = Group(
        "deep",
        attributes=(Attribute("state", FLAG, np.array([1], "i1")),),
        types=(ROW,),
        dimensions=(Dimension("time", 2, True),),
        variables=(
            steps("own", "/ocean/deep/time", 2),
            steps("near", "/ocean/time", 5),
            steps("far", "/time", 3),
            steps("x", "/x", 4),
            Variable("rows", ROW, ("/ocean/deep/time",)),
        ),
        groups=(Group("below", variables=(steps("v", "/ocean/deep/time", 2), steps("w", "/time", 3))),),
    )
    return Dataset(
        "sea",
        format="netCDF-4",
        attributes=(Attribute.of("title", "sea"),),
        types=(FLAG,),
        dimensions=(Dimension("time", 3, True), Dimension("x", 4), Dimension("unused", 9)),
        variables=(steps("time", "/time", 3),),
        groups=(
            Group("ocean", types=(PAIR,), dimensions=(Dimension("time", 5, True),), groups=(deep,)),
            Group("land", variables=(steps("y", "/x", 4),)),
        ),
    )


FLAG_HERE = EnumType("/flag_t_hidden1", BYTE, FLAG.members)
PAIR_HERE = CompoundType("/pair", (Field("a", FLAG_HERE), Field("b", SHORT)))
ROW_HERE = VlenType("/flag_t", PAIR_HERE)


def deep_alone() -> Dataset:
    """The group /ocean/deep as a dataset: its own names stay, those above that it hides get others."""
    return Dataset(
        "deep",
        format="netCDF-4",
        attributes=(Attribute("state", FLAG_HERE, np.array([1], "i1")),),
        types=(FLAG_HERE, PAIR_HERE, ROW_HERE),
        dimensions=(
            Dimension("time_hidden2", 3, True),
            Dimension("x", 4),
            Dimension("time_hidden1", 5, True),
            Dimension("time", 2, True),
        ),
        variables=(
            steps("own", "/time", 2),
            steps("near", "/time_hidden1", 5),
            steps("far", "/time_hidden2", 3),
            steps("x", "/x", 4),
            Variable("rows", ROW_HERE, ("/time",)),
        ),
        groups=(Group("below", variables=(steps("v", "/time", 2), steps("w", "/time_hidden2", 3))),),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nczarr.copy(sea(), tmp_path / "sea.zarr")
    return tmp_path / "sea.zarr"


def found(target: Any, expected: Dataset, **options: Any) -> list[str]:
    """What a target says otherwise; without any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecoveryWarning)
        with open_dataset(target, **options) as stored:
            assert stored.findings == ()
            return [str(d) for d in compare(expected, stored.dataset, storage=False)]


@pytest.mark.parametrize("consolidated", [None, False])
def test_a_group_is_opened_through_its_dataset(folder: Path, consolidated: bool | None) -> None:
    assert found(folder / "ocean" / "deep", deep_alone(), consolidated=consolidated) == []


def test_by_whatever_the_dataset_is_reached(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder / "ocean")
    for target in ("deep", "./deep/", f"file://{folder}/ocean/deep", f"{folder}/ocean/../ocean/deep"):
        assert found(target, deep_alone()) == []
    zarr_storage = pytest.importorskip("zarr.storage")
    assert found(zarr_storage.LocalStore(folder / "ocean" / "deep"), deep_alone()) == []
    monkeypatch.chdir(folder / "ocean" / "deep")
    assert found(".", deep_alone()) == []
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/groups-alone/sea.zarr", recursive=True)
    try:
        assert found("memory://groups-alone/sea.zarr/ocean/deep", deep_alone()) == []
        assert found(memory.get_mapper("/groups-alone/sea.zarr/ocean/deep"), deep_alone()) == []
        store = zarr_storage.FsspecStore.from_url("memory://groups-alone/sea.zarr/ocean/deep")
        assert found(store, deep_alone()) == []
    finally:
        memory.rm("/groups-alone", recursive=True)
    packed = Path(shutil.make_archive(str(tmp_path / "sea"), "zip", folder))
    assert found(f"zip://ocean/deep::{packed}", deep_alone()) == []
    other = packed.rename(tmp_path / "sea.packed")
    assert found(f"zip://ocean/deep::{other}", deep_alone()) == []


def test_through_an_object_store(folder: Path) -> None:
    pytest.importorskip("obstore")
    from obstore.store import LocalStore

    from nczarr.stores.remote.obstore_store import ObstoreStore

    store = ObstoreStore(LocalStore(str(folder.parent)), "sea.zarr/ocean/deep")
    expected = deep_alone()
    with open_dataset(store) as stored:
        assert stored.findings == ()
        assert [str(d) for d in compare(expected, stored.dataset, storage=False)] == []


@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_on_s3(folder: Path, s3_server: dict[str, str], backend: str) -> None:
    """Also in another process, where the store of the dataset is opened anew."""
    import pickle

    options = {"backend": backend}
    target = f"s3://test/groups-alone/{backend}.zarr"
    nczarr.copy(folder, target, target_options=options)
    assert found(f"{target}/ocean/deep", deep_alone(), storage_options=options) == []
    with open_dataset(f"{target}/ocean/deep", storage_options=options) as stored:
        store = pickle.loads(pickle.dumps(stored.store))
        assert stored.reading.part.whole == store.url == target
        assert json.loads(store.get("zarr.json"))["attributes"]["title"] == "sea"
    with pytest.raises(UnsupportedError, match=f"the group /land of the dataset {target}"):
        open_dataset(f"{target}/land", "r+", storage_options=options)


def test_over_http(folder: Path, web: str) -> None:
    """The server asks for a name and a password, also for the documents above."""
    secret = web.replace("://", "://someone:secret@")
    assert found(f"{secret}/sea.zarr/ocean/deep", deep_alone()) == []


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization", "").startswith("Basic "):
                super().do_GET()
            else:
                self.send_error(401)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_other_programs_leave_is_recovered_in_the_whole(folder: Path) -> None:
    """The attributes of the group, of the root, and of both were replaced."""
    zarr = pytest.importorskip("zarr")
    zarr.open_group(folder / "land", mode="r+").attrs.put({"mine": 1})
    zarr.open_group(folder, mode="r+").attrs.put({"title": "sea"})
    with open_dataset(folder / "land", consolidated=False) as stored:
        assert {f.code for f in stored.findings} == {"keys-removed"}
        assert [d.name for d in stored.dataset.dimensions] == ["x"]
        assert stored.data("/y").read_orthogonal(...).tolist() == [0, 1, 2, 3]


def test_a_group_that_was_renamed_elsewhere(folder: Path) -> None:
    """The consolidated copy, and the record of the group, have the old name; the folder has not."""
    (folder / "land").rename(folder / "sea")
    assert "land" in json.loads((folder / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        stored = open_dataset(folder / "sea")
    with stored:
        assert "group-alone" not in {f.code for f in stored.findings}
        assert stored.data("/y").read_orthogonal(...).tolist() == [0, 1, 2, 3]
        assert stored.dataset.dimensions == (Dimension("x", 4),)
    with pytest.raises(UnsupportedError, match=f"the group /sea of the dataset {folder}"):
        open_dataset(folder / "sea", "r+")


@pytest.mark.parametrize("version", ["version_3_0", "version_3_1"])
def test_groups_of_older_versions(tmp_path: Path, version: str) -> None:
    shutil.copytree(STORES / f"{version}.zarr", tmp_path / "s.zarr")
    with nczarr.Dataset(tmp_path / "s.zarr" / "ocean") as ds:
        assert {n: (len(d), d.isunlimited()) for n, d in ds.dimensions.items()} == {
            "time_hidden1": (3, True),
            "time": (5, True),
            "depth": (2, False),
        }
        assert ds["salt"].dimensions == ("time_hidden1",)
        assert ds["salt"][:].tolist() == [1, 2, 3]
        assert ds["flag"].datatype.enum_dict == {"good": 1, "bad": 0}
        assert ds.level.dtype == "i2"


def test_a_group_of_nczarr_v2(tmp_path: Path) -> None:
    flat = Dataset(
        "d",
        dimensions=(Dimension("time", 3, True), Dimension("x", 4)),
        groups=(
            Group("g", dimensions=(Dimension("time", 2, True),), variables=(
                steps("a", "/time", 3), steps("b", "/g/time", 2), steps("c", "/x", 4),
            )),
        ),
    )  # fmt: skip
    nczarr.copy(flat, tmp_path / "s.zarr", layout="nczarr-v2")
    with nczarr.Dataset(tmp_path / "s.zarr" / "g") as ds:
        assert {n: len(d) for n, d in ds.dimensions.items()} == {"time_hidden1": 3, "x": 4, "time": 2}
        assert ds["a"].dimensions == ("time_hidden1",)
    with pytest.raises(UnsupportedError, match="of the dataset"):
        open_dataset(tmp_path / "s.zarr" / "g", "r+")


def test_a_group_of_plain_zarr_is_a_dataset(tmp_path: Path) -> None:
    """Labels name the dimensions; nothing above is needed."""
    nczarr.copy(sea(), tmp_path / "p.zarr", layout="zarr-v3", lossy=True)
    with open_dataset(tmp_path / "p.zarr" / "land", "r+") as stored:
        assert [d.name for d in stored.dataset.dimensions] == ["x"]


@pytest.mark.parametrize(
    "command",
    [
        ["repair"], ["repair", "-n"], ["clean"], ["consolidate"], ["check"],
        ["copy", "-q", "--overwrite", "SOURCE"], ["append", "-q", "SOURCE"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_group_is_not_changed_alone(
    folder: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    nczarr.copy(deep_alone(), tmp_path / "s.nc", lossy=True)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    target = str(folder / "ocean" / "deep")
    command = [str(tmp_path / "s.nc") if word == "SOURCE" else word for word in command]
    assert main([*command, target]) == 1
    told = "".join(capsys.readouterr())
    assert f"this is the group /ocean/deep of the dataset {folder}," in told
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_it_is_not_opened_for_writing(folder: Path, mode: Any) -> None:
    with pytest.raises(UnsupportedError, match="the group /land of the dataset"):
        nczarr.Dataset(folder / "land", mode)
    with pytest.raises(UnsupportedError, match="cannot be checked or repaired alone"):
        check_metadata(folder / "land")
    with pytest.raises(UnsupportedError, match="the group /land of the dataset"):
        repair(folder / "land")


def test_tree_and_dump_say_no_word_of_repairing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("tree", "dump", "info"):
        assert main([command, str(folder / "ocean" / "deep")]) in (0, None)
        told = capsys.readouterr()
        assert told.err == "", command
    assert main(["dump", str(folder / "ocean" / "deep")]) in (0, None)
    assert " near = 0, 1, 2, 3, 4 ;" in capsys.readouterr().out


def test_info_names_the_dataset(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # a long path would continue on the next line
    assert main(["info", str(folder / "ocean" / "deep")]) in (0, None)
    assert f"group:       /ocean/deep, of {folder}\n" in capsys.readouterr().out
    assert main(["info", "--json", str(folder / "ocean" / "deep")]) in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert told["group"] == {"fqn": "/ocean/deep", "dataset": str(folder)}
    assert 0 < told["stored_bytes"] < sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    shutil.copytree(folder / "ocean" / "deep", tmp_path / "deep.zarr")
    assert main(["info", str(tmp_path / "deep.zarr")]) in (0, None)
    assert "group:       /ocean/deep, of a dataset that is not above it\n" in capsys.readouterr().out


def test_xarray_opens_it_too(folder: Path) -> None:
    with xarray.open_dataset(folder / "ocean" / "deep", engine="nczarr") as ds:
        assert dict(ds.sizes) == {"time": 2, "time_hidden1": 5, "time_hidden2": 3, "x": 4}


def test_a_copy_of_it_is_a_dataset(folder: Path, tmp_path: Path) -> None:
    for name in ("c.zarr", "c.nc", "c.cdl"):
        assert nczarr.copy(folder / "ocean" / "deep", tmp_path / name, verify=not name.endswith("cdl")) == ()
    nczarr.Dataset(tmp_path / "c.zarr", "a").close()
    stored, findings = check_metadata(tmp_path / "c.zarr")
    with stored:
        assert findings == ()
        assert [str(d) for d in compare(deep_alone(), stored.dataset, storage=False)] == []


def test_a_group_without_its_dataset_says_so(folder: Path, tmp_path: Path) -> None:
    """Dimensions beyond it are known from its arrays; those of one name are not one."""
    shutil.copytree(folder / "ocean" / "deep", tmp_path / "deep.zarr")
    with pytest.warns(RecoveryWarning, match="the group /ocean/deep of a dataset that is not above it"):
        stored = open_dataset(tmp_path / "deep.zarr")
    with stored:
        assert {f.code for f in stored.findings} == {"group-alone"}
        dataset = stored.dataset
        sizes = {d.name: (d.size, d.unlimited) for d in dataset.dimensions}
        assert sizes == {
            "time": (2, True), "time_hidden1": (5, True), "time_hidden2": (3, True), "x": (4, False),
        }  # fmt: skip
        assert dataset.variable_at("/far").dimensions == ("/time_hidden2",)
        assert dataset.variable_at("/rows").type == ROW_HERE
        assert dataset.attribute["state"].type == FLAG_HERE
        assert stored.data("/near").read_orthogonal(...).tolist() == [0, 1, 2, 3, 4]
    for call in (lambda p: repair(p), lambda p: open_dataset(p, "r+"), check_metadata):
        with pytest.raises(UnsupportedError, match="of a dataset that is not above it"):
            call(tmp_path / "deep.zarr")


def test_a_dataset_inside_a_group_is_no_part_of_it(folder: Path) -> None:
    """A folder may hold a dataset of its own below another one."""
    nczarr.copy(deep_alone(), folder / "ocean" / "inner.zarr")
    assert found(folder / "ocean" / "inner.zarr", deep_alone()) == []
    with open_dataset(folder / "ocean" / "inner.zarr", "r+") as stored:
        assert stored.reading.part is None


def test_a_group_of_another_dataset_is_not_opened_through_this_one(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.zarr"
    nczarr.copy(Dataset("other", dimensions=(Dimension("x", 7),)), other)
    shutil.copytree(folder / "land", other / "land")
    with pytest.warns(RecoveryWarning, match="the group /land of a dataset that is not above it"):
        stored = open_dataset(other / "land")
    with stored:
        assert stored.dataset.dimensions == (Dimension("x", 4),)


def test_each_group_records_its_own_fqn(folder: Path) -> None:
    for path, fqn in (("ocean", "/ocean"), ("ocean/deep", "/ocean/deep"), ("land", "/land")):
        record = json.loads((folder / path / "zarr.json").read_text())["attributes"]["_nczarr_group"]
        assert record["fqn"] == fqn
    with nczarr.Dataset(folder, "a") as ds:
        ds.renameGroup("ocean", "sea")
    for path in ("sea", "sea/deep", "sea/deep/below"):
        record = json.loads((folder / path / "zarr.json").read_text())["attributes"]["_nczarr_group"]
        assert record["fqn"] == f"/{path}"

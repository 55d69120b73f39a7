"""Open datasets with arrays and groups that were copied from other datasets, and copies of datasets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.errors import UnsupportedError
from nczarr.mapping import RecoveryWarning, check_metadata, open_dataset, repair
from nczarr.model import (
    BYTE,
    FLOAT,
    INT,
    SHORT,
    Attribute,
    Dataset,
    Dimension,
    EnumType,
    Group,
    MemorySource,
    Variable,
    compare,
)

zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore::nczarr.mapping.RecoveryWarning", "ignore::UserWarning")

STORES = Path(__file__).parents[1] / "data" / "stores"
FLAG = EnumType("/flag_t", BYTE, (("good", 1), ("bad", 0)))


def steps(name: str, dimension: str, n: int) -> Variable:
    return Variable(name, INT, (dimension,), data=MemorySource(np.arange(n, dtype="i4")))


def sea() -> Dataset:
    """The dataset b: its first array comes behind `aaa`."""
    return Dataset(
        "sea",
        attributes=(Attribute.of("count", 3, SHORT), Attribute.of("title", "sea")),
        dimensions=(Dimension("time", 3, True), Dimension("x", 2), Dimension("unused", 9)),
        variables=(
            steps("time", "/time", 3),
            Variable("temp", FLOAT, ("/time", "/x"), data=MemorySource(np.ones((3, 2), "f4"))),
        ),
        groups=(Group("g", dimensions=(Dimension("y", 4),), variables=(steps("y", "/g/y", 4),)),),
    )


def land() -> Dataset:
    """The dataset a: its first array, `aaa`, holds copies of its records."""
    return Dataset(
        "land",
        attributes=(Attribute.of("count", 70, INT), Attribute.of("land", "yes")),
        types=(FLAG,),
        dimensions=(Dimension("time", 7, True), Dimension("x", 2), Dimension("z", 5)),
        variables=(
            Variable("aaa", FLAG, ("/time", "/x"), data=MemorySource(np.ones((7, 2), "i1"))),
            steps("time", "/time", 7),
            steps("z", "/z", 5),
        ),
        groups=(Group("h", dimensions=(Dimension("w", 6),), variables=(steps("w", "/h/w", 6),)),),
    )


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.zarr", tmp_path / "b.zarr"
    nczarr.copy(land(), a)
    nczarr.copy(sea(), b, consolidated=False)
    return a, b


def edited_elsewhere(folder: Path, attributes: dict[str, Any]) -> None:
    """Replace all attributes of the root, as xarray does when it appends."""
    zarr.open_group(folder, mode="r+").attrs.put(attributes)


def differences(folder: Path, expected: Dataset) -> list[str]:
    with open_dataset(folder, consolidated=False) as stored:
        return [str(d) for d in compare(expected, stored.dataset, storage=False)]


def codes(folder: Path) -> set[str]:
    stored, found = check_metadata(folder)
    stored.close()
    return {f.code for f in found}


def test_a_foreign_array_says_nothing_of_the_dataset(stores: tuple[Path, Path]) -> None:
    """Neither before nor after another program has edited the root, nor after a repair."""
    a, b = stores
    shutil.copytree(a / "aaa", b / "aaa")
    array = {p: p.read_bytes() for p in (b / "aaa").rglob("*") if p.is_file()}
    for step in ("copied", "edited", "repaired"):
        if step == "edited":
            edited_elsewhere(b, {"count": 3, "title": "sea"})
        if step == "repaired":
            repair(b)
        with pytest.warns(RecoveryWarning):
            stored = open_dataset(b, consolidated=False)
        with stored:
            dataset = stored.dataset
            assert "node-foreign" in {f.code for f in stored.findings}
            assert dataset.attribute["count"].type == SHORT
            assert [(d.name, d.size, d.unlimited) for d in dataset.dimensions][:3] == [
                ("time", 3, True), ("x", 2, False), ("unused", 9, False),
            ]  # fmt: skip
            assert dataset.types == ()
            assert [v.name for v in dataset.variables] == ["time", "temp", "aaa"]
            assert stored.data("/aaa").read_orthogonal(...).tolist() == [[1, 1]] * 7
            assert stored.data("/temp").read_orthogonal(...).tolist() == [[1, 1]] * 3
        assert {p: p.read_bytes() for p in (b / "aaa").rglob("*") if p.is_file()} == array, step
    shutil.rmtree(b / "aaa")
    repair(b)
    assert codes(b) == set()
    assert differences(b, sea()) == []


def test_other_changes_keep_a_foreign_array(stores: tuple[Path, Path]) -> None:
    a, b = stores
    shutil.copytree(a / "aaa", b / "aaa")
    shutil.copytree(a / "h", b / "h")
    before = {p: p.read_bytes() for n in ("aaa", "h") for p in (b / n).rglob("*") if p.is_file()}
    with nczarr.Dataset(b, "a") as ds:
        ds.title = "changed"
        ds.createDimension("new", 4)
        ds.createVariable("later", "i4", ("new",))[:] = 5
    for path, data in before.items():
        assert path.read_bytes() == data, path
    # The array says what it is again where it belongs.
    shutil.rmtree(a / "aaa")
    shutil.copytree(b / "aaa", a / "aaa")
    assert differences(a, land()) == []


def test_a_foreign_group_is_no_group_of_the_dataset(stores: tuple[Path, Path]) -> None:
    a, b = stores
    shutil.copytree(a / "h", b / "h")
    with open_dataset(b, consolidated=False) as stored:
        assert {f.where for f in stored.findings if f.code == "node-foreign"} == {"/h", "/h/w"}
        assert stored.data("/h/w").read_orthogonal(...).tolist() == list(range(6))
    before = (b / "h" / "zarr.json").read_bytes()
    repair(b)
    assert (b / "h" / "zarr.json").read_bytes() == before


def test_plain_zarr_stays_plain(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    root = zarr.open_group(tmp_path / "p.zarr", mode="w", attributes={"count": 3})
    for name in ("p", "q"):
        root.create_array(name, data=np.arange(4), dimension_names=("x",))
    shutil.copytree(stores[0] / "aaa", tmp_path / "p.zarr" / "aaa")
    with pytest.warns(RecoveryWarning, match="copied from an NCZarr dataset"):
        stored = open_dataset(tmp_path / "p.zarr")
    with stored:
        assert stored.layout == "zarr-v3"
        assert stored.dataset.attribute["count"].type != INT
        assert [d.name for d in stored.dataset.dimensions if d.unlimited] == []
    with pytest.raises(UnsupportedError, match="zarr-v3"):
        repair(tmp_path / "p.zarr")
    before = (tmp_path / "p.zarr" / "aaa" / "zarr.json").read_bytes()
    with nczarr.Dataset(tmp_path / "p.zarr", "a") as ds:
        ds.title = "plain"
    assert (tmp_path / "p.zarr" / "aaa" / "zarr.json").read_bytes() == before


def test_an_array_of_the_same_dataset_under_another_name(stores: tuple[Path, Path]) -> None:
    """It holds an older copy of the record than the array that the copy is written in."""
    b = stores[1]
    shutil.copytree(b / "time", b / "aa_old")
    with nczarr.Dataset(b, "a") as ds:
        ds.setncattr("later", np.int8(1))
    shutil.rmtree(b / "aa_old")
    shutil.copytree(b / "time", b / "aa_old")
    document = json.loads((b / "aa_old" / "zarr.json").read_text())
    configuration = document["nczarr"]["configuration"]
    configuration["_nczarr_copy"] = configuration["_nczarr_copy"].replace('"later":"int8"', '"later":"int64"')
    (b / "aa_old" / "zarr.json").write_text(json.dumps(document))
    edited_elsewhere(b, {"count": 3, "title": "sea", "later": 1})
    with nczarr.Dataset(b) as ds:
        assert ds.getncattr("later").dtype == "i1"


@pytest.mark.parametrize("how", ["copied", "moved", "zip"])
def test_a_copy_of_the_whole_dataset_is_whole(tmp_path: Path, stores: tuple[Path, Path], how: str) -> None:
    b, other = stores[1], tmp_path / ("c.zip" if how == "zip" else "c.zarr")
    edited_elsewhere(b, {"count": 3, "title": "sea"})
    if how == "copied":
        shutil.copytree(b, other)
    elif how == "moved":
        b.rename(other)
    else:
        shutil.make_archive(str(tmp_path / "c"), "zip", b)
    with open_dataset(other, consolidated=False) as stored:
        assert {f.code for f in stored.findings} == {"keys-removed"}
        assert [str(d) for d in compare(sea(), stored.dataset, storage=False)] == []


def test_the_identity_stays_and_follows_from_the_source(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    def identity(folder: Path) -> Any:
        return json.loads((folder / "zarr.json").read_text())["attributes"]["_nczarr_superblock"]["dataset"]

    a, b = stores
    first = identity(b)
    assert first != identity(a)
    with nczarr.Dataset(b, "a") as ds:
        ds.title = "changed"
        ds.createVariable("new", "f4", ("x",))
        ds.createGroup("more")
        ds.renameVariable("temp", "heat")
    assert identity(b) == first
    named = {
        json.loads(p.read_text()).get("nczarr", {}).get("configuration", {}).get("dataset", first)
        for p in b.rglob("zarr.json")
    }
    assert named == {first}
    edited_elsewhere(b, {})
    repair(b)
    assert identity(b) == first
    # The same copy gives the same bytes; a new dataset without variables is no other's.
    for name in ("one", "two"):
        nczarr.copy(land(), tmp_path / name)
    assert (tmp_path / "one" / "zarr.json").read_bytes() == (tmp_path / "two" / "zarr.json").read_bytes()
    for name in ("three", "four"):
        nczarr.Dataset(tmp_path / name, "w").close()
    assert identity(tmp_path / "three") != identity(tmp_path / "four")


def test_a_dataset_of_version_3_1_gets_an_identity_with_its_next_edit(tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    shutil.copytree(STORES / "version_3_1.zarr", store)
    with open_dataset(store) as stored:
        assert stored.findings == ()
        before = stored.dataset
        with nczarr.Dataset(store, "a") as ds:
            ds.new = 1
        with nczarr.Dataset(store, "a") as ds:
            del ds.new
        assert differences(store, before) == []
    assert codes(store) == set()


def test_what_older_nczarr_has_written_belongs_to_the_dataset(stores: tuple[Path, Path]) -> None:
    """It writes the root without the identity, and leaves the arrays that it does not change."""
    b = stores[1]
    root = json.loads((b / "zarr.json").read_text())
    root["attributes"]["_nczarr_superblock"] = {"version": "3.1.0"}
    (b / "zarr.json").write_text(json.dumps(root))
    assert differences(b, sea()) == []
    assert codes(b) == {"version-old"}
    repair(b)
    assert codes(b) == set()
    assert differences(b, sea()) == []


def test_two_records_that_may_both_be_the_right_one(tmp_path: Path) -> None:
    """Each dataset has one array; nothing tells which of them was copied in."""
    for name in ("one", "two"):
        nczarr.copy(
            Dataset(name, dimensions=(Dimension("x", 3),), variables=(steps(name, "/x", 3),)),
            tmp_path / name,
            consolidated=False,
        )
    shutil.copytree(tmp_path / "one" / "one", tmp_path / "two" / "one")
    edited_elsewhere(tmp_path / "two", {})
    with open_dataset(tmp_path / "two", consolidated=False) as stored:
        assert "copy-unclear" in {f.code for f in stored.findings}
        assert stored.data("/two").read_orthogonal(...).tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedError, match="remove the arrays"):
        repair(tmp_path / "two")

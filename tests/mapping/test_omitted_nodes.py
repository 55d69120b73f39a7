"""Open datasets with unreadable arrays and invalid node names: they are named, kept, and never lost silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.cli import main
from nczarr.convert import diff
from nczarr.errors import LossError, MetadataError, ModelError, UnsupportedError
from nczarr.mapping import RecoveryWarning, check_metadata, open_dataset, repair
from nczarr.stores import open_store
from nczarr.zarr import open_hierarchy

pytestmark = pytest.mark.filterwarnings("ignore::nczarr.mapping.RecoveryWarning")

UNKNOWN: list[dict[str, Any]] = [
    {"data_type": {"name": "int4", "configuration": {}}},
    {"chunk_grid": {"name": "hexagonal", "configuration": {}}},
    {"chunk_key_encoding": {"name": "hashed"}},
    {"storage_transformers": [{"name": "hidden"}]},
    {"extensions": [{"name": "org.example.other", "must_understand": True}]},
    {"other": {"must_understand": True}},
    {"fill_value": None},  # as GDAL writes it
]
IDS = [next(iter(u)) for u in UNKNOWN]


def documents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.relative_to(folder).parts[0] in "bg"
    }


@pytest.fixture(params=["nczarr-v3", "zarr-v3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Variables a, b, /g/c, /g/d; the tests make b and /g/c strange."""
    store: dict[str, bytes] = {}
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("x", 3)
        for name in "ab":
            ds.createVariable(name, "i4", ("x",))[:] = [1, 2, 3]
        for name in "cd":
            ds.createVariable(f"/g/{name}", "i4", ("x",))[:] = 7
    nczarr.copy(store, tmp_path / "s.zarr", layout=request.param, lossy=True)
    return tmp_path / "s.zarr"


def make_strange(folder: Path, changes: dict[str, Any]) -> None:
    for path in ("b", "g/c"):
        file = folder / path / "zarr.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("changes", UNKNOWN, ids=IDS)
def test_the_other_arrays_are_read(folder: Path, changes: dict[str, Any]) -> None:
    make_strange(folder, changes)
    with pytest.warns(RecoveryWarning, match="'b' is left out"):
        ds = nczarr.Dataset(folder)
    with ds:
        assert list(ds.variables) == ["a"]
        assert list(ds["g"].variables) == ["d"]
        assert ds["a"][:].tolist() == [1, 2, 3]
    stored, findings = check_metadata(folder)
    stored.close()
    assert [f.what[:7] for f in findings if f.code == "left-out"] == ["'b' is ", "'g/c' i"]
    with pytest.raises(MetadataError):
        open_hierarchy(open_store(folder), consolidated=False).array("b")


@pytest.mark.parametrize("changes", UNKNOWN, ids=IDS)
def test_changes_keep_them(folder: Path, changes: dict[str, Any]) -> None:
    make_strange(folder, changes)
    before = documents(folder)
    with nczarr.Dataset(folder, "a") as ds:
        ds.title = "changed"
        ds["a"].units = "m"
        ds["a"][1] = 9
        ds.createVariable("new", "f4", ("x",))[:] = 1
    for path, data in before.items():
        if path.startswith(("b/", "g/c/")):
            assert (folder / path).read_bytes() == data
    with nczarr.Dataset(folder) as ds:
        assert ds["a"][:].tolist() == [1, 9, 3]


def test_repair_keeps_them(folder: Path) -> None:
    make_strange(folder, UNKNOWN[0])
    before = documents(folder)
    if "nczarr" in (folder / "a" / "zarr.json").read_text():
        repair(folder)
        assert {k: v for k, v in documents(folder).items() if k in before and k != "g/zarr.json"} == {
            k: v for k, v in before.items() if k != "g/zarr.json"
        }


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.createVariable("b", "f4"),
        lambda ds: ds.createGroup("b"),
        lambda ds: ds.renameVariable("a", "b"),
        lambda ds: ds.renameGroup("g", "h"),
    ],
    ids=["variable", "group", "rename", "move"],
)
def test_nothing_takes_their_place(folder: Path, change: Callable[[nczarr.Dataset], object]) -> None:
    make_strange(folder, UNKNOWN[0])
    before = documents(folder)
    with nczarr.Dataset(folder, "a") as ds:
        with pytest.raises(ModelError, match="would remove"):
            change(ds)
        ds["a"][1] = 9
        ds.later = "stored"
    after = documents(folder)
    assert {p: d for p, d in after.items() if not p.endswith(".json")}.items() <= before.items()
    assert all(after[f"{p}/zarr.json"] == before[f"{p}/zarr.json"] for p in ("b", "g/c"))
    with nczarr.Dataset(folder) as ds:
        assert (ds.later, ds["a"][:].tolist(), list(ds["g"].variables)) == ("stored", [1, 9, 3], ["d"])


def test_copies_and_comparisons_say_it(folder: Path, tmp_path: Path) -> None:
    make_strange(folder, UNKNOWN[0])
    for target in ("t.zarr", "t.nc", "t.cdl"):
        with pytest.raises(LossError, match="'b' is left out"):
            nczarr.copy(folder, tmp_path / target)
        assert not (tmp_path / target).exists()
    losses = nczarr.copy(folder, tmp_path / "t.zarr", lossy=True, verify=True)
    assert [loss[:4] for loss in losses] == ["'b' ", "'g/c"]
    with pytest.raises(UnsupportedError, match="the comparison is incomplete"):
        list(diff(folder, tmp_path / "t.zarr"))
    # Who names the variables asks for no others.
    assert nczarr.copy(folder, tmp_path / "a.zarr", variables=["a"]) == ()
    assert list(diff(tmp_path / "a.zarr", tmp_path / "a.zarr")) == []


def test_joining_and_appending_say_it(folder: Path, tmp_path: Path) -> None:
    make_strange(folder, UNKNOWN[0])
    with pytest.raises(LossError, match="'b' is left out"):
        nczarr.join([folder, folder], tmp_path / "t.zarr", along="run")
    with nczarr.Dataset(tmp_path / "t.zarr", "w") as ds:
        ds.createDimension("x", None)
        for name in ("a", "/g/d"):
            ds.createVariable(name, "i4", ("x",))[:] = np.arange(2)
    with pytest.raises(LossError, match="'b' is left out"):
        nczarr.append(folder, tmp_path / "t.zarr", along="x")


def test_names_that_netcdf_does_not_have(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "n.zarr", "w") as ds:
        for name in "ab":
            ds.createVariable(name, "i4")[...] = 1
    plain = tmp_path / "p.zarr"
    nczarr.copy(tmp_path / "n.zarr", plain, layout="zarr-v3", lossy=True, consolidated=False)
    (plain / "b").rename(plain / "b\tc")
    with pytest.raises(LossError, match="control character"):
        nczarr.copy(plain, tmp_path / "t.nc")
    assert not (tmp_path / "t.nc").exists()
    assert len(nczarr.copy(plain, tmp_path / "t.nc", lossy=True)) == 1


def test_a_digest_of_a_part_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody takes the digest of what is left for that of the whole."""
    whole = nczarr.digest(folder)
    make_strange(folder, UNKNOWN[0])
    with pytest.raises(LossError, match="not cover the whole dataset: 'b' is left out"):
        nczarr.digest(folder)
    made = nczarr.digest(folder, lossy=True)
    assert made.variables == {fqn: whole.variables[fqn] for fqn in ("/a", "/g/d")}
    assert made.dataset != whole.dataset
    assert main(["digest", str(folder)]) not in (0, None)
    told = capsys.readouterr()
    assert (told.out, "--lossy" in told.err) == ("", True)
    assert main(["digest", "--lossy", str(folder)]) in (0, None)
    assert capsys.readouterr().out.startswith(made.dataset)


ODD_GROUPS: list[dict[str, Any]] = [
    {"org.example.other": {"must_understand": True}},
    {"org.example.other": 7},
    {"extensions": []},
    {"extensions": [{"name": "org.example.other", "must_understand": True}]},
    {"attributes": None},
    {"attributes": [1]},
]


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("changes", ODD_GROUPS, ids=lambda c: json.dumps(c))
@pytest.mark.parametrize("node", ["b", "g"])
def test_an_odd_node_is_left_out_alone(
    folder: Path, tmp_path: Path, node: str, changes: dict[str, Any], consolidated: bool
) -> None:
    """The document of one node, an array or a group, does not refuse all other nodes."""
    for file in (folder / node / "zarr.json", folder / "zarr.json"):
        document = json.loads(file.read_text())
        if file.parent.name == node:
            document = {**document, **changes}
        elif consolidated:
            document["consolidated_metadata"]["metadata"][node].update(changes)
        else:
            document.pop("consolidated_metadata")
        file.write_text(json.dumps(document))
    before = {p: p.read_bytes() for p in (folder / node).rglob("*") if p.is_file()}
    with pytest.warns(RecoveryWarning, match=f"'{node}' is left out"):
        ds = nczarr.Dataset(folder)
    with ds:
        assert list(ds.variables) == (["a"] if node == "b" else ["a", "b"])
        assert list(ds.groups) == (["g"] if node == "b" else [])
        assert ds["a"][:].tolist() == [1, 2, 3]
    stored, findings = check_metadata(folder)
    stored.close()
    assert [f.what.split(" is ")[0] for f in findings if f.code == "left-out"] == [f"'{node}'"]
    for target in ("t.zarr", "t.nc"):
        with pytest.raises(LossError, match=f"'{node}' is left out"):
            nczarr.copy(folder, tmp_path / target)
    with nczarr.Dataset(folder, "a") as ds:
        ds.title = "changed"
        ds["a"].units = "m"
        ds.createVariable("new", "f4", ("x",))[:] = 1
    if "nczarr" in (folder / "a" / "zarr.json").read_text():
        repair(folder)
    assert {p: p.read_bytes() for p in (folder / node).rglob("*") if p.is_file()} == before
    with pytest.raises(ModelError, match="would remove"), nczarr.Dataset(folder, "a") as ds:
        ds.createGroup(node)
    with nczarr.Dataset(folder) as ds:
        assert ds["new"][:].tolist() == [1, 1, 1]


def test_the_root_cannot_be_left_out(folder: Path) -> None:
    document = json.loads((folder / "zarr.json").read_text())
    (folder / "zarr.json").write_text(json.dumps({**document, "extensions": []}))
    with pytest.raises(MetadataError, match="extensions: the list is empty"):
        open_dataset(folder)

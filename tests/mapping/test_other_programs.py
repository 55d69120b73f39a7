"""Change stores with other programs, and compare the model with netCDF4-python after the same change."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from real_data import NETCDF_FILES

import nczarr
from nczarr.cli import main
from nczarr.convert import copy, diff
from nczarr.mapping import RecoveryWarning, check_metadata, open_dataset, repair

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr", minversion="3.1.4")

#: Notes that say that a record is behind the arrays; nothing is lost then.
BEHIND = {"size-stale", "consolidated-stale", "labels"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """zarr-python says that consolidated metadata are no part of the specification."""
    with warnings.catch_warnings():
        for category in (UserWarning, FutureWarning, RuntimeWarning):
            warnings.simplefilter("ignore", category)
        yield


def fill(dataset: Any) -> None:
    """Write a dataset with all that other programs lose: through netCDF4-python, or the same interface."""
    dataset.title = "run 42"
    dataset.count = np.int16(3)
    flag = dataset.createEnumType(np.int8, "quality_t", {"good": 1, "bad": 0})
    dataset.createDimension("time", None)
    dataset.createDimension("x", 4)
    dataset.createDimension("unused", 7)
    time = dataset.createVariable("time", "f8", ("time",))
    time.units = "days since 2000-01-01"
    time.calendar = "standard"
    time[:] = np.arange(3)
    temp = dataset.createVariable("temp", "f4", ("time", "x"), fill_value=-9, zlib=True)
    temp.units = "K"
    temp.long_name = "temperature"
    temp.valid_max = np.float32(400)
    temp[:] = np.arange(12, dtype="f4").reshape(3, 4)
    counts = dataset.createVariable("counts", "i2", ("time",))
    counts[:] = [1, 2, 3]
    quality = dataset.createVariable("quality", flag, ("time",))
    quality[:] = [0, 1, 0]
    name = dataset.createVariable("name", "S1", ("x",))
    name[:] = [b"a", b"b", b"c", b"d"]
    group = dataset.createGroup("ocean")
    group.where = "below"
    group.createDimension("depth", 2)
    group.createVariable("depth", "i4", ("depth",))[:] = [10, 20]
    group.createVariable("salt", "f8", ("time", "depth"))[:] = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A netCDF file and its copy as a store."""
    nc, store = tmp_path / "a.nc", tmp_path / "a.zarr"
    with netCDF4.Dataset(nc, "w") as dataset:
        fill(dataset)
    copy(nc, store)
    return nc, store


def append(nc: Path, steps: int, *, group: bool = False) -> None:
    """What netCDF4-python does to append the first steps once more."""
    with netCDF4.Dataset(nc, "a") as dataset:
        dataset.set_auto_mask(False)
        for name in ("time", "temp", "counts", "quality"):
            dataset[name][3 : 3 + steps] = dataset[name][:steps]
        if group:
            dataset["ocean/salt"][3 : 3 + steps] = dataset["ocean/salt"][:steps]


def agree(nc: Path, store: Path) -> None:
    """The store is what the file is, now and after `repair`, which then finds nothing more."""
    for _ in range(2):
        with nczarr.Dataset(store) as ours, netCDF4.Dataset(nc) as theirs:
            assert ours.dimensions["time"].isunlimited()
            assert len(ours.dimensions["time"]) == len(theirs.dimensions["time"])
        found = list(map(str, diff(nc, store)))
        # netCDF puts _FillValue first, whenever it was set.
        assert [f for f in found if not f.startswith("/extra: attributes: ")] == []
        repair(store)
    opened, rest = check_metadata(store)
    with opened:
        assert [str(f) for f in rest] == []


# -- xarray


def test_xarray_sees_the_file_and_writes_it_again(pair: tuple[Path, Path], tmp_path: Path) -> None:
    nc, store = pair
    for group in (None, "ocean"):
        with xr.open_dataset(nc, group=group) as a, xr.open_dataset(store, engine="zarr", group=group) as b:
            xr.testing.assert_identical(a, b)
            b.load().to_netcdf(tmp_path / "again.nc")
    tree = xr.open_datatree(store, engine="zarr")
    xr.testing.assert_identical(tree, xr.open_datatree(nc))


#: Files of which xarray sees something else, and why; as the page of the specification lists them.
DIFFERENT = {
    "ref_hdf5_compat3.nc": "compounds are bytes",
    "ref_tst_compounds2.nc": "compounds are bytes",
}


@pytest.mark.parametrize("path", NETCDF_FILES, ids=lambda p: p.name)
def test_xarray_sees_real_files_as_they_are(path: Path, tmp_path: Path) -> None:
    """Nothing is stripped before the comparison, and what was read is written to a netCDF file."""
    copy(path, tmp_path / "a.zarr")
    options: dict[str, Any] = {}
    try:
        original = xr.open_groups(path, engine="netcdf4")
    except ValueError as error:
        if "decode" not in str(error):
            pytest.skip(f"xarray refuses the original: {str(error)[:60]}")
        options = {"decode_times": False}
        original = xr.open_groups(path, engine="netcdf4", **options)
    ours = xr.open_groups(tmp_path / "a.zarr", engine="zarr", **options)
    if path.name in DIFFERENT:
        assert any(not original[g].identical(ours[g]) for g in original)
        return
    assert list(original) == list(ours)
    for group, expected in original.items():
        xr.testing.assert_identical(expected, ours[group])
        try:
            expected.load().to_netcdf(tmp_path / "x.nc")
        except Exception:  # xarray cannot write its own reading of the file
            continue
        ours[group].load().to_netcdf(tmp_path / "y.nc")


def test_xarray_appends_its_own_slice(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    with xr.open_dataset(store, engine="zarr") as dataset:
        part = dataset.isel(time=slice(0, 2)).drop_vars("name").load()
    part.to_zarr(store, append_dim="time")
    append(nc, 2)
    agree(nc, store)


def test_xarray_appends_from_a_file(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    with xr.open_dataset(nc) as dataset:
        part = dataset.isel(time=slice(0, 2)).drop_vars("name").load()
    part.to_zarr(store, append_dim="time")
    append(nc, 2)
    agree(nc, store)


def test_xarray_adds_a_variable(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    new = xr.Dataset({"extra": (("x",), np.arange(4, dtype="f8"), {"units": "m"})}, attrs={"title": "new"})
    new.to_zarr(store, mode="a")
    with netCDF4.Dataset(nc, "a") as dataset:
        dataset.createVariable("extra", "f8", ("x",), fill_value=np.nan)[:] = np.arange(4)
        dataset["extra"].units = "m"
        dataset.title = "new"
        del dataset.count
    # xarray replaces all attributes of the group.
    agree(nc, store)


def test_xarray_writes_a_region(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    with xr.open_dataset(store, engine="zarr", decode_times=False) as dataset:
        part = dataset[["temp"]].isel(time=slice(1, 2)).drop_vars("time").load()
    (part * 0 + 5).to_zarr(store, region={"time": slice(1, 2)}, mode="r+")
    with netCDF4.Dataset(nc, "a") as changed:
        changed["temp"][1:2] = 5
    agree(nc, store)


def test_xarray_copies_to_a_new_store(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The copy is clean plain Zarr: nothing of ours is in it that would be stale there."""
    _, store = pair
    with xr.open_dataset(store, engine="zarr") as dataset:
        dataset.isel(time=slice(0, 1)).to_zarr(tmp_path / "new.zarr")
    with open_dataset(tmp_path / "new.zarr") as stored:
        assert stored.layout == "zarr-v3"
    assert "nczarr" not in (tmp_path / "new.zarr" / "zarr.json").read_text()


def test_xarray_opens_many(pair: tuple[Path, Path], tmp_path: Path) -> None:
    nc, store = pair
    copy(nc, tmp_path / "b.zarr")
    options = {
        "combine": "nested",
        "concat_dim": "time",
        "data_vars": "minimal",
        "coords": "minimal",
        "compat": "override",
    }
    ours = xr.open_mfdataset([store, tmp_path / "b.zarr"], engine="zarr", **options)
    theirs = xr.open_mfdataset([nc, nc], **options)
    xr.testing.assert_identical(ours.load(), theirs.load())


# -- zarr-python


def zarr_append(store: Path, names: list[str], consolidate: bool = False) -> None:
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    for name in names:
        array = root[name]
        array.append(np.asarray([array[0]], array.dtype) if array.ndim else array[0])
    if consolidate:
        zarr.consolidate_metadata(store)


@pytest.mark.parametrize("consolidate", [False, True])
def test_zarr_python_appends(pair: tuple[Path, Path], consolidate: bool) -> None:
    nc, store = pair
    zarr_append(store, ["time", "temp", "counts", "quality"], consolidate)
    append(nc, 1)
    agree(nc, store)


def test_zarr_python_appends_to_one_array_only(pair: tuple[Path, Path]) -> None:
    """The others read as fill, as in netCDF; `check` says so."""
    nc, store = pair
    zarr_append(store, ["time"])
    with netCDF4.Dataset(nc, "a") as dataset:
        dataset["time"][3] = dataset["time"][0]
    with pytest.warns(RecoveryWarning, match="3 of 4 steps"):
        open_dataset(store).close()
    opened, found = check_metadata(store)
    opened.close()
    assert {f.code for f in found} == {"length-differs", *BEHIND} - {"labels"}
    agree(nc, store)


def test_zarr_python_resizes_and_shrinks(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    for name, lengths in (
        ("time", (2,)),
        ("temp", (2, 4)),
        ("counts", (2,)),
        ("quality", (2,)),
        ("ocean/salt", (2, 2)),
    ):
        root[name].resize(lengths)
    cut = nc.with_name("cut.nc")
    _first_steps(cut, 2)
    agree(cut, store)


def _first_steps(cut: Path, steps: int) -> None:
    with netCDF4.Dataset(cut, "w") as dataset:
        fill(_Shorter(dataset, steps))


class _Shorter:
    """A dataset whose variables take only the first steps along time."""

    def __init__(self, dataset: Any, steps: int) -> None:
        self.__dict__.update(dataset=dataset, steps=steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def createGroup(self, name: str) -> Any:
        return _Shorter(self.dataset.createGroup(name), self.steps)

    def createVariable(self, name: str, kind: Any, dimensions: tuple[str, ...], **how: Any) -> Any:
        variable = self.dataset.createVariable(name, kind, dimensions, **how)
        return _ShorterVariable(variable, self.steps) if "time" in dimensions else variable


class _ShorterVariable:
    def __init__(self, variable: Any, steps: int) -> None:
        self.__dict__.update(variable=variable, steps=steps)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.variable, name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.variable[key] = value[: self.steps]


def test_zarr_python_changes_attributes(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    root["temp"].attrs["units"] = "C"
    root["counts"].attrs.put({"note": "new"})
    root.attrs["count"] = 70000
    root["ocean"].attrs.put({"where": "there"})
    with netCDF4.Dataset(nc, "a") as dataset:
        dataset["temp"].units = "C"
        dataset["counts"].note = "new"
        dataset.count = np.int64(70000)
        dataset["ocean"].where = "there"
    agree(nc, store)


def test_zarr_python_replaces_all_attributes_of_groups(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    zarr.open_group(store, mode="r+", use_consolidated=False).attrs.put({"title": "mine"})
    with netCDF4.Dataset(nc, "a") as dataset:
        dataset.title = "mine"
        del dataset.count
    agree(nc, store)


def test_zarr_python_consolidates(pair: tuple[Path, Path]) -> None:
    """It sorts the nodes; the order of the model stands in lists."""
    nc, store = pair
    zarr.consolidate_metadata(store)
    agree(nc, store)


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2", "nczarr-v2"])
def test_zarr_python_consolidates_in_its_own_words(layout: Any, tmp_path: Path) -> None:
    """It spells out defaults: `check` finds nothing stale, and chunks that are not there read as fill."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        dataset.createDimension("x", 6)
        dataset.createVariable("v", "f4", ("x",), chunksizes=(2,), fill_value=-9)[3] = 1
    copy(tmp_path / "a.nc", tmp_path / "a.zarr", layout=layout)
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr") as dataset:
        assert dataset["v"][:].tolist() == [None, None, None, 1, None, None]
    opened, found = check_metadata(tmp_path / "a.zarr")
    with opened:
        assert [str(f) for f in found if f.code == "consolidated-stale"] == []


@pytest.mark.parametrize("program", ["zarr-python", "tensorstore"])
def test_a_reader_goes_on_while_another_program_appends(program: str, tmp_path: Path) -> None:
    """They write the document anew, with other words for the same."""
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as made:
        made.createDimension("x", None)
        for name, options in {"raw": {}, "zlib": {"zlib": True}, "big": {"endian": "big"}}.items():
            made.createVariable(name, "i4", ("x",), chunksizes=(2,), fill_value=-9, **options)[5] = 1
    with nczarr.Dataset(tmp_path / "a.zarr") as reader:
        for name, variable in reader.variables.items():
            if program == "zarr-python":
                zarr.open_group(tmp_path / "a.zarr", mode="r+", use_consolidated=False)[name].resize((8,))
            else:
                ts = pytest.importorskip("tensorstore")
                kvstore = {"driver": "file", "path": f"{tmp_path}/a.zarr/{name}/"}
                opened = ts.open({"driver": "zarr3", "kvstore": kvstore}).result()
                opened.resize(exclusive_max=[8]).result()
            assert variable[:].tolist() == [None] * 5 + [1]


def test_zarr_python_creates_and_deletes(pair: tuple[Path, Path]) -> None:
    nc, store = pair
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    array = root.create_array("made", shape=(4,), dtype="i4", dimension_names=["x"], fill_value=0)
    array[:] = [1, 2, 3, 4]
    del root["counts"]
    with netCDF4.Dataset(nc) as before, netCDF4.Dataset(nc.with_name("b.nc"), "w") as dataset:
        fill(_Without(dataset, "counts"))
        dataset.createVariable("made", "i4", ("x",))[:] = [1, 2, 3, 4]
        assert before.title == dataset.title
    found = list(map(str, diff(nc.with_name("b.nc"), store)))
    assert found == []
    repair(store)
    assert list(map(str, diff(nc.with_name("b.nc"), store))) == []


class _Without(_Shorter):
    """A dataset without one variable."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.__dict__.update(dataset=dataset, name=name)

    def createGroup(self, name: str) -> Any:
        return self.dataset.createGroup(name)

    def createVariable(self, name: str, kind: Any, dimensions: tuple[str, ...], **how: Any) -> Any:
        if name == self.name:
            return np.empty(3)
        return self.dataset.createVariable(name, kind, dimensions, **how)


# -- tensorstore and icechunk


def test_tensorstore_resizes_and_writes(pair: tuple[Path, Path]) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    nc, store = pair
    for name in ("time", "temp", "counts", "quality"):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store / name}/"}}
        array = tensorstore.open(spec).result()
        array = array.resize(exclusive_max=[4, *array.shape[1:]]).result()
        array[3:4] = array[0:1].read().result()
    append(nc, 1)
    agree(nc, store)


def test_icechunk_takes_appends_and_gives_back(pair: tuple[Path, Path], tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    nc, _ = pair
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    copy(nc, session.store)
    session.commit("in")
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="r+")
    for name in ("time", "temp", "counts", "quality"):
        array = root[name]
        array.append(np.asarray([array[0]], array.dtype))
    session.commit("appended")
    append(nc, 1)
    store = repository.readonly_session("main").store
    assert list(map(str, diff(nc, store))) == []
    copy(store, tmp_path / "out.nc")
    assert list(map(str, diff(nc, tmp_path / "out.nc"))) == []


# -- NCZarr v2 and plain v2


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A netCDF file with records."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("t", None)
        dataset.createDimension("x", 2)
        dataset.createVariable("v", "f4", ("t", "x"), chunksizes=(2, 2))[:3] = np.arange(6).reshape(3, 2)
        dataset.createVariable("w", "i4", ("t",))[:] = [1, 2, 3]
    return path


@pytest.mark.parametrize(
    ("layout", "change", "names"),
    [
        ("nczarr-v2", "attribute", ["v", "w"]), ("zarr-v2", "attribute", ["v", "w"]),
        ("nczarr-v2", "root attribute", ["v", "w"]), ("zarr-v2", "root attribute", ["v", "w"]),
        ("nczarr-v2", "new", ["n", "v", "w"]), ("zarr-v2", "new", ["n", "v", "w"]),
        ("zarr-v2", "gone", ["v"]),
    ],
)  # fmt: skip
def test_version_2_is_read_as_its_own_documents_have_it(
    layout: Any, change: str, names: list[str], records: Path, tmp_path: Path
) -> None:
    """`.zmetadata` is behind what others change; what they changed is seen, and is there after our own change."""
    store = tmp_path / "a.zarr"
    copy(records, store, layout=layout)
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    if change == "attribute":
        group["w"].attrs["units"] = "m"
    elif change == "root attribute":
        group.attrs["title"] = "new"
    elif change == "new":
        group.create_array("n", data=np.array([1, 2]), attributes={"_ARRAY_DIMENSIONS": ["x"]})
    else:
        del group["w"]

    def check() -> None:
        with nczarr.Dataset(store) as found:
            assert sorted(found.variables) == names
            if change == "attribute":
                assert found["w"].units == "m"
            elif change == "root attribute":
                assert found.title == "new"
            elif change == "new":
                assert found["n"][:].tolist() == [1, 2]

    check()
    with nczarr.Dataset(store, "a") as changed:
        changed["v"].long_name = "ours"
    check()
    with nczarr.Dataset(store) as found:
        assert found["v"].long_name == "ours"
    # Whoever trusts the consolidated metadata sees the same.
    theirs = zarr.open_group(store, mode="r")
    assert sorted(theirs) == sorted(zarr.open_group(store, mode="r", use_consolidated=False))
    if change == "attribute":
        assert theirs["w"].attrs["units"] == "m"


def test_records_that_others_append_to_version_2(records: Path, tmp_path: Path) -> None:
    """NCZarr's record of the length is behind; netcdf-c refuses the store then, until we have written to it."""
    store = tmp_path / "a.zarr"
    copy(records, store, layout="nczarr-v2")
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    group["v"].append(np.full((2, 2), 9, "f4"))
    with nczarr.Dataset(store) as found:
        assert len(found.dimensions["t"]) == 5
        assert found["v"][3:].tolist() == [[9, 9], [9, 9]]
        assert found["w"][:].tolist() == [1, 2, 3, None, None]
    with nczarr.Dataset(store, "a") as changed:
        changed["w"][5] = 7
    with netCDF4.Dataset(f"file://{store}#mode=nczarr,file") as theirs:
        assert theirs["v"][3:5].tolist() == [[9, 9], [9, 9]]
        assert theirs["w"][:].tolist() == [1, 2, 3, None, None, 7]


def test_what_netcdf_c_leaves_behind_a_shorter_document(records: Path, tmp_path: Path) -> None:
    """It writes over the file and does not cut it; then it cannot read it itself."""
    store = tmp_path / "a.zarr"
    copy(records, store, layout="nczarr-v2")
    path = store / ".zattrs"
    longer = path.read_bytes()
    document = json.loads(longer) | {"title": "t"}
    path.write_bytes(json.dumps(document).encode() + longer[-9:])
    with nczarr.Dataset(store, "a") as found:
        assert found.title == "t"
        found.history = "ours"
    assert json.loads(path.read_bytes())["history"] == "ours"
    path.write_bytes(path.read_bytes() + b" nonsense")
    with pytest.raises(nczarr.NCZarrError, match="Extra data"):
        nczarr.Dataset(store)


@pytest.mark.parametrize("layout", ["nczarr-v2", "nczarr-v3"])
@pytest.mark.parametrize("resized", ["ab", "b"])
def test_fixed_dimensions_that_were_resized(layout: str, resized: str, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    store: dict[str, bytes] = {}
    with nczarr.Dataset(store, "w") as ds:
        ds.createDimension("x", 3)
        for name in "ab":
            ds.createVariable(name, "i4", ("x",))[:] = [1, 2, 3]
    folder = tmp_path / "r.zarr"
    copy(store, folder, layout=layout)
    for name in resized:
        array = zarr.open_array(str(folder / name), mode="r+")
        array.resize((5,))
        array[3:] = [8, 9]
    for change in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecoveryWarning)
            with nczarr.Dataset(folder, "a") as ds:
                ds.change = change
            with nczarr.Dataset(folder) as ds:
                sizes = {name: len(d) for name, d in ds.dimensions.items()}
                assert sizes == ({"x": 5} if resized == "ab" else {"x": 3, "x_5": 5})
                assert ds["b"][:].tolist() == [1, 2, 3, 8, 9]
                assert ds["a"][:].tolist() == ([1, 2, 3, 8, 9] if resized == "ab" else [1, 2, 3])


@pytest.mark.parametrize("added", ["variable of the dataset", "dataset of its own"])
def test_a_variable_that_xarray_adds_is_read_without_a_warning_and_recorded_by_the_next_writer(
    added: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "a.zarr"
    with nczarr.Dataset(store, "w") as ds:
        fill(ds)
    more = xr.open_zarr(store) if added == "variable of the dataset" else xr.Dataset()
    more["anomaly"] = (("x",), np.arange(4.0))
    more[["anomaly"]].to_zarr(store, mode="a")

    findings = {
        "keys-removed",
        "node-unlisted",
        *(["annotation-stale"] if added == "dataset of its own" else []),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecoveryWarning)
        for words in (["ls"], ["dump", "-h"], ["tree"], ["digest"], ["info"]):
            assert main([*words, str(store)]) == 0
            shown = capsys.readouterr()
            assert shown.err == ""
            assert ("finding:" in shown.out) == (words == ["info"])
        assert [line for line in shown.out.splitlines() if "'anomaly' is not listed" in line]
        # Information is no damage: a script that checks archives goes on.
        assert main(["check", "--data", str(store)]) == 0
        told = capsys.readouterr().out.splitlines()
        assert len(told) == len(findings)
        assert all("no damage; the next writer of nczarr" in line for line in told)
        main(["info", "--json", str(store)])
        assert {f["code"] for f in json.loads(capsys.readouterr().out)["findings"]} == findings
        assert {f.code for f in check_metadata(store)[1] if f.is_harmless} == findings
        with nczarr.Dataset(store, "a") as changed:
            changed["time"].axis = "T"
        assert check_metadata(store)[1] == ()
        main(["info", str(store)])
        assert "finding:" not in capsys.readouterr().out
        assert main(["check", str(store)]) == 0
        assert capsys.readouterr().out == ""
        with nczarr.Dataset(store) as found:
            assert found["anomaly"][:].tolist() == [0, 1, 2, 3]
            assert (found.dimensions["time"].isunlimited(), len(found.dimensions["unused"])) == (True, 7)

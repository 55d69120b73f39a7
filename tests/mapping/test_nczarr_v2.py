"""Read the output of netcdf-c in NCZarr v2, and let netcdf-c read ours exactly."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import netCDF4
import netcdf4_view
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, assume, given, settings
from real_data import DATA, ZARR_SAMPLES
from rotation import examples

import nczarr
from nczarr import mapping, netcdf
from nczarr.cli import main
from nczarr.errors import LossError, NCZarrError
from nczarr.mapping import WriteOptions
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    Attribute,
    Dataset,
    Dimension,
    MemorySource,
    Variable,
    compare,
    same_values,
)
from nczarr.stores import MemoryStore

TESTS = Path(__file__).parents[1]
V2 = WriteOptions(layout="nczarr-v2")


def open_with_netcdf_c(path: Path) -> Any:
    return netCDF4.Dataset(f"file://{path}#mode=nczarr,file")


# -- reading what netcdf-c wrote


DIALECTS = {
    "nczarr_v2_4.8.0_nczarrfile.zarr": {"s", "z", "be"},  # that version lost the scalar's value
    "nczarr_v2_4.8.1.zarr": {"s", "z", "be"},
    "nczarr_v2_4.9.0.zarr": set(),
    "nczarr_v2_4.9.2_nczarr.zarr": set(),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_gives_the_same_dataset(name: str) -> None:
    with mapping.open_dataset(ZARR_SAMPLES / name) as stored:
        assert stored.layout == "nczarr-v2"
        ds = stored.dataset
        assert [d.name for d in ds.dimensions] == ["x", "y", "slen"]
        assert ds.attribute["title"].text == "hist"
        assert ds.attribute["one"] == Attribute.of("one", 1, INT)
        assert ds.attribute["many"] == Attribute.of("many", [1, 2, 3], INT)
        assert ds.attribute["num"].text == "123"
        assert ds.attribute["emptyc"].text == ""
        assert ds.attribute["third"].type == DOUBLE
        assert json.loads(ds.attribute["jsn"].text.replace("'", '"')) == {"a": 1}
        v = ds.variable_at("/v")
        assert v.attribute["scale"].type == FLOAT
        assert v.attribute["_FillValue"] == Attribute.of("_FillValue", -99, INT)
        expected = {
            "/v": [1, 2, 3, 4],
            "/u": [1, 2, 3, 255],
            "/b": [-1, 2, 3, 4],
            "/d": np.arange(1.0, 13).reshape(4, 3).tolist(),
            "/un": [9.969209968386869e36] * 4,
            "/g/gv": np.arange(1, 9).reshape(2, 4).tolist(),
        }
        if "s" not in DIALECTS[name]:
            expected |= {"/s": 2.5, "/z": [1, 2, 3, 4], "/be": [1, 2, 3, 4]}
        for fqn, values in expected.items():
            assert read(ds, fqn).tolist() == values, fqn
        assert read(ds, "/c").tobytes() == b"abcdefg\0\0\0h\0\0\0\0"
        assert ds.variable_at("/s").dimensions == ()
        assert ds.variable_at("/g/gv").dimensions == ("/g/w", "/x")
        assert ds.group_at("/g/sub").attribute["q"].text == "deep"


def read(dataset: Dataset, fqn: str) -> np.ndarray:
    variable = dataset.variable_at(fqn)
    assert variable.data is not None
    return variable.data.read(tuple(slice(0, n, 1) for n in variable.data.shape))


@pytest.mark.parametrize("name", sorted(p.name for p in ZARR_SAMPLES.glob("q_simple*")))
def test_files_that_newer_versions_of_netcdf_c_refuse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(ZARR_SAMPLES / name)]) == 0
    assert "v = " in capsys.readouterr().out


def test_what_netcdf_c_kept_is_read_as_the_original() -> None:
    lost = {
        "f32",
        "f64",
        "f64v",
        "empty",
        "json_obj",
        "json_obj2",
        "json_arr",
        "json_arrstr",
        "json_str",
        "spaced",
        "trailing",
    }
    with netcdf.open_dataset(ZARR_SAMPLES / "rich.nc") as original:
        with mapping.open_dataset(ZARR_SAMPLES / "nczarr_v2_netcdf-c-4.10.1_rich.zarr") as stored:
            ours, theirs = stored.dataset, original.dataset
            for a, b in zip(ours.attributes, theirs.attributes, strict=True):
                if b.name not in lost:
                    assert a == b
            # cut at 128 bytes; rounded; szip and zstd, which this machine's libraries may not have
            skipped = {"/vstrlong", "/vf8_third", "/sz", "/zs", "/bl", "/blz", "/blzstd", "/bz"}
            for fqn in theirs.all_variables:
                if fqn not in skipped:
                    assert same_values(read(ours, fqn), read(theirs, fqn)), fqn


def test_an_unknown_codec_is_an_error_of_its_variable_only() -> None:
    with mapping.open_dataset(ZARR_SAMPLES / "nczarr_v2_netcdf-c-4.10.1_rich.zarr") as stored:
        with pytest.raises(NCZarrError, match="szip"):
            read(stored.dataset, "/sz")


@pytest.mark.parametrize("name", DIALECTS)
def test_a_changed_dataset_says_nothing_of_before(name: str, tmp_path: Path) -> None:
    """The keys of older versions stayed beside today's, with the names and sizes of before."""
    path = tmp_path / "a.zarr"
    shutil.copytree(ZARR_SAMPLES / name, path)
    with nczarr.Dataset(path) as ds:
        before = {n: v[...].tolist() for n, v in ds.variables.items()}
    with nczarr.Dataset(path, "a") as ds:
        ds.renameDimension("slen", "letters")
        ds.renameVariable("v", "renamed")
        ds.createDimension("n", 3)
        ds.createVariable("new", "i4", ("n",))[:] = [1, 2, 3]
        ds["u"].added = "new"
    before = {"renamed" if n == "v" else n: values for n, values in before.items()} | {"new": [1, 2, 3]}
    documents = [p.read_text() for p in path.rglob(".z*")]
    assert not [text for text in documents if "_NCZARR_" in text or '"slen"' in text or "/slen" in text]
    for opened in (nczarr.Dataset(path), open_with_netcdf_c(path)):
        with opened as ds:
            assert {n: v[...].tolist() for n, v in ds.variables.items()} == before
            assert sorted(ds.dimensions) == ["letters", "n", "x", "y"]
            assert ds["u"].added == "new"


@pytest.mark.parametrize("top", ["", "t/"])
def test_zip_stores_with_and_without_a_top_folder(tmp_path: Path, top: str) -> None:
    folder, archive = tmp_path / "a.zarr", tmp_path / "t.zip"
    nczarr.copy(simple(), folder, layout="nczarr-v2")
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                zipped.write(file, top + str(file.relative_to(folder)))
    for target in (archive, f"file://{archive}#mode=nczarr,zip"):
        with mapping.open_dataset(target) as stored:
            assert list(compare(simple(), stored.dataset)) == []


# -- writing


def simple(*attributes: Attribute, fill: Any = None) -> Dataset:
    names = np.empty(2, object)
    names[:] = ["short", "a longer text, é"]
    return Dataset(
        "d",
        attributes=attributes,
        dimensions=(Dimension("t", 2, True), Dimension("x", 3)),
        variables=(
            Variable("v", DOUBLE, ("/t", "/x"), data=MemorySource(np.arange(6.0).reshape(2, 3) / 3)),
            Variable("name", STRING, ("/t",), data=MemorySource(names)),
            Variable("scalar", BYTE, (), data=MemorySource(np.array(-5, "i1"))),
            Variable("c", CHAR, ("/x",), data=MemorySource(np.array([b"a", b"b", b"c"], "S1"))),
        ),
        format="netCDF-4",
    )


TEXTS = [
    "",
    "123",
    "1.50",
    "true",
    "-1.5",
    " 12",
    "12 ",
    "NaN",
    '"quoted"',
    "[1, 2]",
    '{"a":1}',
    "a\nb\tc",
    "é€🌊",
    "'",
    "\\",
]
NUMBERS = [
    np.float64(1 / 3),
    np.float32(1 / 3),
    np.array([np.nan, -np.inf, 1.5]),
    np.int64(-(2**63)),
    np.uint64(2**64 - 1),
    np.array([], "i2"),
    np.float64(-0.0),
    np.int8(-1),
]


def test_netcdf_c_reads_attributes_exactly(tmp_path: Path) -> None:
    attributes = [Attribute.of(f"t{i}", text) for i, text in enumerate(TEXTS)]
    attributes += [Attribute.of(f"n{i}", number) for i, number in enumerate(NUMBERS)]
    attributes += [
        Attribute.of("one_string", "x" * 300, STRING),
        Attribute.of("strings", ["a", "", "é"], STRING),
    ]
    nc, zarr = tmp_path / "a.nc", tmp_path / "a.zarr"
    dataset = simple(*attributes)
    nczarr.copy(dataset, nc)
    nczarr.copy(dataset, zarr, layout="nczarr-v2")
    with netCDF4.Dataset(nc) as original, open_with_netcdf_c(zarr) as copied:
        assert list(netcdf4_view.differences(original, copied)) == []
    assert list(nczarr.diff(dataset, zarr)) == []


#: HDF5 files that netCDF4-python itself cannot open.
NOT_FOR_NETCDF4 = {"foreign.nc"}
REAL = [
    p
    for folder in (DATA / "netcdf", TESTS / "data")
    for p in sorted(folder.glob("*.nc"))
    if p.name not in NOT_FOR_NETCDF4
]


@pytest.mark.parametrize("nc", REAL, ids=lambda p: p.name)
def test_netcdf_c_reads_real_files_exactly(nc: Path, tmp_path: Path) -> None:
    zarr = tmp_path / "out.zarr"
    try:
        nczarr.copy(nc, zarr, layout="nczarr-v2")
    except LossError as error:
        assert "cannot hold" in str(error)
        assert not zarr.exists()
        return
    assert list(nczarr.diff(nc, zarr)) == []
    with netCDF4.Dataset(nc) as original, open_with_netcdf_c(zarr) as copied:
        assert list(netcdf4_view.differences(original, copied)) == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(types="none"))  # it has no user-defined types
def test_round_trip_of_all_that_it_can_hold(dataset: Dataset) -> None:
    store = MemoryStore()
    try:
        sink = mapping.create_dataset(store, dataset, V2)
    except LossError:
        assume(False)
    for fqn, variable in dataset.all_variables.items():
        if variable.data is not None:
            region = tuple(slice(0, n, 1) for n in variable.data.shape)
            sink.write(fqn, region, variable.data.read(region))
    sink.commit()
    with mapping.open_dataset(store) as stored:
        found = list(compare(dataset, stored.dataset))
    assert found == []


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        (Attribute.of("a", b"x\0y"), "NUL"),
        (Attribute.of("a", b"\xe9"), "UTF-8"),
        (Attribute.of("a", np.uint32(0x7FC00001).view("f4")), "payload"),
        (Attribute.of("_nczarr_group", "mine"), "name"),
    ],
)
def test_what_cannot_be_held_is_refused_or_listed(attribute: Attribute, reason: str, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    with pytest.raises(LossError, match=reason):
        nczarr.copy(simple(attribute), out, layout="nczarr-v2")
    assert not out.exists()
    losses = nczarr.copy(simple(attribute), out, layout="nczarr-v2", lossy=True)
    assert len(losses) == 1
    assert reason in losses[0]


def test_a_lossy_copy_keeps_what_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.zarr"
    example = str(TESTS / "data" / "example.nc")
    assert main(["copy", "--layout", "nczarr-v2", "--lossy", example, str(out)]) == 0
    said = capsys.readouterr().err
    assert "enum type 'quality_t'" in said
    with open_with_netcdf_c(out) as copied, netCDF4.Dataset(example) as original:
        assert copied["ocean/flag"].dtype == "int8"
        assert (copied["ocean/temp"][:] == original["ocean/temp"][:]).all()


def test_a_string_that_is_too_long_later_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    nczarr.copy(simple(), out, layout="nczarr-v2")
    with mapping.open_dataset(out, "r+") as stored:
        long = np.array(["x" * 1000], object)
        with pytest.raises(LossError, match="1000 bytes"):
            stored.data("/name").write((slice(0, 1),), long)
        assert read(stored.dataset, "/name").tolist() == ["short", "a longer text, é"]


def test_damaged_keys_are_named(tmp_path: Path) -> None:
    good = tmp_path / "good.zarr"
    nczarr.copy(simple(), good, layout="nczarr-v2", consolidated=False)
    for change in (
        lambda a: a["_nczarr_array"].update(dimension_references=["/nowhere", "/x"]),
        lambda a: a["_nczarr_array"].update(dimension_references=["/x"]),
        lambda a: a.update(_nczarr_array=[]),
        lambda a: a["_nczarr_attr"].update(types=1),
    ):
        bad = tmp_path / "bad.zarr"
        shutil.copytree(good, bad)
        attributes = json.loads((bad / "v" / ".zattrs").read_text())
        change(attributes)
        (bad / "v" / ".zattrs").write_text(json.dumps(attributes))
        with pytest.raises(NCZarrError, match=r"v/\.z(attrs|array)"):
            mapping.open_dataset(bad)
        shutil.rmtree(bad)

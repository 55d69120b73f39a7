"""Test the front door: what open takes and gives, what constructors take, and how mistaken calls are refused."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import nczarr
from nczarr import NCZarrError, cdl
from nczarr.errors import EditError, UnsupportedError
from nczarr.model import (
    BYTE,
    CHAR,
    DOUBLE,
    INT,
    INT64,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    Variable,
    compare,
    resolve,
)


def example(name: str = "d") -> Dataset:
    temp = Variable("temp", DOUBLE, ("x",), data=np.arange(3), attributes={"units": "K"})
    return Dataset(name, dimensions=[Dimension("x", 3)], groups=[Group("g", variables=[temp])])


def stored(folder: Path, name: str) -> str:
    path = str(folder / name)
    nczarr.copy(example(), path)
    return path


def laid_out(folder: Path, layout: str) -> str:
    path = str(folder / "f.zarr")
    nczarr.copy(example(), path, layout=layout)  # type: ignore[arg-type]
    return path


def referred(folder: Path, name: str) -> str:
    path = str(folder / name)
    nczarr.copy(stored(folder, "f.nc"), path, virtual=True)
    return path


def plain(folder: Path, version: int) -> str:
    root = zarr.open_group(folder / "plain.zarr", mode="w", zarr_format=version)
    array = root.require_group("g").create_array("temp", shape=(3,), dtype="f8", chunks=(3,))
    array[:] = np.arange(3)
    return str(folder / "plain.zarr")


def mapping(folder: Path) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    nczarr.copy(example(), keys)
    return keys


SOURCES: dict[str, Callable[[Path], Any]] = {
    "a directory": lambda folder: stored(folder, "f.zarr"),
    "a path object": lambda folder: Path(stored(folder, "f.zarr")),
    "a URL": lambda folder: Path(stored(folder, "f.zarr")).as_uri(),
    "a zip file": lambda folder: stored(folder, "f.zip"),
    "a netCDF file": lambda folder: stored(folder, "f.nc"),
    "a CDL file": lambda folder: stored(folder, "f.cdl"),
    "a mapping": mapping,
    "a store of zarr-python": lambda folder: zarr.storage.LocalStore(stored(folder, "f.zarr")),
    "plain Zarr v3": lambda folder: plain(folder, 3),
    "plain Zarr v2": lambda folder: plain(folder, 2),
    "the draft of 2019": lambda folder: laid_out(folder, "draft-2019"),
    "netcdf-c's Zarr v2": lambda folder: laid_out(folder, "nczarr-v2"),
    "references in JSON": lambda folder: referred(folder, "f.json"),
    "references in Parquet": lambda folder: referred(folder, "f.parquet"),
    "xarray": lambda _: xr.DataTree.from_dict({"/g": xr.Dataset({"temp": ("x", np.arange(3.0))})}),
    "the netCDF4 interface": lambda folder: nczarr.Dataset(stored(folder, "f.zarr")),
    "the model": lambda _: example(),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_everything_that_copy_takes_opens_as_a_model(source: Callable[[Path], Any], tmp_path: Path) -> None:
    given = source(tmp_path)
    with nczarr.open(given) as ds:
        assert isinstance(ds, Dataset)
        assert ds["g/temp"][:].tolist() == ds["/g"]["temp"][...].tolist() == [0, 1, 2]
        assert "temp(" in cdl.dumps(given)
        file = io.StringIO()
        cdl.dump(given, file)
        assert file.getvalue() == cdl.dumps(given)


def test_unstored_changes_of_the_netcdf4_interface_are_seen(tmp_path: Path) -> None:
    with nczarr.Dataset(stored(tmp_path, "f.zarr"), "a") as ds:
        ds["g/temp"][0] = 7
        assert nczarr.open(ds)["g/temp"][0] == 7


@pytest.mark.parametrize("name", ["f.zarr", "f.zip", "f.nc"])
def test_a_variable_is_read_until_its_dataset_is_closed(name: str, tmp_path: Path) -> None:
    path = stored(tmp_path, name)
    kept = nczarr.open(path)["g/temp"]  # nothing else refers to the dataset
    assert kept[1] == 1
    with nczarr.open(path) as ds:
        variable = ds["g/temp"]
    with pytest.raises(EditError, match="'temp' is closed"):
        variable[:]
    os.replace(path, f"{path}.moved")


@pytest.mark.parametrize("name", ["f.zarr", "f.zip", "f.nc", "f.cdl"])
def test_an_opened_dataset_is_pickled_as_its_path(name: str, tmp_path: Path) -> None:
    opened = nczarr.open(stored(tmp_path, name))
    again = pickle.loads(pickle.dumps(opened))
    assert again == opened
    assert list(compare(again, opened)) == []


def test_a_dataset_in_memory_is_pickled_whole(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(example()))
    assert again["g/temp"][:].tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedError, match="cannot be pickled"):
        pickle.dumps(nczarr.open(mapping(tmp_path)))


INDICES = [
    0,
    -1,
    ...,
    slice(None),
    slice(None, None, -2),
    slice(3, 1),
    (1, 2),
    (..., 0),
    (slice(-2, None), -1),
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_index_means_what_it_means_for_an_array(index: Any) -> None:
    array = np.arange(12).reshape(3, 4)
    variable = Variable("v", INT, ("x", "y"), data=array)
    np.testing.assert_array_equal(variable[index], array[index])


VALUES = [5, 2.5, "text", [1, 2], ["a", "bc"], np.float32(1), np.arange(3, dtype="i2"), [0.5, 1]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_an_attribute_has_the_type_that_netcdf4_python_gives_it(value: Any, tmp_path: Path) -> None:
    nczarr.copy(Dataset("d", attributes=[Attribute("a", value)]), tmp_path / "ours.nc")
    with netCDF4.Dataset(tmp_path / "theirs.nc", "w") as theirs:
        theirs.a = value
    with nczarr.open(tmp_path / "ours.nc") as a, nczarr.open(tmp_path / "theirs.nc") as b:
        assert a.attributes == b.attributes


def test_a_given_type_wins() -> None:
    assert Attribute("a", INT, 5) == Attribute("a", INT, np.array([5], "i4"))
    assert Attribute("a", STRING, "x").values.tolist() == ["x"]
    assert Attribute("a", 5).type is INT64
    assert Attribute("a", "x").type is CHAR


def test_a_dataset_prints_itself() -> None:
    assert repr(example()) == "<Dataset 'd': 1 dimension, 1 group>"
    assert "double temp(x)  // units = 'K'" in str(example())
    assert "temp" in nczarr.open(example())._repr_html_()


def test_cdl_is_read_from_text_bytes_files_and_paths(tmp_path: Path) -> None:
    text = cdl.dumps(example())
    path = tmp_path / "d.cdl"
    path.write_text(text)
    with open(path) as file, open(path, "rb") as raw:
        found = [cdl.loads(text), cdl.loads(text.encode()), cdl.load(path), cdl.load(file), cdl.load(raw)]
    assert all(list(compare(each, nczarr.open(example()))) == [] for each in found)


def small() -> Variable:
    return Variable("v", BYTE, ("x",), data=[1, 2, 3])


def closed() -> Any:
    ds = nczarr.Dataset("closed", "w", diskless=True)
    ds.close()
    return nczarr.open(ds)


def with_variable(*args: Any, **kwargs: Any) -> Any:
    return nczarr.open(Dataset("d", dimensions=[Dimension("x", 3)], variables=[Variable(*args, **kwargs)]))


#: Thirty mistaken calls, each with the class that it also is, and words of its message.
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "open None": (lambda: nczarr.open(None), TypeError, "NoneType is nothing that nczarr can open"),
    "open a number": (lambda: nczarr.open(5), TypeError, "int is nothing"),
    "open a list": (lambda: nczarr.open(["a.nc"]), TypeError, "list is nothing"),
    "open bytes": (lambda: nczarr.open(b"abc"), TypeError, "bytes is nothing"),
    "open a group": (lambda: nczarr.open(Group("g")), TypeError, "Group is nothing"),
    "open a class": (lambda: nczarr.open(Dataset), TypeError, "type is nothing"),
    "open a missing file": (lambda: nczarr.open("/no/such.zarr"), FileNotFoundError, "/no/such.zarr"),
    "open a closed dataset": (closed, RuntimeError, "closed"),
    "dump None": (lambda: cdl.dumps(None), TypeError, "NoneType is nothing"),
    "dump a missing file": (lambda: cdl.dumps("/no/such.nc"), FileNotFoundError, "/no/such.nc"),
    "dump to a path": (lambda: cdl.dump(example(), "f.cdl"), TypeError, "writes to an open file"),  # type: ignore[arg-type]
    "load None": (lambda: cdl.load(None), TypeError, "load takes a path"),  # type: ignore[arg-type]
    "load text None": (lambda: cdl.loads(None), TypeError, "loads takes a text, not NoneType"),  # type: ignore[arg-type]
    "load a path as text": (lambda: cdl.loads(Path("f.cdl")), TypeError, "load takes a path"),  # type: ignore[arg-type]
    "load no CDL": (lambda: cdl.loads("f.cdl"), NCZarrError, "<cdl>:1:1"),
    "no such path": (lambda: example()["g/tmp"], KeyError, "did you mean 'temp'"),
    "below a variable": (lambda: example()["g/temp/x"], KeyError, "no variable or group 'x' in 'temp'"),
    "a number as path": (lambda: example()[0], TypeError, "a path is text"),  # type: ignore[index]
    "text for dimensions": (lambda: Variable("v", INT, "x"), TypeError, r"write \('x',\)"),
    "a number for dimensions": (lambda: Variable("v", INT, 3), TypeError, "v: the dimensions are a list"),  # type: ignore[arg-type]
    "an unknown dimension": (lambda: with_variable("v", INT, ("y",)), NCZarrError, "/v: .*'y'"),
    "a shape that does not fit": (
        lambda: with_variable("v", INT, ("x",), data=[1]),
        NCZarrError,
        "/v: .*shape",
    ),
    "axes without dimensions": (lambda: Variable("v", INT, data=[1, 2]), ValueError, r"v: .*shape \(2,\)"),
    "too big a number": (
        lambda: Variable("v", BYTE, ("x",), data=[1, 300]),
        OverflowError,
        "v: the value 300",
    ),
    "a fraction in an int": (lambda: Variable("v", INT, data=1.5), OverflowError, "v: the value 1.5"),
    "text in an int": (lambda: Variable("v", INT, data="a"), ValueError, "v: .*'a'.* type int"),
    "no values": (lambda: Variable("v", INT)[...], NCZarrError, "v: the variable has no values"),
    "a place behind the end": (lambda: small()[3], IndexError, "v: the index 3 is outside of the length 3"),
    "too many indices": (lambda: small()[0, 0], IndexError, r"v: the index has 2 parts"),
    "a name as index": (lambda: small()["x"], IndexError, "v: 'x' is no index"),
    "an attribute of None": (lambda: Attribute("a", None), NCZarrError, "attribute 'a'"),
    "an attribute too big": (lambda: Attribute("a", BYTE, 300), OverflowError, "attribute a: the value 300"),
    "an attribute of no type": (
        lambda: Attribute("a", "int", 5),
        TypeError,
        "attribute 'a': 'int' is not a type",
    ),
    "a single variable": (lambda: Dataset("d", variables=small()), TypeError, "d: the variables are a list"),  # type: ignore[arg-type]
    "dimensions as variables": (
        lambda: Dataset("d", variables=[Dimension("x", 3)]),  # type: ignore[list-item]
        TypeError,
        "d: the variables are of the class Variable",
    ),
    "an illegal name": (lambda: with_variable("a\0b", INT), NCZarrError, "variable"),
    "a negative length": (
        lambda: nczarr.open(Dataset("d", dimensions=[Dimension("x", -1)])),
        NCZarrError,
        "/x: the size -1 is negative",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistaken_call_is_an_error_of_nczarr_with_its_place(
    call: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(NCZarrError, match=message) as caught:
        call()
    assert isinstance(caught.value, kind)


@pytest.mark.parametrize("wrong", ["int", 5, None, int, "nothing"])
@pytest.mark.parametrize("place", ["variable", "enum", "field"])
def test_what_is_no_type_is_told_by_name(wrong: Any, place: str) -> None:
    parts: dict[str, Any] = {
        "variable": {"variables": (Variable("v", wrong, ()),)},
        "enum": {"types": (EnumType("/e", wrong, (("a", 1),)),)},
        "field": {"types": (CompoundType("/c", (Field("f", wrong),)),)},
    }
    with pytest.raises(NCZarrError, match=r"type"):
        resolve(Dataset("d", **parts[place]))


@pytest.mark.parametrize("name", ["a.zarr", "a.nc", "a.zarr.zip", "a.cdl"])
def test_a_variable_or_a_group_of_an_open_dataset_is_pickled_alone(tmp_path: Path, name: str) -> None:
    with nczarr.open(stored(tmp_path, name)) as dataset:
        variable, group = dataset["g/temp"], dataset["g"]
        texts = [pickle.dumps(each) for each in (variable, group)]
    again, group = map(pickle.loads, texts)
    assert again[...].tolist() == [0, 1, 2]
    assert again.with_data(None) == variable.with_data(None)
    assert group.variables[0][1] == 1
    assert pickle.loads(pickle.dumps(again.with_data(None))).name == "temp"


def test_mistakes_with_attributes_and_comparisons_are_told() -> None:
    variable = example()["g/temp"]
    with pytest.raises(NCZarrError, match=r"there is no attribute 'unit' \(did you mean 'units'") as caught:
        variable.attribute["unit"]
    assert isinstance(caught.value, KeyError)
    assert variable.attribute.get("unit") is None
    with pytest.raises(NCZarrError, match=r"mode='w': a model is read-only \(nczarr\.Dataset"):
        nczarr.open(example(), "w")  # type: ignore[arg-type]
    assert nczarr.open(example(), "r")["g/temp"][1] == 1
    with pytest.raises(NCZarrError, match=r"'a\.nc' is not a dataset of the model.*nczarr\.diff"):
        list(compare("a.nc", "b.nc"))  # type: ignore[arg-type]


@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
@pytest.mark.parametrize("name", ["open.zarr", "open.nc"])
def test_a_dataset_in_an_object_store_is_opened_and_pickled(
    s3_server: dict[str, str], tmp_path: Path, backend: str, name: str
) -> None:
    url, options = f"s3://test/{backend}-{name}", {"backend": backend}
    if name == "open.zarr":
        nczarr.copy(example(), url, target_options=options)
    else:
        nczarr.copy(example(), tmp_path / name)
        fs = pytest.importorskip("s3fs").S3FileSystem()
        fs.put_file(tmp_path / name, url.removeprefix("s3://"))
    with nczarr.open(url, storage_options=options) as dataset:
        assert dataset["g/temp"][1:].tolist() == [1, 2]
        text = pickle.dumps(dataset["g/temp"])
    assert pickle.loads(text)[0] == 0


def test_a_copy_with_other_data_takes_an_array_as_the_constructor_does() -> None:
    variable = Variable("x", DOUBLE, ("x",), data=[1.0, 2.0])
    assert variable.with_data(np.array([3.0, 4.0]))[1:].tolist() == [4.0]  # type: ignore[arg-type]

"""Copy Zarr's own data types, and compare what stock xarray reads of the source and of each copy."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczarr
from nczarr.cli.main import main
from nczarr.convert.endpoints import open_source
from nczarr.mapping import open_dataset
from nczarr.model import FLOAT

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

#: The copies by name, with the options of the copy. The layout nczarr-v2 has netcdf-c's own types only.
COPIES: dict[str, dict[str, Any]] = {
    "copy.nc": {},
    "nczarr3.zarr": {},
    "zarr3.zarr": {"layout": "zarr-v3"},
    "zarr2.zarr": {"layout": "zarr-v2"},
    "nczarr2.zarr": {"layout": "nczarr-v2"},
}
_TEXT = np.array(["one", "", "three", "none"])
#: Values and fill values by data type; each fill value is Zarr's default, one of the values, or neither. None is
#: netCDF's default, which netcdf-c's layout, where each array has a fill value, has for all arrays without another.
CASES: dict[str, tuple[Any, list[Any]]] = {
    "bool": (np.array([True, False, True, False]), [False, True]),
    "int8": (np.array([0, 1, -1, 9]), [0, 9, -5]),
    "uint16": (np.array([0, 1, 7, 9]), [0, 9, 65534]),
    "int64": (np.array([0, 1, -1, 2**53]), [0, 1, -(2**62)]),
    "float16": (np.array([0, 0.1, -1, np.nan]), [0, np.nan, -1, np.inf]),
    "float32": (np.array([0, 0.1, -1, np.nan]), [0, np.nan, -1, 1e20]),
    "float64": (np.array([0, 0.1, -1, np.nan]), [0, np.nan, -1, -np.inf]),
    "U5": (_TEXT, ["", "none"]),
    "string": (_TEXT, ["", "none"]),
}


def make(path: Path, zarr_format: int, data_type: Any, values: Any, fill: Any, **attributes: object) -> None:
    """Create a group with the array ``v``, whose last chunk is not stored."""
    group = zarr.create_group(path, zarr_format=zarr_format)
    labels = {"dimension_names": ["x"]} if zarr_format == 3 else {}
    if data_type == "string":
        data_type = str
    array = group.create_array(
        "v",
        shape=(6,),
        chunks=(2,),
        dtype=data_type,
        fill_value=fill,
        config={"write_empty_chunks": True},
        **labels,
    )
    array[:4] = values
    array.attrs.update({"_ARRAY_DIMENSIONS": ["x"]} if zarr_format == 2 else {})
    array.attrs.update(attributes)


def stock(path: Path, **options: Any) -> Any:
    """Open a dataset with stock xarray."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(path, engine="netcdf4" if path.suffix == ".nc" else "zarr", **options).load()


def numbers(variable: Any) -> list[Any]:
    """Return values that compare equal where xarray shows the same: missing ones as None, text as text."""
    plain = [v.decode() if isinstance(v, bytes) else v for v in variable.values.tolist()]
    return [None if v != v else v for v in plain]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("data_type", "fill"), [(name, fill) for name, (_, fills) in CASES.items() for fill in fills]
)
def test_stock_xarray_reads_the_same_of_a_source_and_of_its_copies(
    tmp_path: Path, zarr_format: int, data_type: str, fill: Any
) -> None:
    source = tmp_path / "source.zarr"
    make(source, zarr_format, data_type, CASES[data_type][0], fill)
    # xarray masks all false or all true values on v2; a truth value is never missing.
    expected = numbers(stock(source, mask_and_scale=data_type != "bool")["v"])
    stored = numbers(stock(source, mask_and_scale=False)["v"])
    is_text = data_type in ("U5", "string")
    for name, options in COPIES.items():
        if (
            is_text and name == "nczarr2.zarr"
        ):  # bytes, with a fill value that stock xarray does not compare with text
            continue
        nczarr.copy(source, tmp_path / name, lossy=bool(options), **options)
        found = stock(tmp_path / name)["v"]
        # Stock xarray opens no text with a _FillValue on Zarr v3: it has what is stored.
        unmasked = is_text and name in ("nczarr3.zarr", "zarr3.zarr")
        assert numbers(found) == (stored if unmasked else expected), name
        assert (found.dtype == bool) == (data_type == "bool"), name


def test_false_is_no_fill_value_at_any_door(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, values = tmp_path / "source.zarr", [True, False, True, False, False, False]
    make(source, 2, "bool", values[:4], False)
    for name, options in ({"source.zarr": {}} | COPIES).items():
        path = tmp_path / name
        if name != "source.zarr":
            nczarr.copy(source, path, lossy=True, **options)
            assert xr.open_dataset(path, engine="nczarr")["v"].values.tolist() == values, name
        with nczarr.Dataset(path) as ds:
            assert ds["v"][:].tolist() == values, name
            assert "_FillValue" not in ds["v"].ncattrs(), name
        assert main(["dump", str(path)]) == 0
        text = capsys.readouterr().out
        assert "v = 1, 0, 1, 0, 0, 0 ;" in text, name
        assert "_FillValue" not in text, name


def test_an_explicit_fill_value_of_truth_values_masks_the_same_values_in_each_copy(tmp_path: Path) -> None:
    source = tmp_path / "source.zarr"
    make(source, 3, "bool", [True, False, True, False], False, _FillValue=False)
    expected = numbers(stock(source)["v"])
    assert None in expected
    for name, options in COPIES.items():
        nczarr.copy(source, tmp_path / name, lossy=bool(options), **options)
        assert numbers(stock(tmp_path / name)["v"]) == expected, name


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("data_type", ["bool", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2"])
def test_a_data_type_of_zarr_is_kept_from_zarr_to_zarr(
    tmp_path: Path, zarr_format: int, data_type: str, layout: Any
) -> None:
    source, target, again = tmp_path / "source.zarr", tmp_path / "target.zarr", tmp_path / "again.zarr"
    values = np.array([1, 0, 0.1, 1]).astype(data_type)
    make(source, zarr_format, data_type, values, 0)
    nczarr.copy(source, target, layout=layout)
    nczarr.copy(target, again, layout=layout)
    with nczarr.Dataset(again, "a") as ds:  # a change of the metadata
        ds["v"].title = "changed"
    for path in (target, again):
        array = zarr.open_group(path)["v"]
        assert (array.dtype, array.shape) == (np.dtype(data_type), (6,))
        np.testing.assert_array_equal(array[:], zarr.open_group(source)["v"][:])
        with open_dataset(path) as stored:
            assert not stored.findings


def test_a_variable_in_a_type_of_zarr_can_be_changed(tmp_path: Path) -> None:
    for data_type, new in (("float16", 0.1), ("bool", 1)):
        source, target = tmp_path / f"{data_type}.zarr", tmp_path / f"{data_type}-copy.zarr"
        make(source, 3, data_type, np.zeros(4, data_type), 0)
        nczarr.copy(source, target)
        with nczarr.Dataset(target, "a") as ds:
            ds["v"][1] = new
        assert zarr.open_group(target)["v"][:2].tolist() == np.array([0, new], data_type).tolist()
    with nczarr.Dataset(target, "a") as ds, pytest.raises(nczarr.NCZarrError, match="truth values only"):
        ds["v"][0] = 2


def test_complex_numbers_become_those_of_netcdf4_in_a_file_and_come_back(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    values = np.array([1 + 2j, 0, -1j, 3])
    for data_type in ("complex64", "complex128"):
        source, file = tmp_path / f"{data_type}.zarr", tmp_path / f"{data_type}.nc"
        make(source, 3, data_type, values, 0)
        assert nczarr.copy(source, file) == ()
        with netcdf4.Dataset(file, auto_complex=True) as ds:
            assert ds["v"].dtype == data_type
            assert ds["v"][:4].tolist() == values.tolist()
        nczarr.copy(file, tmp_path / f"{data_type}-back.zarr")
        back = zarr.open_group(tmp_path / f"{data_type}-back.zarr")["v"]
        assert back.dtype == data_type
        assert back[:4].tolist() == values.tolist()


def test_float16_in_a_form_of_netcdf_is_a_float_and_a_listed_loss(tmp_path: Path) -> None:
    source = tmp_path / "source.zarr"
    make(source, 3, "float16", [0, 0.5, 1, np.nan], 0)
    for name, options in (("copy.nc", {}), ("copy.cdl", {}), ("copy.zarr", {"layout": "nczarr-v2"})):
        losses = nczarr.copy(source, tmp_path / name, **options)
        assert losses == ("/v: the Zarr data type float16; the values are stored as float",), name
        with open_source(tmp_path / name) as dataset:
            assert dataset.variables[0].type == FLOAT, name
            assert dataset.variables[0].data.read((slice(1, 3),)).tolist() == [0.5, 1], name


def test_joined_values_that_a_type_of_zarr_lacks_are_stored_in_the_type_of_netcdf(tmp_path: Path) -> None:
    half, single, joined = (tmp_path / name for name in ("half.zarr", "single.zarr", "joined.zarr"))
    make(half, 3, "float16", [0, 0.5, 1, 2], 0)
    make(single, 3, "float32", [0.1, 1e6, 1, 2], 0)
    nczarr.join([half, single], joined, along="x")
    assert zarr.open_group(joined)["v"][6:8].tolist() == np.array([0.1, 1e6], "f4").tolist()
    nczarr.join([half, half], tmp_path / "halves.zarr", along="x")
    assert zarr.open_group(tmp_path / "halves.zarr")["v"].dtype == np.float16
    nczarr.copy(half, tmp_path / "doubled.zarr", preprocess=_with_tenths)
    assert zarr.open_group(tmp_path / "doubled.zarr")["v"][1] == np.float32(0.1)


def _with_tenths(dataset: nczarr.model.Dataset) -> nczarr.model.Dataset:
    tenths = nczarr.model.MemorySource(np.full(6, 0.1, "f4"))
    return nczarr.model.rewrite(dataset, variable=lambda fqn, v: v.with_data(tenths))


def test_xarray_keeps_complex_numbers_and_float16_through_the_accessor_and_the_engine(tmp_path: Path) -> None:
    import nczarr.xarray  # noqa: F401

    small = np.array([1, 0.1, np.nan, 65504], "f2")
    data = xr.Dataset(
        {
            "c": ("x", np.array([1 + 2j, 0, -1j, 3], "c8")),
            "z": ("x", np.array([1 + 2j, 0, -1j, 3], "c16")),
            "one": ((), np.complex64(2j)),
            "half": ("x", small, {"step": np.float16(0.5)}),
        }
    )
    data.nczarr.to_zarr(tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match="/half: the Zarr data type float16; the values are stored as float"):
        data.nczarr.to_netcdf(tmp_path / "a.nc")
    for name in ("a.zarr", "a.nc"):
        with xr.open_dataset(tmp_path / name, engine="nczarr") as found:
            if name == "a.zarr":
                assert found["half"].dtype == np.float16
            for key in data:
                np.testing.assert_array_equal(found[key].values, data[key].values)
                assert found[key].dtype.kind == data[key].dtype.kind
            found.nczarr.to_zarr(tmp_path / f"{name}.zarr")
            (found * 2).nczarr.to_zarr(tmp_path / f"{name}-doubled.zarr")
        for path, factor in ((f"{name}.zarr", 1), (f"{name}-doubled.zarr", 2)):
            again = stock(tmp_path / path)
            assert {k: v.dtype for k, v in again.items()} == {k: v.dtype for k, v in found.items()}
            np.testing.assert_array_equal(again["c"].values, factor * data["c"].values)
    stored = stock(tmp_path / "a.zarr")
    xr.testing.assert_equal(stored, data)
    assert {k: v.dtype for k, v in stored.items()} == {k: v.dtype for k, v in data.items()}


#: Attributes of OME-NGFF, and other JSON for which netCDF has no values.
OTHER_JSON: dict[str, Any] = {
    "ome": {
        "version": "0.5",
        "multiscales": [{"axes": [{"name": "y", "type": "space"}], "scale": [1.0, 0.5], "name": None}],
    },
    "nested": [[1, 2], [3]],
    "null": None,
    "true": True,
    "flags": [True, False],
    "mixed": [1, "a"],
    "empty": {},
    "none": [],
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2", "nczarr-v2"])
def test_json_objects_of_attributes_stay_objects_from_zarr_to_zarr(
    tmp_path: Path, zarr_format: int, layout: Any
) -> None:
    source, target, back = tmp_path / "source.zarr", tmp_path / "target.zarr", tmp_path / "back.zarr"
    make(source, zarr_format, "int32", [1, 2, 3, 4], 0, **OTHER_JSON)
    zarr.open_group(source).attrs.update({**OTHER_JSON, "title": "before"})
    nczarr.copy(source, target, layout=layout)
    with nczarr.Dataset(target, "a") as ds:
        ds.title = ds["v"].title = "after"
        ds.renameAttribute("nested", "renamed")
        assert json.loads(ds.ome) == OTHER_JSON["ome"]
        assert ds["v"].getncattr("true") == 1
    nczarr.copy(target, back)
    renamed = {"renamed" if k == "nested" else k: v for k, v in OTHER_JSON.items()}
    for path in (target, back):
        group = zarr.open_group(path)
        for attributes, expected in ((group.attrs, renamed), (group["v"].attrs, OTHER_JSON)):
            kept = {k: v for k, v in attributes.items() if k in expected}
            assert json.dumps(kept, sort_keys=True) == json.dumps(expected, sort_keys=True)
        with open_dataset(path) as stored:
            assert not stored.findings


def test_a_new_value_of_an_attribute_replaces_its_json(tmp_path: Path) -> None:
    source, target = tmp_path / "source.zarr", tmp_path / "target.zarr"
    make(source, 3, "int32", [1, 2, 3, 4], 0, **OTHER_JSON)
    nczarr.copy(source, target)
    with nczarr.Dataset(target, "a") as ds:
        ds["v"].ome, ds["v"].flags = "text", np.array([3, 4], "i1")
    attributes = zarr.open_group(target)["v"].attrs
    assert (attributes["ome"], attributes["flags"]) == ("text", [3, 4])

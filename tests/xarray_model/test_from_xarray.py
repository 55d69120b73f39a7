"""Datasets of xarray become the model: what was read and not changed is as before, to the bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from mapping_tools import copy as write
from real_data import NETCDF_FILES
from rotation import examples

import nczarr
from nczarr import cdl
from nczarr.convert import open_source
from nczarr.errors import UnsupportedError
from nczarr.model import CHAR, INT, SHORT, STRING, Dataset, EnumType, Filter, compare, join_fqn

xr = pytest.importorskip("xarray")

from nczarr.xarray_model import from_xarray  # noqa: E402
from nczarr.xarray_model.read import fqn_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::xarray.coding.common.SerializationWarning", "ignore::UserWarning"
)
DATA = Path(__file__).parents[1] / "data"
FILES = [*NETCDF_FILES, *sorted(DATA.glob("*.nc"))]


def opened(source: Any, **options: Any) -> dict[str, Any]:
    """Open every group, also of files whose groups a tree of xarray refuses."""
    try:
        return xr.open_groups(source, engine="nczarr", **options)
    except ValueError:
        return xr.open_groups(source, engine="nczarr", **options | {"decode_times": False})


def differences(want: Dataset, got: Dataset) -> list[str]:
    assert got.format == want.format
    return [str(d) for d in compare(want, got, storage=True)]


@pytest.mark.parametrize("loaded", [False, True], ids=["lazy", "loaded"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_an_unchanged_file_has_its_model(path: Path, loaded: bool) -> None:
    groups = opened(path)
    if loaded:
        groups = {name: ds.load() for name, ds in groups.items()}
    with open_source(path) as want:
        assert differences(want, from_xarray(groups)) == []


def with_another_value(groups: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Give one element of the first variable where this is possible the value of another element."""
    for path, ds in groups.items():
        for name, variable in ds.variables.items():
            values, once = variable.values.copy(), len(set(variable.dims)) == variable.ndim
            if values.dtype.kind not in "biufMmSU" or values.ndim == 0 or name in ds.dims or not once:
                continue
            flat = values.reshape(-1)
            other = (
                np.flatnonzero((flat != flat[0]) & (flat == flat)) if flat.size and flat[0] == flat[0] else []
            )
            if len(other):
                values[(0,) * values.ndim] = flat[other[0]]
                changed = ds.assign({name: (variable.dims, values, variable.attrs, variable.encoding)})
                changed = changed.set_coords([name]) if name in ds.coords else changed
                return join_fqn(fqn_of(path), name), {**groups, path: changed}
    return None


def check_changes(want: Dataset, groups: dict[str, Any]) -> None:
    """Exactly the changed attribute, variable, group or value differs."""
    root = groups["/"]
    with_value = with_another_value(groups)
    changes = [
        ("/", {**groups, "/": root.assign_attrs(new_attribute="new")}),
        ("/", {**groups, "/": root.assign(new_variable=((), 1.5))}),
        ("/", {**groups, "/new_group": xr.Dataset()}),
        *([with_value] if with_value else []),
    ]
    for fqn, changed in changes:
        assert [d.fqn for d in compare(want, from_xarray(changed), storage=True)] == [fqn]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_exactly_what_changes_in_a_file_differs(path: Path) -> None:
    with open_source(path) as want:
        check_changes(want, opened(path))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets())
def test_an_unchanged_dataset_has_its_model(dataset: Dataset) -> None:
    store: dict[str, bytes] = {}
    write(dataset, store)
    try:
        groups = opened(store, decode_times=False)
    except ValueError:  # xarray cannot hold a scalar with the name of a dimension
        return
    with open_source(store) as want:
        assert differences(want, from_xarray(groups)) == []
        assert differences(want, from_xarray({name: ds.load() for name, ds in groups.items()})) == []
        check_changes(want, groups)


TEXT = """netcdf kept {
types:
  byte enum cloud {clear = 0, cumulus = 3};
  compound point {float x; int n(2);};
  short(*) row;
  opaque(3) idle;
dimensions:
  time = UNLIMITED; x = 3; never = 7; len = 4;
variables:
  double time(time); time:units = "hours since 2000-01-01"; time:calendar = "standard";
  short packed(time, x); packed:scale_factor = 0.1; packed:_FillValue = -1s; packed:missing_value = -1s, -2s;
    packed:coordinates = "lat"; packed:valid_range = 0s, 9s;
  float lat(x); string lat:units = "degrees"; lat:empty = "";
  float gaps(x);
  cloud cover(x); point points(x); row rows(x); string names(x); char text(x, len);
  packed:_ChunkSizes = 2, 3; packed:_DeflateLevel = 4; packed:_Shuffle = "true"; lat:_Endianness = "big";
// global:
  :title = "kept"; :levels = 1b, 2b;
data:
  time = 0.1, 1.30000001; packed = 1, -1, -2, 4, 5, 6; lat = 1, NaN, -0.; gaps = NaN, 1, 2;
  cover = clear, cumulus, clear; points = {1, {2, 3}}, {4, {5, 6}}, {7, {8, 9}}; rows = {1, 2}, {}, {3};
  names = "a", "", "Grüße"; text = "abcd", "ab", "";
group: g {
  dimensions: x = 2; own = 2;
  variables: int v(time, own); int w(x);
  data: v = 1, 2, 3, 4; w = 5, 6;
}
}
"""


@pytest.fixture
def kept(tmp_path: Path) -> str:
    nczarr.copy(cdl.loads(TEXT), tmp_path / "kept.zarr", compression="source")
    return str(tmp_path / "kept.zarr")


@pytest.fixture(params=["lazy", "loaded", "dask"])
def tree(kept: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    groups = opened(kept, **({"chunks": {}} if request.param == "dask" else {}))
    return {name: ds.load() if request.param == "loaded" else ds for name, ds in groups.items()}


def changed_by(kept: str, tree: dict[str, Any]) -> list[str]:
    with open_source(kept) as want:
        return [str(d).partition(" |")[0] for d in compare(want, from_xarray(tree), storage=True)]


def test_a_changed_value_is_the_only_difference(kept: str, tree: dict[str, Any]) -> None:
    """Two stored values that are not a number, floats of times, negative zero: all that no change touches stays."""
    ds = tree["/"]
    values = ds["packed"].values.copy()
    values[1, 2] = 0.7
    tree["/"] = ds.assign(packed=ds["packed"].copy(data=values))
    made = from_xarray(tree)
    assert made.variable_at("/packed").data.read((slice(0, 2), slice(0, 3))).tolist() == [
        [1, -1, -2],
        [4, 5, 7],
    ]
    (difference,) = changed_by(kept, tree)
    assert difference.startswith("/packed: ")


def test_changed_attributes_variables_and_groups(kept: str, tree: dict[str, Any]) -> None:
    tree["/"].attrs["title"] = "new"
    assert changed_by(kept, tree) == ["/: attribute title: char 'kept'"] or len(changed_by(kept, tree)) == 1
    tree["/"].attrs["title"] = "kept"
    tree["/"]["lat"].attrs["units"] = "rad"
    assert from_xarray(tree).variable_at("/lat").attribute["units"].type == STRING
    tree["/"]["lat"].attrs["units"] = "degrees"
    assert changed_by(kept, tree) == []
    with_new = {**tree, "/": tree["/"].assign(new=("x", np.arange(3, dtype="i4")))}
    made = from_xarray(with_new)
    assert made.variables[-1].type == INT
    assert made.variables[-1].dimensions == ("/x",)
    with open_source(kept) as want:
        assert [
            str(d) for d in compare(want, from_xarray({**with_new, "/": with_new["/"].drop_vars("new")}))
        ] == []
        without = from_xarray({"/": tree["/"]})
        assert [str(d) for d in compare(want, without)] == ["/: groups: g | none"]
        added = from_xarray({**tree, "/h": xr.Dataset({"v": 1.5})})
        assert [str(d) for d in compare(want, added)] == ["/: groups: g | g h"]


def test_operations_keep_the_origin(kept: str) -> None:
    ds = xr.open_dataset(kept, engine="nczarr")
    with open_source(kept) as want:
        for other in (
            ds.copy(deep=True),
            pickle.loads(pickle.dumps(ds)),
            ds.sortby("x") if "x" in ds.coords else ds,
        ):
            made = from_xarray(other)
            assert [str(d) for d in compare(want, made, storage=True)] == ["/: groups: g | none"]
        part = from_xarray(ds.isel(time=[1], x=slice(0, 2)))
    assert part.shape_of(part.variable_at("/packed")) == (1, 2)
    assert part.variable_at("/packed").data.read((slice(0, 1), slice(0, 2))).tolist() == [[4, 5]]
    assert part.dimension_at("/time").unlimited
    assert part.dimension_at("/never").size == 7
    assert part.variable_at("/packed").storage.filters[-1].id == Filter.DEFLATE
    renamed = from_xarray(ds.rename(time="t", packed="p"))
    assert renamed.dimension_at("/t").unlimited
    assert "/time" not in renamed.all_dimensions
    assert renamed.variable_at("/p").type == SHORT
    masked = from_xarray(ds[["packed"]].isel(x=[0, 2]))  # stored values of a lazy selection, undecoded
    assert masked.variable_at("/packed").data.read((slice(0, 1), slice(0, 2))).tolist() == [[1, -2]]


def test_a_vanished_source_leaves_what_xarray_knows(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i2", ("x",), fill_value=-1)[:] = [1, 2]
    ds = xr.open_dataset(tmp_path / "a.nc", engine="nczarr").load()
    ds.close()
    (tmp_path / "a.nc").unlink()
    made = from_xarray(ds)
    assert made.variables[0].type == SHORT
    assert made.variables[0].data.read((slice(0, 2),)).tolist() == [1, 2]


def test_what_contradicts_the_data_wins_or_is_refused(kept: str) -> None:
    ds = xr.open_dataset(kept, engine="nczarr").load()
    ds["packed"].encoding |= {"scale_factor": 0.5, "complevel": 9}
    ds["packed"].encoding.pop("missing_value")
    made = from_xarray(ds).variable_at("/packed")
    assert made.attribute["scale_factor"].values == 0.5
    assert made.storage.filters[-1].parameters == (9,)
    assert "missing_value" not in made.attribute
    ds["cover"] = ds["cover"].astype("f8") + 0.5  # xarray drops the encoding of a result
    assert from_xarray(ds).variable_at("/cover").type.name == "double"
    with pytest.raises(ValueError, match="conflicting _FillValue"):
        from_xarray(xr.Dataset({"v": ("x", [1.0], {}, {"_FillValue": 1, "missing_value": 2})}))
    assert from_xarray(ds, unlimited_dims="x").dimension_at("/x").unlimited
    with pytest.raises(ValueError, match="unlimited_dims"):
        from_xarray(ds, unlimited_dims=["nothing"])
    with pytest.raises(TypeError, match="Invalid value for attr"):
        from_xarray(xr.Dataset(attrs={"a": object()}))
    with pytest.raises(UnsupportedError, match="netCDF has no type"):
        from_xarray(xr.Dataset({"v": ("x", np.zeros(2, "f16"), {}, {"_FillValue": None})}))


def test_encodings_of_new_variables() -> None:
    cloud = np.dtype("i1", metadata={"enum": {"clear": 0, "fog": 2}, "enum_name": "cloud"})
    ds = xr.Dataset(
        {
            "e": ("x", np.array([0, 2], "i1"), {}, {"dtype": cloud}),
            "c": ("x", np.array([b"ab", b"c"]), {}, {"char_dim_name": "length"}),
            "u": ("x", np.array(["ä", "bc"]), {}, {"dtype": "S1"}),
            "s": ("x", np.array(["a", "bc"])),
            "p": ("x", [1.0, np.nan], {}, {"dtype": "u1", "_FillValue": 255, "_Unsigned": "true"}),
            "t": ("time", np.array(["2000-01-01", "2000-01-03"], "M8[ns]")),
            "b": ("x", [True, False]),
            "z": ("x", np.array([1 + 2j, 3])),
            "q": ("x", [1.0, 2.0], {}, {"zlib": True, "complevel": 7, "chunksizes": (1,), "dtype": ">f4"}),
        },
        attrs={"flag": True, "many": ["a", "b"]},
    )
    ds.encoding["unlimited_dims"] = {"time"}
    made = from_xarray(ds)
    types = {v.name: v.type.name for v in made.variables}
    assert types | {"z": ""} == {
        "e": "cloud", "c": "char", "u": "char", "s": "string", "p": "ubyte", "t": "int64", "b": "byte", "z": "",
        "q": "float",
    }  # fmt: skip
    assert isinstance(made.variable_at("/e").type, EnumType)
    assert made.variable_at("/c").dimensions == ("/x", "/length")
    assert made.dimension_at("/time").unlimited
    assert not made.dimension_at("/x").unlimited
    q = made.variable_at("/q")
    assert (q.storage.chunk_shape, q.storage.filters[-1].parameters, q.storage.endian) == ((1,), (7,), "big")
    assert made.variable_at("/c").type == CHAR
    store: dict[str, bytes] = {}
    nczarr.copy(ds, store)
    xr.testing.assert_equal(xr.open_dataset(store, engine="nczarr").load().drop_vars("z"), ds.drop_vars("z").assign(
        c=ds["c"], u=("x", np.array(["ä", "bc"], object)), s=("x", np.array(["a", "bc"], object))))  # fmt: skip


def test_an_encoding_of_the_call_replaces_that_of_the_variable(kept: str) -> None:
    ds = xr.open_dataset(kept, engine="nczarr")
    made = from_xarray(ds, encoding={"packed": {"zlib": True, "complevel": 9}, "rows": {"chunksizes": (1,)}})
    packed = made.variable_at("/packed")
    assert packed.type.name == "double"
    assert "scale_factor" not in packed.attribute
    assert packed.storage.filters[-1].parameters == (9,)
    assert packed.dimensions == ("/time", "/x")
    rows = made.variable_at("/rows")
    assert rows.type.name == "row"
    assert rows.storage.chunk_shape == (1,)


@pytest.mark.parametrize("chunked", [False, True], ids=["numpy", "dask"])
@pytest.mark.parametrize(
    "encoding",
    [
        {"significant_digits": 3},
        {"significant_digits": 3, "quantize_mode": "GranularBitRound"},
        {"significant_digits": 5, "quantize_mode": "BitRound", "_FillValue": np.float32(-999.9)},
        {"least_significant_digit": 1, "_FillValue": np.float32(-999.9)},
    ],
    ids=str,
)
def test_new_values_are_rounded_as_by_netcdf4(
    tmp_path: Path, encoding: dict[str, Any], chunked: bool
) -> None:
    values = np.random.default_rng(1).normal(size=(50, 7)).astype("f4") * 100
    values[3, 3] = np.nan
    ds = xr.Dataset({"v": (("x", "y"), values, {}, encoding)})
    nczarr.copy(ds.chunk() if chunked else ds, tmp_path / "ours.nc")
    others = {"fill_value": np.float32("nan"), **encoding}
    others["fill_value"] = others.pop("_FillValue", others["fill_value"])
    with netCDF4.Dataset(tmp_path / "theirs.nc", "w") as file:
        file.createDimension("x", 50)
        file.createDimension("y", 7)
        v = file.createVariable("v", "f4", ("x", "y"), **others)
        v[:] = np.ma.masked_invalid(values)
    with netCDF4.Dataset(tmp_path / "ours.nc") as ours, netCDF4.Dataset(tmp_path / "theirs.nc") as theirs:
        for file in (ours, theirs):
            file.set_auto_maskandscale(False)
        np.testing.assert_array_equal(ours["v"][:], theirs["v"][:])
        notes = [
            sorted((key, str(note)) for key, note in file["v"].__dict__.items()) for file in (ours, theirs)
        ]
        assert notes[0] == notes[1]
    again = xr.load_dataset(tmp_path / "ours.nc", engine="nczarr")
    assert list(nczarr.diff(tmp_path / "ours.nc", again)) == []
    again["v"][0, 0] = 1.23456
    made = from_xarray(again).variable_at("/v").data.read((slice(0, 50), slice(0, 7)))
    assert 1.2 < made[0, 0] < 1.26
    assert made[0, 0] != np.float32(1.23456)


def test_longer_text_is_not_cut(tmp_path: Path) -> None:
    nczarr.copy(xr.Dataset({"s": ("x", np.array(["a", "bc"]))}), tmp_path / "a.nc")
    ds = xr.load_dataset(tmp_path / "a.nc", engine="nczarr")
    ds["s"] = ds["s"].copy(data=np.array(["a", "longer"]))
    made = from_xarray(ds).variable_at("/s")
    assert made.data.read((slice(0, 2),)).tolist() == ["a", "longer"]


def test_groups_above_are_made_and_inherited_coordinates_kept() -> None:
    made = from_xarray({"/a b/c": xr.Dataset({"v": 1})})
    assert list(made.all_groups) == ["/", "/a\\ b", "/a\\ b/c"]
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(coords={"x": [1, 2]}), "/g": xr.Dataset({"v": ("x", [3, 4])})}
    )
    assert {v.name for v in from_xarray(tree["g"]).variables} == {"x", "v"}
    assert [v.name for v in from_xarray(xr.Dataset({"a/b": 1})).variables] == ["a/b"]
    for name in ("",):
        with pytest.raises(ValueError, match="name"):
            from_xarray(xr.Dataset({name: 1}))


def test_coordinates_stay_coordinates(kept: str) -> None:
    """A variable whose source lists no coordinates gets none; a new coordinate is listed."""
    ds = xr.open_dataset(kept, engine="nczarr")
    assert "coordinates" not in from_xarray(ds).variable_at("/gaps").attribute
    more = from_xarray(ds.assign_coords(lon=("x", [1.0, 2.0, 3.0])))
    assert more.variable_at("/gaps").attribute["coordinates"].text == "lon"
    alone = from_xarray(ds[["gaps", "lat"]])  # no variable lists it any more
    assert alone.attribute["coordinates"].text == "lat"


def test_sequences_have_the_form_of_the_model() -> None:
    """Also those of records in a scalar; elements that would change are refused."""
    text = """netcdf a { types: compound p {uint64 s(2); char z;}; p(*) q; int(*) r; dimensions: x = 2;
    variables: q one; r rows(x); data: one = {{{1, 2}, "b"}, {{3, 4}, "c"}}; rows = {1, 2}, {3}; }"""
    store: dict[str, bytes] = {}
    nczarr.copy(cdl.loads(text), store)
    ds = xr.open_dataset(store, engine="nczarr").load()
    with open_source(store) as want:
        assert differences(want, from_xarray(ds)) == []
    rows = ds["rows"].values.copy()
    rows[0] = np.array([1.5])
    with pytest.raises(UnsupportedError, match="does not fit int"):
        from_xarray(ds.assign(rows=ds["rows"].copy(data=rows))).variable_at("/rows").data.read((slice(0, 2),))

"""Test masking, packing and unsigned integers with every combination of attributes and settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from rotation import examples

import nczarr.netcdf4 as ours
from nczarr.errors import EditError
from nczarr.netcdf4.values import numbers as masking
from nczarr.netcdf4.values.numbers import Missing, Packing, as_unsigned, mask_missing

Same = Callable[[Callable[[Any, str, Any], None]], None]

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "none": {},
    "missing": {"missing_value": np.int16(3)},
    "missing vector": {"missing_value": np.array([3, 5], "i2")},
    "missing unsafe": {"missing_value": np.int64(2**40)},
    "missing text": {"missing_value": "three"},
    "range": {"valid_range": np.array([2, 6], "i2")},
    "range of three": {"valid_range": np.array([2, 6, 7], "i2")},
    "min": {"valid_min": np.int16(2)},
    "max": {"valid_max": np.int16(6)},
    "min and max": {"valid_min": np.int16(2), "valid_max": np.int16(6)},
    "both ranges": {"valid_range": np.array([2, 6], "i2"), "valid_min": np.int16(4)},
    "scale": {"scale_factor": 0.5},
    "scale float": {"scale_factor": np.float32(0.5)},
    "scale int": {"scale_factor": np.int32(2)},
    "offset": {"add_offset": 10.0},
    "both": {"scale_factor": 0.5, "add_offset": 10.0},
    "unit": {"scale_factor": 1.0, "add_offset": 0.0},
    "unit float": {"scale_factor": np.float32(1.0), "add_offset": np.float32(0.0)},
    "unit scale": {"scale_factor": 1.0},
    "bad scale": {"scale_factor": "half"},
    "vector scale": {"scale_factor": np.array([1.0, 2.0])},
    "all": {"scale_factor": 0.5, "add_offset": 1.0, "missing_value": np.int16(3), "valid_max": np.int16(6)},
    "unsigned": {"_Unsigned": "true"},
    "Unsigned": {"_Unsigned": "True", "missing_value": np.int16(-1), "valid_range": np.array([0, -10], "i2")},
    "unsigned off": {"_Unsigned": "false"},
    "unsigned scaled": {"_Unsigned": "true", "scale_factor": 0.1},
}
SETTINGS = ["default", "no mask", "no scale", "neither", "not always"]


def apply(variable: Any, setting: str) -> None:
    if setting == "no mask":
        variable.set_auto_mask(False)
    elif setting == "no scale":
        variable.set_auto_scale(False)
    elif setting == "neither":
        variable.set_auto_maskandscale(False)
    elif setting == "not always":
        variable.set_always_mask(False)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (dtype, name)
        for dtype in ("i2", "u1", "f4", "i1", ">i4", "f8", "u8")
        for name in ATTRIBUTES
        # netCDF4-python swaps the bytes of the fill value wrongly there.
        if not (dtype == ">i4" and "nsigned" in name)
    ],
)
def test_reading(same: Same, name: str, dtype: str) -> None:
    fills = {"none": None, "seven": 7, "off": False}

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 9)
            for label, fill in fills.items():
                endian = "big" if dtype[0] == ">" else "native"
                v = ds.createVariable(f"v_{label}", dtype, ("x",), fill_value=fill, endian=endian)
                w = ds.createVariable(f"w_{label}", dtype, (), fill_value=fill)
                v.set_auto_maskandscale(False)
                v[:8] = np.arange(8).astype(dtype)
                if fill is False:
                    v[8] = 1
                w.set_auto_maskandscale(False)
                w[...] = 3
                v.setncatts(ATTRIBUTES[name])
                w.setncatts(ATTRIBUTES[name])
        with nc.Dataset(path) as ds:
            for setting in SETTINGS:
                for variable in ds.variables.values():
                    variable.set_auto_maskandscale(True)
                    variable.set_always_mask(True)
                    apply(variable, setting)
                for label in fills:
                    v, w = ds[f"v_{label}"], ds[f"w_{label}"]
                    for index in (slice(None), 3, 8, slice(0, 0)):
                        log.attempt(lambda v=v, index=index: v[index])
                    log.attempt(lambda w=w: w[...])
                    log.attempt(lambda v=v: getattr(v[:], "fill_value", None))
                    log(str(v.dtype), v.endian())

    same(script)


DATA: dict[str, Any] = {
    "ints": np.arange(4),
    "floats": np.array([1.26, 2.5, 3.75, -1.0]),
    "list": [1, 2, 3, 4],
    "list of floats": [1.5, 2.5, 3.5, 4.5],
    "masked": np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 1]),
    "masked ints": np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 1]),
    "masked nothing": np.ma.array([1, 2, 3, 4]),
    "masked with missing": np.ma.array([1, 3, 3, 4], mask=[0, 1, 1, 0]),
    "all masked": np.ma.masked_all(4, "i4"),
    "constant": np.ma.masked,
    "number": 2,
    "float": 2.6,
    "big endian": np.arange(4, dtype=">i4"),
    "one": np.array([5]),
    "zero-d": np.array(3.0),
    "numpy scalar": np.float32(3.4),
    "bools": np.array([True, False, True, True]),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "name", ["none", "missing", "missing vector", "scale", "scale int", "offset", "both", "unit", "all"]
)
def test_writing(same: Same, data: str, name: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        given = DATA[data]
        before = np.ma.copy(given) if isinstance(given, np.ndarray) else given
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 4)
            for number, (fill, dtype, setting) in enumerate(
                product((None, 9), ("i2", "f4"), ("default", "no scale"))
            ):
                v = ds.createVariable(f"v{number}", dtype, ("x",), fill_value=fill)
                v.setncatts(ATTRIBUTES[name])
                apply(v, setting)

                def put(v: Any = v) -> Any:
                    v[:] = given
                    v.set_auto_maskandscale(False)
                    return v[:]

                log.attempt(put)
        if isinstance(given, np.ndarray) and given is not np.ma.masked:
            assert np.array_equal(np.ma.getdata(before), np.ma.getdata(given)), "the input was changed"

    same(script)


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"fill_value": 5}, {"fill_value": "default"}, {"fill_value": False}, {"fill_value": 5.7}],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1", str])
def test_fill_values(same: Same, kwargs: dict[str, Any], dtype: Any) -> None:
    if dtype == "f4" and kwargs.get("fill_value") == "default":
        pytest.skip("netCDF4-python writes 0 there: a double's bytes as a float")
    if (
        dtype == "S1"
        and isinstance(kwargs.get("fill_value"), int | float)
        and kwargs["fill_value"] is not False
    ):
        kwargs = {"fill_value": b"x"}

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)

            def make() -> None:
                v = ds.createVariable("v", dtype, ("x",), **kwargs)
                log(v.ncattrs(), v.get_fill_value(), v.__dict__)

            log.attempt(make)
        with nc.Dataset(path) as ds:
            v = ds["v"]
            log(v.get_fill_value(), v.__dict__)
            if kwargs.get("fill_value") is not False:
                log(v[:])
                v.set_auto_mask(False)
                log(v[:])

    same(script)


def test_nan_as_fill_and_missing(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            a = ds.createVariable("a", "f4", ("x",), fill_value=np.nan)
            b = ds.createVariable("b", "f8", ("x",))
            b.missing_value = np.array([np.nan, 1.0])
            for v in (a, b):
                v[:] = [1.0, np.nan, 3.0]
                log(v[:], v[1], v[2], np.isnan(v[:].fill_value))

    same(script)


def test_fill_off_and_on(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            ds.set_fill_off()
            v = ds.createVariable("v", "u1", ("x",))
            v[:] = [255, 1]
            w = ds.createVariable("w", "i2", ("x",))
            w[:] = [-32767, 1]
            ds.set_fill_on()
            ds.createVariable("u", "u1", ("x",))
        with nc.Dataset(path) as ds:
            for name in "vwu":
                log(ds[name].get_fill_value(), ds[name][:])

    same(script)


numbers = st.integers(-120, 120)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(numbers, min_size=3, max_size=3),
    mask=st.lists(st.booleans(), min_size=3, max_size=3),
    scale=st.none() | st.sampled_from([0.5, 0.1, 2.0, np.float32(0.1)]),
    offset=st.none() | st.sampled_from([1.0, -0.25, np.float32(3)]),
    missing=st.none() | numbers,
    fill=st.none() | numbers,
    dtype=st.sampled_from(["i1", "i2", "f4", "f8"]),
)
def test_round_trip_through_packing(
    tmp_path: Path, values: Any, mask: Any, scale: Any, offset: Any, missing: Any, fill: Any, dtype: str
) -> None:
    results = []
    for library in (netCDF4, ours):
        with library.Dataset(str(tmp_path / "p.nc") if library is netCDF4 else {}, "w") as ds:
            ds.createDimension("x", 3)
            v = ds.createVariable("v", dtype, ("x",), fill_value=fill)
            for name, value in (("scale_factor", scale), ("add_offset", offset), ("missing_value", missing)):
                if value is not None:
                    v.setncattr(name, np.array(value, dtype)[()] if name == "missing_value" else value)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                v[:] = np.ma.array(np.array(values, "f8") / 4, mask=mask)
            seen = v[:]
            v.set_auto_maskandscale(False)
            results.append((seen.dtype, np.ma.getmaskarray(seen).tolist(), seen.tolist(), v[:].tolist()))
    assert results[1] == results[0]


_SCALES = st.sampled_from(
    [None, np.float64(0.5), np.float32(0.1), np.float64(1.0), np.int16(3), np.array([2.5])]
)
_OFFSETS = st.sampled_from(
    [None, np.float64(20.0), np.float32(0.0), np.float64(0.0), np.int32(7), np.array([0.25])]
)
_DTYPES = ["i1", "u1", "i2", "<i2", ">i2", "u2", "i4", "i8", "u8", "f4", ">f4", "f8"]


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_one_pass_gives_what_the_steps_give(data: st.DataObject) -> None:
    """Large arrays are masked and unpacked block by block; small ones step by step: both agree to the bit."""
    dtype = np.dtype(data.draw(st.sampled_from(_DTYPES)))
    element = st.sampled_from([0, 1, 2, 3, 99, 100] + ([-1, -5] if dtype.kind != "u" else []))
    if dtype.kind == "f":
        element = st.one_of(element, st.sampled_from([float("nan"), float("inf"), 1e20]))
    unsigned = dtype.kind == "i" and data.draw(st.booleans())
    one = st.one_of(st.none(), element.map(lambda v: np.array(v, dtype)[()]))
    attributes = {
        "_FillValue": data.draw(one),
        "valid_min": data.draw(one),
        "valid_max": data.draw(one),
        "missing_value": data.draw(
            st.one_of(one, st.lists(element, min_size=1, max_size=3).map(lambda v: np.array(v, dtype)))
        ),
        "_Unsigned": "true" if unsigned else None,
    }
    packing = Packing(data.draw(_SCALES), data.draw(_OFFSETS))
    stored = np.array(data.draw(st.lists(element, min_size=24, max_size=24)), dtype).reshape(4, 6)
    always = data.draw(st.booleans())
    seen = as_unsigned(stored, attributes.get)
    missing = None
    if data.draw(st.booleans()):
        missing = Missing.of(dtype, attributes.get, unsigned=unsigned, no_fill=False)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(masking, "LEAST", 1)
        patch.setattr(masking, "BLOCK", 5)
        patch.setattr(masking, "_PER_TASK", 2)
        assume(masking.can_fuse(seen, missing, packing))
        found = masking.mask_and_unpack(seen, missing, packing, always_mask=always)
        masked = seen if missing is None else mask_missing(seen, missing, always_mask=always)
        expected = packing.unpack(masked)
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.ma.getmaskarray(found).tolist() == np.ma.getmaskarray(expected).tolist()
    assert np.ma.getdata(found).tobytes() == np.ma.getdata(expected).tobytes()
    if isinstance(expected, np.ma.MaskedArray):
        assert (found.mask is np.ma.nomask) == (expected.mask is np.ma.nomask)
        assert repr(found.fill_value) == repr(expected.fill_value)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_packing_in_blocks_gives_what_the_steps_give(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["i1", "u2", ">i2", "i4", "i8", "f4", ">f8"])))
    given_type = np.dtype(data.draw(st.sampled_from(["i2", "i8", "f4", ">f4", "f8"])))
    element = st.sampled_from([0, 1, 2, 3, 99, 100, -5, 7])
    if given_type.kind == "f" and dtype.kind == "f":
        element = st.one_of(element, st.sampled_from([float("nan"), float("inf"), 1e20]))
    values = np.array(data.draw(st.lists(element, min_size=24, max_size=24)), given_type).reshape(4, 6)
    if data.draw(st.booleans()):
        mask = st.one_of(
            st.just(np.ma.nomask), st.lists(st.booleans(), min_size=24, max_size=24).map(np.array)
        )
        drawn = data.draw(mask)
        values = np.ma.array(values, mask=drawn if drawn is np.ma.nomask else drawn.reshape(4, 6))
    one = st.sampled_from([None, np.array(99, dtype)[()], np.array(3, dtype)[()]])
    several = st.just(np.array([3, 99], dtype))
    attributes = {"_FillValue": data.draw(one), "missing_value": data.draw(st.one_of(one, several))}
    packing = Packing(data.draw(_SCALES), data.draw(_OFFSETS))

    def attempt(pack: Callable[[], np.ndarray]) -> object:
        try:
            return pack().tobytes()
        except EditError as error:
            return str(error)

    def in_steps() -> np.ndarray:
        packed = packing.pack(values, dtype).astype(dtype)
        return masking.fill_masked(packed, dtype, attributes.get).astype(dtype)

    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for name, value in (("LEAST_PACKED", 1), ("BLOCK", 5), ("_PER_TASK", 2)):
            patch.setattr(masking, name, value)
        assume(masking.can_pack_in_blocks(values, dtype, packing))
        in_blocks = attempt(lambda: masking.pack_in_blocks(values, dtype, packing, attributes.get))
        assert in_blocks == attempt(in_steps)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("unsigned", [False, True])
def test_a_large_variable_is_read_as_netcdf4_reads_it(tmp_path: Path, missing: bool, unsigned: bool) -> None:
    values = (np.arange(300 * 400) % 1000).astype("i2").reshape(300, 400)
    values[::7, ::5] = -999 if missing else 5
    read = []
    for module, name in ((netCDF4, "a.nc"), (ours, "a.zarr")):
        with module.Dataset(tmp_path / name, "w") as dataset:
            dataset.createDimension("y", 300)
            dataset.createDimension("x", 400)
            variable = dataset.createVariable("v", "i2", ("y", "x"), fill_value=-999)
            variable.set_auto_maskandscale(False)
            variable[...] = values
            variable.scale_factor, variable.add_offset = np.float32(0.01), np.float64(20.0)
            variable.valid_max = np.int16(900)
            if unsigned:
                variable._Unsigned = "true"
        with module.Dataset(tmp_path / name) as dataset:
            for always in (True, False):
                dataset["v"].set_always_mask(always)
                read.append(dataset["v"][:])
    for theirs, own in zip(read[:2], read[2:], strict=True):
        assert type(theirs) is type(own)
        assert theirs.dtype == own.dtype
        assert np.array_equal(np.ma.getmaskarray(theirs), np.ma.getmaskarray(own))
        assert np.ma.getdata(theirs).tobytes() == np.ma.getdata(own).tobytes()
        if isinstance(theirs, np.ma.MaskedArray):
            assert repr(theirs.fill_value) == repr(own.fill_value)


def test_what_a_program_does_to_a_masked_array_is_not_seen_in_the_next(tmp_path: Path) -> None:
    """Equal limits of many variables are cast once; a program may change the fill value of what it has read."""
    with ours.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("x", 4)
        for name, low, high in (("v", -7.0, 0.0), ("w", -7.0, -0.0), ("u", np.float32(-7), np.int8(0))):
            variable = dataset.createVariable(name, "f4", ("x",), fill_value=-7.0)
            variable[:] = [1, 2, 3, 4]
            variable.missing_value = np.float64(-7.0)
            variable.setncatts({"valid_min": low, "valid_max": high})
        read = dataset["v"][:]
        assert read.mask.all()
        read.fill_value = 5
        read.mask = False
        read[0] = 9
        for name in ("v", "w", "u"):
            again = dataset[name][:]
            assert again.mask.all()
            assert again.fill_value == -7
            assert again.data.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("type_", ["i1", "u2", "i4", "f4", "f8"])
@pytest.mark.parametrize("missing", ["1", "a", "", b"1", np.array(b"2")], ids=repr)
def test_a_text_does_not_stand_for_masked_numbers(type_: str, missing: Any, same: Same) -> None:
    """It was written as the number that it may mean, which is read as data."""

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            v = ds.createVariable("v", type_, ("x",))
            v[:] = [1, 2, 3]
            v.setncattr("missing_value", missing)
            log.assign(v, slice(None), np.ma.array([4, 5, 6], mask=[0, 1, 0]))
            log.assign(v, slice(None), np.ma.array([7, 8, 9], mask=[0, 0, 0]))

    same(script)

"""Compare the refusal of invalid calls with netCDF4-python: accepted values are never lost."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

netCDF4 = pytest.importorskip("netCDF4")

import nczarr.netcdf4 as ours  # noqa: E402
from nczarr.errors import NCZarrError  # noqa: E402

#: Half a surrogate pair.
HALF = "a\ud800"
ACCEPTED = "accepted"

Call = Callable[[Any], object]


def variable(datatype: Any = "f4", dimension: str = "x", **options: Any) -> Call:
    return lambda ds: ds.createVariable("v", datatype, (dimension,), **options)


def written(datatype: Any, values: Any, index: Any = slice(None), **options: Any) -> Call:
    def call(ds: Any) -> None:
        ds.createVariable("v", datatype, ("x",), **options)[index] = values

    return call


def compound(*fields: Any) -> Call:
    return lambda ds: ds.createCompoundType(np.dtype(list(fields)), "c")


def enum(members: Any, base: Any = "u1") -> Call:
    return lambda ds: ds.createEnumType(base, "e", members)


def text(encoding: str, values: Any, index: Any = slice(None)) -> Call:
    def call(ds: Any) -> None:
        v = ds.createVariable("v", "S1", ("x", "y"))
        v._Encoding = encoding
        v[index] = values

    return call


def sequences(values: Any, base: str = "i4") -> Call:
    def call(ds: Any) -> None:
        v = ds.createVariable("v", ds.createVLType(base, "s"), ("x",))
        v[0] = values

    return call


def objects(*values: Any) -> np.ndarray:
    result = np.empty(len(values), object)
    result[:] = values
    return result


#: Calls by method: each with what differs from netCDF4-python, where something does, and why.
CALLS: dict[str, dict[str, tuple[Call, Any]]] = {
    "createVariable": {
        **{
            f"{compression} {level!r}": (variable(compression=compression, complevel=level), None)
            for compression in ("zlib", "zstd", "bzip2", "blosc_lz", "blosc_zstd")
            for level in (-1, 0, 1, 9, None, "4", 1 << 40)
            if not (compression.startswith("blosc") and level == -1)
        },
        "zstd -131072": (written("f4", 1.5, compression="zstd", complevel=-131072), None),
        "zstd -131073": (variable(compression="zstd", complevel=-131073), None),
        "zstd 22": (variable(compression="zstd", complevel=22), None),
        "zstd 23": (variable(compression="zstd", complevel=23), None),
        "blosc 10": (
            variable(compression="blosc_lz", complevel=10),
            RuntimeError,
        ),  # a level that blosc refuses
        "unknown compression": (variable(compression="lzf"), None),
        "szip, few values": (variable(compression="szip"), None),
        "szip, 32 pixels": (variable(dimension="long", compression="szip", szip_pixels_per_block=32), None),
        "szip, 3 pixels": (variable(dimension="long", compression="szip", szip_pixels_per_block=3), None),
        "szip, many pixels": (variable(compression="szip", szip_pixels_per_block=1 << 40), None),
        "szip, pixels as text": (variable(compression="szip", szip_pixels_per_block="2"), None),
        # netCDF-C accepts these, and can store nothing from then on.
        "szip of characters": (variable("S1", "long", compression="szip"), RuntimeError),
        "szip of compounds": (
            lambda ds: ds.createVariable(
                "v",
                ds.createCompoundType(np.dtype([("a", "i4")]), "c"),
                ("long",),
                compression="szip",
            ),
            RuntimeError,
        ),
        "szip, no coding": (variable(compression="szip", szip_coding="xx"), None),
        **{
            f"{mode} {digits!r} {datatype}": (
                variable(datatype, significant_digits=digits, quantize_mode=mode),
                None,
            )
            for mode in ("BitGroom", "GranularBitRound", "BitRound", "none")
            for digits in (0, 1, 7, 24, "3", 1 << 40)
            for datatype in ("f4", "i4")
            if not (mode == "none" and digits == 1 << 40) and not (datatype == "i4" and digits == 1 << 40)
        },
        **{
            f"chunks {chunks!r} of {dimension}": (variable("f8", dimension, chunksizes=chunks), None)
            for dimension in ("x", "u")
            for chunks in ((0,), (4,), (5,), (-1,), (1, 1), ("4",), (1.5,), (1 << 32,), (1 << 64,))
        },
        **{
            f"{endian!r} {datatype}": (variable(datatype, endian=endian), None)
            for endian in ("little", "big", "x", None)
            for datatype in ("f4", "S1", str)
        },
        "contiguous and zlib": (variable(contiguous=True, zlib=True), None),
        "contiguous and chunks": (variable(contiguous=True, chunksizes=(2,)), None),
        "contiguous, unlimited": (variable(dimension="u", contiguous=True), None),
        "fill of half a pair": (variable(str, fill_value=HALF), None),
        "fill of half a pair, characters": (variable("S1", fill_value="\ud800"), None),
        "fill with a NUL": (variable(str, fill_value="a\0b"), {"data.nc": ValueError}),  # it would be cut
        "fill as text": (variable(fill_value="a"), None),
        "fill, two values": (variable(fill_value=[1, 2]), None),
        "fill, out of range": (variable("u1", fill_value=300), None),
        "digit of half a pair": (variable(least_significant_digit=HALF), None),
        "digit 1000": (written("f4", [1, 2, 3, 4], least_significant_digit=1000), None),
        "digit -400": (written("f4", [1, 2, 3, 4], least_significant_digit=-400), None),
        "cache of text": (variable(chunk_cache="a"), None),
        "cache of 70 bits": (variable(chunk_cache=1 << 70), None),
        "name of half a pair": (lambda ds: ds.createVariable(HALF, "i4", ()), None),
        "name of a number": (lambda ds: ds.createVariable(1, "i4", ()), None),
        "dimension of half a pair": (variable(dimension=HALF), None),
        "dimension in no encoding": (variable(dimension=b"\xff"), None),  # type: ignore[arg-type]
        "type of text": (variable("nothing"), None),
    },
    "createDimension": {
        "negative": (lambda ds: ds.createDimension("d", -1), None),
        "2 to the 64": (lambda ds: ds.createDimension("d", 1 << 64), None),
        "2 to the 62": (
            lambda ds: ds.createDimension("d", 1 << 62),
            {"data.nc": RuntimeError},
        ),  # lost with HDF5
        "a list": (lambda ds: ds.createDimension("d", [2]), None),
        "text": (lambda ds: ds.createDimension("d", "2"), None),
        "half a pair": (lambda ds: ds.createDimension(HALF, 2), None),
        "in no encoding": (lambda ds: ds.createDimension(b"\xff", 2), None),
    },
    "createGroup": {
        "half a pair": (lambda ds: ds.createGroup(HALF), None),
        "bytes": (lambda ds: ds.createGroup(b"g"), None),
        "a number": (lambda ds: ds.createGroup(1), None),
    },
    "createEnumType": {
        # netCDF-C accepts these two, and can store nothing from then on.
        "no members": (enum({}), RuntimeError),
        "equal values": (enum({"a": 1, "b": 1}), RuntimeError),
        "empty name": (enum({"": 1}), None),
        "half a pair": (enum({HALF: 1}), None),
        "a slash": (enum({"a/b": 1}), None),
        "a number for a name": (enum({1: 1}), None),
        "out of range": (enum({"a": 300}), None),
        "no number": (enum({"a": "x"}), None),
        "None": (enum({"a": None}), None),
        "members in a list": (enum([("a", 1)]), None),
        "base of floats": (enum({"a": 1}, "f4"), None),
        "base of text": (enum({"a": 1}, "nothing"), None),
        "type of half a pair": (lambda ds: ds.createEnumType("u1", HALF, {"a": 1}), None),
    },
    "createCompoundType": {
        "no fields": (compound(), None),
        "no elements": (compound(("a", "i4", (0,)), ("b", "i4")), RuntimeError),  # lost with netCDF-C
        "no fields in a field": (compound(("a", [])), None),
        "raw bytes": (compound(("a", "V3")), None),
        "no characters": (compound(("a", "S0")), None),
        "half a pair": (compound((HALF, "i4")), None),
        # netCDF4-python accepts it, and then cannot close the file.
        "one name in two forms": (compound(("\u00e9", "i4"), ("e\u0301", "i4")), RuntimeError),
        "unicode": (compound(("a", "U3")), None),
        "objects": (compound(("a", object)), None),
        "records in an array": (compound(("a", [("b", "i4")], (2,))), None),
        "no record": (lambda ds: ds.createCompoundType("i4", "c"), None),
        "type of half a pair": (lambda ds: ds.createCompoundType(np.dtype([("a", "i4")]), HALF), None),
    },
    "createVLType": {
        "half a pair": (lambda ds: ds.createVLType("i4", HALF), None),
        "truth": (lambda ds: ds.createVLType(bool, "s"), None),
        "nothing": (lambda ds: ds.createVLType("nothing", "s"), None),
    },
    "setncattr": {
        "half a pair": (lambda ds: ds.setncattr("a", HALF), None),
        "half a pair of a variable": (lambda ds: ds["before"].setncattr("a", HALF), None),
        "half a pair in a list": (lambda ds: ds.setncattr("a", ["b", HALF]), None),
        "half a pair in an array": (lambda ds: ds.setncattr("a", np.array(["b", HALF])), None),
        "half a pair in a name": (lambda ds: ds.setncattr(HALF, 1), None),
        "half a pair by assignment": (lambda ds: setattr(ds, "a", HALF), None),
        "half a pair as string": (lambda ds: ds.setncattr_string("a", HALF), None),
        "half a pair of several": (lambda ds: ds.setncatts({"a": HALF}), None),
        "objects": (lambda ds: ds.setncattr("a", objects("a", 1)), None),
        "None": (lambda ds: ds.setncattr("a", None), None),
        "a mapping": (lambda ds: ds.setncattr("a", {}), None),
        "complex": (lambda ds: ds.setncattr("a", 1j), None),
        "a time": (lambda ds: ds.setncattr("a", np.datetime64("2000")), None),
        "two dimensions": (lambda ds: ds.setncattr("a", [[1, 2], [3, 4]]), None),
        "70 bits": (lambda ds: ds.setncattr("a", 1 << 70), None),
        "a record of no type": (lambda ds: ds.setncattr("a", np.zeros(1, [("b", "i4")])), None),
    },
    "rename": {
        "variable": (lambda ds: ds.renameVariable("before", HALF), None),
        "dimension": (lambda ds: ds.renameDimension("y", HALF), None),
        "group": (lambda ds: ds.renameGroup("g", HALF), None),
        "attribute": (lambda ds: ds.renameAttribute("title", HALF), None),
        "from half a pair": (lambda ds: ds.renameAttribute(HALF, "b"), None),
        "attribute in no encoding": (lambda ds: ds.renameAttribute("title", b"\xff"), None),
    },
    "delncattr": {"half a pair": (lambda ds: ds.delncattr(HALF), None)},
    "__setitem__": {
        "half a pair": (written(str, HALF, 0), None),
        "half a pair in an array": (written(str, objects("a", HALF, "b", "c")), None),
        "half a pair in text": (written(str, np.array(["a", HALF, "b", "c"])), None),
        "half a pair as a character": (written("S1", "\ud800"), None),
        "a number for a string": (written(str, 1, 0), None),
        "numbers for strings": (written(str, np.arange(4)), None),
        "text for numbers": (written("i4", "a"), None),
        "out of range": (written("u1", [1, 2, 3, 300]), None),
        "other sequences": (sequences(np.arange(3, dtype="f8")), None),
        "no sequences": (sequences("abc"), ValueError),  # AttributeError there, by accident
        "long text": (text("ascii", np.array(["abcdefg", "b", "c", "d"])), None),
        "long bytes": (text("ascii", np.array([b"abcdefg", b"b", b"c", b"d"])), None),
        "long objects": (text("ascii", objects("abcdefg", "b", "c", "d")), None),
        # netCDF4-python has an AttributeError for each list, and cuts in other encodings and single texts.
        "long text in a list": (text("ascii", ["abcdefg", "b", "c", "d"]), ValueError),
        "long text, utf-8": (text("utf-8", np.array(["abcdefg", "b", "c", "d"])), ValueError),
        "one long text": (text("utf-8", "abcdefg", 0), ValueError),
        "half a character": (text("utf-8", "\u00fc" * 3, 0), ValueError),
        "no such character": (text("ascii", "\u00fc", 0), None),
        "bytes in no encoding": (text("ascii", np.array([b"\xff\xfe", b"b", b"c", b"d"])), None),
        # netCDF4-python has an AttributeError for bytes in other encodings.
        "bytes in no encoding, utf-8": (
            text("utf-8", np.array([b"\xff\xfe", b"b", b"c", b"d"])),
            UnicodeDecodeError,
        ),
        "one text in no encoding": (text("utf-8", b"\xffab", 0), None),
        "no such encoding": (text("nothing", np.array(["ab", "b", "c", "d"])), None),
    },
}

_CASES = [(method, name) for method, calls in CALLS.items() for name in calls]


def attempt(library: Any, path: Path, call: Call) -> type[BaseException] | None:
    """Make a call between two variables; return the class of its error. Ours keep both variables."""
    strict = library is ours
    ds = library.Dataset(path, "w")
    ds.title = "kept"
    for name, size in (("x", 4), ("y", 5), ("long", 64), ("u", None)):
        ds.createDimension(name, size)
    ds.createGroup("g")
    ds.createVariable("before", "i4", ("x",))[:] = [1, 2, 3, 4]
    found = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(ds)
        except Exception as error:
            found = type(error)
            assert not strict or isinstance(error, NCZarrError), repr(error)
    if not strict:
        with contextlib.suppress(RuntimeError):  # netCDF4 may be unable to close what it accepted
            ds.close()
        return found
    ds.createVariable("after", "i4", ("x",))[:] = [5, 6, 7, 8]
    ds.close()
    with ours.Dataset(path) as ds:
        assert ds.title == "kept"
        assert ds["before"][:].tolist() == [1, 2, 3, 4]
        assert ds["after"][:].tolist() == [5, 6, 7, 8]
        assert found is None or "v" not in ds.variables or is_unwritten(ds["v"])
    return found


def is_unwritten(v: Any) -> bool:
    """True if all values of a variable are the same: those of a refused write are not there."""
    v.set_auto_mask(False)
    v.set_auto_chartostring(False)
    return len({repr(value) for value in np.asarray(v[:]).reshape(-1).tolist()}) <= 1


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], type[BaseException] | None]:
    """What netCDF4-python says of a call, which is made once for both kinds of files."""
    folder = tmp_path_factory.mktemp("theirs")

    @functools.cache
    def said(method: str, name: str) -> type[BaseException] | None:
        return attempt(netCDF4, folder / f"{_CASES.index((method, name))}.nc", CALLS[method][name][0])

    return said


@pytest.mark.parametrize("file", ["data.nc", "data.zarr"])
@pytest.mark.parametrize(("method", "name"), _CASES, ids=[f"{m}-{n}" for m, n in _CASES])
def test_a_call_is_refused_as_by_netcdf4(
    method: str,
    name: str,
    file: str,
    theirs: Callable[[str, str], type[BaseException] | None],
    tmp_path: Path,
) -> None:
    call, differs = CALLS[method][name]
    expected = theirs(method, name)
    mine = attempt(ours, tmp_path / file, call)
    wanted = differs.get(file, expected) if isinstance(differs, dict) else differs or expected
    if wanted is None:
        assert mine is None
    else:
        assert mine is not None, f"accepted; {wanted.__name__} is needed"
        kind = next(b for b in wanted.__mro__ if b.__module__ == "builtins")
        assert issubclass(mine, kind), (mine, wanted)

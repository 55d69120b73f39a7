"""User types and text: compound, vlen, enum, strings, characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr.netcdf4 as ours
from nczarr import model
from nczarr.errors import NCZarrError

Same = Callable[[Callable[[Any, str, Any], None]], None]

RECORDS = {
    "numbers": np.dtype([("a", "i1"), ("b", "f8"), ("c", "u2")]),
    "arrays": np.dtype([("m", "f4", (2, 3)), ("n", "i2", (4,))]),
    "text": np.dtype([("id", "i4"), ("name", "S5")]),
    "characters": np.dtype([("id", "i4"), ("name", "S1", (5,))]),
    "one character": np.dtype([("id", "i4"), ("flag", "S1")]),
}


def filled(dtype: np.dtype, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    array = np.zeros(n, dtype)
    for name in dtype.names or ():
        part = array[name]
        if part.dtype.kind == "S":
            letters = np.array([b"ab", b"x", b"hello", b""])
            part[...] = rng.choice(letters, part.shape)
        else:
            part[...] = rng.integers(0, 100, part.shape)
    return array


@pytest.mark.parametrize("kind", RECORDS)
def test_compounds(same: Same, kind: str) -> None:
    dtype = RECORDS[kind]

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 4)
            t = ds.createCompoundType(dtype, "rec")
            log(t.name, str(t.dtype), str(t.dtype_view), list(ds.cmptypes))
            v = ds.createVariable("v", t, ("x",))
            log(str(v.dtype), v.datatype is t, v.get_fill_value(), v.ncattrs())
            if kind == "characters":  # netCDF4-python keeps the first character only, otherwise
                v.set_auto_chartostring(False)
            v[:] = filled(dtype, 4)
            v[1] = filled(dtype, 1)[0]
            log(repr(v[:].tolist()), repr(v[1].tolist()), repr(v[::2].tolist()), str(v[:].dtype))
            v.set_auto_chartostring(False)
            log(repr(v[:].tolist()), str(v[:].dtype))
            s = ds.createVariable("s", t)
            s.set_auto_chartostring(kind != "characters")
            s[...] = filled(dtype, 1)[0]
        with nc.Dataset(path) as ds:
            v = ds["v"]
            log(
                repr(v[:].tolist()),
                str(v.dtype),
                v.datatype.name,
                repr(v[-1].tolist()),
                repr(ds["s"][...].tolist()),
            )
            log(ds.cmptypes["rec"].dtype.names)

    same(script)


def test_nested_compounds(same: Same) -> None:
    inner = np.dtype([("u", "f4"), ("v", "f4")])
    outer = np.dtype([("wind", inner), ("t", "f8")])

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            g = ds.createGroup("g")
            ds.createCompoundType(inner, "inner")
            t = g.createCompoundType(outer, "outer")
            g.createDimension("x", 3)
            v = g.createVariable("v", t, ("x",))
            data = np.zeros(3, outer)
            data["wind"]["u"], data["t"] = [1, 2, 3], [4, 5, 6]
            v[:] = data
            log(repr(v[:].tolist()), v[:]["wind"]["u"].tolist())

        with nc.Dataset(path) as ds:
            log(repr(ds["g/v"][:].tolist()), list(ds.cmptypes), list(ds["g"].cmptypes))

    same(script)


@pytest.mark.parametrize("base", ["i1", "u1", "i2", "i4", "i8", "f4", "f8", "u8", np.int32])
def test_sequences(same: Same, base: Any) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            ds.createDimension("t", None)
            t = ds.createVLType(base, "seq")
            log(t.name, str(t.dtype), list(ds.vltypes))
            v = ds.createVariable("v", t, ("t", "x"))
            data = np.empty((2, 2), object)
            for i in range(4):
                data[i // 2, i % 2] = np.arange(i, dtype=base)
            v[:] = data
            v[2, 0] = np.arange(5, dtype=base)
            v[2, 1] = np.arange(3, dtype="i2")
            log(v[:], v[0, 1], v[1], v[-1, 0], v.get_fill_value(), str(v.dtype), v.datatype is t)
            bad = np.empty(2, object)
            bad[0] = bad[1] = np.arange(3, dtype="i8")
            if np.dtype(base) != np.int64:
                log.attempt(lambda: v.__setitem__((0, slice(None)), bad))
            log.attempt(lambda: v.__setitem__(0, np.arange(3, dtype=base)))
            log.attempt(lambda: v.__setitem__(slice(None), np.arange(3, dtype=base)))
            s = ds.createVariable("s", t)
            s[...] = np.arange(3, dtype=base)
            log(s[...])
            log.attempt(lambda: ds.createVariable("f", t, (), fill_value=1))
        with nc.Dataset(path) as ds:
            log(ds["v"][:], ds["s"][...], ds["v"][::-1, 0])

    same(script)


def test_bad_sequence_types(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            for base in ("c16", "M8[s]", bool):
                log.attempt(lambda base=base: ds.createVLType(base, "bad"))
            log(ds.createVLType("i4", "good").name)
            log.attempt(lambda: ds.createVLType("i4", "good"))

    same(script)


@pytest.mark.parametrize("base", ["i1", "u1", "i2", "u4", "i8"])
def test_enums(same: Same, base: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 4)
            members = {"clear": 0, "cloudy": 2, "missing": 100}
            t = ds.createEnumType(base, "cloud", members)
            log(t.name, str(t.dtype), t.enum_dict, list(ds.enumtypes))
            v = ds.createVariable("v", t, ("x",), fill_value=100)
            w = ds.createVariable("w", t, ("x",))
            v[:2] = [0, 2]
            w[:] = [0, 2, 100, 0]
            log(v[:], v[1], w[:], v.get_fill_value(), str(v.dtype), v.datatype is t, v.datatype.enum_dict)
            log.attempt(lambda: v.__setitem__(slice(None), 5))
            log.attempt(lambda: v.__setitem__(0, 1))
            log.attempt(lambda: v.__setitem__(slice(None), np.ma.array([0, 1, 2, 2], mask=[0, 1, 0, 0])))
            log.attempt(lambda: ds.createEnumType("f4", "bad", {"a": 1}).name)
        with nc.Dataset(path) as ds:
            log(ds["v"][:], ds.enumtypes["cloud"].enum_dict, ds["v"].datatype.name)
            ds.set_auto_mask(False)
            log(ds["v"][:])

    same(script)


def test_unwritten_user_types_of_groups(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            g = ds.createGroup("g")
            c = ds.createCompoundType([("a", "i2"), ("b", "S3")], "c")
            e = g.createEnumType("i4", "e", {"a": 1})
            s = g.createVLType("f4", "s")
            for i, t in enumerate((c, e, s, str)):
                g.createVariable(f"v{i}", t, ("x",))
        with nc.Dataset(path) as ds:
            g = ds["g"]
            log(repr(g["v0"][:].tolist()), g["v2"][:], g["v3"][:])
            log(list(ds.cmptypes), list(g.enumtypes), list(g.vltypes), list(g.cmptypes))

    same(script)


@pytest.mark.parametrize("dims", [("x",), ("t",), ("x", "y"), ()], ids=str)
def test_text(same: Same, dims: tuple[str, ...]) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            for name, size in (("x", 3), ("y", 2), ("t", None)):
                ds.createDimension(name, size)
            v = ds.createVariable("v", str, dims)
            log(v.dtype is str, v.get_fill_value(), v.ncattrs(), v[...])
            for index, data in (
                (0, "a"),
                (-1, "Grüße"),
                (Ellipsis, "dots"),
                ((), "empty"),
                (slice(None), "slice"),
                (slice(None), np.array(["p", "qq", "rrr"])),
                (slice(None), np.array(["p", "qq", "rrr"], object)),
                (slice(None), np.array([b"p", b"qq", b"rrr"])),
                (slice(0, 2), ["list", "of"]),
                (slice(0, 1), np.array([1])),
                (0, np.str_("scalar")),
                (1, b"bytes"),
                ((1, 1), "tuple"),
                (99, "far"),
                (0, None),
                (0, 5),
                (0, ""),
                (slice(None), np.ma.array(["a", "b", "c"])),
            ):
                if (isinstance(data, np.ndarray) and len(dims) != 1) or (index == -1 and not dims):
                    continue
                log.assign(v, index, data)
            if dims:
                log(v[0], v[::-1], v[..., [0, 1]] if dims != ("t",) else v[:2])

        with nc.Dataset(path) as ds:
            log(ds["v"][...], ds["v"].dtype is str)

    same(script)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", None, "latin-1", "bytes"])
def test_characters(same: Same, encoding: str | None) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("n", 4)
            ds.createDimension("len", 6)
            v = ds.createVariable("v", "S1", ("n", "len"))
            log(v[:], v.dtype.str)
            if encoding is not None:
                v._Encoding = encoding
            log.assign(
                v,
                slice(None),
                np.array(["ab", "cdefgh", "", "x"], "S6")
                if encoding in ("ascii", "bytes")
                else np.array(["ab", "cdefgh", "", "x"]),
            )
            log.assign(v, 1, "text")
            log.assign(v, 2, np.array(list("abcdef"), "S1"))
            log.attempt(lambda: v[0])
            log.attempt(lambda: v[:, :3])
            log.attempt(lambda: v[:, ::-1].shape)
            log.attempt(lambda: v[:, 0])
            log.attempt(lambda: v[1:3])
            v.set_auto_chartostring(False)
            log(v[:])
        with nc.Dataset(path) as ds:
            log.attempt(lambda: ds["v"][:])
            log.attempt(lambda: ds["v"][1, 2])

    if encoding is None:

        def script_plain(nc: Any, path: str, log: Any) -> None:
            with nc.Dataset(path, "w") as ds:
                ds.createDimension("n", 3)
                v = ds.createVariable("v", "S1", ("n",))
                for data in (
                    np.array([b"a", b"b", b"c"]),
                    ["x", "y", "z"],
                    b"q",
                    "r",
                    np.array([b"a", b"", b"c"]),
                    np.array(["a", "b", "c"]),
                ):
                    log.assign(v, slice(None), data)
                log(v[0], v[:2])

        same(script_plain)
    elif encoding == "bytes":
        with ours.Dataset({}, "w") as ds:  # netCDF4-python writes digits there
            ds.createDimension("n", 2)
            ds.createDimension("len", 3)
            v = ds.createVariable("v", "S1", ("n", "len"))
            v._Encoding = "bytes"
            v[:] = np.array([b"ab", b"cde"])
            assert v[:].tolist() == [b"ab", b"cde"]
    else:
        same(script)


@pytest.mark.parametrize(
    "array",
    [np.array(["ab", "c"]), np.array("abc"), np.array([b"ab", b"c"]), np.array(["ü", "ab"])],
    ids=repr,
)
@pytest.mark.parametrize(
    "kwargs", [{}, {"encoding": "utf-8"}, {"n_strlen": 2}, {"n_strlen": 4}, {"encoding": "latin-1"}], ids=str
)
def test_stringtochar(same: Same, array: np.ndarray, kwargs: dict[str, Any]) -> None:
    if array.dtype.kind == "S" and ("encoding" in kwargs or kwargs.get("n_strlen") == 4):
        return  # netCDF4-python fails

    def script(nc: Any, path: str, log: Any) -> None:
        log(nc.stringtochar(array, **kwargs))

    same(script)


def test_chartostring(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        for array in (
            np.array([[b"a", b"b"], [b"c", b""]]),
            np.array([b"a", b"b"]),
            np.zeros((0, 3), "S1"),
            np.array([[[b"a"]]]),
        ):
            for encoding in (None, "ascii", "utf-8", "none", "bytes"):
                log(nc.chartostring(array, encoding))
        log.attempt(lambda: nc.chartostring(np.zeros(3)))
        log.attempt(lambda: nc.stringtochar(np.zeros(3)))
        log(nc.stringtoarr("abc", 5), nc.stringtoarr("abc", 3, "U"))
        log.attempt(lambda: nc.stringtoarr("abc", 2))
        log.attempt(lambda: nc.stringtoarr("abc", 5, "f4"))
        log(nc.chartostring(np.array([["ü".encode()[:1], "ü".encode()[1:]]])[..., :], "utf-8"))

    same(script)


def nested_dataset() -> model.Dataset:
    """What netCDF4-python cannot read: opaque, vlen of vlen, compounds with text, sequences and arrays of compounds."""
    pair = model.CompoundType("/pair", (model.Field("a", model.BYTE), model.Field("name", model.STRING)))
    blob = model.OpaqueType("/blob", 3)
    rows = model.VlenType("/rows", model.VlenType("/row", model.INT))
    inner = model.CompoundType(
        "/inner", (model.Field("x", model.SHORT), model.Field("tag", model.CHAR, (2,)))
    )
    outer = model.CompoundType(
        "/outer", (model.Field("items", inner, (2,)), model.Field("text", model.STRING))
    )
    pairs = np.empty(2, pair.dtype)
    pairs["a"], pairs["name"] = [1, 2], ["eins", "zwei"]
    jagged = np.empty(2, object)
    for i in range(2):
        jagged[i] = np.empty(i + 1, object)
        for j in range(i + 1):
            jagged[i][j] = np.arange(j + 1, dtype="i4")
    outers = np.empty(2, outer.dtype)
    outers["items"]["x"], outers["items"]["tag"], outers["text"] = [[1, 2], [3, 4]], b"q", ["p", "q"]
    variables = tuple(
        model.Variable(name, type_, ("/x",), data=model.MemorySource(values))
        for name, type_, values in (
            ("pairs", pair, pairs),
            ("blobs", blob, np.array([b"abc", b"\0\1\2"], "V3")),
            ("rows", rows, jagged),
            ("outers", outer, outers),
        )
    )
    return model.Dataset(
        "d",
        dimensions=(model.Dimension("x", 2),),
        types=(pair, blob, model.VlenType("/row", model.INT), rows, inner, outer),
        variables=variables,
    )


def test_what_upstream_cannot_read() -> None:
    with ours.Dataset(nested_dataset()) as ds:
        assert ds["pairs"][:]["name"].tolist() == ["eins", "zwei"]
        assert ds["pairs"][1]["a"] == 2
        assert ds["blobs"][:].tobytes() == b"abc\0\1\2"
        assert [[r.tolist() for r in rows] for rows in ds["rows"][:]] == [[[0]], [[0], [0, 1]]]
        assert ds["outers"][:]["items"]["x"].tolist() == [[1, 2], [3, 4]]
        assert ds["outers"][:]["items"]["tag"].tolist() == [[b"qq", b"qq"], [b"qq", b"qq"]]
        assert list(ds.opaquetypes) == ["blob"]
        assert "opaque" in repr(ds["blobs"])


def test_a_nested_record_needs_its_type() -> None:
    with ours.Dataset({}, "w") as ds:
        with pytest.raises(ValueError, match="cannot find compound type"):
            ds.createCompoundType(np.dtype([("a", [("b", "i4")])]), "outer")
        inner = np.dtype([("u", "f4")])
        ds.createCompoundType(inner, "inner")
        with pytest.raises(TypeError):
            ds.createCompoundType(np.dtype([("w", inner, (2,))]), "arrays")
        for element in ("U4", "c16"):
            with pytest.raises(ValueError, match="Unsupported"):
                ds.createCompoundType(np.dtype([("w", element)]), "bad")
        assert list(ds.cmptypes) == ["inner"]


def test_a_type_of_another_dataset(tmp_path: Path) -> None:
    with ours.Dataset({}, "w") as a, ours.Dataset({}, "w") as b:
        foreign = a.createVLType("i4", "seq")
        with pytest.raises(RuntimeError):
            b.createVariable("v", foreign)
        own = b.createVLType("i4", "seq")
        assert b.createVariable("v", foreign).datatype is own
    with pytest.raises(NCZarrError):
        b.createVariable("w", own)


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_which_selections_of_characters_are_text(size: int, ndim: int, tmp_path: Path) -> None:
    """Slices of the whole last axis are, and lists that say the same in this order; no other list."""
    order = list(range(size))
    selections = [
        order,
        order[::-1],
        [size - 1, *order[:-1]],
        np.array(order)[::-1],
        [True] * size,
        [True] * (size - 1) + [False],
        slice(None),
        slice(None, None, -1),
        slice(size - 1, None, -1),
        slice(0, size + 5),
        slice(0, size - 1),
        Ellipsis,
        0,
    ]
    results = []
    for library in (netCDF4, ours):
        with library.Dataset(tmp_path / f"{library.__name__}.zarr", "w") as ds:
            ds.createDimension("x", 2)
            ds.createDimension("n", size)
            v = ds.createVariable("c", "S1", ("x", "n")[2 - ndim :])
            v._Encoding = "ascii"
            v.set_auto_chartostring(False)
            v[:] = np.frombuffer(b"abcdefgh", "S1")[: size * 2 ** (ndim - 1)].reshape(v.shape)
            v.set_auto_chartostring(True)
            read = [np.asarray(v[key if ndim == 1 else (slice(None), key)]) for key in selections]
            results.append([(values.dtype, values.tolist()) for values in read])
    assert results[0] == results[1]

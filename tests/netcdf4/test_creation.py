"""Create variables and dimensions with every keyword, valid and invalid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
import nczarr.netcdf4 as ours

Same = Callable[[Callable[[Any, str, Any], None]], None]


def world(ds: Any) -> None:
    for name, size in (("t", None), ("u", None), ("x", 3), ("y", 50), ("z", 5000), ("one", 1)):
        ds.createDimension(name, size)


def describe(log: Any, v: Any, **kwargs: Any) -> tuple[Any, ...]:
    return (
        v.name,
        v.dimensions,
        v.shape,
        v.ndim,
        v.size,
        str(v.dtype),
        v.filters(),
        log.chunking(v, requested="chunksizes" in kwargs),
        v.endian(),
        v.quantization(),
        v.ncattrs(),
    )


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    *[
        (t, ("x", "y"), {})
        for t in (
            "S1",
            "c",
            "i1",
            "b",
            "B",
            "u1",
            "i2",
            "h",
            "u2",
            "i4",
            "i",
            "u4",
            "i8",
            "l",
            "u8",
            "f4",
            "f",
            "f8",
            "d",
        )
    ],
    *[
        (t, ("x",), {})
        for t in (str, "S5", "U5", "S", "U", int, float, np.int16, np.dtype("f4"), "float32", "uint8")
    ],
    *[
        (t, ("x",), {})
        for t in (bool, "f2", "M8[s]", "O", "c8", "c16", "nothing", None, "V4", [("a", "i4")], complex)
    ],
    *[
        ("f4", d, {})
        for d in (
            (),
            "x",
            ("t",),
            ("t", "x"),
            ("t", "u"),
            ("x", "x"),
            ("z", "z"),
            ("t", "z", "z"),
            ("t", "y"),
            ("u", "t", "x"),
            ("nope",),
            "nope",
            ["x", "y"],
            ("one",),
        )
    ],
    *[(t, ("t",), {}) for t in ("i1", "i2", "f8", str, "S1")],
    *[(t, ("t", "z", "z"), {}) for t in ("i1", "i2", "f8")],
    *[
        ("f4", ("x", "y"), {"compression": c})
        for c in (
            None,
            "",
            False,
            "zlib",
            "zstd",
            "bzip2",
            "blosc_lz",
            "blosc_lz4",
            "blosc_lz4hc",
            "blosc_zlib",
            "blosc_zstd",
            "nope",
            "blosc_snappy",
        )
    ],
    *[
        ("f4", ("x", "y"), {"compression": "blosc_lz4", "blosc_shuffle": s, "complevel": 7})
        for s in (0, 1, 2)
    ],
    *[("f4", ("x", "y"), {"zlib": True, "complevel": n}) for n in (0, None, 1, 9, 10, -1)],
    ("f4", ("x", "y"), {"zlib": True, "shuffle": False}),
    ("f4", ("x", "y"), {"zlib": True, "fletcher32": True}),
    ("f4", ("x", "y"), {"fletcher32": True}),
    ("f4", (), {"zlib": True, "fletcher32": True}),
    ("f4", ("t",), {"zlib": True}),
    ("f4", ("x", "y"), {"contiguous": True}),
    ("f4", ("t", "y"), {"contiguous": True}),
    ("f4", ("x", "y"), {"contiguous": True, "zlib": True}),
    ("f4", ("x", "y"), {"contiguous": True, "chunksizes": (1, 1)}),
    *[
        ("f4", ("x", "y"), {"chunksizes": c})
        for c in ((1, 10), [3, 50], (3,), (4, 50), (0, 10), (0, 0), (1, 1, 1))
    ],
    ("f4", ("t", "y"), {"chunksizes": (100, 7)}),
    ("f4", ("x", "y"), {"chunksizes": (2, 20), "zlib": True}),
    *[("i4", ("x",), {"endian": e}) for e in ("little", "big", "native", "middle")],
    *[(">i4", ("x",), {"endian": e}) for e in ("little", "big", "native")],
    *[("<i4", ("x",), {"endian": e}) for e in ("little", "big", "native")],
    ("f4", ("x",), {"least_significant_digit": 2}),
    *[
        ("f4", ("x",), {"significant_digits": 3, "quantize_mode": m})
        for m in ("BitGroom", "GranularBitRound", "BitRound", "Nope")
    ],
    ("i4", ("x",), {"significant_digits": 3}),
    ("f4", ("x",), {"significant_digits": 7}),
    ("f4", ("x",), {"significant_digits": 6}),
    ("f8", ("x",), {"significant_digits": 15}),
    ("f8", ("x",), {"significant_digits": 0}),
    ("i2", ("x",), {"fill_value": -1}),
    ("i2", ("x",), {"fill_value": "nope"}),
    (str, ("x",), {"fill_value": "-"}),
    (str, ("x",), {"zlib": True}),
    (str, ("t",), {}),
    ("f4", ("x",), {"chunk_cache": 1000}),
    ("f4", ("x",), {"nonsense": 1}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("dtype", "dims", "kwargs"), CASES, ids=repr)
def test_keywords(same: Same, dtype: Any, dims: Any, kwargs: dict[str, Any]) -> None:
    if "nonsense" in kwargs:
        import nczarr.netcdf4 as ours

        with pytest.raises(TypeError), ours.Dataset({}, "w") as ds:
            ds.createVariable("v", "f4", **kwargs)
        return

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            world(ds)
            # netCDF4-python notes quantisation in an attribute only once the file is written.
            shown = -1 if "significant_digits" in kwargs else None
            log.attempt(
                lambda: describe(log, ds.createVariable("v", dtype, dims, **kwargs), **kwargs)[:shown]
            )
            made = "v" in ds.variables
            log(made)
        if made:
            with nc.Dataset(path) as ds:
                log(describe(log, ds["v"], **kwargs))

    same(script)


@pytest.mark.parametrize(
    "size", [None, 0, 1, 5, 2**31, 2**40, -1, np.int16(3), np.int64(4), 2.0, "3"], ids=repr
)
def test_sizes_of_dimensions(same: Same, size: Any) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            log.attempt(lambda: ds.createDimension("d", size).size)
            if "d" in ds.dimensions:
                d = ds.dimensions["d"]
                log(d.name, d.size, len(d), d.isunlimited(), d.group().path)
                log.attempt(lambda: setattr(d, "name", "x"))
                log.attempt(lambda: setattr(d, "size", 3))

    if isinstance(size, float | str):
        pytest.skip("only integers are promised")
    same(script)


NAMES = [
    "x",
    "with blank",
    "ü",
    "e\u0301",
    "a/b",
    "",
    "a\n",
    "trail ",
    ".hidden",
    "x" * 250,
    "x" * 300,
    "1st",
    "a.b",
    "a-b+c@d",
    "__x",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda n: repr(n)[:20])
@pytest.mark.parametrize("what", ["dimension", "variable", "group"])
def test_names(same: Same, name: str, what: str) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:

            def make() -> Any:
                if what == "dimension":
                    return ds.createDimension(name, 2).name
                if what == "variable":
                    return ds.createVariable(name, "i4").name
                return ds.createGroup(name).name

            log.attempt(make)
            log.attempt(lambda: [list(ds.dimensions), list(ds.variables), list(ds.groups)])

    if name in ("", "a/b") and what != "dimension":
        return  # paths, tested below
    if name == "e\u0301":
        return  # netCDF4-python keeps the decomposed form as the key
    same(script)


def test_duplicates_and_paths(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            log.attempt(lambda: ds.createDimension("x", 3))
            ds.createVariable("v", "i4", ("x",))
            log.attempt(lambda: ds.createVariable("v", "i4"))
            log(ds.createVariable("a/b/c", "i4", ("x",)).group().path)
            log(ds.createVariable("/a/d", "i4", (ds.dimensions["x"],)).group().path)
            log(ds.createGroup("a/b").path, ds.createGroup("/a/b/q/").path, ds["a/b"].createGroup("/r").path)
            log(list(ds.groups), list(ds["a"].groups), list(ds["a"].variables), list(ds["a/b"].groups))
            ds["a"].createDimension("x", 5)
            log(
                ds["a"].createVariable("w", "i4", ("x",)).shape,
                ds["a/b"].createVariable("w", "i4", ("x",)).shape,
            )
            log(ds["a/b/w"].get_dims()[0].group().path, ds["v"].get_dims()[0].group().path)
            for name in ("v", "a", "a/b/c", "/a/b/c", "a/b", "a/../v"):
                log.attempt(lambda name=name: type(ds[name]).__name__)
            for name in ("nope", "a/nope", "nope/v", "/", "a/v"):
                log.attempt(lambda name=name: ds[name])
            log.attempt(lambda: iter(ds))
            log.attempt(lambda: "v" in ds)
            log.attempt(lambda: ds.createVariable("a", "i4"))
            log.attempt(lambda: ds.createGroup("v"))
        with nc.Dataset(path) as ds:
            log(ds["a/b/w"].shape, ds["a/w"].shape, ds["a/b/w"].get_dims()[0].group().path)
            log(ds["a"].parent.path, ds["a/b"].parent.name, ds.parent, ds.name, ds.path, ds["a/b"].path)
            for action in (
                lambda: ds.createDimension("y", 2),
                lambda: ds.createVariable("y", "i4"),
                lambda: ds.createGroup("y"),
                lambda: ds.renameDimension("x", "z"),
                lambda: ds.renameVariable("v", "z"),
                lambda: ds.renameGroup("a", "z"),
                lambda: ds["v"].__setitem__(0, 1),
                lambda: ds.sync(),
            ):
                log.attempt(action)

    same(script)


def test_scalar_values(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 2)
            s, v = ds.createVariable("s", "f4"), ds.createVariable("v", "f4", ("x",))
            s.assignValue(3.5)
            log(s.getValue(), s[...], s[:], s[()], s.shape, s.size, s.ndim)
            log.attempt(lambda: v.getValue())
            log.attempt(lambda: v.assignValue(1))
            log.attempt(lambda: len(s))
            log(len(v))
            v[:] = [1, 2]
            log(np.asarray(v), [float(x) for x in v], np.sin(v[:]), np.array(v).dtype)
            log(v == v, hash(v) == hash(v))

    same(script)


def test_classic_models(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        for kind in (
            "NETCDF3_CLASSIC",
            "NETCDF4_CLASSIC",
            "NETCDF3_64BIT_DATA",
            "NETCDF3_64BIT",
            "NETCDF3_64BIT_OFFSET",
        ):
            with nc.Dataset(path, "w", format=kind) as ds:
                log(ds.data_model, ds.file_format)
                ds.createDimension("t")
                log.attempt(lambda: ds.createDimension("u").name)
                log.attempt(lambda: ds.createGroup("g").name)
                log.attempt(lambda: ds.createVariable("s", str))
                for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"):
                    log.attempt(lambda dtype=dtype: ds.createVariable(f"v{dtype}", dtype, ("t",)).shape)
                log.attempt(lambda: ds.createVLType("i4", "vl"))
                log.attempt(lambda: ds.createVariable("z", "f4", ("t",), zlib=True).filters())
                log.attempt(lambda: log.chunking(ds["z"]))
                log.attempt(lambda: ds.createVariable("e", "f4", endian="big").name)
            with nc.Dataset(path) as ds:
                log(ds.data_model, list(ds.variables))

    same(script)


def test_szip_is_kept_for_netcdf_files(tmp_path: Path) -> None:
    """Zarr has no such codec: it is recorded, something else compresses, and a netCDF file has it again."""
    values = np.arange(4000, dtype="i4").reshape(40, 100) // 7
    with ours.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("y", 40)
        ds.createDimension("x", 100)
        ds.createVariable(
            "v", "i4", ("y", "x"), compression="szip", szip_coding="ec", szip_pixels_per_block=16
        )[:] = values
    with ours.Dataset(tmp_path / "a.zarr") as ds:
        assert ds["v"].filters()["szip"] == {"coding": "ec", "pixels_per_block": 16}
        assert ds["v"][:].tolist() == values.tolist()
    stored = sum(p.stat().st_size for p in (tmp_path / "a.zarr" / "v" / "c").rglob("*") if p.is_file())
    assert stored < values.nbytes / 4
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as ds:
        assert ds["v"].filters()["szip"] == {"coding": "ec", "pixels_per_block": 16}
        assert ds["v"][:].tolist() == values.tolist()


def test_settings_of_szip(same: Same) -> None:
    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 40)
            for i, settings in enumerate(
                (
                    {},
                    {"complevel": 0},
                    {"complevel": 12},
                    {"fletcher32": True},
                    {"szip_coding": "zz"},
                    {"szip_pixels_per_block": 7},
                    {"szip_pixels_per_block": 34},
                )
            ):

                def make(i: int = i, settings: dict[str, Any] = settings) -> Any:
                    return ds.createVariable(f"v{i}", "i4", ("x",), compression="szip", **settings).filters()

                log.attempt(make)

    same(script)
    with ours.Dataset({}, "w") as ds:  # HDF5 divides by it
        ds.createDimension("x", 40)
        with pytest.raises(RuntimeError, match="szip_pixels_per_block 0"):
            ds.createVariable("v", "i4", ("x",), compression="szip", szip_pixels_per_block=0)


_TYPES: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda ds: "f8",
    "bytes": lambda ds: "u1",
    "characters": lambda ds: "S1",
    "strings": lambda ds: str,
    "sequences": lambda ds: ds.createVLType("i4", "vl"),
    "members": lambda ds: ds.createEnumType("u1", "en", {"a": 0, "b": 255}),
    "records": lambda ds: ds.createCompoundType(np.dtype([("a", "i4")]), "cm"),
}

_KEYWORDS: list[dict[str, Any]] = [
    {"endian": "big"},
    {"endian": "little"},
    {"endian": "other"},
    {"endian": None},
    {"compression": "zlib", "complevel": "a"},
    {"compression": "blosc_lz4", "blosc_shuffle": 5},
    {"compression": "bogus"},
    {"compression": 1},
    {"contiguous": True, "chunksizes": (2,)},
    {"contiguous": True, "zlib": True},
    {"chunksizes": ()},
    {"chunksizes": (0,)},
    {"chunksizes": (1, 1)},
    {"chunksizes": 2},
    {"chunksizes": (-1,)},
    {"chunksizes": (None,)},
    {"significant_digits": "a"},
    {"significant_digits": -1},
    {"significant_digits": 3, "quantize_mode": "other"},
    {"chunk_cache": "a"},
    {"chunk_cache": {}},
    {"chunk_cache": 1000},
]


@pytest.mark.parametrize("kind", _TYPES)
def test_combinations_of_keywords(kind: str, same: Same) -> None:
    """Byte orders of what has none, chunks of scalars, and words for numbers were other errors, or none."""

    def script(nc: Any, path: str, log: Any) -> None:
        with nc.Dataset(path, "w") as ds:
            ds.createDimension("x", 3)
            type_ = _TYPES[kind](ds)
            for number, (keywords, dims) in enumerate(product(_KEYWORDS, [("x",), ()])):
                scalar = not dims and "compression" in keywords  # which netCDF4 does not look at then
                quantized = "significant_digits" in keywords and kind != "numbers"  # all of it is refused
                if not scalar and not quantized:
                    name = f"v{number}"
                    log.attempt(
                        lambda n=name, k=keywords, d=dims: ds.createVariable(n, type_, d, **k).filters()
                    )
                    if nc is ours and "error" in log.entries[-2]:
                        assert name not in ds.variables

    same(script)

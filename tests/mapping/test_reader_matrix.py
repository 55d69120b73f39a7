"""Read the default output with every installed reader.

Each array is either read to the bit, or refused for one of the reasons that ``docs/spec/how-others-see-it.md`` lists.
"""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import foreign_readers
import mapping_tools as tools
import numpy as np
import pytest

import nczarr
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.model import (
    CHAR,
    DOUBLE,
    INT,
    PRIMITIVES,
    SHORT,
    STRING,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Filter,
    Group,
    MemorySource,
    OpaqueType,
    Storage,
    Variable,
    VlenType,
)

FIXTURES = sorted((Path(__file__).parents[1] / "data").glob("*.nc"))
PAGE = Path(__file__).parents[2] / "docs" / "spec" / "how-others-see-it.md"

#: What a reader may refuse, and what it then says. The page lists the same, with reasons.
_STRUCT = "No Zarr data type found|Data type .* not recognized"
_TENSORSTORE = 'Error parsing object member "data_type"'
_GDAL = "unsupported format for data_type"
MAY_REFUSE = {
    "zarr-python": {"flat compound": _STRUCT, "nested compound": _STRUCT},
    "zarrs-python": {"flat compound": _STRUCT, "nested compound": _STRUCT},
    "zarrs": dict.fromkeys(("char", "flat compound", "nested compound"), "is not supported"),
    "tensorstore": dict.fromkeys(("char", "string", "bytes", "nested compound"), _TENSORSTORE),
    "GDAL": {
        **dict.fromkeys(("char", "string", "bytes", "flat compound", "nested compound"), _GDAL),
        "length 0": "Invalid content for shape",
        "crc32c": "Unsupported codec: crc32c",
        "blosc": "blosc compressor not available",
    },
}


def kinds(metadata: Any) -> set[str]:
    """What a reader may find hard about an array."""
    names = {"null_terminated_bytes": "char", "string": "string", "bytes": "bytes"}
    found = {names[metadata.data_type.name]} if metadata.data_type.name in names else set()
    if metadata.data_type.name == "struct":
        flat = all(f.data_type.dtype.kind in "iuf" for f in metadata.data_type.fields)
        found.add("flat compound" if flat else "nested compound")
    if 0 in metadata.shape:
        found.add("length 0")
    return found | {c.name for c in metadata.codecs if c.name in ("crc32c", "blosc")}


def same(got: Any, expected: np.ndarray) -> bool:
    got = np.asarray(got)
    if got.dtype.kind == "S" and got.shape == () and expected.dtype == object:
        # zarr-python makes an array of the one object, and numpy takes off the zeros at its end
        return bool(got[()] == expected[()].rstrip(b"\0"))
    if expected.dtype == object or got.dtype.kind in "OT":  # text; GDAL has it for char as well
        left = [x.encode() if isinstance(x, str) else bytes(x) for x in got.astype(object).reshape(-1)]
        right = [x.encode() if isinstance(x, str) else bytes(x) for x in expected.reshape(-1).tolist()]
        return got.shape == expected.shape and left == right
    return got.shape == expected.shape and got.tobytes() == expected.tobytes()


def check(reader: str, store: Path) -> int:
    """Read every array; return how many were read."""
    read = 0
    with open_dataset(store) as stored:
        for fqn in stored.dataset.all_variables:
            array = stored.data(fqn).array
            try:
                got = foreign_readers.READERS[reader](store, array.path)
            except foreign_readers.Absent as error:
                pytest.skip(str(error))
            except Exception as error:
                hard = kinds(array.metadata)
                reasons = [MAY_REFUSE[reader][k] for k in hard if k in MAY_REFUSE[reader]]
                assert any(re.search(r, str(error)) for r in reasons), f"{fqn}: {reader} refuses: {error}"
                continue
            assert same(got, array.read()), f"{fqn}: {reader} reads {got!r}"
            read += 1
    return read


def every_type() -> Dataset:
    """A variable of each type, rank, filter and byte order, in two groups."""
    blob, enum, row = OpaqueType("/blob", 3), EnumType("/e", SHORT, (("a", 1),)), VlenType("/row", INT)
    pair = CompoundType("/pair", (Field("x", INT), Field("y", DOUBLE)))
    deep = CompoundType("/deep", (Field("p", pair), Field("t", CHAR, (4,)), Field("m", SHORT, (2, 2))))
    rows = np.empty((2, 3), object)
    for i in range(6):
        rows.reshape(-1)[i] = np.arange(i, dtype="i4")
    texts = np.array([["a", "", "é"], ["海", "x y", "\n"]], object)

    def variable(name: str, type_: Any, data: Any = None, **more: Any) -> Variable:
        if data is None:
            data = np.frombuffer(bytes(range(6 * type_.dtype.itemsize)), type_.dtype).reshape(2, 3)
        dimensions = {0: (), 1: ("/x",), 2: ("/t", "/x")}[data.ndim]
        return Variable(name, type_, dimensions, data=MemorySource(data), **more)

    chars = np.array([list("abc"), ["x", "", ""]], "S1")
    numbers = [t for t in PRIMITIVES.values() if t not in (CHAR, STRING)]
    every = [(t.name, t, None) for t in numbers]
    every += [("char", CHAR, chars), ("string", STRING, texts), ("of_row", row, rows)]
    every += [(f"of_{t.name}", t, None) for t in (blob, enum, pair, deep)]
    variables = [variable(*one) for one in every]
    variables += [
        variable(f"scalar_{n}", t, None if d is None else d[0, 0:1].reshape(())) for n, t, d in every[10:13]
    ]
    variables += [
        variable("filled", INT, attributes=(Attribute.of("_FillValue", -1, INT),)),
        Variable("unwritten", DOUBLE, ("/t", "/x"), attributes=(Attribute.of("_FillValue", np.nan),)),
        Variable("empty", INT, ("/none",), data=MemorySource(np.zeros(0, "i4"))),
        Variable("anonymous", INT, (2, 3), data=MemorySource(np.arange(6, dtype="i4").reshape(2, 3))),
        variable("big", INT, storage=Storage("contiguous", endian="big")),
    ]  # fmt: skip
    for number, filters in enumerate(([(1, (4,))], [(2, ()), (1, (4,))], [(3, ())], [(32015, (3,))])):
        listed = tuple(Filter(i, p) for i, p in filters)
        variables.append(variable(f"filters_{number}", INT, storage=Storage("chunked", (1, 2), listed)))
    return Dataset(
        "d",
        types=(blob, enum, row, pair, deep),
        dimensions=(Dimension("t", 2, True), Dimension("x", 3), Dimension("none", 0)),
        attributes=(Attribute.of("title", "every type"), Attribute.of("n", [1, 2])),
        variables=tuple(variables),
        groups=(Group("g", variables=(variable("inside", INT),)),),
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every fixture and the dataset of every type, as written by default."""
    folder = tmp_path_factory.mktemp("matrix")
    for nc in FIXTURES:
        nczarr.copy(nc, folder / f"{nc.stem}.zarr")
    tools.copy(every_type(), folder / "every_type.zarr")
    tools.copy(every_type(), folder / "every_struct.zarr", WriteOptions(compound="struct"))
    return {path.stem: path for path in sorted(folder.glob("*.zarr"))}


@pytest.mark.parametrize("name", ["every_type", "every_struct", *[p.stem for p in FIXTURES]])
@pytest.mark.parametrize("reader", foreign_readers.READERS)
def test_every_array_is_read_or_refused_for_a_listed_reason(
    reader: str, name: str, stores: dict[str, Path]
) -> None:
    read = check(reader, stores[name])
    assert read or name in ("empty", "nested")


def test_the_matrix_covers_every_reason(stores: dict[str, Path]) -> None:
    """The arrays of the test have everything that a reader may refuse."""
    seen: set[str] = set()
    for path in stores.values():
        with open_dataset(path) as stored:
            for fqn in stored.dataset.all_variables:
                seen |= kinds(stored.data(fqn).array.metadata)
    assert seen == {kind for refused in MAY_REFUSE.values() for kind in refused}


@pytest.mark.parametrize("name", ["every_type", "every_struct", *[p.stem for p in FIXTURES]])
def test_with_compounds_as_bytes_zarr_python_opens_whole_hierarchies(
    name: str, stores: dict[str, Path], tmp_path: Path
) -> None:
    zarr = pytest.importorskip("zarr")
    out = tmp_path / "bytes.zarr"
    nczarr.copy(stores[name], out, compound="bytes")
    with open_dataset(out) as stored, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = {stored.data(f).path: stored.data(f).array for f in stored.dataset.all_variables}
        members = dict(zarr.open_group(str(out), mode="r").members(max_depth=None))
        found = {path: node for path, node in members.items() if isinstance(node, zarr.Array)}
        assert found.keys() == arrays.keys()
        for path, node in found.items():
            assert same(node[...], arrays[path].read()), path


def test_compounds_as_bytes_are_little_endian_and_packed(tmp_path: Path) -> None:
    """What the page says about the form, read by zarr-python alone."""
    zarr = pytest.importorskip("zarr")
    dataset = every_type()
    tools.copy(dataset, tmp_path / "d.zarr", WriteOptions(compound="bytes"))
    for name in ("of_pair", "of_deep"):
        values = dataset.variable_at(f"/{name}").data.array
        seen = zarr.open_array(str(tmp_path / "d.zarr"), path=name, mode="r")
        assert seen.shape == (*values.shape, values.dtype.itemsize)
        assert seen.dtype == np.uint8
        assert seen[...].tobytes() == values.astype(values.dtype.newbyteorder("<")).tobytes()
    assert tools.differences(dataset, tmp_path / "d.zarr") == []


def test_xarray_sees_what_it_sees_in_the_netcdf_file(tmp_path: Path) -> None:
    """Every type that xarray has, by each of its three ways to open."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    everything = every_type()
    usable = tuple(
        v
        for v in everything.variables
        # netCDF has no anonymous dimensions; xarray has no other user-defined types
        if v.name != "anonymous" and (isinstance(v.type, EnumType) or not v.type.is_user_defined)
    )
    dataset = replace(everything, variables=usable, types=everything.types[1:2])
    nc, out = tmp_path / "d.nc", tmp_path / "d.zarr"
    tools.copy(dataset, out)
    nczarr.copy(out, nc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for how in ({}, {"decode_cf": False}):
            left, right = xr.open_dataset(nc, **how), xr.open_dataset(out, engine="zarr", **how)
            pairs = [(left, right)]
            trees = xr.open_datatree(nc, **how), xr.open_datatree(out, engine="zarr", **how)
            assert [n.path for n in trees[0].subtree] == [n.path for n in trees[1].subtree]
            pairs += [
                (n.to_dataset(inherit=False), trees[1][n.path].to_dataset(inherit=False))
                for n in trees[0].subtree
            ]
            groups = xr.open_groups(nc, **how), xr.open_groups(out, engine="zarr", **how)
            assert list(groups[0]) == list(groups[1])
            pairs += [(groups[0][path], groups[1][path]) for path in groups[0]]
            for one, other in pairs:
                xr.testing.assert_identical(clean(one), clean(other))
            for opened in (left, right, *trees, *groups[0].values(), *groups[1].values()):
                opened.close()


def clean(dataset: Any) -> Any:
    dataset = dataset.copy()
    for owner in (dataset, *dataset.variables.values()):
        owner.attrs = {k: v for k, v in owner.attrs.items() if k != "_NCProperties"}
    return dataset


def test_netcdf_c_reads_nczarr_v2_exactly(tmp_path: Path) -> None:
    """All that netcdf-c can hold of the same dataset, on Zarr v2."""
    netCDF4 = pytest.importorskip("netCDF4")
    import netcdf4_view

    everything = every_type()
    variables = tuple(
        v
        for v in everything.variables
        if not v.type.is_user_defined and v.name not in ("empty", "anonymous", "string", "scalar_string")
    )
    dataset = replace(everything, variables=variables, types=(), dimensions=everything.dimensions[:2])
    out, nc = tmp_path / "d.zarr", tmp_path / "d.nc"
    with create_dataset(out, dataset, WriteOptions(layout="nczarr-v2", lossy=True)) as sink:
        tools.fill(sink, dataset)
    nczarr.copy(out, nc)
    with netCDF4.Dataset(f"file://{out}#mode=nczarr,file") as left, netCDF4.Dataset(nc) as right:
        assert list(left.variables) == [v.name for v in variables]
        assert [d for d in netcdf4_view.differences(left, right) if "_NCProperties" not in d] == []


def test_the_page_lists_every_refusal() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Refused forms")[2].partition("\n##")[0]
    rows = [
        [c.strip() for c in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "
    ]
    listed = {row[0]: row[1] for row in rows[1:]}
    assert all(len(row) == 4 and all(row) for row in rows)
    for reader, refused in MAY_REFUSE.items():
        for kind in refused:
            assert reader.removesuffix("-python") in listed[kind], (reader, kind)


@pytest.mark.slow
def test_the_measured_table_is_what_the_installed_readers_do() -> None:
    pytest.importorskip("zarr")
    pytest.importorskip("netCDF4")
    pytest.importorskip("xarray")
    script = runpy.run_path(str(PAGE.parents[1] / "read_elsewhere.py"))
    found = script["measure"]([sys.executable], None)
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(script["START"])
    rows = re.findall(r"^\| (\S+ [^|]*?)(, Python [\d.]+)? \|((?: yes \| no | yes | no |\|)+)$", rest, re.M)
    listed: dict[str, list[list[str]]] = {}
    for reader, _, cells in rows:
        listed.setdefault(reader, []).append([c.strip() for c in cells.strip("|").split("|")])
    assert len(listed) >= 14
    measured = {**found["arrays"], **found["whole"]}
    for reader, columns in measured.items():
        if reader in listed:
            assert ["no" if wrong else "yes" for wrong in columns.values()] in listed[reader], (
                reader,
                columns,
            )
    assert any(reader in listed for reader in measured) or "zarr-python 3.1.6" not in measured

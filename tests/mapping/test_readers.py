"""Read the output with zarr-python, xarray and tensorstore."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from real_data import NETCDF_FILES

from nczarr.mapping import WriteOptions, open_dataset
from nczarr.mapping.plain.write import Labels
from nczarr.model import (
    CHAR,
    DOUBLE,
    FLOAT,
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
    Group,
    MemorySource,
    OpaqueType,
    Variable,
    VlenType,
    same_values,
)
from nczarr.stores import MemoryStore

zarr = pytest.importorskip("zarr", minversion="3.1")
HAS_STRUCT = tuple(int(p) for p in zarr.__version__.split(".")[:2]) >= (3, 2)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def in_zarr(store: MemoryStore) -> Any:
    prototype = zarr.core.buffer.default_buffer_prototype()
    return zarr.storage.MemoryStore({k: prototype.buffer.from_bytes(store.get(k)) for k in store.list()})


@pytest.mark.slow
@QUICK
@given(strategies.datasets(names=strategies.wild_names(), types="all", anonymous=True, zero_sizes=True))
def test_zarr_python_opens_every_array(dataset: Dataset) -> None:
    store = MemoryStore()
    tools.copy(dataset, store)
    foreign = in_zarr(store)
    with open_dataset(store) as stored, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = [stored.data(f).array.metadata.data_type.name for f in dataset.all_variables]
        if HAS_STRUCT or "struct" not in arrays:
            # With inline metadata, zarr-python 3.1 refuses a group if it does not know one of the data types.
            assert len(list(zarr.open_group(foreign, mode="r").arrays())) == len(dataset.variables)
        for fqn, variable in dataset.all_variables.items():
            data = stored.data(fqn)
            if data.array.metadata.data_type.name == "struct" and not HAS_STRUCT:
                continue
            values = zarr.open_array(foreign, path=data.path, mode="r")[...]
            expected = data.read_orthogonal(...)
            if isinstance(variable.type, EnumType) or variable.type in PRIMITIVES.values():
                if variable.type == STRING:
                    assert np.asarray(values, object).tolist() == expected.tolist()
                else:
                    assert same_values(np.asarray(values).astype(variable.type.dtype), expected)
            elif variable.type.is_fixed_size and data.array.metadata.data_type.name != "bytes":
                assert np.asarray(values).tobytes() == expected.tobytes()


def tensorstore_reads(store: MemoryStore, path: str, folder: Path) -> np.ndarray:
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / path) + "/"}}
    return np.asarray(tensorstore.open(spec, read=True).result().read().result())


def test_tensorstore_opens_all_but_text_and_sequences(tmp_path: Path) -> None:
    pytest.importorskip("tensorstore")
    numbers = [t for t in PRIMITIVES.values() if t not in (CHAR, STRING)]
    blob, enum = OpaqueType("/blob", 3), EnumType("/e", SHORT, (("a", 1),))
    record = CompoundType("/r", (Field("x", INT), Field("y", DOUBLE)))
    shape = (2, 3)
    variables = []
    for type_ in (*numbers, blob, enum, record):
        data = np.frombuffer(bytes(range(6 * type_.dtype.itemsize)), type_.dtype).reshape(shape)
        dimensions = ("/x", "/x", 3) if type_ is DOUBLE else ("/t", 3)
        if type_ is DOUBLE:
            data = np.zeros((2, 2, 3))
        fill = Attribute("_FillValue", type_, data.reshape(-1)[:1]) if type_ not in (blob, record) else None
        variables.append(
            Variable(
                type_.name, type_, dimensions, attributes=(fill,) if fill else (), data=MemorySource(data)
            )
        )
    dataset = Dataset(
        "d",
        types=(blob, enum, record),
        dimensions=(Dimension("t", 2, True), Dimension("x", 2)),
        variables=tuple(variables),
    )
    tools.copy(dataset, tmp_path / "d.zarr")
    for variable in variables:
        if variable.type is record:
            continue  # it wants to be asked for one field
        got = tensorstore_reads(MemoryStore(), variable.name, tmp_path / "d.zarr")
        assert got.tobytes() == variable.data.array.tobytes()


# xarray


def xarray_agrees(original: Path, out: Path, **how: Any) -> None:
    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = xr.open_datatree(original, engine="netcdf4", **how)
        except ValueError as error:
            with pytest.raises(ValueError, match="decode"):
                xr.open_datatree(out, engine="zarr", **how)
            pytest.skip(f"xarray cannot read the original: {error}")
        got = xr.open_datatree(out, engine="zarr", **how)
        assert [n.path for n in expected.subtree] == [n.path for n in got.subtree]
        for node in expected.subtree:
            left, right = node.to_dataset(inherit=False), got[node.path].to_dataset(inherit=False)
            xr.testing.assert_identical(left, right)
            assert list(left.variables) == list(right.variables)
        one, two = (
            xr.open_dataset(original, engine="netcdf4", **how),
            xr.open_dataset(out, engine="zarr", **how),
        )
        xr.testing.assert_identical(one, two)
        for opened in (expected, got, one, two):
            opened.close()


#: Compounds are bytes.
COMPOUNDS = {"ref_hdf5_compat3.nc", "ref_tst_compounds2.nc"}


@pytest.mark.parametrize("path", [p for p in NETCDF_FILES if p.name not in COMPOUNDS], ids=lambda p: p.name)
def test_real_files_are_identical_in_xarray(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    from nczarr.netcdf import open_dataset as open_netcdf

    out = tmp_path / "out.zarr"
    with open_netcdf(path) as original:
        tools.copy(original.dataset, out)
        assert tools.differences(original.dataset, out) == []
    if path.name != "eraint_uvz.nc":  # _FillValue NaN on integers, which xarray cannot read from Zarr
        xarray_agrees(path, out, decode_cf=False)
    xarray_agrees(path, out)


def hard_for_xarray() -> Dataset:
    chars = np.array([list(b"abc"), list(b"x\0\0")], "u1").view("S1")
    f4 = np.array([1.5, np.nan, 1e20], "f4")
    x = Dimension("x", 3)
    fills = {
        "byte": -1, "ubyte": 7, "short": 3, "ushort": 9, "int": -5, "uint": 11, "int64": 2**62, "uint64": 2**63,
        "float": np.float32(1e20), "double": np.nan,
    }  # fmt: skip
    packed = (
        Attribute.of("scale_factor", 0.5),
        Attribute.of("add_offset", np.float32(0.1)),
        Attribute.of("_FillValue", -9, SHORT),
        Attribute.of("missing_value", -9, SHORT),
    )
    missing = (Attribute("_FillValue", FLOAT, f4[2:]), Attribute("missing_value", FLOAT, f4[1:2]))
    return Dataset(
        "d",
        dimensions=(x, Dimension("n", 2), Dimension("len", 3), Dimension("t", 2, True)),
        attributes=(
            Attribute.of("title", "x\0"),
            Attribute.of("bad", b"\xff"),
            Attribute.of("list", ["a", "b"]),
            Attribute("f", FLOAT, np.array([0.1, 0.2], "f4")),
            Attribute.of("_FillValue", 1.0),
        ),
        variables=(
            Variable("x", DOUBLE, ("/x",), data=MemorySource(np.arange(3.0))),
            *(
                Variable(
                    f"v_{name}",
                    PRIMITIVES[name],
                    ("/x",),
                    attributes=(Attribute.of("_FillValue", value, PRIMITIVES[name]),),
                    data=MemorySource(np.array([0, value, 1], PRIMITIVES[name].dtype)),
                )
                for name, value in fills.items()
            ),
            Variable(
                "packed", SHORT, ("/x",), attributes=packed, data=MemorySource(np.array([1, -9, 3], "i2"))
            ),
            Variable("missing", FLOAT, ("/x",), attributes=missing, data=MemorySource(f4)),
            Variable("chars", CHAR, ("/n", "/len"), data=MemorySource(chars)),
            Variable("one", CHAR, (), data=MemorySource(np.array(b"q", "S1"))),
            Variable("text", STRING, ("/n",), data=MemorySource(np.array(["é", ""], object))),
            Variable(
                "t",
                INT,
                ("/t",),
                attributes=(Attribute.of("units", "days since 2000-01-01"),),
                data=MemorySource(np.array([1, 2], "i4")),
            ),
        ),
        groups=(
            Group(
                "g",
                variables=(
                    Variable("y", INT, ("/x",), data=MemorySource(np.arange(3, dtype="i4"))),
                    Variable("big", DOUBLE, ("/t",), data=MemorySource(np.array([-0.0, np.inf]))),
                ),
            ),
        ),
    )


def test_every_kind_of_variable_is_identical_in_xarray(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    from nczarr.netcdf import create_dataset as create_netcdf

    dataset = hard_for_xarray()
    sink = create_netcdf(tmp_path / "d.nc", dataset)
    tools.fill(sink, dataset)
    sink.commit()
    tools.copy(dataset, tmp_path / "d.zarr")
    xarray_agrees(tmp_path / "d.nc", tmp_path / "d.zarr")


def test_xarray_opens_all_types_but_masks_no_text(tmp_path: Path) -> None:
    """Fill values that xarray cannot read from Zarr are kept out of its way."""
    xr = pytest.importorskip("xarray")
    row, blob = VlenType("/row", INT), OpaqueType("/blob", 2)
    rows = np.empty(1, object)
    rows[0] = np.array([1], "i4")
    dataset = Dataset(
        "d",
        types=(row, blob),
        dimensions=(Dimension("x", 2),),
        variables=tuple(
            Variable(n, t, ("/x",), attributes=(Attribute("_FillValue", t, v),))
            for n, t, v in (
                ("c", CHAR, np.array([b"-"], "S1")),
                ("s", STRING, np.array(["none"], object)),
                ("r", row, rows),
                ("b", blob, np.array([b"ab"], "V2")),
                ("i", INT, np.array([1, 2], "i4")),
                ("f", DOUBLE, np.array([], "f8")),
            )
        ),
    )
    tools.copy(dataset, tmp_path / "d.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = xr.open_dataset(tmp_path / "d.zarr", engine="zarr")
    assert opened["c"].values.tolist() == [b"-", b"-"]
    assert [str(s) for s in opened["s"].values] == ["none", "none"]
    assert tools.differences(dataset, tmp_path / "d.zarr", data=False) == []


@pytest.mark.slow
@QUICK
@given(strategies.datasets(names=strategies.plain_names(), types="none", depth=1))
def test_labels_make_sense_by_themselves(dataset: Dataset) -> None:
    """Inside an array labels are unique, and inside a group one label has one length."""
    store = MemoryStore()
    tools.copy(dataset, store)
    with open_dataset(store) as stored:
        for fqn, group in stored.dataset.all_groups.items():
            lengths: dict[str, int] = {}
            for variable in group.variables:
                array = stored.data(f"{fqn.rstrip('/')}/{variable.name}").array
                labels = array.metadata.dimension_names
                assert len(set(labels)) == len(labels)
                for label, length in zip(labels, array.shape, strict=True):
                    assert label
                    assert lengths.setdefault(label, length) == length


def test_options_say_what_they_do() -> None:
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 3),),
        attributes=(Attribute.of("Conventions", "CF-1.8"),),
        variables=(
            Variable("c", CHAR, ("/x",), data=MemorySource(np.array(list("abc"), "S1"))),
            Variable("v", INT, ("/x",), data=MemorySource(np.arange(3, dtype="i4"))),
        ),
    )
    store = MemoryStore()
    tools.copy(dataset, store, WriteOptions(char="uint8", nz=True, compression="source", extensions=True))
    with open_dataset(store) as stored:
        nodes = stored.hierarchy.nodes
        assert nodes["c"].data_type.name == "uint8"
        assert [c.name for c in nodes["v"].codecs] == ["bytes"]
        assert nodes[""].attributes["conventions"] == "NZ-1.0 CF-1.8"
        assert nodes[""].extensions[0].name == "nczarr"
        assert not nodes[""].extensions[0].must_understand
        assert "conventions" not in stored.dataset.attribute
    assert tools.differences(dataset, store) == []
    # The keys are found in the list too, if the attributes do not have them.
    import json

    for key in ("zarr.json", "c/zarr.json", "v/zarr.json"):
        document = json.loads(store.get(key))
        document.pop("consolidated_metadata", None)
        for name in tools.OWN:
            document["attributes"].pop(name, None)
        store.set(key, json.dumps(document).encode())
    assert tools.differences(dataset, store) == []


def test_chunks_are_of_a_sensible_size() -> None:
    from nczarr.model.chunk_shapes import TARGET, default_chunks

    for shape in ((10,), (5000, 5000), (100, 1000, 1000), (3, 10**9), (10**9,), (7, 11, 13, 1_000_003)):
        for itemsize in (1, 8):
            chunks = default_chunks(shape, (False,) * len(shape), itemsize)
            size = math.prod(chunks) * itemsize
            whole = math.prod(shape) * itemsize
            assert size <= 2 * TARGET or chunks[0] == 1
            assert size >= min(whole, TARGET // 2)
            assert all(1 <= c <= n for c, n in zip(chunks, shape, strict=True))


def test_a_hidden_dimension_and_one_used_twice_have_labels_of_their_own() -> None:
    inner = Group(
        "g",
        dimensions=(Dimension("x", 1),),
        variables=(Variable("outer", INT, ("/x",)), Variable("twice", INT, ("/g/x", "/g/x"))),
    )
    labels = Labels(Dataset("d", dimensions=(Dimension("x", 2),), groups=(inner,)))
    assert labels.of("/g", ("/x",)) == ("x_hidden1",)
    assert labels.of("/g", ("/g/x", "/g/x")) == ("x", "x_2")

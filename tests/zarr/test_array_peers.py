"""Exchange arrays with zarr-python and tensorstore, in both directions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczarr.errors import CodecError, UnsupportedError
from nczarr.stores import LocalStore
from nczarr.zarr.grids import RegularGrid
from nczarr.zarr.hierarchy.opening import create_hierarchy, open_hierarchy
from nczarr.zarr.metadata import ArrayMetadata, NamedConfig
from nczarr.zarr.types import data_type_for

zarr = pytest.importorskip("zarr")

N = NamedConfig
INDEX = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
COMPRESSORS: list[list[NamedConfig]] = [
    [],
    [N("gzip", {"level": 1})],
    [N("zstd", {"level": 3, "checksum": False})],
    [N("zstd", {"level": 1, "checksum": True}), N("crc32c")],
    [N("blosc", {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0})],
]
ZARR_ONLY: list[list[NamedConfig]] = [
    [N("numcodecs.shuffle", {"elementsize": 4}), N("numcodecs.zlib", {"level": 4})],
    [N("numcodecs.fletcher32")],
    [N("numcodecs.lz4", {"acceleration": 1}), N("numcodecs.adler32")],
    [N("numcodecs.bz2", {"level": 1}), N("numcodecs.crc32")],
]
PEERS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def layouts(draw: st.DrawFn, compressors: list[list[NamedConfig]]) -> tuple[ArrayMetadata, np.ndarray]:
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=ndim, max_size=ndim)))
    chunks = tuple(draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim)))
    dtype = np.dtype(draw(st.sampled_from(["i1", "u2", "i4", "f4", "f8", "c8", "bool"])))
    codecs: list[NamedConfig] = []
    if draw(st.booleans()) and ndim:
        codecs.append(N("transpose", {"order": list(draw(st.permutations(range(ndim))))}))
    codecs.append(N("bytes", {"endian": draw(st.sampled_from(["little", "big"]))}))
    for codec in draw(st.sampled_from(compressors)):
        # numcodecs shuffles whole elements only.
        shuffle = codec.name == "numcodecs.shuffle"
        codecs.append(N(codec.name, {"elementsize": dtype.itemsize}) if shuffle else codec)
    grid = chunks
    if draw(st.booleans()) and ndim:
        factor = draw(st.integers(1, 3))
        grid = tuple(n * factor for n in chunks)
        configuration = {
            "chunk_shape": list(chunks),
            "codecs": [codec.to_json() for codec in codecs],
            "index_codecs": INDEX,
            "index_location": draw(st.sampled_from(["start", "end"])),
        }
        codecs = [N("sharding_indexed", configuration)]
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, shape) * 55
    metadata = ArrayMetadata(
        shape, data_type_for(dtype), RegularGrid(grid), fill_value=dtype.type(1), codecs=tuple(codecs)
    )
    return metadata, np.asarray(values, dtype)


@PEERS
@given(case=layouts(COMPRESSORS + ZARR_ONLY))
def test_zarr_python(case: tuple[ArrayMetadata, np.ndarray], tmp_path_factory: Any) -> None:
    metadata, values = case
    folder = tmp_path_factory.mktemp("peer")
    array = create_hierarchy(LocalStore(folder, "w")).put_array("v", metadata)
    array.write(..., values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = zarr.open_array(folder / "v", mode="r+")
        assert np.asarray(other[...]).tobytes() == values.tobytes()
        changed = values.copy()
        part = tuple(slice(n // 2, None) for n in values.shape)
        changed[part] = 1 if values.dtype == bool else 7
        other[part] = changed[part]
    assert open_hierarchy(LocalStore(folder)).array("v").read().tobytes() == changed.tobytes()
    # And with chunks that are not there.
    again = open_hierarchy(LocalStore(folder, "r+"), mode="r+").array("v")
    again.erase()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.asarray(zarr.open_array(folder / "v", mode="r")[...]).tolist() == again.read().tolist()


@PEERS
@given(case=layouts(COMPRESSORS))
def test_tensorstore(case: tuple[ArrayMetadata, np.ndarray], tmp_path_factory: Any) -> None:
    ts = pytest.importorskip("tensorstore")
    metadata, values = case
    folder = tmp_path_factory.mktemp("peer")
    array = create_hierarchy(LocalStore(folder, "w")).put_array("v", metadata)
    array.write(..., values)
    other = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/v/"}}).result()
    assert np.asarray(other.read().result()).tobytes() == values.tobytes()
    changed = values.copy()
    part = tuple(slice(n // 2, None) for n in values.shape)
    changed[part] = 1 if values.dtype == bool else 7
    other[part].write(changed[part]).result()
    assert open_hierarchy(LocalStore(folder)).array("v").read().tobytes() == changed.tobytes()


@pytest.mark.parametrize("options", [{}, {"shards": (4, 4)}], ids=["chunks", "shards"])
def test_text_of_zarr_python(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = np.array([["", "a", "é€", "z" * 300]] * 3, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(tmp_path, mode="w", zarr_format=3)
        array = group.create_array(
            "v", shape=(3, 4), chunks=(2, 2), dtype="string", fill_value="?", **options
        )
        array[:2] = texts[:2].astype("T")
    ours = open_hierarchy(LocalStore(tmp_path, "r+"), mode="r+").array("v")
    assert ours.read().tolist() == [*texts[:2].tolist(), ["?"] * 4]
    ours.write(2, ["new", "", "\N{SNOWMAN}", "x"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(zarr.open_group(tmp_path)["v"][2]) == ["new", "", "\N{SNOWMAN}", "x"]


def test_records_of_zarr_python(tmp_path: Path) -> None:
    """Before 3.2 it says nothing of their byte order."""
    dtype = np.dtype([("a", "<i2"), ("b", "<f8"), ("c", "S3")])
    values = np.array([(1, 2.5, b"ab"), (-3, np.inf, b"")], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(tmp_path / "v", shape=2, chunks=1, dtype=dtype, zarr_format=3)
        array[:] = values
        ours = open_hierarchy(LocalStore(tmp_path / "v", "r+"), mode="r+").array("")
        assert ours.read().tobytes() == values.tobytes()
        ours.write(1, values[0])
        assert zarr.open_array(tmp_path / "v", mode="r")[:].tobytes() == values[[0, 0]].tobytes()


@pytest.mark.parametrize("dtype", ["M8[s]", ">M8[D]", "m8[10s]"])
def test_times_of_version_2_without_a_fill_value(tmp_path: Path, dtype: str) -> None:
    """What was never stored is no time; 1970 would look like one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            tmp_path / "v", shape=4, chunks=2, dtype=dtype, zarr_format=2, fill_value=None
        )
        array[:2] = np.array([0, 1]).astype(dtype.replace(">", ""))
        theirs = zarr.open_array(tmp_path / "v", mode="r")[:]
    ours = open_hierarchy(LocalStore(tmp_path / "v")).array("").read()
    assert np.isnat(ours).tolist() == np.isnat(theirs).tolist() == [False, False, True, True]
    assert ours[:2].tolist() == theirs[:2].tolist()


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dtype", ["i2", "u4", "f4", "f8"])
def test_pcodec_of_zarr_python(dtype: str, rounded: bool, tmp_path: Path) -> None:
    """numcodecs rounds floats to whole numbers of the same bits, and these are what is compressed."""
    pytest.importorskip("pcodec")
    from zarr.codecs.numcodecs import BitRound, PCodec

    values = np.array([0, 1, 2.5, -3, 1e4, 7], "f8").astype(dtype).reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.open_group(tmp_path, mode="w").create_array(
            "v", shape=(2, 3), chunks=(2, 2), dtype=dtype, serializer=PCodec(level=3), compressors=[],
            filters=[BitRound(keepbits=20)] if rounded and dtype[0] == "f" else [],
        )  # fmt: skip
        array[...] = values
        ours = open_hierarchy(LocalStore(tmp_path, "r+"), mode="r+").array("v")
        assert ours.read().tolist() == values.tolist()
        ours.write((1, slice(0, 2)), [5, 6])
        values[1, :2] = 5, 6
        assert ours.read().tolist() == array[...].tolist() == values.tolist()


def test_pcodec_of_another_width_is_refused(tmp_path: Path) -> None:
    pcodec = pytest.importorskip("numcodecs.pcodec")
    pytest.importorskip("pcodec")
    metadata = ArrayMetadata(
        (4,),
        data_type_for("f4"),
        RegularGrid((4,)),
        fill_value=np.float32(0),
        codecs=(N("numcodecs.pcodec"),),
    )
    array = create_hierarchy(LocalStore(tmp_path, "w")).put_array("v", metadata)
    (tmp_path / "v" / "c").mkdir(parents=True)
    (tmp_path / "v" / "c" / "0").write_bytes(pcodec.PCodec().encode(np.arange(4.0)))
    with pytest.raises(CodecError, match="dtype is float64, expected float32"):
        array.read()


@pytest.mark.parametrize(
    ("dtype", "filters", "where"),
    [
        (">i4", [("delta", "<i4", "<i4")], 0),
        ("<i4", [("delta", ">i4", ">i4")], 0),
        ("<i4", [("delta", "<i4", ">i4"), ("delta", "<i4", "<i4")], 1),
        (">i4", [("astype", "<i4", "<i8")], 0),
        (">i4", [("delta", ">i4", "<i4"), ("delta", "<i4", ">i8")], None),
        ("<i4", [("delta", "<i4", ">i8"), ("astype", ">i8", "<f8")], None),
    ],
)
def test_filters_of_version_2_in_another_byte_order(
    dtype: str, filters: list[tuple[str, str, str]], where: int | None, tmp_path: Path
) -> None:
    """numcodecs takes the bytes for ones of its own dtype: what was stored are differences of other numbers."""
    import numcodecs

    made = [
        numcodecs.Delta(source, target) if name == "delta" else numcodecs.AsType(target, source)
        for name, source, target in filters
    ]
    values = np.array([1, 2, 300, 5], dtype)
    group = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    array = group.create_array("v", shape=(4,), chunks=(4,), dtype=dtype, filters=made, compressors=None)
    array[...] = values
    assert array[...].tolist() == values.tolist()
    if where is None:
        ours = open_hierarchy(LocalStore(tmp_path, "r+"), mode="r+").array("v")
        assert ours.read().tolist() == values.tolist()
        ours.write(slice(1, 3), [7, -8])
        assert array[...].tolist() == [1, 7, -8, 5]
    else:
        with pytest.raises(UnsupportedError, match=rf"filters\[{where}\].*the input of the filter is"):
            open_hierarchy(LocalStore(tmp_path)).array("v")


@pytest.mark.parametrize("filters", [[], ["shuffle"], ["delta"], ["shuffle", "fletcher32"]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_version_2_of_zarr_python(tmp_path: Path, filters: list[str], order: Any) -> None:
    import numcodecs

    made = {
        "shuffle": numcodecs.Shuffle(4),
        "delta": numcodecs.Delta("<i4"),
        "fletcher32": numcodecs.Fletcher32(),
    }
    values = np.arange(30, dtype="<i4").reshape(5, 6) * 7
    group = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    array = group.create_array(
        "v", shape=(5, 6), chunks=(2, 4), dtype="<i4", fill_value=-1, order=order,
        filters=[made[name] for name in filters] or None, compressors=numcodecs.Zlib(1),
    )  # fmt: skip
    array[...] = values
    ours = open_hierarchy(LocalStore(tmp_path, "r+"), mode="r+").array("v")
    assert ours.read().tolist() == values.tolist()
    ours.write((slice(1, 4), 3), [0, 1, 2])
    values[1:4, 3] = [0, 1, 2]
    assert zarr.open_group(tmp_path, mode="r")["v"][...].tolist() == values.tolist()

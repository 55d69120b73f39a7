"""Test that compression is stored as asked, by every way to write, and kept by copies; zarr-python is the oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import LZ4, Delta

import nczarr
import nczarr.xarray
from nczarr import cdl
from nczarr.convert import open_source
from nczarr.errors import UnsupportedError

VALUES = np.arange(2000, dtype="i4").reshape(40, 50)


def stored(path: Path, name: str = "v") -> list[tuple[str, dict[str, Any]]]:
    """Names and configurations of the codecs without ``bytes``, as zarr-python reads them; the values are checked."""
    array = zarr.open_array(path, path=name, mode="r")
    np.testing.assert_array_equal(array[...], VALUES)
    codecs = [*array.filters, *array.compressors]
    if array.metadata.zarr_format == 2:
        configs = [dict(codec.get_config()) for codec in codecs]
        return [(config.pop("id"), config) for config in configs]
    return [(c["name"], c.get("configuration", {})) for c in (codec.to_dict() for codec in codecs)]


def written_by_zarr(path: Path, **options: Any) -> Path:
    """A plain Zarr hierarchy of zarr-python."""
    group = zarr.create_group(path, zarr_format=options.pop("zarr_format", 3))
    group.create_array(
        "v", data=VALUES, chunks=(20, 50), dimension_names=options.pop("names", ("y", "x")), **options
    )
    return path


ASKED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({"compressors": ()}, []),
    "one": ({"compressors": [LZ4()]}, ["numcodecs.lz4"]),
    "several": ({"compressors": [LZ4(), GzipCodec(level=1)]}, ["numcodecs.lz4", "gzip"]),
    "filtered": ({"filters": [Delta(dtype="<i4")], "compressors": [GzipCodec(level=3)]}, ["numcodecs.delta", "gzip"]),
    "checked": ({"compressors": [ZstdCodec(level=5, checksum=True)]}, ["zstd"]),
    "unshuffled": ({"compressors": [BloscCodec(cname="zlib", clevel=9, shuffle="noshuffle", typesize=4)]}, ["blosc"]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("how", [{}, {"compression": "source"}])
def test_a_copy_keeps_the_codecs_of_its_source(tmp_path: Path, asked: str, how: dict[str, Any]) -> None:
    options, names = ASKED[asked]
    source = written_by_zarr(tmp_path / "a.zarr", **options)
    before = stored(source)
    assert [name for name, _ in before] == names
    nczarr.copy(source, tmp_path / "b.zarr", **how)
    assert stored(tmp_path / "b.zarr") == before
    nczarr.copy(tmp_path / "b.zarr", tmp_path / "c.zarr", chunks={"y": 10}, **how)
    assert stored(tmp_path / "c.zarr") == before
    assert zarr.open_array(tmp_path / "c.zarr", path="v").chunks == (10, 50)


@pytest.mark.parametrize("keys", [("default", "/"), ("default", "."), ("v2", "/"), ("v2", ".")])
def test_a_copy_keeps_the_chunk_keys_of_its_source(tmp_path: Path, keys: tuple[str, str]) -> None:
    encoding = {"name": keys[0], "separator": keys[1]}
    source = written_by_zarr(tmp_path / "a.zarr", chunk_key_encoding=encoding)

    def names(path: Path) -> list[str]:
        return sorted(str(p.relative_to(path / "v")) for p in (path / "v").rglob("*") if p.is_file())

    before = names(source)
    assert len(before) == 3
    nczarr.copy(source, tmp_path / "b.zarr")
    nczarr.copy(tmp_path / "b.zarr", tmp_path / "c.zarr", compression="gzip:1")
    for target in ("b.zarr", "c.zarr"):
        assert names(tmp_path / target) == before
        assert [name for name, _ in stored(tmp_path / target)] == (["gzip"] if target[0] == "c" else ["zstd"])
    nczarr.copy(source, tmp_path / "e.zarr", chunk_keys="default")
    assert "c/0/0" in names(tmp_path / "e.zarr")


def test_a_copy_keeps_the_order_inside_chunks(tmp_path: Path) -> None:
    """The axes that stay keep theirs, and a new one is the slowest."""
    turned = [TransposeCodec(order=(1, 0))]
    for name in "ab":
        written_by_zarr(tmp_path / f"{name}.zarr", filters=turned, compressors=())
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "c.zarr", chunks={"y": 10})
    nczarr.copy(tmp_path / "c.zarr", tmp_path / "d.zarr")
    assert stored(tmp_path / "c.zarr") == stored(tmp_path / "d.zarr") == stored(tmp_path / "a.zarr")
    nczarr.join([tmp_path / "a.zarr", tmp_path / "b.zarr"], tmp_path / "e.zarr", along="t")
    joined = zarr.open_array(tmp_path / "e.zarr", path="v")
    assert joined[...].tolist() == [VALUES.tolist()] * 2
    assert [codec.to_dict()["configuration"] for codec in joined.filters] == [{"order": (0, 2, 1)}]
    chunk = (tmp_path / "e.zarr" / "v" / "c" / "1" / "0" / "0").read_bytes()
    assert chunk == VALUES[:20].T.tobytes()


@pytest.mark.parametrize("engine", ["nczarr", "zarr"])
@pytest.mark.parametrize(
    "change", [lambda o: o.isel(y=3), lambda o: o.expand_dims("t"), lambda o: o.transpose()]
)
def test_the_accessor_stores_what_has_other_axes_than_its_encoding(
    tmp_path: Path, change: Callable[[xr.Dataset], xr.Dataset], engine: str
) -> None:
    """An order for two axes fits neither one axis nor three."""
    source = written_by_zarr(tmp_path / "a.zarr", filters=[TransposeCodec(order=(1, 0))])
    how: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
    if engine == "nczarr":  # it leaves plain Zarr to the other one
        nczarr.copy(source, tmp_path / "c.zarr", compression="source")
        source = tmp_path / "c.zarr"
    with xr.open_dataset(source, engine=engine, **how) as ds:
        wanted = change(ds)
        wanted.nczarr.to_zarr(tmp_path / "b.zarr")
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr", path="v")[...], wanted["v"].values)


def test_a_plan_can_say_that_nothing_is_compressed(tmp_path: Path) -> None:
    source, plan = written_by_zarr(tmp_path / "a.zarr", compressors=()), tmp_path / "plan.toml"
    nczarr.copy(source, tmp_path / "b.zarr", plan=plan, dry_run=True)
    assert 'compression = "none"' in plan.read_text()
    written_by_zarr(tmp_path / "c.zarr")
    nczarr.copy(tmp_path / "c.zarr", tmp_path / "b.zarr", plan=plan)
    assert stored(tmp_path / "b.zarr") == []


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_a_copy_from_version_2_names_codecs_as_zarr_python_does(tmp_path: Path) -> None:
    from numcodecs import Blosc
    from numcodecs import Delta as OldDelta

    source = written_by_zarr(
        tmp_path / "a.zarr", zarr_format=2, names=None, order="F", filters=[OldDelta("<i4")],
        compressors=Blosc("lz4", 3, Blosc.NOSHUFFLE),
    )  # fmt: skip
    nczarr.copy(source, tmp_path / "b.zarr")
    names = [name for name, _ in stored(tmp_path / "b.zarr")]
    assert names == ["transpose", "numcodecs.delta", "blosc"]
    kept = stored(tmp_path / "b.zarr")[-1][1]
    assert (kept["cname"], kept["clevel"], kept["shuffle"]) == ("lz4", 3, "noshuffle")
    nczarr.copy(source, tmp_path / "c.zarr", layout="zarr-v2")
    assert [name for name, _ in stored(tmp_path / "c.zarr")] == ["delta", "blosc"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_a_portable_copy_names_the_codecs_that_it_replaces(tmp_path: Path) -> None:
    source = written_by_zarr(tmp_path / "a.zarr", compressors=[LZ4()])
    (replaced,) = nczarr.copy(source, tmp_path / "b.zarr", portable=True)
    assert replaced.startswith("/v: lz4; blosc:zstd")
    assert [name for name, _ in stored(tmp_path / "b.zarr")] == ["blosc"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_a_netcdf_file_refuses_or_replaces_codecs_by_name(tmp_path: Path) -> None:
    source = written_by_zarr(tmp_path / "a.zarr", compressors=[LZ4()])
    with pytest.raises(UnsupportedError, match=r"no filter for the codec 'numcodecs.lz4'"):
        nczarr.copy(source, tmp_path / "a.nc", compression="source")
    assert not (tmp_path / "a.nc").exists()
    (replaced,) = nczarr.copy(source, tmp_path / "a.nc")
    assert replaced == (
        "/v: the codec numcodecs.lz4, for which HDF5 has no filter; shuffle and deflate replace it"
    )


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
@pytest.mark.parametrize(
    "asked",
    ["lz4", "numcodecs.lz4", '{"name": "numcodecs.lz4"}', '[{"name": "numcodecs.lz4", "configuration": {}}]'],
)
def test_the_option_compression_names_any_codec(tmp_path: Path, asked: str) -> None:
    source = written_by_zarr(tmp_path / "a.zarr")
    nczarr.copy(source, tmp_path / "b.zarr", compression=f"v:{asked}")
    assert [name for name, _ in stored(tmp_path / "b.zarr")] == ["numcodecs.lz4"]


@pytest.mark.parametrize(
    "asked", ["nothing", "numcodecs.nothing", '{"name": "gzip", "configuration": {"level": 11}}']
)
def test_a_codec_that_does_not_exist_is_refused(tmp_path: Path, asked: str) -> None:
    source = written_by_zarr(tmp_path / "a.zarr")
    with pytest.raises(nczarr.NCZarrError, match=r"nothing|level is '11'"):
        nczarr.copy(source, tmp_path / "b.zarr", compression=asked)
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("asked", ASKED)
def test_the_accessor_stores_the_codecs_of_an_encoding(tmp_path: Path, asked: str) -> None:
    options, names = ASKED[asked]
    ds = xr.Dataset({"v": (("y", "x"), VALUES)})
    ds.nczarr.to_zarr(tmp_path / "a.zarr", encoding={"v": {"chunks": (20, 50), **options}})
    before = stored(tmp_path / "a.zarr")
    assert before == stored(written_by_zarr(tmp_path / "b.zarr", **options))
    assert [name for name, _ in before] == names
    with xr.open_dataset(tmp_path / "a.zarr", engine="nczarr") as again:
        again["v"].encoding["chunks"] = (10, 50)
        again.nczarr.to_zarr(tmp_path / "c.zarr")
    assert stored(tmp_path / "c.zarr") == before
    with xr.open_dataset(tmp_path / "b.zarr", engine="zarr", consolidated=False) as foreign:
        foreign.nczarr.to_zarr(tmp_path / "d.zarr")
    assert stored(tmp_path / "d.zarr") == before


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("form", ["object", "configuration", "name"])
def test_create_variable_takes_the_codecs_of_zarr(tmp_path: Path, asked: str, form: str) -> None:
    options, names = ASKED[asked]
    codecs: list[Any] = [*options.get("filters", ()), *options["compressors"]]
    if form != "object":
        codecs = [codec.to_dict() for codec in codecs]
    chosen = json.dumps(codecs) if form == "name" else codecs
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("y", 40)
        ds.createDimension("x", 50)
        ds.createVariable("v", "i4", ("y", "x"), compression=chosen)[:] = VALUES
    before = stored(tmp_path / "a.zarr")
    assert before == stored(written_by_zarr(tmp_path / "b.zarr", **options))
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "c.zarr")
    assert stored(tmp_path / "c.zarr") == before
    with nczarr.Dataset(tmp_path / "c.zarr") as ds:
        listed = [codec["name"] for codec in ds["v"].filters().get("codecs", [])]
    assert listed in (names, [])
    with open_source(tmp_path / "c.zarr") as dataset:
        text = cdl.dumps(dataset, cdl.DumpOptions(special=True))
    assert all(name in text for name in listed)
    nczarr.copy(cdl.loads(text), tmp_path / "d.zarr")
    if listed or not names:
        assert stored(tmp_path / "d.zarr") == before


def test_codecs_that_a_format_lacks_are_refused_at_the_call(tmp_path: Path) -> None:
    for target, options in (
        ("a.nc", {}),
        ("a.zarr", {"options": nczarr.mapping.WriteOptions(layout="nczarr-v2")}),
    ):
        with nczarr.Dataset(tmp_path / target, "w", **options) as ds:
            ds.createDimension("x", 2000)
            with pytest.raises(nczarr.NCZarrError, match=r"numcodecs\.lz4"):
                ds.createVariable("v", "i4", ("x",), compression="lz4")
            assert list(ds.variables) == []
    ds = xr.Dataset({"v": ("x", VALUES[0])})
    with pytest.raises(nczarr.NCZarrError, match=r"numcodecs\.lz4"):
        ds.nczarr.to_netcdf(tmp_path / "b.nc", encoding={"v": {"compressors": [LZ4()]}})
    assert not (tmp_path / "b.nc").exists()


PACKAGE = """
from nczarr.zarr.codecs import BytesBytesCodec

class Inverted(BytesBytesCodec):
    def __init__(self, name, configuration, spec):
        self.key = configuration.get("key", 255)

    def encode(self, data):
        return bytes(byte ^ self.key for byte in bytes(memoryview(data).cast("B")))

    def decode(self, data, size, limit, out=None):
        decoded = self.encode(data)
        if out is None:
            return decoded
        out[...] = list(decoded)
        return out
"""


@pytest.mark.slow
def test_a_codec_of_another_package_is_created_reopened_renamed_copied_and_listed(tmp_path: Path) -> None:
    """The package registers it by an entry point, as docs/extending.md says; each step is a process of its own."""
    site = tmp_path / "site"
    (site / "inverted-1.dist-info").mkdir(parents=True)
    (site / "inverted.py").write_text(PACKAGE)
    (site / "inverted-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: inverted\nVersion: 1\n"
    )
    (site / "inverted-1.dist-info" / "entry_points.txt").write_text(
        "[nczarr.codecs]\nexample.inverted = inverted:Inverted\n"
    )

    def run(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-c", (
        "import nczarr, numpy as np\n"
        "with nczarr.Dataset('a.zarr', 'w') as ds:\n"
        "    ds.createDimension('x', 100)\n"
        "    codec = {'name': 'example.inverted', 'configuration': {'key': 7}}\n"
        "    ds.createVariable('v', 'i4', ('x',), compression=[codec, 'gzip:1'])[:] = np.arange(100)\n"
    ))  # fmt: skip
    seen = run("-c", (
        "import nczarr\n"
        "with nczarr.Dataset('a.zarr', 'r+') as ds:\n"
        "    ds.renameVariable('v', 'w')\n"
        "with nczarr.Dataset('a.zarr') as ds:\n"
        "    print(ds['w'][:].sum(), ds['w'].filters()['codecs'])\n"
    ))  # fmt: skip
    assert seen.startswith("4950 [{'name': 'example.inverted', 'configuration': {'key': 7}}, {'name': 'gzip'")
    run("-m", "nczarr", "copy", "a.zarr", "b.zarr", "--verify")
    document = json.loads((tmp_path / "b.zarr" / "w" / "zarr.json").read_text())
    assert [codec["name"] for codec in document["codecs"]] == ["bytes", "example.inverted", "gzip"]
    run("-m", "nczarr", "copy", "b.zarr", "c.zarr", "--compression", "example.inverted")
    document = json.loads((tmp_path / "c.zarr" / "w" / "zarr.json").read_text())
    assert [codec["name"] for codec in document["codecs"]] == ["bytes", "example.inverted"]
    assert "example.inverted" in run("-m", "nczarr", "info", "b.zarr")
    assert "example.inverted" in run("-m", "nczarr", "dump", "-h", "-s", "b.zarr")


def test_a_compression_and_a_checksum_of_xarray_are_both_stored(tmp_path: Path) -> None:
    ds = xr.Dataset({"v": (("y", "x"), VALUES)})
    ds.nczarr.to_zarr(tmp_path / "a.zarr", encoding={"v": {"compression": "lz4", "fletcher32": True}})
    assert [name for name, _ in stored(tmp_path / "a.zarr")] == ["numcodecs.lz4", "crc32c"]


@pytest.mark.parametrize(
    "asked",
    [
        [ZstdCodec(level=5)],
        ZstdCodec(level=5),
        {"name": "zstd", "configuration": {"level": 5}},
        ["zstd:5"],
        {"v": ZstdCodec(level=5)},
        {"v": [ZstdCodec(level=5)]},
        {"v": [{"name": "zstd", "configuration": {"level": 5}}]},
        {"*": {"id": "zstd", "level": 5}},
    ],
    ids=repr,
)
def test_copy_takes_codecs_as_objects_and_json_for_all_and_for_some_variables(
    tmp_path: Path, asked: Any
) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("y", 40)
        ds.createDimension("x", 50)
        ds.createVariable("v", "i4", ("y", "x"))[:] = VALUES
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", compression=asked)
    assert stored(tmp_path / "b.zarr") == [("zstd", {"level": 5, "checksum": False})]


def test_a_netcdf_file_takes_codecs_as_objects_where_hdf5_has_their_filters(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("y", 40)
        ds.createDimension("x", 50)
        ds.createVariable("v", "i4", ("y", "x"))[:] = VALUES
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.nc", compression=[GzipCodec(level=3)])
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        filters = file["v"].filters()
    assert (filters["zlib"], filters["complevel"], filters["shuffle"]) == (True, 3, False)
    with pytest.raises(UnsupportedError, match=r"no filter for the codec 'numcodecs\.lz4'"):
        nczarr.copy(tmp_path / "a.zarr", tmp_path / "b.nc", compression={"v": LZ4()})

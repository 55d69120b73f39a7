"""Write netCDF files and read them back; ncdump and netCDF4-python are the oracles."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.errors import DatasetExistsError, LossError, NetCDFFileError, SelectionError, UnsupportedError
from nczarr.model import (
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    INT64,
    PRIMITIVES,
    SHORT,
    STRING,
    UBYTE,
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
    compare,
)
from nczarr.netcdf import create_dataset, create_file, is_netcdf, open_dataset
from nczarr.netcdf.hdf5 import library


def same(text: str) -> list[str]:
    """Return ncdump's lines without the file's name and the writing program."""
    lines = text.split("\n")[1:]
    return [line for line in lines if "_NCProperties" not in line and "_SuperblockVersion" not in line]


def test_a_copy_is_the_same_to_model_and_ncdump(
    nc_file: Path, tmp_path: Path, copy: Callable[..., None], ncdump: Callable[..., str]
) -> None:
    target = tmp_path / nc_file.name
    copy(nc_file, target)
    with open_dataset(nc_file) as a, open_dataset(target) as b:
        assert a.dataset.format == b.dataset.format
        assert not list(compare(a.dataset, b.dataset, storage=nc_file.stem != "foreign"))
    if nc_file.stem != "foreign":  # Debian's ncdump prints a fixed-length text as NIL there
        assert same(ncdump(target)) == same(ncdump(nc_file))
    if nc_file.stem not in ("cdf5", "classic_cdf5", "groups", "foreign"):  # Debian's ncdump -s fails on these
        assert same(ncdump(target, "-s")) == same(ncdump(nc_file, "-s"))
    assert ncdump(target, "-k") == ncdump(nc_file, "-k")
    assert [p.name for p in tmp_path.iterdir()] == [nc_file.name]


def test_netcdf4_python_reads_the_same_from_a_copy(
    nc_file: Path, tmp_path: Path, copy: Callable[..., None]
) -> None:
    copy(nc_file, tmp_path / "copy.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with netCDF4.Dataset(nc_file) as a, netCDF4.Dataset(tmp_path / "copy.nc") as b:
            assert list(a.variables) == list(b.variables)
            assert list(a.groups) == list(b.groups)
            for name, variable in a.variables.items():
                variable.set_auto_maskandscale(False)
                b[name].set_auto_maskandscale(False)
                assert b[name].dimensions == variable.dimensions
                assert b[name].ncattrs() == variable.ncattrs()
                assert repr(b[name][...]) == repr(variable[...])
                assert b[name].filters() == variable.filters()
                assert b[name].chunking() == variable.chunking()


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(zero_sizes=True))
def test_any_dataset_comes_back(
    tmp_path_factory: pytest.TempPathFactory, write: Any, dataset: Dataset
) -> None:
    path = tmp_path_factory.mktemp("any") / "d.nc"
    try:
        write(dataset, path)
    except LossError as error:
        assert "of the same name" in error.message or "reserves" in error.message
        return
    with open_dataset(path) as file:
        assert not list(compare(dataset, file.dataset))
        for fqn, variable in dataset.all_variables.items():
            kept = file.dataset.variable_at(fqn).storage
            if variable.storage.chunk_shape:
                assert kept.filters == variable.storage.filters
            if variable.storage.endian == "big":
                assert kept.endian == "big"
            if variable.storage.layout == "contiguous":
                assert kept.layout == "contiguous"


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    strategies.datasets(types="none", depth=0, storage=False, names=strategies.plain_names()),
    st.sampled_from(["classic", "64-bit offset", "cdf5", "netCDF-4 classic model"]),
)
def test_classic_formats_hold_it_or_say_what_they_cannot(
    tmp_path_factory: pytest.TempPathFactory, write: Any, dataset: Dataset, format_: str
) -> None:
    allowed = list(PRIMITIVES.values())[:11] if format_ == "cdf5" else [PRIMITIVES[n] for n in CLASSIC]
    fits = (
        sum(d.unlimited for d in dataset.dimensions) <= 1
        and all(
            v.type in allowed
            # HDF5 grows along any axis, so netCDF-C takes an unlimited dimension anywhere in its classic model.
            and (format_ == "netCDF-4 classic model" or not any(map(dataset.is_unlimited, v.dimensions[1:])))
            for v in dataset.variables
        )
        and all(a.type in allowed for owner in (dataset, *dataset.variables) for a in owner.attributes)
    )
    folder = tmp_path_factory.mktemp("classic")
    if not fits:
        with pytest.raises(LossError):
            write(dataset, folder / "d.nc", format=format_)
        assert not list(folder.iterdir())
        return
    write(dataset, folder / "d.nc", format=format_)
    with open_dataset(folder / "d.nc") as file, netCDF4.Dataset(folder / "d.nc") as peer:
        assert not list(compare(dataset, file.dataset))
        assert file.dataset.format == format_
        assert list(peer.variables) == [v.name for v in dataset.variables]
        peer.set_auto_maskandscale(False)
        peer.set_auto_chartostring(False)
        for v in dataset.variables:
            data = v.data.array
            assert np.asarray(peer[v.name][...]).astype(data.dtype).tobytes() == data.tobytes()


CLASSIC = ("byte", "char", "short", "int", "float", "double")


def pair_of_parts() -> Dataset:
    """A dataset with a variable of each kind of storage, for writing in parts."""
    point = CompoundType("/point", (Field("x", DOUBLE), Field("name", STRING)))
    row = VlenType("/row", INT)
    x, t = Dimension("x", 5), Dimension("t", 4, unlimited=True)

    def variable(name: str, type_: Any, *attributes: Attribute, **storage: Any) -> Variable:
        return Variable(name, type_, ("/t", "/x"), attributes=attributes, storage=Storage(**storage))

    return Dataset(
        "d",
        types=(point, row),
        dimensions=(x, t),
        variables=(
            variable("plain", FLOAT),
            variable("filled", SHORT, Attribute.of("_FillValue", -5, SHORT)),
            variable("packed", INT64, layout="chunked", chunk_shape=(2, 2), filters=(Filter(1, (4,)),)),
            variable("words", STRING),
            variable("named", STRING, Attribute.of("_FillValue", ["none"], STRING)),
            variable("points", point),
            variable("rows", row),
        ),
    )


def test_what_is_never_written_is_fill(tmp_path: Path) -> None:
    dataset = pair_of_parts()
    with create_dataset(tmp_path / "a.nc", dataset) as sink:
        for v in dataset.variables:
            if v.type in (FLOAT, SHORT, INT64):
                sink.write(
                    f"/{v.name}", (slice(1, 3), slice(2, 4)), np.arange(4, dtype=v.type.dtype).reshape(2, 2)
                )
        sink.write("/words", (slice(0, 1), slice(0, 1)), np.array([["a"]], object))
        sink.commit()
    block = [[0, 1], [2, 3]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = netCDF4.Dataset(tmp_path / "a.nc")
    with open_dataset(tmp_path / "a.nc") as file, peer:
        read = {
            v.name: v.data.read((slice(0, 4), slice(0, 5)))
            for v in file.dataset.variables
            if v.data is not None
        }
        peer.set_auto_maskandscale(False)
        for name, fill in (
            ("plain", netCDF4.default_fillvals["f4"]),
            ("filled", -5),
            ("packed", -(2**63) + 2),
        ):
            expected = np.full((4, 5), fill, read[name].dtype)
            expected[1:3, 2:4] = block
            assert np.array_equal(read[name], expected)
            assert np.array_equal(peer[name][...], expected)
        assert Counter(read["words"].ravel()) == {"": 19, "a": 1}
        assert set(read["named"].ravel()) == {"none"} == set(peer["named"][...].ravel())
        assert set(read["points"]["name"].ravel()) == {""}
        assert not read["points"]["x"].any()
        assert all(r.size == 0 for r in read["rows"].ravel())


@pytest.mark.parametrize("format_", ["classic", "cdf5"])
def test_classic_files_in_parts(tmp_path: Path, format_: str) -> None:
    """Writing blocks of any form in any order, from several threads, leaves fill elsewhere."""
    rng = np.random.default_rng(5)
    dims = (Dimension("t", 6, unlimited=True), Dimension("y", 300), Dimension("x", 700))
    dataset = Dataset(
        "d",
        dimensions=dims,
        variables=(
            Variable("a", DOUBLE, ("/t", "/y", "/x")),
            Variable("odd", PRIMITIVES["byte"], ("/t",)),
            Variable("fixed", SHORT, ("/y", "/x"), attributes=(Attribute.of("_FillValue", 7, SHORT),)),
        ),
    )
    expected = {
        "/a": np.full((6, 300, 700), netCDF4.default_fillvals["f8"]),
        "/odd": np.full(6, -127, "i1"),
        "/fixed": np.full((300, 700), 7, "i2"),
    }
    jobs = []
    for fqn, values in expected.items():
        for _ in range(6):
            region = []
            for n in values.shape:
                start = int(rng.integers(0, n))
                region.append(slice(start, int(rng.integers(start, n)) + 1))
            part = values[tuple(region)]
            part[...] = rng.integers(0, 100, part.shape)
            jobs.append((fqn, tuple(region)))
    with create_dataset(tmp_path / "a.nc", dataset, format=format_) as sink, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: sink.write(*job, expected[job[0]][job[1]]), jobs))
        sink.commit()
    with netCDF4.Dataset(tmp_path / "a.nc") as peer:
        peer.set_auto_maskandscale(False)
        for fqn, values in expected.items():
            assert np.array_equal(peer[fqn][...], values)


def test_types_of_one_definition_keep_their_names(tmp_path: Path, write: Any) -> None:
    """HDF5 cannot tell a type inside another from its twin; the file must."""
    a, b = OpaqueType("/a", 3), OpaqueType("/b", 3)
    e, f = EnumType("/e", UBYTE, (("x", 1),)), EnumType("/g/e", UBYTE, (("x", 1),))
    c = CompoundType("/h/c", (Field("one", b, (2,)), Field("two", a), Field("three", f)))
    v = VlenType("/h/v", f)
    variables = tuple(Variable(f"of_{t.fqn[-1]}{i}", t) for i, t in enumerate((a, b, c, e, f, v)))
    dataset = Dataset(
        "d", types=(b, a, e), groups=(Group("g", types=(f,)), Group("h", types=(c, v), variables=variables))
    )
    write(dataset, tmp_path / "a.nc")
    with open_dataset(tmp_path / "a.nc") as file:
        assert not list(compare(dataset, file.dataset))


def test_strings_in_chunks_that_were_never_written(tmp_path: Path) -> None:
    """HDF5 itself cannot read them; files that netCDF4-python writes may have such chunks."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("t", None)
        ds.createDimension("x", 5)
        ds.createVariable("s", str, ("t", "x"), chunksizes=(1, 2))[2, 3] = "here"
    with open_dataset(tmp_path / "a.nc") as file:
        data = file.dataset.variable_at("/s").data
        assert data is not None
        expected = np.full((3, 5), "", object)
        expected[2, 3] = "here"
        for region in [
            (slice(0, 3), slice(0, 5)),
            (slice(0, 3, 2), slice(1, 5, 2)),
            (slice(2, 3), slice(3, 4)),
        ]:
            assert data.read(region).tolist() == expected[region].tolist()


def test_anonymous_dimensions_get_names(tmp_path: Path, write: Any, ncdump: Any) -> None:
    values = np.arange(12, dtype="i4").reshape(2, 3, 2)
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(
            Variable("v", INT, ("/x", 3, 2), data=MemorySource(values)),
            Variable("w", INT, (3,), data=MemorySource(values[0, :, 0])),
        ),
    )
    for format_ in ("netCDF-4", "classic"):
        write(dataset, tmp_path / "a.nc", format=format_, overwrite=True)
        with open_dataset(tmp_path / "a.nc") as file:
            v, w = file.dataset.variables
            assert v.dimensions == ("/x", "/phony_dim_0", "/phony_dim_1")
            assert w.dimensions == ("/phony_dim_0",)
            assert v.data is not None
            assert np.array_equal(v.data.read((slice(0, 2), slice(0, 3), slice(0, 2))), values)
        assert "v(x, phony_dim_0, phony_dim_1)" in ncdump(tmp_path / "a.nc", "-h")


def test_nothing_is_there_before_commit_and_after_abort(tmp_path: Path) -> None:
    for format_ in ("netCDF-4", "classic"):
        sink = create_dataset(tmp_path / "a.nc", Dataset("a"), format=format_)
        assert not (tmp_path / "a.nc").exists()
        sink.abort()
        assert not list(tmp_path.iterdir())
        with pytest.raises(RuntimeError), create_dataset(tmp_path / "a.nc", Dataset("a"), format=format_):
            raise RuntimeError
        assert not list(tmp_path.iterdir())
        with create_dataset(tmp_path / "a.nc", Dataset("a"), format=format_) as sink:
            sink.commit()
        sink.abort()
        assert is_netcdf(tmp_path / "a.nc")
        (tmp_path / "a.nc").unlink()


def test_an_existing_file_is_replaced_only_when_asked_and_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(b"precious")
    with pytest.raises(DatasetExistsError, match=r"a\.nc: the file exists"):
        create_dataset(path, Dataset("a"))
    sink = create_dataset(path, Dataset("a"), overwrite=True)
    assert path.read_bytes() == b"precious"
    sink.abort()
    assert path.read_bytes() == b"precious"
    create_dataset(path, Dataset("a"), overwrite=True).commit()
    assert is_netcdf(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatasetExistsError, match="directory"):
        create_dataset(tmp_path / "folder", Dataset("a"), overwrite=True)
    with pytest.raises(NetCDFFileError, match="folder"):
        create_dataset(tmp_path / "missing" / "a.nc", Dataset("a"))


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    sink = create_dataset(tmp_path / "a.nc", Dataset("a"))
    (tmp_path / "a.nc").write_bytes(b"precious")
    with pytest.raises(DatasetExistsError):
        sink.commit()
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.nc", b"precious")]


def test_a_file_can_be_rewritten_in_place(tmp_path: Path, data: Path, copy: Callable[..., None]) -> None:
    for name in ("user_types.nc", "classic.nc"):
        path = tmp_path / name
        path.write_bytes((data / name).read_bytes())
        copy(path, path, overwrite=True)
        with open_dataset(path) as a, open_dataset(data / name) as b:
            assert not list(compare(a.dataset, b.dataset, storage=True))


def test_what_a_format_cannot_hold_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    enum = EnumType("/e", INT, (("one", 1), ("uno", 1)))
    x = Dimension("x", 2)
    cases: list[tuple[Dataset, str, str]] = [
        (Dataset("d", types=(enum,)), "netCDF-4", "/e: .*two names for one value"),
        (Dataset("d", variables=(Variable("v", STRING),)), "classic", "/v: .*string"),
        (Dataset("d", variables=(Variable("v", INT64),)), "64-bit offset", "/v: .*int64"),
        (Dataset("d", groups=(Group("g"),)), "cdf5", "/g: .*no groups"),
        (Dataset("d", types=(OpaqueType("/o", 3),)), "netCDF-4 classic model", "/o: .*user-defined"),
        (Dataset("d", dimensions=(Dimension("x", 0),)), "classic", "/x: .*size 0"),
        (
            Dataset("d", dimensions=(Dimension("x", (1 << 31) - 3),)),
            "classic",
            "/x: .*at most 2147483644",
        ),
        (
            Dataset("d", dimensions=(Dimension("x", (1 << 32) - 3),)),
            "64-bit offset",
            "/x: .*at most 4294967292",
        ),
        (
            Dataset("d", dimensions=(Dimension("x", 1 << 32),)),
            "netCDF-4 classic model",
            "/x: .*at most 4294967295",
        ),
        (
            Dataset("d", dimensions=(x,), groups=(Group("x"),)),
            "netCDF-4",
            "/x: .*a group and a dimension of the same name",
        ),
        (
            Dataset("d", attributes=(Attribute.of("_NCProperties", "x"),)),
            "netCDF-4",
            "reserves the attribute name",
        ),
        (
            Dataset(
                "d",
                dimensions=(replace(x, size=1 << 30),),
                variables=(Variable("v", INT, ("/x",)), Variable("w", INT, ("/x",))),
            ),
            "classic",
            "/v: .*larger than 4 GiB|/w: .*31 bits",
        ),
    ]
    for dataset, format_, reason in cases:
        with pytest.raises(LossError, match=reason):
            create_dataset(path, dataset, format=format_)
        assert not list(tmp_path.iterdir())


def test_unknown_formats_and_filters(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="netCDF-5"):
        create_dataset(tmp_path / "a.nc", Dataset("a"), format="netCDF-5")
    storage = Storage("chunked", (2,), (Filter(31999),))
    dataset = Dataset(
        "a", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",), storage=storage),)
    )
    with pytest.raises(UnsupportedError, match=r"/v: .*31999"):
        create_dataset(tmp_path / "a.nc", dataset)
    assert not list(tmp_path.iterdir())


def test_wrong_writes_are_refused(tmp_path: Path) -> None:
    dataset = Dataset(
        "a", dimensions=(Dimension("x", 3),), variables=(Variable("v", INT, ("/x",)), Variable("s", STRING))
    )
    for format_ in ("netCDF-4", "classic"):
        kept = dataset if format_ == "netCDF-4" else replace(dataset, variables=dataset.variables[:1])
        with create_dataset(tmp_path / "a.nc", kept, format=format_) as sink:
            three = np.zeros(3, "i4")
            for region in [(slice(0, 4),), (slice(0, 2),), (slice(0, 3, 2),), (), (slice(-1, 2),)]:
                with pytest.raises(SelectionError, match="/v"):
                    sink.write("/v", region, three)
            if format_ == "netCDF-4":
                with pytest.raises(UnsupportedError, match="NUL"):
                    sink.write("/s", (), np.array("a\0b", object))
            sink.abort()
            with pytest.raises(NetCDFFileError, match="closed"):
                sink.write("/v", (slice(0, 3),), three)


def test_large_attributes_and_many_of_them(tmp_path: Path, write: Any, ncdump: Any) -> None:
    """HDF5 keeps large attributes, and many of them, in another way than small ones."""
    attributes = [Attribute.of(f"a{(i * 7) % 40}", i) for i in range(40)]
    attributes.append(Attribute.of("long", "x" * 100_000))
    attributes.append(Attribute("numbers", DOUBLE, np.arange(20_000.0)))
    dataset = Dataset(
        "d", attributes=tuple(attributes), variables=(Variable("v", INT, attributes=tuple(attributes)),)
    )
    write(dataset, tmp_path / "a.nc")
    with open_dataset(tmp_path / "a.nc") as file:
        assert not list(compare(dataset, file.dataset))
    text = ncdump(tmp_path / "a.nc", "-h")
    assert text.index(":a0 =") < text.index(":a7 =") < text.index(":a33 =") < text.index(":long =")


def test_blocks_are_whole_chunks(tmp_path: Path) -> None:
    dims = (Dimension("t", 100, unlimited=True), Dimension("y", 1000), Dimension("x", 1000))
    storage = Storage("chunked", (1, 100, 300))
    dataset = Dataset(
        "d",
        dimensions=dims,
        variables=(
            Variable("chunked", FLOAT, ("/t", "/y", "/x"), storage=storage),
            Variable("plain", FLOAT, ("/y", "/x")),
            Variable("scalar", FLOAT),
        ),
    )
    with create_dataset(tmp_path / "a.nc", dataset) as sink:
        block = sink.write_shape("/chunked")
        assert all(b % c == 0 or b == d.size for b, c, d in zip(block, (1, 100, 300), dims, strict=True))
        assert np.prod(block) * 4 <= 4 << 20
        assert sink.write_shape("/plain") == (1000, 1000)
        assert sink.write_shape("/scalar") == ()


def test_types_that_are_used_before_their_group_are_refused(
    tmp_path: Path, ncdump: Callable[..., str]
) -> None:
    """netCDF's library cannot open such a file, or leaves the variable out."""
    late = EnumType("/g/late", BYTE, (("one", 1),))
    group = Group("g", types=(late,))
    attribute = Attribute("a", late, np.array([1], "i1"))
    compound = CompoundType("/c", (Field("x", late),))
    path = tmp_path / "a.nc"
    for dataset in (
        Dataset("d", types=(compound,), groups=(group,)),
        Dataset("d", variables=(Variable("v", late, ()),), groups=(group,)),
        Dataset("d", groups=(Group("a", variables=(Variable("v", late, ()),)), group)),
    ):
        with pytest.raises(LossError, match="before the group that declares it"):
            create_dataset(path, dataset)
    assert list(tmp_path.iterdir()) == []
    # It does find the types of attributes.
    with create_dataset(path, Dataset("d", attributes=(attribute,), groups=(group,))) as sink:
        sink.commit()
    assert "/g/late :a = one ;" in ncdump(path)


def test_values_of_enums_are_there_when_hdf5_looks_at_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interpreters reuse memory without references sooner or later."""
    with library.hdf5().phil:
        functions = library._functions()
    insert = functions["H5Tenum_insert"]

    def late(*arguments: Any) -> int:
        others = [np.array(99, "i4") for _ in range(100)]
        return insert(*arguments) if others else -1

    monkeypatch.setitem(functions, "H5Tenum_insert", late)
    members = (("clear", 0), ("cloudy", 2), ("missing", 100))
    declared = Dataset("d", types=(EnumType("/sky", INT, members),))
    create_dataset(tmp_path / "a.nc", declared).commit()
    with open_dataset(tmp_path / "a.nc") as file:
        assert file.dataset.types[0].members == members


@pytest.mark.parametrize("format", ["classic", "netCDF-4"])
def test_variables_of_a_dimension_take_their_length_from_the_model(tmp_path: Path, format: str) -> None:
    """A variable with a length of its own stays behind when another one grows."""
    path = tmp_path / "a.nc"
    names = ("v", "w")
    time = Dimension("t", 2, True)
    made = Dataset(
        "a", format=format, dimensions=(time,), variables=tuple(Variable(n, INT, ("/t",)) for n in names)
    )
    file = create_file(path, made)
    v, w = file.data("/v"), file.data("/w")
    v.grow((5,))
    assert (v.shape, w.shape, file.length("/t")) == ((5,), (5,), 2)
    v.write((slice(4, 5),), np.array([7], "i4"))
    assert file.lengthen({"/t": 5})
    assert (w.shape, file.length("/t"), file.dataset.dimension_at("/t").size) == ((5,), 5, 5)
    file.close()
    with netCDF4.Dataset(path) as again:
        assert [again[name][:].tolist() for name in names] == [[None] * 4 + [7], [None] * 5]


@pytest.mark.parametrize("names", ["t", "tyx", "yt", "tux", "ytu"])
def test_small_variables_get_the_chunks_of_netcdf4_wherever_unlimited_dimensions_are(
    names: str, tmp_path: Path
) -> None:
    sizes = {"t": None, "u": None, "y": 20, "x": 30}
    with netCDF4.Dataset(tmp_path / "theirs.nc", "w") as theirs:
        for name in names:
            theirs.createDimension(name, sizes[name])
        expected = theirs.createVariable("v", "f4", tuple(names)).chunking()
    dimensions = tuple(Dimension(name, sizes[name] or 0, sizes[name] is None) for name in names)
    variable = Variable("v", FLOAT, tuple(f"/{name}" for name in names))
    create_dataset(tmp_path / "ours.nc", Dataset("d", dimensions=dimensions, variables=(variable,))).commit()
    with netCDF4.Dataset(tmp_path / "ours.nc") as ours:
        assert ours["v"].chunking() == expected


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open descriptors")
@pytest.mark.parametrize("format_", ["netCDF-4", "classic"])
def test_an_abandoned_new_file_is_closed_while_its_sink_lives(format_: str, tmp_path: Path) -> None:
    def opened() -> list[str]:
        places = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
        return [place for place in places if place.startswith(str(tmp_path))]

    sink = create_dataset(tmp_path / "a.nc", Dataset("a"), format=format_)
    assert opened()
    sink.abort()
    assert not opened()
    assert not list(tmp_path.iterdir())

"""Names that contain a slash: at every door, held, or refused by name."""

from __future__ import annotations

import pickle
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nczarr
from nczarr import cdl, mapping
from nczarr.cli import main
from nczarr.convert import open_source
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.model import (
    BYTE,
    INT,
    Attribute,
    CompoundType,
    Dataset,
    Dimension,
    EnumType,
    Field,
    Group,
    MemorySource,
    Variable,
    check_name,
    compare,
    join_fqn,
    normalize_name,
    parse_fqn,
)
from nczarr.model.paths import join_path, split_path
from nczarr.model.typed import fqn_of_typed, matching, typed
from nczarr.stores import MemoryStore

#: All kinds of nodes with slashes, beside those that a reader may take them for.
TEXT = r"""netcdf slashes {
types:
  byte enum a\/e {low = 0, high = 1} ;
dimensions:
>x\/y = 2 ;
>y = 3 ;
variables:
>int a\/b(x\/y) ;
>>a\/b:coordinates = "x/y" ;
>int x\/y(x\/y) ;
>a\/e a\\\/b(y) ;
data:

 a\/b = 1, 2 ;

 x\/y = 7, 8 ;

 a\\\/b = low, high, low ;

group: a {
  dimensions:
  >x = 2 ;
  variables:
  >int b(x) ;
  data:

   b = 3, 4 ;
  } // group a

group: a\/x {
  dimensions:
  >b = UNLIMITED ; // (2 currently)
  variables:
  >int v\/w(b, x\/y) ;
  data:

   v\/w =
  5, 6,
  7, 8 ;
  } // group a\/x
}
""".replace(">", "\t")


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "a.cdl").write_text(TEXT)
    nczarr.copy(tmp_path / "a.cdl", tmp_path / "a.zarr")
    return str(tmp_path / "a.zarr")


# --- names and FQNs

names = (
    st.one_of(
        st.text(r"/\. ab", min_size=1, max_size=5),
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=5),
    )
    .map(normalize_name)
    .filter(lambda name: check_name(name) is None)
)


@given(st.lists(names, min_size=1, max_size=4))
def test_no_reader_takes_a_slash_in_a_name_for_two_names(components: list[str]) -> None:
    fqn = "/"
    for name in components:
        fqn = join_fqn(fqn, name)
    assert parse_fqn(fqn) == tuple(components)
    assert fqn_of_typed(typed(fqn)) == fqn
    assert matching(typed(fqn), [fqn, join_fqn(fqn, "x")]) == [fqn]


@given(st.lists(names.filter(lambda name: name != "."), max_size=4))
def test_paths_of_other_programs_split_into_the_names_that_were_joined(components: list[str]) -> None:
    assert split_path(join_path(components)) == components


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(names, min_size=4, max_size=4, unique=True))
def test_random_names_return_from_cdl_and_from_zarr(components: list[str]) -> None:
    group, dimension, variable, kind = components
    dataset = Dataset(
        "d",
        types=(CompoundType(join_fqn("/", kind), (Field("f", INT),)),),
        dimensions=(Dimension(dimension, 2),),
        variables=(Variable(dimension, INT, (join_fqn("/", dimension),)),),
        groups=(
            Group(
                group,
                dimensions=(Dimension(variable, 2),),
                variables=(
                    Variable(
                        variable,
                        EnumType(join_fqn(join_fqn("/", group), kind), BYTE, (("no", 0),)),
                        (join_fqn(join_fqn("/", group), variable), join_fqn("/", dimension)),
                    ),
                ),
                types=(EnumType(join_fqn(join_fqn("/", group), kind), BYTE, (("no", 0),)),),
            ),
        ),
    )
    text = cdl.dumps(dataset)
    assert list(map(str, compare(dataset, cdl.loads(text)))) == []
    target = MemoryStore()
    nczarr.copy(dataset, target)
    with mapping.open_dataset(target) as stored:
        assert list(map(str, compare(dataset, stored.dataset))) == []
        assert stored.findings == ()


# --- doors that hold them


def test_cdl_zarr_and_zip_hold_the_same_dataset(store: str, tmp_path: Path) -> None:
    with open_source(store) as dataset:
        assert cdl.dumps(dataset, cdl.DumpOptions(name="slashes")) == TEXT
    for name in ("b.zarr", "b.zarr.zip", "b.cdl"):
        nczarr.copy(store, tmp_path / name)
        assert list(nczarr.diff(store, tmp_path / name)) == []
    for layout in ("draft-2019",):
        nczarr.copy(store, tmp_path / f"{layout}.zarr", layout=layout)
        assert list(nczarr.diff(store, tmp_path / f"{layout}.zarr")) == []
    assert main(["check", store]) == 0


def test_zarr_python_sees_the_escaped_nodes(store: str) -> None:
    root = zarr.open_group(store, mode="r")
    assert sorted(root.array_keys()) == ["_nc-a.2Fb", "_nc-a.5C.2Fb", "_nc-x.2Fy"]
    assert sorted(root.group_keys()) == ["_nc-a.2Fx", "a"]
    assert root["_nc-a.2Fx/_nc-v.2Fw"][:].tolist() == [[5, 6], [7, 8]]
    assert root["a/b"][:].tolist() == [3, 4]


def test_the_interface_spells_slashes_of_names_with_backslashes(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with nczarr.Dataset(path, "w") as ds:
        ds.createDimension(r"x\/y", 2)
        v = ds.createVariable(r"g/v\/w", "i4", (r"x\/y",))
        assert (v.name, v.dimensions, v.group().path) == ("v/w", ("x/y",), "/g")
        v[:] = [1, 2]
        inner = ds.createGroup(r"a\/b/c")
        inner.createVariable("u", "i4", v.dimensions)[:] = 3
        assert (inner.path, list(ds.groups)) == (r"/a\/b/c", ["g", "a/b"])
        assert ds[inner.path] is inner
        assert ds.createGroup(r"a\/b/c") is inner
        assert ds.createCompoundType(np.dtype([("f", "i4")]), r"k\/t").name == "k/t"
        with pytest.raises(RuntimeError, match=r"illegal.*'p/q'.*write '\\/'"):
            ds.createDimension("p/q", 1)
        with pytest.raises(AttributeError, match="illegal"):
            ds.setncattr("p/q", 1)
    with nczarr.Dataset(path, "a") as ds:
        ds["g"].renameVariable(r"v\/w", r"n\/m")
        ds.renameDimension("x/y", r"k\/l")
        ds.renameGroup("a/b", "ab")
    with nczarr.Dataset(path) as ds:
        v = ds[r"g/n\/m"]
        assert (v[:].tolist(), v.dimensions, ds["ab/c/u"].dimensions) == ([1, 2], ("k/l",), ("k/l",))
        assert pickle.loads(pickle.dumps(v))[:].tolist() == [1, 2]
        with pytest.raises(KeyError, match="no group 'n'"):
            ds["g/n/m"]


def test_xarray_has_the_names_as_they_are(store: str, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(store, engine="nczarr") as ds:
        assert ds.sizes == {"x/y": 2, "y": 3}
        assert ds["a/b"].values.tolist() == [1, 2]
        assert "x/y" in ds.coords
        ds.nczarr.to_zarr(tmp_path / "b.zarr")
        with pytest.raises(NCZarrError, match="Forward slashes") as caught:
            ds.nczarr.to_netcdf(tmp_path / "b.nc")
        assert isinstance(caught.value, ValueError)
    assert not (tmp_path / "b.nc").exists()
    with nczarr.Dataset(tmp_path / "b.zarr") as written:
        assert written[r"a\/b"][:].tolist() == [1, 2]
    for group, shape in ((r"a\/x", (2, 2)), (r"/a\/x", (2, 2))):
        with xr.open_dataset(store, engine="nczarr", group=group) as ds:
            assert ds["v/w"].shape == shape
    with xr.open_dataset(store, engine="nczarr", group="a") as ds:
        assert ds["b"].values.tolist() == [3, 4]
    assert list(xr.open_groups(store, engine="nczarr")) == ["/", "/a", r"/a\/x"]
    with pytest.raises(UnsupportedError, match=r"tree.*/a\\/x"):
        xr.open_datatree(store, engine="nczarr")


@pytest.mark.parametrize(
    ("given", "kept"),
    [(r"/a\/b", [r"/a\/b", "/x\\/y"]), ("/a/b", ["/a/b"]), (r"v\/w", [r"/a\/x/v\/w", r"/x\/y"])],
)
def test_options_choose_the_node_that_is_spelled(
    store: str, tmp_path: Path, given: str, kept: list[str]
) -> None:
    nczarr.copy(store, tmp_path / "b.zarr", variables=given)
    with open_source(tmp_path / "b.zarr") as dataset:
        assert sorted(dataset.all_variables) == sorted(kept)


def test_chunks_indices_and_new_names_are_given_by_the_spelled_name(store: str, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    assert main(["copy", store, str(target), "--chunks", r"/x\/y=1", "-d", r"/a\/x/b=#1:2"]) == 0
    with open_source(target) as dataset:
        assert dataset.variable_at(r"/a\/b").storage.chunk_shape == (1,)
        assert dataset.variable_at(r"/a\/x/v\/w").data.read((slice(0, 1), slice(0, 2))).tolist() == [[7, 8]]
    nczarr.copy(
        store,
        tmp_path / "c.nc",
        rename={
            r"/a\/e": "e", r"/x\/y": "xy", r"/a\/b": "ab", r"/a\\\/b": "abs", r"/a\/x": "ax", r"/a\/x/v\/w": "w"
        },
    )  # fmt: skip
    with open_source(tmp_path / "c.nc") as dataset:
        assert sorted(dataset.all_variables) == ["/a/b", "/ab", "/abs", "/ax/w", "/xy"]
        assert dataset.variable_at("/abs").type.fqn == "/e"
        assert dataset.variable_at("/ab").attribute["coordinates"].text == "xy"
    nczarr.copy(tmp_path / "c.nc", tmp_path / "d.zarr", rename={"/xy": r"p\/q"})
    with open_source(tmp_path / "d.zarr") as dataset:
        assert dataset.variable_at("/ab").dimensions == (r"/p\/q",)


def test_a_name_from_ls_can_be_quoted_for_a_shell(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", store]) == 0
    listed = capsys.readouterr().out.split()
    assert r"/a\/x/v\/w" in listed
    command = f"printf %s {shlex.quote(listed[-1])}"
    pasted = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert main(["dump", "-v", pasted, store]) == 0
    shown = capsys.readouterr().out
    assert "v\\/w =\n  5, 6," in shown
    assert "b = 3, 4" not in shown


# --- doors that cannot hold them


@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_netcdf_files_refuse_the_name_and_say_what_to_do(tmp_path: Path, format: str) -> None:
    dataset = Dataset("d", dimensions=(Dimension("x/y", 2),))
    with pytest.raises(UnsupportedError, match=r"/x\\/y.*'x/y' contains '/'.*rename="):
        nczarr.copy(dataset, tmp_path / "a.nc")
    assert not (tmp_path / "a.nc").exists()
    with nczarr.Dataset(tmp_path / "b.nc", "w", format=format) as ds:
        with pytest.raises(RuntimeError, match=r"'x/y' contains '/'.*another name"):
            ds.createDimension(r"x\/y", 2)
        ds.createDimension("x", 2)
        with pytest.raises(RuntimeError, match=r"'v/w' contains '/'"):
            ds.createVariable(r"v\/w", "i4", ("x",))
        with pytest.raises(RuntimeError, match=r"'v/w' contains '/'"):
            ds.renameDimension("x", r"v\/w")


@pytest.mark.parametrize("options", [["--ncdump"], ["-x"]])
def test_the_forms_of_ncdump_refuse_the_name(
    store: str, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["dump", *options, store]) != 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert r"/x\/y" in shown.err
    assert "--rename" in shown.err


def test_nczarr_v2_refuses_the_name(tmp_path: Path) -> None:
    for dataset, what in (
        (Dataset("d", dimensions=(Dimension("x/y", 2),)), "'x/y' of a dimension"),
        (Dataset("d", variables=(Variable("v/w", INT),)), "'v/w' of a variable"),
        (Dataset("d", groups=(Group("g/h"),)), "'g/h' of a group"),
    ):
        with pytest.raises(NCZarrError, match=f"{what}.*rename="):
            nczarr.copy(dataset, tmp_path / "a.zarr", layout="nczarr-v2")
        assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("layout", ["zarr-v3", "zarr-v2"])
def test_plain_zarr_holds_the_names_of_arrays_and_groups(tmp_path: Path, layout: str) -> None:
    dataset = Dataset(
        "d",
        dimensions=(Dimension("x/y", 2),),
        variables=(Variable("v/w", INT, (r"/x\/y",), data=MemorySource(np.array([1, 2], "i4"))),),
        groups=(Group("g/h", attributes=(Attribute.of("a", "b"),)),),
    )
    nczarr.copy(dataset, tmp_path / "a.zarr", layout=layout)
    with open_source(tmp_path / "a.zarr") as found:
        assert list(found.all_variables) == [r"/v\/w"]
        assert list(found.all_groups) == ["/", r"/g\/h"]
        assert found.variable_at(r"/v\/w").dimensions == (r"/x\/y",)

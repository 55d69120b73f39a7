"""Anonymous dimensions, and fixed ones of size 0: nczarr's CDL keeps them, with --ncdump they are those of ncdump."""

import subprocess
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import NCZarrError
from nczarr.cdl import DumpOptions, dumps, loads
from nczarr.cli.main import main
from nczarr.convert import open_source
from nczarr.model import INT, Dataset, Dimension, Group, MemorySource, Variable, compare

TEXT = """netcdf d {
variables: int v(3, 3), w(3, 0), s ;
data: v = 1, 2, 3, 4, 5, 6, 7, 8, 9;
group: g { variables: int v(2); }
}"""


def same(a: Dataset, b: Dataset) -> bool:
    return not list(compare(a, b))


def test_dump_prints_sizes_that_gen_reads_back(tmp_path, capsys):
    dataset = loads(TEXT)
    assert dataset.variable_at("/w").dimensions == (3, 0)
    text = dumps(dataset)
    assert "dimensions:" not in text
    assert "int v(3, 3) ;" in text
    assert same(loads(text), dataset)
    for name in ("a.zarr", "b.zarr.zip"):
        nczarr.copy(dataset, tmp_path / name)
        assert main(["dump", str(tmp_path / name), "-o", str(tmp_path / "a.cdl")]) == 0
        assert main(["gen", str(tmp_path / "a.cdl"), str(tmp_path / f"again_{name}"), "-q"]) == 0
        with open_source(tmp_path / f"again_{name}") as again:
            assert same(again, dataset)


def test_a_fixed_dimension_of_size_0_stays_fixed():
    dimensions = (Dimension("x", 0), Dimension("u", 0, True))
    dataset = Dataset("d", dimensions=dimensions, variables=(Variable("v", INT, ("/x", "/u", 0)),))
    text = dumps(dataset)
    assert "\tx = FIXED(0) ;\n\tu = UNLIMITED ; // (0 currently)\n" in text
    assert loads(text).dimensions == dimensions
    assert loads(text).variables[0].dimensions == ("/x", "/u", 0)


@given(st.lists(st.lists(st.sampled_from(["/x", "/e", "/u", 0, 1, 3]), max_size=3), max_size=4))
def test_dump_and_gen_are_inverse(shapes):
    sizes = {"/x": 2, "/e": 0, "/u": 0}
    dimensions = (Dimension("x", 2), Dimension("e", 0), Dimension("u", 0, True))

    def variable(number: int, shape: list) -> Variable:
        data = np.zeros([sizes.get(d, d) for d in shape], "i4")
        return Variable(f"v{number}", INT, tuple(shape), data=MemorySource(data))

    variables = tuple(variable(*item) for item in enumerate(shapes))
    dataset = Dataset("d", dimensions=dimensions, groups=(Group("g", variables=variables),))
    again = loads(dumps(dataset))
    assert again.dimensions == dimensions
    assert [v.dimensions for v in again.groups[0].variables] == [tuple(shape) for shape in shapes]


@pytest.mark.filterwarnings("ignore:the dimension")
def test_with_ncdump_a_dump_is_that_of_ncdump_for_the_netcdf_file(tmp_path):
    dataset = Dataset(
        "a",
        dimensions=(Dimension("x", 0), Dimension("y", 2)),
        variables=(Variable("v", INT, ("/x", "/y", 3, 3)), Variable("w", INT, (3, 4))),
        groups=(Group("g", variables=(Variable("v", INT, (3,)),)),),
        format="netCDF-4",
    )
    nczarr.copy(dataset, tmp_path / "a.nc")
    expected = subprocess.run(
        ["ncdump", tmp_path / "a.nc"], capture_output=True, text=True, check=True
    ).stdout
    nczarr.copy(dataset, tmp_path / "a.zarr")
    for name in ("a.nc", "a.zarr"):
        with open_source(tmp_path / name) as opened:
            assert dumps(opened, DumpOptions(ncdump=True, name="a")) == expected


@pytest.mark.filterwarnings("ignore:the dimension")
def test_with_ncdump_anonymous_dimensions_of_hdf5_files_are_those_of_ncdump(tmp_path: Path):
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["v"], file["z"] = np.zeros((3, 3), "i4"), np.zeros(0, "i4")
        file["zz"] = np.zeros((0, 0), "i4")
        file.create_dataset("a", (0, 2), "i4", maxshape=(None, 2))
        file.create_group("g")["w"] = np.zeros((3, 4), "f4")
    expected = subprocess.run(["ncdump", path], capture_output=True, text=True, check=True).stdout
    with open_source(path) as opened:
        assert dumps(opened, DumpOptions(ncdump=True, name="a")) == expected


def test_with_ncdump_a_fixed_dimension_of_size_0_is_named_in_a_warning():
    dataset = Dataset("d", dimensions=(Dimension("x", 0), Dimension("u", 0, True)))
    with pytest.warns(UserWarning, match="the dimension /x of size 0 is fixed") as caught:
        dumps(dataset, DumpOptions(ncdump=True))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dumps(dataset)


def test_a_word_that_begins_like_fixed_is_a_name():
    dataset = loads("netcdf d { dimensions: FIXED = 3; variables: int FIXED(FIXED); }")
    assert dataset.variables[0].dimensions == ("/FIXED",)
    with pytest.raises(NCZarrError, match="expected"):
        loads("netcdf d { dimensions: x = FIXED(3); }")

"""Join files whose attributes give the values another meaning: the join is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import netCDF4
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert.many.fit import DECODING, DESCRIBING, MEANING, MEANING_OF_GROUPS, Fitting
from nczarr.convert.many.joining import join
from nczarr.errors import ModelError, UnsupportedError
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Variable

HEADER = """netcdf d {{
dimensions: time = UNLIMITED; x = 2;
variables:
  double time(time); time:units = "days since 2000-01-01";
  float v(time, x); v:grid_mapping = "crs"; {}
  int crs; crs:grid_mapping_name = "rotated_latitude_longitude"; {}
  {}
data: time = {}; v = 1, 2; crs = 0;
}}"""

#: What differs: the place (variable, grid mapping or global), and the attribute in both files.
PAIRS = {
    "cell_methods": (0, 'v:cell_methods = "time: mean";', 'v:cell_methods = "time: maximum";'),
    "standard_name": (0, 'v:standard_name = "air_temperature";', 'v:standard_name = "air_pressure";'),
    "standard_name there only": (0, "", 'v:standard_name = "air_pressure";'),
    "coordinates": (0, 'v:coordinates = "x time";', 'v:coordinates = "x crs";'),
    "bounds": (0, 'v:bounds = "time";', 'v:bounds = "x_bnds";'),
    "ancillary_variables": (0, 'v:ancillary_variables = "a b";', 'v:ancillary_variables = "a";'),
    "cell_measures": (0, 'v:cell_measures = "area: a";', 'v:cell_measures = "area: b";'),
    "formula_terms": (0, 'v:formula_terms = "a: b";', 'v:formula_terms = "a: c";'),
    "positive": (0, 'v:positive = "up";', 'v:positive = "down";'),
    "axis": (0, 'v:axis = "Z";', ""),
    "flag_meanings": (0, 'v:flag_meanings = "bad good";', 'v:flag_meanings = "good bad";'),
    "flag_values": (0, "v:flag_values = 0.f, 1.f;", "v:flag_values = 1.f, 0.f;"),
    "the pole": (
        1,
        "crs:grid_north_pole_latitude = 39.25;",
        "crs:grid_north_pole_longitude = -162.;",
    ),
    "the other pole": (1, "crs:grid_north_pole_latitude = 39.25;", "crs:grid_north_pole_latitude = 40.;"),
    "featureType": (2, ':featureType = "point";', ':featureType = "profile";'),
}


def text(place: int, attribute: str, time: int) -> Dataset:
    parts = ["", "", ""]
    parts[place] = attribute
    return cdl.loads(HEADER.format(*parts, time))


@pytest.mark.parametrize("target", ["out.zarr", "out.nc", "classic"])
@pytest.mark.parametrize("case", PAIRS)
def test_another_meaning_is_refused(case: str, target: str, tmp_path: Path) -> None:
    place, *attributes = PAIRS[case]
    options: dict[str, Any] = {"format": "classic"} if target == "classic" else {}
    out = tmp_path / ("out.nc" if target == "classic" else target)
    files = [tmp_path / "one.nc", tmp_path / "two.nc"]
    for number, (path, attribute) in enumerate(zip(files, attributes, strict=True)):
        nczarr.copy(text(place, attribute, number), path)
    whole = tmp_path / "whole.zarr"
    nczarr.copy(files[0], out, **options)
    for target_of, verb, sources in ((whole, nczarr.join, files), (out, nczarr.append, files[1])):
        with pytest.raises(ModelError) as caught:
            verb(sources, target_of)
        said = str(caught.value)
        assert all(
            name in said for name in ("two.nc: ", "one.nc" if target_of is whole else out.name, " not ")
        )
        values = [part for a in attributes for part in re.findall(r'= "?(.*?)"?;', a)]
        shown = [v.replace("f", "").rstrip(".") if v[0].isdigit() else v for v in values]
        assert all(v.split(",")[0] in said for v in shown)
        assert "join='first'" in said
        assert "exclude=" in said
    assert not whole.exists()
    nczarr.join(files, whole, join="first")
    nczarr.append(files[1], out, join="first")
    for made in (whole, out):
        with nczarr.Dataset(made) as found, netCDF4.Dataset(files[0]) as first:
            for name in ("v", "crs", "time"):
                assert {a: str(found[name].getncattr(a)) for a in found[name].ncattrs()} == {
                    a: str(first[name].getncattr(a)) for a in first[name].ncattrs()
                }
            assert {a for a in found.ncattrs() if a != "_NCProperties"} == set(first.ncattrs())
            assert found["time"][:].tolist() == [0, 1]


@pytest.mark.parametrize("name", sorted(DECODING - {"calendar", "month_lengths", "leap_year", "leap_month"}))
def test_attributes_that_decode_numbers_may_never_differ(name: str, tmp_path: Path) -> None:
    values = {"units": ('"K"', '"degC"'), "_Unsigned": ('"true"', '"false"'), "_Encoding": ('"a"', '"b"')}
    one, two = values.get(name, ("1.f", "2.f"))
    parts = [text(0, f"v:{name} = {value};", i) for i, value in enumerate((one, two))]
    for how in ("outer", "first", "exact"):
        with pytest.raises(ModelError, match=f"/v: the attribute {name} is "):
            nczarr.join(parts, tmp_path / "out.zarr", join=how)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('v:coordinates = "x time";', 'v:coordinates = "time x";'),
        ('v:cell_methods = "time: mean";', 'v:cell_methods = "time:  mean ";'),
        ('v:standard_name = "a";', 'string v:standard_name = "a";'),
        ('v:long_name = "a";', 'v:long_name = "b";'),
        ('v:comment = "a";', 'v:note = "b";'),
    ],
)
def test_the_same_meaning_in_other_words_is_joined(one: str, two: str, tmp_path: Path) -> None:
    nczarr.join([text(0, one, 0), text(0, two, 1)], tmp_path / "out.zarr")
    nczarr.append(text(0, two, 2), tmp_path / "out.zarr")
    with nczarr.Dataset(tmp_path / "out.zarr") as made:
        assert made.dimensions["time"].size == 3


def test_coordinates_beside_a_grid_mapping_are_no_grid_mapping(tmp_path: Path) -> None:
    parts = [
        cdl.loads(
            'netcdf d { dimensions: t = UNLIMITED; x = 1; variables: float v(t, x); v:grid_mapping = "crs: x"; '
            f'int crs; float x(x); x:note = "{note}"; int t(t); data: t = {i}; x = 1; v = 1; }}'
        )
        for i, note in enumerate("ab")
    ]
    nczarr.join(parts, tmp_path / "out.zarr", along="t")


def test_a_way_of_joining_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (nczarr.join, nczarr.append):
        with pytest.raises(UnsupportedError, match="join='last': it is one of outer, first, exact"):
            verb(text(0, "", 0), tmp_path / "out.zarr", join="last")
    with pytest.raises(SystemExit):
        main(["join", "--join", "last", "a.nc", "b.nc"])


NAMES = st.sampled_from(["standard_name", "axis", "coordinates", "long_name", "history", "semi_major_axis"])
ATTRIBUTES = st.dictionaries(NAMES, st.sampled_from(["a b", "b a", "c"]), max_size=3)


@given(st.lists(st.tuples(ATTRIBUTES, ATTRIBUTES), min_size=2, max_size=3))
def test_no_variable_has_the_meaning_of_two_files(files: list[tuple[dict[str, str], dict[str, str]]]) -> None:
    """The slow way: every pair of values of one name is compared."""

    def made(number: int, own: dict[str, str], mapping: dict[str, str]) -> Dataset:
        lists = [tuple(Attribute.of(n, v) for n, v in some.items()) for some in (own, mapping)]
        link = Attribute.of("grid_mapping", "m")
        return Dataset(
            f"d{number}",
            dimensions=(Dimension("t", 1),),
            variables=(
                Variable("v", INT, ("/t",), attributes=(*lists[0], link), data=MemorySource(_int([number]))),
                Variable("m", INT, (), attributes=lists[1], data=MemorySource(_int(0))),
            ),
        )

    parts = [made(number, *attributes) for number, attributes in enumerate(files)]

    def clash(index: int, name: str) -> bool:
        values = [file[index].get(name) for file in files]
        if name == "coordinates":
            values = [None if v is None else " ".join(sorted(v.split())) for v in values]
        return len(set(values)) > 1

    names = ["standard_name", "axis", "coordinates"]
    refused = any(clash(0, n) for n in names) or any(clash(1, n) for n in [*names, "semi_major_axis"])
    try:
        with join(parts, "t") as joined:
            assert not refused
            for index, name in enumerate("vm"):
                found = {a.name: a.text for a in joined.variable_at(f"/{name}").attributes}
                found.pop("grid_mapping", None)
                merged: dict[str, str] = {}
                for file in files:
                    merged = file[index] | merged
                assert found == merged
    except ModelError:
        assert refused
    with join(parts, "t", fitting=Fitting("first")) as joined:
        assert joined.variable_at("/m").attributes == parts[0].variable_at("/m").attributes


def _int(values: Any) -> Any:
    import numpy as np

    return np.array(values, "i4")


def test_the_table_in_the_documentation_is_the_one_that_counts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "convert-an-archive.md").read_text("utf-8")
    table = page.partition("### Attributes of joined files")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")][2:]
    listed = [set(re.findall(r"`(\w+)`", row[1])) for row in rows]
    assert listed == [set(DECODING), set(MEANING), set(MEANING_OF_GROUPS), set(DESCRIBING)]

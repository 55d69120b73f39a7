"""Test the kind of picture of a variable: lines, images, maps, categories, tables; axes, dates, colours."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.errors import NCZarrError
from nczarr.model import Variable
from nczarr.view import plot
from nczarr.view.coordinates import TimeLabels
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.state import Address
from nczarr.view.picture.colours import MAPS, choose_colours, find_categories
from nczarr.view.picture.drawer import Drawer
from nczarr.view.picture.drawings import Drawing, Line, Picture, Table, to_csv
from nczarr.view.picture.grids import Extent
from nczarr.view.picture.map_lines import coastlines, read_coast
from nczarr.view.picture.selection import select

DATA = Path(__file__).parents[1] / "data"


def drawn(text: str, fqn: str, **at: str) -> Drawing:
    with OpenedDataset(cdl.loads(text)) as opened:
        drawer = Drawer(opened)
        return drawer.draw(select(drawer.coordinates, fqn, at))


CURVILINEAR = """netcdf c {
dimensions: t = 2; y = 3; x = 4;
variables:
  float lat(y, x); lat:units = "degrees_north";
  float lon(y, x); lon:units = "degrees_east";
  float v(t, y, x); v:coordinates = "lon lat";
data:
  lat = 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15;
  lon = 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6;
  v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, _;
}"""
ROTATED = """netcdf r {
dimensions: rlat = 3; rlon = 3;
variables:
  float rlat(rlat); rlat:standard_name = "grid_latitude"; rlat:units = "degrees";
  float rlon(rlon); rlon:standard_name = "grid_longitude"; rlon:units = "degrees";
  int pole; pole:grid_mapping_name = "rotated_latitude_longitude";
    pole:grid_north_pole_latitude = 39.25; pole:grid_north_pole_longitude = -162.;
  float v(rlat, rlon); v:grid_mapping = "pole";
data: rlat = -1, 0, 1; rlon = -1, 0, 1; v = 1, 2, 3, 4, 5, 6, 7, 8, 9;
}"""
POINTS = """netcdf p {
dimensions: cell = 4;
variables:
  double clat(cell); clat:standard_name = "latitude"; clat:units = "degrees_north";
  double clon(cell); clon:standard_name = "longitude"; clon:units = "degrees_east";
  float v(cell); v:coordinates = "clat clon";
data: clat = 0, 0, 1, 1; clon = 0, 1, 0, 1; v = 1, 2, 3, 4;
}"""


def test_a_curvilinear_grid_is_a_map() -> None:
    picture = drawn(CURVILINEAR, "/v", t="1")
    assert isinstance(picture, Picture)
    assert picture.is_map
    assert picture.grid.index_at(2, 12) == (1, 1)
    assert set(picture.pixels.compressed().tolist()) == set(range(21, 32))
    assert picture.where == "t = 1"
    rows = list(csv.reader(io.StringIO(to_csv(picture))))
    assert rows[0] == ["t", "latitude", "longitude", "v"]
    assert {row[0] for row in rows[1:]} == {"1"}
    assert rows[1][1:] == ["10.0", "0.0", "21.0"]
    assert rows[-1][1:] == ["15.0", "6.0", ""]


def test_a_rotated_grid_is_a_map_where_it_really_is() -> None:
    with OpenedDataset(cdl.loads(ROTATED)) as opened:
        drawer = Drawer(opened)
        selection = select(drawer.coordinates, "/v", {})
        own, picture = (drawer.draw(replace(selection, projection=name)) for name in ("", "plate carrée"))
    assert isinstance(own, Picture)
    assert isinstance(picture, Picture)
    assert picture.is_map
    assert picture.grid.index_at(18, 50.75) == (1, 1)  # the origin of this grid
    assert picture.extent.left > 15
    assert picture.extent.right < 21
    assert own.pixels.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    lon, lat = own.grid.places
    assert (round(float(lon[1, 1]), 6), round(float(lat[1, 1]), 6)) == (18, 50.75)


def test_points_are_a_map() -> None:
    picture = drawn(POINTS, "/v")
    assert isinstance(picture, Picture)
    assert picture.is_map
    assert picture.grid.index_at(1, 1) == (3,)
    assert set(picture.pixels.compressed().tolist()) == {1, 2, 3, 4}


def test_longitudes_across_greenwich_are_unwrapped() -> None:
    picture = drawn(
        """netcdf w { dimensions: lat = 2; lon = 4; variables:
        float lat(lat); lat:units = "degrees_north"; float lon(lon); lon:units = "degrees_east";
        int v(lat, lon); data: lat = 1, -1; lon = 340, 350, 0, 10; v = 1, 2, 3, 4, 5, 6, 7, 8; }""",
        "/v",
    )
    assert isinstance(picture, Picture)
    assert (picture.extent.left, picture.extent.right) == (335, 375)
    assert picture.pixels.tolist() == [[5, 6, 7, 8], [1, 2, 3, 4]]  # rows from the south
    assert picture.grid.index_at(360, -1) == (1, 2)
    assert coastlines(picture.extent)


@pytest.mark.parametrize("bad", ["1, 3, 2", "1, 1, 1", "1, _, 3", "NaN, 2, 3"])
def test_coordinates_that_cannot_be_used_are_not(bad: str) -> None:
    picture = drawn(
        f"netcdf b {{ dimensions: y = 2; x = 3; variables: float x(x); int v(y, x); data: x = {bad}; "
        "v = 1, 2, 3, 4, 5, 6; }",
        "/v",
    )
    assert isinstance(picture, Picture)
    assert (picture.extent.left, picture.extent.right) == (-0.5, 2.5)
    assert picture.pixels.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert picture.x.label == "x (index)"
    assert "shows indices" in picture.notes[-1]


def test_values_are_unpacked_and_missing_ones_are_missing() -> None:
    line = drawn(
        """netcdf m { dimensions: x = 5; variables: short v(x); v:scale_factor = 0.5; v:add_offset = 10.;
        v:_FillValue = -1s; v:valid_max = 100s; data: v = 1, -1, 3, 101, 4; }""",
        "/v",
    )
    assert isinstance(line, Line)
    assert line.sample.tolist() == [10.5, None, 11.5, None, 12.0]
    assert to_csv(line) == "x,v\n0,10.5\n1,\n2,11.5\n3,\n4,12.0\n"


def test_what_is_no_number_is_a_table() -> None:
    with OpenedDataset(cdl.load(DATA / "user_types.cdl")) as opened:
        drawer = Drawer(opened)
        inner_axes = ("/grid.", "/cell.corners", "/cell.vertices.")
        for fqn in opened.model.all_variables:
            drawing = drawer.draw(select(drawer.coordinates, fqn, {}))
            to_csv(drawing)
            if fqn in ("/cloud", "/big"):
                assert isinstance(drawing, Line)
            elif "." in fqn:  # a number inside a compound
                assert isinstance(drawing, Picture if fqn.startswith(inner_axes) else Line)
            else:
                assert isinstance(drawing, Table)
                assert drawing.rows
        table = drawer.draw(select(drawer.coordinates, "/words", {}))
        assert isinstance(table, Table)
        assert table.rows[1] == ("1", '"größer"')


def test_characters_are_joined_to_texts() -> None:
    with OpenedDataset(DATA / "example.nc") as opened:
        drawer = Drawer(opened)
        table = drawer.draw(select(drawer.coordinates, "/atmosphere/station_code", {}))
        assert isinstance(table, Table)
        codes = opened.read("/atmosphere/station_code", ...)
        assert [value for _, value in table.rows] == [b"".join(row.tolist()).decode() for row in codes]
    table = drawn(
        'netcdf c { dimensions: n = 4; variables: char v(n); char s; data: v = "abc"; s = "x"; }', "/v"
    )
    assert isinstance(table, Table)
    assert table.rows == (("", "abc"),)
    assert table.left_out == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "example",
        "groups",
        "names",
        "primitives",
        "nested",
        "coordinates",
        "classic",
        "storage",
        "bits",
        "empty",
    ],
)
def test_every_variable_of_real_files_is_drawn(name: str) -> None:
    pytest.importorskip("matplotlib")
    from nczarr.view.plotting import to_image

    with OpenedDataset(DATA / f"{name}.nc") as opened:
        drawer = Drawer(opened)
        for fqn in opened.model.all_variables:
            drawing = drawer.draw(select(drawer.coordinates, fqn, {}))
            colours = choose_colours(opened.variable(fqn), drawing.sample)
            assert to_image(drawing, colours, dpi=30).startswith(b"\x89PNG")


# -- axes


def test_an_axis_of_depth_goes_down_and_dates_run_to_the_right() -> None:
    with OpenedDataset(DATA / "example.nc") as opened:
        drawer = Drawer(opened)
        picture = drawer.draw(select(drawer.coordinates, "/ocean/temp", {"lat": "9", "lon": "0"}))
        assert isinstance(picture, Picture)
        assert (picture.x.kind, picture.y.down) == ("date", True)
        assert not picture.is_map
        assert picture.where == "lat = 5°N, lon = 5°E"
        milliseconds = np.datetime64("2020-01-16T12:00").astype("datetime64[ms]").astype(float)
        assert picture.grid.index_at(milliseconds, 0.0) == (0, 0)


def test_selecting_by_date_and_from_the_end() -> None:
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Drawer(opened).coordinates
        assert select(coordinates, "/ocean/temp", {"time": "2020-03"}).at[0] == 2
        assert select(coordinates, "/ocean/temp", {"time": "-1"}).at[0] == 5
        for wrong in ({"time": "6"}, {"time": "soon"}, {"tim": "1"}, {"depth": "x"}):
            with pytest.raises(NCZarrError):
                select(coordinates, "/ocean/temp", wrong)


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day", "julian", "all_leap"])
@given(number=st.integers(-400_000, 400_000))
def test_dates_are_those_of_cftime(calendar: str, number: int) -> None:
    units = TimeLabels.parse("hours since 1999-12-30 06:00", calendar)
    assert units is not None
    date = cftime.num2date(number, "hours since 1999-12-30 06:00", calendar)
    assert units.label(number) in (date.strftime("%Y-%m-%d %H:%M"), date.strftime("%Y-%m-%d"))
    assert (units.milliseconds(np.zeros(1)) is not None) == (calendar == "standard")


def test_milliseconds_are_those_of_numpy() -> None:
    units = TimeLabels.parse("days since 2000-01-01", "proleptic_gregorian")
    assert units is not None
    days = np.arange(0.0, 9000, 7)
    expected = (
        (np.datetime64("2000-01-01") + days.astype("timedelta64[D]")).astype("datetime64[ms]").astype(float)
    )
    found = units.milliseconds(days)
    assert found is not None
    np.testing.assert_allclose(found, expected, atol=1)


@pytest.mark.parametrize(
    ("units", "number", "date"),
    [
        ("months since 1990-01-01", 5, "1990-06-01"),
        ("months since 1990-01-31", 1, "1990-02-28"),
        ("month since 1990-01-01 06:00", -0.5, "1989-12-16 18:00"),
        ("years since 1990-01-01", 2.5, "1992-07-01"),
        ("Years since 2000-02-29", 1, "2001-02-28"),
        ("days since 0000-01-01", 366, "0001-01-01"),
    ],
)
def test_months_and_years_are_those_of_the_calendar(units: str, number: float, date: str) -> None:
    parsed = TimeLabels.parse(units, "")
    assert parsed is not None
    assert parsed.label(number) == date
    if "0000" not in units:
        expected = np.datetime64(date.replace(" ", "T")).astype("datetime64[ms]").astype(float)
        found = parsed.milliseconds(np.array([number, 0.0]))
        assert found is not None
        assert found[0] == expected


@given(number=st.integers(-3000, 3000))
def test_months_of_30_days_are_those_of_cftime(number: int) -> None:
    parsed = TimeLabels.parse("months since 1999-12-30", "360_day")
    assert parsed is not None
    assert parsed.label(number) == f"{cftime.num2date(number, 'months since 1999-12-30', '360_day'):%Y-%m-%d}"


@pytest.mark.parametrize(
    "units", ["days since", "furlongs since 2000-01-01", "days since yesterday", "m", " since "]
)
def test_what_is_no_time_is_none(units: str) -> None:
    assert TimeLabels.parse(units, "standard") is None
    assert TimeLabels.parse("days since 2000-01-01", "martian") is None


STATIONS = """netcdf s {
dimensions: obs = 6;
variables:
  double time(obs); time:units = "days since 2020-01-01";
  string station(obs); int instrument(obs); float other(obs);
  float level(obs); level:coordinates = "time";
data:
  time = 0, 0, 1, 1, 2, 2; station = "Sylt", "Borkum", "Sylt", "Borkum", "Sylt", "Borkum";
  instrument = 7, 7, 7, 7, 9, 9; level = 1, 2, 3, 4, 5, 6;
}"""


@pytest.mark.parametrize(
    ("absent", "curves"),
    [
        ("", {"Sylt": [1, 3, 5], "Borkum": [2, 4, 6]}),
        ("station", {"instrument 7": [1, 2, 3, 4], "instrument 9": [5, 6]}),
        ("station instrument", {"": [1, 2, 3, 4, 5, 6]}),
    ],
)
def test_a_series_has_a_curve_for_each_station_or_instrument(
    absent: str, curves: dict[str, list[int]]
) -> None:
    text = STATIONS
    for number, name in enumerate(absent.split()):
        text = text.replace(name, f"v{number}")
    line = drawn(text, "/level")
    assert isinstance(line, Line)
    assert {name: line.sample[part].tolist() for name, part, _ in line.curves} == curves
    assert line.x.kind == "date"


# -- colours


def test_flags_are_categories() -> None:
    variable = cdl.loads(
        """netcdf f { variables: byte v; v:flag_values = 0b, 1b, 4b; v:flag_meanings = "sea land ice"; }"""
    ).variables[0]
    assert [(c.value, c.name) for c in find_categories(variable)] == [(0, "sea"), (1, "land"), (4, "ice")]
    colours = choose_colours(variable, np.ma.array([0, 4]))
    numbered = colours.numbered(np.ma.array([0, 1, 4, 3, 0], mask=[0, 0, 0, 0, 1]))
    assert numbered.tolist() == [0, 1, 2, None, None]


@given(st.lists(st.floats(), max_size=20))
def test_colours_always_have_a_range(values: list[float]) -> None:
    variable = cdl.loads("netcdf d { variables: double v; }").variables[0]
    chosen = choose_colours(variable, np.ma.array(values, dtype=float))
    assert np.isfinite([chosen.low, chosen.high, 1.1 * (chosen.high - chosen.low)]).all()
    assert chosen.low < chosen.high
    if chosen.name == "RdBu_r":
        assert chosen.low == -chosen.high
    for low, high in ((5.0, 5.0), (9.0, 1.0), (None, chosen.low), (chosen.high, None)):
        adjusted = chosen.adjusted("magma", low, high)
        assert adjusted.low < adjusted.high
        assert adjusted.name == "magma"


def of(name: str, about: str = "") -> Variable:
    return cdl.loads(f"netcdf d {{ variables: double {name}; {about} }}").variables[0]


@pytest.mark.parametrize(
    ("name", "about", "values", "colours", "limits"),
    [
        ("v", "", [0.0, 1, 2, 3], "viridis", (0, 3)),
        # Zero degrees Celsius is no middle, and an anomaly has one even where all its values are above.
        (
            "t",
            't:long_name = "air temperature"; t:units = "degC";',
            [-20, -3, 15, 18],
            "cmo.thermal",
            (-20, 18),
        ),
        ("t", 't:long_name = "temperature anomaly"; t:units = "K";', [0.5, 1, 2, 3], "RdBu_r", (-3, 3)),
        ("ua", 'ua:standard_name = "eastward_wind";', [-5.0, 1, 2, 10], "RdBu_r", (-10, 10)),
        (
            "w",
            'w:long_name = "wind direction"; w:units = "degree";',
            [10, 350, 180, 90],
            "cmo.phase",
            (0, 360),
        ),
        (
            "w",
            'w:standard_name = "sea_surface_wave_from_direction";',
            [-170, 30, 170, 0],
            "cmo.phase",
            (-180, 180),
        ),
        ("so", 'so:standard_name = "sea_water_salinity";', [33, 34, 35, 36], "cmo.haline", (33, 36)),
    ],
)
def test_colours_suit_the_subject(
    name: str, about: str, values: list[float], colours: str, limits: tuple[float, float]
) -> None:
    chosen = choose_colours(of(name, about), np.ma.array(values, dtype=float))
    assert (chosen.name, chosen.low, chosen.high) == (colours, *limits)
    assert chosen.name in MAPS
    assert len(chosen.palette) == 256


def test_one_value_does_not_spoil_the_colours_of_all_others() -> None:
    values = np.ma.array(np.linspace(0, 28, 1000), dtype=float)
    values[500] = 1e5
    chosen = choose_colours(of("t"), values)
    assert (chosen.low, chosen.high, chosen.beyond) == (*np.percentile(values, [2, 98]), "both")
    whole = choose_colours(of("t"), values, "whole")
    assert (whole.low, whole.high, whole.beyond) == (0, 1e5, "neither")
    # As in xarray's plot(robust=True).
    calm = choose_colours(of("t"), values[:500], "robust")
    assert (calm.low, calm.high, calm.beyond) == (*np.percentile(values[:500], [2, 98]), "both")
    assert choose_colours(of("t"), values[:500]).beyond == "neither"


def test_a_concentration_has_logarithmic_colours_and_zero_is_not_missing() -> None:
    pytest.importorskip("matplotlib")
    values = np.ma.array(np.geomspace(0.01, 30, 200).reshape(10, 20))
    chlorophyll = of("CHL", 'CHL:standard_name = "mass_concentration_of_chlorophyll_a_in_sea_water";')
    chosen = choose_colours(chlorophyll, values)
    assert (chosen.is_log, chosen.name, chosen.low, chosen.high) == (True, "cmo.algae", 0.01, 30)
    assert not choose_colours(chlorophyll, values, progression="linear").is_log
    assert choose_colours(of("v"), values, progression="log").is_log
    # A logarithm has no place for values below zero only, and begins above zero.
    assert not choose_colours(of("v"), -values, progression="log").is_log
    values[0, 0] = 0.0
    assert choose_colours(chlorophyll, values).low == values[0, 1]
    assert not chosen.adjusted(None, 0.0, None).is_log
    norm, colours = chosen.for_matplotlib()
    assert colours(norm(0.01)) == pytest.approx(colours(0))


def test_the_limits_of_a_level_are_those_of_its_steps() -> None:
    text = """netcdf d { dimensions: t = 2; z = 2; y = 2; x = 2; variables: double z(z); z:positive = "up";
      double v(t, z, y, x); data: z = 0, 1; v = 1, 2, 3, 4, 50, 60, 70, 80, 5, 6, 7, 8, 90, 91, 92, 93; }"""
    with OpenedDataset(cdl.loads(text)) as opened:
        drawer = Drawer(opened)
        for level, limits in (("0", (1, 8)), ("1", (50, 93))):
            spread = drawer.spread(drawer.draw(select(drawer.coordinates, "/v", {"z": level})), of_level=True)
            assert spread is not None
            assert (spread.range.low, spread.range.high, spread.count) == (*limits, 2)
        whole = drawer.spread(drawer.draw(select(drawer.coordinates, "/v", {})))
        assert whole is not None
        assert (whole.range.low, whole.range.high, whole.count) == (1, 93, 4)


@pytest.mark.parametrize(
    ("units", "calendar", "numbers", "names"),
    [
        ("days since 0009-07-16 22:00:07", "noleap", np.arange(0.0, 3650, 30), "0010 0012 0014 0016 0018"),
        (
            "days since 0001-01-01",
            "360_day",
            np.arange(360.0),
            "0001-02 0001-04 0001-06 0001-08 0001-10 0001-12",
        ),
        ("hours since 0001-01-01 02:30", "noleap", np.arange(0.0, 240, 6), None),
        (
            "months since 1850-01-01",
            "360_day",
            np.arange(100.0),
            "1850 1851 1852 1853 1854 1855 1856 1857 1858",
        ),
    ],
)
def test_ticks_of_model_calendars_are_round_dates(
    units: str, calendar: str, numbers: np.ndarray, names: str | None
) -> None:
    times = TimeLabels.parse(units, calendar)
    assert times is not None
    ticks = times.ticks(numbers)
    if names is not None:
        assert [name for _, name in ticks] == names.split()
    assert 3 <= len(ticks) <= 10
    for number, name in ticks:
        found = times._date(number + 1e-4 / 24)  # a second may be lost to the rounding of a double
        assert found.isoformat(sep=" ").startswith(name)
        assert numbers[0] <= number <= numbers[-1]


# -- coastlines and addresses


def test_a_file_of_coastlines_takes_the_place_of_those_of_the_world(tmp_path: Path) -> None:
    rings = [[[0, 10], [5, 10], [5, 12], [0, 10]]]
    shapes = {
        "line": {"type": "LineString", "coordinates": rings[0]},
        "polygon": {"type": "Polygon", "coordinates": rings},
        "many": {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [rings]}},
        "all": {
            "type": "FeatureCollection",
            "features": [
                {"type": "Feature", "geometry": {"type": "MultiLineString", "coordinates": rings}},
                {"type": "Feature", "geometry": None},
            ],
        },
        "collection": {
            "type": "GeometryCollection",
            "geometries": [{"type": "Polygon", "coordinates": rings}],
        },
    }
    for name, shape in shapes.items():
        path = tmp_path / f"{name}.geojson"
        path.write_text(json.dumps(shape))
        (line,) = read_coast(path)
        assert line.tolist() == rings[0]
    with OpenedDataset(cdl.loads(CURVILINEAR)) as opened:
        drawer = Drawer(opened, read_coast(path))
        picture = drawer.draw(select(drawer.coordinates, "/v", {}))
        assert isinstance(picture, Picture)
        assert [line.tolist() for line in picture.lines()[0][1]] == rings
    assert plot(cdl.loads(CURVILINEAR), "v", coast=path) != plot(cdl.loads(CURVILINEAR), "v")
    for text, problem in (
        ("[1]", "no lines can be read"),
        ('{"type": "Point"}', "there are no lines"),
        ("{", "no lines"),
    ):
        path.write_text(text)
        with pytest.raises(NCZarrError, match=problem):
            read_coast(path)
    for missing in ("missing.geojson", "missing.shp"):
        with pytest.raises(NCZarrError, match=r"missing.*(No such file|pyshp)"):
            read_coast(tmp_path / missing)


def test_a_shapefile_of_coastlines_is_read(tmp_path: Path) -> None:
    shapefile = pytest.importorskip("shapefile")
    with shapefile.Writer(str(tmp_path / "coast")) as writer:
        writer.field("name", "C")
        writer.poly([[[0, 10], [5, 12], [5, 10], [0, 10]], [[20, 0], [21, 1], [21, 0], [20, 0]]])
        writer.record("an island and another")
    assert [line.tolist()[0] for line in read_coast(tmp_path / "coast.shp")] == [[0, 10], [20, 0]]
    (tmp_path / "coast.shp").write_bytes(b"no shapes")
    with pytest.raises(NCZarrError, match="no lines can be read"):
        read_coast(tmp_path / "coast.shp")


def test_lines_of_a_projection_have_numbers_where_they_meet_the_sides() -> None:
    with OpenedDataset(cdl.loads(CURVILINEAR)) as opened:
        drawer = Drawer(opened)
        selection = replace(select(drawer.coordinates, "/v", {}), projection="Robinson")
        picture = drawer.draw(selection)
        assert isinstance(picture, Picture)
        plane, extent = picture.grid.plane, picture.extent
        assert plane is not None
        assert len(picture.x.names) >= 2 <= len(picture.y.names)
        for place, name in picture.y.names:
            (_, latitude) = plane.locate(np.array([extent.left]), np.array([place]))
            assert abs(latitude[0] - float(name[:-2])) < 0.2, name
        for place, name in picture.x.names:
            (longitude, _) = plane.locate(np.array([place]), np.array([extent.bottom]))
            assert abs(longitude[0] - float(name.rstrip("EW°"))) < 0.2, name


def test_coastlines_are_in_the_longitudes_of_the_map() -> None:
    japan = coastlines(Extent(125, 150, 30, 46))
    assert japan
    again = coastlines(Extent(125 - 360, 150 - 360, 30, 46))
    assert len(again) == len(japan)
    np.testing.assert_allclose(again[0][:, 0] + 360, japan[0][:, 0])


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
)


@given(
    st.builds(
        Address,
        variable=names.map("/{}".format),
        at=st.dictionaries(names, st.integers(0, 10**9), max_size=3),
        drawn=st.lists(names, max_size=2, unique=True).map(tuple),
        colours=st.sampled_from(["", "magma"]),
        low=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        high=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        place=st.lists(st.integers(0, 10**6), max_size=2).map(tuple),
    )
)
def test_an_address_keeps_all_of_the_state(address: Address) -> None:
    assert Address.from_search(address.to_search()) == address


@pytest.mark.slow
@given(st.text(max_size=80))
def test_any_address_is_read(text: str) -> None:
    Address.from_search("?" + text)
    with OpenedDataset(DATA / "example.nc") as opened:
        coordinates = Drawer(opened).coordinates
        address = Address.from_search(f"?variable=/ocean/temp&at=time=99&axes=lat,{text}&place=1")
        address.selection(coordinates)


def test_the_limits_of_all_steps_come_from_all_steps_of_a_small_variable() -> None:
    with OpenedDataset(cdl.loads(CURVILINEAR)) as opened:
        drawer = Drawer(opened)
        for step in ("0", "1"):
            drawing = drawer.draw(select(drawer.coordinates, "/v", {"t": step}))
            spread = drawer.spread(drawing)
            assert spread is not None
            assert (spread.range.low, spread.range.high, spread.range.least) == (1.0, 31.0, 1.0)
            assert (spread.read, spread.count, spread.is_whole) == (2, 2, True)
        line = drawer.draw(select(drawer.coordinates, "/v", {"t": "0", "y": "1"}))
        assert drawer.spread(line) is None


def test_the_limits_of_very_many_steps_come_from_a_sample_without_damaged_steps(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "many.zarr", "w") as ds:
        for name, size in (("t", 10**12), ("y", 2), ("x", 3)):
            ds.createDimension(name, size)
        v = ds.createVariable("v", "f4", ("t", "y", "x"), chunksizes=(1, 2, 3), compression="zstd")
        v[0], v[10**12 - 1], v[10**12 // 2] = -5, 7, 1
    (tmp_path / "many.zarr/v/c" / str(10**12 - 1) / "0/0").write_bytes(b"damaged")
    with OpenedDataset(tmp_path / "many.zarr") as opened:
        drawer = Drawer(opened)
        drawing = drawer.draw(select(drawer.coordinates, "/v", {"t": str(10**12 // 2)}))
        spread = drawer.spread(drawing)
        assert spread is not None
        assert (spread.range.low, spread.count, spread.is_whole) == (-5.0, 10**12, False)
        assert 1 <= spread.read < 100


@pytest.mark.slow
@pytest.mark.parametrize("limits", ["", "step", "nonsense"])
@given(
    colours=st.sampled_from(["viridis", "jet", "categories", "none", "x" * 70_000, "<script>", "\udcff"])
    | st.text(),
    numbers=st.lists(
        st.sampled_from(["", "nan", "-inf", "1e999", "9" * 5000, "0", "-3", "1e-320"]), min_size=2
    ),
    at=st.sampled_from(
        ["", "t=1", "t=99999999999999999", "t=-1", "=1", "%ff=2", "t=1,t=0", "9" * 5000 + "=1"]
    ),
    axes=st.sampled_from(["", "t", "t,t", "y,x", "x,t", "t,y,x", "nothing", "%00"]),
    place=st.sampled_from(["", "0,0", "9,9", "-1,0", "9" * 5000, "0", "0,0,0", "²,²"]),
    variable=st.sampled_from(["/v", "/lat", "/", "", "v", "//v", "/v/", "\\", "/nothing", "/v\x00"]),
)
def test_no_address_makes_the_viewer_fail(
    limits: str, colours: str, numbers: list[str], at: str, axes: str, place: str, variable: str
) -> None:
    query = {
        "variable": variable,
        "at": at,
        "axes": axes,
        "colours": colours,
        "limits": limits,
        "place": place,
    }
    query |= {"low": numbers[0], "high": numbers[1]}
    address = Address.from_search("?" + urlencode(query, errors="surrogateescape"))
    with OpenedDataset(cdl.loads(CURVILINEAR)) as opened:
        drawer = Drawer(opened)
        selection = address.selection(drawer.coordinates)
        if selection is None:
            return
        drawing = drawer.draw(selection)
        chosen = choose_colours(opened.variable(selection.fqn), drawing.sample)
        shown = chosen.adjusted(address.colours or None, address.low, address.high)
        assert len(shown.palette) == 256
        assert shown.low < shown.high
        if isinstance(drawing, Picture) and len(address.place) == len(selection.drawn):
            drawing.grid.place_of(address.place)
        assert Address.from_search(address.to_search()) == address

"""Test pictures of every shape of data: projections, meshes, swaths, tracks, profiles, stations, calendars, films."""

from __future__ import annotations

import io
import warnings
from dataclasses import replace
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import shapes
from PIL import Image

import nczarr
from nczarr import cdl
from nczarr.errors import NCZarrError
from nczarr.view import plot
from nczarr.view.coordinates import TimeLabels
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.details import python_html
from nczarr.view.page.state import Address
from nczarr.view.picture.colours import Colours, choose_colours
from nczarr.view.picture.drawer import Drawer, find_vector, with_overlay, zoomed
from nczarr.view.picture.drawings import Line, Picture
from nczarr.view.picture.figures import LineFigure
from nczarr.view.picture.grids import Extent, locate_points
from nczarr.view.picture.selection import first_selection, first_variable, select
from nczarr.view.planes import PROJECTIONS, Plane

pytest.importorskip("pyproj")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All shapes, as netCDF files."""
    path = tmp_path_factory.mktemp("shapes")
    for name in shapes.SHAPES:
        shapes.make(name, path, ".nc")
    return path


def first(opened: OpenedDataset, projection: str = "") -> tuple[Drawer, Picture]:
    drawer = Drawer(opened)
    fqn = first_variable(drawer.coordinates)
    assert fqn is not None
    picture = drawer.draw(replace(first_selection(drawer.coordinates, fqn), projection=projection))
    assert isinstance(picture, Picture)
    return drawer, picture


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_the_variable_first_shown_is_the_one_a_person_means(name: str, folder: Path) -> None:
    with OpenedDataset(folder / f"{name}.nc") as opened:
        assert first_variable(Drawer(opened).coordinates) == shapes.SHAPES[name][0]


def some_pixels(picture: Picture) -> list[tuple[int, int]]:
    high, wide = picture.pixels.shape
    return [(i, j) for i in range(0, high, max(high // 23, 1)) for j in range(0, wide, max(wide // 23, 1))]


def away(lat: np.ndarray, lon: np.ndarray, at_lat: float, at_lon: float) -> np.ndarray:
    """Degrees on the sphere."""
    a, b, d = np.radians(lat), np.radians(at_lat), np.radians(lon - at_lon)
    h = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(d / 2) ** 2
    return np.degrees(2 * np.arcsin(np.sqrt(np.clip(h, 0, 1))))


@pytest.mark.slow
@pytest.mark.parametrize("projection", ["", *PROJECTIONS])
@pytest.mark.parametrize(
    ("name", "places", "variable"),
    [
        ("ascat", ("lat", "lon"), "wind_speed"),
        ("jason", ("lat", "lon"), "swh_ku"),
        ("tempo", ("geolocation/latitude", "geolocation/longitude"), "product/vertical_column_troposphere"),
        ("dateline", ("nav_lat", "nav_lon"), "sossheig"),
        ("trajectory", ("lat", "lon"), "temperature"),
    ],
)
def test_each_pixel_of_a_swath_or_track_is_the_nearest_value(
    name: str, places: tuple[str, str], variable: str, projection: str, folder: Path
) -> None:
    with OpenedDataset(folder / f"{name}.nc") as opened, netCDF4.Dataset(folder / f"{name}.nc") as peer:
        picture = first(opened, projection)[1]
        lat, lon, values = (np.ma.asanyarray(peer[n][:]) for n in (*places, variable))
        at_lon, at_lat = picture.grid.places
        seen = 0
        for i, j in some_pixels(picture):
            cell = picture.grid.cells[i, j]
            if cell < 0:
                continue
            seen += 1
            distance = away(lat, lon, at_lat[i, j], at_lon[i, j]).reshape(-1)
            assert distance[cell] <= distance.min() + 1e-6
            if not np.ma.is_masked(values.reshape(-1)[cell]):
                assert picture.pixels[i, j] == values.reshape(-1)[cell]
        if projection != "south polar":
            assert seen > 3


@pytest.mark.slow
@pytest.mark.parametrize("projection", ["", *PROJECTIONS])
@pytest.mark.parametrize("name", ["lambert", "polar", "goes", "rotated", "climatology"])
def test_each_pixel_of_a_grid_is_the_cell_around_its_place(name: str, projection: str, folder: Path) -> None:
    from pyproj import CRS, Transformer

    with OpenedDataset(folder / f"{name}.nc") as opened, netCDF4.Dataset(folder / f"{name}.nc") as peer:
        picture = first(opened, projection)[1]
        v = peer[picture.selection.fqn]
        y, x = (np.asarray(peer[n][:]) for n in v.dimensions[-2:])
        lon, lat = picture.grid.places
        if "grid_mapping" in v.ncattrs():
            mapping = peer[v.grid_mapping]
            crs = CRS.from_cf({n: mapping.getncattr(n) for n in mapping.ncattrs()})
            unit = {"km": 1000, "rad": getattr(mapping, "perspective_point_height", 1)}.get(
                peer[v.dimensions[-1]].units, 1
            )
            u, w = Transformer.from_crs(crs.source_crs, crs, always_xy=True).transform(lon, lat)
            u, w = u / unit, w / unit
        else:
            u, w = lon % 360, lat
        values = v[:] if v.ndim == 2 else v[tuple(picture.selection.at[:2])]
        seen = 0
        for i, j in some_pixels(picture):
            if picture.grid.cells[i, j] < 0 or not np.isfinite(w[i, j]):
                continue
            seen += 1
            row, column = np.unravel_index(picture.grid.cells[i, j], picture.grid.shape)
            assert abs(y[row] - w[i, j]) <= np.abs(y - w[i, j]).min() + 1e-6 * abs(y[0])
            assert abs(x[column] - u[i, j]) <= np.abs(x - u[i, j]).min() + 1e-6 * abs(x[0]) + 1e-9
            assert picture.pixels[i, j] is np.ma.masked or picture.pixels[i, j] == values[row, column]
        if projection != "south polar":
            assert seen > 20


@pytest.mark.slow
@pytest.mark.parametrize("projection", ["", "orthographic", "Robinson"])
@pytest.mark.parametrize(("name", "variable"), [("ugrid", "/depth"), ("ugrid", "/eta"), ("fvcom", "/zeta")])
def test_a_mesh_is_drawn_as_its_polygons(name: str, variable: str, projection: str, folder: Path) -> None:
    from matplotlib.path import Path as Polygon

    with OpenedDataset(folder / f"{name}.nc") as opened, netCDF4.Dataset(folder / f"{name}.nc") as peer:
        drawer = Drawer(opened)
        selection = replace(first_selection(drawer.coordinates, variable), projection=projection)
        picture = drawer.draw(selection)
        assert isinstance(picture, Picture)
        faces = (peer["nv"][:].T if name == "fvcom" else peer["mesh2d_faces"][:]) - 1
        before = "" if name == "fvcom" else "mesh2d_"
        lon, lat = np.asarray(peer[f"{before}lon"][:]), np.asarray(peer[f"{before}lat"][:])
        inside = np.zeros(picture.pixels.shape, bool)
        at_lon, at_lat = picture.grid.places
        points = np.stack((at_lon.ravel(), at_lat.ravel()), axis=-1)
        values = peer[variable][:] if name == "ugrid" else peer[variable][0]
        for number, face in enumerate(faces[::7]):
            corners = np.stack((lon[face], lat[face]), axis=-1)
            sides = np.roll(corners, -1, axis=0) - corners
            if abs(sides[0, 0] * sides[1, 1] - sides[0, 1] * sides[1, 0]) < 0.004:
                continue  # too narrow for pixels that no other face touches
            within = corners.mean(axis=0) + 0.5 * (corners - corners.mean(axis=0))
            hit = Polygon(within).contains_points(points)
            hit = hit.reshape(inside.shape)
            inside |= hit
            # A pixel on the edge of a neighbour that is narrower than a pixel may belong to it.
            allowed = [number * 7] if variable == "/depth" else face
            assert not hit.any() or np.isin(picture.grid.cells[hit], allowed).mean() > 0.98
        assert inside.sum() > 1000
        # The bay has no values: nothing is drawn beyond the edge.
        bay = np.hypot((at_lon + 71) / 2 - 0.5, (at_lat - 41) / 2 - 0.9) < 0.2
        assert (picture.grid.cells[bay] == -1).all()
        assert picture.pixels[inside].count() > 0.999 * inside.sum()
        assert set(picture.pixels[inside].compressed().tolist()) <= set(np.asarray(values).tolist())


@pytest.mark.parametrize("location", ["face", "node"])
def test_a_part_of_a_large_mesh_is_drawn_as_polygons(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Squares of one degree, of which the first picture skips some and a zoomed one reads a part."""
    size = 21
    number = np.arange(size * size).reshape(size, size)
    corners = (number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1])
    faces = np.stack(corners, axis=-1).reshape(-1, 4)
    with nczarr.Dataset(tmp_path / "mesh.nc", "w") as ds:
        for name, length in (("node", number.size), ("face", len(faces)), ("corner", 4)):
            ds.createDimension(name, length)
        mesh = ds.createVariable("mesh", "i4")
        mesh.face_node_connectivity, mesh.node_coordinates = "faces", "lon lat"
        for name, units, places in (
            ("lon", "degrees_east", number % size),
            ("lat", "degrees_north", number // size),
        ):
            axis = ds.createVariable(name, "f8", ("node",))
            axis.units, axis[:] = units, places.ravel()
        ds.createVariable("faces", "i4", ("face", "corner"))[:] = faces
        v = ds.createVariable("v", "i4", (location,))
        v.mesh, v.location, v[:] = "mesh", location, np.arange(len(ds.dimensions[location]))
    monkeypatch.setattr("nczarr.view.picture.drawer._MOST_PLACES", 200)
    with OpenedDataset(tmp_path / "mesh.nc") as opened:
        drawer = Drawer(opened)
        overview = drawer.draw(first_selection(drawer.coordinates, "/v"))
        assert isinstance(overview, Picture)
        windows = zoomed(overview, Extent(5.0, 9.0, 5.0, 9.0))
        assert windows is not None
        assert windows[0][0] > 0
        part = drawer.draw(overview.selection, windows)
        assert isinstance(part, Picture)
        assert overview.steps > (1,) == part.steps
    for x, y in ((6.3, 6.3), (7.7, 6.2), (8.4, 7.8)):
        place = (int(y), int(x)) if location == "face" else (round(y), round(x))
        expected = place[0] * (size - (location == "face")) + place[1]
        assert part.grid.index_at(x, y) == (expected,)
        row, column = part.grid.pixel_of(x, y)
        assert part.pixels[int(row), int(column)] == expected


def test_the_search_for_the_nearest_point_ends_at_the_distance_of_neighbours() -> None:
    lat, lon = np.meshgrid(np.linspace(0, 5, 50), np.linspace(0, 5, 50))
    locate, spacing = locate_points(lat, lon)
    assert 0.09 < spacing < 0.2
    assert locate(np.array([2.5, 9.0, 180.0, np.nan]), np.array([2.5, 0.0, -60.0, 0.0]))[1:].tolist() == [
        -1,
        -1,
        -1,
    ]


def test_a_grid_mapping_that_contradicts_the_places_of_the_file_is_not_used() -> None:
    path = Path(__file__).parents[1] / "data/selection/netcdf/small_rotPole_precipitation.nc"
    with OpenedDataset(path) as opened:
        picture = first(opened)[1]
        assert picture.selection.geography is not None
        assert picture.selection.geography.kind == "points"
        assert picture.grid.index_at(
            float(opened.read("/lon", (90, 90))), float(opened.read("/lat", (90, 90)))
        ) == (90, 90)


def test_the_first_level_is_at_the_surface_and_year_0_is_a_date(folder: Path) -> None:
    with OpenedDataset(folder / "climatology.nc") as opened:
        picture = first(opened)[1]
        assert picture.where == "time = 0000-01-16, depth = -10 m"


LEVELS = """netcdf levels { dimensions: LEVEL = 3; y = 4; variables:
  double LEVEL(LEVEL); LEVEL:units = "UNITS"; ABOUT
  double y(y); y:units = "km"; float v(y, LEVEL); float w(LEVEL);
data: LEVEL = VALUES; y = 0, 1, 2, 3; w = 1, 2, 3; v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12; }"""


@pytest.mark.parametrize(
    ("name", "units", "about", "values", "surface", "is_down"),
    [
        ("level", "millibars", "", "200, 500, 850", 2, True),
        ("level", "hectopascal", "", "200, 500, 850", 2, True),
        ("p", "Pa", 'p:standard_name = "air_pressure";', "20000, 50000, 85000", 2, True),
        ("p", "dbar", "", "850, 500, 5", 2, True),
        ("p", "Pa", 'p:standard_name = "sea_water_pressure";', "0, 500, 900", 0, True),
        ("lev", "level", 'lev:standard_name = "atmosphere_hybrid_sigma_pressure_coordinate"; lev:positive = "down";',
         "3, 500, 992", 2, True),
        ("s", "1", 's:standard_name = "ocean_s_coordinate_g1"; s:positive = "up";', "-0.9, -0.5, -0.1", 2, False),
        ("z", "m", 'z:standard_name = "height";', "80, 10, 2", 2, False),
        ("z", "m", 'z:standard_name = "altitude";', "80, 10, 2", 2, False),
        ("z", "m", 'z:standard_name = "depth";', "80, 10, 2", 2, True),
        ("depth", "m", "", "80, 10, 2", 2, True),
        ("height", "m", "", "2, 10, 80", 0, False),
    ],
)  # fmt: skip
def test_sections_and_profiles_stand_upright_and_maps_begin_at_the_surface(
    name: str, units: str, about: str, values: str, surface: int, is_down: bool
) -> None:
    text = LEVELS.replace("LEVEL", name).replace("UNITS", units).replace("ABOUT", about)
    with OpenedDataset(cdl.loads(text.replace("VALUES", values))) as opened:
        drawer = Drawer(opened)
        section = drawer.draw(first_selection(drawer.coordinates, "/v"))
        assert isinstance(section, Picture)
        # The file has the levels as its last axis, along which rows of a page run.
        assert (section.selection.drawn, section.y.down) == ((1, 0), is_down)
        assert section.selection.at[1] == surface
        profile = drawer.draw(first_selection(drawer.coordinates, "/w"))
        assert isinstance(profile, Line)
        assert (profile.x.upright, profile.x.down) == (True, is_down)
        figure = LineFigure(
            profile, choose_colours(opened.variable("/w"), profile.sample), name="line"
        ).figure
        assert (figure.y_range.start > figure.y_range.end) == is_down
        assert figure.yaxis[0].axis_label == profile.x.label
        assert ("(1)" in profile.x.label, profile.x.label.startswith("w")) == (False, False)


def test_years_before_the_first_have_four_digits_and_a_sign() -> None:
    times = TimeLabels.parse("days since -0010-01-01", "noleap")
    assert times is not None
    assert times.label(365) == "-0009-01-01"


def test_a_profile_goes_down_and_stations_have_a_curve_each(folder: Path) -> None:
    with OpenedDataset(folder / "profile.nc") as opened, OpenedDataset(folder / "stations.nc") as ragged:
        drawer = Drawer(opened)
        line = drawer.draw(first_selection(drawer.coordinates, "/temperature"))
        assert isinstance(line, Line)
        assert (line.x.down, line.x.label) == (True, "depth (m)")
        drawer = Drawer(ragged)
        line = drawer.draw(first_selection(drawer.coordinates, "/level"))
        assert isinstance(line, Line)
        assert [(name, len(part)) for name, part, _ in line.curves] == [
            ("Helgoland", 40),
            ("Sylt", 25),
            ("Borkum", 60),
        ]
        assert line.x.kind == "date"


def test_an_empty_result_says_why(folder: Path) -> None:
    with OpenedDataset(folder / "empty.nc") as opened:
        drawer, picture = first(opened)
        assert "all values of this step are missing" in picture.notes[0]
        assert drawer.draw(picture.selection.moved(0, 1)).notes == ()
    with OpenedDataset(folder / "lambert.nc") as opened:
        assert "the map shows no value" in first(opened, "south polar")[1].notes[0]


def test_limits_of_a_quick_sample_are_refined(folder: Path) -> None:
    with (
        OpenedDataset(folder / "climatology.nc") as opened,
        netCDF4.Dataset(folder / "climatology.nc") as peer,
    ):
        drawer, picture = first(opened)
        quick = drawer.spread(picture, quick=True)
        whole = drawer.spread(picture)
        assert quick is not None
        assert whole is not None
        assert (quick.read, quick.is_refined, whole.read, whole.is_refined) == (3, False, 48, True)
        assert drawer.spread(picture, quick=True) == whole
        values = peer["theta"][:]
        assert (*whole.range[:2], whole.is_whole) == (values.min(), values.max(), True)
        assert values.min() <= quick.range.low <= quick.range.high <= values.max()


def test_contours_are_between_the_limits_and_arrows_point_along_the_flow(folder: Path) -> None:
    with OpenedDataset(folder / "climatology.nc") as opened:
        assert find_vector(opened, "/theta") == ("/uo", "/vo")
        assert find_vector(opened, "/lat") is None
        for projection in ("", "north polar", "Robinson"):
            drawer, picture = first(opened, projection)
            colours = Colours("viridis", float(picture.sample.min()), float(picture.sample.max()))
            contours = with_overlay(drawer, picture, ("contours",), colours)
            assert len(contours.overlay) > 3
            assert "contours at" in contours.notes[-1]
            arrows = with_overlay(drawer, picture, ("vectors",), colours).overlay
            assert len(arrows) > 50
            u, v = (
                opened.read(fqn, picture.selection.index((slice(None), slice(None))))
                for fqn in ("/uo", "/vo")
            )
            plane = picture.grid.plane or Plane()
            for arrow in arrows[::7]:
                middle = arrow[:2].mean(axis=0)
                index = picture.grid.index_at(*middle)
                assert index is not None
                (west, east), (south, north) = plane.locate(*arrow[:2].T)
                if abs(south) > 75 or abs(u[index]) + abs(v[index]) < 0.2:
                    continue
                along = ((east - west + 180) % 360 - 180) * np.cos(np.radians((south + north) / 2))
                angle = np.degrees(np.arctan2(north - south, along) - np.arctan2(v[index], u[index]))
                assert abs((angle + 180) % 360 - 180) < 12


@pytest.mark.slow
def test_a_film_has_a_frame_for_each_step(folder: Path, tmp_path: Path) -> None:
    data = plot(folder / "fvcom.nc", "zeta", tmp_path / "film.gif", dpi=40)
    assert (tmp_path / "film.gif").read_bytes() == data
    with Image.open(io.BytesIO(data)) as film:
        assert film.n_frames == 3
    with pytest.raises(NCZarrError, match="no steps of 'node'"):
        plot(folder / "fvcom.nc", "zeta", tmp_path / "film.gif", over="node")
    with pytest.raises(NCZarrError, match="one of plate carrée"):
        plot(folder / "fvcom.nc", "zeta", projection="mercator")


def test_an_mp4_is_written_by_ffmpeg_or_refused(folder: Path, tmp_path: Path) -> None:
    import shutil
    import subprocess

    if shutil.which("ffmpeg") is None:
        with pytest.raises(NCZarrError, match="an MP4 file needs ffmpeg"):
            plot(folder / "fvcom.nc", "zeta", tmp_path / "film.mp4", dpi=40)
        assert not list(tmp_path.iterdir())
        return
    plot(folder / "fvcom.nc", "zeta", tmp_path / "film.mp4", dpi=40)
    command = ["ffmpeg", "-i", str(tmp_path / "film.mp4"), "-f", "framemd5", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    frames = [line.split(",")[-1].strip() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(frames) == len(set(frames)) == 3


def test_the_python_line_draws_the_same_picture(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import html
    import re

    path = folder / "climatology.nc"
    with OpenedDataset(path) as opened:
        selection = first_selection(Drawer(opened).coordinates, "/theta").moved(0, 4)
        address = Address("/theta", colours="magma", low=270.0, high=300.0, projection="Robinson")
        text = html.unescape(re.sub("<.*?>", "", python_html(opened.names, selection, address)))
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    same = plot(
        path,
        "theta",
        at={"time": 4, "depth": 3},
        colours="magma",
        limits=(270.0, 300.0),
        projection="Robinson",
    )
    assert (tmp_path / "picture.png").read_bytes() == same


def test_several_datasets_are_groups_and_have_differences(folder: Path) -> None:
    with OpenedDataset([folder / "climatology.nc", folder / "enum.nc", folder / "climatology.nc"]) as opened:
        one, two = "/climatology.nc/theta", "/climatology.nc-2/uo"
        assert {one, two, "/enum.nc/cover"} <= set(opened.model.all_variables)
        fqn = opened.difference(one, two)
        drawer = Drawer(opened)
        selection = first_selection(drawer.coordinates, one).moved(0, 7)
        picture = drawer.draw(replace(selection, fqn=fqn))
        assert isinstance(picture, Picture)
        with netCDF4.Dataset(folder / "climatology.nc") as peer:
            expected = peer["theta"][7, 3].astype("f8") - peer["uo"][7, 3]
        np.testing.assert_allclose(picture.sample, expected)
        assert "difference of" in picture.title
        assert isinstance(drawer.draw(first_selection(drawer.coordinates, "/enum.nc/cover")), Picture)


@pytest.mark.parametrize(
    ("position", "index", "said"),
    [("0.0", 2, None), ("9.0", 3, "cell is at 10°N"), ("-95.", 0, "cell is at 90°S"), ("90.", 4, None)],
)
def test_a_value_selects_the_cell_that_contains_it(position: str, index: int, said: str | None) -> None:
    text = """netcdf d { dimensions: lat = 5; lon = 4; variables: double lat(lat); lat:units = "degrees_north";
      double lon(lon); lon:units = "degrees_east"; float v(lat, lon);
      data: lat = -90, -45, -3.55e-14, 10, 90; lon = 0, 90, 180, 270; }"""
    with OpenedDataset(cdl.loads(text)) as opened, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        coordinates = Drawer(opened).coordinates
        assert select(coordinates, "/v", {"lat": position}).at[0] == index
        assert [said in str(warning.message) for warning in told] == ([] if said is None else [True])
        assert select(coordinates, "/v", {"lon": "-90."}).at[1] == 3
        with pytest.raises(NCZarrError, match="lat has no value 500"):
            select(coordinates, "/v", {"lat": "500."})


def test_a_coast_is_seen_on_dark_colours() -> None:
    text = """netcdf d { dimensions: lat = 5; lon = 4; variables: double lat(lat); lat:units = "degrees_north";
      double lon(lon); lon:units = "degrees_east"; float v(lat, lon);
      data: lat = -80, -40, 0, 40, 80; lon = 0, 90, 180, 270;
      v = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0; }"""
    image = Image.open(io.BytesIO(plot(cdl.loads(text), "v", colours="gray", limits=(0, 1))))
    pixels = np.asarray(image.convert("L"))
    inside = pixels[pixels.shape[0] // 4 : pixels.shape[0] // 2, pixels.shape[1] // 4 : pixels.shape[1] // 2]
    assert (inside < 10).mean() > 0.5
    assert (inside > 100).mean() > 0.01

"""Write small realistic datasets of all shapes that Earth science has, for the gallery and the tests of the viewer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import nczarr

Maker = Callable[[nczarr.Dataset], None]


def _wave(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """A smooth field of a temperature on the globe."""
    x, y = np.radians(lon), np.radians(lat)
    return 288 + 25 * np.cos(2 * y) - 12 + 4 * np.sin(3 * x) * np.cos(y) ** 2


def _variable(
    ds: nczarr.Dataset, name: str, dims: tuple[str, ...], values: object, kind: str = "f4", **about: object
) -> None:
    fill = {"fill_value": about.pop("_FillValue")} if "_FillValue" in about else {}
    v = ds.createVariable(name, kind, dims, **fill)
    v.setncatts(about)
    v[...] = values


def _axis(ds: nczarr.Dataset, name: str, values: np.ndarray, **about: object) -> None:
    ds.createDimension(name, len(values))
    _variable(ds, name, (name,), values, "f8", **about)


_LAT = {"units": "degrees_north", "standard_name": "latitude"}
_LON = {"units": "degrees_east", "standard_name": "longitude"}


def ascat(ds: nczarr.Dataset) -> None:
    """A scatterometer's swath: packed places, longitudes to 360, no dimension coordinates (as ASCAT L2)."""
    rows, cells = 400, 42
    ds.createDimension("NUMROWS", rows)
    ds.createDimension("NUMCELLS", cells)
    along, across = np.meshgrid(np.linspace(-1.2, 1.2, rows), np.linspace(-0.04, 0.04, cells), indexing="ij")
    lat = np.degrees(np.arcsin(np.sin(along) * 0.98)) + 60 * across
    lon = (200 - np.degrees(along) * 0.3 + np.degrees(across) * 2 / np.cos(np.radians(lat)).clip(0.3)) % 360
    dims, where = ("NUMROWS", "NUMCELLS"), {"coordinates": "lon lat"}
    _variable(
        ds,
        "time",
        dims,
        np.broadcast_to(np.arange(rows)[:, None], (rows, cells)),
        "i4",
        units="seconds since 1990-01-01 00:00:00",
        **where,
    )
    for name, values, about in (("lat", lat, _LAT), ("lon", lon, _LON)):
        v = ds.createVariable(name, "i4", dims, fill_value=-2147483647)
        v.setncatts({**about, "scale_factor": 1e-5, "add_offset": 0.0})
        v[:] = values
    _variable(
        ds,
        "wvc_index",
        dims,
        np.broadcast_to(np.arange(cells), (rows, cells)),
        "i2",
        long_name="cross track wind vector cell number",
        units="1",
        **where,
    )
    speed = np.ma.masked_where(np.abs(across) < 0.012, 8 + 4 * np.sin(4 * along) + 20 * across)
    _variable(
        ds,
        "wind_speed",
        dims,
        speed,
        "f4",
        _FillValue=-999.0,
        long_name="wind speed at 10 m",
        standard_name="wind_speed",
        units="m s-1",
        **where,
    )


def jason(ds: nczarr.Dataset) -> None:
    """An altimeter's track of 1 Hz with 20 measurements for each second (as Jason-1)."""
    t = np.arange(900.0)
    ds.createDimension("time", t.size)
    ds.createDimension("meas_ind", 20)
    lat, lon = 66 * np.sin(t / 280), (150 + t * 0.06 + 20 * np.sin(t / 280)) % 360
    _variable(
        ds, "time", ("time",), t, "f8", units="seconds since 2000-01-01 00:00:00.0", standard_name="time"
    )
    _variable(ds, "lat", ("time",), lat, "f8", **_LAT)
    _variable(ds, "lon", ("time",), lon, "f8", **_LON)
    _variable(
        ds,
        "time_20hz",
        ("time", "meas_ind"),
        t[:, None] + np.arange(20) / 20,
        "f8",
        units="seconds since 2000-01-01 00:00:00.0",
    )
    _variable(
        ds,
        "surface_type",
        ("time",),
        np.zeros(900),
        "i1",
        flag_values=np.array([0, 1], "i1"),
        flag_meanings="ocean land",
        coordinates="lon lat",
    )
    swh = np.ma.masked_where((t > 300) & (t < 340), 2 + np.sin(t / 50) ** 2)
    _variable(
        ds,
        "swh_ku",
        ("time",),
        swh,
        "f4",
        _FillValue=9e9,
        long_name="Ku band significant waveheight",
        units="m",
        coordinates="lon lat",
    )


def lambert(ds: nczarr.Dataset) -> None:
    """A weather model on a Lambert conformal cone, in kilometres."""
    n = 60
    x = np.linspace(-900, 900, n)
    for name in "xy":
        _axis(ds, name, x, units="km", standard_name=f"projection_{name}_coordinate")
    _variable(
        ds,
        "lcc",
        (),
        0,
        "i4",
        grid_mapping_name="lambert_conformal_conic",
        standard_parallel=[50.0, 50.0],
        longitude_of_central_meridian=8.0,
        latitude_of_projection_origin=50.0,
    )
    values = 280 + 8 * np.cos(x[:, None] / 400) * np.sin(x / 300)
    _variable(ds, "t2m", ("y", "x"), values, long_name="2 metre temperature", units="K", grid_mapping="lcc")


def polar(ds: nczarr.Dataset) -> None:
    """Sea ice on a polar stereographic grid in metres."""
    n = 76
    x = np.linspace(-3850e3, 3750e3, n)
    _axis(ds, "x", x, units="m", standard_name="projection_x_coordinate")
    _axis(ds, "y", x[::-1], units="m", standard_name="projection_y_coordinate")
    _variable(
        ds,
        "crs",
        (),
        0,
        "i4",
        grid_mapping_name="polar_stereographic",
        straight_vertical_longitude_from_pole=-45.0,
        latitude_of_projection_origin=90.0,
        standard_parallel=70.0,
    )
    r = np.hypot(x[::-1][:, None], x)
    ice = np.ma.masked_where(r > 3.4e6, np.clip(1.3 - r / 2.6e6, 0, 1))
    _variable(
        ds,
        "siconc",
        ("y", "x"),
        ice,
        "f4",
        _FillValue=-1.0,
        standard_name="sea_ice_area_fraction",
        units="1",
        grid_mapping="crs",
    )


def goes(ds: nczarr.Dataset) -> None:
    """A geostationary scan: angles in radians."""
    n = 150
    angle = np.linspace(-0.1518, 0.1518, n)
    _axis(ds, "x", angle, units="rad", standard_name="projection_x_coordinate")
    _axis(ds, "y", angle[::-1], units="rad", standard_name="projection_y_coordinate")
    _variable(
        ds,
        "goes_imager_projection",
        (),
        0,
        "i4",
        grid_mapping_name="geostationary",
        perspective_point_height=35786023.0,
        semi_major_axis=6378137.0,
        semi_minor_axis=6356752.31414,
        latitude_of_projection_origin=0.0,
        longitude_of_projection_origin=-75.0,
        sweep_angle_axis="x",
    )
    r = np.hypot(angle[::-1][:, None], angle)
    cloud = np.ma.masked_where(r > 0.151, 250 + 40 * np.cos(angle * 60) * np.cos(angle[::-1][:, None] * 40))
    _variable(
        ds,
        "CMI",
        ("y", "x"),
        cloud,
        "f4",
        _FillValue=-1.0,
        long_name="ABI brightness temperature",
        units="K",
        grid_mapping="goes_imager_projection",
    )


def rotated(ds: nczarr.Dataset) -> None:
    """A regional climate model on a rotated pole."""
    _axis(ds, "rlat", np.linspace(-22, 22, 45), units="degrees", standard_name="grid_latitude")
    _axis(ds, "rlon", np.linspace(-28, 18, 47), units="degrees", standard_name="grid_longitude")
    _variable(
        ds,
        "rotated_pole",
        (),
        0,
        "i4",
        grid_mapping_name="rotated_latitude_longitude",
        grid_north_pole_latitude=39.25,
        grid_north_pole_longitude=-162.0,
    )
    y, x = np.meshgrid(np.linspace(-1, 1, 45), np.linspace(-1, 1, 47), indexing="ij")
    _variable(
        ds,
        "tas",
        ("rlat", "rlon"),
        285 - 12 * y + 3 * np.sin(6 * x),
        standard_name="air_temperature",
        units="K",
        grid_mapping="rotated_pole",
    )


def _mesh() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Longitudes, latitudes and triangles of a bay."""
    from scipy.spatial import Delaunay

    random = np.random.default_rng(3)
    points = random.uniform(0, 1, (500, 2))
    points = points[(np.hypot(points[:, 0] - 0.5, points[:, 1] - 0.9) > 0.28)]
    faces = Delaunay(points).simplices
    middle = points[faces].mean(axis=1)
    faces = faces[np.hypot(middle[:, 0] - 0.5, middle[:, 1] - 0.9) > 0.3]
    return -71 + 2 * points[:, 0], 41 + 2 * points[:, 1], faces


def ugrid(ds: nczarr.Dataset) -> None:
    """A mesh by the UGRID conventions, with values on faces and on nodes."""
    lon, lat, faces = _mesh()
    for name, size in (("nNodes", lon.size), ("nFaces", len(faces)), ("three", 3)):
        ds.createDimension(name, size)
    _variable(
        ds,
        "mesh2d",
        (),
        0,
        "i4",
        cf_role="mesh_topology",
        topology_dimension=2,
        node_coordinates="mesh2d_lon mesh2d_lat",
        face_node_connectivity="mesh2d_faces",
    )
    _variable(ds, "mesh2d_lon", ("nNodes",), lon, "f8", **_LON)
    _variable(ds, "mesh2d_lat", ("nNodes",), lat, "f8", **_LAT)
    _variable(
        ds,
        "mesh2d_faces",
        ("nFaces", "three"),
        faces + 1,
        "i4",
        cf_role="face_node_connectivity",
        start_index=1,
    )
    about = {"mesh": "mesh2d", "units": "m"}
    _variable(
        ds,
        "depth",
        ("nFaces",),
        lat[faces].mean(axis=1) * 10 - 400,
        long_name="depth of the sea floor",
        location="face",
        **about,
    )
    _variable(
        ds,
        "eta",
        ("nNodes",),
        np.sin(lon * 5) * np.cos(lat * 4),
        long_name="surface elevation",
        location="node",
        **about,
    )


def fvcom(ds: nczarr.Dataset) -> None:
    """A mesh as FVCOM writes it, with times."""
    lon, lat, faces = _mesh()
    for name, size in (("node", lon.size), ("nele", len(faces)), ("three", 3), ("time", 3)):
        ds.createDimension(name, size)
    _variable(
        ds,
        "time",
        ("time",),
        59000 + np.arange(3) / 24,
        "f8",
        units="days since 1858-11-17 00:00:00",
        calendar="standard",
    )
    _variable(ds, "lon", ("node",), lon, "f8", **_LON)
    _variable(ds, "lat", ("node",), lat, "f8", **_LAT)
    _variable(ds, "nv", ("three", "nele"), faces.T + 1, "i4", long_name="nodes surrounding element")
    zeta = np.stack([np.sin(lon * 3 + k) for k in range(3)])
    _variable(
        ds,
        "zeta",
        ("time", "node"),
        zeta,
        long_name="Water Surface Elevation",
        units="meters",
        coordinates="time lat lon",
    )


def tempo(ds: nczarr.Dataset) -> None:
    """A swath whose places are in a group beside that of the data (as TEMPO)."""
    ds.createDimension("mirror_step", 120)
    ds.createDimension("xtrack", 100)
    place, product = ds.createGroup("geolocation"), ds.createGroup("product")
    step, track = np.meshgrid(np.linspace(0, 1, 120), np.linspace(0, 1, 100), indexing="ij")
    lat, lon = 20 + 38 * track, -125 + 55 * step * (1 + 0.15 * track) - 12 * track
    dims = ("mirror_step", "xtrack")
    _variable(place, "latitude", dims, lat, **_LAT)
    _variable(place, "longitude", dims, lon, **_LON)
    _variable(
        product,
        "main_data_quality_flag",
        dims,
        np.zeros((120, 100)),
        "i2",
        long_name="main data quality flag",
    )
    _variable(
        product,
        "vertical_column_troposphere",
        dims,
        3e15 * (1 + np.sin(9 * step) * np.cos(7 * track)),
        "f8",
        long_name="nitrogen dioxide column",
        units="molecules/cm^2",
    )


def trajectory(ds: nczarr.Dataset) -> None:
    """A glider's track."""
    n = 300
    ds.featureType = "trajectory"
    ds.createDimension("obs", n)
    t = np.arange(float(n))
    _variable(ds, "time", ("obs",), t, "f8", units="hours since 2013-08-24", standard_name="time")
    _variable(ds, "lat", ("obs",), 39 + np.sin(t / 40), "f8", **_LAT)
    _variable(ds, "lon", ("obs",), -74 + t / 100, "f8", **_LON)
    _variable(
        ds,
        "depth",
        ("obs",),
        50 + 50 * np.sin(t / 3),
        "f8",
        units="m",
        positive="down",
        standard_name="depth",
    )
    _variable(
        ds,
        "temperature",
        ("obs",),
        20 - t / 40 + np.sin(t / 9),
        units="degree_Celsius",
        standard_name="sea_water_temperature",
        coordinates="time lat lon depth",
    )


def profile(ds: nczarr.Dataset) -> None:
    """A profile of the ocean against depth."""
    z = np.concatenate((np.arange(0, 100, 5.0), np.arange(100, 1500, 50.0)))
    ds.featureType = "profile"
    _axis(ds, "z", z, units="m", positive="down", standard_name="depth", axis="Z")
    _variable(
        ds,
        "temperature",
        ("z",),
        4 + 16 * np.exp(-z / 200),
        units="degree_Celsius",
        standard_name="sea_water_temperature",
        coordinates="z",
    )


def stations(ds: nczarr.Dataset) -> None:
    """Series of three stations in one ragged array."""
    ds.featureType = "timeSeries"
    counts = [40, 25, 60]
    ds.createDimension("station", 3)
    ds.createDimension("obs", sum(counts))
    names = ds.createVariable("station_name", str, ("station",))
    names.cf_role = "timeseries_id"
    names[:] = np.array(["Helgoland", "Sylt", "Borkum"], object)
    _variable(ds, "lat", ("station",), [54.2, 54.9, 53.6], "f8", **_LAT)
    _variable(ds, "lon", ("station",), [7.9, 8.3, 6.7], "f8", **_LON)
    _variable(ds, "row_size", ("station",), counts, "i4", sample_dimension="obs")
    t = np.concatenate([np.arange(float(n)) for n in counts])
    _variable(ds, "time", ("obs",), t, "f8", units="hours since 2020-01-01", standard_name="time")
    _variable(
        ds,
        "level",
        ("obs",),
        np.sin(t / 2) + np.repeat([0, 2, 4], counts),
        units="m",
        long_name="water level",
        coordinates="time lat lon",
    )


def climatology(ds: nczarr.Dataset) -> None:
    """Months of a year 0, levels up to the surface, u and v."""
    _axis(ds, "time", np.arange(12) * 30.4 + 15, units="days since 0000-01-01 00:00:00", standard_name="time")
    _axis(ds, "depth", np.array([-5000.0, -1000, -100, -10]), units="m", positive="up", axis="Z")
    lat, lon = np.linspace(-87.5, 87.5, 36), np.linspace(2.5, 357.5, 72)
    _axis(ds, "lat", lat, **_LAT)
    _axis(ds, "lon", lon, **_LON)
    x, y = np.meshgrid(lon, lat)
    season = np.cos(np.radians(np.arange(12) * 30))[:, None, None, None]
    level = np.array([0.0, 0.2, 0.7, 1.0])[None, :, None, None]
    dims = ("time", "depth", "lat", "lon")
    _variable(
        ds,
        "theta",
        dims,
        275 + (_wave(x, y) - 275 + 3 * season) * level,
        standard_name="sea_water_potential_temperature",
        units="K",
    )
    _variable(
        ds,
        "uo",
        dims,
        np.cos(np.radians(3 * y)) * level + 0 * x + 0 * season,
        standard_name="eastward_sea_water_velocity",
        units="m s-1",
    )
    _variable(
        ds,
        "vo",
        dims,
        0.3 * np.sin(np.radians(2 * x)) * np.cos(np.radians(y)) * level + 0 * season,
        standard_name="northward_sea_water_velocity",
        units="m s-1",
    )


def noleap(ds: nczarr.Dataset) -> None:
    """A climate model's series in a calendar without leap years."""
    t = np.arange(0, 3650, 30.0)
    _axis(ds, "time", t, units="days since 1850-01-01", calendar="noleap", standard_name="time")
    _variable(
        ds, "tas", ("time",), 287 + np.sin(t / 58) + t / 4000, standard_name="air_temperature", units="K"
    )


def hovmoller(ds: nczarr.Dataset) -> None:
    """Time by longitude, without latitudes."""
    _axis(ds, "time", np.arange(200.0), units="days since 2015-01-01", standard_name="time")
    lon = np.linspace(0, 357, 120)
    _axis(ds, "lon", lon, **_LON)
    _variable(
        ds,
        "olr",
        ("time", "lon"),
        240 + 30 * np.cos(np.radians(2 * lon) - np.arange(200)[:, None] / 8),
        long_name="outgoing longwave radiation anomaly",
        units="W m-2",
    )


def enum(ds: nczarr.Dataset) -> None:
    """Names for values, on a map."""
    kinds = ds.createEnumType("u1", "cover_t", {"water": 0, "forest": 1, "desert": 2, "ice": 3})
    lat, lon = np.linspace(-85, 85, 35), np.linspace(-175, 175, 71)
    _axis(ds, "lat", lat, **_LAT)
    _axis(ds, "lon", lon, **_LON)
    v = ds.createVariable("cover", kinds, ("lat", "lon"))
    v.long_name = "land cover"
    x, y = np.meshgrid(lon, lat)
    v[:] = np.where(
        abs(y) > 65, 3, np.where(np.sin(np.radians(3 * x)) > 0.3, np.where(abs(y) < 30, 2, 1), 0)
    ).astype("u1")


def dateline(ds: nczarr.Dataset) -> None:
    """A curvilinear grid across the date line."""
    ds.createDimension("j", 60)
    ds.createDimension("i", 80)
    x, y = np.meshgrid(np.linspace(150, 220, 80), np.linspace(40, 66, 60))
    lon, lat = (x + 6 * np.sin(np.radians(4 * y)) + 180) % 360 - 180, y + 4 * np.sin(np.radians(5 * x))
    _variable(ds, "nav_lat", ("j", "i"), lat, **_LAT)
    _variable(ds, "nav_lon", ("j", "i"), lon, **_LON)
    _variable(
        ds,
        "sossheig",
        ("j", "i"),
        np.sin(np.radians(9 * x)) * np.cos(np.radians(8 * y)),
        standard_name="sea_surface_height_above_geoid",
        units="m",
        coordinates="nav_lat nav_lon",
    )


def empty(ds: nczarr.Dataset) -> None:
    """A map whose first step has no values."""
    _axis(ds, "time", np.arange(2.0), units="days since 2000-01-01")
    _axis(ds, "lat", np.linspace(-80, 80, 9), **_LAT)
    _axis(ds, "lon", np.linspace(0, 340, 18), **_LON)
    values = np.ma.masked_all((2, 9, 18))
    values[1] = 5
    _variable(ds, "v", ("time", "lat", "lon"), values, "f4", _FillValue=-1.0, units="1")


#: The variable to show first, and the maker, by name.
SHAPES: dict[str, tuple[str, Maker]] = {
    "ascat": ("/wind_speed", ascat),
    "jason": ("/swh_ku", jason),
    "lambert": ("/t2m", lambert),
    "polar": ("/siconc", polar),
    "goes": ("/CMI", goes),
    "rotated": ("/tas", rotated),
    "ugrid": ("/depth", ugrid),
    "fvcom": ("/zeta", fvcom),
    "tempo": ("/product/vertical_column_troposphere", tempo),
    "trajectory": ("/temperature", trajectory),
    "profile": ("/temperature", profile),
    "stations": ("/level", stations),
    "climatology": ("/theta", climatology),
    "noleap": ("/tas", noleap),
    "hovmoller": ("/olr", hovmoller),
    "enum": ("/cover", enum),
    "dateline": ("/sossheig", dateline),
    "empty": ("/v", empty),
}


def make(name: str, folder: Path, suffix: str = ".zarr") -> Path:
    """Write a dataset, and return its path."""
    path = folder / f"{name}{suffix}"
    with nczarr.Dataset(path, "w") as ds:
        SHAPES[name][1](ds)
    return path

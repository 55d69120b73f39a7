"""Make the pictures of the viewer and of notebooks under ``docs/images``. Needs the extra ``test``, and Chromium."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

HERE = Path(__file__).parent
IMAGES = HERE / "images"
SIZE = (1360, 1420)


def make_ocean(path: Path) -> None:
    """Write a small ocean that looks like one: from formulas and the coastlines."""
    import numpy as np
    from matplotlib.path import Path as Polygon

    import nczarr
    from nczarr.view.picture.grids import Extent
    from nczarr.view.picture.map_lines import coastlines

    lat, lon = np.arange(-89.0, 90, 2), np.arange(-179.0, 180, 2)
    x, y = np.meshgrid(lon, lat)
    points = np.stack((x.ravel(), y.ravel()), axis=1)
    land = np.zeros(x.size, bool)
    for line in coastlines(Extent(-180, 180, -90, 90)):
        if abs(line[:, 0]).max() <= 180:
            ring = line
            if line[:, 1].min() < -83:  # Antarctica: around the pole
                ring = np.concatenate((line, [[line[-1, 0], -90], [line[0, 0], -90]]))
            land ^= Polygon(ring).contains_points(points)
    land = land.reshape(x.shape) | (y < -82)
    random = np.random.default_rng(1)
    waves = [(random.normal(size=4), random.integers(1, 7, 2)) for _ in range(40)]

    def weather(step: float) -> np.ndarray:
        field = np.zeros_like(x)
        for (a, b, c, d), (m, n) in waves:
            field += (
                a * np.cos(np.radians(m * x) + 3 * b + 0.5 * step * c) * np.cos(np.radians(2 * n * y) + 3 * d)
            )
        return field / 6

    depth = np.array([0.0, 10, 50, 200, 1000])
    with nczarr.Dataset(path, "w") as ds:
        ds.title, ds.Conventions = "An ocean from formulas", "CF-1.11"
        for name, size in (("time", None), ("depth", 5), ("lat", lat.size), ("lon", lon.size)):
            ds.createDimension(name, size)
        t = ds.createVariable("time", "f8", ("time",))
        t.setncatts({"standard_name": "time", "units": "days since 2024-01-01", "calendar": "standard"})
        for name, values, units, standard in (
            ("lat", lat, "degrees_north", "latitude"),
            ("lon", lon, "degrees_east", "longitude"),
        ):
            v = ds.createVariable(name, "f4", (name,))
            v.setncatts({"units": units, "standard_name": standard})
            v[:] = values
        v = ds.createVariable("depth", "f4", ("depth",))
        v.setncatts({"units": "m", "positive": "down", "standard_name": "depth", "axis": "Z"})
        v[:] = depth
        ocean = ds.createGroup("ocean")
        options = {"chunksizes": (1, 1, 45, 90), "compression": "zstd", "fill_value": -32768}
        temp = ocean.createVariable("temp", "i2", ("time", "depth", "lat", "lon"), **options)
        temp.setncatts(
            {
                "standard_name": "sea_water_potential_temperature",
                "units": "degree_Celsius",
                "scale_factor": 0.002,
                "add_offset": 10.0,
            }
        )
        current = ocean.createVariable(
            "u", "f4", ("time", "lat", "lon"), chunksizes=(1, 45, 90), compression="zstd", fill_value=1e20
        )
        current.setncatts({"standard_name": "eastward_sea_water_velocity", "units": "m s-1"})
        kinds = ds.createEnumType("i1", "surface_t", {"ocean": 0, "sea ice": 1, "land": 2, "ice sheet": 3})
        surface = ds.createVariable("surface", kinds, ("lat", "lon"))
        surface.long_name = "what covers the surface"
        for step in range(12):
            t[step] = 15 + step * 30.4
            season = 5 * np.cos(np.radians(step * 30 - 30)) * np.sin(np.radians(y)) * -1
            top = 29 * np.cos(np.radians(y)) ** 1.5 + season + 1.5 * weather(step) - 1
            for level, d in enumerate(depth):
                mixed = 2 + (top - 2) * np.exp(-d / 300)
                temp[step, level] = np.ma.masked_where(land, np.maximum(mixed, -1.8))
            current[step] = np.ma.masked_where(land, 0.5 * weather(step + 3) * np.cos(np.radians(y)))
        kind = np.where(land, 2, 0)
        kind = np.where(~land & (abs(y) > 72), 1, kind)
        kind = np.where(land & ((y < -65) | ((y > 62) & (x > -55) & (x < -20))), 3, kind)
        surface[:] = kind


def main() -> None:
    """Make all pictures."""
    sys.path.insert(0, str(HERE.parent / "tests" / "helpers"))
    import browser as browsers

    import nczarr
    from nczarr.view import serve

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ocean.zarr")
        make_ocean(path)
        draw_gallery(Path(folder))
        with browsers.start_browser(Path(folder, "profile"), SIZE) as browser:
            with serve(path, open_browser=False) as page:
                browser.open(page.url + "?variable=/ocean/temp&at=time=7&place=50,75")
                browser.wait(lambda: browser.has_figure("series time"))
                save(browser, "view.png")
                browser.driver.set_window_size(1360, 1120)
                browser.open(page.url + "?variable=/ocean/u&at=time=2")
                browser.wait(lambda: browser.has_figure("picture"))
                toggle(browser)
                save(browser, "view-dark.png")
            with nczarr.Dataset(path) as ds:
                html = ds._repr_html_()
            notebook = Path(folder, "notebook.html")
            notebook.write_text(f'<!doctype html><meta charset="utf-8"><body>{html}</body>', encoding="utf-8")
            browser.driver.set_window_size(900, 900)
            browser.driver.get(notebook.as_uri())
            browser.driver.execute_script(
                "[...document.querySelectorAll('details.nz-array')].filter("
                "(e) => e.querySelector('.nz-name').textContent == 'temp').forEach((e) => { e.open = true; });"
            )
            save(browser, "notebook.png")
            shoot_front_page(browser, Path(folder))


def draw_gallery(folder: Path) -> None:
    """Run the commands of the gallery, and keep the pictures that they make, with few colours."""
    from PIL import Image

    shutil.copy(HERE.parent / "tests/data/selection/netcdf/small_rotPole_precipitation.nc", folder)
    for command in re.findall(
        r"^\$ (nczarr plot .*)$", (HERE / "gallery.md").read_text("utf-8"), re.MULTILINE
    ):
        words = shlex.split(command)
        subprocess.run([sys.executable, "-m", "nczarr", *words[1:]], cwd=folder, check=True)
        name = words[words.index("-o") + 1]
        with Image.open(folder / name) as image:
            _keep(image, name)


def shoot_front_page(browser: object, folder: Path) -> None:
    """Build the documentation, and keep its front page as it is seen on a screen and on a phone."""
    from PIL import Image

    subprocess.run(["sphinx-build", "-q", "-b", "html", str(HERE), str(folder / "html")], check=True)
    driver = browser.driver  # type: ignore[attr-defined]
    for name, width, height, is_phone in (("wide", 1360, 1500, False), ("phone", 390, 844, True)):
        size = {"width": width, "height": height, "deviceScaleFactor": 1 + is_phone, "mobile": is_phone}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get((folder / "html" / "index.html").as_uri())
        time.sleep(2)
        with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as image:
            _keep(image, f"front-{name}.png")


def toggle(browser: object) -> None:
    """Change to the dark theme."""
    buttons = browser.find("header button")  # type: ignore[attr-defined]
    buttons[-1].click()


def save(browser: object, name: str) -> None:
    """Keep what the window shows, once nothing moves there any more."""
    from PIL import Image

    shot, before = b"", b"none"
    while shot != before:
        time.sleep(4)
        before, shot = shot, browser.driver.get_screenshot_as_png()  # type: ignore[attr-defined]
    with Image.open(io.BytesIO(shot)) as image:
        _keep(image, name)


def _keep(image: Image, name: str) -> None:
    """Write a picture with few colours: the file is a third as large, and looks the same."""
    few = image.convert("RGB").quantize(256, dither=0)  # no dithering: text stays sharp
    few.save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main()

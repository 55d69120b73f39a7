"""Test the viewer in a real browser: search, sliders, clicks, pixels, files, links, console, network."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import browser as browsers
import netCDF4
import numpy as np
import pytest
import shapes

import nczarr
from nczarr.view import serve
from nczarr.view.picture.colours import MISSING, palette
from nczarr.view.planes import PROJECTIONS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(browsers.missing_programs()),
        reason=f"no browser: apt-get install chromium chromium-driver ({browsers.missing_programs()})",
    ),
]

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = DATA / "example.nc"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    pytest.importorskip("selenium")
    with browsers.start_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(autouse=True)
def no_errors(browser: browsers.Browser) -> Iterator[None]:
    browser.errors()
    browser.addresses()
    yield
    assert browser.errors() == []
    elsewhere = {url for url in browser.addresses() if urlsplit(url).hostname != "127.0.0.1"}
    assert not elsewhere, "the page needs a network"


@pytest.fixture(params=["netCDF", "Zarr"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "netCDF":
        return EXAMPLE
    nczarr.copy(EXAMPLE, tmp_path / "example.zarr")
    return tmp_path / "example.zarr"


def search(browser: browsers.Browser, words: str) -> None:
    """Type into the search."""
    from selenium.webdriver.common.keys import Keys

    def enter() -> bool:
        field = browser.find("input[placeholder^='name, long']")[0]
        field.send_keys(Keys.BACKSPACE * 40)
        field.send_keys(words)
        return True

    browser.wait(enter)


def click(browser: browsers.Browser, selector: str, is_wanted: Callable[[str], bool]) -> None:
    """Click at the first element with such a text. The page may replace the element meanwhile: then once more."""

    def find_and_click() -> bool:
        found = [element for element in browser.find(selector) if is_wanted(element.text)]
        if found:
            found[0].click()
        return bool(found)

    browser.wait(find_and_click)


def hexadecimal(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def near(first: str, second: str) -> bool:
    """True if two colours are the same to the eye: a browser may round by one."""
    return all(abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) <= 6 for i in (1, 3, 5))


def test_the_whole_way(browser: browsers.Browser, example: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    with serve(example, open_browser=False) as page, nczarr.Dataset(example) as api:
        browser.open(page.url)

        # Find a variable by its standard name.
        search(browser, "salinity")
        browser.wait(lambda: not any("slp" in e.text for e in browser.find("[role=treeitem]")))
        click(browser, "[role=treeitem]", lambda text: "salt" in text and "ocean" not in text)
        browser.wait(lambda: "/ocean/salt" in browser.text())
        search(browser, "potential temp")
        click(browser, "[role=treeitem]", lambda text: "temp" in text and "ocean" not in text)
        browser.wait(lambda: "/ocean/temp" in browser.text() and browser.has_figure("picture"))

        # Move the slider of time by two steps: the date is decoded, the picture follows.
        slider = browser.wait(
            lambda: [e for e in browser.find("input[type=range]") if "time" in e.accessible_name]
        )[0]
        slider.send_keys(Keys.ARROW_RIGHT)
        slider.send_keys(Keys.ARROW_RIGHT)
        browser.wait(lambda: "time = 2020-03-16 12:00" in browser.title_of("picture"))
        assert "at=time%3D2" in browser.driver.current_url

        # The colours are those of the values, and what is missing is missing.
        values = api["/ocean/temp"][2, 0]
        lat, lon = api["lat"][:], api["lon"][:]
        low, high = api["/ocean/temp"][:].min(), api["/ocean/temp"][:].max()
        colours = palette("cmo.thermal")
        shot = browser.pixels()
        seen_missing = 0
        for row in range(1, 17):
            for column in range(0, 36, 5):
                # Away from coastlines: an edge of the cell that no line crosses would be hard to find, so try some.
                offsets = (-3, -1.5, 0, 1.5, 3)
                places = [(lon[column] + dx, lat[row] + dy) for dx in offsets for dy in offsets]
                pixels = browser.places("picture", places)
                found = [hexadecimal(tuple(shot[int(top), int(left)])) for left, top in pixels]
                if np.ma.is_masked(values[row, column]):
                    seen_missing += 1
                    wanted = MISSING
                else:
                    part = (values[row, column] - low) / (high - low)
                    wanted = colours[min(int(part * 256), 255)]
                assert sum(near(colour, wanted) for colour in found) >= 8, (row, column, wanted, found)
        assert seen_missing > 3

        # A click gives the time series there, and the profile.
        browser.click("picture", 65.0, 35.0)
        browser.wait(lambda: browser.has_figure("series time") and browser.has_figure("series depth"))
        i, j = 12, 6
        assert (float(lat[i]), float(lon[j])) == (35.0, 65.0)
        series = browser.column("series time", "value")
        np.testing.assert_allclose(series, api["/ocean/temp"][:, 0, i, j].filled(math.nan), rtol=1e-12)
        np.testing.assert_allclose(
            browser.column("series depth", "value"),
            api["/ocean/temp"][2, :, i, j].filled(math.nan),
            rtol=1e-12,
        )
        assert browser.column("series time", "label")[2] == "2020-03-16 12:00"
        assert browser.column("series depth", "place") == [float(d) for d in api["/ocean/depth"][:]]

        # The link shows it all again.
        link = browser.driver.current_url
        browser.driver.get("about:blank")
        browser.open(link)
        browser.wait(lambda: browser.has_figure("series time"))
        browser.wait(lambda: "time = 2020-03-16 12:00" in browser.title_of("picture"))
        assert browser.column("series time", "value") == series


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose step k has the values from 100 k to 100 k + k + 1."""
    path = tmp_path_factory.mktemp("steps") / "steps.zarr"
    with nczarr.Dataset(path, "w") as ds:
        for name, size in (("time", 6), ("lat", 4), ("lon", 8)):
            ds.createDimension(name, size)
        for name, units, values in (
            ("time", "days since 2001-01-15", 30.4 * np.arange(6)),
            ("lat", "degrees_north", np.linspace(-60, 60, 4)),
            ("lon", "degrees_east", np.linspace(-150, 150, 8)),
        ):
            axis = ds.createVariable(name, "f8", (name,))
            axis.units = units
            axis[:] = values
        v = ds.createVariable("v", "f8", ("time", "lat", "lon"), chunksizes=(1, 4, 8))
        for k in range(6):
            v[k] = 100 * k + np.linspace(0, k + 1, 32).reshape(4, 8)
        line = ds.createVariable("w", "f8", ("time", "lon"))
        line[:] = np.arange(48).reshape(6, 8)
    return path


def pixels_of(browser: browsers.Browser, figure: str) -> np.ndarray:
    """The pixels of a figure without its tools, which have more or less room when the page is made."""
    pixels = browser.figure_pixels(figure).copy()
    pixels[:34, pixels.shape[1] // 2 :] = 0
    return pixels


def drawn(browser: browsers.Browser, figure: str) -> np.ndarray:
    """The pixels of a figure, as soon as they no longer change."""
    before = pixels_of(browser, figure)

    def is_still() -> bool:
        nonlocal before
        last, before = before, pixels_of(browser, figure)
        return last.shape == before.shape and bool((last == before).all())

    browser.wait(is_still)
    return before


@pytest.mark.parametrize("query", ["?variable=/v", "?variable=/v&limits=step", "?variable=/w&axes=lon"])
def test_a_step_chosen_by_the_slider_is_drawn_as_one_opened_by_its_link(
    query: str, browser: browsers.Browser, steps: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    figure = "line" if "axes" in query else "picture"

    def open_at(index: int) -> np.ndarray:
        browser.driver.get("about:blank")
        browser.open(f"{page.url}{query}&at=time%3D{index}")
        browser.wait(lambda: browser.has_figure(figure))
        return drawn(browser, figure)

    with serve(steps, open_browser=False) as page:
        expected = {index: open_at(index) for index in (3, 5, 0)}
        titles = {index: pixels[:28] for index, pixels in expected.items()}
        assert not (titles[0] == titles[3]).all(), "the title is not where this test looks for it"
        slider = browser.wait(lambda: browser.find("input[type=range]"))[0]
        for index, key in ((3, Keys.ARROW_RIGHT), (5, Keys.ARROW_RIGHT), (3, Keys.ARROW_LEFT)):
            at = int(slider.get_attribute("value"))
            slider.send_keys(key * abs(index - at))
            browser.wait(lambda index=index: f"time%3D{index}" in browser.driver.current_url)
            # The same pixels: title, image or line, colour bar with its numbers.
            browser.wait(lambda index=index: np.array_equal(pixels_of(browser, figure), expected[index]))


_WATCH = """
window.seen = [];
const view = [...Bokeh.index.query((v) => v.model.name == 'picture')][0];
const image = view.model.renderers.filter((r) => r.glyph.type == 'Image')[0];
const mapper = image.glyph.color_mapper;
const look = () => {
  const data = image.data_source.data;
  const values = Array.from((data.get ? data.get('image') : data.image)[0]);
  const where = (data.get ? data.get('where') : data.where)[0];
  seen.push([Math.min(...values), mapper.low, mapper.high, view.model.title.text, where].join('|'));
};
const soon = () => Promise.resolve().then(look);
for (const model of [image.data_source, mapper, view.model.title]) model.change.connect(soon);
image.data_source.properties.data.change.connect(soon);
mapper.properties.low.change.connect(soon);
mapper.properties.high.change.connect(soon);
const frame = () => { look(); requestAnimationFrame(frame); };
requestAnimationFrame(frame);
"""


@pytest.mark.parametrize("query", ["?variable=/v", "?variable=/v&limits=step"])
def test_while_steps_play_the_picture_its_limits_and_its_title_belong_together(
    query: str, browser: browsers.Browser, steps: Path
) -> None:
    with serve(steps, open_browser=False) as page, nczarr.Dataset(steps) as api:
        browser.driver.get("about:blank")
        browser.open(page.url + query)
        browser.wait(lambda: browser.has_figure("picture"))
        labels = nczarr.num2date(api["time"][:], api["time"].units)
        possible = {}
        for k, label in enumerate(labels):
            low, high = (100 * k, 101 * k + 1) if "limits" in query else (0, 506)
            title = f"time = {label:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
            possible[f"{100 * k}|{low}|{high}|{title}|{title}"] = k
        browser.driver.execute_script(_WATCH)
        browser.wait(lambda: browser.find("button[aria-label='Play']"))[0].click()
        seen = browser.wait(
            lambda: (
                (found := set(browser.driver.execute_script("return seen")))
                and (len(found & possible.keys()) > 4 or found - possible.keys())
                and found
            )
        )
        assert seen <= possible.keys()


_AT_MOUSE = """
const view = [...Bokeh.index.query((v) => v.model.name == 'picture')][0];
const at = view.el.getBoundingClientRect(), {x_scale, y_scale} = view.frame;
return [x_scale.invert(arguments[0] - at.left), y_scale.invert(arguments[1] - at.top)];
"""


@pytest.mark.parametrize("projection", ["", *PROJECTIONS])
def test_the_value_under_the_cursor_is_the_one_of_the_file(
    projection: str, browser: browsers.Browser, tmp_path: Path
) -> None:
    from pyproj import Proj
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    path = shapes.make("climatology", tmp_path, ".nc")
    with netCDF4.Dataset(path) as peer:
        lat, lon, theta = (np.ma.asanyarray(peer[name][:]) for name in ("lat", "lon", "theta"))
        level = int(np.argmin(np.abs(peer["depth"][:])))
    plane = PROJECTIONS.get(projection, "").format(lon=0, lat=20)

    def cell_at(left: float, top: float) -> tuple[int, int] | None:
        """The cell at a point of the window, if the point is not near its edge."""
        x, y = browser.driver.execute_script(_AT_MOUSE, left, top)
        x, y = Proj(plane)(x, y, inverse=True) if plane else (x, y)
        if not (np.isfinite(x) and np.isfinite(y)):
            return None
        rows, columns = np.abs(lat - y), np.abs((lon - x + 180) % 360 - 180)
        near = rows.min() < 0.35 * abs(lat[1] - lat[0]) and columns.min() < 0.35 * abs(lon[1] - lon[0])
        return (int(rows.argmin()), int(columns.argmin())) if near else None

    with serve(path, open_browser=False) as page:
        browser.driver.get("about:blank")
        browser.open(f"{page.url}?variable=/theta&projection={projection}")
        browser.wait(lambda: browser.has_figure("picture"))
        slider = browser.wait(lambda: browser.find("input[type=range]"))[0]
        for step in range(3):
            browser.wait(lambda step=step: f"time%3D{step}" in browser.driver.current_url or not step)
            left, top, width, height = browser.driver.execute_script(
                "const view = [...Bokeh.index.query((v) => v.model.name == 'picture')][0];"
                "const at = view.el.getBoundingClientRect(), box = view.frame.bbox;"
                "return [at.left + box.left, at.top + box.top, box.width, box.height]"
            )
            # No multiples of the cells, so that many points are not on edges.
            parts = [0.06 + 0.107 * i for i in range(9)]
            points = [(int(left + width * i), int(top + height * j)) for i in parts for j in parts]
            seen = 0
            for point in points[step::5]:
                cell = cell_at(*point)
                if cell is None or np.ma.is_masked(theta[step, level][cell]):
                    continue
                actions = ActionChains(browser.driver)
                actions.w3c_actions.pointer_action.move_to_location(*point)
                actions.perform()
                expected = float(theta[step, level][cell])

                def shows_value(expected: float = expected) -> bool:
                    shown = [e.text for e in browser.find(".bk-tooltip-row-value")]
                    return bool(shown) and abs(float(shown[0]) - expected) <= 0.0006 * max(abs(expected), 1)

                browser.wait(shows_value)
                seen += 1
            assert seen > (1 if "polar" in projection else 2)
            slider.send_keys(Keys.ARROW_RIGHT)


def test_files_to_take_away(browser: browsers.Browser, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    with serve(EXAMPLE, open_browser=False) as page, nczarr.Dataset(EXAMPLE) as api:
        browser.open(page.url + "?variable=/ocean/temp&at=time=1")
        browser.wait(lambda: browser.has_figure("picture"))
        for kind in ("PNG", "CSV"):
            click(browser, "button, a", lambda text, kind=kind: text.strip() == kind)
        browser.wait(lambda: {f.name for f in folder.iterdir()} >= {"temp.png", "temp.csv"})
        assert (folder / "temp.png").read_bytes().startswith(b"\x89PNG")
        with (folder / "temp.csv").open(encoding="utf-8") as file:
            rows = list(csv.reader(file))
        values = api["/ocean/temp"][1, 0]
        assert len(rows) == values.size + 1
        for row, expected, index in zip(rows[1:], values.ravel(), np.ndindex(values.shape), strict=True):
            assert row[:2] == ["2020-02-15 12:00", "0 m"]
            assert (float(row[2]), float(row[3])) == (api["lat"][index[0]], api["lon"][index[1]])
            if np.ma.is_masked(expected):
                assert row[4] == ""
            else:
                assert float(row[4]) == expected


def test_categories_have_names(browser: browsers.Browser) -> None:
    with serve(EXAMPLE, open_browser=False) as page:
        browser.open(page.url + "?variable=/ocean/flag")
        browser.wait(lambda: browser.has_figure("picture"))
        browser.wait(lambda: "/ocean/flag" in browser.text())
        named = browser.driver.execute_script(
            "const v = [...Bokeh.index.query((v) => v.model.name == 'picture')][0];"
            "return v.model.right.map((bar) => Array.from(bar.major_label_overrides.values())).flat()"
        )
        assert named == ["good", "suspect", "bad", "land"]


def test_hostile_names_and_attributes_do_nothing(browser: browsers.Browser, tmp_path: Path) -> None:
    text = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.title = text
        ds.createDimension("_<script><b>", 4)
        ds.createDimension("y", 3)
        v = ds.createVariable("_<img src=x onerror=alert(1)>", "f4", ("y", "_<script><b>"))
        v.long_name = text + "\u202e" + "x" * 100_000
        v.units = "\x1b[31m" + text
        v[:] = 1
        g = ds.createGroup("_'\"><svg onload=alert(1)>")
        g.createVariable("_{{7*7}}", str, ())[...] = text
    with serve(tmp_path / "a.zarr", open_browser=False) as page:
        browser.open(page.url)
        browser.wait(lambda: browser.has_figure("picture"))
        browser.wait(lambda: "_{{7*7}}" in browser.text())
        click(browser, "[role=treeitem]", lambda text: "_{{7*7}}" in text and "svg" not in text)
        browser.wait(lambda: browser.text().count("window.hacked") > 0)
        assert browser.driver.execute_script("return window.hacked") is None
        assert not browser.find("img[src=x]")
        assert "\u202e" not in browser.text()


def test_zooming_into_a_large_variable_reads_more(browser: browsers.Browser, tmp_path: Path) -> None:
    side = 3000
    with nczarr.Dataset(tmp_path / "big.zarr", "w") as ds:
        for name in ("y", "x"):
            ds.createDimension(name, side)
        v = ds.createVariable("v", "i2", ("y", "x"), chunksizes=(500, 500), zlib=True)
        v[:] = np.add.outer(np.arange(side, dtype="i2"), np.arange(side, dtype="i2"))
    with serve(tmp_path / "big.zarr", open_browser=False) as page:
        browser.open(page.url)
        browser.wait(lambda: "every 3 values" in browser.text())
        for _ in range(3):
            browser.scroll("picture", 1500, 1500, -400)
        browser.wait(lambda: "every 3 values" not in browser.text())
        whole, detail = (browser.images("picture")[i] for i in (0, 1))
        assert whole == [1000, 1000]
        assert 100 < min(detail) <= max(detail) <= 1000

        def zoom_out() -> bool:
            """Zoom out, and return True if the whole is visible.

            Each turn of the wheel is at the place of the last drawing, so eight sometimes leave a part outside the
            window. Bokeh sends the new extent half a second after the last turn.
            """
            for _ in range(8):
                browser.scroll("picture", 1500, 1500, 400)
            time.sleep(1)
            return browser.images("picture")[1] is None

        # The overview is enough there.
        browser.wait(zoom_out)


def test_a_damaged_chunk_is_said_and_the_rest_is_shown(browser: browsers.Browser, tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("t", 2)
        ds.createDimension("y", 3)
        ds.createDimension("x", 4)
        v = ds.createVariable("v", "f4", ("t", "y", "x"), chunksizes=(1, 3, 4), compression="zstd")
        v[:] = 1
    (tmp_path / "a.zarr/v/c/0/0/0").write_bytes(b"no zstd at all")
    with serve(tmp_path / "a.zarr", open_browser=False) as page:
        browser.open(page.url)
        browser.wait(lambda: "v/c/0/0/0" in browser.text())
        browser.open(page.url + "?variable=/v&at=t=1")
        browser.wait(lambda: browser.has_figure("picture"))


def test_a_dataset_of_nothing(browser: browsers.Browser, tmp_path: Path) -> None:
    nczarr.Dataset(tmp_path / "empty.zarr", "w").close()
    with serve(tmp_path / "empty.zarr", open_browser=False) as page:
        browser.open(page.url)
        browser.wait(lambda: "no variables" in browser.text())


@pytest.mark.parametrize("colours", ["jet", "categories", "%00", "%ED%A0%80", "a" * 20_000])
def test_colours_that_there_are_not_are_as_if_none_were_asked_for(
    colours: str, browser: browsers.Browser, steps: Path
) -> None:
    with serve(steps, open_browser=False) as page:
        browser.driver.get("about:blank")
        browser.open(f"{page.url}?variable=/v&colours={colours}&low=1e999&high=nan&place=9,9")
        browser.wait(lambda: browser.has_figure("picture"))
        assert not browser.find("[role=alert]")


def test_text_is_a_table(browser: browsers.Browser) -> None:
    with serve(EXAMPLE, open_browser=False) as page:
        browser.open(page.url + "?variable=/atmosphere/station_name")
        browser.wait(lambda: "Île Amsterdam" in browser.text() or "Ile Amsterdam" in browser.text())

"""Drive a headless Chromium or Google Chrome that shows pages of Panel and Bokeh."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
]

_FIND = """
const found = [];
const look = (root) => {
  for (const e of root.querySelectorAll('*')) {
    if (e.matches(arguments[0])) found.push(e);
    if (e.shadowRoot) look(e.shadowRoot);
  }
};
look(document);
return found;
"""
_VIEW = "const view = [...Bokeh.index.query((v) => v.model.name == arguments[0])][0];"
_PLACES = (
    _VIEW
    + """
if (!view) return null;
const at = view.el.getBoundingClientRect();
const {x_scale, y_scale} = view.frame;
return arguments[1].map(([x, y]) => [at.left + x_scale.compute(x), at.top + y_scale.compute(y)]);
"""
)
_SOURCE = (
    _VIEW
    + """
if (!view) return null;
for (const r of view.model.renderers) {
  const data = r.data_source.data;
  if ((data.get ? data.get(arguments[1]) : data[arguments[1]]) !== undefined) {
    return Array.from(data.get ? data.get(arguments[1]) : data[arguments[1]]);
  }
}
return null;
"""
)


def _find_program(*names: str, folder: str | None = None) -> str | None:
    """Return the path of the first installed program; stubs for snap do not count, for the tests cannot drive it."""
    paths = filter(None, (shutil.which(name, path=folder) for name in names))
    return next((path for path in paths if not _is_stub(path)), None)


def _is_stub(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(4096)
    return "/snap/" in os.path.realpath(path) or (start.startswith(b"#!") and b"/snap/" in start)


def find_browser() -> str | None:
    """Return the path of Chromium or Google Chrome; None if neither is installed."""
    return _find_program("chromium", "google-chrome", "google-chrome-stable")


def find_driver() -> str | None:
    """Return the path of the browser's driver: on the path, or in the folder that GitHub's machines name."""
    return _find_program("chromedriver") or _find_program(
        "chromedriver", folder=os.environ.get("CHROMEWEBDRIVER", "")
    )


def missing_programs() -> str:
    """Return the missing parts of the browser's installation, or an empty text."""
    found = {"chromium or google-chrome": find_browser(), "chromedriver": find_driver()}
    return ", ".join(name for name, path in found.items() if path is None)


class Browser:
    """A page in the browser."""

    #: Seconds before a test fails. Nothing is measured against it.
    PATIENCE = 300.0

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open a page, and wait until Bokeh has drawn a figure or the page states that there is none."""
        self.driver.get(url)
        self.wait(lambda: self.driver.execute_script("return !!window.Bokeh && Bokeh.documents.length > 0"))

    def wait(self, is_done: Callable[[], Any]) -> Any:
        """Wait until a condition is true, and return its value."""
        end = time.monotonic() + self.PATIENCE
        error: Exception | None = None
        while time.monotonic() < end:
            try:
                found = is_done()
            except Exception as problem:  # elements appear and disappear during the page's construction
                found, error = None, problem
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"not seen in time; last error: {error}")

    def find(self, selector: str) -> list[Any]:
        """Return elements by a CSS selector, in all shadow roots."""
        return list(self.driver.execute_script(_FIND, selector))

    def text(self) -> str:
        """Return all text of the page."""
        return str(
            self.driver.execute_script(
                """
                const parts = [];
                const look = (node) => {
                  if (node.nodeType == 3) parts.push(node.textContent);
                  if (['STYLE', 'SCRIPT'].includes(node.nodeName)) return;
                  if (node.shadowRoot) look(node.shadowRoot);
                  for (const child of node.childNodes) look(child);
                };
                look(document.body);
                return parts.join(' ');
                """
            )
        )

    def has_figure(self, name: str) -> bool:
        """Return True if the page has a figure of this name."""
        return bool(self.driver.execute_script(_VIEW + "return !!view", name))

    def title_of(self, name: str) -> str:
        """Return the title of a figure."""
        return str(self.driver.execute_script(_VIEW + "return view.model.title.text", name))

    def column(self, figure: str, name: str) -> list[Any]:
        """Return a column of a figure's data. Missing numbers are None."""
        return list(self.wait(lambda: self.driver.execute_script(_SOURCE, figure, name)))

    def place(self, figure: str, x: float, y: float) -> tuple[float, float]:
        """Return the position of a figure's point in the window."""
        return self.places(figure, [(x, y)])[0]

    def places(self, figure: str, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return the positions of a figure's points in the window."""
        found = self.driver.execute_script(_PLACES, figure, [[float(x), float(y)] for x, y in points])
        return [(float(left), float(top)) for left, top in found]

    def click(self, figure: str, x: float, y: float) -> None:
        """Click at a point of a figure."""
        from selenium.webdriver.common.action_chains import ActionChains

        left, top = self.place(figure, x, y)
        actions = ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(int(left), int(top))
        actions.w3c_actions.pointer_action.click()
        actions.perform()

    def scroll(self, figure: str, x: float, y: float, by: int) -> None:
        """Turn the mouse wheel at a point of a figure."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

        left, top = self.place(figure, x, y)
        origin = ScrollOrigin.from_viewport(int(left), int(top))
        ActionChains(self.driver).scroll_from_origin(origin, 0, by).perform()

    def images(self, figure: str) -> list[list[int] | None]:
        """Return rows and columns of the images of a figure, or None for a hidden one."""
        return list(
            self.driver.execute_script(
                _VIEW
                + """
                return view.model.renderers.filter((r) => r.glyph.type == 'Image').map((r) => {
                  const data = r.data_source.data;
                  const image = (data.get ? data.get('image') : data.image)[0];
                  return image ? Array.from(image.shape) : null;
                });
                """,
                figure,
            )
        )

    def pixels(self) -> np.ndarray:
        """Return the pixels of the window: rows, columns, red-green-blue."""
        import numpy as np
        from PIL import Image

        with Image.open(io.BytesIO(self.driver.get_screenshot_as_png())) as image:
            return np.asarray(image.convert("RGB"))

    def figure_pixels(self, figure: str) -> np.ndarray:
        """Return the pixels of a figure: rows, columns, red-green-blue."""
        left, top, width, height = self.driver.execute_script(
            _VIEW
            + "const box = view.el.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]",
            figure,
        )
        return self.pixels()[int(top) : int(top + height), int(left) : int(left + width)]

    def errors(self) -> list[str]:
        """Return the errors in the browser's console since the last call.

        A page may request more (a font of new letters) after the test, when its server is gone. That is no error.
        """
        said = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [message for message in said if "net::ERR_CONNECTION_REFUSED" not in message]

    def addresses(self) -> set[str]:
        """Return the addresses that pages requested since the last call, except the browser's own."""
        import json

        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return {url for url in found if url.startswith(("http", "ws"))}


@contextmanager
def start_browser(profile: Path, size: tuple[int, int] = (1400, 1300)) -> Iterator[Browser]:
    """Start the browser with a new profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = find_browser() or "chromium"
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.add_argument("--window-size={},{}".format(*size))
    options.add_experimental_option("prefs", {"download.default_directory": str(profile / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ.setdefault("SE_OFFLINE", "true")
    driver = webdriver.Chrome(options=options, service=Service(find_driver()))
    try:
        yield Browser(driver)
    finally:
        driver.quit()

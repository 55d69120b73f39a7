#!/usr/bin/env python3
"""Measure the viewer in a real browser: start-up, from a slider step to the new picture, and memory over many steps.

    python tests/benchmarks/viewer.py [STEPS]

A step takes from the key press at the slider to the new title of the picture, which changes with the image. The files
of 1 MB and 100 MB are netCDF, the remote dataset is Zarr on the S3 server of the tests, with a chunk for each step. The
memory is that of the process that serves, after 50 steps and after all STEPS (default: 1,000).
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import nczarr
from nczarr.view import serve

TESTS = Path(__file__).parents[1]
#: Notes when a key is pressed, and when the title of the picture changes.
WATCH = """
window.pressed = []; window.shown = [];
document.addEventListener('keydown', () => pressed.push(performance.now()), true);
const view = [...Bokeh.index.query((v) => v.model.name == 'picture')][0];
view.model.title.properties.text.change.connect(() => requestAnimationFrame(() => shown.push(performance.now())));
"""


def load(path: str) -> Any:
    """Import a module below tests."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(path: str, steps: int, rows: int, columns: int, options: dict[str, Any] | None = None) -> None:
    """Write a variable with a chunk of random values for each step."""
    random = np.random.default_rng(1)
    with nczarr.Dataset(path, "w", storage_options=options) as ds:
        for name, size in (("time", steps), ("lat", rows), ("lon", columns)):
            ds.createDimension(name, size)
        axes = {
            "lat": (np.linspace(-89, 89, rows), "degrees_north"),
            "lon": (np.linspace(-179, 179, columns), "degrees_east"),
        }
        for name, (values, units) in axes.items():
            axis = ds.createVariable(name, "f8", (name,))
            axis.units, axis[:] = units, values
        v = ds.createVariable(
            "v", "f4", ("time", "lat", "lon"), chunksizes=(1, rows, columns), zlib=True, complevel=1
        )
        for step in range(steps):
            v[step] = random.normal(size=(rows, columns))


def memory() -> float:
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def press(browser: Any, slider: Any, keys: list[str]) -> list[float]:
    """Press keys one by one, each after the picture of the one before, and return the milliseconds to each picture."""
    browser.driver.execute_script("pressed.length = 0; shown.length = 0")
    for number, key in enumerate(keys, 1):
        slider.send_keys(key)
        browser.wait(lambda number=number: browser.driver.execute_script("return shown.length") >= number)
    pressed, shown = browser.driver.execute_script("return [pressed, shown]")
    return [after - before for before, after in zip(pressed, shown)]


def main(steps: int) -> None:
    """Measure, and print one line for each figure."""
    sys.path.insert(0, str(TESTS / "helpers"))
    import browser as browsers
    from selenium.webdriver.common.keys import Keys

    with tempfile.TemporaryDirectory() as folder, browsers.start_browser(Path(folder, "profile")) as browser:
        server = load("s3/server.py").new_server(Path(folder, "s3"))
        server.start()
        os.environ.update(server.settings)
        import s3fs

        s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"]).mkdir("test")
        files = {"1 MB": f"{folder}/small.nc", "100 MB": f"{folder}/large.nc", "remote": "s3://test/run.zarr"}
        make(files["1 MB"], 20, 90, 180)
        make(files["100 MB"], 40, 800, 1000)
        make(files["remote"], 20, 500, 500)

        start = time.perf_counter()
        command = [
            sys.executable,
            "-c",
            "import sys; from nczarr.cli import main; sys.exit(main(sys.argv[1:]))",
        ]
        with subprocess.Popen(
            [*command, "view", files["1 MB"], "--no-open"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            served = time.perf_counter() - start
            browser.open(url)
            browser.wait(lambda: browser.has_figure("picture"))
            print(
                f"start-up: {served:.1f} s to the address, {time.perf_counter() - start:.1f} s to the picture"
            )
            process.terminate()

        for name, path in files.items():
            with serve(path, variable="v", open_browser=False) as page:
                browser.open(page.url)
                browser.wait(lambda: browser.has_figure("picture"))
                slider = browser.wait(lambda: browser.find("input[type=range]"))[0]
                browser.driver.execute_script(WATCH)
                found = press(browser, slider, [Keys.ARROW_RIGHT] * 12)
                print(f"step, {name}: median {statistics.median(found):.0f} ms, longest {max(found):.0f} ms")
                if name == "1 MB":
                    press(browser, slider, [Keys.HOME, *([Keys.ARROW_RIGHT, Keys.ARROW_LEFT] * 25)])
                    before = memory()
                    for _ in range(steps // 100):
                        press(browser, slider, [Keys.ARROW_RIGHT] * 10 + [Keys.ARROW_LEFT] * 10)
                        press(browser, slider, [Keys.ARROW_RIGHT, Keys.ARROW_LEFT] * 40)
                    print(f"memory: {before:.0f} MB after 50 steps, {memory():.0f} MB after {steps:,} more")
        server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

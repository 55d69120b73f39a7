"""Test the numbers on the README and the landing page: a script writes the measured ones, and the rest are names."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("nczarr_history", ROOT / "tests" / "benchmarks" / "history.py")
assert _spec is not None
assert _spec.loader is not None
history = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = history
_spec.loader.exec_module(history)

#: Names with digits: of formats, packages, licences and services.
NAMES = r"netCDF-?[34]|netCDF4-python|Zarr v[23]|\bv[23]\b|xarray|ncgen|Apache-2\.0|S3|h5py|crc32c"


def test_the_landing_page_has_the_figures_of_all_rows_also_of_the_slow_ones() -> None:
    text, measured = history.PAGE.read_text("utf-8"), history.MEASURED.read_text("utf-8")
    assert history.classes(measured) in text, "run tests/benchmarks/history.py --write"
    assert history.page(text, measured) == text
    rows = re.findall(r"^\| W\d.*$", measured.partition("### Full size")[0], re.M)
    counted = [int(n) for n in re.findall(r"^\| [^|]+ \| (\d+) \| [\d.]+ \| [\d.]+ \| [\d.]+ \|", text, re.M)]
    assert sum(counted) == len(rows) > 60
    latest = history.runs()[-1]
    assert all(history.ratio_of(latest, row) for row in history.SHOWN)


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_all_other_numbers_are_names_or_the_oldest_python(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    text = history.MARKED.sub("", text)
    for pattern in (
        r"```.*?```",
        r"`[^`]*`",
        r"<!--.*?-->",
        r"<[^>]*>",
        r"\]\([^)]*\)",
        r"^:{3,}.*?$",
        r"^:\w.*?$",
    ):
        text = re.sub(pattern, " ", text, flags=re.DOTALL | re.MULTILINE)
    python = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    text = text.replace(f"Python {python.removeprefix('>=')} or newer", "")
    assert re.findall(r"\S*\d\S*", re.sub(NAMES, "", text)) == []


def test_a_drawn_history_has_a_line_for_each_row(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first = history.runs()[-1]
    second = {**first, "ratios": dict.fromkeys(history.SHOWN, 1.5)}
    history.draw([first, second], tmp_path / "history.svg")
    drawn = (tmp_path / "history.svg").read_text("utf-8")
    assert all(text.replace("`", "") in drawn.replace("`", "") for text in history.SHOWN.values())
    assert drawn.count(first["date"]) == 2

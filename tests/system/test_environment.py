"""Settings come from environment variables, and one table names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nczarr.errors import NCZarrError
from nczarr.system.environment import SETTINGS, choice, is_on, limit
from nczarr.zarr import Limits

HOUSE = Path(__file__).parents[2]
#: Documents with a table of settings, and a name in their rows.
PAGES = ("docs/reference/cli.md", "docs/limits.md")
ROW = re.compile(r"^\| `(NCZARR_[A-Z_]+)` \| ([\d,]+|unset) \|", re.M)


def test_the_documents_list_all_settings_with_their_defaults() -> None:
    listed = {
        name: 0 if default == "unset" else int(default.replace(",", ""))
        for page in PAGES
        for name, default in ROW.findall((HOUSE / page).read_text())
    }
    assert listed == {name: setting.default for name, setting in SETTINGS.items()}


def test_the_code_reads_no_other_settings() -> None:
    named = {
        name
        for path in (HOUSE / "nczarr").rglob("*.py")
        for name in re.findall(r"""["'](NCZARR_[A-Z_]+[A-Z])["']""", path.read_text())
    }
    # This one is a command.
    assert named - set(SETTINGS) == {"NCZARR_PAGER"}


@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if not (s.is_switch or s.choices)])
def test_numbers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name, raising=False)
    assert limit(name) == SETTINGS[name].default
    monkeypatch.setenv(name, " 7 ")
    assert limit(name) == 7
    monkeypatch.setenv(name, "many")
    if SETTINGS[name].is_strict:
        with pytest.raises(NCZarrError, match=f"{name} must be a positive integer, not 'many'"):
            limit(name)
    else:
        with pytest.warns(UserWarning, match=f"{name} is 'many', not a number"):
            assert limit(name) == SETTINGS[name].default


def test_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_STORAGE", " netcdf")
    assert choice("NCZARR_STORAGE") == "netcdf"
    monkeypatch.setenv("NCZARR_STORAGE", "hdf")
    with pytest.raises(NCZarrError, match="NCZARR_STORAGE must be one of auto, netcdf, zarr, not 'hdf'"):
        choice("NCZARR_STORAGE")


@pytest.mark.parametrize(
    ("text", "expected"), [("", False), ("0", False), ("1", True), (" 1", True), ("yes", False)]
)
def test_switches(monkeypatch: pytest.MonkeyPatch, text: str, expected: bool) -> None:
    monkeypatch.setenv("NCZARR_ISOLATED", text)
    assert is_on("NCZARR_ISOLATED") is expected


def test_limits_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCZARR_MAX_DOCUMENT_DEPTH", "12")
    assert Limits().document_depth == 200
    assert Limits.from_environment().document_depth == 12

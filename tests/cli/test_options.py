"""Test that each option of each command is spelled in a test and in a page, and does what its keyword does."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.cli.arguments import build_parser
from tests.helpers.dirty_archives import KINDS, make

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "data" / "example.nc"


def spelled_nowhere(text: str) -> list[str]:
    """The options of all commands that a text spells in none of their forms."""
    words = set(re.findall(r"[\w-]+", text))
    (commands,) = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return sorted(
        f"{name} {action.option_strings[-1]}"
        for name, parser in commands.choices.items()
        for action in parser._actions
        if action.option_strings and words.isdisjoint(action.option_strings)
    )


def test_every_option_is_spelled_in_a_test() -> None:
    files = (ROOT / "tests").rglob("*.py")
    assert spelled_nowhere("\n".join([path.read_text("utf-8") for path in files])) == []


def test_every_option_is_spelled_in_a_page() -> None:
    # The generated reference has all options, and the changelog those of the past.
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "generated"]
    pages = [path for path in [*pages, ROOT / "README.md"] if path.name != "changelog.md"]
    assert spelled_nowhere("\n".join([path.read_text("utf-8") for path in pages])) == []


def test_an_option_that_nothing_spells_is_found() -> None:
    assert "copy --nz" in spelled_nowhere("--nzs, --no-nzug")
    assert "copy --nz" not in spelled_nowhere("`--nz`")


def content(store: Path) -> dict[str, bytes]:
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr source with characters, compounds, several chunks, and a codec that few readers have."""
    path = tmp_path_factory.mktemp("source") / "a.zarr"
    values = ", ".join(map(str, range(1000)))
    text = f"""netcdf a {{
        types: compound point {{int x ; double y ;}} ;
        dimensions: time = 1000 ;
        variables: int v(time) ; char c ; point p ;
        data: v = {values} ; c = 'c' ; p = {{1, 2.5}} ; }}"""
    nczarr.copy(
        cdl.loads(text),
        path,
        compression='{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}',
    )
    return path


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        (["--chunk-bytes", "1KiB"], {"chunk_bytes": 1024}),
        (["--portable"], {"portable": True}),
        (["--char", "uint8"], {"char": "uint8"}),
        (["--compound", "struct"], {"compound": "struct"}),
        (["--chunk-keys", "v2"], {"chunk_keys": "v2"}),
        (["--no-consolidated"], {"consolidated": False}),
        (["--extensions"], {"extensions": True}),
        (["--zarr-conventions"], {"zarr_conventions": True}),
        (["--nz"], {"nz": True}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_option_of_the_stored_form_does_what_its_keyword_does(
    words: list[str], keywords: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    assert main(["copy", str(source), str(tmp_path / "option.zarr"), *words]) == 0
    nczarr.copy(source, tmp_path / "keyword.zarr", **keywords)
    nczarr.copy(source, tmp_path / "default.zarr")
    found = content(tmp_path / "option.zarr")
    assert found == content(tmp_path / "keyword.zarr")
    assert found != content(tmp_path / "default.zarr")


def test_without_durability_no_file_is_synced(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append)
    assert main(["copy", str(source), str(tmp_path / "a.zarr"), "--no-durable"]) == 0
    assert synced == []
    assert main(["copy", str(source), str(tmp_path / "b.zarr"), "--durable"]) == 0
    assert synced != []


@pytest.mark.parametrize(
    ("kind", "words", "keywords"),
    [
        ("scale", ["--repack", "unpacked"], {"repack": "unpacked"}),
        ("kelvin", ["--adjust", "units"], {"adjust": "units"}),
        ("rounded latitude", ["--tolerance", "lat=0.001"], {"tolerance": {"lat": 0.001}}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_option_for_archives_that_are_not_clean_does_what_its_keyword_does(
    kind: str, words: list[str], keywords: dict[str, Any], tmp_path: Path
) -> None:
    paths = [str(path) for path in make(KINDS[kind], tmp_path / "archive")]
    assert main(["join", *paths, str(tmp_path / "refused.zarr")]) == 1
    assert main(["join", *paths, str(tmp_path / "option.zarr"), *words]) == 0
    nczarr.join(paths, tmp_path / "keyword.zarr", **keywords)
    assert content(tmp_path / "option.zarr") == content(tmp_path / "keyword.zarr")


def test_an_expected_step_names_what_is_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in make(KINDS["clean"], tmp_path / "archive")]
    del paths[1]
    assert main(["join", *paths, str(tmp_path / "a.zarr")]) == 0
    assert main(["join", *paths, str(tmp_path / "b.zarr"), "--expect-step", "1d"]) == 1
    assert "--expect-step 1d: /time lacks 2 steps: 2001-01-03, 2001-01-04" in capfd.readouterr().err


def test_a_difference_of_the_storage_is_one_with_storage_alone(tmp_path: Path) -> None:
    for name, chunks in (("a", 2), ("b", 3)):
        nczarr.copy(EXAMPLE, tmp_path / f"{name}.zarr", chunks={"time": chunks})
    command = ["diff", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")]
    assert main(command) == 0
    assert main([*command, "--storage"]) == 1


@pytest.mark.parametrize("words", [["--projection", "Robinson"], ["--contours"]])
def test_an_option_of_a_picture_changes_it(words: list[str], tmp_path: Path) -> None:
    command = ["plot", str(EXAMPLE), "slp", "--dpi", "40"]
    assert main([*command, "-o", str(tmp_path / "a.png")]) == 0
    assert main([*command, "-o", str(tmp_path / "b.png"), *words]) == 0
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_frames_go_over_the_chosen_dimension(tmp_path: Path) -> None:
    from PIL import Image

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        for name, size in {"time": 3, "level": 2, "y": 4, "x": 5}.items():
            ds.createDimension(name, size)
        ds.createVariable("v", "f4", ("time", "level", "y", "x"))[:] = np.arange(120).reshape(3, 2, 4, 5)
    command = ["plot", str(tmp_path / "a.nc"), "v", "--dpi", "40"]
    for name, frames in (("time", 3), ("level", 2)):
        assert main([*command, "-o", str(tmp_path / f"{name}.gif"), "--over", name]) == 0
        with Image.open(tmp_path / f"{name}.gif") as image:
            assert getattr(image, "n_frames", 1) == frames


def test_a_dataset_beside_another_must_exist(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    beside = str(tmp_path / "nothing.zarr")
    assert main(["view", str(EXAMPLE), "--no-open", "--beside", beside]) == 1
    assert beside in capfd.readouterr().err

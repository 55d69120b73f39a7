"""Read the test vectors, which the mapping did not write, and compare them with their CDL."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import mapping_tools as tools
import pytest

from nczarr.stores import MemoryStore

DATA = Path(__file__).parents[1] / "data"
NAMES = sorted(p.stem for p in (DATA / "vectors").glob("*.cdl"))


def test_the_vectors_are_those_of_the_script(tmp_path: Path) -> None:
    script = runpy.run_path(str(DATA / "make_vectors.py"))
    script["main"](tmp_path)
    script["write_json"](tmp_path)
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    kept = {
        p.relative_to(DATA / "vectors"): p.read_bytes() for p in (DATA / "vectors").rglob("*") if p.is_file()
    }
    assert made == kept
    assert len(NAMES) >= 16


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_read_as_its_cdl_says(name: str) -> None:
    cdl = pytest.importorskip("nczarr.cdl")
    expected = cdl.load(DATA / "vectors" / f"{name}.cdl")
    assert tools.differences(expected, DATA / "vectors" / f"{name}.zarr", storage=name == "storage") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_survives_writing(name: str) -> None:
    from nczarr.mapping import open_dataset

    store = MemoryStore()
    with open_dataset(DATA / "vectors" / f"{name}.zarr") as stored:
        tools.copy(stored.dataset, store)
        assert tools.differences(stored.dataset, store) == []


def test_the_command_checks_vectors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from nczarr.cli import main as command

    for folder in (DATA / "vectors", DATA / "vectors" / "invalid"):
        assert command(["check", "--vectors", str(folder)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(list(folder.glob("*.zarr")))
        assert all(line.endswith(": ok") for line in lines)
    shutil.copytree(DATA / "vectors" / "groups.zarr", tmp_path / "groups.zarr")
    text = (DATA / "vectors" / "groups.json").read_text(encoding="utf-8")
    (tmp_path / "groups.json").write_text(
        text.replace('"unlimited": true', '"unlimited": false'), encoding="utf-8"
    )
    assert command(["check", "--vectors", str(tmp_path)]) == 1
    found = "/dimensions/0/unlimited is true instead of false"
    assert f"groups: the content differs from groups.json: {found}" in capsys.readouterr().out
    for wrong, difference in (
        (text.replace('"where"', '"what"'), "/groups/0/attributes/0/name is 'where' instead of 'what'"),
        (text.replace("20\n", "20, 30\n"), "/variables/0/values/2 is missing instead of 30"),
        (text.replace('"format"', '"form"'), "/form is missing instead of null"),
        (text.replace('"format": null,', ""), "/format is null instead of missing"),
    ):
        assert wrong != text
        (tmp_path / "groups.json").write_text(wrong, encoding="utf-8")
        assert command(["check", "--vectors", str(tmp_path)]) == 1
        assert difference in capsys.readouterr().out


def test_the_command_prints_canonical_json(capsys: pytest.CaptureFixture[str]) -> None:
    from nczarr.cli import main as command

    folder = DATA / "vectors"
    assert command(["check", "--canonical", *(str(folder / f"{n}.zarr") for n in ("groups", "text"))]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [json.loads((folder / f"{n}.json").read_text("utf-8")) for n in ("groups", "text")]


def test_every_question_has_a_store() -> None:
    page = (DATA.parents[1] / "docs" / "spec" / "questions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+ \| (.+) \| (.+) \|$", page, re.M)[1:]
    assert len(rows) >= 20
    for answer, stores in rows:
        assert "](" in answer
        named = re.findall(r"`([a-z0-9_/]+)`", stores)
        assert named
        assert [n for n in named if not (DATA / "vectors" / f"{n}.zarr" / "zarr.json").is_file()] == []


def test_every_constraint_has_a_store_that_breaks_it() -> None:
    """The numbered list of the page, and the folder of invalid stores."""
    page = (DATA.parents[1] / "docs" / "spec" / "nczarr-v3-recovery.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| C\d+ \|.*\| `([a-z-]+)` \|$", page, re.M))
    broken = {c for p in (DATA / "vectors").rglob("*.findings") for c in p.read_text().split()}
    assert listed == broken


#: Two leading underscores; anonymous dimensions; a value of an enum that is not a member; names with blanks or
#: slashes.
NOT_FOR_NCGEN = ("names", "slashes", "labels", "cut_names", "recovery", "node_names", "no_values")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NOT_FOR_NCGEN])
def test_the_cdl_is_legal(name: str, tmp_path: Path) -> None:
    """netCDF's own ncgen takes it; but not names that begin with two underscores."""
    if shutil.which("ncgen") is None:
        pytest.skip("ncgen is not installed")
    path = DATA / "vectors" / f"{name}.cdl"
    done = subprocess.run(
        ["ncgen", "-4", "-o", str(tmp_path / "out.nc"), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

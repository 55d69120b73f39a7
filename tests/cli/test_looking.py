"""What commands print for people and for machines, on any terminal, whatever a dataset has put into its names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr as zarr_python
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr.cli import main
from nczarr.cli.arguments import build_parser
from nczarr.cli.output import visible
from nczarr.model import INT, Attribute, Dataset, Dimension, MemorySource, Variable

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "nczarr", *words],
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_info_is_what_zarr_python_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, out, chunks="lat=6", shards={"lat": 18}, compression="zstd:4")
    assert main(["info", "--json", "--stats", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    group = zarr_python.open_group(out, mode="r")
    with netCDF4.Dataset(EXAMPLE) as original:
        for variable in found["variables"]:
            array = group[variable["fqn"][1:]]
            assert isinstance(array, zarr_python.Array)
            assert list(array.chunks) == variable["chunks"]
            assert (list(array.shards) if array.shards else None) == variable["shards"]
            files = [p for p in (out / variable["fqn"][1:] / "c").rglob("*") if p.is_file()]
            assert len(files) == variable["objects_stored"]
            assert sum(p.stat().st_size for p in files) == variable["stored_bytes"]
            values = original[variable["fqn"]]
            values.set_auto_scale(False)
            if values.dtype is not str and values.dtype.kind in "if":
                assert variable["minimum"] == values[:].min()
                assert variable["missing"] == np.ma.count_masked(values[:])


def test_info_of_a_netcdf_file_is_what_h5py_sees(capsys: pytest.CaptureFixture[str]) -> None:
    h5py = pytest.importorskip("h5py")
    assert main(["info", "--json", str(EXAMPLE)]) == 0
    found = json.loads(capsys.readouterr().out)
    with h5py.File(EXAMPLE) as file:
        for variable in found["variables"]:
            dataset = file[variable["fqn"]]
            assert variable["stored_bytes"] == dataset.id.get_storage_size()
            assert variable["chunks"] == (list(dataset.chunks) if dataset.chunks else None)
    assert main(["info", str(EXAMPLE), str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.count("/ocean/temp") == 2


def test_ls_and_tree_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(EXAMPLE)]) == 0
    assert "/ocean/temp" in capsys.readouterr().out.splitlines()
    assert main(["ls", "-l", str(EXAMPLE)]) == 0
    assert "6x4x18x36" in capsys.readouterr().out
    assert main(["tree", "--json", str(EXAMPLE)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [g["name"] for g in found["groups"]] == ["ocean", "atmosphere"]
    assert found["dimensions"][0] == {"name": "time", "size": 6, "unlimited": True}


HOSTILE = "a\x1b]0;owned\x07\u202eb"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Names that Zarr can hold and a terminal had better not see."""
    names = ["süd\u202e", "温度", "x" * 200]
    variables = tuple(Variable(n, INT, ("/d",), data=MemorySource(np.zeros(1, "i4"))) for n in names)
    attributes = (Attribute.of("title", HOSTILE),)
    dataset = Dataset("d", dimensions=(Dimension("d", 1),), variables=variables, attributes=attributes)
    nczarr.copy(dataset, tmp_path / "hostile.zarr")
    return tmp_path / "hostile.zarr"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("command", ["info", "tree", "ls", "diff"])
def test_no_terminal_is_too_poor(hostile: Path, encoding: str, command: str) -> None:
    words = [command, str(hostile)] + ([str(EXAMPLE)] if command == "diff" else [])
    done = run(*words, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.returncode == (1 if command == "diff" else 0), done.stderr
    said = done.stdout.decode(encoding)
    assert not any(ord(c) < 32 and c != "\n" for c in said)
    assert "\u202e" not in said
    assert "\\u202e" in said


@given(st.text())
def test_visible_text_has_no_controls(text: str) -> None:
    seen = visible(text)
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 0x9F for c in seen)
    assert visible("plain ä 温") == "plain ä 温"


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    (verbs,) = [a for a in build_parser()._actions if hasattr(a, "choices") and isinstance(a.choices, dict)]
    choices: dict[str, Any] = dict(verbs.choices)  # type: ignore[arg-type]
    lacking = {name for name, parser in choices.items() if "nczarr " + name not in (parser.epilog or "")}
    assert lacking <= {"view", "plot"}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "--overwrite" in said
    assert "digest" in said

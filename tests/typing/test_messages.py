"""Mistakes in calls of a user's program, and the messages of a type checker: short, and with the right word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MISTAKES = {
    'nczarr.copy("a.nc", "b.zarr", chunk={"time": 1})': 'did you mean "chunks"?',
    'nczarr.copy("a.nc", "b.zarr", overwrite="yes")': 'expected "bool"',
    'nczarr.join("a.nc", "b.zarr", chunk={"time": 1})': 'did you mean "chunks"?',
    'nczarr.append("a.nc", "b.zarr", replaces=True)': 'did you mean "replace"?',
    'nczarr.open("a.nc", mod="r")': 'did you mean "mode"?',
}


def test_a_wrong_keyword_has_a_short_message_of_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text("\n".join(["import nczarr", *MISTAKES]))
    # .ci/run has checked the package by then: with what mypy kept, it takes 3 seconds in place of 30.
    cache = os.environ.get("MYPY_CACHE_DIR", str(tmp_path))
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = run.stdout.splitlines()
    assert lines[-1].startswith(f"Found {len(MISTAKES)} errors"), run.stdout + run.stderr
    for number, (call, words) in enumerate(MISTAKES.items(), 2):
        told = [line.split(f":{number}: ", 1)[1] for line in lines if f":{number}: " in line]
        assert words in "\n".join(told), call
        assert len("\n".join(told)) < 200, call

"""Runs the code of the documentation: Python blocks, and ``$ nczarr …`` in console blocks."""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = Path(__file__).parents[1]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_console(example: Example) -> str | None:
    """Run each ``$`` line and compare what it prints with the lines below it."""
    commands: list[tuple[str, list[str]]] = []
    for line in example.parsed.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    checker = doctest.OutputChecker()
    for command, expected in commands:
        if command.startswith(("pip ", "python -m pip ", "git ")):
            continue  # installing is tested on a machine of its own
        result = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
        )
        got = result.stdout + result.stderr
        want = "\n".join(expected).strip() + "\n"
        if not checker.check_output(want, got.strip() + "\n", FLAGS):
            return f"$ {command}\nexpected:\n{want}\ngot:\n{got}"
    return None


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own for each page, with the example file in it."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copy(ROOT / "tests" / "data" / "example.nc", folder)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=FLAGS), CodeBlockParser("console", run_console)],
    patterns=["*.md", "**/*.md"],
    excludes=["spec/*.md", "reference/*.md", "reference/generated/*.md", "_build/**", "changelog.md"],
    fixtures=["working_folder"],
).pytest()

"""Runs the code of the documentation: Python blocks, and ``$ nczarr …`` in console blocks."""

from __future__ import annotations

import doctest
import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import programs
import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]
#: Characters with a meaning for a shell.
SHELL = frozenset("|&;<>()$`*?[]{}~#\\")
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
        if command.startswith("nczarr ") and not SHELL.intersection(command):
            result = programs.command(*shlex.split(command)[1:])
        else:
            result = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
            )
        got = result.stdout + result.stderr
        want = "\n".join(expected).strip() + "\n"
        if not checker.check_output(want, got.strip() + "\n", FLAGS):
            return f"$ {command}\nexpected:\n{want}\ngot:\n{got}"
    return None


def _module(path: str) -> ModuleType:
    """A module of the repository that is in no package."""
    specification = importlib.util.spec_from_file_location(f"nczarr_docs_{Path(path).stem}", ROOT / path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def working_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder of its own for each page, with the example file in it; for the gallery with the data of its pictures."""
    folder = tmp_path_factory.mktemp("docs")
    data = ROOT / "tests" / "data"
    shutil.copy(data / "example.nc", folder)
    if request.node.path.name == "gallery.md":
        pytest.importorskip("matplotlib")
        _module("docs/make_screenshots.py").make_ocean(folder / "ocean.zarr")
        shutil.copy(data / "selection" / "netcdf" / "small_rotPole_precipitation.nc", folder)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
    for name in ("nczarr", "nczarr.stores"):  # a page sets the levels of its loggers
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="module")
def s3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[bool]:
    """An S3 server with a bucket ``test``, for the page that needs one; False for the others."""
    if request.node.path.name != "object-stores.md":
        yield False
        return
    server = _module("tests/s3/server.py").new_server(tmp_path_factory.mktemp("s3") / "state")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.settings.items():
            patch.setenv(name, value)
        try:
            s3fs = pytest.importorskip("s3fs")
            s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"]).mkdir("test")
            yield True
        finally:
            server.stop()


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=FLAGS),
        CodeBlockParser("console", run_console),
        SkipParser(),
    ],
    patterns=["*.md", "**/*.md"],
    excludes=["spec/*.md", "reference/*.md", "reference/generated/*.md", "_build/**", "changelog.md"],
    fixtures=["working_folder", "s3"],
).pytest()

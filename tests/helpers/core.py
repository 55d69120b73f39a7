"""Tell the core of nczarr from the rooms beside it, and copy it alone, with its tests."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import import_graph
import rotation

from nczarr.cli.arguments import build_parser
from nczarr.rooms import room_of

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: Tests of each part of the core that need a few seconds.
FEW = (
    "model/test_nodes.py", "cdl/test_dump_numbers.py", "zarr/test_selection.py", "mapping/test_lengths.py",
    "session/test_growing_chunks.py",
)  # fmt: skip
#: All files of tests that use the core only. The others also ask for netCDF files, servers, commands, or copies.
ALL = (
    *FEW, "cdl/test_greedy_patterns.py", "cdl/test_load_errors.py",
    "cdl/test_load_probes.py", "cdl/test_load_records.py", "cdl/test_load_roundtrip.py", "cdl/test_load_values.py",
    "mapping/test_damage_regressions.py", "mapping/test_recovery.py", "mapping/test_roundtrip.py",
    "mapping/test_stored.py", "model/test_chunk_shapes.py", "model/test_lengths.py", "model/test_stored_form.py",
    "model/test_types_and_values.py", "netcdf4/test_cdl_text.py", "session/test_interleavings.py",
    "zarr/test_array_damage.py", "zarr/test_array_peers.py", "zarr/test_array_properties.py", "zarr/test_cases.py",
    "zarr/test_codecs.py", "zarr/test_data_types.py", "zarr/test_documents_draft.py", "zarr/test_documents_v2.py",
    "zarr/test_documents_v3.py", "zarr/test_extensions.py", "zarr/test_growing_shards.py", "zarr/test_json.py",
    "zarr/test_lazy_documents.py", "zarr/test_memory.py", "zarr/test_names_grids_keys.py",
    "zarr/test_partial_decoding.py", "zarr/test_plugins.py", "zarr/test_pool.py", "zarr/test_rows.py",
    "zarr/test_shards.py",
)  # fmt: skip
#: All cases run with the rooms beside them. An example more, or another case of many, says little about the rooms: one
#: case in eight runs alone, another one for each commit.
CONFTEST = """
import rotation

rotation.all_examples = False


def pytest_collection_modifyitems(config, items):
    cases = [((item.path, item.nodeid.partition("[")[0]), item) for item in items]
    items[:], waiting = rotation.select(cases, {turn})
    config.hook.pytest_deselected(items=waiting)
"""
#: The commands that a room serves; all others belong to the room of commands itself.
COMMANDS = {
    "conversion": ("copy", "join", "append", "scan", "diff", "digest", "sources", "check"),
    "viewer": ("plot", "view"),
    "object model": ("zom", "validate"),
}


@cache
def modules_of(room: str | None) -> tuple[str, ...]:
    """Return the modules of a room, or of the core (None)."""
    return tuple(name for name in import_graph.modules() if room_of(name) == room)


def lines_of(room: str | None) -> int:
    """Count the lines of a room, or of the core (None)."""
    return sum(len(import_graph.modules()[name].read_text().splitlines()) for name in modules_of(room))


def words_of(room: str) -> int:
    """Count the long options of the commands of a room, without those that all commands have."""
    served = {name for names in COMMANDS.values() for name in names}
    every = {name for name in _commands() if name not in served}
    words = [_words(name) for name in (COMMANDS.get(room, ()) if room != "commands" else every)]
    return len(set().union(*words) - _words("ls"))


def _commands() -> Iterable[str]:
    actions = build_parser()._actions
    return next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))


def _words(command: str) -> set[str]:
    actions = build_parser(command)._actions
    parsers = next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))
    return {text for a in parsers[command]._actions for text in a.option_strings if text.startswith("--")}


def copy_core(folder: Path) -> None:
    """Copy the modules of the core, their data files, and the grammars."""
    for name in modules_of(None):
        source = import_graph.modules()[name]
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        if source.name == "__init__.py":
            for data in source.parent.glob("*.json"):
                shutil.copy(data, target.parent)
    shutil.copytree(ROOT / "grammar", folder / "grammar")
    shutil.copy(ROOT / "pyproject.toml", folder)


def copy_tests(folder: Path, files: Iterable[str]) -> None:
    """Copy files of tests, with the helpers and data of all tests, beside a copy of the core."""
    for name in ("helpers", "data"):
        shutil.copytree(TESTS / name, folder / "tests" / name, dirs_exist_ok=True)
    for name in ("conftest.py", *files):
        target = folder / "tests" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(TESTS / name, target)
        if (conftest := (TESTS / name).with_name("conftest.py")).is_file():
            shutil.copy(conftest, target.parent)
    (folder / "tests" / "trust").mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST.format(turn=rotation.rotation_of(ROOT)))


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy of the core in a folder."""
    # The options of the outer command, as `--max-skipped`, are for all tests and not for a few of the core.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**outer, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run_tests(folder: Path, files: tuple[str, ...]) -> int:
    """Run files of tests with a copy of the core; return how many tests passed, which are all that ran, or wait."""
    copy_tests(folder, files)
    # In a folder of its own: at its end pytest removes the folders of earlier runs from the one of all.
    options = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--basetemp", str(folder / "temporary"))
    done = run(folder, "-m", "pytest", *options, *(f"tests/{name}" for name in files))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return sum(int(number) for number in re.findall(r"(\d+) (?:passed|deselected)", done.stdout))

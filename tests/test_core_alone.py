"""All tests of the core, in a copy of the package without the rooms beside it."""

from __future__ import annotations

from pathlib import Path

import core


def test_all_tests_of_the_core_pass_without_the_rooms(tmp_path: Path) -> None:
    core.copy_core(tmp_path)
    assert core.run_tests(tmp_path, core.ALL) > 1500

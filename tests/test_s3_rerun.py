"""A test of S3 is run again on a new server only when its server has ended by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
import sys

import pytest

sys.path.insert(0, {helpers!r})
import s3_rerun

pytest_runtest_makereport = s3_rerun.pytest_runtest_makereport
pytest_runtest_protocol = s3_rerun.pytest_runtest_protocol


class Server:
    lives = True

    def answers(self):
        return self.lives

    def said(self):
        return "rgw: has ended\\n--- rgw.err\\nits last words"


@pytest.fixture(scope="session")
def s3_server():
    server = Server()
    s3_rerun.running.append(server)
    yield server
    s3_rerun.running.clear()
"""
TESTS = """
import pytest

deaths = 0


@pytest.mark.s3
@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_server_ends(s3_server, most):
    global deaths
    if deaths < most:
        deaths += 1
        s3_server.lives = False
        raise OSError("refused")
    deaths = 0


@pytest.mark.s3
def test_fails(s3_server):
    assert not s3_server.lives
"""


def test_only_the_end_of_the_server_is_forgiven(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(helpers=str(Path(__file__).parent / "helpers")))
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = s3: needs the server\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=short", "test_it.py"]
    bare = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    said = done.stdout
    for most in range(3):
        assert f"PASSED test_it.py::test_server_ends[{most}]" in said
    assert "no S3 server lives long enough: rgw: has ended" in said
    assert "FAILED test_it.py::test_fails" in said
    assert "1 failed, 3 passed, 1 skipped" in said

"""Provide what all tests share: the S3 server, the web server, and the limit of skipped tests."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lock_order
import pytest
from folders import remove_folders
from hypothesis import settings

TESTS = Path(__file__).parent

lock_order.install()
# A document with another length than the model fails the test that wrote it.
os.environ["NCZARR_SELF_CHECK"] = "1"


def _check_descriptor(file: Any) -> None:
    os.fstat(file if isinstance(file, int) else file.fileno())


# No test loses power, and waiting for the disk took a third of the time. system/test_durability.py tests which files
# are synced, and in which order. The processes that tests start do sync.
for _name in ("fsync", "fdatasync"):
    if hasattr(os, _name):
        setattr(os, _name, _check_descriptor)

# The examples are always the same, so that a run says something about the change. NCZARR_NEW_EXAMPLES=1 takes new ones,
# as a job of each night does.
# No deadline: the time of an example says more about the machine than about the code.
settings.register_profile("same", derandomize=True, print_blob=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile("new" if os.environ.get("NCZARR_NEW_EXAMPLES") == "1" else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--max-skipped", type=int, help="fail when more tests are skipped than this")


@functools.cache
def _reads_real_data(path: Path) -> bool:
    return path.suffix == ".py" and path.is_file() and "real_data import" in path.read_text()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m real_data``, do not import the other files."""
    if config.option.markexpr != "real_data" or not collection_path.is_file():
        return None
    paths = (collection_path, collection_path.with_name("conftest.py"))
    return None if any(map(_reads_real_data, paths)) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads the real data, so that it can be run again on the larger collection."""
    for item in items:
        by_fixture = {"nc_file", "hdf5_file"} & set(getattr(item, "fixturenames", ()))
        if _reads_real_data(item.path) or (
            by_fixture and _reads_real_data(item.path.with_name("conftest.py"))
        ):
            item.add_marker("real_data")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Clean up, and fail when tests that used to run are skipped: nobody reads a number that grows slowly."""
    remove_folders()
    limit = session.config.getoption("--max-skipped", None)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if limit is None or reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = len(reporter.stats.get("skipped", []))
    if skipped > limit:
        reporter.write_line(f"{skipped} tests were skipped; at most {limit} may be", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _check_lock_order() -> Iterator[None]:
    """Fail a test during which a thread took locks in the wrong order, even if the program caught the error."""
    lock_order.FOUND.clear()
    lock_order.held_locks().clear()  # an earlier test may have failed while it held one
    yield
    assert not lock_order.FOUND


def load(path: str) -> ModuleType:
    """Import a helper module by its path below tests/."""
    name = "nczarr_tests_" + path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An S3 server; gives its settings, which are in the environment as well. It has a bucket ``test``."""
    server = load("s3/server.py").new_server(tmp_path_factory.mktemp("s3") / "state")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_PROFILE", raising=False)
        patch.delenv("AWS_SESSION_TOKEN", raising=False)
        for name, value in server.settings.items():
            patch.setenv(name, value)
        try:
            s3fs = pytest.importorskip("s3fs")
            fs = s3fs.S3FileSystem(endpoint_url=server.settings["AWS_ENDPOINT_URL"])
            fs.mkdir("test")
            yield server.settings
        finally:
            server.stop()


@pytest.fixture(scope="session")
def web_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """nginx, serving ``web_server.folder`` at ``web_server.url`` + ``data/``; see tests/http/nginx.py."""
    if shutil.which("nginx") is None:
        pytest.skip("no web server: nginx is not installed")
    state = tmp_path_factory.mktemp("nginx")
    folder = tmp_path_factory.mktemp("web")
    nginx = load("http/nginx.py").Nginx(state, folder, load("s3/ceph.py").free_ports(1)[0])
    yield nginx
    nginx.stop()

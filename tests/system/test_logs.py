"""Test the log: silent by default, one logger for each package, the work of an operator's questions, no credentials."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import programs
import pytest
from odd_server import OddServer, send

import nczarr
from nczarr.stores import open_store
from nczarr.stores.remote import http
from nczarr.transfer import NoProgress

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, logger="nczarr"):
        yield caplog


def test_a_command_is_silent_unless_the_environment_asks(tmp_path: Path) -> None:
    done = programs.command("copy", "--quiet", EXAMPLE, tmp_path / "a.zarr")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told = programs.command("copy", "--quiet", EXAMPLE, tmp_path / "b.zarr", NCZARR_LOG="info")
    lines = told.stderr.splitlines()
    assert lines[0] == f"nczarr: nczarr.convert: {tmp_path / 'b.zarr'}: copying {EXAMPLE}"
    assert lines[-1] == f"nczarr: nczarr.mapping: {tmp_path / 'b.zarr'}: the new dataset is complete"
    wrong = programs.command("ls", tmp_path / "a.zarr", NCZARR_LOG="loud")
    assert wrong.returncode == 1
    assert "NCZARR_LOG must be one of off, info, debug, not 'loud'" in wrong.stderr


def test_all_loggers_are_of_packages(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as ds:
        ds.title = "changed"
        ds.sync()
    packages = {path.name for path in (Path(nczarr.__file__).parent).iterdir() if path.is_dir()}
    seen = {record.name for record in log.records}
    assert seen <= {f"nczarr.{name}" for name in packages}
    assert {"nczarr.convert", "nczarr.mapping", "nczarr.session", "nczarr.stores", "nczarr.zarr"} == seen
    for name in seen:
        assert [type(handler) for handler in logging.getLogger(name).handlers] == [logging.NullHandler]


def test_merges_with_other_programs_are_logged(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    document = tmp_path / "a.zarr" / "lat" / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["attributes"]["note"] = "of another program"
    document.write_text(json.dumps(metadata))
    log.clear()
    nczarr.Dataset(tmp_path / "a.zarr").close()
    assert "consolidated metadata are older than the document of 'lat'" in log.text
    for name in ("lat", "lon"):
        shutil.rmtree(tmp_path / "a.zarr" / name)
    log.clear()
    with pytest.warns(UserWarning, match="more"):  # which names one of them
        nczarr.Dataset(tmp_path / "a.zarr").close()
    findings = [r.getMessage() for r in log.records if (r.name, r.levelname) == ("nczarr.mapping", "INFO")]
    assert any("'lat' is listed but missing" in text for text in findings)
    assert any("'lon' is listed but missing" in text for text in findings)


@pytest.mark.http
def test_requests_and_their_repetitions_without_secrets(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.0)
    server = OddServer()
    answers = iter([503, 200])
    server.answers["/a/k"] = lambda h: send(h, next(answers), b"value")
    assert open_store(f"{server.url}/a?token=hunter2").get("k") == b"value"
    server.stop()
    stores = [(r.levelname, r.getMessage()) for r in log.records if r.name == "nczarr.stores"]
    assert [level for level, _ in stores] == ["DEBUG", "DEBUG", "INFO"]
    assert "opened as HTTPStore" in stores[0][1]
    assert "read k, start 0, length None" in stores[1][1]
    assert "a request is repeated" in stores[2][1]
    assert "503" in stores[2][1]
    assert "hunter2" not in log.text


def test_a_finished_part_that_a_copy_keeps(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    class Interrupting(NoProgress):
        def start(self, total: int) -> None:
            self.left = 3 * 4 * 18 * 36 * 2  # bytes: a part of the largest variable

        def advance(self, count: int, fqn: str) -> None:
            self.left -= count
            if self.left < 0:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nczarr.copy(EXAMPLE, tmp_path / "a.zarr", resume=True, progress=Interrupting())
    log.clear()
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", resume=True)
    texts = [record.getMessage() for record in log.records if record.name == "nczarr.convert"]
    assert texts[0].endswith(f"continuing the copy of {EXAMPLE}")
    assert "blocks of an earlier run are kept" in texts[1]
    assert " 0 blocks" not in texts[1]

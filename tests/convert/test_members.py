"""Test what conversions report, and the classes that they return."""

from __future__ import annotations

from pathlib import Path

import nczarr
from nczarr.convert import Digest, Progress, Report
from nczarr.netcdf import FileSink, OpenFile, create_dataset, open_dataset

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


class Written:
    """Adds up the bytes of each variable."""

    def __init__(self) -> None:
        self.total, self.ended = 0, False
        self.bytes: dict[str, int] = {}

    def start(self, total: int) -> None:
        self.total = total

    def advance(self, count: int, fqn: str) -> None:
        self.bytes[fqn] = self.bytes.get(fqn, 0) + count

    def finish(self) -> None:
        self.ended = True


def test_the_progress_of_a_copy_adds_up_to_its_total(tmp_path: Path) -> None:
    written = Written()
    progress: Progress = written
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", progress=progress)
    assert written.ended
    assert sum(written.bytes.values()) == written.total > 0
    with nczarr.open(EXAMPLE) as ds:
        assert written.bytes.keys() <= ds.all_variables.keys()


def test_a_digest_has_one_part_for_each_variable() -> None:
    found = nczarr.digest(EXAMPLE)
    assert isinstance(found, Digest)
    with nczarr.open(EXAMPLE) as ds:
        assert found.variables.keys() == ds.all_variables.keys()


def test_a_dry_run_counts_the_objects_of_the_copy(tmp_path: Path) -> None:
    report = Report()
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", dry_run=True, report=report)
    count, size = report.planned_objects
    assert size > 0
    assert not (tmp_path / "a.zarr").exists()
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    chunks = [p for p in (tmp_path / "a.zarr").rglob("*") if p.is_file() and p.name != "zarr.json"]
    assert 0 < len(chunks) <= count


def test_a_report_tells_the_chunks_that_were_chosen_and_the_steps_that_were_added() -> None:
    report = Report()
    assert report.chosen_chunks == ""
    report.add_steps([EXAMPLE], [], [], None)
    assert report.sources == 1


def test_a_netcdf_file_is_written_and_opened_by_its_own_classes(tmp_path: Path) -> None:
    with open_dataset(EXAMPLE) as source:
        assert isinstance(source, OpenFile)
        sink = create_dataset(tmp_path / "a.nc", source.dataset)
        assert isinstance(sink, FileSink)
        sink.commit()
    assert (tmp_path / "a.nc").exists()

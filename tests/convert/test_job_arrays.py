"""Fill one dataset by the tasks of a job array: a template, a region for each task, a check."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import netCDF4
import programs
import pytest
from days import DAYS, STEPS, day
from s3_proxy import S3Proxy

import nczarr
from nczarr.cli import main
from nczarr.errors import DatasetNotFoundError, LockedError, UnsupportedError
from nczarr.mapping.dataset.changes import BESIDE
from nczarr.stores import open_store
from nczarr.stores.remote import ObstoreStore


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def days() -> list[str]:
    return [day(number) for number in range(DAYS)]


def place(number: int) -> str:
    return f"time={STEPS * number}:{STEPS * (number + 1)}"


def at_once(work: Callable[[int], Any], count: int = DAYS) -> list[Any]:
    """Call a function of a number in threads that begin together."""
    begin = threading.Barrier(count)

    def run(number: int) -> Any:
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.parametrize("chunk", [4, 3], ids=["whole chunks", "parts of chunks"])
def test_processes_fill_the_regions_of_a_template(days: list[str], chunk: int) -> None:
    assert main(["copy", days[0], "all.zarr", "--template", "time=24", "-c", f"time={chunk}"]) == 0
    tasks = at_once(
        lambda n: programs.command("append", "-q", days[n], "all.zarr", "--region", place(n), "--verify")
    )
    assert [(task.returncode, task.stderr) for task in tasks] == [(0, "")] * DAYS
    nczarr.join(days, "joined.zarr")
    assert nczarr.digest("all.zarr") == nczarr.digest("joined.zarr")
    assert main(["check", "--data", "all.zarr"]) == 0


numbers = itertools.count()


@pytest.mark.s3
@pytest.mark.parametrize(("backend", "wait"), [("obstore", 0), ("s3fs", 60)])
@pytest.mark.parametrize("chunk", [4, 3], ids=["whole chunks", "parts of chunks"])
def test_regions_of_an_object_store_may_share_chunks(
    s3_server: dict[str, str], days: list[str], backend: str, wait: float, chunk: int
) -> None:
    """Conditional writes let all in; without them, the writers of parts wait for each other."""
    url, options = f"s3://test/job-arrays/{next(numbers)}.zarr", {"backend": backend}
    nczarr.copy(days[0], url, template={"time": 24}, chunks=f"time={chunk}", target_options=options)
    words = ("--wait", str(wait), "--storage-option", f"backend={backend}")
    tasks = at_once(lambda n: programs.command("append", "-q", days[n], url, "--region", place(n), *words), 4)
    assert [(task.returncode, task.stderr) for task in tasks] == [(0, "")] * 4
    with nczarr.Dataset(url, storage_options=options) as found:
        assert found["time"][:16].tolist() == [6.0 * n for n in range(16)]
        assert found["temp"][:16, 0].tolist() == pytest.approx([n // 4 + n % 4 * 0.05 for n in range(16)])
        assert found["temp"][16:].mask.all()
    with open_store(url, "r", options) as store:
        assert not [key for key in store.list() if key.startswith(".nczarr")]


@pytest.mark.s3
def test_a_part_of_a_chunk_excludes_writers_that_keep_chunks_in_memory(
    s3_server: dict[str, str], days: list[str]
) -> None:
    url, region = f"s3://test/job-arrays/{next(numbers)}.zarr", {"time": slice(4, 8)}
    nczarr.join(days, url)
    before = nczarr.digest(url)
    with nczarr.Dataset(url, "a"), pytest.raises(LockedError, match="wait=60 waits a minute"):
        nczarr.append(days[1], url, region=region)
    with nczarr.Dataset(url, "a", shared=True) as dataset:
        dataset["temp"][5] = 7
        dataset.sync()
        nczarr.append(days[2], url, region={"time": slice(8, 12)})
        for refused in (lambda: nczarr.Dataset(url, "a"), lambda: nczarr.append(day(DAYS), url)):
            with pytest.raises(LockedError, match=r"writes a region.*nczarr clean --force"):
                refused()
    nczarr.append(days[1], url, region=region)
    assert nczarr.digest(url) == before


@pytest.mark.s3
def test_the_mark_of_a_killed_task_goes_where_it_can_be_told(
    s3_server: dict[str, str], days: list[str]
) -> None:
    url = f"s3://test/job-arrays/{next(numbers)}.zarr"
    nczarr.join(days, url, chunks="time=3")
    here = programs.run(
        "-c", "from nczarr.system.atomic import new_writer; print(new_writer())"
    ).stdout.strip()
    for writer in (here, "00000000-1-0-0"):
        with open_store(url, "r+") as store:
            store.set(f"{BESIDE}/{writer}", b"")
        nczarr.append(days[0], url, region={"time": slice(0, 4)})  # others like it are not kept out
        if writer != here:  # a process on another machine may be alive
            with pytest.raises(LockedError, match="nczarr clean --force"):
                nczarr.append(day(DAYS), url)
            assert main(["clean", "--force", url]) == 0
        nczarr.append(day(DAYS + (writer != here)), url)
        with open_store(url, "r") as store:
            assert not [key for key in store.list() if key.startswith(".nczarr")]


@pytest.mark.s3
def test_a_server_that_ignores_conditions_lets_one_writer_of_parts_in(
    s3_server: dict[str, str], days: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = S3Proxy(s3_server["AWS_ENDPOINT_URL"])
    proxy.dropped = frozenset({"if-match"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    url = f"s3://test/job-arrays/{next(numbers)}.zarr"
    nczarr.copy(days[0], url, template={"time": 24}, chunks="time=3")
    with nczarr.Dataset(url, "a", shared=True) as dataset:
        dataset["temp"][0:1] = 7
        dataset.sync()
        with pytest.raises(LockedError):
            nczarr.append(days[1], url, region={"time": slice(4, 8)})
    nczarr.append(days[1], url, region={"time": slice(4, 8)})
    with nczarr.Dataset(url) as found:
        assert found["temp"][:8, 1].count() == 5


@pytest.mark.s3
@pytest.mark.parametrize("place", ["memory", "s3"])
def test_no_exchange_of_a_value_is_lost(place: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("obstore")
    from obstore.store import MemoryStore as Client

    if place == "s3":
        request.getfixturevalue("s3_server")
        store = open_store(f"s3://test/job-arrays/{next(numbers)}.zarr", "w", {"backend": "obstore"})
    else:
        store = ObstoreStore(Client(), writable=True)
    assert store.exchanges

    def count(_: int) -> None:
        for _ in range(5):
            store.exchange("k", lambda old: str(int(old or b"0") + 1).encode())

    at_once(count, 6)
    assert store.get("k") == b"30"
    assert list(store.list()) == ["k"]


def test_days_that_are_there_are_replaced_at_the_same_time(days: list[str]) -> None:
    nczarr.join(days, "all.zarr", chunks="time=5")
    before = nczarr.digest("all.zarr")
    for name in days:
        with netCDF4.Dataset(name, "a") as file:
            file["temp"][:] += 100
    at_once(lambda n: nczarr.append(days[n], "all.zarr", replace=True))
    nczarr.join(days, "joined.zarr")
    assert nczarr.digest("all.zarr") == nczarr.digest("joined.zarr") != before
    nczarr.append(day(DAYS, steps=6), "all.zarr", replace=True)  # the dataset grows: alone
    nczarr.append(day(DAYS), "all.zarr", replace=True)
    with nczarr.Dataset("all.zarr") as found:
        assert found["time"][-6:].tolist() == [24 * DAYS + 6 * n for n in range(6)]


def test_a_region_is_written_beside_writers_of_values_and_no_others(days: list[str]) -> None:
    nczarr.join(days, "all.zarr")
    region = {"time": slice(4, 8)}
    with nczarr.Dataset("all.zarr", "a", shared=True) as other:
        nczarr.append(days[1], "all.zarr", region=region)
        other["temp"][8:12] = 7
        with pytest.raises(LockedError, match=r"wait=60 waits a minute"):  # it makes the dataset longer
            nczarr.append(day(DAYS), "all.zarr")
    with nczarr.Dataset("all.zarr", "a"):
        with pytest.raises(LockedError, match=r"wait=60 waits a minute"):
            nczarr.append(days[1], "all.zarr", region=region)
        with pytest.raises(LockedError, match=r"for longer than 0\.1 s"):
            nczarr.append(days[1], "all.zarr", region=region, wait=0.1)
    with nczarr.Dataset("all.zarr") as found:
        assert (found["temp"][8:12] == 7).all()


def test_a_region_of_a_dataset_with_a_record_or_a_digest_changes_these_alone(days: list[str]) -> None:
    nczarr.join(days[:2], "recorded.zarr", record_sources=True)
    nczarr.copy(days[0], "digest.zarr", digest=True)
    for target in ("recorded.zarr", "digest.zarr"):
        with nczarr.Dataset(target, "a", shared=True), pytest.raises(LockedError):
            nczarr.append(days[0], target, region={"time": slice(0, 4)})
        nczarr.append(days[0], target, region={"time": slice(0, 4)})
    with nczarr.Dataset("digest.zarr") as found:
        assert "nczarr_sha256" not in found.ncattrs()


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ({"time": slice(0, 4)}, "has 2026-10-01 00:00 at the index 0 along /time, and the source 2026-10-02"),
        ({"time": slice(4, 9)}, "the region has 5 steps, and the sources have 4"),
        ({"time": slice(8, None)}, "the region has 16 steps, and the sources have 4"),
        ({"time": slice(24, 28)}, "the dimension has the length 24"),
        ({"time": slice(-4, None)}, "the dimension has the length 24"),
        ({"time": slice(0, 8, 2)}, "not a range of indices"),
        ({"time": slice("2026-10-01", "2026-10-02")}, "not a range of indices"),
        ({"time": 4}, "not a range of indices"),
        ({"time": slice(4, 8), "lat": slice(0, 5)}, "not a range of indices along one dimension"),
        ({"day": slice(0, 4)}, "there is no such dimension"),
    ],
)
def test_a_wrong_place_is_refused_before_the_first_byte(
    days: list[str], region: dict[str, Any], message: str
) -> None:
    nczarr.join(days, "all.zarr")
    before = nczarr.digest("all.zarr")
    with pytest.raises(UnsupportedError, match=message):
        nczarr.append(days[1], "all.zarr", region=region)
    assert nczarr.digest("all.zarr") == before


def test_a_region_is_written_again_after_a_task_that_ended_early(days: list[str]) -> None:
    """Some of the steps are there, the rest is unwritten."""
    nczarr.copy(days[0], "all.zarr", template={"time": 24})
    with nczarr.Dataset("all.zarr", "a") as dataset:
        dataset["time"][4:6] = [24.0, 30.0]
        dataset["temp"][4:5] = 99
    nczarr.append(days[1], "all.zarr", region={"time": slice(4, 8)})
    with nczarr.Dataset("all.zarr") as found:
        assert found["time"][4:8].tolist() == [24, 30, 36, 42]
        assert found["temp"][4:8, 0].tolist() == pytest.approx([1, 1.05, 1.10, 1.15])
        assert found["temp"][:4].mask.all()


def test_several_files_fill_a_region_together(days: list[str]) -> None:
    nczarr.copy(days[0], "all.zarr", template={"time": 24})
    for first in (12, 0):
        part = days[first // 4 : first // 4 + 3]
        assert main(["append", "-q", *part, "all.zarr", "--region", f"time={first}:{first + 12}"]) == 0
    nczarr.join(days, "joined.zarr")
    assert nczarr.digest("all.zarr") == nczarr.digest("joined.zarr")


NAMES = """netcdf a {{
dimensions: run = {0} ; letter = 3 ;
variables: char run(run, letter) ; int v(run) ;
data: run = {1} ; v = {2} ; }}"""


def test_a_coordinate_of_names_guards_its_region_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.cdl").write_text(NAMES.format(1, '"abc"', 1))
    Path("b.cdl").write_text(NAMES.format(1, '"def"', 2))
    assert main(["gen", "a.cdl", "all.zarr", "--template", "run=2"]) == 0
    for number, name in enumerate("ab"):
        region = f"run={number}:{number + 1}"
        assert main(["append", "-q", f"{name}.cdl", "all.zarr", "--region", region]) == 0
    assert main(["append", "-q", "a.cdl", "all.zarr", "--region", "run=1:2"]) == 1
    assert "at the index 1 along /run" in capsys.readouterr().err
    with nczarr.Dataset("all.zarr") as found:
        assert found["v"][:].tolist() == [1, 2]


def test_plain_zarr_takes_regions_of_its_fixed_dimensions(days: list[str]) -> None:
    nczarr.copy(days[0], "all.zarr", template={"time": 24}, layout="zarr-v3")
    at_once(lambda n: nczarr.append(days[n], "all.zarr", region={"time": slice(4 * n, 4 * n + 4)}))
    xr = pytest.importorskip("xarray")
    with xr.open_zarr("all.zarr", decode_times=False) as found:
        assert found["time"].values.tolist() == [6.0 * n for n in range(24)]


def test_a_file_takes_no_region(days: list[str]) -> None:
    with pytest.raises(UnsupportedError, match=r"only a Zarr dataset.*replace=True"):
        nczarr.append(days[1], days[0], region={"time": slice(0, 4)})


TEMPLATE = """netcdf a {
dimensions: time = UNLIMITED ; lat = 5 ;
variables:
  double time(time) ; time:units = "hours since 2026-10-01" ;
  float lat(lat) ;
  float temp(time, lat) ;
data: lat = 0, 1, 2, 3, 4 ; }"""


def test_a_template_stores_the_values_that_all_tasks_share_and_no_others(days: list[str]) -> None:
    Path("a.cdl").write_text(TEMPLATE)
    options: Sequence[dict[str, Any]] = [{}, {"shards": "time=12", "chunks": "time=4"}]
    for number, how in enumerate(options):
        target = f"{number}.zarr"
        nczarr.copy("a.cdl" if number else days[0], target, template={"time": 24}, **how)
        assert not list(Path(target).glob("t*/c/*"))
        with nczarr.Dataset(target) as found:
            assert found["temp"].shape == (24, 5)
            assert found.dimensions["time"].isunlimited()
            assert found["lat"][:].tolist() == [0, 1, 2, 3, 4]
            assert found["time"][:].mask.all()
        at_once(lambda n, to=target: nczarr.append(days[n], to, region={"time": slice(4 * n, 4 * n + 4)}))
    assert nczarr.digest("0.zarr") == nczarr.digest("1.zarr")


@pytest.mark.parametrize("length", [-1, 2.5, float("nan")])
def test_a_template_has_a_whole_length(days: list[str], length: float) -> None:
    with pytest.raises(UnsupportedError, match="not a whole number"):
        nczarr.copy(days[0], "all.zarr", template={"time": length})
    assert not Path("all.zarr").exists()


def test_a_template_of_all_sources_has_what_each_of_them_adds(days: list[str]) -> None:
    for name in days[3:]:
        with netCDF4.Dataset(name, "a") as file:
            file["temp"].comment = "a new instrument"
    nczarr.join(days, "all.zarr", template={"time": 24})
    at_once(lambda n: nczarr.append(days[n], "all.zarr", region={"time": slice(4 * n, 4 * n + 4)}))
    nczarr.join(days, "joined.zarr")
    assert nczarr.digest("all.zarr") == nczarr.digest("joined.zarr")
    nczarr.append(day(DAYS), "all.zarr")
    with nczarr.Dataset("all.zarr") as found:
        assert found["time"][:].tolist() == [6.0 * n for n in range(28)]


@pytest.mark.s3
@pytest.mark.parametrize("backend", ["obstore", "s3fs"])
def test_a_missing_target_is_told_without_the_marks_of_the_writer(
    s3_server: dict[str, str], days: list[str], backend: str
) -> None:
    for how in ({}, {"replace": True}, {"region": {"time": slice(0, 4)}}):
        with pytest.raises(DatasetNotFoundError, match="the store is empty") as caught:
            nczarr.append(days[0], "s3://test/none.zarr", target_options={"backend": backend}, **how)
        assert ".nczarr" not in str(caught.value)


# --- the schedulers of the page

PAGE = (Path(__file__).parents[2] / "docs/howto/job-arrays.md").read_text("utf-8")


def section(title: str) -> str:
    """The first block of code of a section, that of a shell or YAML."""
    text = PAGE.split(f"## {title}\n", 1)[1]
    return text.split("```", 2)[1].partition("\n")[2]


def job_of(scheduler: str) -> tuple[str, str]:
    """The command with which a scheduler starts a job, and the variable with the number of the job."""
    variable = {"Slurm": "SLURM_ARRAY_TASK_ID", "Kubernetes": "JOB_COMPLETION_INDEX", "MPI": "PMI_RANK"}[
        scheduler
    ]
    (command,) = re.findall(r"""["'](sh job\.sh [^"']*)["']""", section(scheduler))
    return command, variable


@pytest.mark.parametrize("scheduler", ["Slurm", "Kubernetes", "MPI"])
def test_the_job_of_the_page_fills_the_dataset_as_each_scheduler_starts_it(
    days: list[str], scheduler: str
) -> None:
    exec(
        PAGE.split("The job is the same everywhere.", 1)[1].split("```python\n", 1)[1].split("```", 1)[0], {}
    )
    words = shlex.split(re.findall(r"nczarr (copy 0\.nc [^'\n]*)", section("Slurm"))[0])
    assert main([*words, "-q"]) == 0
    command, variable = job_of(scheduler)
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(number: int) -> int:
        environment = {**os.environ, variable: str(number), "PATH": here}
        return subprocess.run(["sh", "-c", command], env=environment, check=False).returncode

    assert at_once(run) == [0] * DAYS
    nczarr.join(days, "joined.zarr")
    assert nczarr.digest("all.zarr") == nczarr.digest("joined.zarr")

"""Test digests, comparisons, the plan of a copy, and the resumption of killed copies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import zarr as zarr_python
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.convert import Report, ValueDifference, diff, open_source
from nczarr.convert.values import resume
from nczarr.convert.values.resume import MANIFEST
from nczarr.convert.verify.digests import bands
from nczarr.errors import DatasetExistsError, NCZarrError, UnsupportedError
from nczarr.mapping.plain.write import ORDER
from nczarr.model import DOUBLE, FLOAT, INT, Dataset, Dimension, MemorySource, Storage, Variable

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = DATA / "example.nc"


# --- digest


@pytest.mark.parametrize("nc", sorted(DATA.glob("*.nc")), ids=lambda p: p.name)
def test_the_digest_is_that_of_the_meaning(nc: Path, tmp_path: Path) -> None:
    wanted = nczarr.digest(nc)
    nczarr.copy(nc, tmp_path / "a.zarr", chunk_bytes=512, compression="none", layout="nczarr-v3")
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "a.cdl")
    assert nczarr.digest(tmp_path / "a.zarr") == wanted
    if nc.name not in ("names.nc", "bits.nc", "foreign.nc"):
        assert nczarr.digest(tmp_path / "a.cdl") == wanted


def test_the_digest_sees_every_change(tmp_path: Path) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    before = nczarr.digest(tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/ocean/salt"][0, 0, 0] = 1.5
    after = nczarr.digest(tmp_path / "a.zarr")
    changed = {fqn for fqn in before.variables if before.variables[fqn] != after.variables[fqn]}
    assert changed == {"/ocean/salt"}
    assert before.dataset != after.dataset
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset.title = "another"
    assert nczarr.digest(tmp_path / "a.zarr").variables == after.variables
    assert nczarr.digest(tmp_path / "a.zarr").dataset != after.dataset


def test_a_stored_digest_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "-q", "--digest", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    assert main(["digest", "--check", str(tmp_path / "a.zarr")]) == 0
    assert main(["digest", "--check", str(EXAMPLE)]) == 1
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/lat"][0] = 0
    assert main(["digest", "--check", str(tmp_path / "a.zarr")]) == 1
    assert "stored digest" in capsys.readouterr().err
    assert main(["digest", "--json", "--variables", str(EXAMPLE)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["sha256"] == nczarr.digest(EXAMPLE).dataset


@given(st.lists(st.integers(0, 6), max_size=4), st.integers(1, 40), st.integers(1, 5))
def test_bands_are_in_row_major_order(shape: list[int], limit: int, chunk: int) -> None:
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    pieces = [array[region].reshape(-1) for region in bands(tuple(shape), 1, (chunk,) * len(shape), limit)]
    np.testing.assert_array_equal(np.concatenate([*pieces, []]), array.reshape(-1))


# --- diff


def one(values: np.ndarray) -> Dataset:
    data = MemorySource(values)
    return Dataset(
        "d", dimensions=(Dimension("x", len(values)),), variables=(Variable("v", DOUBLE, ("/x",), data=data),)
    )


numbers = st.floats(allow_nan=True, width=64)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), st.sampled_from([0.0, 1e-9, 0.5]))
def test_diff_counts_as_numpy_does(pairs: list[tuple[float, float]], rtol: float) -> None:
    x, y = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found = list(diff(one(x), one(y), rtol=rtol, places=4))
    with np.errstate(all="ignore"):
        wanted = (
            (x.view("u8") != y.view("u8"))
            if not rtol
            else ~np.isclose(x, y, rtol=rtol, atol=0, equal_nan=True)
        )
    if not wanted.any():
        assert found == []
        return
    (difference,) = found
    assert isinstance(difference, ValueDifference)
    assert difference.count == wanted.sum()
    assert [p[0][0] for p in difference.places] == np.flatnonzero(wanted)[:4].tolist()
    assert difference.to_json()["count"] == difference.count


def test_diff_speaks_of_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    with nczarr.Dataset(tmp_path / "a.zarr", "a") as dataset:
        dataset["/lat"][2:4] = dataset["/lat"][2:4] + 0.25
    assert main(["diff", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 1
    assert "2 of 18 values differ, by 0.25 at most" in capsys.readouterr().out
    assert main(["diff", "--atol", "0.3", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    assert main(["diff", "--json", "--places", "9", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert [p["index"] for p in found["places"]] == [[2], [3]]


CHANGES: list[dict[str, Any]] = [
    {"only": "slp"},
    {"exclude": "slp"},
    {"select": {"time": 0}},
    {"rename": {"/lat": "latitude"}},
    {"fixed": True},
    {"unlimited": "lat"},
    {"quantize": "3"},
]


@pytest.mark.parametrize("options", CHANGES, ids=str)
@pytest.mark.parametrize("target", ["b.zarr", "b.nc"])
def test_the_digest_of_another_dataset_is_not_kept(
    tmp_path: Path, options: dict[str, Any], target: str
) -> None:
    """What checks it later would take it for damage."""
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", digest=True)
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "whole.nc")
    assert nczarr.digest(tmp_path / "whole.nc").stored == nczarr.digest(EXAMPLE).dataset
    nczarr.copy(tmp_path / "a.zarr", tmp_path / target, **options)
    assert nczarr.digest(tmp_path / target).stored is None
    nczarr.copy(tmp_path / "a.zarr", tmp_path / "c.zarr", digest=True, **options)
    found = nczarr.digest(tmp_path / "c.zarr")
    assert found.stored == found.dataset == nczarr.digest(tmp_path / target).dataset


@pytest.mark.parametrize("target", ["a.zarr", "a.nc", "classic.nc", "memory://digests/a.nc"])
@pytest.mark.parametrize("replace", [False, True])
def test_what_is_appended_to_has_no_old_digest(tmp_path: Path, target: str, replace: bool) -> None:
    text = "netcdf d {{ dimensions: t = UNLIMITED; variables: int t(t); data: t = {}; }}"
    out = target if "://" in target else str(tmp_path / target)
    options: dict[str, Any] = {"format": "classic"} if target == "classic.nc" else {}
    nczarr.copy(cdl.loads(text.format("0, 1")), out, digest=True, overwrite=True, **options)
    assert nczarr.digest(out).stored
    nczarr.append(cdl.loads(text.format("2, 3")), out, replace=replace)
    assert nczarr.digest(out).stored is None
    assert list(nczarr.diff(cdl.loads(text.format("0, 1, 2, 3")), out)) == []
    joined = tmp_path / "joined.zarr"
    nczarr.copy(cdl.loads(text.format("0")), tmp_path / "1.zarr", digest=True)
    nczarr.copy(cdl.loads(text.format("1")), tmp_path / "2.zarr", digest=True)
    nczarr.join([tmp_path / "1.zarr", tmp_path / "2.zarr"], joined, along="t")
    assert nczarr.digest(joined).stored is None


def values_of(kind: str, values: str) -> Dataset:
    count = values.count(",") + 1
    return cdl.loads(f"netcdf d {{ dimensions: x = {count}; variables: {kind} v(x); data: v = {values}; }}")


@pytest.mark.parametrize(
    ("kind", "left", "right", "options", "expected"),
    [
        # Double precision has no 2⁵³ + 1.
        ("int64", "9007199254740993", "9007199254740992", {}, (1, 1.0)),
        ("int64", "9007199254740993", "9007199254740992", {"atol": 0.5}, (1, 1.0)),
        ("int64", "9007199254740993", "9007199254740992", {"atol": 1.0}, None),
        ("uint64", "18446744073709551615", "0", {"rtol": 0.5}, (1, 18446744073709551615.0)),
        ("byte", "-128, 127", "127, -128", {"atol": 254.5}, (2, 255.0)),
        ("byte", "-128, 127", "127, -128", {"atol": 255.0}, None),
        # NaN and infinity are no distance from anything.
        ("float", "NaN, Infinity", "1, -Infinity", {"rtol": 0.5}, (2, None)),
        ("float", "NaN, Infinity, 3", "1, -Infinity, 1", {}, (3, 2.0)),
        ("float", "NaN, Infinity", "NaN, Infinity", {"rtol": 0.5}, None),
        ("float", "0., -0.", "-0., 0.", {}, (2, 0.0)),
        ("float", "0., -0.", "-0., 0.", {"atol": 1e-9}, None),
    ],
)
def test_distances(kind: str, left: str, right: str, options: dict[str, float], expected: Any) -> None:
    found = list(diff(values_of(kind, left), values_of(kind, right), **options))
    if expected is None:
        assert found == []
        return
    (one,) = found
    assert isinstance(one, ValueDifference)
    assert (one.count, one.largest) == expected
    json.dumps(one.to_json(), allow_nan=False)


@pytest.mark.parametrize("option", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_tolerance_is_a_number(option: str, value: float) -> None:
    with pytest.raises(UnsupportedError, match=f"{option}="):
        list(diff(EXAMPLE, EXAMPLE, **{option: value}))


# --- the plan


def test_the_plan_is_what_is_written(tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": "lat=3", "shards": {"lat": 18}, "compression": "zstd:2"}
    report = Report()
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", dry_run=True, report=report, **options)
    assert list(tmp_path.iterdir()) == []
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr", **options)
    group = zarr_python.open_group(tmp_path / "a.zarr", mode="r")
    for planned in report.variables:
        array = group[planned.fqn.lstrip("/")]
        assert isinstance(array, zarr_python.Array)
        assert array.chunks == planned.chunks
        assert array.shards == planned.shards
    assert {v.fqn for v in report.variables} == {f"/{a}" for a, node in group.members(max_depth=None)
                                                 if isinstance(node, zarr_python.Array)}  # fmt: skip


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "--json", str(EXAMPLE), str(tmp_path / "a.zarr")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["sources"] == 1
    assert said["bytes_in"] == EXAMPLE.stat().st_size
    assert said["bytes_out"] == sum(p.stat().st_size for p in (tmp_path / "a.zarr").rglob("*") if p.is_file())


def test_what_machines_read_is_json_in_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(status: int, *words: Any, verb: str = "copy") -> dict[str, Any]:
        assert main([verb, "-q", "--json", *map(str, words)]) == status
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    first, second, out = tmp_path / "1.nc", tmp_path / "2.nc", tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, first, select={"time": slice(0, 2)})
    nczarr.copy(EXAMPLE, second, select={"time": slice(2, 4)})
    assert said(0, first, out)["sources"] == 1
    added = said(0, second, out, verb="append")
    assert (added["sources"], added["bytes_in"]) == (1, second.stat().st_size)
    assert added["bytes_of_values"] > 0
    assert said(1, second, out, verb="append")["error"]["hint"] == "--replace writes over them"
    error = said(1, first, out, "--dry-run")["error"]
    assert (error["type"], error["path"]) == ("DatasetExistsError", str(out))
    assert said(1, tmp_path / "b.nc", out)["error"]["path"] == str(tmp_path / "b.nc")
    assert said(1, first, tmp_path / "b.zarr", "-d", "time")["error"]["message"].startswith("-d time")
    assert said(1, out)["error"]["message"] == "the target is missing"
    assert (
        said(0, first, tmp_path / "a.json", "--virtual")["bytes_out"] == (tmp_path / "a.json").stat().st_size
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["copy", "-k", "nc4", "TARGET.zarr"], "-k: a Zarr dataset has no netCDF format"),
        (["copy", "-k", "nc4", "TARGET.cdl"], "-k: CDL text has no netCDF format"),
        (["append", "a.cdl"], "an append to CDL text is not possible"),
    ],
)
def test_options_of_other_targets_are_refused_by_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    nczarr.copy(EXAMPLE, "a.cdl")
    assert main([words[0], "-q", str(EXAMPLE), *words[1:]]) == 1
    assert said in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["a.cdl"]


def test_names_with_marks_of_urls_are_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "a b#c%20?é.nc"
    Path(source).write_bytes(EXAMPLE.read_bytes())
    for target in ("o ü#%41?.zarr", "o#1.nc", "o #.cdl", "#.zarr.zip", "[x]*.zarr"):
        nczarr.copy(source, target)
        assert list(nczarr.diff(source, target)) == []
        assert Path(target).exists()
    with nczarr.Dataset("o#1.nc", "a") as opened:
        opened.title = "another"
    assert netCDF4.Dataset("o#1.nc").title == "another"
    nczarr.copy(source, "b.zarr#mode=nczarr,file")
    assert Path("b.zarr").is_dir()


# --- resume


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty variables, each a block of its own."""
    path = tmp_path_factory.mktemp("large") / "large.nc"
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100_000)
        for i in range(60):
            file.createVariable(f"v{i}", "f8", ("x",), zlib=True, complevel=1)[:] = rng.random(100_000)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed_copies_go_on(large: Path, tmp_path: Path) -> None:
    nczarr.copy(large, tmp_path / "whole.zarr")
    out = tmp_path / "out.zarr"
    command = [sys.executable, "-m", "nczarr", "copy", "-q", "--resume", str(large), str(out)]
    kills = finished = 0
    written: dict[str, int] = {}
    dice = random.Random(7)
    while True:
        with subprocess.Popen(command) as child:
            end = time.monotonic() + dice.uniform(0.2, 3)
            # On a busy machine, the first copy may take longer to begin.
            while child.poll() is None and (time.monotonic() < end or not (out / MANIFEST).exists()):
                if (out / MANIFEST).exists() and (not kills or dice.random() < 0.02):
                    break
                time.sleep(0.002)
            if child.poll() is not None:
                assert child.returncode == 0
                break
            child.send_signal(signal.SIGKILL)
        kills += 1
        if not (out / MANIFEST).exists():
            continue
        listed = record_of(out)
        with pytest.raises(NCZarrError):  # nothing is visible before it is whole
            nczarr.Dataset(out)
        for line in listed:
            try:
                fqn = json.loads(line)[0]
            except ValueError:
                continue
            stamp = (out / fqn.strip("/") / "c" / "0").stat().st_mtime_ns
            assert written.setdefault(fqn, stamp) == stamp, f"{fqn} was written twice"
        assert len(listed) >= finished
        finished = len(listed)
        if kills > 40:
            subprocess.run(command, check=True)
            break
    assert kills
    assert contents(out) == contents(tmp_path / "whole.zarr")


def unfinished(source: Any, out: Path, **options: Any) -> None:
    """Leave what a killed copy leaves: a source that stops after some blocks stands for the kill."""

    class Stop(BaseException):
        pass

    class Ends:
        def start(self, total: int) -> None:
            self.count = 0

        def advance(self, count: int, fqn: str) -> None:
            self.count += 1
            if self.count == 5:
                raise Stop

        def finish(self) -> None:
            pass

    with pytest.raises(Stop):
        nczarr.copy(source, out, resume=True, progress=Ends(), workers=1, **options)


def test_an_interrupt_keeps_what_is_finished(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    unfinished(large, out)
    assert (out / MANIFEST).exists()
    with pytest.raises(NCZarrError):
        nczarr.Dataset(out)
    with pytest.raises(NCZarrError, match="resume="):
        nczarr.copy(large, out)
    done = [json.loads(line)[0] for line in record_of(out)]
    stamps = {fqn: (out / fqn[1:] / "c" / "0").stat().st_mtime_ns for fqn in done}
    damaged = done[0]
    (out / damaged[1:] / "c" / "0").write_bytes(b"nonsense")
    nczarr.copy(large, out, resume=True)
    assert list(nczarr.diff(large, out)) == []
    assert not (out / MANIFEST).exists()
    for fqn, stamp in stamps.items():
        assert ((out / fqn[1:] / "c" / "0").stat().st_mtime_ns == stamp) == (fqn != damaged)


@pytest.mark.parametrize("change", ["options", "source", "touched"])
def test_another_copy_is_not_gone_on_with(large: Path, tmp_path: Path, change: str) -> None:
    out, source = tmp_path / "out.zarr", tmp_path / "source.nc"
    source.write_bytes(large.read_bytes())
    unfinished(source, out)
    before = contents(out)
    options: dict[str, Any] = {"compression": "none"} if change == "options" else {}
    if change == "touched":
        os.utime(source, ns=(1, 1))
    with pytest.raises(UnsupportedError, match="overwrite=True starts a new copy"):
        nczarr.copy(EXAMPLE if change == "source" else source, out, resume=True, **options)
    assert contents(out) == before
    nczarr.copy(EXAMPLE, out, overwrite=True)
    assert list(nczarr.diff(EXAMPLE, out)) == []


def test_values_of_a_zarr_source_that_have_changed_are_noticed(large: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source.zarr", tmp_path / "out.zarr"
    nczarr.copy(large, source)
    unfinished(source, out, compression="none")
    before = contents(out)
    with nczarr.Dataset(source, "a") as opened:
        opened["v0"][0] = -1.0
    with pytest.raises(UnsupportedError, match="has changed"):
        nczarr.copy(source, out, resume=True, compression="none")
    assert contents(out) == before


def uncompressed(path: Path, factor: float) -> None:
    """A file that always has the same size and metadata."""
    rng = np.random.default_rng(5)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100_000)
        for i in range(12):
            file.createVariable(f"v{i}", "f8", ("x",))[:] = rng.random(100_000) * factor


def record_of(out: Path) -> list[str]:
    """The lines of finished blocks; each process begins a part of the record."""
    parts = sorted(out.glob(f"{MANIFEST}*"), key=lambda path: path.stat().st_mtime_ns)
    return [line for part in parts for line in part.read_text().splitlines()[1:]]


def blocks_in(out: Path) -> dict[str, int]:
    """When the values of the finished blocks were written."""
    done = [json.loads(line)[0] for line in record_of(out)]
    return {fqn: (out / fqn[1:] / "c" / "0").stat().st_mtime_ns for fqn in done}


@pytest.mark.skipif(os.name == "nt", reason="the time of a change of status is POSIX's")
@pytest.mark.parametrize("change", ["values", "status"])
def test_a_source_whose_time_was_set_back_is_compared(tmp_path: Path, change: str) -> None:
    """Size and time of change are as before; when the system saw the file touched cannot be set."""
    source, out = tmp_path / "a.nc", tmp_path / "out.zarr"
    uncompressed(source, 1)
    before = source.stat()
    unfinished(source, out)
    done = blocks_in(out)
    if change == "values":
        uncompressed(source, 2)
    else:
        source.chmod(0o600)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_size == before.st_size
    nczarr.copy(source, out, resume=True)
    assert list(nczarr.diff(source, out)) == []
    kept = [(out / fqn[1:] / "c" / "0").stat().st_mtime_ns == stamp for fqn, stamp in done.items()]
    assert kept == [change == "status"] * len(done)


@pytest.mark.parametrize("kind", ["nc", "zarr"])
@pytest.mark.parametrize("tags", [True, False])
def test_a_source_behind_a_url_that_has_changed_is_noticed(
    tmp_path: Path, kind: str, tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tags tell it; where there are none its values are compared."""
    made, out = tmp_path / "a.nc", tmp_path / "out.zarr"
    source = f"memory://changing-{tags}/a.{kind}"
    plain = resume._tags
    monkeypatch.setattr(resume, "_tags", lambda *given: plain(*given) if tags else None)

    def put(factor: float) -> None:
        uncompressed(made, factor)
        nczarr.copy(made, source, overwrite=True)

    put(1)
    unfinished(source, out)
    put(2)
    nczarr.copy(source, out, resume=True)
    assert list(nczarr.diff(made, out)) == []


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_a_source_behind_a_url_that_has_not_changed_is_not_read_again(tmp_path: Path, kind: str) -> None:
    out, source = tmp_path / "out.zarr", f"memory://constant/a.{kind}"
    uncompressed(tmp_path / "a.nc", 1)
    nczarr.copy(tmp_path / "a.nc", source, overwrite=True)
    unfinished(source, out)
    done = blocks_in(out)
    read: list[str] = []

    class Reads:
        def start(self, total: int) -> None:
            pass

        def advance(self, count: int, fqn: str) -> None:
            read.append(fqn)

        def finish(self) -> None:
            pass

    with nczarr.convert.open_source(source) as opened:
        mark = resume.fingerprint_of(opened, [source], "", None)
        assert mark.touched
        assert mark == resume.fingerprint_of(opened, [source], "", None)
    nczarr.copy(source, out, resume=True, progress=Reads())
    assert not {*read} & {*done}
    assert {*read} | {*done} == {f"/v{i}" for i in range(12)}


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_pipe_is_a_source_that_nothing_else_tells_of(tmp_path: Path) -> None:
    """A pipe is neither a file of some size nor a directory of files."""
    pipe, out = tmp_path / "a.cdl", tmp_path / "out.zarr"
    os.mkfifo(pipe)
    text = "netcdf a { dimensions: x = 3; variables: int v(x); data: v = 1, 2, 3; }"
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    nczarr.copy(pipe, out, resume=True)
    writer.join()
    with nczarr.Dataset(out) as copied:
        assert copied["v"][:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"layout": "zarr-v2"}, {"verify": True, "digest": True}])
def test_what_is_finished_is_compared_and_left(tmp_path: Path, options: dict[str, Any]) -> None:
    """As after a kill while the copy was verified, or of one file of many."""
    (tmp_path / "one").mkdir()
    (tmp_path / "out").mkdir()
    nczarr.copy(EXAMPLE, tmp_path / "out", **options)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*")}
    other = tmp_path / "other.nc"
    nczarr.copy(EXAMPLE, other, variables="slp")
    report = Report()
    nczarr.copy([EXAMPLE, other], tmp_path / "out", resume=True, report=report, **options)
    assert (report.sources, report.finished_before) == (2, 1)
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / f"{EXAMPLE.stem}.zarr").rglob("*")}
    assert all(before[p] == after[p] for p in after)


@pytest.mark.parametrize("change", ["values", "chunks", "source", "layout"])
def test_what_is_finished_and_something_else_is_refused(tmp_path: Path, change: str) -> None:
    out = tmp_path / "out.zarr"
    nczarr.copy(EXAMPLE, out)
    options: dict[str, Any] = {"chunks": {"chunks": "lat=3"}, "layout": {"layout": "draft-2019"}}.get(
        change, {}
    )
    source = EXAMPLE
    if change == "values":
        with nczarr.Dataset(out, "a") as there:
            there["atmosphere/slp"].set_auto_maskandscale(False)
            there["atmosphere/slp"][0, 0, 0] = 7
    if change == "source":
        source = tmp_path / "other.nc"
        nczarr.copy(EXAMPLE, source, select={"time": slice(0, 2)})
    before = contents(out)
    with pytest.raises(DatasetExistsError, match="overwrite=True"):
        nczarr.copy(source, out, resume=True, **options)
    assert contents(out) == before


@pytest.mark.parametrize("layout", ["zarr-v2", "zarr-v3", "nczarr-v2"])
def test_verify_knows_what_a_layout_does_not_say(tmp_path: Path, layout: str) -> None:
    """Of dimensions their order; of types with words of their own the values in other words."""
    text = """netcdf d {
types: int(*) row; compound pair { int a; int b; };
dimensions: b = 2; a = 3; t = UNLIMITED;
variables: int v(a, b); row r(b); pair p(a); int w(t, a);
data: v = 1, 2, 3, 4, 5, 6; r = {1}, {2, 3}; p = {1, 2}, {3, 4}, {5, 6}; w = 1, 2, 3; }"""
    options = {"lossy": True} if layout == "nczarr-v2" else {}
    assert nczarr.copy(cdl.loads(text), tmp_path / "a.zarr", layout=layout, verify=True, **options)
    plain = "netcdf d { dimensions: b = 2; a = 3; variables: int v(a, b); data: v = 1, 2, 3, 4, 5, 6; }"
    # Without consolidated metadata plain Zarr has the order of its listing.
    losses = () if layout == "nczarr-v2" else (ORDER,)
    assert nczarr.copy(cdl.loads(plain), tmp_path / "b.zarr", layout=layout, verify=True) == losses


def test_verify_of_what_was_lossy_compares_values(tmp_path: Path) -> None:
    class Fickle(MemorySource):
        def read(self, region: Any, out: np.ndarray | None = None) -> np.ndarray:
            self.array[...] += 1
            return super().read(region, out)

    dimensions = (Dimension("x", 2, unlimited=True),)
    variables = (Variable("v", INT, ("/x",), data=Fickle(np.zeros(2, "i4"))),)
    source = Dataset("d", dimensions=dimensions, variables=variables)
    with pytest.raises(NCZarrError, match="differs"):
        nczarr.copy(source, tmp_path / "out.zarr", layout="zarr-v3", verify=True)


def test_verify_of_text_takes_every_nan_for_the_same(tmp_path: Path) -> None:
    values = np.array([0x7FC00001, 0xFFC00000], "u4").view("f4")
    source = Dataset(
        "d",
        dimensions=(Dimension("x", 2),),
        variables=(Variable("v", FLOAT, ("/x",), data=MemorySource(values)),),
    )
    nczarr.copy(source, tmp_path / "a.cdl", verify=True)
    nczarr.copy(source, tmp_path / "a.zarr", verify=True)
    with open_source(tmp_path / "a.zarr") as found:
        assert found.all_variables["/v"].data.read((slice(0, 2, 1),)).tobytes() == values.tobytes()


def test_a_file_cannot_be_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="resume="):
        nczarr.copy(EXAMPLE, tmp_path / "a.nc", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_memory_bound_is_kept(tmp_path: Path) -> None:
    """Blocks under way are never more than the bound, both forms of each counted."""
    alive = [0, 0]

    class Counted(MemorySource):
        def read(self, region: Any, out: Any = None) -> np.ndarray:
            values = super().read(region, out)
            alive[0] = max(alive[0], values.nbytes)
            return values

    x = np.zeros((64, 1 << 17))
    v = Variable("v", DOUBLE, ("/t", "/x"), storage=Storage("chunked", (4, 1 << 17)), data=Counted(x))
    dimensions = (Dimension("t", 64), Dimension("x", 1 << 17))
    nczarr.copy(Dataset("d", dimensions=dimensions, variables=(v,)), tmp_path / "a.zarr", memory="20MiB")
    assert alive[0] <= 10 << 20


@pytest.mark.parametrize("compression", [None, "zstd:3", "gzip:5", "none"])
def test_checksums_in_nczarr_v2_are_those_of_netcdf_c(tmp_path: Path, compression: str | None) -> None:
    options = {} if compression is None else {"compression": compression}
    nczarr.copy(
        EXAMPLE,
        tmp_path / "a.zarr",
        layout="nczarr-v2",
        checksum=True,
        variables="slp",
        lossy=True,
        **options,
    )
    with (
        netCDF4.Dataset(EXAMPLE) as left,
        netCDF4.Dataset(f"file://{tmp_path}/a.zarr#mode=nczarr,file") as right,
    ):
        assert right["atmosphere/slp"].filters()["fletcher32"]
        np.testing.assert_array_equal(left["atmosphere/slp"][:], right["atmosphere/slp"][:])
    chunk = next(p for p in (tmp_path / "a.zarr" / "atmosphere" / "slp").iterdir() if p.name[0] != ".")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    with nczarr.Dataset(tmp_path / "a.zarr") as found, pytest.raises(NCZarrError, match="fletcher32"):
        found["atmosphere/slp"][:]

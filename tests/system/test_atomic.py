"""Test outputs: devices and pipes, links, and the temporary files of ended processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import nczarr
from nczarr.cli import main
from nczarr.mapping.dataset.maintenance import clean
from nczarr.system.atomic import (
    WriterState,
    is_partial,
    new_writer,
    partial_path,
    remove_partial_values,
    restore,
    writer_state,
)

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
COMMANDS = {"dump": ["dump", str(EXAMPLE), "-o"], "copy": ["copy", "-q", "--overwrite", str(EXAMPLE)]}
pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and devices of POSIX")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", [".cdl", ".nc"])
def test_links_are_followed(tmp_path: Path, command: str, suffix: str) -> None:
    there, link = tmp_path / "there" / f"x{suffix}", tmp_path / f"link{suffix}"
    there.parent.mkdir()
    link.symlink_to(there)
    for _ in range(2):  # the file is not there, and is
        assert main([*COMMANDS[command], str(link)]) == 0
        assert link.is_symlink()
        assert there.stat().st_size > 1000
        there.chmod(0o640)
    assert stat.S_IMODE(there.stat().st_mode) == 0o640
    assert len(os.listdir(there.parent)) == 1
    (tmp_path / "loop.cdl").symlink_to(tmp_path / "loop.cdl")
    assert main([*COMMANDS[command], str(tmp_path / "loop.cdl")]) == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", [".cdl", ".nc"])
def test_pipes_are_written_to(tmp_path: Path, command: str, suffix: str) -> None:
    plain, pipe = tmp_path / f"plain{suffix}", tmp_path / f"pipes{suffix}"
    assert main([*COMMANDS[command], str(plain)]) == 0
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert main([*COMMANDS[command], str(pipe)]) == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(read[0]) == plain.stat().st_size
    assert read[0][:4] == plain.read_bytes()[:4]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_devices_stay_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(EXAMPLE), "-o", "/dev/full"]) == 1
    assert "/dev/full: cannot write: No space left on device" in capsys.readouterr().err
    assert main(["dump", str(EXAMPLE), "-o", os.devnull]) == 0
    (tmp_path / "full.cdl").symlink_to("/dev/full")
    assert main(["copy", "-q", str(EXAMPLE), str(tmp_path / "full.cdl")]) == 1
    for device in ("/dev/full", os.devnull):
        assert stat.S_ISCHR(os.stat(device).st_mode)
    with (tmp_path / "log").open("a") as log:
        log.write("before\n")
        log.flush()
        command = [sys.executable, "-m", "nczarr", "dump", "-h", str(EXAMPLE), "-o", "/dev/stdout"]
        subprocess.run(command, stdout=log, check=True)
    assert (tmp_path / "log").read_text().startswith("before\nnetcdf example {")


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no file system in memory")
@pytest.mark.parametrize("name", ["a.nc", "a.cdl"])
def test_files_below_dev_are_files(name: str) -> None:
    """What takes the place of a file in memory is it alone, and is not written behind what was there."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        target = Path(folder, name)
        for _ in range(2):
            assert main([*COMMANDS["copy"], str(target)]) == 0
            assert list(nczarr.diff(EXAMPLE, target, ignore_attributes=["_NCProperties"])) == []
        nczarr.copy(EXAMPLE.with_name("classic.nc"), target, overwrite=True)
        assert list(nczarr.diff(EXAMPLE.with_name("classic.nc"), target)) == []
        assert os.listdir(folder) == [name]


@pytest.mark.slow
def test_standard_output_that_is_closed(tmp_path: Path) -> None:
    """The command ends quietly, and nothing goes into a file that got the number of standard output."""
    out = tmp_path / "out.zarr"
    for command, where in (
        (["tree"], []),
        (["dump", "-h"], []),
        (["info"], []),
        (["copy", "-q"], [str(out)]),
    ):
        words = [sys.executable, "-m", "nczarr", *command, str(EXAMPLE), *where]
        for close in (">&-", ">&- 2>&-", "| true"):
            script = f'"$@" {close}; exit "${{PIPESTATUS[0]}}"'
            done = subprocess.run(
                ["bash", "-c", script, "sh", *words], capture_output=True, text=True, check=False
            )
            assert done.returncode in (0, 1)
            assert done.stderr == "" or where
            if where:
                assert list(nczarr.diff(EXAMPLE, out)) == []
                subprocess.run(["rm", "-r", out], check=True)


def test_all_kinds_of_leftovers_are_cleared(tmp_path: Path) -> None:
    """A process leaves, without clearing up, each kind of unfinished file that there is."""
    target = tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, target)
    code = f"""
import os
from pathlib import Path
from nczarr.system.atomic import partial_path, value_name
target = Path({str(target)!r})
partial_path(target).mkdir()
(target / value_name()).touch()
(target / "g" ).mkdir(exist_ok=True)
(target / "g" / value_name()).touch()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    living = partial_path(tmp_path / "b.zarr")
    living.touch()
    assert len(os.listdir(tmp_path)) == 3
    assert len(clean(target)) == 3
    assert {living.name, "a.zarr"} == set(os.listdir(tmp_path))
    assert not any(is_partial(name) for _, _, names in os.walk(target) for name in names)
    assert remove_partial_values(target) == []
    assert clean(target) == []
    assert list(nczarr.convert.diff(EXAMPLE, target)) == []


def test_what_was_moved_aside_is_put_back(tmp_path: Path) -> None:
    """Where names cannot be exchanged, a process may end between the two renamings."""
    target = tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, target)
    code = f"""
import os
from pathlib import Path
from nczarr.system.atomic import partial_path
target = Path({str(target)!r})
os.rename(target, str(partial_path(target)).removesuffix(".tmp") + ".old.tmp")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not target.exists()
    assert main(["clean", str(target)]) == 0
    assert list(nczarr.convert.diff(EXAMPLE, target)) == []
    assert not restore(target)


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="the system does not say when a process began"
)
def test_another_process_with_the_same_number_is_not_the_writer() -> None:
    writer = new_writer()
    machine, process, token, number = writer.split("-")
    assert writer_state(writer) is WriterState.ALIVE
    assert writer_state(f"{machine}-{process}-{int(token, 16) - 1:012x}-{number}") is WriterState.ENDED
    # Before, a token said nothing.
    assert writer_state(f"{machine}-{process}-0123abcd-{number}") is WriterState.ALIVE
    child = os.fork()
    if child == 0:
        os._exit(0 if writer_state(new_writer()) is WriterState.ALIVE and new_writer() != writer else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="the system does not say what a process does"
)
def test_a_process_that_has_ended_does_not_write_though_nobody_asked_how_it_ended() -> None:
    script = "from nczarr.system.atomic import new_writer; print(new_writer(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    writer = child.stdout.readline().strip()
    assert writer_state(writer) is WriterState.ALIVE
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert writer_state(writer) is WriterState.ENDED
    child.wait()
    assert writer_state(writer) is WriterState.ENDED

"""Take the power from XFS and ext4, and look: what was durable is never worse, what was promised durable is there.

Each operation has a file system of its own, in a file behind a loop device. The file system is shut down by its ioctl,
which drops what is in memory, unmounted, and mounted again. Needs root, ``losetup``, ``mkfs.xfs`` and ``mkfs.ext4``.
Rounds take turns: the power goes at once after success, after ``NCZARR_POWER_DELAY`` seconds (40), and meanwhile.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from budget import Budget, main

import nczarr
from nczarr.cli.main import main as command
from nczarr.errors import DatasetNotFoundError
from nczarr.mapping import open_dataset, repair

#: XFS_IOC_GOINGDOWN, and EXT4_IOC_SHUTDOWN; the log is not flushed.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
SYSTEMS = ("xfs", "ext4")
_SIZE = 320 << 20
#: Steps of the old dataset, and of the longer one.
OLD, NEW = 20, 30
#: Datasets that are never closed.
OPEN: list[nczarr.Dataset] = []
#: Values of a step: chunks are larger than what XFS keeps in an inode.
WIDTH = 3000


def is_possible() -> bool:
    """True if this process may mount file systems, and has what makes them."""
    tools = ("losetup", "mkfs.xfs", "mkfs.ext4", "mount", "umount")
    return (
        sys.platform == "linux"
        and os.geteuid() == 0
        and all(map(shutil.which, tools))
        and os.path.exists("/dev/loop-control")
    )


@contextmanager
def disk(system: str, folder: Path) -> Iterator[Disk]:
    """Make a file system and mount it; at the end it goes."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(_SIZE)
    quiet = ["-q", "-f"] if system == "xfs" else ["-q", "-F"]
    _run(f"mkfs.{system}", *quiet, str(image))
    device = _run("losetup", "--find", "--show", str(image))
    made = Disk(device, folder / "mounted")
    made.path.mkdir()
    try:
        made.mount()
        yield made
    finally:
        subprocess.run(["umount", "--lazy", made.path], capture_output=True, check=False)
        _run("losetup", "--detach", device)
        image.unlink()


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


@dataclass
class Disk:
    """A mounted file system that can lose its power."""

    device: str
    path: Path

    def mount(self) -> None:
        _run("mount", self.device, str(self.path))

    def sync(self) -> None:
        """Make all that is there durable."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            assert ctypes.CDLL(None).syncfs(descriptor) == 0
        finally:
            os.close(descriptor)

    def lose_power(self) -> None:
        """Drop what is in memory."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def come_back(self) -> None:
        """Mount what the disk has."""
        _run("umount", str(self.path))
        self.mount()


# --- datasets


def make(path: Path, steps: int, edition: int, *, format: str = "NETCDF4", rows: int = 8) -> None:
    """Write a dataset of which every value says its step and its edition."""
    with nczarr.Dataset(path, "w", format=format) as dataset:
        dataset.edition = np.int32(edition)
        dataset.createDimension("t")
        dataset.createDimension("x", WIDTH)
        chunks = {} if format.startswith("NETCDF3") else {"chunksizes": (rows, WIDTH)}
        values = dataset.createVariable("v", "f8", ("t", "x"), **chunks)
        times = dataset.createVariable("t", "i4", ("t",))
        values[:steps] = expected(0, steps, edition)
        times[:steps] = np.arange(steps)


def expected(first: int, last: int, edition: int) -> np.ndarray:
    return np.add.outer(np.arange(first, last) + 100.0 * edition, np.arange(WIDTH) / WIDTH)


def look(path: Path, name: str = "v") -> tuple[int, int]:
    """Return steps and edition; every value is compared. Steps that were never synced may be fill in one variable."""
    with nczarr.Dataset(path) as dataset:
        length, edition = len(dataset.dimensions["t"]), int(dataset.edition)
        values, times = np.ma.filled(dataset[name][:], np.nan), np.ma.filled(dataset["t"][:], -1)
        steps = min(_whole(times != -1), _whole(~np.isnan(values).all(axis=1)))
        for found, right in ((values, expected(0, length, edition)), (times, np.arange(length))):
            assert np.array_equal(found[:steps], right[:steps]), f"other values of {steps} steps"
            rest = [
                np.array_equal(a, b) or (a == -1).all() or np.isnan(a).all()
                for a, b in zip(found[steps:], right[steps:], strict=True)
            ]
            assert all(rest), f"values behind {steps} steps are neither right nor fill"
    return steps, edition


def _whole(steps: np.ndarray) -> int:
    """The number of steps before the first one that is missing."""
    return len(steps) if steps.all() else int(np.argmin(steps))


def grow(path: Path, *, close: bool) -> None:
    """Add steps, in the last chunk and in new ones."""
    dataset = nczarr.Dataset(path, "a")
    dataset["v"][OLD:NEW] = expected(OLD, NEW, 1)
    dataset["t"][OLD:NEW] = np.arange(OLD, NEW)
    if close:
        dataset.close()
    else:
        dataset.sync()
        OPEN.append(dataset)


# --- operations


@dataclass
class Operation:
    """What is done in a folder: something is made durable before, and after the loss the old or the new is there."""

    before: Callable[[Path], None]
    act: Callable[[Path], None]
    #: Returns what is there; raises if it is not whole.
    look: Callable[[Path], object]
    old: object
    new: object


def _nc(*words: object) -> None:
    assert command([str(w) for w in words]) == 0, words


def _sources(folder: Path) -> None:
    make(folder / "source.nc", OLD, 2)


def _old(name: str, **options: str) -> Callable[[Path], None]:
    def before(folder: Path) -> None:
        make(folder / name, OLD, 1, **options)  # type: ignore[arg-type]
        _sources(folder)
        make(folder / "more.nc", NEW, 1)

    return before


def _sharded(folder: Path) -> None:
    """Make a dataset whose shards grow in place."""
    _old("b.zarr")(folder)
    _nc("copy", "--chunks", "t=4", "--shards", "t=64", folder / "b.zarr", folder / "a.zarr")


def _steps(name: str) -> Callable[[Path], object]:
    def look_at(folder: Path) -> object:
        return look(folder / name) if (folder / name).exists() else None

    return look_at


def _fresh(name: str) -> Callable[[Path], object]:
    """What was begun may lie there, if it says that it is unfinished; the source is whole."""

    def look_at(folder: Path) -> object:
        assert look(folder / "source.nc") == (OLD, 2)
        try:
            return _steps(name)(folder)
        except (DatasetNotFoundError, FileNotFoundError):
            return None

    return look_at


def _copy(*words: str, verb: str = "copy") -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        named = (".nc", ".zarr", ".zip")
        _nc(verb, "-q", *[folder / word if word.endswith(named) else word for word in words])

    return act


def _edit(name: str, change: Callable[[nczarr.Dataset], None]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        with nczarr.Dataset(folder / name, "a") as dataset:
            change(dataset)

    return act


def _rename(dataset: nczarr.Dataset) -> None:
    dataset.renameVariable("v", "w")


def _attribute(dataset: nczarr.Dataset) -> None:
    dataset["v"].note = "changed"


def _look_renamed(folder: Path) -> object:
    with nczarr.Dataset(folder / "a.zarr") as dataset:
        names = [name for name in ("v", "w") if name in dataset.variables]
    for name in names:
        assert look(folder / "a.zarr", name) == (OLD, 1)
    return "w" if "w" in names else names[0]


def _exchange(folder: Path) -> None:
    with open_dataset(folder / "a.zarr", "r+") as stored:
        other = {"v": "t", "t": "v"}
        data = [v.with_data(stored.data(f"/{v.name}")) for v in stored.dataset.variables]
        stored.update(replace(stored.dataset, variables=tuple(replace(v, name=other[v.name]) for v in data)))


def _look_exchanged(folder: Path) -> object:
    path = folder / "a.zarr"
    try:
        nczarr.Dataset(path).close()
    except OSError:
        nczarr.Dataset(path, "a").close()  # finishes it
    with nczarr.Dataset(path) as dataset:
        for variable in dataset.variables.values():
            values = np.ma.filled(variable[:], -1)
            assert np.array_equal(values, expected(0, OLD, 1) if variable.ndim == 2 else np.arange(OLD))
        dimensions = {name: variable.ndim for name, variable in dataset.variables.items()}
        assert set(dimensions.values()) == {1, 2}
        return "t" if dimensions == {"v": 1, "t": 2} else "v"


def _look_note(name: str) -> Callable[[Path], object]:
    def look_at(folder: Path) -> object:
        assert look(folder / name) == (OLD, 1)
        with nczarr.Dataset(folder / name) as dataset:
            return getattr(dataset["v"], "note", None)

    return look_at


def _damaged(folder: Path) -> None:
    make(folder / "a.zarr", OLD, 1)
    document = folder / "a.zarr" / "v" / "zarr.json"
    said = json.loads(document.read_text())
    said["attributes"]["note"] = "other"
    document.write_text(json.dumps(said))
    assert repair(folder / "a.zarr", dry_run=True)


def _look_repaired(folder: Path) -> object:
    assert look(folder / "a.zarr") == (OLD, 1)
    return not repair(folder / "a.zarr", dry_run=True)


_CLASSIC = {"format": "NETCDF3_64BIT_OFFSET"}
_MORE = ["-d", f"t={OLD}:{NEW}", "more.nc"]
OPERATIONS = {
    "copy": Operation(_sources, _copy("source.nc", "a.zarr"), _fresh("a.zarr"), None, (OLD, 2)),
    "overwrite": Operation(
        _old("a.zarr"), _copy("--overwrite", "source.nc", "a.zarr"), _steps("a.zarr"), (OLD, 1), (OLD, 2)
    ),
    "append": Operation(
        _old("a.zarr"), _copy(*_MORE, "a.zarr", verb="append"), _steps("a.zarr"), (OLD, 1), (NEW, 1)
    ),
    "sync": Operation(
        _old("a.zarr"), lambda f: grow(f / "a.zarr", close=False), _steps("a.zarr"), (OLD, 1), (NEW, 1)
    ),
    "shards": Operation(
        _sharded, lambda f: grow(f / "a.zarr", close=False), _steps("a.zarr"), (OLD, 1), (NEW, 1)
    ),
    "rename": Operation(_old("a.zarr"), _edit("a.zarr", _rename), _look_renamed, "v", "w"),
    "attribute": Operation(
        _old("a.zarr"), _edit("a.zarr", _attribute), _look_note("a.zarr"), None, "changed"
    ),
    "repair": Operation(_damaged, lambda f: _nc("repair", f / "a.zarr"), _look_repaired, False, True),
    "zip": Operation(
        _old("a.zarr.zip"),
        _copy("--overwrite", "source.nc", "a.zarr.zip"),
        _steps("a.zarr.zip"),
        (OLD, 1),
        (OLD, 2),
    ),
    "zip-append": Operation(
        _old("a.zarr.zip"),
        lambda f: grow(f / "a.zarr.zip", close=True),
        _steps("a.zarr.zip"),
        (OLD, 1),
        (NEW, 1),
    ),
    "classic": Operation(
        _sources, _copy("-k", "classic", "source.nc", "a.nc"), _fresh("a.nc"), None, (OLD, 2)
    ),
    "classic-append": Operation(
        _old("a.nc", **_CLASSIC), _copy(*_MORE, "a.nc", verb="append"), _steps("a.nc"), (OLD, 1), (NEW, 1)
    ),
    "classic-sync": Operation(
        _old("a.nc", **_CLASSIC), lambda f: grow(f / "a.nc", close=False), _steps("a.nc"), (OLD, 1), (NEW, 1)
    ),
    "classic-attribute": Operation(
        _old("a.nc", **_CLASSIC), _edit("a.nc", _attribute), _look_note("a.nc"), None, "changed"
    ),
    "exchange": Operation(_old("a.zarr"), _exchange, _look_exchanged, "v", "t"),
    "hdf5": Operation(
        _old("a.nc"), _copy("--overwrite", "source.nc", "a.nc"), _steps("a.nc"), (OLD, 1), (OLD, 2)
    ),
    "hdf5-append": Operation(
        _old("a.nc"), _copy(*_MORE, "a.nc", verb="append"), _steps("a.nc"), (OLD, 1), (NEW, 1)
    ),
    "hdf5-sync": Operation(
        _old("a.nc"), lambda f: grow(f / "a.nc", close=False), _steps("a.nc"), (OLD, 1), (NEW, 1)
    ),
}
#: Changes inside one file that are in order with respect to kills, and are not promised for a loss of power meanwhile.
_NOT_MEANWHILE = ("hdf5-sync",)


def trial(budget: Budget) -> None:
    """Try every operation on every file system."""
    if not is_possible():
        raise SystemExit("power: needs root, loop devices, mkfs.xfs and mkfs.ext4")
    warnings.simplefilter("ignore")
    delay = float(os.environ.get("NCZARR_POWER_DELAY", "40"))
    usual: dict[str, float] = {}
    for number in budget:
        for system in SYSTEMS:
            kind = ("at once", "later", "meanwhile")[number % 3]
            if kind == "later":
                _together(budget, system, delay)
                continue
            for name in OPERATIONS:
                budget.shown = (name, system, kind)
                if kind == "meanwhile" and name in _NOT_MEANWHILE:
                    continue
                _alone(budget, name, system, usual, meanwhile=kind == "meanwhile")


def _alone(budget: Budget, name: str, system: str, usual: dict[str, float], *, meanwhile: bool) -> None:
    operation = OPERATIONS[name]
    with tempfile.TemporaryDirectory(prefix="nczarr-power-") as folder, disk(system, Path(folder)) as made:
        operation.before(made.path)
        made.sync()
        begun = time.monotonic()
        child = _child(name, made)
        if meanwhile:
            # A program takes most of its time to start.
            time.sleep(usual.get(name, 1.0) * budget.random.uniform(0.5, 1.0))
            made.lose_power()
            child.communicate()
        else:
            _done(name, child)
            usual[name] = time.monotonic() - begun
            made.lose_power()
        made.come_back()
        _check(budget, name, made, promised=not meanwhile or child.returncode == 0)


def _together(budget: Budget, system: str, delay: float) -> None:
    with ExitStack() as held:
        disks = {}
        for name in OPERATIONS:
            budget.shown = (name, system, f"after {delay} s")
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="nczarr-power-")))
            disks[name] = made = held.enter_context(disk(system, folder))
            OPERATIONS[name].before(made.path)
            made.sync()
            _done(name, _child(name, made))
        time.sleep(delay)
        for made in disks.values():
            made.lose_power()
        for name, made in disks.items():
            budget.shown = (name, system, f"after {delay} s")
            made.come_back()
            _check(budget, name, made, promised=True)


def _child(name: str, made: Disk) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "--act", name, str(made.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _done(name: str, child: subprocess.Popen[str]) -> None:
    text, _ = child.communicate()
    assert child.returncode == 0, f"{name}: {text}"


def _check(budget: Budget, name: str, made: Disk, *, promised: bool) -> None:
    operation = OPERATIONS[name]
    found = operation.look(made.path)
    allowed = (operation.new,) if promised else (operation.old, operation.new)
    assert found in allowed, f"{found} is none of {allowed}"
    budget.count("losses of power")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--act"]:
        OPERATIONS[sys.argv[2]].act(Path(sys.argv[3]))
        os._exit(0)
    else:
        main(trial)

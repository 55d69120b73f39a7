"""Trace which rooms and modules the main trips enter at run time: copy, open, read, write, gen.

``python docs/trace_trips.py`` prints the figures; ``-v`` the rooms and modules too, and the pairs that call each other
both ways. A room is a package or sub-package; a module beside the packages is a room of its own.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import nczarr

PACKAGE = Path(nczarr.__file__).parent
EXAMPLE = PACKAGE.parent / "tests" / "data" / "example.nc"


@dataclass
class Trip:
    """The places (modules, or rooms) whose functions ran, and how often a call went from one to another."""

    places: list[str] = field(default_factory=list)
    crossings: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def two_way(self) -> list[tuple[str, str]]:
        return sorted((a, b) for a, b in self.crossings if a < b and (b, a) in self.crossings)

    def rooms(self) -> Trip:
        """The same trip, from room to room."""
        rooms = Trip(list(dict.fromkeys(map(room_of, self.places))))
        for (a, b), count in self.crossings.items():
            if room_of(a) != room_of(b):
                rooms.crossings[room_of(a), room_of(b)] += count
        return rooms


def room_of(module: str) -> str:
    """Name below ``nczarr`` of the package that a module is in; of the module, where it is in none."""
    return module.rpartition(".")[0] or module


def module_of(frame: FrameType | None, names: dict[str, str | None]) -> str | None:
    """Name below ``nczarr`` of the module whose function a frame is; None for others, and while it is imported."""
    if frame is None:
        return None
    code = frame.f_code
    if code.co_name in ("<module>", "_note_collection"):  # the collector calls that one at any place
        return None
    name = names.get(code.co_filename, "")
    if name == "":
        path = Path(code.co_filename)
        inside = path.is_relative_to(PACKAGE)
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts) if inside else None
        names[code.co_filename] = name
    return name


@contextmanager
def traced() -> Iterator[Trip]:
    """Record every call of a function of ours in this thread and the threads that it starts."""
    trip = Trip()
    names: dict[str, str | None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        module = module_of(frame, names)
        if module is None:
            return
        if module not in trip.places:
            trip.places.append(module)
        caller = frame.f_back
        while caller is not None and module_of(caller, names) is None:
            caller = caller.f_back
        before = module_of(caller, names)
        if before is not None and before != module:
            trip.crossings[before, module] += 1

    # The collector closes what earlier trips have left, at a moment that depends on all that was ever allocated.
    gc.collect()
    gc.disable()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield trip
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        gc.enable()


def trips(folder: Path) -> Iterator[tuple[str, Trip]]:
    """The trips on the example file, each in the order in which a user makes them."""
    source, store, text = folder / "example.nc", folder / "example.zarr", folder / "example.cdl"
    shutil.copy(EXAMPLE, source)
    # Importing is not the trip: everything is loaded before.
    for module in pkgutil.walk_packages(nczarr.__path__, "nczarr."):
        with suppress(ImportError, nczarr.NCZarrError):  # what needs a library that is not here
            front = importlib.import_module(module.name)
            for name in getattr(front, "__all__", ()):
                getattr(front, name)  # some are loaded when they are first used
    # In a process of its own, so that the first trip finds nothing prepared.
    dump = "import sys, nczarr.cli; sys.exit(nczarr.cli.main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", dump, "dump", str(source), "-o", str(text)], check=True)

    def trip(work: Callable[[], Any]) -> tuple[Trip, Any]:
        with traced() as seen:
            result = work()
        return seen, result

    yield "copy a.nc b.zarr", trip(lambda: nczarr.copy(source, store))[0]
    seen, dataset = trip(lambda: nczarr.Dataset(store))
    yield 'Dataset("b.zarr")', seen
    variable = next(
        v for v in dataset.variables.values() if v.ndim and v.shape[0] > 2 and v.dtype.kind == "f"
    )
    yield "variable[1:3]", trip(lambda: variable[1:3])[0]
    dataset.close()
    yield "v[n] = row; sync()", written(store)
    from nczarr.cli import main as command

    yield "gen a.cdl c.zarr", trip(lambda: command(["gen", str(text), str(folder / "c.zarr")]))[0]


def written(store: Path) -> Trip:
    """The trip of a step that is added to a variable, up to the store."""
    with nczarr.Dataset(store, "a") as dataset:
        variable = dataset["atmosphere/slp"]
        row = variable[0]
        with traced() as seen:
            variable[len(variable)] = row  # a new step, so that lengths go down too
            dataset.sync()
    return seen


def show(trip: Trip, what: str, verbose: bool) -> None:
    """Print the figures of one trip; `verbose`: the names too."""
    crossings = sum(trip.crossings.values())
    print(f"   {len(trip.places):3} {what}, {crossings:5} crossings, {len(trip.two_way)} two-way")
    if verbose:
        print("       " + "\n       ".join(trip.places))
        for a, b in trip.two_way:
            print(f"       both ways: {a} ({trip.crossings[a, b]}), {b} ({trip.crossings[b, a]})")


def main() -> None:
    verbose = "-v" in sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for name, trip in trips(Path(folder)):
            print(name)
            show(trip.rooms(), "rooms", verbose)
            show(trip, "modules", verbose)


if __name__ == "__main__":
    main()

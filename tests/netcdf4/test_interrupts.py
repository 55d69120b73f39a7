"""Interrupt operations with Ctrl-C: no lock stays held, and close() and exit end."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lock_order
import numpy as np
import pytest

import nczarr

#: Seconds after which a thread waits for ever.
PATIENCE = 600


def interrupted(work: Callable[[], object], number: int) -> bool:
    """Do work with a KeyboardInterrupt at the n-th place where Python handles signals; False if it has fewer.

    These places are the beginnings of functions, and the ends of calls of functions in C.
    """
    left = number

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        # The checked locks of the tests stand for locks of Python, inside which no interrupt comes.
        if event in ("call", "c_return") and frame.f_code.co_filename != lock_order.__file__:
            left -= 1
            if left == -1:
                raise KeyboardInterrupt

    try:
        sys.setprofile(profile)
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return left < 0


def in_time(work: Callable[[], object]) -> None:
    """Do work in another thread, which must not wait for ever."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for ever"
    if failed:
        raise failed[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of generators that end
@pytest.mark.parametrize(
    ("doing", "ending"),
    [("write", "zarr"), ("read", "zarr"), ("sync", "zarr"), ("many chunks", "zarr"), ("write", "zarr.zip")],
)
def test_an_interrupt_leaves_no_lock_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doing: str, ending: str
) -> None:
    ds = nczarr.Dataset(tmp_path / f"a.{ending}", "w")
    ds.createDimension("t", None)
    ds.createDimension("x", 8)
    v = ds.createVariable("v", "i4", ("t", "x"), chunksizes=(2, 4))
    w = ds.createVariable("w", "f8", ("x",), chunksizes=(2,))
    v[:4] = 1
    w[:] = 1
    ds.sync()
    numbers = itertools.count(1)

    def write() -> None:
        v[3, 1:7] = next(numbers)

    def sync() -> None:
        write()
        w[1:3] = next(numbers)
        ds.sync()

    works = {
        "write": write,
        "read": lambda: v[1:4],
        "sync": sync,
        "many chunks": lambda: (v.__setitem__(slice(0, 40), np.arange(320).reshape(40, 8)), ds.sync()),
    }
    step = {"write": 7, "read": 5, "sync": 23, "many chunks": 997}[doing]

    def use() -> None:
        """What other threads do."""
        number = next(numbers)
        v[1, 3:] = number
        w[:] = number
        ds.sync()
        assert v[1, 3:].tolist() == [number] * 5
        assert w[:].tolist() == [number] * 8

    for number in itertools.count(0, step):
        if not interrupted(works[doing], number):
            break
        in_time(use)
    assert number > 50
    in_time(ds.close)
    with nczarr.Dataset(tmp_path / f"a.{ending}") as again:
        assert (again["v"][1, 3:] == again["w"][3]).all() or doing == "many chunks"

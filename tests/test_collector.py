"""Pausing the garbage collector: nested, in several threads, and where it is off already."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from nczarr.collector import paused_collector


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_goes_on_after_the_last() -> None:
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), paused_collector():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_was_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_threads_wait_for_each_other() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with paused_collector():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with paused_collector():
        thread.start()
        inside.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()

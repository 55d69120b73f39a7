"""Locks have ranks, and the check of their order finds a wrong one."""

from __future__ import annotations

import threading

import lock_order
import pytest
from lock_order import CheckedLock, LockOrderError

from nczarr.system.locks import TABLES, LockTable, Rank, make_lock, while_held


@pytest.fixture
def found() -> list[str]:
    """Return the problems of this test, which do not count against it."""
    problems: list[str] = []
    yield problems
    problems[:] = lock_order.FOUND
    lock_order.FOUND.clear()


def test_all_locks_are_checked() -> None:
    assert isinstance(TABLES, CheckedLock)
    assert isinstance(make_lock(Rank.GATE), CheckedLock)


def test_ascending_ranks_are_right() -> None:
    gate, block, store = make_lock(Rank.GATE), make_lock(Rank.BLOCK), make_lock(Rank.STORE)
    with gate, block, store, TABLES, gate:  # a lock that is held may be taken again
        pass
    assert lock_order.held_locks() == []


@pytest.mark.parametrize(
    ("first", "second"), [(Rank.STORE, Rank.GATE), (Rank.TABLE, Rank.CHUNK), (Rank.GATE, Rank.GATE)]
)
def test_a_lower_or_equal_rank_is_wrong(found: list[str], first: Rank, second: Rank) -> None:
    with (
        make_lock(first),
        pytest.raises(LockOrderError, match=f"{second.name} is taken while {first.name} is held"),
    ):
        make_lock(second).acquire()
    assert lock_order.held_locks() == []
    assert len(lock_order.FOUND) == 1


def test_locks_of_one_rank_have_one_order(found: list[str]) -> None:
    one, two = make_lock(Rank.BLOCK), make_lock(Rank.BLOCK)
    while_held([one, two], lambda: None)
    while_held([one, two], lambda: None)
    with pytest.raises(LockOrderError, match="in both orders"):
        while_held([two, one], lambda: None)
    assert not one._is_owned()
    assert not two._is_owned()


def test_another_thread_has_an_order_of_its_own() -> None:
    store, gate = make_lock(Rank.STORE), make_lock(Rank.GATE)
    with store:
        thread = threading.Thread(target=lambda: gate.acquire() and gate.release())
        thread.start()
        thread.join()
    assert lock_order.FOUND == []


def test_a_table_gives_its_locks_in_one_order() -> None:
    table = LockTable(Rank.CHUNK, 5)
    names = [("memory", f"c/{number}") for number in range(40)]
    assert table.of_all(names) == table._locks
    assert while_held(table.of_all(names), lambda: "done") == "done"
    assert table.of(names[0]) is table.of(names[0])

"""Values that are kept with their objects are made without a lock."""

from __future__ import annotations

import threading

from nczarr.lazy import cached_property


class Shelf:
    def __init__(self, wait: threading.Event | None = None) -> None:
        self.wait, self.made = wait, 0
        self.begun = threading.Event()

    @cached_property
    def books(self) -> list[int]:
        """All there are."""
        self.begun.set()
        if self.wait is not None:
            self.wait.wait()
        self.made += 1
        return [self.made]


def test_a_value_is_made_once() -> None:
    shelf = Shelf()
    assert shelf.books is shelf.books
    assert shelf.made == 1
    assert isinstance(Shelf.books, cached_property)
    assert Shelf.books.__doc__ == "All there are."


def test_nobody_waits_for_the_value_of_another_object() -> None:
    going_on = threading.Event()
    slow = Shelf(going_on)
    thread = threading.Thread(target=lambda: slow.books)
    thread.start()
    try:
        slow.begun.wait()
        other = threading.Thread(target=lambda: Shelf().books, daemon=True)
        other.start()
        other.join(600)
        assert not other.is_alive()
    finally:
        going_on.set()
        thread.join()
    assert slow.books == [1]

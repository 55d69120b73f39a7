"""Run a trial for a time or a number of rounds, and print its one line."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Budget:
    """How long a trial goes on: iterating gives the numbers of the rounds."""

    seconds: float = float("inf")
    rounds: int | None = None
    seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    #: What is being tried, for the message if it does not hold.
    shown: object = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def __iter__(self) -> Iterator[int]:
        end = time.monotonic() + self.seconds
        number = 0
        while (self.rounds is None or number < self.rounds) and time.monotonic() < end:
            yield number
            number += 1

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    @property
    def line(self) -> str:
        return ", ".join(f"{number:,} {what}" for what, number in sorted(self.counts.items()))


def main(trial: Callable[[Budget], None]) -> None:
    """Run a trial from the command line."""
    parser = argparse.ArgumentParser(description=trial.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    budget = Budget(options.seconds, options.rounds, options.seed)
    name = sys.argv[0].rpartition("/")[2].removesuffix(".py")
    try:
        trial(budget)
    except BaseException:
        print(f"{name}: does not hold (--seed {options.seed}) after {budget.line}", file=sys.stderr)
        if budget.shown is not None:
            print(f"with {budget.shown!r}", file=sys.stderr)
        raise
    print(f"{name}: {budget.line}; all held")

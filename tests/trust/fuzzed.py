"""Fuzz everything that is read, in one run: CDL texts, documents, chunks, zip files and answers of web servers."""

from __future__ import annotations

import importlib

from budget import Budget, main

#: Inputs of each trial in one round; together 10,000.
SHARES = {"cdl_texts": 1200, "documents": 400, "chunk_bytes": 4100, "zip_files": 4100, "http_answers": 200}


def trial(budget: Budget) -> None:
    """Give each trial its share, in every round."""
    for _ in budget:
        for name, rounds in SHARES.items():
            part = Budget(rounds=rounds, seed=budget.random.randrange(1 << 30))
            try:
                importlib.import_module(name).trial(part)
            finally:
                budget.shown = (name, part.seed, part.shown)
            budget.count(f"inputs of {name}", rounds)
            budget.count("inputs", rounds)
            budget.shown = None


if __name__ == "__main__":
    main(trial)

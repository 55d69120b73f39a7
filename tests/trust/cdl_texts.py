"""Read mutated CDL: a dataset, which prints as CDL again, or an error of our own."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path

from budget import Budget, main

from nczarr.cdl import dumps, loads
from nczarr.cdl.write.options import DumpOptions
from nczarr.errors import CDLError, NCZarrError
from nczarr.model import Dataset

sys.path.insert(0, str(Path(__file__).parents[1] / "cdl"))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from fuzz import mutate, seeds

#: Values of larger datasets are not printed: some texts declare thousands of millions, and give none.
MOST_VALUES = 10_000


def number_of_values(dataset: Dataset) -> int:
    return sum(math.prod(dataset.shape_of(variable)) for variable in dataset.all_variables.values())


def trial(budget: Budget) -> None:
    """Mutate texts."""
    warnings.simplefilter("ignore")
    texts = seeds()
    for number in budget:
        text = mutate(budget.random.choice(texts), budget.random)
        budget.shown = text
        try:
            dataset = loads(text)
        except CDLError as error:
            assert str(error)
            budget.count("errors")
            continue
        budget.count("datasets")
        if number % 8 == 0:
            try:
                dumps(dataset, DumpOptions(header_only=number_of_values(dataset) > MOST_VALUES))
            except NCZarrError:
                budget.count("datasets that CDL cannot say")


if __name__ == "__main__":
    main(trial)

"""Read random texts, and texts with a mistake, as ncgen does; the page lists the differences.

``NCZARR_TEXTS=10000 pytest tests/cdl/test_random_texts.py`` reads many of each kind.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
import random_texts

pytestmark = pytest.mark.skipif(shutil.which("ncgen") is None, reason="needs ncgen")

#: The number of texts for each test, and the first of them.
COUNT, FIRST = int(os.environ.get("NCZARR_TEXTS", 60)), int(os.environ.get("NCZARR_TEXTS_FROM", 0))


@pytest.mark.slow
@pytest.mark.parametrize("mistaken", [False, True])
def test_random_texts_are_read_as_by_ncgen(mistaken: bool, tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    found = []
    for seed in range(FIRST, FIRST + COUNT):
        text = random_texts.make(seed)
        text = random_texts.slip(text, seed) if mistaken else text
        end, why = random_texts.judge(text, tmp_path)
        ends[end] += 1
        fine = ("equal", "both refuse it") if mistaken else ("equal",)
        if end not in fine and not (
            mistaken and random_texts.known(end, f"{why}\n{text}" * (end == "different") or why)
        ):
            found.append((seed, end, why))
    print(dict(ends))
    assert found == []
    assert ends["equal"] > COUNT // 8

"""Read random texts as ncgen does."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
import random_texts

pytestmark = pytest.mark.skipif(shutil.which("ncgen") is None, reason="needs ncgen")


def test_random_texts_are_read_as_by_ncgen(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    for seed in range(60):
        text = random_texts.make(seed)
        end, why = random_texts.judge(text, tmp_path)
        assert end == "equal", (seed, end, why, text)
        ends[end] += 1
    assert ends == {"equal": 60}

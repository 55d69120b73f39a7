"""Give examples in docstrings folders that go with them."""

from __future__ import annotations

import tempfile

import pytest


@pytest.fixture(autouse=True)
def temporary_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example makes with :mod:`tempfile` is below pytest's own folder, which pytest removes."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setattr(tempfile, "tempdir", str(request.getfixturevalue("tmp_path")))

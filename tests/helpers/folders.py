"""Give folders to what makes hundreds of them in one test; all are removed when the tests are over."""

from __future__ import annotations

import shutil
import tempfile

_above: list[str] = []


def new_folder() -> str:
    """Make a folder."""
    if not _above:
        _above.append(tempfile.mkdtemp(prefix="nczarr-test-"))
    return tempfile.mkdtemp(dir=_above[0])


def remove_folders() -> None:
    """Remove all that were made. A process of pytest-xdist ends without what is registered for the end."""
    while _above:
        shutil.rmtree(_above.pop(), ignore_errors=True)

"""Create temporary folders for tests that need hundreds of them, and remove all at the end of the run."""

from __future__ import annotations

import shutil
import tempfile

_above: list[str] = []


def new_folder() -> str:
    """Create a folder."""
    if not _above:
        _above.append(tempfile.mkdtemp(prefix="nczarr-test-"))
    return tempfile.mkdtemp(dir=_above[0])


def remove_folders() -> None:
    """Remove all folders. A process of pytest-xdist ends without its exit handlers."""
    while _above:
        shutil.rmtree(_above.pop(), ignore_errors=True)

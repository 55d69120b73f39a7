"""Know the files that are edited in this process, so that its readers see them as the editor does."""

from __future__ import annotations

import os
import weakref
from typing import Any

# Beside the editors, as whoever opens a file asks here, and does not need what edits it.
_edited: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


def remember(path: str, editor: Any) -> None:
    """Note who edits a file."""
    found = os.stat(path)
    _edited[found.st_dev, found.st_ino] = editor


def forget(editor: Any) -> None:
    """Note that somebody edits no more."""
    for key in [key for key, held in list(_edited.items()) if held is editor]:
        _edited.pop(key, None)


def editor_of(path: str) -> Any:
    """Who edits a file here; None if nobody does. A forked child has no part in what its parent edits."""
    if not _edited:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    editor = _edited.get((found.st_dev, found.st_ino))
    return editor if editor is not None and editor.process == os.getpid() else None

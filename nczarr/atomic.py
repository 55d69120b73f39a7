"""Unfinished files and directories: their names beside the target, and what is done about those of the dead.

What is written gets its name only when it is complete. Until then it stands beside its target under a hidden name
that says who writes it. A process that is killed cannot clear up; the next one that writes the same target does.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_AT_FDCWD = -100
_SWAP = 2


def partial_path(target: str | os.PathLike[str]) -> Path:
    """Return a new name beside `target`, and remove what processes that ended left of the same target.

    Examples
    --------
    >>> partial_path("data/run42.nc").name.startswith(".run42.nc.nczarr-")
    True
    """
    target = Path(target)
    # A file name may have 255 bytes.
    stem = target.name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")
    start = f".{stem}.nczarr-{_machine()}-"
    _clear(target, start)
    return target.with_name(f"{start}{os.getpid():x}-{secrets.token_hex(4)}")


def _machine() -> str:
    """Where process numbers are the same: a host, and in it a container."""
    with suppress(OSError):
        return _digest(f"{platform.node()} {os.stat('/proc/self/ns/pid').st_ino}")
    return _digest(platform.node())


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


def _clear(target: Path, start: str) -> None:
    if os.name == "nt":  # there is no harmless way to ask for a process
        return
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(target.parent)
    for name in names:
        found = re.fullmatch(r"([0-9a-f]+)-[0-9a-f]{8}(\.old)?", name.removeprefix(start))
        if found is None or not name.startswith(start) or _lives(int(found[1], 16)):
            continue
        if found[2] and not os.path.lexists(target):
            continue  # it is all there is: its successor was not put in place any more
        path = target.with_name(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two files or directories, in one step; False where the system cannot."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _SWAP) == 0)
        return bool(library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _SWAP) == 0)
    except (AttributeError, OSError, TypeError):
        return False

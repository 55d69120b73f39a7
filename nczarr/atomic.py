"""Write under temporary names and rename, so that no reader sees half a file; clean up what dead processes left.

Every unfinished file or directory of nczarr has a name of one form, ``.TARGET.nczarr-MACHINE-PROCESS-TOKEN-N.tmp``
(values inside a store leave out TARGET). It says who writes it: a process that is killed cannot clear up, and the
next one on the same machine that writes the same target does.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import io
import itertools
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from nczarr.durability import sync_folder_of, sync_path, sync_tree

_AT_FDCWD = -100
_SWAP = 2

_MARK = ".nczarr-"
_END = ".tmp"
_WRITER = r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9a-f]+)-(?P<token>[0-9a-f]+)-[0-9a-f]+"
_FORM = re.compile(rf"(?:\.(?P<target>.*))?\.nczarr-(?P<writer>{_WRITER})(?P<old>\.old)?\.tmp", re.DOTALL)
_numbers = itertools.count()
#: Where the system does not say when a process began: of two with one number, one after the other.
_token = secrets.token_hex(4)
#: Digits of a token that says when the process began.
_LONG_TOKEN = 12

#: Outputs under these names are written to, never replaced: ``/dev/stdout`` may be a file that a shell has opened.
#: Not all of ``/dev``: ``/dev/shm`` is a file system in memory, with files as any other's.
_OPENED = ("/dev/std", "/dev/fd/", "/proc/")


# --- names


def value_name() -> str:
    """Return a new name for an unfinished value of a store, in the directory where it belongs.

    Examples
    --------
    >>> is_partial(value_name()), is_partial("zarr.json")
    (True, False)
    """
    return f"{_MARK}{new_writer()}{_END}"


def new_writer() -> str:
    """Return a new name for one act of writing: it says the machine and the process."""
    process = os.getpid()
    return f"{_machine()}-{process:x}-{_own_token(process)}-{next(_numbers):x}"


def is_writing(writer: str) -> bool | None:
    """Return whether the process that a writer's name says is alive; None if it cannot be asked.

    Examples
    --------
    >>> is_writing(new_writer()), is_writing("00000000-1-0-0")
    (True, None)
    """
    found = re.fullmatch(_WRITER, writer)
    # On Windows there is no harmless way to ask for a process.
    if found is None or os.name == "nt" or found["machine"] != _machine():
        return None
    process = int(found["process"], 16)
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    state = _state(process)
    if state is None:
        return True
    # Nobody may have asked how it ended; or another process may have got its number since.
    ended, token = state
    return not ended and (len(found["token"]) != _LONG_TOKEN or found["token"] == token)


def is_partial(name: str) -> bool:
    """Return whether a file name is one that values inside a store have while they are written."""
    return name.startswith(_MARK) and name.endswith(_END)


def partial_path(target: str | os.PathLike[str]) -> Path:
    """Return a new name beside `target`, and remove what processes that ended left of the same target.

    Examples
    --------
    >>> partial_path("data/run42.nc").name.startswith(".run42.nc.nczarr-")
    True
    """
    target = Path(target)
    remove_leftovers(target)
    return target.with_name(f".{_stem(target)}{value_name()}")


def _stem(target: Path) -> str:
    # A file name may have 255 bytes.
    return target.name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")


@functools.cache
def _machine() -> str:
    """Where process numbers are the same: a host, and in it a container."""
    text = platform.node()
    with suppress(OSError):
        text += f" {os.stat('/proc/self/ns/pid').st_ino}"
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


@functools.lru_cache(maxsize=1)
def _own_token(process: int) -> str:
    found = _state(process)
    return found[1] if found else _token


def _state(process: int) -> tuple[bool, str] | None:
    """Whether a process has ended, and when it began, as a token; None if that cannot be found out."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name of the program, in parentheses, may hold anything.
            words = file.read().rpartition(b")")[2].split()
        ended = words[0] in (b"Z", b"X", b"x")
        return ended, f"{int(words[19]):0{_LONG_TOKEN}x}"  # in ticks since the system began
    except (OSError, ValueError, IndexError):
        return None


def partials_of(target: Path) -> list[Path]:
    """Return the unfinished files beside `target` that are to take its place, whoever writes them."""
    return [path for path, found in _partials(target.parent) if found["target"] == _stem(target)]


# --- what dead processes left


def remove_leftovers(target: Path) -> list[Path]:
    """Remove what processes that ended left beside `target` of writing it; return what it was."""
    removed = []
    for path, found in _partials(target.parent):
        if found["target"] != _stem(target) or is_writing(found["writer"]) is not False:
            continue
        if found["old"] and not os.path.lexists(target):
            continue  # it is all there is: its successor was not put in place any more
        if _remove(path):
            removed.append(path)
    return removed


def restore(target: Path) -> bool:
    """Put back what a process that ended had moved aside to replace it; False if there is no such thing."""
    if os.path.lexists(target):
        return False
    for path, found in _partials(target.parent):
        if found["old"] and found["target"] == _stem(target) and is_writing(found["writer"]) is False:
            os.rename(path, target)
            return True
    return False


def remove_partial_values(folder: Path) -> list[Path]:
    """Remove the unfinished values that processes which ended left in a store's directories."""
    removed = []
    for parent, _, _ in os.walk(folder):
        for path, found in _partials(Path(parent)):
            if found["target"] is None and is_writing(found["writer"]) is False and _remove(path):
                removed.append(path)
    return removed


def remove_empty_directories(folder: Path) -> None:
    """Remove the directories below one that hold nothing, as they are left where the last file was removed."""
    for parent, _, _ in os.walk(folder, topdown=False):
        if parent != os.fspath(folder):
            with suppress(OSError):  # not empty
                os.rmdir(parent)


def holds_nothing(folder: Path) -> bool:
    """True if below a directory are other directories at most, and what processes that ended left unfinished.

    Raises
    ------
    OSError
        If it cannot be listed.
    """

    def refuse(error: OSError) -> None:
        raise error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        for name in files:
            found = _FORM.fullmatch(name)
            if found is None or found["target"] is not None or is_writing(found["writer"]) is not False:
                return False
        if any(os.path.islink(os.path.join(parent, name)) for name in folders):
            return False
    return True


def _partials(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        if _MARK in name and (found := _FORM.fullmatch(name)):
            yield folder / name, found


def _remove(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


# --- putting in place


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


def replace_directory(partial: Path, target: Path, *, durable: bool = True) -> None:
    """Put a complete directory in the place of another, and remove that.

    Where the system can exchange names, there is always one of the two under the name. `durable`: the disk has the new
    directory before it gets the name, and the name before the old directory goes.
    """
    if durable:
        sync_tree(partial)
    old = partial
    if not exchange(partial, target):
        old = partial.with_name(f"{partial.name.removesuffix(_END)}.old{_END}")
        os.rename(target, old)
        try:
            os.rename(partial, target)
        except OSError as error:
            try:
                os.rename(old, target)
            except OSError:
                error.add_note(f"what was there is {old} now; rename it, or let nczarr clean do it")
            raise
    if durable:
        sync_folder_of(target)
    shutil.rmtree(old, ignore_errors=True)


class Output:
    """A file to be written whole: under a temporary name beside the target, unless the target is no regular file.

    Links are followed: what they point to is replaced. Devices, pipes and sockets are written to. A regular file
    that is replaced keeps its permissions.

    Attributes
    ----------
    target : Path
        What is replaced or written to.
    path : Path
        Where to write before :meth:`commit`: beside the target, or, for a device or pipe, in the directory for
        temporary files.
    durable : bool
        The disk has the new file before it gets its name, and the name before :meth:`commit` returns.

    Raises
    ------
    OSError
        The target is a chain of links without end.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self._process = os.getpid()
        self.durable = True
        self.is_stream = _is_stream(target)
        if self.is_stream:
            self.target = Path(target)
            self.path = Path(tempfile.gettempdir()) / f".output{value_name()}"
        else:
            self.target = Path(os.path.realpath(target))
            if self.target.is_symlink():
                self.target.stat()  # the system's own word for a loop
            self.path = partial_path(self.target)

    def copy_target(self) -> None:
        """Begin with the bytes of the file that is replaced; file systems that can share them."""
        with self.target.open("rb", buffering=0) as source, self.path.open("xb", buffering=0) as file:
            if hasattr(os, "copy_file_range"):
                # Some file systems refuse; what they have not copied is still to be read.
                with suppress(OSError):
                    while os.copy_file_range(source.fileno(), file.fileno(), 1 << 30):
                        pass
            shutil.copyfileobj(source, file, 1 << 20)

    def commit(self) -> None:
        """Give the complete file its name, or send it to the device or pipe."""
        if self.is_stream:
            with self.path.open("rb") as file, _open_stream(self.target) as stream:
                shutil.copyfileobj(file, stream, 1 << 20)
            self.discard()
            return
        with suppress(FileNotFoundError):
            shutil.copymode(self.target, self.path)
        if self.durable:
            sync_path(self.path)
        os.replace(self.path, self.target)
        if self.durable:
            sync_folder_of(self.target)

    def discard(self) -> None:
        """Remove what was written; no harm after :meth:`commit`, nor in a forked child: it is the parent's."""
        if os.getpid() == self._process:
            with suppress(OSError):
                self.path.unlink()


@contextmanager
def text_output(target: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file that gets its name at the end of the block; a device or pipe is written to at once.

    Examples
    --------
    >>> path = Path(tempfile.gettempdir(), "nczarr-example.cdl")
    >>> with text_output(path) as file:
    ...     print("netcdf a {", file=file)
    >>> path.read_text(); path.unlink()
    'netcdf a {\\n'
    """
    settings = {"encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
    if _is_stream(target):
        with io.TextIOWrapper(_open_stream(target), **settings) as stream:  # type: ignore[arg-type]
            yield stream
        return
    output = Output(target)
    try:
        with output.path.open("w", **settings) as file:  # type: ignore[call-overload]
            yield file
        output.commit()
    finally:
        output.discard()


def _is_stream(target: str | os.PathLike[str]) -> bool:
    if os.path.abspath(target).startswith(_OPENED):
        return True
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _open_stream(target: str | os.PathLike[str]) -> IO[bytes]:
    # Not truncated: behind /dev/stdout may be a file that others write to.
    return open(os.open(target, os.O_WRONLY | os.O_APPEND), "wb")

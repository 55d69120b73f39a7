"""Write files atomically: write to a temporary name, then rename. Remove the temporary files of ended processes.

Only this module opens temporary names. Each is new: a file or link that another user has planted is never opened. A
temporary file or directory that replaces another one is private until it has the owner, mode and access control list
of the other, directly before the rename.

The temporary name of a file or directory is ``.TARGET.nczarr-MACHINE-PROCESS-TOKEN-N.tmp``; names of values inside a
store have no TARGET. The name identifies the writing process. A killed process cannot remove its temporary files, so
the next process on the same machine that writes the same target removes them.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import io
import itertools
import os
import platform
import re
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import IO, TextIO

from nczarr.lazy import pattern
from nczarr.system.durability import sync_folder_of, sync_path
from nczarr.system.failures import writing
from nczarr.system.forks import Origin
from nczarr.system.warning import warn

#: Linux's AT_FDCWD, RENAME_NOREPLACE and RENAME_EXCHANGE, for renameat2.
_AT_FDCWD = -100
_NO_REPLACE = 1
_SWAP = 2
#: renamex_np's flag on macOS.
_EXCLUSIVE = 4
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL
for _name in ("O_CLOEXEC", "O_BINARY", "O_NOFOLLOW"):
    _CREATE |= getattr(os, _name, 0)
#: Errors of a file system that has no hard links, or does not know a way to rename.
_UNSUPPORTED = {errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK}
_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
#: An entry of an access control list in its extended attribute: tag, permissions, user or group.
_ACL_ENTRY = struct.Struct("<HHI")
#: Linux's ACL_GROUP_OBJ and ACL_OTHER.
_ACL_OWN_GROUP, _ACL_OTHER = 0x04, 0x20

_MARK = ".nczarr-"
_END = ".tmp"
_WRITER = r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9a-f]+)-(?P<token>[0-9a-f]+)-[0-9a-f]+"
_FORM = pattern(rf"(?:\.(?P<target>.*))?\.nczarr-(?P<writer>{_WRITER})(?P<old>\.old)?\.tmp", re.DOTALL)
_numbers = itertools.count()
#: Token of this process on systems without start times of processes. It distinguishes processes with the same ID.
_token = os.urandom(4).hex()
#: Number of digits of a token that encodes the start time of a process.
_LONG_TOKEN = 12

#: Outputs below these prefixes are written in place, never replaced: ``/dev/stdout`` may be a file that a shell has
#: opened. ``/dev`` itself is not listed, because ``/dev/shm`` contains regular files.
_OPENED = ("/dev/std", "/dev/fd/", "/proc/")


# --- names


def value_name() -> str:
    """Return a new temporary name for a value of a store, in the directory of the value.

    Examples
    --------
    >>> is_partial(value_name()), is_partial("zarr.json")
    (True, False)
    """
    return f"{_MARK}{new_writer()}{_END}"


def new_writer() -> str:
    """Return a new unique name for a writer, which identifies the machine and the process."""
    # The machine, because a shared disk has writers of several; the start time, because systems use numbers of
    # processes again.
    process = os.getpid()
    return f"{_machine()}-{process:x}-{_own_token(process)}-{next(_numbers):x}"


class WriterState(Enum):
    """The process of a writer: alive, ended, or on another machine, where its state is unknown."""

    ALIVE = "alive"
    ENDED = "ended"
    UNKNOWN = "unknown"


def writer_state(writer: str) -> WriterState:
    """Return the state of the process of a writer.

    Examples
    --------
    >>> writer_state(new_writer()), writer_state("00000000-1-0-0")
    (<WriterState.ALIVE: 'alive'>, <WriterState.UNKNOWN: 'unknown'>)
    """
    found = re.fullmatch(_WRITER, writer)
    # On Windows, os.kill cannot test whether a process exists.
    # Unknown is not ended: what another machine may be writing must stay.
    if found is None or os.name == "nt" or found["machine"] != _machine():
        return WriterState.UNKNOWN
    process = int(found["process"], 16)
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return WriterState.ENDED
    except OSError:
        pass
    state = _state(process)
    if state is None:
        return WriterState.ALIVE
    # The process may be a zombie, or another process may have the same ID now.
    ended, token = state
    is_same = len(found["token"]) != _LONG_TOKEN or found["token"] == token
    return WriterState.ALIVE if is_same and not ended else WriterState.ENDED


def is_partial(name: str) -> bool:
    """Return True if a file name is the temporary name of a value inside a store."""
    return name.startswith(_MARK) and name.endswith(_END)


def partial_path(target: str | os.PathLike[str]) -> Path:
    """Return a new temporary path beside `target`, and remove the temporary files of ended writers of `target`.

    Examples
    --------
    >>> partial_path("data/run42.nc").name.startswith(".run42.nc.nczarr-")
    True
    """
    target = Path(target)
    remove_leftovers(target)
    return target.with_name(f".{_stem(target)}{value_name()}")


def _stem(target: Path) -> str:
    # The limit for file names is 255 bytes.
    return target.name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")


@functools.cache
def _machine() -> str:
    """Return an identifier of the process ID namespace: the host and, on Linux, the container."""
    from hashlib import blake2b  # loads OpenSSL, which only a writer needs

    text = platform.node()
    with suppress(OSError):
        # Two containers of one host number their processes alike.
        text += f" {os.stat('/proc/self/ns/pid').st_ino}"
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


@functools.lru_cache(maxsize=1)
def _own_token(process: int) -> str:
    found = _state(process)
    return found[1] if found else _token


def _state(process: int) -> tuple[bool, str] | None:
    """Return whether a process has ended, and its start time as a token; None if they are unknown."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The program name in parentheses may contain any character.
            words = file.read().rpartition(b")")[2].split()
        ended = words[0] in (b"Z", b"X", b"x")
        return ended, f"{int(words[19]):0{_LONG_TOKEN}x}"  # start time in clock ticks since boot
    except (OSError, ValueError, IndexError):
        return None


def partials_of(target: Path) -> list[Path]:
    """Return the temporary files of all writers of `target`."""
    return [path for path, found in _partials(target.parent) if found["target"] == _stem(target)]


# --- temporary files of ended processes


def remove_leftovers(target: Path) -> list[Path]:
    """Remove the temporary files of ended writers of `target`; return their paths."""
    removed = []
    for path, found in _partials(target.parent):
        if found["target"] != _stem(target) or writer_state(found["writer"]) is not WriterState.ENDED:
            continue
        if found["old"] and not os.path.lexists(target):
            # `remove_leftovers` runs before every new write of the target.
            continue  # the only complete version: its writer ended before it renamed the new version
        if _remove(path):
            removed.append(path)
    return removed


def restore(target: Path) -> bool:
    """Rename the old version of `target`, which an ended process moved aside, back; return False if there is none."""
    if os.path.lexists(target):
        return False
    for path, found in _partials(target.parent):
        if (
            found["old"]
            and found["target"] == _stem(target)
            and writer_state(found["writer"]) is WriterState.ENDED
        ):
            os.rename(path, target)
            return True
    return False


def remove_partial_values(folder: Path) -> list[Path]:
    """Remove the temporary files of ended processes from the directories of a store; return their paths."""
    removed = []
    for parent, _, _ in os.walk(folder):
        for path, found in _partials(Path(parent)):
            if (
                found["target"] is None
                and writer_state(found["writer"]) is WriterState.ENDED
                and _remove(path)
            ):
                removed.append(path)
    return removed


def remove_empty_directories(folder: Path) -> None:
    """Remove all empty directories below `folder`, and itself if it is empty then."""
    for parent, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):  # not empty
            os.rmdir(parent)


def holds_nothing(folder: Path) -> bool:
    """Return True if a directory contains only directories and temporary files of ended processes.

    Raises
    ------
    OSError
        If a directory cannot be listed.
    """

    def refuse(error: OSError) -> None:
        raise error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        for name in files:
            found = _FORM.fullmatch(name)
            if (
                found is None
                or found["target"] is not None
                or writer_state(found["writer"]) is not WriterState.ENDED
            ):
                return False
        # A link may lead to files of the user.
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


def remove_tree(path: Path) -> None:
    """Remove a directory with all that it contains, as far as that is possible."""
    import shutil  # loads the libraries of its archives, which no reader needs

    shutil.rmtree(path, ignore_errors=True)


def _copy_rest(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file from its position on."""
    import shutil

    shutil.copyfileobj(source, target, 1 << 20)


def _remove(path: Path) -> bool:
    # A link of that name is another user's: its target is not ours to empty.
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        with suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


# --- new files and directories


class LeftoverWarning(UserWarning):
    """A part of a replaced dataset cannot be removed; it has a hidden name now."""


def create_file(path: str | os.PathLike[str], *, private: bool = False) -> int:
    """Create a file and return its descriptor, open for reading and writing; an existing name or link is an error.

    Examples
    --------
    >>> import tempfile
    >>> path = partial_path(Path(tempfile.gettempdir(), "run42.nc"))
    >>> os.close(create_file(path, private=True))
    >>> oct(path.stat().st_mode & 0o777); path.unlink()
    '0o600'
    """
    # In a folder that others may write to, a link under this name would redirect the write: `_CREATE` follows none,
    # and opens nothing that exists.
    return os.open(path, _CREATE, 0o600 if private else 0o666)


def create_directory(path: Path, target: Path | None = None) -> None:
    """Create a temporary directory. Only the user can enter it, unless `target` is new.

    Its content inherits the group and the access control list that a replaced directory `target` hands down.

    Examples
    --------
    >>> import tempfile
    >>> path = partial_path(Path(tempfile.gettempdir(), "run42.zarr"))
    >>> create_directory(path)
    >>> oct(path.stat().st_mode & 0o777); path.rmdir()
    '0o700'
    """
    is_new = target is not None and not target.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    # A new dataset has the rights of the user's mask. One that replaces another must at no moment be more open than
    # that.
    os.mkdir(path, 0o777 if is_new else 0o700)
    if target is None or is_new:
        return
    status = os.stat(target)
    if status.st_mode & stat.S_ISGID and _own(path, -1, status.st_gid):
        os.chmod(path, 0o2700)
    _copy_acl(_acl(target, _DEFAULT), path, _DEFAULT)


def move_to_free_name(temporary: str, path: str) -> None:
    """Give a complete file its name, if no file has the name.

    A file system without hard links renames; one that cannot rename to free names only lets a reader see an empty file
    for a moment, or after a kill, but never a part of the file.

    Raises
    ------
    FileExistsError
        If the name is in use.
    """
    try:
        # `os.replace` would replace a file that another writer has created meanwhile.
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        if not _rename(temporary, path, _EXCLUSIVE if sys.platform == "darwin" else _NO_REPLACE):
            os.close(create_file(path))
            os.replace(temporary, path)
    else:
        os.unlink(temporary)


def ignores_case(folder: str | os.PathLike[str]) -> bool:
    """Return True if ``T`` and ``t`` are the same name in a directory, or else in the nearest one that exists.

    A temporary file tells where it can be created, or else the name of the directory.

    Examples
    --------
    >>> ignores_case("/no/such/directory")
    False
    """
    path = Path(os.path.abspath(folder))
    while not path.is_dir() and path != path.parent:
        path = path.parent
    probe = path / value_name()
    try:
        os.close(create_file(probe, private=True))
    except OSError:
        # The folder is not writable: its own name is the only trial.
        other = path.with_name(path.name.swapcase())
        return other != path and other.exists() and os.path.samefile(path, other)
    try:
        return os.path.lexists(probe.with_name(probe.name.swapcase()))
    finally:
        probe.unlink(missing_ok=True)


# --- rights


def keep_rights(target: Path, partial: Path) -> None:
    """Give a private file or directory the owner, mode and access control list of the one that it replaces.

    Where the owner or group cannot be kept, the rights of the group are limited to those of all users. The rights are
    at no moment wider than in the end.

    Raises
    ------
    OSError
        If the access control list cannot be kept.
    """
    status = os.stat(target)
    acl = _acl(target, _ACCESS)
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "chown"):
        if not _own(partial, status.st_uid, -1):
            # The bits that lend rights would lend those of another owner.
            mode &= ~stat.S_ISUID
        if not _own(partial, -1, status.st_gid):
            mode &= ~stat.S_ISGID
            if acl is None:
                # Another group would get rights that were given to the old one.
                mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
            else:
                acl = _without_group(acl)
    _copy_acl(acl, partial, _ACCESS)
    if partial.is_dir():
        _copy_acl(_acl(target, _DEFAULT), partial, _DEFAULT)
    os.chmod(partial, mode)


def _own(path: Path, user: int, group: int) -> bool:
    """Give a file to a user or group; return False if that is not allowed."""
    status = os.stat(path)
    if user in (-1, status.st_uid) and group in (-1, status.st_gid):
        return True
    try:
        os.chown(path, user, group)
    except OSError:
        return False
    return True


def _acl(path: Path, name: str) -> bytes | None:
    """Return an access control list; None if there is none, or the system has no such lists."""
    if hasattr(os, "getxattr"):
        with suppress(OSError):
            return os.getxattr(path, name)
    return None


def _copy_acl(acl: bytes | None, path: Path, name: str) -> None:
    if acl is not None:
        os.setxattr(path, name, acl)
    elif _acl(path, name) is not None:  # the directory has handed it down
        os.removexattr(path, name)


def _without_group(acl: bytes) -> bytes:
    """Return an access control list whose owning group has at most the rights of all users."""
    head, entries = acl[:4], list(_ACL_ENTRY.iter_unpack(acl[4:]))
    others = next((rights for tag, rights, _ in entries if tag == _ACL_OTHER), 0)
    limited = [
        (tag, rights & others if tag == _ACL_OWN_GROUP else rights, who) for tag, rights, who in entries
    ]
    return head + b"".join(_ACL_ENTRY.pack(*entry) for entry in limited)


def refuse_unremovable(target: Path) -> None:
    """Raise an error for a directory that this user may not replace: it could not be removed afterwards.

    Raises
    ------
    PermissionError
        If a directory is not writable, or belongs to another user in a directory with the sticky bit.
    """
    # Refused before the copy, not after hours of it.
    above = os.stat(target.parent)
    owners = {0, above.st_uid, os.stat(target).st_uid}
    if above.st_mode & stat.S_ISVTX and hasattr(os, "geteuid") and os.geteuid() not in owners:
        raise PermissionError(errno.EPERM, "it belongs to another user, in a shared folder", str(target))
    for folder in (str(target.parent), *(parent for parent, _, _ in os.walk(target))):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "the folder is not writable", folder)


# --- replacing targets


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two files or directories atomically; return False if the system cannot."""
    try:
        return _rename(first, second, _SWAP)
    except FileExistsError:
        return False


def _rename(first: str | Path, second: str | Path, flag: int) -> bool:
    """Rename with a flag; return False if the system cannot, and raise FileExistsError if the name is in use."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        # Python has no call that exchanges two names.
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            done = library.renamex_np(*names, flag) == 0
        else:
            done = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag) == 0
    except (AttributeError, OSError, TypeError):
        return False
    if not done and ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(second))
    return bool(done)


def replace_directory(partial: Path, target: Path, sync: Callable[[], None] | None) -> None:
    """Replace a directory by a complete new version, and remove the old version.

    If the system can exchange names, the target exists at every moment. The new version is synced to disk by `sync`
    before it is renamed, and the new name before the old version is removed; with None, neither waits. The new version
    gets the owner, mode and access control list of the old one. If a part of the old version cannot be removed, a
    :class:`LeftoverWarning` names it.
    """
    keep_rights(target, partial)
    if sync is not None:
        # Bytes before the name: ext4 and XFS keep a new name without its bytes after a loss of power
        # (`tests/trust/power.py`).
        sync()
    old = partial
    # Without an exchange there is a moment without the dataset: `restore` brings the old one back after a kill in
    # it.
    if not exchange(partial, target):
        old = partial.with_name(f"{partial.name.removesuffix(_END)}.old{_END}")
        os.rename(target, old)
        try:
            os.rename(partial, target)
        except OSError as error:
            try:
                # The new version has not got the name: the old one gets it back.
                os.rename(old, target)
            except OSError:
                error.add_note(
                    f"the old version of {target} is {old}; rename it, or run nczarr clean {target}"
                )
            raise
    if sync is not None:
        # The old version goes only when the disk has the new name.
        sync_folder_of(target)
    # The new version is complete, so an error here must not make it fail: a warning names what stays.
    remove_tree(old)
    if os.path.lexists(old):
        warn(
            f"{target} is replaced, but its old version cannot be removed: it is {old} now; remove that",
            LeftoverWarning,
        )


class Output:
    """An output file that is written to a temporary path and then replaces its target.

    Symbolic links are followed, and their targets replaced. Devices, pipes and sockets are written to, not replaced.
    A replaced regular file keeps its owner, mode and access control list, see :func:`keep_rights`.

    Attributes
    ----------
    target : Path
        The file to replace, or the device, pipe or socket to write to.
    path : Path
        Temporary path to write before :meth:`commit`: beside the target, or for devices, pipes and sockets in the
        directory for temporary files.
    durable : bool
        If True, :meth:`commit` syncs the file to disk before it is renamed, and the new name before it returns.

    Raises
    ------
    OSError
        If the target is a loop of symbolic links.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self._origin = Origin()
        self.durable = True
        self.is_stream = _is_stream(target)
        if self.is_stream:
            from tempfile import gettempdir

            self.target = Path(target)
            self.path = Path(gettempdir()) / f".output-{os.urandom(8).hex()}{value_name()}"
        else:
            # A link stays a link: `os.replace` on it would turn it into a file.
            self.target = Path(os.path.realpath(target))
            if self.target.is_symlink():
                self.target.stat()  # raises the operating system's error for a loop
            # Beside the target, because a rename between file systems is a copy.
            self.path = partial_path(self.target)

    def create(self) -> int:
        """Create the temporary file, and return its descriptor, open for reading and writing."""
        return create_file(self.path, private=self.is_stream or self.target.exists())

    def open(self) -> io.BufferedRandom:
        """Create the temporary file, and open it for reading and writing."""
        return open(self.create(), "w+b")

    def copy_target(self) -> None:
        """Copy the target to the temporary path; the copy shares blocks if the file system supports that."""
        with self.target.open("rb", buffering=0) as source, open(self.create(), "r+b", buffering=0) as file:
            if hasattr(os, "copy_file_range"):
                # Some file systems refuse this call; copyfileobj below copies the remaining bytes.
                with suppress(OSError):
                    while os.copy_file_range(source.fileno(), file.fileno(), 1 << 30):
                        pass
            _copy_rest(source, file)

    def commit(self) -> None:
        """Rename the complete file to the target, or write it to the device, pipe or socket."""
        if self.is_stream:
            with self.path.open("rb") as file, _open_stream(self.target) as stream:
                _copy_rest(file, stream)
            self.discard()
            return
        if self.target.exists():
            keep_rights(self.target, self.path)
        if self.durable:
            sync_path(self.path)
        os.replace(self.path, self.target)
        if self.durable:
            sync_folder_of(self.target)

    def discard(self) -> None:
        """Remove the temporary file; do nothing after :meth:`commit`, or in a forked child."""
        # The file belongs to the parent, which goes on writing it.
        if self._origin.is_here:
            with suppress(OSError):
                self.path.unlink()


@contextmanager
def text_output(target: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file that replaces its target at the end of the block; write to devices and pipes directly.

    The operating system's errors name the target.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.gettempdir(), "nczarr-example.cdl")
    >>> with text_output(path) as file:
    ...     print("netcdf a {", file=file)
    >>> path.read_text(); path.unlink()
    'netcdf a {\\n'
    """
    settings = {"encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
    with writing(os.fspath(target)):
        if _is_stream(target):
            with io.TextIOWrapper(_open_stream(target), **settings) as stream:  # type: ignore[arg-type]
                yield stream
            return
        output = Output(target)
        try:
            with io.TextIOWrapper(output.open(), **settings) as file:  # type: ignore[arg-type]
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
    # Do not truncate: /dev/stdout may be a file that other programs write to.
    return open(os.open(target, os.O_WRONLY | os.O_APPEND), "wb")

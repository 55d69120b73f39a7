"""Decide which files references may name, and read them.

References come with foreign data, and may name any file and any server. nczarr reads files in the folder of the
references, and below the prefixes that the user allows. It compares locations by their parts: a path after all symbolic
links are resolved, a URL by scheme, host and the parts of its path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from stat import S_ISREG
from typing import Any
from urllib.parse import unquote, urlsplit

from nczarr.errors import NotAllowedError, StoreError
from nczarr.options import named
from nczarr.stores.base import Request, Store, clip
from nczarr.stores.local import READ
from nczarr.system.descriptors import read_at
from nczarr.system.failures import system_error
from nczarr.system.redirects import http_client
from nczarr.targets import StorageOptions, parse_target

#: Open the folder behind a URL for reading, with storage options.
OpenFolder = Callable[[str, dict[str, Any]], Store]

_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True)
class FileLocation:
    """The location of a file or folder.

    Parameters
    ----------
    scheme : str
        ``file`` for paths.
    host : str
        The host of a URL, with user and port; the bucket of an object store.
    parts : tuple of str
        The parts of the path.
    location : str
        The path with all symbolic links resolved, or the URL.
    """

    scheme: str
    host: str
    parts: tuple[str, ...]
    location: str

    @property
    def root(self) -> tuple[str, str]:
        """The scheme and the host."""
        return self.scheme, self.host

    @property
    def folder(self) -> str:
        """The folder of the place as a prefix for ``--allow``."""
        if self.scheme == "file":
            return os.path.dirname(self.location)
        return self.location.partition("?")[0].rpartition("/")[0] + "/"

    def is_within(self, folder: FileLocation) -> bool:
        """Return True if this is the same place as `folder` or below it.

        Examples
        --------
        >>> place_of("https://HOST/a/b").is_within(place_of("https://host:443/a/"))
        True
        >>> place_of("https://host/ab").is_within(place_of("https://host/a"))
        False
        """
        return self.root == folder.root and self.parts[: len(folder.parts)] == folder.parts


def place_of(url: str, beside: str | None = None) -> FileLocation:
    """Return the place of a path or URL; a relative path is relative to the folder `beside`.

    Raises
    ------
    NotAllowedError
        If the URL is a chain, or its path has parts that servers interpret in different ways.

    Examples
    --------
    >>> place_of("http://user@Host:8080/a%20b/c?x=1")
    FileLocation(scheme='http', host='user@host:8080', parts=('a b', 'c'), location='http://user@Host:8080/a%20b/c?x=1')
    """
    # The system reads a path up to its NUL, which is another path than the one that was checked.
    if "\0" in url:
        raise NotAllowedError("the path contains NUL", path=url)
    if "://" not in url or url[:7].lower() == "file://":
        path = parse_target(url).location if "://" in url else url
        # A symbolic link in an allowed folder may lead out of it.
        real = os.path.realpath(os.path.join(beside or "", path))
        return FileLocation("file", "", tuple(filter(None, real.replace(os.sep, "/").split("/"))), real)
    try:
        parsed = urlsplit(url)
        user, at, host = parsed.netloc.rpartition("@")
        scheme = parsed.scheme.lower()
        # "https://host:443/" and "https://host/" are one server.
        host = host.lower().removesuffix(f":{_PORTS[scheme]}") if scheme in _PORTS else host
    except ValueError as error:
        raise NotAllowedError(f"not a URL: {error}", path=url) from None
    parts = tuple(parsed.path.strip("/").split("/")) if parsed.path.strip("/") else ()
    if scheme in _PORTS:
        # "%2e%2e" is "..": the parts are compared as the server reads them.
        parts = tuple(map(unquote, parts))
    # fsspec chains file systems by "::", and a server follows ".." in any spelling.
    if "::" in url.partition("?")[0] or any(p in (".", "..") or "/" in p or "\\" in p for p in parts):
        raise NotAllowedError("references name a URL whose parts do not determine its location", path=url)
    return FileLocation(scheme, user + at + host, parts, url)


class Reach:
    """The files that references may name.

    Parameters
    ----------
    folder : str or None
        The path or URL of the folder of the references; None if they are not in a folder.
    allow : iterable of str
        Paths and URLs; references may also name files below them.
    options : mapping
        Storage options: for the host of `folder`, else for the only remote host in `allow`; or a mapping from
        prefixes to options, ``{"https://host/": {...}}``.
    open_folder : callable
        Opens the folder of a remote file.
    """

    def __init__(
        self, folder: str | None, allow: Iterable[str], options: StorageOptions, open_folder: OpenFolder
    ) -> None:
        self.folder = folder
        self._local = folder if folder is not None and "://" not in folder else None
        own = () if folder is None else (place_of(folder),)
        self.allowed = (*own, *map(place_of, allow))
        self._options = _by_place(options, own, self.allowed)
        self._open_folder = open_folder
        self._checked: dict[str, FileLocation] = {}
        self._stores: dict[str, Store] = {}

    def place(self, url: str) -> FileLocation:
        """Return the place of a file.

        Raises
        ------
        NotAllowedError
            If references may not name it.
        """
        place = self._checked.get(url)
        if place is None:
            if self.folder is not None and self._local is None and "://" not in url:
                place = place_of(f"{self.folder.rstrip('/')}/{url}")
            else:
                place = place_of(url, self._local)
            if not any(place.is_within(folder) for folder in self.allowed):
                raise NotAllowedError(
                    "references name this file, which is neither in their folder nor below an allowed prefix",
                    path=url,
                    hint=f"to allow it: {named('allow', [place.folder])}",
                )
            self._checked[url] = place
        return place

    def allows(self, url: str) -> bool:
        """Return whether references may name a file."""
        with suppress(NotAllowedError):
            self.place(url)
            return True
        return False

    def read(self, requests: Sequence[Request]) -> list[bytes]:
        """Return parts of files: of each the path or URL, and start and length as in :meth:`Store.get_range`.

        Raises
        ------
        NotAllowedError
            If references may not name a file.
        StoreError
            If a file is missing, cannot be read, or ends before the part.
        """
        found: list[bytes] = [b""] * len(requests)
        places = [self.place(url) for url, _, _ in requests]
        files: dict[str, list[int]] = {}
        for number, place in enumerate(places):
            folder = place.location if place.scheme == "file" else _cut(place.location)[0]
            files.setdefault(folder, []).append(number)
        for where, numbers in files.items():
            if places[numbers[0]].scheme == "file":
                parts: Sequence[bytes | None] = _read_file(where, [requests[n] for n in numbers])
            else:
                store = self._store(where, places[numbers[0]])
                asked = [(_cut(places[n].location)[1], *requests[n][1:]) for n in numbers]
                parts = store.get_ranges(asked)
            for number, part in zip(numbers, parts, strict=True):
                url, _, length = requests[number]
                if part is None:
                    raise StoreError("references name this file, which does not exist", path=url)
                if length is not None and len(part) < length:
                    raise StoreError("the file ends before a part that references name", path=url)
                found[number] = part
        return found

    def _store(self, folder: str, place: FileLocation) -> Store:
        store = self._stores.get(folder)
        if store is None:
            fitting = [(len(p.parts), options) for p, options in self._options if place.is_within(p)]
            options = dict(max(fitting, key=itemgetter(0))[1]) if fitting else {}
            # A redirect may lead to a place that is not allowed.
            if place.scheme in _PORTS:
                options.setdefault("get_client", partial(http_client, may_reach=self.allows))
            # Opening sends no request, so another thread may open the folder, too; all use the first store.
            store = self._stores.setdefault(folder, self._open_folder(folder, options))
        return store

    def close(self) -> None:
        """Close the remote folders."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            store.close()


def _by_place(
    options: StorageOptions, own: Sequence[FileLocation], allowed: Sequence[FileLocation]
) -> list[tuple[FileLocation, StorageOptions]]:
    """Return pairs of a place and its storage options."""
    if not options:
        return []
    if all("://" in name and isinstance(value, Mapping) for name, value in options.items()):
        return [(place_of(name), value) for name, value in options.items()]
    remote = {p.root: p for p in (own if own and own[0].scheme != "file" else allowed) if p.scheme != "file"}
    # Credentials for one host would go to another one.
    if len(remote) > 1:
        raise StoreError(
            "storage options are for one host, and files on several are allowed",
            hint='pass the options by prefix: {"https://host/": {...}}',
        )
    return [(FileLocation(*root, (), ""), options) for root in remote]


def _cut(url: str) -> tuple[str, str]:
    """Return the folder of a URL, with its query, and the key of the file in it."""
    address, mark, query = url.partition("?")
    folder, _, name = address.rpartition("/")
    return f"{folder}/{mark}{query}", unquote(name) if urlsplit(url).scheme.lower() in _PORTS else name


def _read_file(path: str, requests: Sequence[Request]) -> list[bytes | None]:
    """Read parts of a local file. Its path was resolved at the check, so a symbolic link is an error now."""
    try:
        with os.fdopen(os.open(path, READ | getattr(os, "O_NOFOLLOW", 0)), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            # A pipe would wait for its writer.
            if not S_ISREG(status.st_mode):
                raise StoreError("references name this, which is not a file", path=path)
            pieces = [clip(status.st_size, start, length) for _, start, length in requests]
            return [read_at(file.fileno(), first, last - first) for first, last in pieces]
    except FileNotFoundError:
        return [None] * len(requests)
    except StoreError:
        raise
    except OSError as error:
        raise system_error("read", path, error) from error

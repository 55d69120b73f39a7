"""Read values in other files: kerchunk's references, and Icechunk repositories."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import unquote

from nczarr.errors import (
    MetadataError,
    NotAllowedError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
    error_context,
)
from nczarr.formats import state_of_file
from nczarr.json_values import as_list, as_text, checked_object
from nczarr.options import verb_named, virtual_again
from nczarr.stores.base import Buffer, Names, Request, Store, Values, check_key, clip, split_names, start_of
from nczarr.stores.reach import OpenFolder, Reach, place_of
from nczarr.system.environment import read_json
from nczarr.targets import StorageOptions
from nczarr.text import missing_package

#: The location of a value: the path or URL of a file, the offset, and the number of bytes; None: the whole file.
ReferredBytes = tuple[str, int, int | None]

#: The columns of a Parquet file.
Rows = Mapping[str, Sequence[object]]

#: The columns of Parquet files with the state of a local file: its size, and its modification time in ns.
STATES = ("file_size", "file_modified")
_RECORD = re.compile(r"refs\.(\d{1,18})\.parq")
#: Number of Parquet files whose references are kept in memory.
_RECORDS = 128


class ReferenceStore(Store):
    """Keys whose values are in other files, by kerchunk's references.

    The references name all keys. Each of these keys has a value: a missing file is an error.

    Parameters
    ----------
    references : JSONReferences or ParquetReferences
    reach : Reach
        The files that references may name.
    url : str
        For messages.
    """

    writable = False
    lists_all = True
    lists_by_folder = True

    def __init__(self, references: JSONReferences | ParquetReferences, reach: Reach, url: str) -> None:
        self._references = references
        self._reach = reach
        self.url = url
        #: The files that are as they were when the references were written.
        self._same: set[str] = set()

    def get(self, key: str) -> bytes | None:
        return self.get_range(key, 0)

    def get_many(self, keys: Sequence[str]) -> Values:
        return self.get_ranges([(key, 0, None) for key in keys])

    def get_range(self, key: str, start: int, length: int | None = None) -> bytes | None:
        return self.get_ranges([(key, start, length)])[0]

    def get_ranges(self, requests: Sequence[Request]) -> Values:
        values: Values = [None] * len(requests)
        elsewhere: dict[int, Request] = {}
        for number, (key, start, length) in enumerate(requests):
            with error_context(self.place(key)):
                found = self._found(key)
            if isinstance(found, bytes):
                values[number] = found[slice(*clip(len(found), start, length))]
            elif found is not None:
                url, offset, size = found
                if size is not None:
                    first, last = clip(size, start, length)
                    start, length = offset + first, last - first
                elsewhere[number] = url, start, length
        try:
            read = self._reach.read(list(elsewhere.values()))
        except StoreError as error:
            keys = [requests[number][0] for number, (url, _, _) in elsewhere.items() if url == error.path]
            if keys:
                error.message += f"; it holds the value of {keys[0]}"
            raise
        for number, value in zip(elsewhere, read, strict=True):
            values[number] = value
        return values

    def _found(self, key: str) -> bytes | ReferredBytes | None:
        """Return the value of a key or its location, in a file that has not changed since."""
        found = self._references.find(check_key(key))
        if found is not None and not isinstance(found, bytes) and found[0] not in self._same:
            state = self._references.states.get(found[0])
            if state is not None:
                _refuse_changed({found[0]: state}, self._reach)
            self._same.add(found[0])
        return found

    def located(self, key: str) -> bytes | ReferredBytes | None:
        """Return the value of a key that the references have, else its location: the resolved path or the URL.

        None if the key has no value.

        Raises
        ------
        NotAllowedError
            If the references may not name the file.
        """
        found = self._references.find(check_key(key))
        return (
            found
            if found is None or isinstance(found, bytes)
            else (self._reach.place(found[0]).location, *found[1:])
        )

    def size(self, key: str) -> int | None:
        found = self._references.find(check_key(key))
        if found is None or isinstance(found, bytes):
            return None if found is None else len(found)
        return len(self.get(key) or b"") if found[2] is None else found[2]

    def exists(self, key: str) -> bool:
        return self._references.find(check_key(key)) is not None

    def set(self, key: str, data: Buffer) -> None:
        raise ReadOnlyError("nczarr only reads references to other files", path=self.place(key))

    def delete(self, key: str) -> None:
        self.set(key, b"")

    def list(self, prefix: str = "") -> Iterator[str]:
        start = start_of(prefix)
        return iter(sorted(key for key in self._references.keys(start) if key.startswith(start)))

    def list_dir(self, prefix: str = "") -> Names:
        start = start_of(prefix)
        return split_names(key[len(start) :] for key in self._references.near(start) if key.startswith(start))

    def close(self) -> None:
        self._reach.close()


class JSONReferences:
    """The references in one JSON document.

    Examples
    --------
    >>> found = JSONReferences({"version": 1, "templates": {"u": "a.nc"}, "refs": {"v/0": ["{{u}}", 8, 4], "k": "x"}})
    >>> found.find("v/0"), found.find("k"), found.find("v/1")
    (('a.nc', 8, 4), b'x', None)
    """

    def __init__(self, document: object) -> None:
        cannot = "the references cannot be read"
        given = checked_object(document, cannot)
        # Version 0 has no envelope: the document is the references.
        refs = given.get("refs") if "refs" in given or "version" in given else given
        refs = checked_object(refs, f"{cannot}: refs")
        templates = checked_object(given.get("templates") or {}, f"{cannot}: templates")
        # kerchunk expands these by jinja, which runs code of the document.
        if given.get("gen") or any("{{" in str(text) for text in templates.values()):
            raise UnsupportedError(
                "the references require computation ('gen', or templates of templates), which nczarr does not support",
                hint="kerchunk and fsspec can expand them",
            )
        self._refs: dict[str, object] = refs
        #: All states are in the document, and compared at the opening.
        self.states: Mapping[str, tuple[int, int]] = {}
        self._templates = {str(name): str(text) for name, text in templates.items()}

    def find(self, key: str) -> bytes | ReferredBytes | None:
        """Return the value of a key or its location; None if the key has none."""
        if key not in self._refs:
            return None
        entry = self._refs[key]
        match entry:
            case str():
                return _inline(entry)
            case dict():  # a document that the writer has not turned into text
                return json.dumps(entry).encode()
            case [url]:
                return _part(self._expanded(url), 0, None)
            case [url, offset, size]:
                return _part(self._expanded(url), offset, size)
        raise MetadataError(f"not a reference: {entry!r:.60}")

    def _expanded(self, url: object) -> object:
        """Return a URL with its templates replaced."""
        if not (self._templates and isinstance(url, str)):
            return url
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: self._templates.get(found[1], found[0]), url)

    def keys(self, start: str) -> Iterable[str]:
        """Return all keys that begin with `start`, and possibly others."""
        return self._refs

    near = keys


class ParquetReferences:
    """The references in a directory: documents in ``.zmetadata``, chunks in Parquet files.

    Parameters
    ----------
    folder : Store
        The directory.
    document : dict
        The content of ``.zmetadata``.
    """

    def __init__(self, folder: Store, document: Any) -> None:
        try:
            self._size = document["record_size"]
            self._documents = {str(k): v for k, v in document["metadata"].items()}
            # JSON's true is an int for Python.
            if type(self._size) is not int or self._size < 1:
                raise ValueError("record_size")
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise MetadataError(f"the references cannot be read: {error!r}") from None
        self._folder = folder
        # nczarr writes a Parquet file for all chunks, kerchunk only for existing ones.
        self._writes_all = "nczarr_files" in document
        #: The states of the files in the rows that have been read.
        self.states: dict[str, tuple[int, int]] = {}
        self._rows = lru_cache(_RECORDS)(self._read)

    def find(self, key: str) -> bytes | ReferredBytes | None:
        """Return the value of a key or its location; None if the key has none."""
        if key in self._documents:
            text = self._documents[key]
            return text.encode() if isinstance(text, str) else json.dumps(text).encode()
        array, chunk = key[: key.rfind("/") + 1], key[key.rfind("/") + 1 :]
        grid = self._grid(array)
        # A key that is no chunk (a folder, a document) has no row.
        if grid is None or not re.fullmatch(r"\d{1,18}(\.\d{1,18})*", chunk):
            return None
        index = tuple(map(int, chunk.split(".")))
        # The row of a place outside the grid is that of another chunk.
        if len(index) != len(grid) or any(i >= n for i, n in zip(index, grid, strict=True)):
            return None
        number = 0
        for i, n in zip(index, grid, strict=True):
            number = number * n + i
        rows = self._rows(array, number // self._size)
        return None if rows is None else _row(rows, number % self._size)

    def _grid(self, array: str) -> tuple[int, ...] | None:
        """Return the number of chunks of an array (its path and a slash) along each dimension; one for a scalar."""
        text = self._documents.get(f"{array}.zarray")
        if text is None:
            return None
        try:
            found = read_json(text) if isinstance(text, str) else text
            grid = tuple(-(-int(n) // int(c)) for n, c in zip(found["shape"], found["chunks"], strict=True))
        except (TypeError, KeyError, ValueError, ZeroDivisionError) as error:
            raise MetadataError(f"{array}.zarray: {error!r}", path=self._folder.url) from None
        return grid or (1,)

    def _read(self, array: str, record: int) -> Rows | None:
        from pyarrow import ArrowException, BufferReader, parquet

        key = f"{array}refs.{record}.parq"
        data = self._folder.get(key)
        if data is None:
            # A lost file would read as fill values.
            if self._writes_all:
                raise StoreError("a file of the references is missing", path=self._folder.place(key))
            return None
        try:
            rows = dict(parquet.read_table(BufferReader(data)).to_pydict())
            for path, size, modified in zip(
                *(rows.get(name, ()) for name in ("path", *STATES)), strict=False
            ):
                if modified:
                    self.states[path] = (size, modified)
            return rows
        except (ArrowException, OSError, ValueError) as error:
            raise MetadataError(
                f"the references cannot be read: {error}", path=self._folder.place(key)
            ) from error

    def keys(self, start: str) -> Iterable[str]:
        yield from self._documents
        for array in self._arrays():
            if array.startswith(start) or start.startswith(array):
                yield from self._chunks(array)

    def near(self, start: str) -> Iterable[str]:
        """Return keys like :meth:`keys`: enough of them for the names directly below `start`."""
        return self.keys(start) if start in self._arrays() else self._documents

    def _arrays(self) -> list[str]:
        return [k.removesuffix(".zarray") for k in self._documents if k.rpartition("/")[2] == ".zarray"]

    def _chunks(self, array: str) -> Iterator[str]:
        grid = self._grid(array) or ()
        count = math.prod(grid)
        for record in self._records(array, -(-count // self._size)):
            rows = self._rows(array, record) or {}
            first = record * self._size
            length = min(self._size, count - first, max(map(len, rows.values()), default=0))
            for number in range(length):
                if _row(rows, number) is not None:
                    index, rest = [], first + number
                    for n in reversed(grid):
                        rest, i = divmod(rest, n)
                        index.append(str(i))
                    yield array + ".".join(reversed(index))

    def _records(self, array: str, count: int) -> Iterable[int]:
        """Return the numbers of the files of an array; a hostile shape may imply too many to open."""
        # A listing that promises nothing proves no absence.
        if not self._folder.lists_all:
            return range(count)
        names = map(_RECORD.fullmatch, self._folder.list_dir(array)[0])
        found = sorted(number for name in names if name and (number := int(name[1])) < count)
        if self._writes_all and len(found) < count:
            missing = next(n for n, number in enumerate([*found, -1]) if n != number)
            raise StoreError(
                "a file of the references is missing", path=self._folder.place(f"{array}refs.{missing}.parq")
            )
        return found


def _row(rows: Rows, number: int) -> bytes | ReferredBytes | None:
    """Return the value or the location in a row; None if it has neither."""

    def cell(name: str) -> object:
        column = rows.get(name, ())
        return column[number] if number < len(column) else None

    raw, url = cell("raw"), cell("path")
    if isinstance(raw, str | bytes):
        return _inline(raw)
    if not as_text(url):  # pandas writes NaN for a missing text
        return None
    offset, size = cell("offset") or 0, cell("size") or 0
    # kerchunk writes the whole file so.
    return (as_text(url), 0, None) if offset == size == 0 else _part(url, offset, size)


def _part(url: object, offset: object, size: object) -> ReferredBytes:
    if as_text(url) and _is_count(offset) and (size is None or _is_count(size)):
        return as_text(url), offset, size
    raise MetadataError(f"not a reference: {[url, offset, size]!r:.60}")


def _is_count(value: object) -> TypeGuard[int]:
    # A negative offset would be counted from the end.
    return type(value) is int and value >= 0


def _inline(text: str | bytes) -> bytes:
    value = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not value.startswith(b"base64:"):
        return value
    try:
        # Without validate, Python skips characters that are not base64, and the rest is another value.
        return base64.b64decode(value[len(b"base64:") :], validate=True)
    except binascii.Error as error:
        raise MetadataError(f"the value is not valid Base64: {error}") from None


def open_references(
    folder: Store,
    name: str | None,
    where: str,
    *,
    allow: Sequence[str] = (),
    options: StorageOptions,
    open_folder: OpenFolder,
) -> ReferenceStore:
    """Open kerchunk's references.

    Parameters
    ----------
    folder : Store
        The folder of the JSON file, or that of the Parquet files.
    name : str or None
        The JSON file; None for Parquet files.
    where : str
        The path or URL of the references.
    allow : sequence of str
        See :class:`Reach`.
    options : mapping
        See :class:`Reach`.
    open_folder : callable
        See :class:`Reach`.

    Raises
    ------
    MetadataError
        If they cannot be read, or a file has changed since they were written.
    UnsupportedError
        If they are in Parquet files and pyarrow is not installed, or they require computation.
    """
    with error_context(where):
        if name is None and find_spec("pyarrow") is None:
            raise UnsupportedError(
                "references in Parquet files need pyarrow", hint=missing_package("pyarrow", "virtual")
            )
        data = folder.get(name or ".zmetadata")
        if data is None:
            raise MetadataError("there are no references")
        try:
            document = read_json(data)
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"the references cannot be read: {error}") from None
        references = JSONReferences(document) if name is not None else ParquetReferences(folder, document)
        beside: str | None = folder.url or None
        if name is None and beside:  # the folder of a directory is its parent
            beside = (
                beside.rstrip("/").rpartition("/")[0]
                if "://" in beside
                else str(Path(beside).absolute().parent)
            )
        reach = Reach(beside, allow, options, open_folder)
        _refuse_changed(checked_object(document.get("nczarr_files", {}), "nczarr_files"), reach)
        return ReferenceStore(references, reach, where)


def _refuse_changed(states: Mapping[str, object], reach: Reach) -> None:
    """Refuse files that have not these states any more."""
    for url, state in states.items():
        now = state_of_file(url) if reach.allows(url) else None
        if now is None:  # reading a missing or forbidden file is an error
            continue
        if now != (state if isinstance(state, tuple) else tuple(as_list(state))):
            raise MetadataError(
                "the file has changed since the references were written",
                path=url,
                hint=f"write the references again: {verb_named('copy', virtual_again())}",
            )


def open_repository(path: Path, reach: Reach) -> Store:
    """Open the newest snapshot of an Icechunk repository, of format 1 or 2.

    Its virtual chunks can be read if `reach` allows all files that they name.

    Raises
    ------
    MetadataError
        If the repository cannot be read.
    UnsupportedError
        If icechunk is not installed.
    """
    try:
        import icechunk
    except ImportError:
        raise UnsupportedError("this needs icechunk", path=str(path), hint="pip install icechunk") from None
    from nczarr.stores.remote.zarr_store import ZarrStore

    with error_context(str(path)):
        try:
            storage = icechunk.local_filesystem_storage(str(path))
            plain = icechunk.Repository.open(storage)
            store = ZarrStore(plain.readonly_session("main").store, writable=False)
            # A repository of another user may refer to any file of this machine.
            try:
                for location in sorted(set(plain.readonly_session("main").all_virtual_chunk_locations())):
                    # Icechunk decodes percent-encoding, even if the name contains a percent sign.
                    for name in {location, unquote(location)}:
                        reach.place(name)
            except NotAllowedError as error:
                store.not_allowed = error
                return store
            config, credentials = _containers(icechunk, plain, reach)
            if credentials:
                opened = icechunk.Repository.open(storage, config, authorize_virtual_chunk_access=credentials)
                store = ZarrStore(opened.readonly_session("main").store, writable=False)
            return store
        except icechunk.IcechunkError as error:
            raise MetadataError(
                f"Icechunk {icechunk.__version__} cannot open the repository: {error}",
                hint="a repository of a later format needs a later Icechunk",
            ) from error


def _containers(icechunk: Any, repository: Any, reach: Reach) -> tuple[Any, dict[str, Any]]:
    """Return a configuration and credentials for the allowed virtual chunks of a repository.

    The containers in a repository are foreign data: nczarr uses only their prefixes, and no address of a server.
    """
    config = icechunk.RepositoryConfig.default()
    sentinels = getattr(icechunk, "credentials", None)
    credentials: dict[str, Any] = {}
    for container in (repository.config.virtual_chunk_containers or {}).values():
        prefix = container.url_prefix
        if not reach.allows(prefix):
            continue
        scheme = prefix.partition("://")[0].lower()
        if scheme == "file":
            store = icechunk.local_filesystem_store(place_of(prefix).location)
            credentials[prefix] = getattr(sentinels, "LocalFileSystemAccess", None)
        elif scheme in ("http", "https"):
            store = icechunk.http_store()
            credentials[prefix] = getattr(sentinels, "HttpAccess", None)
        elif scheme == "s3":
            store = icechunk.s3_store(anonymous=True)
            credentials[prefix] = icechunk.s3_anonymous_credentials()
        else:
            continue
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    return config, credentials

"""Read keys from a plain web server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from nczarr.errors import StoreError
from nczarr.lazy import cached_property
from nczarr.stores.base import DOCUMENTS, Names, Store, check_prefix, clip, start_of
from nczarr.stores.remote.concurrent import FileSystem, FileSystemStore
from nczarr.system.logs import logger_of
from nczarr.text import shown_location

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from aiohttp import ClientResponse

_TRIES = 4
#: Seconds before the second try; each later wait is four times as long.
FIRST_WAIT = 0.1
_NO_INDEX = frozenset({401, 403, 405, 501})
_PASSING = frozenset({429, 500, 502, 503, 504})


#: Maximum size in bytes of a value, and of a metadata document: a server may send an endless answer.
MAX_VALUE = 4 << 30
MAX_DOCUMENT = 1 << 30
#: So many digits fit into 64 bits.
_MOST_DIGITS = 18
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|[^0-9].*)")
#: Codings that aiohttp decodes or refuses; it passes on others unchanged.
_CODINGS = frozenset({"identity", "gzip", "deflate", "br", "zstd"})


class HTTPStore(FileSystemStore):
    """Keys below an ``http://`` or ``https://`` URL, for reading.

    Each key is one GET request with a percent-encoded path. A part is requested with ``Range``, and cut from the value
    if the server sends all of it. Status 404 and 410 mean "missing", and so does 403 for the chunks of a dataset in an
    object store that does not allow listing (with a warning); every other refusal is an error, and so is a redirect to
    another page.
    Requests that fail for a temporary reason (429, 500, 502, 503, 504, a dropped connection) are tried four times.
    A request ends with an error if the server sends nothing for ``NCZARR_ANSWER_SECONDS``.
    Each request includes the query of the URL (for example a signature).

    The store can be listed if the server answers the URL of a folder with an index page, as the automatic indices of
    nginx and Apache do; the first listing determines it. Index pages need not name every key
    (:attr:`~nczarr.stores.Store.lists_all` is False). A redirect to another host is followed without the headers,
    cookies and credentials for this host.

    Parameters
    ----------
    url : str
    fs : fsspec.implementations.http.HTTPFileSystem
        Provides the session, headers and credentials.
    """

    writable = False
    lists_by_folder = True

    def __init__(self, url: str, fs: FileSystem) -> None:
        self._fs = fs
        self.url = url
        parts = urlsplit(url)
        self._base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/"
        self._query = f"?{parts.query}" if parts.query else ""

    @cached_property
    def listable(self) -> bool:  # type: ignore[override]
        try:
            names, prefixes = self.list_dir()
        except StoreError as error:
            # nginx and others answer 403 if there is no index page; the keys may be readable.
            if getattr(error.__cause__, "status", None) not in _NO_INDEX:
                raise
            return False
        return bool(names or prefixes)

    def _give_up_listing(self) -> None:
        self.listable = False

    def _may_list(self) -> bool:
        return False  # an index page says nothing of the right to list a bucket

    def parent(self) -> tuple[Store, str] | None:
        parts = urlsplit(self._base)
        above, _, name = parts.path.strip("/").rpartition("/")
        if not name:
            return None
        url = f"{parts.scheme}://{parts.netloc}/{above}{self._query}"  # self.url has no secrets
        return HTTPStore(url, self._fs), unquote(name)

    def _loop(self) -> AbstractEventLoop | None:
        return self.fs.loop

    def _url(self, key: str) -> str:
        return f"{self._base}{quote(key, safe='/!$&()*+,:;=@~')}{self._query}"

    async def _fetch_bounded(self, key: str, most: int) -> bytes | None:
        return await self._fetch(key, 0, None, most)

    async def _fetch(self, key: str, start: int, length: int | None, most: int | None = None) -> bytes | None:
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

        again = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(_TRIES),
            wait=wait_exponential(multiplier=FIRST_WAIT, exp_base=4),
            before_sleep=lambda state: logger_of(__name__).info(
                "a request is repeated: %s", shown_location(str(state.outcome and state.outcome.exception()))
            ),
            reraise=True,
        )
        if most is None:
            most = MAX_DOCUMENT if key.rpartition("/")[2] in DOCUMENTS else MAX_VALUE
        value: bytes | None
        written: datetime | None
        value, _, written = await again(self._request, key, start, length, min(most, MAX_VALUE))
        if written is not None:
            self._times.note(key, written)
        return value

    async def _fetch_dated(self, key: str) -> tuple[bytes | None, datetime | None]:
        value, _, written = await self._request(key, 0, None)
        return value, written

    async def _size(self, key: str) -> int | None:
        # Answers to HEAD are often wrong or refused; the answer to a part has the whole length.
        value, size, _ = await self._request(key, 0, 1)
        # A server may send a part without the size of the whole, which made an empty value of it.
        if size is None and value is not None:
            size = (await self._request(key, 0, None))[1]
        return size

    def _is_range_error(self, error: BaseException) -> bool:
        # Status 416 is an answer here, and the text of other errors has the port and the key: 41600, "orange".
        return False

    async def _request(
        self, key: str, start: int, length: int | None, most: int = MAX_VALUE
    ) -> tuple[bytes | None, int | None, datetime | None]:
        """Return the value or part, the size of the whole value if the server tells it, and its time.

        A value has at most `most` bytes. If the server sends a whole value instead of a part, reading stops at the end
        of the part.
        """
        from yarl import URL

        options = dict(self.fs.kwargs)
        if start != 0 or length is not None:
            # A range of a compressed value is a range of its compressed bytes, which alone cannot be decompressed.
            part = {"Range": _range(start, length), "Accept-Encoding": "identity"}
            options["headers"] = {**options.get("headers", {}), **part}
        session = await self.fs.set_session()
        async with session.get(URL(self._url(key), encoded=True), **options) as answer:
            if answer.status in (404, 410) or self._is_folder(key, answer):
                return None, None, None
            if answer.status == 416:  # the value is empty, or ends before the part
                return b"", 0, None
            # An object store that does not allow listing answers so for missing keys, too.
            refused = answer.status == 403 and "x-amz-request-id" in answer.headers
            if refused and self._conceals_missing:
                return None, None, None
            if answer.status >= 400:
                hint = "the server wants credentials" if answer.status in (401, 403) else None
                reason = f"cannot read: the server answers {answer.status} {answer.reason}"
                may_pass = answer.status in _PASSING
                cause = "refused" if refused else "temporary" if may_pass else None
                raise StoreError(reason, path=self.place(key), hint=hint, reason=cause)
            sent = self._sent_part if answer.status == 206 else self._sent_whole
            return (*await sent(key, answer, start, length, most), _written(answer))

    async def _sent_part(
        self, key: str, answer: ClientResponse, start: int, length: int | None, most: int
    ) -> tuple[bytes, int | None]:
        """Return the part that an answer has, and the size of the whole value if the server tells it."""
        # More bytes than requested are another part: an error, where a whole value would only be cut.
        limit = -start if start < 0 else most if length is None else length
        value = await self._body(key, answer, limit)
        size = self._check_part(key, answer, start, length, len(value))
        if size is None and start == 0 and length is None:
            raise StoreError(
                "cannot read: the server sends a part, and not the size of the whole", path=self.place(key)
            )
        return value, size

    async def _sent_whole(
        self, key: str, answer: ClientResponse, start: int, length: int | None, most: int
    ) -> tuple[bytes, int]:
        """Return the part of an answer that has the whole value, and the size of that: servers may ignore ranges."""
        enough = start + length if start >= 0 and length is not None else None
        value = await self._body(key, answer, most, enough)
        if start == 0 and length is None:
            return value, len(value)
        size = max(len(value), _promised(answer) or 0)
        begin, stop = clip(len(value), start, length)
        return value[begin:stop], size

    def _is_folder(self, key: str, answer: ClientResponse) -> bool:
        """Return True for a redirect to the page of a folder; a redirect to another page is an error."""
        if not answer.history or not answer.url.raw_path.endswith("/"):
            return False
        first = answer.history[0].url
        # nginx and Apache redirect a directory so. A redirect to another page, such as one for a login, once read as
        # fill values (tests/trust: a redirect to a page).
        if answer.url.raw_path == f"{first.raw_path}/" and answer.url.host == first.host:
            return True
        raise StoreError(
            f"cannot read: the server redirects to {answer.url.with_query(None)}, which is another page",
            path=self.place(key),
            hint="it may want a login",
        )

    async def _body(self, key: str, answer: ClientResponse, limit: int, enough: int | None = None) -> bytes:
        """Read and decompress a body: at most `limit` bytes, or the first `enough` ones."""
        coding = answer.headers.get("Content-Encoding", "identity")
        # A part of compressed bytes decompresses to nothing, or to values of another place.
        if answer.status == 206 and coding != "identity":
            raise StoreError(f"cannot read: the part belongs to {coding} data", path=self.place(key))
        if coding.lower() not in _CODINGS:
            raise StoreError(f"cannot read: the coding {coding!r} is unknown", path=self.place(key))
        parts: list[bytes] = []
        size = 0
        async for piece in answer.content.iter_any():
            parts.append(piece)
            size += len(piece)
            if enough is not None and size >= enough:
                return b"".join(parts)
            # A server that never ends its answer would fill the memory.
            if size > limit:
                raise StoreError(
                    f"cannot read: the server sends more than {limit} bytes", path=self.place(key)
                )
        promised = _promised(answer)
        # A proxy that loses its server may end the body as if it were whole, and the chunk would be cut.
        if promised not in (None, size):
            raise StoreError(
                f"cannot read: {size} of {promised} bytes came", path=self.place(key), reason="temporary"
            )
        return b"".join(parts)

    def _check_part(
        self, key: str, answer: ClientResponse, start: int, length: int | None, size: int
    ) -> int | None:
        """Check that the headers describe the requested part; return the size of the whole value if they tell it."""
        content = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if content is None:
            return None
        first, last = int(content[1]), int(content[2])
        whole = int(content[3]) if content[3].isdecimal() else None
        # The body has ended early, as where a connection is cut that announced no length: another try may get all.
        if last - first + 1 != size:
            raise StoreError(
                f"cannot read: {size} of {last - first + 1} bytes of a part came",
                path=self.place(key),
                reason="temporary",
            )
        if whole is not None:
            fits = (first, last + 1) == clip(whole, start, None if start < 0 else length)
        else:  # the end of a part of a short value is unknown, and so is the start of its last bytes
            fits = start < 0 or first == start
        # A cache between here and the server may answer with another part: values of other chunks.
        # (tests/stores/test_http_faults.py, trial http_answers.py)
        if not fits:
            raise StoreError(
                f"cannot read: the server sends the bytes {first} to {last}, which are not the requested part",
                path=self.place(key),
            )
        return whole

    # --- listing, from index pages

    def list_dir(self, prefix: str = "") -> Names:
        folder = self._base + quote(start_of(prefix), safe="/")
        entries: list[str] = []
        with self._explained("list", prefix), suppress(FileNotFoundError, NotADirectoryError):
            entries = self.fs.ls(folder, detail=False)
        names: set[str] = set()
        prefixes: set[str] = set()
        for url in entries:
            rest = url[len(folder) :] if url.startswith(folder) else ""
            name, slash, below = rest.partition("/")
            if name and not below and not name.startswith(("?", "#")) and name != "..":
                (prefixes if slash else names).add(unquote(name))
        return sorted(names), sorted(prefixes)

    def list(self, prefix: str = "") -> Iterator[str]:
        return self._walk(check_prefix(prefix))


def _may_pass(error: BaseException) -> bool:
    import aiohttp

    if isinstance(error, (aiohttp.ClientConnectorError, TimeoutError)):
        return False
    if isinstance(error, StoreError):
        return error.reason == "temporary"
    return isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError))


def _range(start: int, length: int | None) -> str:
    """Return the value of ``Range`` for a part; a negative start counts from the end."""
    if start < 0:
        return f"bytes={start}"
    return f"bytes={start}-{'' if length is None else start + length - 1}"


def _promised(answer: ClientResponse) -> int | None:
    """Return the size of the value by its headers; None if they lack it, or the value is compressed for sending."""
    text = answer.headers.get("Content-Length", "")
    packed = answer.headers.get("Content-Encoding", "identity") != "identity"
    return None if packed or not text.isdecimal() or len(text) > _MOST_DIGITS else int(text)


def _written(answer: ClientResponse) -> datetime | None:
    """Return the time of a value by its headers."""
    try:
        time = parsedate_to_datetime(answer.headers["Last-Modified"])
    except (KeyError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)

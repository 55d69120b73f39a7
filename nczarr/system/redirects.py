"""Follow HTTP redirects without sending credentials to other hosts.

On a redirect to another host, aiohttp drops the ``Authorization`` header only. It still sends the other headers of the
request and of the session, which may contain cookies, API keys and tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nczarr.errors import NotAllowedError
from nczarr.system.environment import limit

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout
    from yarl import URL

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST = 10
#: Headers and options of a request that select its bytes and contain no credentials.
_HEADERS = frozenset({"range", "accept", "accept-encoding"})
_OPTIONS = frozenset({"timeout", "read_until_eof", "auto_decompress"})

MayReach = Callable[[str], bool]


async def http_client(*, may_reach: MayReach | None = None, **options: Any) -> _RedirectingSession:
    """Return a session for the option ``get_client`` of fsspec's HTTP file system.

    Parameters
    ----------
    may_reach : callable, optional
        Return True if a redirect may lead to a URL; None allows all URLs.
    **options
        Options of :class:`aiohttp.ClientSession`.
    """
    from fsspec.implementations.http import get_client

    return _RedirectingSession(await get_client(**options), may_reach, has_timeout="timeout" in options)


def _timeout() -> ClientTimeout:
    """Return the limits for connecting and for each read. The limit for a whole response is fsspec's default."""
    from aiohttp import ClientTimeout

    seconds = limit("NCZARR_ANSWER_SECONDS")
    return ClientTimeout(total=300, sock_connect=seconds, sock_read=seconds)


class _RedirectingSession:
    """Wrapper of an aiohttp session that implements redirects."""

    def __init__(self, session: ClientSession, may_reach: MayReach | None, *, has_timeout: bool) -> None:
        self._session = session
        self._may_reach = may_reach
        # fsspec keeps the client of an earlier request, with the limit of that moment.
        self._has_timeout = has_timeout
        self._elsewhere: ClientSession | None = None

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "head", "post", "put"):
            return partial(self.request, name.upper())
        return getattr(self._session, name)

    def request(self, method: str, url: str | URL, **options: Any) -> _RedirectedRequest:
        """Return a request that is sent when awaited, or entered as a context manager."""
        return _RedirectedRequest(self._request(method, url, options))

    async def _request(self, method: str, start: str | URL, options: dict[str, Any]) -> ClientResponse:
        from aiohttp import TooManyRedirects
        from yarl import URL

        follows, most = options.pop("allow_redirects", method != "HEAD"), options.pop("max_redirects", _MOST)
        session, url = self._session, URL(start)
        if not self._has_timeout:  # fsspec keeps sessions, but the setting may change
            options.setdefault("timeout", _timeout())
        history: list[ClientResponse] = []
        while True:
            answer = await session.request(method, url, allow_redirects=False, **options)
            location = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not follows or not location:
                answer._history = tuple(history)
                return answer
            answer.release()
            history.append(answer)
            # aiohttp's own limit does not count here, since each answer is followed by hand.
            if len(history) > most:
                raise TooManyRedirects(answer.request_info, tuple(history))
            to = url.join(URL(location))
            self._check(url, to)
            options.pop("params", None)
            # Another host must not get passwords, cookies and headers that are for the first one.
            if not _is_same_host(url, to):
                headers = {k: v for k, v in (options.get("headers") or {}).items() if k.lower() in _HEADERS}
                options = {k: v for k, v in options.items() if k in _OPTIONS} | {"headers": headers}
                session = self._other()
            url = to

    def _check(self, url: URL, to: URL) -> None:
        if to.scheme not in ("http", "https") or (self._may_reach and not self._may_reach(str(to))):
            raise NotAllowedError(
                f"the server redirects to {to.with_query(None)}, which is not allowed",
                path=str(url.with_query(None)),
            )

    def _other(self) -> ClientSession:
        """Return the session for other hosts: it shares the connections of the first session, but no headers."""
        from aiohttp import ClientSession

        if self._elsewhere is None:
            session = self._session
            self._elsewhere = ClientSession(
                connector=session.connector, connector_owner=False, timeout=session.timeout
            )
        return self._elsewhere


class _RedirectedRequest:
    """A request that is sent when awaited, or entered as a context manager."""

    def __init__(self, request: Awaitable[ClientResponse]) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, None, ClientResponse]:
        return self._request.__await__()

    async def __aenter__(self) -> ClientResponse:
        self._answer = await self._request
        return await self._answer.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._answer.__aexit__(kind, error, trace)


def _is_same_host(url: URL, to: URL) -> bool:
    if url.origin() == to.origin():
        return True
    return bool(url.host == to.host and (url.scheme, to.scheme) == ("http", "https") and to.is_default_port())

"""Stand between S3 clients and their server: count requests, delay them, refuse them, or cut the connection."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

#: Receives the method, the path with its query, and the query; returns a status to refuse with, 0 to cut, None to pass.
Rule = Callable[[str, str, dict[str, str]], int | None]

_CODES = {403: "AccessDenied", 400: "ExpiredToken", 500: "InternalError", 503: "SlowDown"}


class S3Proxy:
    """Forward requests to a server in a thread of this process.

    Attributes
    ----------
    url : str
    delay : float
        Seconds before each request is forwarded.
    rate : float
        Bytes per second of all answers together.
    counts : Counter
        The requests by method; LIST is a GET of a listing, POST the deletion of many keys.
    sent : int
        The bytes of the answers.
    log : list of str
        The method and path of each request.
    rule : callable or None
        Decides which requests are refused.
    dropped : frozenset of str
        The headers of requests, in lower case, that the server does not get.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.delay = 0.0
        self.rate = math.inf
        self._free = 0.0
        self.counts: Counter[str] = Counter()
        self.sent = 0
        self.log: list[str] = []
        self.rule: Rule | None = None
        self.dropped = frozenset[str]()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True).start()
        self._ready.wait()

    def reset(self) -> None:
        """Forget all requests."""
        self.counts.clear()
        self.sent = 0
        self.log.clear()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web
        from yarl import URL

        session = ClientSession(
            auto_decompress=False, cookie_jar=DummyCookieJar(), connector=TCPConnector(limit=0)
        )

        async def forward(request: web.Request) -> Any:
            is_list = request.method == "GET" and {"list-type", "prefix"} & set(request.query)
            self.counts["LIST" if is_list else request.method] += 1
            self.log.append(f"{request.method} {request.raw_path}")
            body = await request.read()
            status = None
            if self.rule is not None:
                status = self.rule(request.method, request.raw_path, dict(request.query))
            if status == 0:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if status is not None:
                code = _CODES.get(status, "AccessDenied")
                error = f"<Error><Code>{code}</Code><Message>refused by the test</Message></Error>"
                text = None if request.method == "HEAD" else error
                return web.Response(status=status, text=text, content_type="application/xml")
            await asyncio.sleep(self.delay)
            async with session.request(
                request.method,
                URL(self.server + request.raw_path, encoded=True),
                headers={k: v for k, v in request.headers.items() if k.lower() not in self.dropped},
                data=body,
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
                self.sent += len(content)
                self._free = max(self._free, self._loop.time()) + len(content) / self.rate
                await asyncio.sleep(self._free - self._loop.time())
                skipped = ("transfer-encoding", "connection", "content-length")
                headers = {k: v for k, v in answer.headers.items() if k.lower() not in skipped}
                if request.method == "HEAD":
                    headers["Content-Length"] = answer.headers.get("Content-Length", "0")
                return web.Response(status=answer.status, headers=headers, body=content)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{tail:.*}", forward)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

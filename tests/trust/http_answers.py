"""Read from a web server that answers anything: right values, missing (404 only), or an error of our own."""

from __future__ import annotations

import gzip
import sys
import warnings
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from budget import Budget, main

from nczarr.errors import NCZarrError
from nczarr.stores import open_store
from nczarr.stores.remote import http

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from odd_server import OddServer, send

VALUE = bytes(range(256)) * 4


def trial(budget: Budget) -> None:
    """Ask for a key, whole and in parts, and get odd answers."""
    warnings.simplefilter("ignore")
    http.MAX_VALUE, http.MAX_DOCUMENT, http.FIRST_WAIT = 1 << 20, 1 << 16, 0.0
    chance = budget.random
    server = OddServer()
    sent: list[int] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        status = chance.choice([200, 200, 206, 206, 204, 302, 400, 401, 403, 404, 410, 416, 418, 500, 503])
        sent.append(status)
        headers = {}
        span = handler.headers.get("Range", "")
        body = VALUE
        if status == 206 and span.startswith("bytes="):
            first, _, last = span[6:].partition("-")
            start, stop = (int(first), int(last) + 1 if last else 1024) if first else (1024 - int(last), 1024)
            stop = min(stop, 1024)
            if chance.random() < 0.1:  # another part than the one that was asked for
                start //= 2
            body = VALUE[start:stop]
            headers["Content_Range"] = f"bytes {start}-{stop - 1}/{chance.choice(['1024', '*', 'x'])}"
        if status == 302:
            headers["Location"] = chance.choice(["/login/", "/d/k", "/d/k/", "//", "http://[", ""])
        if status in (200, 206) and chance.random() < 0.2:
            headers["Content_Encoding"] = chance.choice(["gzip", "gzip", "br", "identity", "x"])
            if headers["Content_Encoding"] == "gzip" and chance.random() < 0.7:
                body = gzip.compress(body)
        if chance.random() < 0.1 and status in (200, 206):
            # A body that is cut: the length promises more.
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.send_header("Content-Length", str(len(body) + 7))
            handler.end_headers()
            handler.wfile.write(body)
            handler.close_connection = True
            return
        send(handler, status, body if status != 204 else b"", **headers)

    server.answers = {"/d/k": answer, "/login/": lambda h: send(h, 200, b"<html>")}
    try:
        for _ in budget:
            store = open_store(f"{server.url}/d")
            start, length = chance.choice([(0, None), (0, 10), (5, 100), (-7, None), (1000, 100)])
            sent.clear()
            try:
                value = store.get_range("k", start, length)
            except NCZarrError:
                budget.count("errors")
            else:
                whole = VALUE[start:]
                right = whole if length is None else whole[:length]
                if value is None:
                    assert 404 in sent or 410 in sent or 302 in sent, sent
                    budget.count("missing")
                elif value == right:
                    budget.count("right values")
                else:
                    assert value == b"", (sent, value)
                    assert {204, 416} & set(sent), sent
                    budget.count("empty")
    finally:
        server.stop()


if __name__ == "__main__":
    main(trial)

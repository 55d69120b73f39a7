#!/usr/bin/env python3
"""The S3 server of the tests: moto's, in a process that ends with the tests.

    python tests/s3/server.py      prints the URL; serves until its standard input ends

The server keeps everything in memory and listens on 127.0.0.1 only. It accepts one access key and requests without one.
It answers one request at a time, so that a conditional write is atomic. With ``NCZARR_S3_SERVER=ceph`` the tests use
Ceph, where it is installed; see ceph.py.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ACCESS_KEY = "nczarrtestaccess"
SECRET_KEY = "nczarr-test-secret-key"
REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>The access key is unknown.</Message></Error>"


def settings(url: str) -> dict[str, str]:
    """Return the environment that S3 clients need for the server at a URL."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class S3Server:
    """moto's server in a process of its own."""

    def start(self) -> None:
        """Start the process and wait until it listens.

        Raises
        ------
        RuntimeError
            The process ends at once; its stderr says why.
        """
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the S3 server of the tests ended with status {self._process.wait()}")

    @property
    def settings(self) -> dict[str, str]:
        """The environment that S3 clients need."""
        return settings(self.url)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def new_server(folder: Path) -> Any:
    """Return a server that is not yet started: moto's, or Ceph below an empty folder where the user asks for it."""
    if os.environ.get("NCZARR_S3_SERVER") != "ceph":
        return S3Server()
    sys.path.insert(0, str(Path(__file__).parent))
    import ceph

    return ceph.CephServer(folder)


def guarded(app: Callable[..., Iterable[bytes]]) -> Callable[..., list[bytes]]:
    """Return a WSGI application that refuses other access keys and passes on one request at a time.

    moto compares the condition of a conditional write and stores the object in two steps, without a lock.
    """
    lock = threading.Lock()

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        length = None if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        signature = environ.get("HTTP_AUTHORIZATION")
        if signature is not None and f"Credential={ACCESS_KEY}/" not in signature:
            head = environ["REQUEST_METHOD"] == "HEAD"
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"" if head else REFUSED]
        with lock:
            return list(app(environ, start_response))

    return call


def serve() -> None:
    """Serve on a free port until standard input ends: with the parent, however that ends."""
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept

        def log(self, *_: object) -> None:
            """Say nothing."""

    app = guarded(create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()

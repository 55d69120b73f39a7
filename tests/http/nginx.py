"""nginx on a free loopback port, serving one folder, for the tests of reading over HTTP."""

from __future__ import annotations

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CONFIGURATION = """\
daemon off;
master_process off;
user root;
pid {state}/nginx.pid;
error_log {state}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format requests '$status $request_method $request_uri $http_range';
  access_log {state}/access.log requests;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy;
  fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi;
  scgi_temp_path {state}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /data/ {{ alias {folder}/; autoindex on; }}
    location /silent/ {{ alias {folder}/; }}
    location /whole/ {{ alias {folder}/; max_ranges 0; }}
    location /forbidden/ {{ return 403; }}
    location /broken/ {{ return 503; }}
  }}
}}
"""


class Nginx:
    """The server: ``url`` + ``data/`` with index pages, ``silent/`` without, ``whole/`` that ignores ranges."""

    def __init__(self, state: Path, folder: Path, port: int) -> None:
        self.state = state
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/"
        configuration = state / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(state=state, folder=folder, port=port))
        self._process = subprocess.Popen(
            ["nginx", "-c", str(configuration), "-p", str(state), "-e", str(state / "error.log")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self._process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.url}data/").close()
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("nginx does not come up: " + (state / "error.log").read_text()[-1000:])

    def requests(self) -> list[str]:
        """Return what was asked so far: status, method, path, range."""
        # nginx notes a request after it has answered: one of our own comes after all others.
        mark = f"mark-{time.monotonic_ns()}"
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.url + mark)
        while mark not in (text := (self.state / "access.log").read_text()):
            time.sleep(0.01)
        return [line for line in text.splitlines() if "/mark-" not in line]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

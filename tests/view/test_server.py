"""Test the server of the viewer: local, behind a secret, ended with its last page."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nczarr.cli import main
from nczarr.errors import NCZarrError
from nczarr.view import serve
from nczarr.view.page.state import Address

if find_spec("panel_material_ui") is None:  # its import takes seconds of every worker
    pytest.skip("needs panel_material_ui", allow_module_level=True)
requests = pytest.importorskip("requests")

EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"


def test_it_listens_on_the_loopback_interface_only() -> None:
    with serve(EXAMPLE, open_browser=False) as page:
        port = urlsplit(page.url).port
        assert urlsplit(page.url).hostname == "127.0.0.1"
        assert requests.get(page.url).status_code == 200
        named = []
        with suppress(socket.gaierror):  # a container may have a name that it cannot find
            named = socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)
        others = {address[4][0] for address in named if not address[4][0].startswith("127.")}
        for address in others:
            with pytest.raises(OSError, match=r"refused|unreachable"):
                socket.create_connection((address, port), timeout=5)
    with pytest.raises(requests.ConnectionError):
        requests.get(page.url)
    page.close()  # a second time is no error


def test_nothing_is_served_to_who_does_not_know_the_secret() -> None:
    with serve(EXAMPLE, open_browser=False) as page, serve(EXAMPLE, open_browser=False) as other:
        parts = urlsplit(page.url)
        secret = parts.path.strip("/")
        assert len(secret) >= 16
        assert secret not in other.url
        for path in ("", "view", "static/js/bokeh.min.js", "ws", secret[:-1], "autoload.js"):
            answer = requests.get(f"http://{parts.netloc}/{path}", allow_redirects=False)
            assert answer.status_code == 404
            assert secret not in answer.text
            assert secret not in str(answer.headers)


def test_pages_of_other_sites_are_refused() -> None:
    from tornado.httpclient import HTTPClientError, HTTPRequest
    from tornado.websocket import websocket_connect

    async def connect(url: str, origin: str) -> int:
        request = HTTPRequest(url, headers={"Origin": origin})
        try:
            connection = await websocket_connect(request, subprotocols=["bokeh", "token"])
        except HTTPClientError as error:
            return error.code
        connection.close()
        return 101

    with serve(EXAMPLE, open_browser=False) as page:
        url = page.url.replace("http", "ws", 1) + "ws"
        assert asyncio.run(connect(url, "http://evil.example")) == 403
        assert asyncio.run(connect(url, page.url.rsplit("/", 2)[0])) != 403


def test_a_port_that_is_in_use_is_a_message() -> None:
    with serve(EXAMPLE, open_browser=False) as page:
        port = urlsplit(page.url).port
        assert port is not None
        with pytest.raises(NCZarrError, match="choose another port"):
            serve(EXAMPLE, port=port, open_browser=False)


@pytest.mark.parametrize("port", [80_000, 65_536, -1])
def test_a_number_that_is_no_port_is_a_message(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NCZarrError, match=f"{port} is not a port"):
        serve(EXAMPLE, port=port, open_browser=False)
    assert main(["view", str(EXAMPLE), "--no-open", f"--port={port}"]) == 1
    assert f"{port} is not a port" in capsys.readouterr().err


def test_what_cannot_be_opened_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / "nothing.zarr"), "--no-open"]) == 1
    assert "nothing.zarr" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_the_command_ends_when_it_is_told(signal: str) -> None:
    import signal as signals

    command = [sys.executable, "-c", "import sys; from nczarr.cli import main; sys.exit(main(sys.argv[1:]))"]
    with subprocess.Popen(
        [*command, "view", str(EXAMPLE), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who starts the tests in the background may ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signals.signal(signals.SIGINT, signals.default_int_handler),
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        process.stdout.readline()
        process.send_signal(getattr(signals, signal))
        _, errors = process.communicate()
    assert process.returncode in (0, 130, 143)
    assert "Traceback" not in errors


def test_a_variable_and_a_step_are_shown_first() -> None:
    with serve(EXAMPLE, variable="temp", at={"time": "2020-03", "depth": 1}, open_browser=False) as page:
        parts = urlsplit(page.url)
        assert requests.get(page.url).status_code == 200
    address = Address.from_search(f"?{parts.query}")
    assert (address.variable, address.drawn) == ("/ocean/temp", ("lat", "lon"))
    assert (address.at["time"], address.at["depth"]) == (2, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["temp", "-d", "time=1999-01"], "the nearest is 2020-01-16 12:00:00"),
        (["temp", "-d", "time=9"], "the dimension has the size 6"),
        (["tempp"], "did you mean 'temp'"),
        (["-d", "time=1"], "-d requires a variable"),
    ],
)
def test_what_cannot_be_shown_first(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(EXAMPLE), *words, "--no-open"]) == 1
    assert said in capsys.readouterr().err

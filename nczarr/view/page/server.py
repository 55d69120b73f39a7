"""Serve the viewer on the local machine.

The server listens on the loopback interface. Its URL contains a secret, because other users of the machine can reach
the loopback interface too. All scripts, styles and fonts come from installed packages, so that no network is needed.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import webbrowser
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.text import missing_package
from nczarr.view.coordinates import Coordinates
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.state import Address
from nczarr.view.picture.selection import select
from nczarr.view.plotting import as_texts, find_variable

if TYPE_CHECKING:
    from panel.io.server import Server

_PACKAGES = ("matplotlib", "scipy", "pyproj", "panel", "panel-material-ui")
#: Other machines must not read what the user may read.
_HOST = "127.0.0.1"
_LAST_PORT = 65_535


class Served(AbstractContextManager["Served"]):
    """A running server, created by :func:`serve`.

    Attributes
    ----------
    url : str
        URL of the page.
    """

    def __init__(self, opened: OpenedDataset, port: int) -> None:
        import panel as pn

        from nczarr.view.page.viewer import Viewer

        self._opened = opened
        secret, port = secrets.token_urlsafe(12), port or _free_port()
        self.url = f"http://{_HOST}:{port}/{secret}/"
        started: Future[Server] = Future()

        def run() -> None:
            # Run the server in a thread with its own event loop: in a notebook, the main thread's loop is in use.
            asyncio.set_event_loop(asyncio.new_event_loop())
            origins = [f"{_HOST}:{port}", f"localhost:{port}"]
            where = {"port": port, "address": _HOST, "prefix": secret, "websocket_origin": origins}
            where["title"] = f"{opened.name} · nczarr"
            try:
                server = pn.io.server.get_server({"/": lambda: Viewer(opened).page}, **where)
                server.start()
            except BaseException as error:
                # The thread that waits for the start would wait forever.
                started.set_exception(error)
                return
            started.set_result(server)
            server.io_loop.start()

        self._thread = threading.Thread(target=run, name="nczarr view", daemon=True)
        self._thread.start()
        try:
            self._server = started.result()
        # Another server may have the port, and ports below 1024 are for root.
        except OSError as error:
            problem = f"the server cannot listen on port {port}: {error}"
            raise NCZarrError(problem, hint="choose another port") from None

    def wait(self) -> None:
        """Wait until the server stops."""
        while self._thread.is_alive():  # on Windows, only a wait with a timeout is interruptible
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop the server and close the dataset; closing twice is allowed."""
        if self._thread.is_alive():
            # Of Tornado's loop, only this method may be called from another thread.
            self._server.io_loop.add_callback(self._server.stop)
            self._server.io_loop.add_callback(self._server.io_loop.stop)
            self._thread.join(10)
        self._opened.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


def serve(
    source: object,
    *,
    variable: str | None = None,
    at: Mapping[str, int | str] | None = None,
    port: int = 0,
    open_browser: bool = True,
    storage_options: Mapping[str, object] | None = None,
) -> Served:
    """Show a dataset, or several, in the browser.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Any source that nczarr reads, or a list of them; each is a group of the page.
    variable : str, optional
        Name or FQN of the variable to show first.
    at : mapping, optional
        Positions on dimensions of this variable, by name; see :func:`nczarr.view.plot`.
    port : int
        Port of the server; 0 selects a free port.
    open_browser : bool
        Open the page in the browser.
    storage_options : mapping, optional
        Options for remote stores.

    Returns
    -------
    Served
        The server, which runs until :meth:`Served.close`. It is also a context manager.

    Raises
    ------
    NCZarrError
        If the dataset cannot be opened, the variable or position does not exist, the port is invalid or in use, or the
        extra ``view`` is not installed.

    Examples
    --------
    >>> from nczarr import cdl
    >>> with serve(cdl.loads("netcdf d { variables: int v; data: v = 1; }"), open_browser=False) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    if not 0 <= port <= _LAST_PORT:
        hint = f"give a number from 0 (any free port) to {_LAST_PORT}"
        raise NCZarrError(f"{port} is not a port number", hint=hint)
    missing = [name for name in _PACKAGES if find_spec(name.replace("-", "_")) is None]
    # A page without pyproj would fail at the first map only.
    if missing:
        hint = missing_package("matplotlib scipy pyproj panel panel-material-ui", "view")
        raise UnsupportedError(f"the viewer needs {' and '.join(missing)}", hint=hint)
    opened = OpenedDataset(source, storage_options)
    try:
        search = _search(opened, variable, at)
        served = Served(opened, port)
    except BaseException:
        opened.close()
        raise
    served.url += search
    if open_browser:
        webbrowser.open(served.url)
    return served


def _search(opened: OpenedDataset, variable: str | None, at: Mapping[str, int | str] | None) -> str:
    """Return the query string that selects the variable and the step to show first."""
    if variable is None:
        if at:
            hint = "nczarr view DATASET VARIABLE -d time=2020-03"
            raise UnsupportedError("-d requires a variable", hint=hint)
        return ""
    coordinates = Coordinates(opened)
    fqn = find_variable(opened.model, variable)
    selection = select(coordinates, fqn, as_texts(at))
    names = [axis.name for axis in selection.axes]
    steps = {names[i]: selection.at[i] for i in selection.fixed}
    return Address(fqn, steps, tuple(names[i] for i in selection.drawn)).to_search()

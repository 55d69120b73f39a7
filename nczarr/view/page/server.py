"""Serve the viewer on the local machine.

The server listens on the loopback interface. Its URL contains a secret, because other users of the machine can reach
the loopback interface too. All scripts, styles and fonts come from installed packages, so that no network is needed.
"""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.view.coordinates import Coordinates
from nczarr.view.opened import OpenedDataset
from nczarr.view.page.state import Address
from nczarr.view.picture.selection import select
from nczarr.view.plotting import as_texts, find_variable

if TYPE_CHECKING:
    from typing import Self


_HOST = "127.0.0.1"
_LAST_PORT = 65_535


class Served:
    """A running server, created by :func:`serve`.

    Attributes
    ----------
    url : str
        URL of the page.
    """

    def __init__(self, opened: OpenedDataset, port: int) -> None:
        import panel as pn

        from nczarr.view.page.viewer import build_page

        self._opened = opened
        secret = secrets.token_urlsafe(12)
        port = port or _free_port()
        self.url = f"http://{_HOST}:{port}/{secret}/"
        self._ended = threading.Event()
        self._failed: BaseException | None = None
        ready = threading.Event()

        def run() -> None:
            # Run the server in a thread with its own event loop: in a notebook, the main thread's loop is in use.
            try:
                import asyncio

                asyncio.set_event_loop(asyncio.new_event_loop())
                self._server = pn.io.server.get_server(
                    {"/": lambda: build_page(opened)},
                    port=port,
                    address=_HOST,
                    prefix=secret,
                    websocket_origin=[f"{_HOST}:{port}", f"localhost:{port}"],
                    title=f"{opened.name} · nczarr",
                    show=False,
                    start=False,
                )
                self._server.start()
                self._loop = self._server.io_loop
                ready.set()
                self._loop.start()
            except BaseException as error:
                self._failed = error
            finally:
                ready.set()
                self._ended.set()

        self._thread = threading.Thread(target=run, name="nczarr view", daemon=True)
        self._thread.start()
        ready.wait()
        if self._failed is not None:
            opened.close()
            if isinstance(self._failed, OSError):
                raise NCZarrError(
                    f"the server cannot listen on port {port}: {self._failed}", hint="choose another port"
                )
            raise self._failed

    def wait(self) -> None:
        """Wait until the server stops."""
        while not self._ended.wait(0.5):  # on Windows, only a wait with a timeout is interruptible
            pass

    def close(self) -> None:
        """Stop the server and close the dataset; closing twice is allowed."""
        if not self._ended.is_set():
            self._loop.add_callback(self._stop)
            self._ended.wait(10)
        self._opened.close()

    def _stop(self) -> None:
        self._server.stop()
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

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
        raise NCZarrError(
            f"{port} is not a port number", hint=f"give a number from 0 (any free port) to {_LAST_PORT}"
        )
    try:
        import matplotlib  # noqa: F401
        import panel_material_ui  # noqa: F401
        import scipy  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"the viewer needs {error.name}", hint="pip install matplotlib scipy panel panel-material-ui"
        ) from None
    opened = OpenedDataset(source, storage_options)
    try:
        search = _search(opened, variable, at)
    except BaseException:
        opened.close()
        raise
    served = Served(opened, port)
    served.url += search
    if open_browser:
        webbrowser.open(served.url)
    return served


def _search(opened: OpenedDataset, variable: str | None, at: Mapping[str, int | str] | None) -> str:
    """Return the query string that selects the variable and the step to show first."""
    if variable is None:
        if at:
            raise UnsupportedError(
                "-d requires a variable", hint="nczarr view DATASET VARIABLE -d time=2020-03"
            )
        return ""
    coordinates = Coordinates(opened)
    fqn = find_variable(opened.model, variable)
    selection = select(opened, coordinates, fqn, as_texts(at))
    names = [axis.name for axis in selection.axes]
    steps = {names[i]: selection.at[i] for i in selection.fixed}
    return Address(fqn, steps, tuple(names[i] for i in selection.drawn)).to_search()

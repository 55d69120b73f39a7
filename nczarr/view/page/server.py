"""Serve the viewer on this machine only, to whoever knows the address.

The server listens on the loopback interface, and its address holds a secret, because other users of the machine can
reach that interface too. All scripts, styles and fonts come from the installed packages: no network is needed.
"""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.view.data.coordinates import Coordinates
from nczarr.view.data.opened import OpenedDataset
from nczarr.view.page.address import Address
from nczarr.view.picture.selection import select
from nczarr.view.plotting import as_texts, find_variable

if TYPE_CHECKING:
    from typing import Self

_HOST = "127.0.0.1"
_LAST_PORT = 65_535


class Served:
    """A page that is being served; objects come from :func:`serve`.

    Attributes
    ----------
    url : str
        Where the page is.
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
            # A thread with a loop of its own: in a notebook the main thread has one that is not ours.
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
                raise NCZarrError(f"port {port} cannot be used: {self._failed}", hint="choose another port")
            raise self._failed

    def wait(self) -> None:
        """Wait until it ends."""
        while not self._ended.wait(0.5):  # a wait without an end would not hear Ctrl-C on every system
            pass

    def close(self) -> None:
        """End it; a second time is no error."""
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
    source: Any,
    *,
    variable: str | None = None,
    at: Mapping[str, int | str] | None = None,
    port: int = 0,
    open_browser: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Served:
    """Show a dataset in the browser.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Anything that nczarr reads.
    variable : str, optional
        The variable that is shown first: its name, or its FQN.
    at : mapping, optional
        Its step along dimensions by name: an index, or text as on the command line; see :func:`nczarr.view.plot`.
    port : int
        0: one that is free.
    open_browser : bool
    storage_options : mapping, optional
        For remote stores.

    Returns
    -------
    Served
        The page is there until :meth:`Served.close`; it is also a context manager.

    Raises
    ------
    NCZarrError
        If the dataset cannot be opened, there is no such variable or step, the port is in use or illegal, or the extra
        ``view`` is not installed.

    Examples
    --------
    >>> from nczarr import cdl
    >>> with serve(cdl.loads("netcdf d { variables: int v; data: v = 1; }"), open_browser=False) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    if not 0 <= port <= _LAST_PORT:
        raise NCZarrError(f"{port} is not a port", hint=f"a port is a number from 0 (any) to {_LAST_PORT}")
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
    """The part of the address that says what is shown first."""
    if variable is None:
        if at:
            raise UnsupportedError(
                "-d: a step needs a variable", hint="nczarr view DATASET VARIABLE -d time=2020-03"
            )
        return ""
    coordinates = Coordinates(opened)
    fqn = find_variable(opened.model, variable)
    selection = select(opened, coordinates, fqn, as_texts(at))
    names = [axis.name for axis in selection.axes]
    steps = {names[i]: selection.at[i] for i in selection.fixed}
    return Address(fqn, steps, tuple(names[i] for i in selection.drawn)).to_search()

"""Give each package its logger, which is silent unless the program configures :mod:`logging`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import logging


class _Silent:
    """A logger that no program has asked for."""

    def debug(self, *message: object) -> None:
        """Write nothing."""

    info = debug


_SILENT = _Silent()


def logger_of(module: str) -> logging.Logger:
    """Return the logger of the package of a module.

    Examples
    --------
    >>> import logging
    >>> logger_of("nczarr.stores.remote.http").name
    'nczarr.stores'
    """
    # A program that has not imported it reads no log, and its import takes a tenth of the time of a command.
    if "logging" not in sys.modules:
        return cast("logging.Logger", _SILENT)
    import logging

    logger = logging.getLogger(".".join(module.split(".")[:2]))
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger

"""Give each package its logger, which is silent unless the program configures :mod:`logging`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def logger_of(module: str) -> logging.Logger:
    """Return the logger of the package of a module.

    Examples
    --------
    >>> logger_of("nczarr.stores.remote.http").name
    'nczarr.stores'
    """
    import logging  # not for an import of nczarr

    logger = logging.getLogger(".".join(module.split(".")[:2]))
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger

"""Find the codec that a name stands for.

Each module of codecs registers its own; other packages add theirs by entry points of the group ``nczarr.codecs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nczarr.errors import CodecError
from nczarr.zarr.codecs.base import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, ChunkSpec
from nczarr.zarr.plugins import Registry

Codec = ArrayArrayCodec | ArrayBytesCodec | BytesBytesCodec
#: Makes a codec from its name, its configuration, and the chunk that it gets.
Factory = Callable[[str, Mapping[str, Any], ChunkSpec], Codec]
Made = TypeVar("Made", bound=Factory)

PREFIX = "numcodecs."
#: Stands for every codec that numcodecs knows and no other factory makes.
ANY_NUMCODECS = "numcodecs.*"


def _callable(loaded: Any) -> Factory:
    if not callable(loaded):
        raise TypeError("it is not callable with a name, a configuration and a ChunkSpec")
    factory: Factory = loaded
    return factory


CODECS = Registry[Factory]("nczarr.codecs", "codec", CodecError, _callable)


def register_codec(*names: str) -> Callable[[Made], Made]:
    """Return a decorator that makes a codec's class, or another factory, known under names.

    Examples
    --------
    >>> @register_codec("example.negate")
    ... class Negate(ArrayArrayCodec):
    ...     def __init__(self, name, configuration, spec): ...
    ...     def encode(self, chunk, spec): return -chunk
    ...     def decode(self, chunk, spec): return -chunk
    >>> find_codec("example.negate")[0]
    'example.negate'
    >>> CODECS.unregister("example.negate")
    """

    def register(factory: Made) -> Made:
        for name in names:
            CODECS.register(name, factory)
        return factory

    return register


def find_codec(name: str) -> tuple[str, Factory] | None:
    """Return a codec's full name and its factory; None if there is no such codec.

    Some documents name the codecs of numcodecs without their prefix.
    """
    for full in (name, PREFIX + name):
        if (factory := CODECS.registered(full)) is not None:
            return full, factory
    found = CODECS.find(name)
    if found is None and name.startswith(PREFIX):
        found = CODECS.registered(ANY_NUMCODECS)
    return None if found is None else (name, found)


def known_codecs() -> list[str]:
    """Return the names of all codecs; others of numcodecs are found by ``numcodecs.<id>``.

    Examples
    --------
    >>> from nczarr.zarr.codecs import known_codecs
    >>> "zstd" in known_codecs()
    True
    """
    return [name for name in CODECS.names() if name != ANY_NUMCODECS]

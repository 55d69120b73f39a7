"""Encode grid indices as chunk keys.

Other packages add encodings by entry points of the group ``nczarr.chunk_key_encodings``. The object of the entry point
is a callable that takes the configuration and returns an instance of a subclass of :class:`ChunkKeyEncoding`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from functools import cache, partial
from itertools import accumulate, repeat

from nczarr.dataclass import dataclass
from nczarr.errors import MetadataError
from nczarr.json_values import JsonMapping, JsonObject, bad, show
from nczarr.lazy import cached_property
from nczarr.zarr.plugins import Registry

_NUMBER = r"(?:0|[1-9][0-9]*)"


@cache
def _pattern(prefix: str, separator: str, ndim: int) -> re.Pattern[str]:
    return re.compile(re.escape(prefix) + re.escape(separator).join([f"({_NUMBER})"] * ndim))


def find_prefix(key: str, prefixes: Container[str]) -> str | None:
    """Return that of the prefixes of arrays which a key is below; None if there is none.

    Examples
    --------
    >>> find_prefix("g/v/c/0", {"g/v/", "w/"}), find_prefix("g/zarr.json", {"g/v/"}), find_prefix("c/0", {""})
    ('g/v/', None, '')
    """
    folders = accumulate(key.split("/")[:-1], lambda above, name: f"{above}{name}/", initial="")
    return next((folder for folder in folders if folder in prefixes), None)


@dataclass(frozen=True)
class ChunkKeyEncoding:
    """An encoding of chunk keys; a subclass overrides `key`, `indices` and `to_json`.

    Parameters
    ----------
    name : str
        ``default``: ``c/1/0``; ``v2``: ``1.0``; ``experimental`` (zarr-python 2's experimental v3, never in
        a v3 document): ``c1/0``.
    separator : {"/", "."}
        The separator of the numbers.

    Examples
    --------
    >>> ChunkKeyEncoding("default", "/").key((1, 0)), ChunkKeyEncoding("default", "/").key(())
    ('c/1/0', 'c')
    >>> ChunkKeyEncoding("v2", ".").key((1, 0)), ChunkKeyEncoding("v2", ".").key(())
    ('1.0', '0')
    """

    name: str = "default"
    separator: str = "/"

    @cached_property
    def prefix(self) -> str:
        """The part of the key before the first number."""
        if self.name == "v2":
            return ""
        return "c" + self.separator if self.name == "default" else "c"

    @property
    def has_folders(self) -> bool:
        """True if the chunks with one number along the first dimension are in a folder that has this number as name."""
        return self.separator == "/" and self.name in ("default", "v2")

    def key(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk at a grid index, relative to the array."""
        if not index:
            return {"default": "c", "v2": "0", "experimental": "c0"}[self.name]
        return self.prefix + self.separator.join(map(str, index))

    def indices(self, keys: Iterable[str], grid: tuple[int, ...], skip: int = 0) -> list[tuple[int, ...]]:
        """Return the grid indices of chunk keys, in the order of the keys; other keys are ignored.

        Parameters
        ----------
        grid : tuple of int
            The number of chunks along each dimension.
        skip : int
            The number of characters to skip at the beginning of each key.

        Examples
        --------
        >>> ChunkKeyEncoding().indices(["v/zarr.json", "v/c/0/1", "v/c/9/0"], (2, 2), skip=2)
        [(0, 1)]
        """
        if not grid:
            return [() for key in keys if key[skip:] == self.key(())]
        match = _pattern(self.prefix, self.separator, len(grid)).fullmatch
        found = [tuple(map(int, m.groups())) for m in map(match, keys, repeat(skip)) if m is not None]
        # A writer that died leaves chunks behind the shape.
        if any(max(numbers) >= count for numbers, count in zip(zip(*found, strict=True), grid)):
            found = [index for index in found if all(i < n for i, n in zip(index, grid, strict=True))]
        return found

    def to_json(self) -> JsonObject:
        """Return the value of ``chunk_key_encoding`` in a v3 document."""
        return {"name": self.name, "configuration": {"separator": self.separator}}


def parse_chunk_key_encoding(name: str, configuration: JsonMapping) -> ChunkKeyEncoding:
    """Return the encoding from the name and configuration in a v3 document.

    Raises
    ------
    MetadataError
        If the encoding is unknown.

    Examples
    --------
    >>> parse_chunk_key_encoding("v2", {})
    ChunkKeyEncoding(name='v2', separator='.')
    """
    return CHUNK_KEY_ENCODINGS.need(name, "chunk_key_encoding.name")(configuration)


def _separated(name: str, default: str, configuration: JsonMapping) -> ChunkKeyEncoding:
    separator = configuration.get("separator", default)
    if separator not in ("/", "."):
        raise bad(f'chunk_key_encoding.configuration.separator: {show(separator)} is not "/" or "."')
    return ChunkKeyEncoding(name, separator)


CHUNK_KEY_ENCODINGS = Registry[Callable[[JsonMapping], ChunkKeyEncoding]](
    "nczarr.chunk_key_encodings", "chunk key encoding", MetadataError
)
CHUNK_KEY_ENCODINGS.register("default", partial(_separated, "default", "/"))
CHUNK_KEY_ENCODINGS.register("v2", partial(_separated, "v2", "."))

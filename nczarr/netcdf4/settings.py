"""Process-wide settings that netCDF-C has and Zarr does not need: remembered and given back."""

from __future__ import annotations

_chunk_cache: tuple[int, int, float] = (16777216, 4133, 0.75)
_alignment: tuple[int, int] = (1, 1)
_rc: dict[str, str] = {}


def get_chunk_cache() -> tuple[int, int, float]:
    """Size in bytes, number of slots and preemption of the chunk cache, as last set.

    Examples
    --------
    >>> len(get_chunk_cache())
    3
    """
    return _chunk_cache


def set_chunk_cache(
    size: int | None = None, nelems: int | None = None, preemption: float | None = None
) -> None:
    """Remember the settings of the chunk cache; None leaves one as it is. Without effect on Zarr."""
    global _chunk_cache
    old = _chunk_cache
    _chunk_cache = (
        old[0] if size is None else int(size),
        old[1] if nelems is None else int(nelems),
        old[2] if preemption is None else float(preemption),
    )


def get_alignment() -> tuple[int, int]:
    """Threshold and alignment, as last set."""
    return _alignment


def set_alignment(threshold: int, alignment: int) -> None:
    """Remember threshold and alignment. Without effect on Zarr."""
    global _alignment
    _alignment = (int(threshold), int(alignment))


def rc_get(key: str) -> str | None:
    """The value that :func:`rc_set` set; None for an unknown key.

    Examples
    --------
    >>> rc_set("HTTP.TIMEOUT", "5")
    >>> rc_get("HTTP.TIMEOUT"), rc_get("nothing")
    ('5', None)
    """
    return _rc.get(key)


def rc_set(key: str, value: str) -> None:
    """Remember an entry of the run-time configuration. Without effect on Zarr."""
    _rc[key] = str(value)

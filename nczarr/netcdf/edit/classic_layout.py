"""Lay out a classic file whose header changes: where each variable begins, and what has to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nczarr.netcdf.classic import Header, format_header, padded
from nczarr.netcdf.edit.classic_bytes import ClassicBytes

#: Room that is left behind a header that has grown, at least: it will grow again.
_ROOM = 1024


def laid_out(old: Header, new: Header) -> Header:
    """The new header with the place of every variable.

    Its first variables are those of the old one, in order. Nothing moves towards the beginning, variables without
    records come before the records, and all are in the order of the header: netCDF's library refuses anything else.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> from nczarr.netcdf.classic import ClassicDimension, ClassicVariable
    >>> x = (ClassicDimension(b"x", 5),)
    >>> old = Header(1, 0, x, (), (ClassicVariable(b"v", INT, (0,), (), 200),))
    >>> new = replace(old, variables=(*old.variables, ClassicVariable(b"w", INT, (0,), ())))
    >>> [v.begin for v in laid_out(old, new).variables]
    [200, 220]
    """
    size = len(format_header(new))
    place = size
    if old.variables:
        first = min(v.begin for v in old.variables)
        place = first if size <= first else padded(size + max(_ROOM, size // 2))
    begins = [0] * len(new.variables)
    held = [v.begin for v in old.variables]
    for record in (False, True):
        if record:
            moved = [b for v, b in zip(old.variables, held, strict=True) if old.is_record(v)]
            place = max([place, *moved[:1]])
        for i, v in enumerate(new.variables):
            if new.is_record(v) != record:
                continue
            if i < len(held) and not record:
                place = max(place, held[i])
            begins[i] = place
            place += padded(new.slab(v))
    variables = tuple(replace(v, begin=b) for v, b in zip(new.variables, begins, strict=True))
    return replace(new, variables=variables)


def moves(old: Header, new: Header) -> bool:
    """True if anything that is there has another place."""
    return any(a.begin != b.begin for a, b in zip(old.variables, new.variables, strict=False)) or (
        old.record_size != new.record_size and any(map(old.is_record, old.variables))
    )


def move_data(file: ClassicBytes, old: Header, new: Header, records: Sequence[int]) -> None:
    """Bring everything from its old place to its new one; `records` has how many there are of each variable."""
    pairs = list(zip(old.variables, new.variables, strict=False))
    growing = [(a, b) for a, b in pairs if old.is_record(a)]
    count = max(records, default=0)
    if growing and count:
        source, target = growing[0][0].begin, growing[0][1].begin
        if old.record_size == new.record_size:
            size = min(count * old.record_size, file.content.size - source)
            if source != target:
                file.move(source, target, size)
        else:
            file.spread(source, target, count, old.record_size, new.record_size)
    for a, b in reversed([pair for pair in pairs if not old.is_record(pair[0])]):
        if a.begin != b.begin:
            file.move(a.begin, b.begin, old.slab(a))

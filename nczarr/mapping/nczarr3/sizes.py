"""Bind the dimension references of arrays, and find the size of each dimension from the arrays that use it.

Other programs change shapes and rename groups, and know nothing of records: so the arrays count, and a reference
whose group is gone means the dimension of that name upwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from nczarr.errors import ModelError
from nczarr.mapping.findings import Findings
from nczarr.mapping.nczarr3.groups import ArrayNode, DeclaredDimension, GroupNode, group_of
from nczarr.model import Dimension, DimensionRef, format_fqn, join_fqn, parse_fqn


@dataclass
class _Entry:
    declared: DeclaredDimension
    #: Length along it and array, for each use.
    uses: list[tuple[int, ArrayNode]] = field(default_factory=list)


class DimensionFinder:
    """All dimensions of a dataset by FQN, and what the arrays say of them."""

    def __init__(self, root: GroupNode, findings: Findings) -> None:
        self.findings = findings
        self.groups: dict[str, GroupNode] = {node.fqn: node for node in root.walk()}
        self.entries: dict[str, _Entry] = {
            join_fqn(node.fqn, d.name): _Entry(d) for node in self.groups.values() for d in node.dimensions
        }
        self.sizes: dict[str, Dimension] = {}
        #: Dimensions that only a conflict made necessary.
        self.guessed: dict[tuple[str, str, int], str] = {}

    # -- references

    def bind(self, array: ArrayNode, reference: str, length: int) -> str:
        """Return the FQN of the dimension that an array's reference means, and note the length."""
        fqn = reference if reference in self.entries else self._find(array, reference)
        self.entries[fqn].uses.append((length, array))
        return fqn

    def _find(self, array: ArrayNode, reference: str) -> str:
        *above, name = parse_fqn(reference)
        home, own = format_fqn(above), group_of(array.fqn)
        if home in self.groups:
            if self.groups[home].source != "none":
                self.findings.add(
                    "dimension-unlisted",
                    home,
                    f"the dimension {name!r} is used by {array.fqn} and not declared",
                    "note",
                    "declare it",
                )
            return self._declare(home, name, array, reference)
        names = parse_fqn(own)
        for depth in range(len(names), -1, -1):
            fqn = join_fqn(format_fqn(names[:depth]), name)
            if fqn in self.entries:
                self._moved(array, reference, fqn)
                return fqn
        fqn = self._declare(own, name, array, reference)
        self._moved(array, reference, fqn)
        return fqn

    def _moved(self, array: ArrayNode, reference: str, fqn: str) -> None:
        self.findings.add(
            "reference-moved",
            array.fqn,
            f"the dimension {reference} is gone, as its group was renamed or deleted; it is taken for {fqn}",
            "warning",
            "rewrite the reference",
        )

    def _declare(self, group: str, name: str, array: ArrayNode, reference: str) -> str:
        unlimited = array.info.get("unlimited", [])
        declared = DeclaredDimension(name, None, isinstance(unlimited, list) and reference in unlimited)
        self.groups[group].dimensions.append(declared)
        fqn = join_fqn(group, name)
        self.entries[fqn] = _Entry(declared)
        return fqn

    # -- sizes

    def settle(self) -> Mapping[str, Dimension]:
        """Find the size of every dimension, when all references are bound; returns the dimensions by FQN."""
        for fqn, entry in list(self.entries.items()):
            size = self._size(fqn, entry)
            self.sizes[fqn] = Dimension(entry.declared.name, size, entry.declared.unlimited)
        return self.sizes

    def _size(self, fqn: str, entry: _Entry) -> int:
        recorded = entry.declared.size
        lengths = {length for length, _ in entry.uses}
        if not lengths:
            return recorded or 0
        longest = max(lengths)
        if entry.declared.unlimited:
            for length, array in entry.uses:
                if length < longest:
                    what = f"it has {length} of {longest} steps of {fqn}; the others read as fill"
                    self.findings.add("length-differs", array.fqn, what, "warning", "extend its shape")
        elif len(lengths) > 1:
            return self._conflict(fqn, entry, lengths)
        if recorded is not None and recorded != longest:
            self.findings.add(
                "size-stale",
                fqn,
                f"the recorded size is {recorded}, its arrays have {longest}",
                "note",
                "update the record",
            )
        return longest

    def _conflict(self, fqn: str, entry: _Entry, lengths: set[int]) -> int:
        recorded = entry.declared.size
        own = [n for n, array in entry.uses if array.fqn == fqn and len(array.metadata.shape) == 1]
        size = recorded if recorded in lengths else own[0] if own else max(lengths)
        assert size is not None
        for length, array in entry.uses:
            if length != size:
                self.findings.add(
                    "size-conflict",
                    array.fqn,
                    f"it has {length} elements along {fqn}, others have {size}; it is read with a dimension of its own",
                    "error",
                )
        return size

    def reference(self, array: ArrayNode, fqn: str, length: int) -> DimensionRef:
        """Return the dimension that an array has, once sizes are settled: its own where lengths are in conflict."""
        dimension = self.sizes[fqn]
        if dimension.size == length or dimension.unlimited:
            return fqn
        group = group_of(array.fqn)
        key = (group, fqn, length)
        if key not in self.guessed:
            wanted = name = f"{dimension.name}_{length}"
            number = 2
            while join_fqn(group, name) in self.sizes:
                name, number = f"{wanted}_{number}", number + 1
            own = join_fqn(group, name)
            self.guessed[key] = own
            self.sizes[own] = Dimension(name, length)
            self.groups[group].dimensions.append(DeclaredDimension(name, length, False))
        return self.guessed[key]


def is_reference(item: object) -> bool:
    """True for an FQN below the root, or the size of an anonymous dimension.

    Examples
    --------
    >>> [is_reference(x) for x in ("/x", 3, "x", "/", -1, True)]
    [True, True, False, False, False, False]
    """
    if type(item) is int:
        return item >= 0
    return isinstance(item, str) and _is_fqn(item)


@lru_cache(maxsize=4096)
def _is_fqn(item: str) -> bool:
    if item == "/":
        return False
    try:
        parse_fqn(item)
    except ModelError:
        return False
    return True

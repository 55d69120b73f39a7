"""Open a group through its dataset, which contains the dimensions and types of the groups above it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn, TypeVar

from nczarr import model
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.json_values import JsonObject, as_object, as_text
from nczarr.mapping.dialect import Binding, OpenedGroup, Reading
from nczarr.mapping.nczarr3.keys import GROUP_KEY, SUPERBLOCK_KEY
from nczarr.model import Dataset, Type, UserType, Variable, join_fqn, parse_fqn, split_fqn
from nczarr.model.nodes import dataset_of
from nczarr.model.types import map_parts
from nczarr.stores import Store
from nczarr.zarr.documents.json import parse_object

_ROOTS = {"v3": "zarr.json", "v2": ".zgroup"}
_SUPERBLOCKS = (SUPERBLOCK_KEY, SUPERBLOCK_KEY.upper())

_T = TypeVar("_T", bound=Type)


def root_above(store: Store, layout: str) -> tuple[Store, str] | None:
    """Return the store of a group's dataset, and the path of the group there; None if there is none.

    The dataset is the nearest group above with a superblock, else the topmost group, whose keys another program may
    have removed. The caller closes the store.
    """
    key, path = _ROOTS[layout], ""
    best: tuple[Store, str] | None = None
    current = store
    while (above := current.parent()) is not None:
        current, name = above
        path = f"{name}/{path}" if path else name
        try:
            # A folder without a document is no group: what is above it is another store.
            if current.get(key) is None:
                break
            best = current, path
            # A dataset may lie inside another one's folder: the nearest counts.
            if _has_superblock(current, layout):
                break
        except NCZarrError:  # an unreadable dataset cannot be opened
            break
    return best


def _attributes(store: Store, key: str, data: bytes) -> JsonObject | None:
    """Return the attributes in a document; raise NCZarrError if it is damaged."""
    document = parse_object(data, store.place(key))
    return document.get("attributes") if key == "zarr.json" else document


def _has_superblock(store: Store, layout: str) -> bool:
    for key in ("zarr.json",) if layout == "v3" else (".zattrs", ".zgroup"):
        data = store.get(key)
        if data is not None:
            with suppress(NCZarrError):
                attributes = as_object(_attributes(store, key, data))
                if any(key in attributes for key in _SUPERBLOCKS):
                    return True
    return layout != "v3" and store.get(".nczarr") is not None


def refuse_group(place: str, what: str, part: OpenedGroup) -> NoReturn:
    """Raise UnsupportedError for a group that cannot be changed alone, with the place of its dataset."""
    group = f"the group {part.fqn}" if part.fqn else "a group"
    whole, hint = f"the dataset {part.whole}", f"name the dataset: {part.whole}"
    if part.whole is None:
        whole = "a dataset that is not above it"
        hint = "name the dataset, or copy the group: nczarr copy converts it to a dataset"
    raise UnsupportedError(f"this is {group} of {whole}, and cannot be {what} alone", path=place, hint=hint)


def refuse_group_of_dataset(store: Store, what: str) -> None:
    """Raise UnsupportedError if the root's document shows that the store is a group of a dataset."""
    for layout, key in (("v3", "zarr.json"), ("v2", ".zattrs"), ("v2", ".zgroup")):
        data = store.get(key)
        if data is None:
            continue
        try:
            attributes = as_object(_attributes(store, key, data))
        # A damaged document says nothing about a group. Opening it reports the damage.
        except NCZarrError:
            return
        # The root of a dataset has a superblock: it may be changed.
        if any(k in attributes for k in _SUPERBLOCKS):
            return
        record = attributes.get(GROUP_KEY, attributes.get(GROUP_KEY.upper()))
        # Changed alone, a group would lose the dimensions and types of the groups above.
        if isinstance(record, dict):
            fqn = as_text(record.get("fqn"))
            above = root_above(store, layout)
            if above is not None:
                above[0].close()
                part = OpenedGroup(fqn or model.format_fqn(above[1].split("/")), above[0].url)
                refuse_group(store.url, what, part)
            if fqn:
                refuse_group(store.url, what, OpenedGroup(fqn))


def as_dataset(reading: Reading, part: OpenedGroup, name: str, path: str) -> Reading:
    """Return the reading of one group as a dataset of its own.

    The group becomes the root. It declares the dimensions and types that it uses from the groups above, with other
    names where its own names are the same: `time` of the root, hidden by the group's own `time`, is `time_hidden1`.

    Parameters
    ----------
    reading : Reading
        The whole dataset.
    part : OpenedGroup
        The group.
    name : str
        The name of the new dataset.
    path : str
        The path of the group in the hierarchy.
    """
    rooter = Rooter(reading.dataset, part.fqn)
    prefix = part.fqn + "/"

    def below(fqn: str) -> bool:
        return fqn.startswith(prefix)

    return replace(
        reading,
        dataset=rooter.dataset(name),
        variables={rooter.inside(f): rooter.binding(b) for f, b in reading.variables.items() if below(f)},
        groups={"/": path} | {rooter.inside(f): at for f, at in reading.groups.items() if below(f)},
        losses=tuple([s for s in reading.losses if s[1:].startswith(f"{path}/") or not path]),
        findings=tuple(
            replace(f, where=rooter.inside(f.where) or "/")
            for f in reading.findings
            if f.where == part.fqn or below(f.where)
        ),
        guessed=frozenset(rooter.inside(fqn) for fqn in reading.guessed if below(fqn)),
        part=part,
    )


class Rooter:
    """Converts a group to a dataset: maps each dimension and type of the group to its FQN in the new dataset."""

    def __init__(self, whole: Dataset, fqn: str) -> None:
        self.whole = whole
        self.fqn = fqn
        self.group = whole.all_groups[fqn]
        below = [group for _, group in self.group.walk(fqn)]
        variables = [v for group in below for v in group.variables]
        used = {r for v in variables for r in v.named_dimensions}
        self.dimensions = self._outer(
            used, whole.all_dimensions, {d.name for g in below for d in g.dimensions}
        )
        found: list[Type] = [t for g in below for t in g.types]
        found += [v.type for v in variables]
        found += [a.type for owner in (*below, *variables) for a in owner.attributes]
        used = {t.fqn for type_ in found for t in model.walk_types(type_) if isinstance(t, UserType)}
        self.types = self._outer(used, whole.all_types, {t.name for g in below for t in g.types})
        self._moved: dict[str, UserType] = {}

    def inside(self, fqn: str) -> str:
        """Return the FQN of a node of the group in the new dataset; empty for the group itself."""
        return fqn[len(self.fqn) :]

    def _outer(self, used: set[str], known: Iterable[str], own: set[str]) -> dict[str, str]:
        """Return names for nodes outside the group that it uses, by FQN in the order of the dataset."""
        outer = [f for f in known if f in used and not f.startswith(f"{self.fqn}/")]
        taken = set(own)
        names: dict[str, str] = {}
        for fqn in sorted(outer, key=lambda f: -len(parse_fqn(f))):  # the nearest keeps its name
            name = simple = split_fqn(fqn)[1]
            number = 0
            while name in taken:
                number += 1
                name = f"{simple}_hidden{number}"
            taken.add(name)
            names[fqn] = name
        return {fqn: names[fqn] for fqn in outer}

    def dataset(self, name: str) -> Dataset:
        body = model.rewrite(
            self.group,
            fqn=self.fqn,
            user_type=lambda _, t: self.type(t),
            variable=self._variable,
            attribute=lambda _, a: replace(a, type=self.type(a.type)) if a.type.is_user_defined else a,
        )
        dimensions = [replace(self.whole.all_dimensions[f], name=n) for f, n in self.dimensions.items()]
        types = [self.type(self.whole.all_types[f]) for f in self.types]
        body = replace(body, types=(*types, *body.types), dimensions=(*dimensions, *body.dimensions))
        return dataset_of(body, name, self.whole.format)

    def _variable(self, _: str, variable: Variable) -> Variable:
        dimensions = tuple([self.dimension(r) if isinstance(r, str) else r for r in variable.dimensions])
        return replace(variable, type=self.type(variable.type), dimensions=dimensions)

    def dimension(self, fqn: str) -> str:
        return join_fqn("/", self.dimensions[fqn]) if fqn in self.dimensions else self.inside(fqn)

    def type(self, type_: _T) -> _T:
        """Return the type with its FQN in the new dataset, and with its converted parts."""
        if not isinstance(type_, UserType):
            return type_
        if type_.fqn not in self._moved:
            fqn = join_fqn("/", self.types[type_.fqn]) if type_.fqn in self.types else self.inside(type_.fqn)
            self._moved[type_.fqn] = replace(map_parts(type_, self.type), fqn=fqn)
        return self._moved[type_.fqn]  # type: ignore[return-value]

    def binding(self, binding: Binding) -> Binding:
        """Return the binding with the converted type."""
        type_ = binding.encoding.type
        moved = self.type(type_)
        return binding if moved is type_ else replace(binding, encoding=replace(binding.encoding, type=moved))

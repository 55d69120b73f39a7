"""Choose and rename variables, groups, dimensions and attributes by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nczarr import model
from nczarr.convert.change.selecting import select
from nczarr.errors import UnsupportedError
from nczarr.model import Attribute, Dataset, Group, Variable, format_fqn, join_fqn, parse_fqn, split_fqn
from nczarr.model.names import check_length, is_inside
from nczarr.model.typed import fqn_of_typed, matching, similar_name, split_typed, typed, unescape
from nczarr.model.types import requalified
from nczarr.options import RANGES, Take, named, option

#: Attributes whose words are names of variables (CF conventions, chapters 5 to 7).
NAMING = ("coordinates", "bounds", "climatology", "grid_mapping", "ancillary_variables", "cell_measures",
           "formula_terms", "node_coordinates", "geometry")  # fmt: skip
_G = TypeVar("_G", bound=Group)


@dataclass(frozen=True)
class Subset:
    """The requested part of a dataset, and new names of its nodes; see :func:`nczarr.copy`.

    A pattern with a slash matches FQNs (``/ocean/t*``); a pattern without a slash matches simple names in any group.
    The form of names is that of :mod:`nczarr.model.typed`.

    Parameters
    ----------
    variables : tuple of str
        Keep these variables, and their coordinates, bounds and grid mappings.
    only : tuple of str
        Keep exactly these variables.
    groups : tuple of str
        Keep these groups with everything in them.
    exclude : tuple of str
        Omit these variables and groups.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Dimension
    >>> x, t, p = Variable("x", DOUBLE, ("/x",)), Variable("t", DOUBLE, ("/x",)), Variable("p", DOUBLE)
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(x, t, p))
    >>> [v.name for v in Subset(("t",)).nodes(d).variables], [v.name for v in Subset(only=("t",)).nodes(d).variables]
    (['x', 't'], ['t'])
    """

    variables: tuple[str, ...] = option(
        (),
        "copy these variables and their coordinates",
        Take.NAMES,
        "A,B",
        flags="-v --variables",
        usual=True,
        planned=True,
    )
    only: tuple[str, ...] = option(
        (), "copy exactly these variables", Take.NAMES, "A,B", flags="-V --only", planned=True
    )
    groups: tuple[str, ...] = option(
        (), "copy these groups", Take.NAMES, "A,B", flags="-g --groups", planned=True
    )
    exclude: tuple[str, ...] = option(
        (),
        "copy all but these variables and groups",
        Take.NAMES,
        "A,B",
        flags="-x --exclude",
        usual=True,
        planned=True,
    )
    select: Mapping[str, object] = option(
        dict,
        f"a range of a dimension: {RANGES}",
        Take.RANGES,
        "DIM=RANGE",
        flags="-d --dimension",
        usual=True,
        planned=True,
    )
    rename: Mapping[str, str] = option(
        dict,
        "rename a variable, dimension or group, or an attribute: /a/b@units=c",
        Take.PAIRS,
        "/A/B=C",
        planned=True,
    )

    def nodes(self, dataset: Dataset) -> Dataset:
        """Return the requested variables and groups; dimensions and types stay, as in ``nccopy -V``.

        Raises
        ------
        UnsupportedError
            If a pattern matches nothing, or no variable is left.
        """
        variables, only, groups, exclude = self.variables, self.only, self.groups, self.exclude
        if not (variables or only or groups or exclude):
            return dataset
        all_variables, all_groups = dataset.all_variables, dataset.all_groups
        kept, kept_groups = set(all_variables), set(all_groups)
        excluded: set[str] = set()
        if variables or only:
            kept = _with_references(dataset, _matching(variables, all_variables, "variable", "variables"))
            kept |= _matching(only, all_variables, "variable", "only")
        if groups:
            inside = _inside(all_groups, _matching(groups, all_groups, "group", "groups"))
            kept &= {v for v in all_variables if split_fqn(v)[0] in inside}
            kept_groups = inside | _around(all_groups, inside)
        if exclude:
            # These patterns also take unreadable parts: one of them must not refuse the whole file.
            excluded = _matching(exclude, _all_nodes(dataset), "variable or group", "exclude")
            kept -= _inside(all_variables, excluded)
            kept_groups -= _inside(all_groups, excluded) - {"/"}
        homes = {split_fqn(ref)[0] for v in kept for ref in all_variables[v].named_dimensions}
        if variables or only:
            # Omit empty groups, but keep those whose dimensions or types are in use.
            used = homes | {split_fqn(node)[0] for node in (*kept, *dataset.all_types)}
            kept_groups &= _around(all_groups, used)
        if all_variables and not kept and (variables or only or exclude):
            raise UnsupportedError("no variable is left to copy", hint="see nczarr tree for the names")
        kept_groups |= _around(all_groups, homes - {"/"} - kept_groups)
        part = model.rewrite(
            dataset, variable=lambda fqn, v: v if fqn in kept else None, group=lambda fqn: fqn in kept_groups
        )
        # If the request names nodes, it does not need the unreadable ones.
        gone = () if variables or only or groups else part.gone
        return replace(part, left_out=self._losses(dataset, kept, excluded), gone=gone)

    def _losses(self, dataset: Dataset, kept: set[str], excluded: set[str]) -> tuple[str, ...]:
        """Return the losses of the source that concern the named nodes, or all but the excluded ones."""
        owners = [(loss, _owner(dataset, loss)) for loss in dataset.left_out]
        if self.variables or self.only or self.groups:
            return tuple(loss for loss, owner in owners if owner in kept)
        return tuple(loss for loss, owner in owners if not _inside([owner], excluded))

    def nodes_of_all(self, datasets: Sequence[Dataset]) -> Iterator[Dataset]:
        """Yield the requested nodes of datasets to join; an excluded node must exist in one of them."""
        found = [{p for p in self.exclude if matching(p, _all_nodes(d))} for d in datasets if self.exclude]
        missing = set(self.exclude).difference(*found)
        for number, dataset in enumerate(datasets):
            here = found[number] if found else ()
            excluded = (*(p for p in self.exclude if p in here), *sorted(missing))
            yield replace(self, exclude=excluded).nodes(dataset)

    def cut(self, dataset: Dataset) -> Dataset:
        """Return the requested part of each dimension, under the new names."""
        if not (self.select or self.rename):
            return dataset
        return rename(select(dataset, self.select), self.rename)


def _owner(dataset: Dataset, loss: str) -> str:
    """Return the FQN of the node that a sentence of ``left_out`` is about, or of the owner of an attribute."""
    found = re.match(r"(['\"])(.+?)\1 is left out", loss)
    if found is None:
        return loss.partition(": ")[0]
    fqn = found[2] if found[2].startswith("/") else f"/{found[2]}"  # a path in a store
    owner = fqn.rpartition("@")[0]
    return owner if owner in dataset.all_variables or owner in dataset.all_groups else fqn


def _all_nodes(dataset: Dataset) -> list[str]:
    """Return the FQNs of all variables and groups, also of those that are left out."""
    lost = [_owner(dataset, loss) for loss in dataset.left_out]
    return list(dict.fromkeys([*dataset.all_variables, *dataset.all_groups, *lost]))


def _inside(fqns: Iterable[str], groups: Iterable[str]) -> set[str]:
    """Return the FQNs that are in one of the groups, or are one."""
    return {fqn for fqn in fqns if any(is_inside(fqn, group) for group in groups)}


def _around(groups: Iterable[str], fqns: Iterable[str]) -> set[str]:
    """Return the groups that contain one of the FQNs, or are one."""
    return {group for group in groups if any(is_inside(fqn, group) for fqn in fqns)}


def _matching(patterns: Sequence[str], fqns: Iterable[str], what: str, option: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        meant = matching(pattern, fqns)
        if not meant:
            raise UnsupportedError(
                f"{named(option, pattern)}: there is no such {what}", hint=similar_name(pattern, fqns)
            )
        found.update(meant)
    return found


def _with_references(dataset: Dataset, fqns: Iterable[str]) -> set[str]:
    """Return the variables, and all variables to which their dimensions and attributes refer."""
    found: set[str] = set()
    waiting = list(fqns)
    while waiting:
        fqn = waiting.pop()
        if fqn not in found:
            found.add(fqn)
            variable = dataset.all_variables[fqn]
            waiting += [r for r in variable.named_dimensions if r in dataset.all_variables]
            # A variable without its bounds or grid mapping lost its meaning.
            for name in NAMING:
                waiting += named_variables(dataset, fqn, variable.attribute.get(name))
    return found


def named_variables(dataset: Dataset, owner: str, attribute: Attribute | None) -> Iterator[str]:
    """Yield the variables that the words of an attribute name; `owner` is the FQN of its variable."""
    for word in words_of(attribute):
        assert attribute is not None
        fqn = find_variable(dataset, named_by(word, attribute.name), split_fqn(owner)[0])
        if fqn is not None:
            yield fqn


def words_of(attribute: Attribute | None) -> list[str]:
    """Return the words of a text attribute; an empty list for all others."""
    if attribute is None or attribute.type not in (model.CHAR, model.STRING):
        return []
    return attribute.text.replace("\0", " ").split()


def named_by(word: str, attribute: str) -> str:
    """Return the variable name in a word of an attribute; an empty string for words that explain the next word.

    Examples
    --------
    >>> named_by("area:", "cell_measures"), named_by("areacello", "cell_measures"), named_by("crs:", "grid_mapping")
    ('', 'areacello', 'crs')
    """
    if not word.endswith(":"):
        return word
    return word[:-1] if attribute == "grid_mapping" else ""


def find_variable(dataset: Dataset, name: str, group: str) -> str | None:
    """Return the FQN for a variable name in an attribute: a path, or a name looked up from `group` upwards.

    Programs such as xarray write a name as it is: ``x/y`` is the path of ``y`` in ``x``, or else the name ``x/y``.
    """
    if not name:
        return None
    if name.startswith("/"):
        return name if name in dataset.all_variables else None
    while True:
        fqn = f"{'' if group == '/' else group}/{name}"
        if fqn in dataset.all_variables:
            return fqn
        fqn = join_fqn(group, name)
        if fqn in dataset.all_variables:
            return fqn
        if group == "/":
            return None
        group = split_fqn(group)[0]


def rename(dataset: Dataset, names: Mapping[str, str]) -> Dataset:
    """Rename nodes, and adapt all references to them.

    Parameters
    ----------
    names : mapping
        New simple names by FQN (``/a/b``), or by FQN and attribute (``/a/b@units``, ``/@title``). A variable and a
        dimension with the same FQN, a coordinate, are renamed together. Attributes that name variables by the CF
        conventions (``coordinates``, ``bounds``, ``grid_mapping``, …) get the new names.

    Raises
    ------
    UnsupportedError
        If a node does not exist, or a new name exists already or is not legal.

    Examples
    --------
    >>> from nczarr.model import Dimension, INT, Variable
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> rename(d, {"/x": "lon", "/v": "w"}).variables[0].dimensions
    ('/lon',)
    """
    if not names:
        return dataset
    renamed: dict[_Named, str] = {}
    for old, new in names.items():
        name = unescape(new)
        problem = model.check_name(name) or check_length(name)
        if problem:
            raise UnsupportedError(f"{named('rename', {old: new})}: {problem}")
        renamed[_named(dataset, old)] = name
    return model.resolve(_Renamer(dataset, renamed).group("/", dataset))


#: A node by its FQN, or an attribute by the FQN of its owner and its name.
_Named = str | tuple[str, str]


def _named(dataset: Dataset, text: str) -> _Named:
    """Return the node or the attribute that ``/a/b`` or ``/a/b@units`` names."""
    nodes = {**dataset.all_variables, **dataset.all_dimensions, **dataset.all_types, **dataset.all_groups}
    owners, groups = dataset.all_variables, dataset.all_groups
    pieces = split_typed(text, "@") if text.startswith("/") else []
    found: list[_Named] = [fqn for fqn in [fqn_of_typed(text)] if pieces and fqn in nodes and fqn != "/"]
    for i in range(1, len(pieces)):
        fqn, name = fqn_of_typed("@".join(pieces[:i])), unescape("@".join(pieces[i:]))
        holders = [owner for owner in (owners.get(fqn), groups.get(fqn)) if owner is not None]
        if any(name in owner.attribute for owner in holders):
            found.append((fqn, name))
    if len(found) == 1:
        return found[0]
    place = getattr(text, "place", None)
    if found:
        problem, hint = "several nodes and attributes have this name", r"write '\@' for a @ inside of a name"
    else:
        problem = "there is nothing of this name"
        near = [fqn for fqn in nodes if fqn.endswith(fqn_of_typed(text))]
        hint = (
            f"did you mean '{typed(near[0])}'?"
            if near
            else "a full name: /group/variable, or /variable@attribute"
        )
    raise UnsupportedError(f"{named('rename', text)}: {problem}", path=place, hint=hint)


class _Renamer:
    """Renames nodes and references."""

    def __init__(self, dataset: Dataset, names: Mapping[_Named, str]) -> None:
        self.dataset = dataset
        self.names = names

    def group(self, fqn: str, old: _G) -> _G:
        groups = [(join_fqn(fqn, g.name), g) for g in old.groups]
        renamed = replace(
            old,
            attributes=self.attributes(fqn, old.attributes),
            types=tuple(requalified(t, self.node) for t in old.types),
            dimensions=tuple(
                replace(d, name=self.name(join_fqn(fqn, d.name), d.name)) for d in old.dimensions
            ),
            variables=tuple(self.variable(join_fqn(fqn, v.name), v) for v in old.variables),
            groups=tuple(replace(self.group(at, g), name=self.name(at, g.name)) for at, g in groups),
        )
        _refuse_twins(fqn, renamed)
        return renamed

    def variable(self, fqn: str, old: Variable) -> Variable:
        return replace(
            old,
            name=self.name(fqn, old.name),
            type=requalified(old.type, self.node),
            dimensions=tuple(r if isinstance(r, int) else self.node(r) for r in old.dimensions),
            attributes=self.attributes(fqn, tuple(self.naming(fqn, a) for a in old.attributes)),
        )

    def naming(self, owner: str, old: Attribute) -> Attribute:
        """Return an attribute with the new names of the variables that it names."""
        # Any other text may have the name as one of its words.
        if old.name not in NAMING or old.type not in (model.CHAR, model.STRING):
            return old
        group = split_fqn(owner)[0]

        def word(found: re.Match[str]) -> str:
            bare = named_by(found[0], old.name)
            fqn = find_variable(self.dataset, bare, group)
            if fqn is None:
                return found[0]
            new = self.node(fqn)
            steps = len(split_typed(bare, "/")) if fqn.endswith(f"/{bare}") else 1
            text = new if bare.startswith("/") else format_fqn(parse_fqn(new)[-steps:])[1:]
            # A list of words cannot contain a name with a blank.
            return found[0] if fqn == new or " " in text else found[0].replace(bare, text)

        if old.type is model.STRING:
            values = np.empty(len(old.values), object)
            values[:] = [re.sub(r"[^\s\0]+", word, text) for text in old.values]
        else:
            text = re.sub(r"[^\s\0]+", word, old.values.tobytes().decode("utf-8", "surrogateescape"))
            values = np.frombuffer(text.encode("utf-8", "surrogateescape"), "S1")
        return replace(old, values=values)

    def attributes(self, owner: str, old: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        return tuple(
            replace(a, name=self.name((owner, a.name), a.name), type=requalified(a.type, self.node))
            for a in old
        )

    def name(self, named: _Named, old: str) -> str:
        """Return the new simple name of a node or an attribute."""
        return self.names.get(named, old)

    def inside(self, fqn: str) -> str:
        """Return an FQN with the new names of its groups."""
        parts = parse_fqn(fqn)
        groups = [self.name(format_fqn(parts[: i + 1]), part) for i, part in enumerate(parts[:-1])]
        return format_fqn([*groups, *parts[-1:]])

    def node(self, fqn: str) -> str:
        """Return the new FQN of a dimension, a variable or a type."""
        group, name = split_fqn(self.inside(fqn))
        return join_fqn(group, self.name(fqn, name))


def _refuse_twins(fqn: str, group: Group) -> None:
    members = [node.name for nodes in (group.variables, group.groups, group.types) for node in nodes]
    lists = [
        ("attribute", fqn, [a.name for a in group.attributes]),
        *(("attribute", join_fqn(fqn, v.name), [a.name for a in v.attributes]) for v in group.variables),
        ("dimension", fqn, [d.name for d in group.dimensions]),
        ("variable, group or type", fqn, members),
    ]
    for what, owner, names in lists:
        twin = next((n for i, n in enumerate(names) if n in names[:i]), None)
        if twin is not None:
            raise UnsupportedError(f"{named('rename')}: {owner} would have two of the name {twin!r}: {what}")

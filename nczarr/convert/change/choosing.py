"""Choose the variables and groups of a copy by patterns of their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from nczarr.errors import UnsupportedError
from nczarr.model import CHAR, STRING, Dataset, Variable, parse_fqn, rewrite, split_fqn

#: Attributes whose words are names of variables (CF conventions, chapters 5 to 7).
NAMING = ("coordinates", "bounds", "climatology", "grid_mapping", "ancillary_variables", "cell_measures",
           "formula_terms", "node_coordinates", "geometry")  # fmt: skip


def choose(
    dataset: Dataset,
    *,
    variables: Sequence[str] = (),
    only: Sequence[str] = (),
    groups: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Dataset:
    """Keep a part of a dataset; dimensions and types stay, as in ``nccopy -V``.

    A pattern with a slash is one of FQNs (``/ocean/t*``), one without is one of simple names in any group.

    Parameters
    ----------
    variables : sequence of str
        Keep these variables, and the coordinates, bounds and grid mappings that they need.
    only : sequence of str
        Keep exactly these variables.
    groups : sequence of str
        Keep these groups and all in them.
    exclude : sequence of str
        Leave out these variables and groups.

    Raises
    ------
    UnsupportedError
        If a pattern fits nothing, or nothing is left of the dataset.

    Examples
    --------
    >>> from nczarr.model import DOUBLE, Dimension
    >>> x, t, p = Variable("x", DOUBLE, ("/x",)), Variable("t", DOUBLE, ("/x",)), Variable("p", DOUBLE)
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(x, t, p))
    >>> [v.name for v in choose(d, variables=["t"]).variables], [v.name for v in choose(d, only=["t"]).variables]
    (['x', 't'], ['t'])
    """
    if not (variables or only or groups or exclude):
        return dataset
    all_variables, all_groups = dataset.all_variables, dataset.all_groups
    kept = set(all_variables)
    if variables or only:
        wanted = _matching(variables, all_variables, "variable", "-v")
        kept = _needed(dataset, wanted) | _matching(only, all_variables, "variable", "-V")
    kept_groups = set(all_groups)
    if groups:
        chosen = _matching(groups, all_groups, "group", "-g")
        inside = {g for g in all_groups if any(_is_in(g, c) for c in chosen)}
        kept &= {v for v in all_variables if split_fqn(v)[0] in inside}
        kept_groups = inside | {g for g in all_groups if any(_is_in(i, g) for i in inside)}
    if exclude:
        gone = _matching(exclude, {**all_variables, **all_groups}, "variable or group", "-x")
        kept -= {v for v in all_variables if any(_is_in(v, g) for g in gone)}
        kept_groups -= {g for g in all_groups if g != "/" and any(_is_in(g, x) for x in gone)}
    if variables or only:
        # Groups of which nothing is wanted go; those whose dimensions or types are in use stay.
        used = {
            split_fqn(ref)[0] for v in kept for ref in all_variables[v].dimensions if isinstance(ref, str)
        }
        used |= {split_fqn(v)[0] for v in kept} | {split_fqn(t)[0] for t in dataset.all_types}
        kept_groups &= {g for g in all_groups if any(_is_in(u, g) for u in used)}
    if all_variables and not kept and (variables or only or exclude):
        raise UnsupportedError("no variable is left to copy", hint="see nczarr tree for the names")
    for fqn in kept:
        for reference in all_variables[fqn].dimensions:
            if isinstance(reference, str) and split_fqn(reference)[0] not in kept_groups | {"/"}:
                kept_groups |= {g for g in all_groups if _is_in(split_fqn(reference)[0], g)}
    return rewrite(
        dataset,
        variable=lambda fqn, v: v if fqn in kept else None,
        group=lambda fqn: fqn in kept_groups,
    )


def matches(fqn: str, pattern: str) -> bool:
    """True if a node is meant by a pattern of FQNs or of simple names.

    Examples
    --------
    >>> matches("/g/temp", "t*"), matches("/g/temp", "/g/*"), matches("/g/temp", "g/temp"), matches("/g/t", "/t")
    (True, True, True, False)
    """
    if "/" not in pattern:
        return fnmatchcase(parse_fqn(fqn)[-1] if fqn != "/" else "", pattern)
    return fnmatchcase(fqn, pattern if pattern.startswith("/") else f"/{pattern}")


def _is_in(fqn: str, group: str) -> bool:
    return fqn == group or group == "/" or fqn.startswith(f"{group}/")


def _matching(patterns: Sequence[str], nodes: Mapping[str, Any], what: str, option: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        fitting = {fqn for fqn in nodes if matches(fqn, pattern)}
        if not fitting:
            from difflib import get_close_matches

            names = [*nodes, *(parse_fqn(fqn)[-1] for fqn in nodes if fqn != "/")]
            near = get_close_matches(pattern, names, 1)
            raise UnsupportedError(
                f"{option} {pattern}: there is no such {what}",
                hint=f"did you mean {near[0]}?" if near else None,
            )
        found |= fitting
    return found


def _needed(dataset: Dataset, wanted: Iterable[str]) -> set[str]:
    """The variables, and those without which their values cannot be placed."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        fqn = waiting.pop()
        if fqn in found:
            continue
        found.add(fqn)
        variable = dataset.all_variables[fqn]
        for reference in variable.dimensions:
            if isinstance(reference, str) and reference in dataset.all_variables:
                waiting.append(reference)
        waiting.extend(_named_in(dataset, fqn, variable))
    return found


def _named_in(dataset: Dataset, fqn: str, variable: Variable) -> Iterable[str]:
    group = split_fqn(fqn)[0]
    for name in NAMING:
        attribute = variable.attribute.get(name)
        if attribute is None or attribute.type not in (CHAR, STRING):
            continue
        for word in attribute.text.replace("\0", " ").split():
            found = find_variable(dataset, named_by(word, name), group)
            if found is not None:
                yield found


def named_by(word: str, attribute: str) -> str:
    """Return the name of a variable that a word of an attribute is; nothing for a word that says what the next is.

    Examples
    --------
    >>> named_by("area:", "cell_measures"), named_by("areacello", "cell_measures"), named_by("crs:", "grid_mapping")
    ('', 'areacello', 'crs')
    """
    if not word.endswith(":"):
        return word
    return word[:-1] if attribute == "grid_mapping" else ""


def find_variable(dataset: Dataset, name: str, group: str) -> str | None:
    """Return the variable that a word in an attribute names: a path, or a name looked up from a group upwards."""
    if not name:
        return None
    if name.startswith("/"):
        return name if name in dataset.all_variables else None
    while True:
        fqn = f"{'' if group == '/' else group}/{name}"
        if fqn in dataset.all_variables:
            return fqn
        if group == "/":
            return None
        group = split_fqn(group)[0]

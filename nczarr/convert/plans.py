"""Plan the storage of a copy, write its choices to a plan in TOML, and read an edited plan."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nczarr.compression import CHECKSUMS, FLETCHER32, packing_of, text_of
from nczarr.convert.change.selecting import parse_range
from nczarr.convert.change.shaping import BY_VARIABLE, OutputOptions, Placed
from nczarr.convert.endpoints import TargetFormat, sink_of
from nczarr.convert.report import PlannedVariable, Report, array_form
from nczarr.convert.request import CopyRequest, Verb, known_options, moved
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import CLASSIC, Kind
from nczarr.mapping import StoredDataset
from nczarr.model import Dataset, describe_type, split_fqn
from nczarr.model.typed import fqn_of_typed
from nczarr.options import Option, Take, named
from nczarr.stores import MemoryStore
from nczarr.system.atomic import text_output
from nczarr.text import did_you_mean
from nczarr.transfer import value_bytes

#: The options of one variable. A plan contains those of each variable instead of those for all.
_STORAGE = BY_VARIABLE
#: The problem of a value, by the form of the option.
_NOT = {
    Take.TEXT: "not text",
    Take.FLAG: "not true or false",
    Take.SWITCH: "not true or false",
    Take.OFF: "not true or false",
    Take.NAMES: "not a list of texts",
    Take.PAIRS: "not text",
    Take.RANGES: "not text",
    Take.NUMBERS: "not a number",
}
_TABLES = (Take.PAIRS, Take.RANGES, Take.NUMBERS)


def with_plan(
    verb: Verb, given: dict[str, Any], path: Path, run: Callable[[dict[str, Any]], tuple[str, ...]]
) -> tuple[str, ...]:
    """Copy by the plan that exists, or write the plan of a dry run.

    Parameters
    ----------
    given : dict
        The keywords of the call, without the plan.
    run : callable
        Runs the call with other keywords.
    """
    request = CopyRequest.of(verb, None, given)
    known = _planned(verb)
    if path.exists():
        # Two places for one choice: either would win by surprise.
        twice = [name for name in (*known, *_STORAGE, "chunk_bytes") if request.is_given(name)]
        # The dimension of a join has a default, which a plan replaces.
        if twice := [name for name in twice if (name, given[name]) != ("along", "time")]:
            raise UnsupportedError(
                f"the plan contains all choices, and {named(twice[0])} is one",
                path=str(path),
                hint=f"edit the plan, or write a new one: {named('dry_run', True)} and {named('plan')} with another "
                "name",
            )
        return run({n: v for n, v in given.items() if n != "along"} | read_plan(path, verb))
    if not request.trust.dry_run:
        raise DatasetNotFoundError(
            "there is no plan",
            path=str(path),
            hint=f"{named('dry_run', True)} with {named('plan')} writes one",
        )
    report = request.effort.report or Report()
    before = len(report.variables)
    lines = run(given | {"report": report})
    with text_output(path) as file:
        file.write(text_of_plan(request, report.variables[before:], path))
    return lines


def _planned(verb: str) -> dict[str, Option]:
    """Return the options of a verb that a plan contains, in the order of their classes, tables last."""
    found = {n: o for n, o in known_options(verb).items() if o.planned and n not in _STORAGE}
    return dict(sorted(found.items(), key=lambda pair: pair[1].take in _TABLES))


# --- planning


def planned_variables(
    source: Dataset, how: OutputOptions, target: Kind, form: TargetFormat
) -> Iterator[PlannedVariable]:
    """Yield the planned storage of each variable; for Zarr, create the metadata in memory to find it out."""
    own = how.by_variable(source)
    stored = sink_of(MemoryStore(), source, form) if target == "zarr" else None
    assert isinstance(stored, StoredDataset | None)
    has_chunks = target == "netcdf" and (form.format or source.format) not in CLASSIC.values()
    try:
        dataset = source if stored is None else stored.dataset
        for fqn, variable in dataset.all_variables.items():
            shape, kind, dtype = dataset.shape_of(variable), describe_type(variable.type), variable.type.dtype
            choices = dict[str, Any]()
            if stored is not None:
                array = stored.data(fqn).array
                chunks, shards, found = array_form(stored.data(fqn))
                codecs, objects = tuple(c.name for c in found), array.nchunks
                packing, data_type = packing_of(found), array.metadata.data_type
                is_checked = form.checksum or FLETCHER32 in {f.id for f in variable.storage.filters}
                # `checksum` adds it again; the compression of the plan is without it.
                if is_checked and packing and packing[-1].name in CHECKSUMS:
                    packing = packing[:-1]
                text = text_of(packing, 1 if data_type.is_variable else data_type.dtype.itemsize)
                choices = {"chunks": chunks, "shards": shards, "compression": text}
            else:
                own_chunks = variable.storage.chunk_shape if variable.storage.layout == "chunked" else None
                chunks, shards, objects = tuple(own_chunks or shape), None, 1
                codecs = tuple(str(f.id) for f in variable.storage.filters) if target == "netcdf" else ()
                if has_chunks:
                    choices = {"chunks": own_chunks, "compression": own.get(fqn, how).compression}
            choices["quantize"] = getattr(source.all_variables[fqn].data, "rounding", None)
            choices = {n: v for n, v in choices.items() if v and (shape or n == "quantize")}
            size = math.prod(shape) * value_bytes(dtype)
            yield PlannedVariable(fqn, kind, shape, chunks, shards, codecs, objects, size, choices)
    finally:
        if stored is not None:
            stored.abort()


# --- writing


def text_of_plan(request: CopyRequest, variables: Iterable[PlannedVariable], path: Path) -> str:
    """Return the choices of a request, and the storage of each variable, in TOML."""
    verb = request.verb
    example = "SOURCE TARGET" if verb == "copy" else "SOURCE... TARGET"
    lines = [f"# A plan of nczarr {verb}. Edit it, then run: nczarr {verb} {example} --plan {path.name}"]
    for name, described in _planned(verb).items():
        if not request.is_given(name):
            continue
        value = request.value(name)
        if callable(value):
            raise UnsupportedError(
                f"{named('plan')} cannot hold a function", hint=named("preprocess", "MODULE:FUNCTION")
            )
        if described.take in _TABLES:
            shown = {k: _text_of_range(v) if described.take is Take.RANGES else v for k, v in value.items()}
            lines += ["", f"[{name}]", *(f"{_toml(k)} = {_toml(v)}" for k, v in shown.items())]
        else:
            lines.append(f"{name} = {_toml(value)}")
    seen = set()
    for v in variables:
        # One table for each name: the second dataset's choices would replace the first one's.
        if v.fqn in seen:
            raise UnsupportedError(
                f"{named('plan')}: several datasets have the variable {v.fqn}", hint="copy one dataset"
            )
        seen.add(v.fqn)
        lines += ["", f"# {v}", f"[storage.{_toml(v.fqn)}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in v.choices.items()]
    return "\n".join(lines) + "\n"


def recorded_options(request: CopyRequest) -> dict[str, object]:
    """Return the options of a join by which an append to its target goes on, in the words of a plan.

    The part of the joined dimension that the join has taken says nothing about steps that come later.
    """
    found: dict[str, object] = {}
    # An append has no expected step of its own: it keeps to that of the join.
    for name, described in (
        _planned("append") | {"expect_step": known_options("join")["expect_step"]}
    ).items():
        value = request.value(name)
        if not request.is_given(name) or (name, value) == ("along", "time") or name == "record_sources":
            continue
        # Only the name is recorded: a dataset must not name the code that runs at the next append.
        if callable(value):
            value = f"{value.__module__}:{getattr(value, '__qualname__', '')}"
        if described.take is Take.RANGES:
            joined = split_fqn(fqn_of_typed(request.combination.along or ""))[1]
            value = {
                dimension: _text_of_range(chosen)
                for dimension, chosen in value.items()
                if split_fqn(fqn_of_typed(dimension))[1] != joined
            }
        if value:
            is_table = isinstance(value, Mapping)
            found[name] = dict(value) if is_table else list(value) if isinstance(value, tuple) else value
    return found


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    # TOML forbids the one control character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def _text_of_range(chosen: object) -> str:
    """Return a selection in the form of ``-d``."""
    ends = [chosen.start, chosen.stop, chosen.step] if isinstance(chosen, slice) else [chosen]
    while len(ends) == 3 and ends[-1] is None:
        ends.pop()
    is_index = all(end is None or type(end) is int for end in ends)
    text = "#" * is_index + ":".join(
        "" if end is None else str(int(end)) if isinstance(end, int) else str(end) for end in ends
    )
    with suppress(UnsupportedError):
        if parse_range(text) == chosen:
            return text
    raise UnsupportedError(f"{named('plan')}: the selection {chosen!r} has no form as text")


# --- reading


def read_plan(path: Path, verb: Verb = "copy") -> dict[str, Any]:
    """Return the choices of a plan as keywords of a verb.

    Raises
    ------
    UnsupportedError
        If a key is unknown, or a value has another form; the message names file, line and key.
    """
    try:
        text = path.read_text("utf-8")
        plan = tomllib.loads(text)
    except OSError as error:
        raise NCZarrError(f"cannot read the plan: {error.strerror}", path=str(path)) from None
    except ValueError as error:  # also of UTF-8
        raise UnsupportedError(f"the plan is not TOML: {error}", path=str(path)) from None
    return _PlanReader(verb, path, _lines_of(text)).read(plan)


@dataclass(frozen=True)
class _PlanReader:
    """Checks the values of a plan by the descriptions of the options."""

    verb: Verb
    path: Path
    lines: Mapping[tuple[str, ...], int]

    def place(self, *keys: str) -> str | None:
        """Return file and line of a key; None if the line is unknown."""
        return f"{self.path}:{self.lines[keys]}" if keys in self.lines else None

    def refuse(self, *keys: str, problem: str, hint: str | None = None) -> NoReturn:
        """Raise the error of a key."""
        place = self.place(*keys) or self.place(*keys[:-1]) or str(self.path)
        raise UnsupportedError(f"{'.'.join(keys)}: {problem}", path=place, hint=hint)

    def table(
        self, *keys: str, value: object, known: Collection[str] | None = None
    ) -> Iterable[tuple[str, Any]]:
        """Return the keys and values of a table; refuse the keys that are not known."""
        if not isinstance(value, dict):
            self.refuse(*keys, problem="not a table")
        for key in value:
            if known is not None and key not in known:
                hint = did_you_mean(key, list(known)) or moved(self.verb, key)
                self.refuse(*keys, key, problem="there is no such key in a plan", hint=hint)
        return value.items()

    def read(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords of a plan."""
        options, found = _planned(self.verb), dict[str, Any]()
        for name, value in self.table(value=plan, known=(*options, "storage")):
            if name == "storage":
                found |= self.storage(value)
                continue
            take = options[name].take
            if take in _TABLES:
                found[name] = {
                    Placed.at(key, self.place(name, key)): self.item(take, item, name, key)
                    for key, item in self.table(name, value=value)
                }
            else:
                found[name] = self.item(take, value, name)
        return found

    def item(self, take: Take, value: object, *keys: str) -> object:
        """Return a value of an option; refuse one of another form."""
        if take is Take.NAMES:
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
        elif take is Take.NUMBERS:
            # TOML's true is an int for Python.
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            fits = isinstance(value, bool if _NOT[take] == "not true or false" else str)
        if not fits:
            self.refuse(*keys, problem=_NOT[take])
        if take is not Take.RANGES:
            return value
        with error_context(self.place(*keys) or str(self.path)):
            return parse_range(str(value))

    def storage(self, value: object) -> dict[str, dict[str, Any]]:
        """Return the options of variables, by option and FQN."""
        found: dict[str, dict[str, Any]] = {}
        for fqn, own in self.table("storage", value=value):
            for key, item in self.table("storage", fqn, value=own, known=_STORAGE):
                keys = ("storage", fqn, key)
                if key in ("chunks", "shards"):
                    if not isinstance(item, list):
                        self.refuse(*keys, problem="not a list of lengths")
                elif not isinstance(item, str):
                    self.refuse(*keys, problem="not text")
                found.setdefault(key, {})[Placed.at(fqn, self.place(*keys))] = item
        return found


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Return the lines of keys and tables that begin with their name."""
    # tomllib tells values without their lines.
    found: dict[tuple[str, ...], int] = {}
    inside: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        is_table = line.lstrip().startswith("[")
        # A line inside of a text of several lines is no key.
        with suppress(tomllib.TOMLDecodeError):
            node: Any = tomllib.loads(line if is_table else f"{line.partition('=')[0]} = 0")
            keys: tuple[str, ...] = ()
            while isinstance(node, dict) and node:
                key = next(iter(node))
                node, keys = node[key], (*keys, key)
            if keys:
                inside = keys if is_table else inside
                found.setdefault(keys if is_table else (*inside, *keys), number)
    return found

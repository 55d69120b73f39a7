"""Plan the storage of a copy, write its choices to a plan in TOML, and read an edited plan."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

from nczarr.compression import CHECKSUMS, FLETCHER32, packing_of, text_of
from nczarr.convert.change.selecting import parse_range
from nczarr.convert.change.shaping import OutputOptions, Placed
from nczarr.convert.endpoints import create_sink
from nczarr.convert.report import PlannedVariable, Report, array_form
from nczarr.errors import DatasetNotFoundError, NCZarrError, UnsupportedError, error_context
from nczarr.formats import CLASSIC, Kind
from nczarr.mapping import StoredDataset
from nczarr.model import Dataset, describe_type
from nczarr.stores import MemoryStore
from nczarr.system.atomic import text_output
from nczarr.text import did_you_mean
from nczarr.transfer import value_bytes

#: The options of a copy that a plan contains, by the form of their values in TOML.
_TEXTS = (
    "concat",
    "join",
    "repack",
    "expect_step",
    "preprocess",
    "layout",
    "char",
    "compound",
    "format",
    "chunk_keys",
)
_FLAGS = ("merge", "fixed", "checksum", "portable", "record_sources", "manifest", "consolidated", "extensions",
          "zarr_conventions", "nzug", "lossy", "case_insensitive")  # fmt: skip
_LISTS = ("variables", "only", "groups", "exclude", "unlimited", "adjust")
_TABLES = ("select", "rename", "tolerance")
#: The options of one variable. A plan contains those of each variable instead of those for all.
_STORAGE = ("chunks", "shards", "compression", "quantize")
_KNOWN = (*_TEXTS, *_FLAGS, *_LISTS, *_TABLES)


def copy_with_plan(copy: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Copy by the plan that exists, or write the plan of a dry run.

    Parameters
    ----------
    copy : callable
        :func:`nczarr.copy`.
    given : mapping
        All of its arguments, by name.
    """
    own = signature(copy).parameters
    arguments = {n: v for n, v in given.items() if n in own and n != "options" and v != own[n].default}
    arguments |= given["options"]
    path = Path(arguments.pop("plan"))
    for name in ("append", "virtual"):
        if name in arguments:
            raise UnsupportedError(f"--plan cannot be combined with --{name}")
    if path.exists():
        twice = [n for n in arguments if n in (*_KNOWN, *_STORAGE, "chunk_bytes")]
        if twice:
            raise UnsupportedError(
                f"the plan contains all choices, and --{twice[0].replace('_', '-')} is one",
                path=str(path),
                hint="edit the plan, or write a new one: --dry-run --plan with another name",
            )
        return copy(**arguments, **read_plan(path))
    if "dry_run" not in arguments:
        raise DatasetNotFoundError(
            "there is no plan", path=str(path), hint="--dry-run --plan NAME writes one"
        )
    report = arguments.setdefault("report", Report())
    before = len(report.variables)
    lines = copy(**arguments)
    text = _text_of_plan(arguments, report.variables[before:], path)
    with text_output(path) as file:
        file.write(text)
    return lines


# --- planning


def planned_variables(
    source: Dataset, how: OutputOptions, target: Kind, options: Mapping[str, Any]
) -> Iterator[PlannedVariable]:
    """Yield the planned storage of each variable; for Zarr, create the metadata in memory to find it out."""
    own = how.by_variable(source)
    stored = create_sink(MemoryStore(), source, **options) if target == "zarr" else None
    assert isinstance(stored, StoredDataset | None)
    has_chunks = target == "netcdf" and options.get("format", source.format) not in CLASSIC.values()
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
                is_checked = options.get("checksum") or FLETCHER32 in {f.id for f in variable.storage.filters}
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


def _text_of_plan(arguments: Mapping[str, Any], variables: Iterable[PlannedVariable], path: Path) -> str:
    lines = [f"# A plan of nczarr copy. Edit it, then run: nczarr copy SOURCE TARGET --plan {path.name}"]
    for name in (*_TEXTS, *_FLAGS, *_LISTS):
        if name in arguments:
            value = arguments[name]
            if callable(value):
                raise UnsupportedError("--plan cannot hold a function", hint="--preprocess MODULE:FUNCTION")
            lines.append(f"{name} = {_toml(value)}")
    for name in _TABLES:
        if found := arguments.get(name):
            shown = {k: _text_of_range(v) for k, v in found.items()} if name == "select" else found
            lines += ["", f"[{name}]", *(f"{_toml(k)} = {_toml(v)}" for k, v in shown.items())]
    seen = set()
    for v in variables:
        if v.fqn in seen:
            raise UnsupportedError(
                f"--plan: several datasets have the variable {v.fqn}", hint="copy one dataset"
            )
        seen.add(v.fqn)
        lines += ["", f"# {v}", f"[storage.{_toml(v.fqn)}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in v.choices.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
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
    raise UnsupportedError(f"--plan: the selection {chosen!r} has no form as text")


# --- reading


def read_plan(path: Path) -> dict[str, Any]:
    """Return the choices of a plan as keywords of :func:`nczarr.copy`.

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
    places = {keys: f"{path}:{line}" for keys, line in _lines_of(text).items()}

    def refuse(keys: tuple[str, ...], problem: str, hint: str | None = None) -> None:
        place = places.get(keys) or places.get(keys[:-1]) or str(path)
        raise UnsupportedError(f"{'.'.join(keys)}: {problem}", path=place, hint=hint)

    def table(*keys: str, value: object, known: Iterable[str] | None = None) -> Iterable[tuple[str, Any]]:
        if not isinstance(value, dict):
            refuse(keys, "not a table")
        assert isinstance(value, dict)
        for key in value:
            if known is not None and key not in known:
                refuse((*keys, key), "there is no such key in a plan", did_you_mean(key, list(known)))
        return value.items()

    found: dict[str, Any] = {}
    for name, value in table(value=plan, known=(*_KNOWN, "storage")):
        if name in (*_TEXTS, *_FLAGS):
            if not isinstance(value, str if name in _TEXTS else bool):
                refuse((name,), "not text" if name in _TEXTS else "not true or false")
            found[name] = value
        elif name in _LISTS:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                refuse((name,), "not a list of texts")
            found[name] = value
        elif name in _TABLES:
            kind = (int, float) if name == "tolerance" else str
            for key, item in table(name, value=value):
                if not isinstance(item, kind) or isinstance(item, bool):
                    refuse((name, key), "not a number" if name == "tolerance" else "not text")
                with error_context(places.get((name, key), str(path))):
                    chosen = parse_range(item) if name == "select" else item
                found.setdefault(name, {})[Placed.at(key, places.get((name, key)))] = chosen
        else:
            for fqn, own in table(name, value=value):
                for key, item in table(name, fqn, value=own, known=_STORAGE):
                    keys = (name, fqn, key)
                    if key in ("chunks", "shards"):
                        if not isinstance(item, list):
                            refuse(keys, "not a list of lengths")
                    elif not isinstance(item, str):
                        refuse(keys, "not text")
                    found.setdefault(key, {})[Placed.at(fqn, places.get(keys))] = item
    return found


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Return the lines of keys and tables that begin with their name."""
    found: dict[tuple[str, ...], int] = {}
    inside: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        is_table = line.lstrip().startswith("[")
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

"""Describe every public name: modules with their signatures, and the command line with its options.

``python tests/helpers/public_names.py --write`` adds new names to the list that the tests compare with. Names
leave the list only by hand.
"""

from __future__ import annotations

import argparse
import enum
import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

LIST = Path(__file__).parents[1] / "data" / "public_names.json"
FRONTS = [
    "nczarr",
    "nczarr.cdl",
    "nczarr.convert",
    "nczarr.errors",
    "nczarr.mapping",
    "nczarr.model",
    "nczarr.netcdf",
    "nczarr.netcdf4",
    "nczarr.stores",
    "nczarr.zarr",
]
COMMAND = "nczarr (command)"


def default(value: Any) -> str:
    plain = value is None or isinstance(value, str | int | float | bool | tuple | frozenset | enum.Enum)
    return repr(value) if plain else "..."


def is_function(value: Any) -> bool:
    return inspect.isfunction(value) or inspect.ismethod(value) or inspect.isbuiltin(value)


def signature(function: Any) -> list[str]:
    """Return the parameters as ``name``, ``name=default``, ``*name`` or ``**name``; ``*`` precedes keywords."""
    described: list[str] = []
    previous = None
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and previous not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            described.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "")
        value = "" if parameter.default is parameter.empty else "=" + default(parameter.default)
        described.append(stars + parameter.name + value)
        previous = kind
        if kind is parameter.VAR_KEYWORD:
            described += [f"{parameter.name}.{name}" for name in more_names(function, parameter)]
    return described


def more_names(function: Any, parameter: inspect.Parameter) -> list[str]:
    """Return the names of keywords that a ``TypedDict`` declares: ``**more: Unpack[Options]``."""
    found = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
    if found is None:
        return []
    options = inspect.unwrap(function).__globals__[found[1]]
    return sorted(options.__annotations__)  # with those of the bases


def members(cls: type) -> dict[str, Any]:
    """Return the public methods and properties of a class, including those of its bases."""
    found: dict[str, Any] = {}
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or any(name in vars(base) for base in (object, Exception, BaseException)):
            continue
        if isinstance(value, staticmethod | classmethod):
            value = getattr(cls, name)
        found[name] = signature(value) if is_function(value) else "attribute"
    return found


def describe(value: Any) -> Any:
    if inspect.isclass(value):
        try:
            made = signature(value)
        except ValueError:
            made = []
        return {"made of": made, "members": members(value)}
    return signature(value) if is_function(value) else "value"


def front(name: str) -> dict[str, Any]:
    module = import_module(name)
    names = getattr(module, "__all__", None)
    if names is None:
        own = vars(module).items()
        names = [n for n, v in own if getattr(v, "__module__", None) == name and not n.startswith("_")]
    return {each: describe(getattr(module, each)) for each in sorted(names)}


def command_line() -> dict[str, list[str]]:
    """Return the options and arguments of each command."""
    from nczarr.cli.arguments import build_parser

    verbs = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {
        name: sorted(word for a in parser._actions for word in a.option_strings or [a.dest])
        for name, parser in verbs.choices.items()
    }


def described() -> dict[str, Any]:
    return {name: front(name) for name in FRONTS} | {COMMAND: command_line()}


def missing(pinned: Any, now: Any, where: str = "") -> list[str]:
    """Return the entries of the list that the package lacks: names, members, parameters in order, options."""
    if isinstance(pinned, dict):
        if not isinstance(now, dict):
            return [f"{where}: was {sorted(pinned)}, is {now}"]
        return [
            line
            for name, value in pinned.items()
            for line in (
                missing(value, now[name], f"{where}.{name}") if name in now else [f"{where}.{name} is gone"]
            )
        ]
    if isinstance(pinned, list) and isinstance(now, list):
        kept = [each for each in now if each in pinned]
        return [] if kept == pinned else [f"{where}: was ({', '.join(pinned)}), is ({', '.join(now)})"]
    return [] if type(pinned) is type(now) else [f"{where}: was {pinned}, is {now}"]


def with_new(pinned: Any, now: Any) -> Any:
    """Return the list with the new entries."""
    if isinstance(pinned, dict) and isinstance(now, dict):
        return {
            n: with_new(pinned.get(n, now.get(n)), now.get(n, pinned.get(n))) for n in sorted(pinned | now)
        }
    return now if isinstance(pinned, list) and not missing(pinned, now) else pinned


def read() -> Any:
    return json.loads(LIST.read_text("utf-8"))


if __name__ == "__main__":
    if "--write" in sys.argv:
        old = read() if LIST.exists() else {}
        LIST.write_text(json.dumps(with_new(old, described()), indent=1) + "\n", "utf-8")
    print("\n".join(missing(read(), described())) or "nothing is missing")

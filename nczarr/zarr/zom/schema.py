"""Validate models with the JSON schemas of the Zarr Object Model (ZEP 6).

The schemas follow the ZEP's, mended where they do not say what the ZEP says: ``compressor`` and ``filters`` may be
null; ``attributess`` is spelled with two s; the version is ``zarr_format`` in both; data types and codecs may have a
configuration, a bare name or ``must_understand``; dimension names may be null; keys that a reader may ignore are
allowed in version 3.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from nczarr.errors import UnsupportedError
from nczarr.zarr.limits import LIMITS

#: Problems that are listed at most.
MAX_PROBLEMS = 100


@cache
def schema_of(zarr_format: int) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the object model of a Zarr version."""
    text = files("nczarr.zarr.zom").joinpath(f"zom_v{zarr_format}.json").read_text("utf-8")
    result: dict[str, Any] = json.loads(text)
    return result


def _depth(value: Any) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > LIMITS.document_depth:
            break
        if isinstance(item, dict):
            stack.extend((below, depth + 1) for below in item.values())
        elif isinstance(item, list):
            stack.extend((below, depth + 1) for below in item)
    return deepest


def schema_problems(value: Any) -> list[str]:
    """Validate a model in JSON against the schema of its ``zarr_format``.

    Returns
    -------
    list of str
        A sentence with the place for each problem; empty if the value is valid.

    Raises
    ------
    UnsupportedError
        If the package jsonschema is not installed.

    Examples
    --------
    >>> schema_problems({"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {}})
    []
    >>> schema_problems({"zarr_format": 3, "node_type": "group", "members": {}})
    ["$: 'attributes' is a required property"]
    """
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        raise UnsupportedError(
            "validation needs the package jsonschema", hint="pip install jsonschema"
        ) from None
    if _depth(value) > LIMITS.document_depth:
        return [f"$: nested deeper than {LIMITS.document_depth} levels"]
    version = value.get("zarr_format") if isinstance(value, dict) else None
    problems = []
    for error in Draft202012Validator(schema_of(2 if version == 2 else 3)).iter_errors(value):
        message = error.message if len(error.message) <= 200 else error.message[:199] + "…"
        problems.append(f"{error.json_path}: {message}")
        if len(problems) == MAX_PROBLEMS:
            problems.append("and more")
            break
    return problems

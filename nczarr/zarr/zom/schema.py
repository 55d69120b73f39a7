"""Validate models with the JSON schemas of the Zarr Object Model (ZEP 6).

The schemas are those of the ZEP, corrected where they contradict its text: ``compressor`` and ``filters`` may be null;
the misspelt ``attributess`` is ``attributes``; the version is ``zarr_format`` in both; data types and codecs may have a
configuration, a bare name or ``must_understand``; dimension names may be null; version 3 allows keys that a reader may
ignore.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from nczarr.errors import MetadataError, UnsupportedError
from nczarr.zarr.limits import LIMITS

#: The largest number of listed problems.
MAX_PROBLEMS = 100


@cache
def _schema(zarr_format: int) -> dict[str, Any]:
    text = files("nczarr.zarr.zom").joinpath(f"zom_v{zarr_format}.json").read_text("utf-8")
    result: dict[str, Any] = json.loads(text)
    return result


def zom_schema(zarr_format: Literal[2, 3]) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the object model of a Zarr version.

    Examples
    --------
    >>> zom_schema(3)["title"]
    'Zarr Object Model, version 3'
    """
    return json.loads(json.dumps(_schema(zarr_format)))


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


def schema_problems(value: Any, zarr_format: Literal[2, 3] | None = None) -> list[str]:
    """Validate a model in JSON against its schema.

    Parameters
    ----------
    value : JSON
    zarr_format : {2, 3}, optional
        The version of the schema; by default the ``zarr_format`` of the value.

    Returns
    -------
    list of str
        A message with the location for each problem; empty if the value is valid.

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
            "validation requires the package jsonschema", hint="pip install jsonschema"
        ) from None
    if zarr_format is None:
        version = value.get("zarr_format") if isinstance(value, dict) else None
        zarr_format = 2 if version == 2 and version is not True else 3
    if _depth(value) > LIMITS.document_depth:
        return [f"$: nested deeper than {LIMITS.document_depth} levels"]
    problems = []
    for error in Draft202012Validator(_schema(zarr_format)).iter_errors(value):
        message = error.message if len(error.message) <= 200 else error.message[:199] + "…"
        problems.append(f"{error.json_path}: {message}")
        if len(problems) == MAX_PROBLEMS:
            problems.append("and more")
            break
    return problems


def validate_zom(value: Any, zarr_format: Literal[2, 3] | None = None) -> None:
    """Validate a model in JSON; see `schema_problems`.

    Raises
    ------
    MetadataError
        If the model is invalid; the message has all problems.

    Examples
    --------
    >>> validate_zom({"zarr_format": 2, "attributes": {}, "members": {}})
    """
    problems = schema_problems(value, zarr_format)
    if problems:
        raise MetadataError("the object model is invalid: " + "; ".join(problems))

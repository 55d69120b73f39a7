"""Write a dataset as canonical JSON: all of the model and all values, for comparing readers with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczarr.mapping.values.json import scalar_to_json
from nczarr.mapping.values.types import type_name, types_to_json
from nczarr.model import CHAR, Attribute, Dataset, Group, Variable, join_fqn


def canonical(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset as JSON values (``docs/spec/nczarr-v3.md``, *Canonical JSON*).

    Integers beyond 2**53 are text, so that every JSON reader has them exactly.

    Examples
    --------
    >>> canonical(Dataset("d", attributes=(Attribute.of("n", 1),)))["attributes"]
    [{'name': 'n', 'type': 'int64', 'values': [1]}]
    """
    return _group(dataset, dataset, "/")


def _group(dataset: Dataset, group: Group, fqn: str) -> dict[str, Any]:
    result: dict[str, Any] = {"name": "" if fqn == "/" else group.name}
    if fqn == "/":
        result["format"] = dataset.format
    result["types"] = [_exact(t) for t in types_to_json(group.types)]
    result["dimensions"] = [
        {"name": d.name, "size": d.size, "unlimited": d.unlimited} for d in group.dimensions
    ]
    result["attributes"] = [_attribute(a) for a in group.attributes]
    result["variables"] = [_variable(dataset, v) for v in group.variables]
    result["groups"] = [_group(dataset, g, join_fqn(fqn, g.name)) for g in group.groups]
    return result


def _attribute(attribute: Attribute) -> dict[str, Any]:
    return {
        "name": attribute.name,
        "type": type_name(attribute.type),
        "values": _values(attribute.type, attribute.values),
    }


def _variable(dataset: Dataset, variable: Variable) -> dict[str, Any]:
    shape = dataset.shape(variable)
    values: Any = None
    if variable.data is not None:
        read = variable.data.read(tuple(slice(0, n) for n in shape))
        values = _values(variable.type, np.asarray(read, variable.type.dtype).reshape(-1))
    return {
        "name": variable.name,
        "type": type_name(variable.type),
        "dimensions": list(variable.dimensions),
        "shape": list(shape),
        "attributes": [_attribute(a) for a in variable.attributes],
        "values": values,
    }


def _values(type_: Any, values: np.ndarray) -> Any:
    if type_ == CHAR:
        # All chars in one text, a character for each byte.
        return values.tobytes().decode("latin-1")
    return [_exact(scalar_to_json(type_, value)) for value in values]


def _exact(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    if isinstance(value, float):
        # JSON software writes 1.0 as 1 or the other way round; a negative zero would be lost.
        return (
            "-0"
            if value == 0 and np.signbit(value)
            else int(value)
            if value.is_integer() and abs(value) <= 2**53
            else value
        )
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return value

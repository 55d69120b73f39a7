"""Run ``nczarr info``, ``nczarr tree`` and ``nczarr ls``: summarise datasets, draw their trees, list their nodes."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nczarr.cli.opening import storage_options
from nczarr.cli.terminal import can_draw, say, table
from nczarr.convert import open_source
from nczarr.convert.storage import stored_bytes, variable_storage
from nczarr.display import format_bytes, shown_location, visible
from nczarr.formats import kind_of_source
from nczarr.model import Dataset, Group, Variable, describe_type, join_fqn, split_fqn


def run_info(options: argparse.Namespace) -> None:
    """Run ``nczarr info``."""
    found = [describe_dataset(s, storage_options(options), stats=options.stats) for s in options.source]
    if options.json:
        print(json.dumps(found if len(found) > 1 else found[0]))
        return
    for number, one in enumerate(found):
        say(*([""] if number else []), *summary(one))


def run_tree(options: argparse.Namespace) -> None:
    """Run ``nczarr tree``."""
    listed = []
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if options.json:
                listed.append(tree_json(dataset))
                continue
            if len(options.source) > 1:
                say(f"{shown_location(source)}:")
            say(*draw_tree(dataset, lines=can_draw()))
    if options.json:
        print(json.dumps(listed if len(listed) > 1 else listed[0]))


def run_ls(options: argparse.Namespace) -> None:
    """Run ``nczarr ls``."""
    listed: list[dict[str, Any]] = []
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if options.json:
                listed += nodes_json(shown_location(source), dataset)
                continue
            if len(options.source) > 1:
                say(f"{shown_location(source)}:")
            say(*list_nodes(dataset, long=options.long))
    if options.json:
        print(json.dumps(listed))


def describe_dataset(
    source: str, storage_options: Mapping[str, Any] | None = None, *, stats: bool = False
) -> dict[str, Any]:
    """Return the layout, the sizes and the storage of a dataset and its variables as a JSON object."""
    kind = kind_of_source(source)
    found: dict[str, Any] = {"path": shown_location(source), "kind": kind}
    if kind == "zarr":
        from nczarr import mapping

        plain = dict(storage_options) if storage_options else None
        with mapping.open_dataset(source, storage_options=plain) as stored:
            found["layout"] = stored.layout
            found |= _counts(stored.dataset)
            part = stored.reading.part
            if part is not None:
                found["group"] = {"fqn": part.fqn or None, "dataset": part.whole}
            found["stored_bytes"] = _stored_bytes(stored.store) if part is None else stored_bytes(source)
            found["variables"] = [v.to_json() for v in variable_storage(stored.dataset, stats=stats)]
        return found
    with open_source(source, storage_options=storage_options) as dataset:
        found["layout"] = dataset.format or kind
        found |= _counts(dataset)
        found["stored_bytes"] = stored_bytes(source)
        found["variables"] = [v.to_json() for v in variable_storage(dataset, stats=stats)]
    return found


def summary(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of ``nczarr info`` for a result of :func:`describe_dataset`."""
    yield f"path:        {found['path']}"
    yield f"layout:      {found['layout']}"
    if "group" in found:
        fqn, whole = found["group"]["fqn"], found["group"]["dataset"]
        yield f"group:       {fqn or 'unknown FQN'}, of {whole or 'a dataset that is not above it'}"
    if found["origin"]:
        yield f"origin:      {found['origin']}"
    yield f"groups:      {found['groups']}"
    yield f"dimensions:  {found['dimensions']} ({found['unlimited']} unlimited)"
    yield f"types:       {found['types']}"
    yield f"variables:   {len(found['variables'])}"
    yield f"values:      {format_bytes(found['value_bytes'])}"
    if found["stored_bytes"] is not None:
        yield f"stored:      {format_bytes(found['stored_bytes'])}"
    if found["variables"]:
        yield ""
        yield from _variable_table(found["variables"])


def _variable_table(variables: list[dict[str, Any]]) -> list[str]:
    head = ["variable", "type", "shape", "chunks", "shards", "codecs", "stored", "ratio", "chunks stored"]
    stats = any(v["missing"] is not None for v in variables)
    head += ["least", "greatest", "missing"] if stats else []
    rows = []
    for v in variables:
        row = [v["fqn"], v["type"].split(" {")[0], *(_sizes(v[k]) for k in ("shape", "chunks", "shards"))]
        row.append(" ".join(c for c in v["codecs"] if c != "bytes"))
        row.append("" if v["stored_bytes"] is None else format_bytes(v["stored_bytes"]))
        row.append("" if v["ratio"] is None else f"{v['ratio']:.1f}")
        row.append("" if v["objects_stored"] is None else f"{v['objects_stored']} of {v['objects']}")
        if stats:
            row += ["" if v[k] is None else f"{v[k]:.6g}" for k in ("minimum", "maximum")]
            row.append("" if v["missing"] is None else str(v["missing"]))
        rows.append(row)
    used = [i for i in range(len(head)) if i < 3 or any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return table([head[i] for i in used], shown, right=[k for k, i in enumerate(used) if i >= 6])


def _sizes(shape: Any) -> str:
    return "" if not shape else "x".join(map(str, shape))


def _stored_bytes(store: Any) -> int | None:
    root = getattr(store, "root", None)
    return None if root is None else stored_bytes(root)


def _counts(dataset: Dataset) -> dict[str, Any]:
    return {
        "origin": dataset.format,
        "groups": len(dataset.all_groups) - 1,
        "dimensions": len(dataset.all_dimensions),
        "unlimited": sum(d.unlimited for d in dataset.all_dimensions.values()),
        "types": len(dataset.all_types),
        "value_bytes": sum(
            math.prod(dataset.shape(v)) * (v.type.dtype.itemsize if v.type.is_fixed_size else 0)
            for v in dataset.all_variables.values()
        ),
    }


def list_nodes(dataset: Dataset, *, long: bool = False) -> Iterator[str]:
    """Yield the lines of ``nczarr ls``: the FQN of every group and variable, `long` adds types and shapes."""
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield f"{fqn}/"
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            shape = _sizes(dataset.shape(variable)) or "-"
            yield f"{variable.type.name:10} {shape:20} {at}" if long else at


def nodes_json(source: str, dataset: Dataset) -> list[dict[str, Any]]:
    """Return the output of ``nczarr ls --json``: an object for every group and variable."""
    nodes: list[dict[str, Any]] = []
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            nodes.append({"source": source, "fqn": fqn, "node": "group"})
        for variable in group.variables:
            nodes.append(
                {
                    "source": source,
                    "fqn": join_fqn(fqn, variable.name),
                    "node": "variable",
                    "type": variable.type.name,
                    "shape": list(dataset.shape(variable)),
                }
            )
    return nodes


def tree_json(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset's groups, dimensions, types and variables as a JSON object."""

    def inside(group: Group) -> dict[str, Any]:
        return {
            "name": group.name,
            "dimensions": [
                {"name": d.name, "size": d.size, "unlimited": d.unlimited} for d in group.dimensions
            ],
            "types": [describe_type(t) for t in group.types],
            "variables": [
                {
                    "name": v.name,
                    "type": v.type.name,
                    "dimensions": list(v.dimensions),
                    "shape": list(dataset.shape(v)),
                    "attributes": [a.name for a in v.attributes],
                }
                for v in group.variables
            ],
            "attributes": [a.name for a in group.attributes],
            "groups": [inside(child) for child in group.groups],
        }

    return inside(dataset)


_LINES = ("├── ", "└── ", "│   ")
_ASCII = ("|-- ", "`-- ", "|   ")


def draw_tree(dataset: Dataset, *, lines: bool = True) -> Iterator[str]:
    """Yield the lines of ``nczarr tree``; use ASCII characters only if `lines` is false.

    Examples
    --------
    >>> from nczarr.model import Dimension, INT
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> print(*draw_tree(d), sep="\\n")
    /
    └── int v(x = 2)
    """
    yield "/"
    yield from _branches(dataset, dataset, "/", "", _LINES if lines else _ASCII)


def _branches(
    dataset: Dataset, group: Group, fqn: str, indent: str, marks: tuple[str, str, str]
) -> Iterator[str]:
    children: list[Variable | Group] = [*group.variables, *group.groups]
    for number, child in enumerate(children, 1):
        last = number == len(children)
        yield indent + marks[last] + visible(_label(dataset, child))
        if isinstance(child, Group):
            deeper = indent + ("    " if last else marks[2])
            yield from _branches(dataset, child, join_fqn(fqn, child.name), deeper, marks)


def _label(dataset: Dataset, node: Variable | Group) -> str:
    if isinstance(node, Group):
        return f"{node.name}/"
    sizes = []
    for ref in node.dimensions:
        if isinstance(ref, int):
            sizes.append(str(ref))
            continue
        dimension = dataset.dimension_at(ref)
        mark = "*" if dimension.unlimited else ""
        sizes.append(f"{split_fqn(ref)[1]} = {dimension.size}{mark}")
    inside = f"({', '.join(sizes)})" if sizes else ""
    return f"{node.type.name} {node.name}{inside}"

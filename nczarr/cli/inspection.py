"""Run ``nczarr info``, ``nczarr tree`` and ``nczarr ls``: summarise datasets, draw their trees, list their nodes."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nczarr.cli.options import SOURCE, define, option, storage_options
from nczarr.cli.terminal import can_draw, say, table
from nczarr.convert import open_source
from nczarr.convert.storage import StoredObjects, VariableStorage, stored_objects, variable_storage
from nczarr.display import format_bytes, shown_location, visible
from nczarr.formats import kind_of_source
from nczarr.model import Dataset, Group, Variable, describe_type, join_fqn, split_fqn


def define_info(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr info``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "--stats", "read all values, and print minimum, maximum and missing values")
    option(parser, "--json", "print JSON")
    define(
        parser,
        run_info,
        "  nczarr info run42.zarr\n  nczarr info --stats run42.nc       with minimum and maximum values\n"
        "  nczarr info --json s3://bucket/run42.zarr\n",
        "table",
    )


def define_tree(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr tree``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "--json", "print JSON")
    define(parser, run_tree, "  nczarr tree run42.zarr\n  nczarr tree --json run42.nc\n", "tree")


def define_ls(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr ls``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "-l --long", "also print types and shapes")
    option(parser, "--json", "print a JSON list")
    examples = "  nczarr ls run42.zarr\n  nczarr ls -l run42.zarr            with types and shapes\n"
    define(parser, run_ls, examples, "names")


def run_info(options: argparse.Namespace) -> None:
    """Run ``nczarr info``."""
    found = [describe_dataset(s, storage_options(options), stats=options.stats) for s in options.source]
    if options.json:
        listed = [one.to_json() for one in found]
        print(json.dumps(listed if len(listed) > 1 else listed[0]))
        return
    for number, one in enumerate(found):
        say(*([""] if number else []), *one.summary())


def run_tree(options: argparse.Namespace) -> None:
    """Run ``nczarr tree``."""
    listed = []
    for dataset in _opened(options):
        if options.json:
            listed.append(tree_json(dataset))
        else:
            say(*draw_tree(dataset, lines=can_draw()))
    if options.json:
        print(json.dumps(listed if len(listed) > 1 else listed[0]))


def run_ls(options: argparse.Namespace) -> None:
    """Run ``nczarr ls``."""
    listed: list[dict[str, object]] = []
    for source, dataset in zip(options.source, _opened(options), strict=False):
        if options.json:
            listed += nodes_json(shown_location(source), dataset)
        else:
            say(*list_nodes(dataset, long=options.long))
    if options.json:
        print(json.dumps(listed))


def _opened(options: argparse.Namespace) -> Iterator[Dataset]:
    """Open the sources one after the other; print a heading for each of several."""
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if len(options.source) > 1 and not options.json:
                say(f"{shown_location(source)}:")
            yield dataset


@dataclass(frozen=True)
class Description:
    """The layout, the sizes and the storage of a dataset.

    Attributes
    ----------
    group : mapping, optional
        For a group of a Zarr dataset: its FQN, and the location of the dataset.
    counts : mapping
        The number of nodes of each kind.
    """

    path: str
    kind: str
    layout: str
    origin: str | None
    counts: Mapping[str, int]
    value_bytes: int
    group: Mapping[str, str | None] | None
    stored: StoredObjects | None
    variables: Sequence[VariableStorage]

    def to_json(self) -> dict[str, object]:
        """Return the description as a JSON object."""
        return {
            "path": self.path,
            "kind": self.kind,
            "layout": self.layout,
            "origin": self.origin,
            **self.counts,
            "value_bytes": self.value_bytes,
            **({} if self.group is None else {"group": self.group}),
            "stored_bytes": None if self.stored is None else self.stored.bytes,
            **({} if self.stored is None else self.stored.to_json()),
            "variables": [v.to_json() for v in self.variables],
        }

    def summary(self) -> Iterator[str]:
        """Yield the lines of ``nczarr info``."""
        yield f"path:        {self.path}"
        yield f"layout:      {self.layout}"
        if self.group is not None:
            fqn, whole = self.group["fqn"], self.group["dataset"]
            yield f"group:       {fqn or 'unknown FQN'}, of {whole or 'a dataset that is not above it'}"
        if self.origin:
            yield f"origin:      {self.origin}"
        yield f"groups:      {self.counts['groups']}"
        yield f"dimensions:  {self.counts['dimensions']} ({self.counts['unlimited']} unlimited)"
        yield f"types:       {self.counts['types']}"
        yield f"variables:   {len(self.variables)}"
        yield f"values:      {format_bytes(self.value_bytes)}"
        if self.stored is not None:
            objects = str(self.stored)
            yield f"stored:      {format_bytes(self.stored.bytes)}{objects and f' ({objects})'}"
            if self.stored.hint:
                yield f"hint:        {self.stored.hint}"
        if self.variables:
            yield ""
            yield from _variable_table(self.variables)


def describe_dataset(
    source: str, storage_options: Mapping[str, object] | None = None, *, stats: bool = False
) -> Description:
    """Describe a dataset; with `stats`, read all values."""
    kind = kind_of_source(source)

    def described(
        dataset: Dataset, layout: str, group: Mapping[str, str | None] | None, size: StoredObjects | None
    ) -> Description:
        dimensions, variables = dataset.all_dimensions, dataset.all_variables
        counts = {
            "groups": len(dataset.all_groups) - 1,
            "dimensions": len(dimensions),
            "unlimited": sum(d.unlimited for d in dimensions.values()),
            "types": len(dataset.all_types),
        }
        value_bytes = sum(
            math.prod(dataset.shape(v)) * v.type.dtype.itemsize
            for v in variables.values()
            if v.type.is_fixed_size
        )
        found = list(variable_storage(dataset, stats=stats))
        path = shown_location(source)
        return Description(path, kind, layout, dataset.format, counts, value_bytes, group, size, found)

    if kind != "zarr":
        with open_source(source, storage_options=storage_options) as dataset:
            return described(dataset, dataset.format or kind, None, stored_objects(source))
    from nczarr import mapping

    plain = dict(storage_options) if storage_options else None
    with mapping.open_dataset(source, storage_options=plain) as stored:
        part = stored.reading.part
        if part is not None:
            group = {"fqn": part.fqn or None, "dataset": part.whole}
            return described(stored.dataset, stored.layout, group, stored_objects(source))
        root = getattr(stored.store, "root", None)
        size = None if root is None else stored_objects(root)
        return described(stored.dataset, stored.layout, None, size)


def _variable_table(variables: Sequence[VariableStorage]) -> list[str]:
    head = ["variable", "type", "shape", "chunks", "shards", "codecs", "stored", "ratio", "chunks stored"]
    stats = any(v.missing is not None for v in variables)
    head += ["least", "greatest", "missing"] if stats else []
    rows = []
    for v in variables:
        row = [v.fqn, v.type.split(" {")[0], *map(_sizes, (v.shape, v.chunks, v.shards))]
        row.append(" ".join(c for c in v.codecs if c != "bytes"))
        row.append("" if v.stored_bytes is None else format_bytes(v.stored_bytes))
        row.append("" if v.ratio is None else f"{v.ratio:.1f}")
        row.append("" if v.objects_stored is None else f"{v.objects_stored} of {v.objects}")
        if stats:
            row += ["" if limit is None else f"{limit:.6g}" for limit in (v.minimum, v.maximum)]
            row.append("" if v.missing is None else str(v.missing))
        rows.append(row)
    used = [i for i in range(len(head)) if i < 3 or any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return table([head[i] for i in used], shown, right=[k for k, i in enumerate(used) if i >= 6])


def _sizes(shape: Sequence[int] | None) -> str:
    return "x".join(map(str, shape)) if shape else ""


def list_nodes(dataset: Dataset, *, long: bool = False) -> Iterator[str]:
    """Yield the lines of ``nczarr ls``: the FQN of every group and variable, `long` adds types and shapes."""
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield f"{fqn}/"
        for variable in group.variables:
            at = join_fqn(fqn, variable.name)
            shape = _sizes(dataset.shape(variable)) or "-"
            yield f"{variable.type.name:10} {shape:20} {at}" if long else at


def nodes_json(source: str, dataset: Dataset) -> Iterator[dict[str, object]]:
    """Yield the items of ``nczarr ls --json``: an object for every group and variable."""
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield {"source": source, "fqn": fqn, "node": "group"}
        for variable in group.variables:
            node = {"source": source, "fqn": join_fqn(fqn, variable.name), "node": "variable"}
            yield {**node, "type": variable.type.name, "shape": list(dataset.shape(variable))}


def tree_json(dataset: Dataset) -> dict[str, object]:
    """Return a dataset's groups, dimensions, types and variables as a JSON object."""

    def inside(group: Group) -> dict[str, object]:
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
                    "shards": v.storage.shard_shape,
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
    marks = _LINES if lines else _ASCII

    def branches(group: Group, indent: str) -> Iterator[str]:
        children: list[Variable | Group] = [*group.variables, *group.groups]
        for number, child in enumerate(children, 1):
            last = number == len(children)
            yield indent + marks[last] + visible(_label(dataset, child))
            if isinstance(child, Group):
                yield from branches(child, indent + ("    " if last else marks[2]))

    yield "/"
    yield from branches(dataset, "")


def _label(dataset: Dataset, node: Variable | Group) -> str:
    if isinstance(node, Group):
        return f"{node.name}/"
    sizes = []
    for ref in node.dimensions:
        if isinstance(ref, int):
            sizes.append(str(ref))
            continue
        dimension = dataset.dimension_at(ref)
        sizes.append(f"{split_fqn(ref)[1]} = {dimension.size}{'*' if dimension.unlimited else ''}")
    inside = f"({', '.join(sizes)})" if sizes else ""
    shards = node.storage.shard_shape
    return f"{node.type.name} {node.name}{inside}{f' in shards of {_sizes(shards)}' if shards else ''}"

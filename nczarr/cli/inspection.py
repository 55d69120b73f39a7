"""Summarise a dataset and draw its tree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from nczarr.convert import open_source
from nczarr.formats import kind_of_source
from nczarr.model import Dataset, Group, Variable, join_fqn, split_fqn


def format_bytes(count: int) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> format_bytes(1536), format_bytes(12)
    ('1.5 KiB', '12 B')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def describe_dataset(source: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the lines of ``nczarr info``: what it is, how much it holds, how much of it is stored."""
    kind = kind_of_source(source)
    if kind == "zarr":
        from nczarr import mapping

        plain = dict(storage_options) if storage_options else None
        with mapping.open_dataset(source, storage_options=plain) as stored:
            yield f"path:        {source}"
            yield f"layout:      {stored.layout}"
            yield from _counts(stored.dataset)
            sizes = _stored_bytes(stored.store)
            if sizes is not None:
                yield f"stored:      {format_bytes(sizes)}"
        return
    with open_source(source, storage_options=storage_options) as dataset:
        yield f"path:        {source}"
        yield f"layout:      {dataset.format or kind}"
        yield from _counts(dataset)


def _stored_bytes(store: Any) -> int | None:
    root = getattr(store, "root", None)
    if root is None or not root.is_dir():
        return None
    return sum(f.stat().st_size for f in root.rglob("*") if f.is_file())


def _counts(dataset: Dataset) -> Iterator[str]:
    values = sum(
        math.prod(dataset.shape(v)) * (v.type.dtype.itemsize if v.type.is_fixed_size else 0)
        for v in dataset.all_variables.values()
    )
    if dataset.format:
        yield f"origin:      {dataset.format}"
    yield f"groups:      {len(dataset.all_groups) - 1}"
    unlimited = sum(d.unlimited for d in dataset.all_dimensions.values())
    yield f"dimensions:  {len(dataset.all_dimensions)} ({unlimited} unlimited)"
    yield f"types:       {len(dataset.all_types)}"
    yield f"variables:   {len(dataset.all_variables)}"
    yield f"values:      {format_bytes(values)}"


def draw_tree(dataset: Dataset) -> Iterator[str]:
    """Yield the lines of ``nczarr tree``.

    Examples
    --------
    >>> from nczarr.model import Dimension, INT
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> print(*draw_tree(d), sep="\\n")
    /
    └── int v(x = 2)
    """
    yield "/"
    yield from _branches(dataset, dataset, "/", "")


def _branches(dataset: Dataset, group: Group, fqn: str, indent: str) -> Iterator[str]:
    children: list[Variable | Group] = [*group.variables, *group.groups]
    for number, child in enumerate(children, 1):
        last = number == len(children)
        yield indent + ("└── " if last else "├── ") + _label(dataset, child)
        if isinstance(child, Group):
            deeper = indent + ("    " if last else "│   ")
            yield from _branches(dataset, child, join_fqn(fqn, child.name), deeper)


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

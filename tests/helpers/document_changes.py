"""Generate changes that other programs may make to the documents of a hierarchy, for Hypothesis."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["changes"]

Documents = dict[str, Any]


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [at] if at else []
    for key, item in items:
        found += paths_of(item, (*at, key))
    return found


@st.composite
def changes(draw: st.DrawFn, good: Documents) -> Documents:
    """Return documents with nodes that are deleted, renamed and edited at random."""
    changed = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.sampled_from(sorted(changed)))
        kind = draw(st.sampled_from(("delete", "rename", "reorder", "edit", "edit", "remove", "shape")))
        if kind == "delete" and key != "zarr.json":
            base = key.removesuffix("zarr.json")
            for other in [k for k in changed if k.startswith(base)]:
                del changed[other]
        elif kind == "rename" and key != "zarr.json":
            base = key.removesuffix("/zarr.json")
            above = base.rpartition("/")[0]
            new = f"{above}/renamed".strip("/")
            if f"{new}/zarr.json" in changed:
                continue
            for other in [k for k in changed if k.startswith(base + "/")]:
                changed[new + other[len(base) :]] = changed.pop(other)
        elif kind == "reorder":
            changed[key] = json.loads(json.dumps(changed[key], sort_keys=True))
        elif kind == "shape" and changed[key]["node_type"] == "array":
            lengths = changed[key]["shape"]
            if lengths:
                lengths[0] = draw(st.integers(0, 8))
        else:
            inside = ("attributes", "nczarr", "dimension_names")
            places = [p for p in paths_of(changed[key]) if p[0] in inside and p != ("attributes",)]
            if not places:
                continue
            *above, last = draw(st.sampled_from(places))
            parent = changed[key]
            for step in above:
                parent = parent[step]
            if kind == "remove":
                del parent[last]
            else:
                parent[last] = draw(st.sampled_from((None, 7, 1.5, "text", [], {}, ["/t"], "/pair", True)))
    return changed

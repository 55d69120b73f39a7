"""List the dialects that nczarr knows, in the order in which reading tries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nczarr.errors import UnsupportedError
from nczarr.mapping import nczarr2, nczarr3, plain
from nczarr.mapping.dataset.stored import StoredDataset
from nczarr.mapping.dialect import Dialect, Known, Plan, Reading
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.scalars import JSONObject
from nczarr.model import Dataset
from nczarr.system.environment import limit
from nczarr.zarr import GroupMetadata, Hierarchy
from nczarr.zarr.hierarchy.layouts import V2Layout


@dataclass(frozen=True)
class _Dialect:
    """A dialect made of three functions; see :class:`nczarr.mapping.dialect.Dialect`."""

    name: str
    zarr_layout: str
    #: The engine's layouts that the dialect reads.
    read_from: frozenset[str]
    recognise: Callable[[Hierarchy], bool]
    reader: Callable[[Hierarchy, str], Reading]
    planner: Callable[[Dataset, WriteOptions, NodeNames, Known | None], Plan]

    @property
    def is_plain(self) -> bool:
        return self.name in ("zarr-v2", "zarr-v3")

    @property
    def is_complete(self) -> bool:
        return self.name == "nczarr-v3"

    def can_read(self, hierarchy: Hierarchy) -> bool:
        return hierarchy.layout in self.read_from and self.recognise(hierarchy)

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        most = limit("NCZARR_MAX_DEPTH")
        deepest = max(hierarchy.nodes, key=lambda path: path.count("/"))
        if deepest.count("/") + (not hierarchy.is_array(deepest)) > most:
            raise UnsupportedError(
                f"groups are nested more than {most} levels deep: {deepest[:60]}…",
                path=hierarchy.store.url,
                hint="the setting NCZARR_MAX_DEPTH allows more",
            )
        return self.reader(hierarchy, name)

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        return self.planner(dataset, options, names, known)


_V3 = frozenset({"v3"})
_V2 = frozenset({"v2"})
_DRAFTS = frozenset({"draft-2019", "experimental-v3"})

# The lambdas load the modules of a dialect on first use; most dialects are never loaded.
DIALECTS: tuple[Dialect, ...] = (
    _Dialect(
        "nczarr-v3", "v3", _V3,
        lambda hierarchy: nczarr3.is_nczarr_v3(hierarchy),
        lambda hierarchy, name: nczarr3.read_nczarr_v3(hierarchy, name),
        lambda *model: nczarr3.plan_nczarr_v3(*model),
    ),
    _Dialect(
        "nczarr-v2", "v2", _V2,
        lambda hierarchy: not hierarchy.is_array("") and nczarr2.find_version(hierarchy) is not None,
        lambda hierarchy, name: nczarr2.read_nczarr_v2(hierarchy, name),
        lambda *model: nczarr2.plan_nczarr_v2(*model),
    ),
    _Dialect(
        "draft-2019", "draft-2019", _DRAFTS,
        lambda hierarchy: nczarr3.is_nczarr_v3(hierarchy),
        lambda hierarchy, name: nczarr3.read_nczarr_v3(hierarchy, name),
        lambda *model: nczarr3.plan_draft_2019(*model),
    ),
    _Dialect(
        "zarr-v2", "v2", _V2,
        lambda hierarchy: True,
        lambda hierarchy, name: plain.read_plain(hierarchy, name),
        lambda *model: plain.plan_plain_v2(*model),
    ),
    _Dialect(
        "zarr-v3", "v3", _V3 | _DRAFTS,
        lambda hierarchy: True,
        lambda hierarchy, name: plain.read_plain(hierarchy, name),
        lambda *model: plain.plan_plain_v3(*model),
    ),
)  # fmt: skip


def dialect_of(hierarchy: Hierarchy) -> Dialect:
    """Return the dialect that can read a hierarchy; raise UnsupportedError if there is none."""
    for dialect in DIALECTS:
        if dialect.can_read(hierarchy):
            return dialect
    message = f"nczarr has no reader for the Zarr layout {hierarchy.layout!r}"
    raise UnsupportedError(message, path=hierarchy.store.url)


def dialect_named(name: str) -> Dialect:
    """Return the dialect with a name; raise UnsupportedError if there is none.

    Examples
    --------
    >>> dialect_named("nczarr-v3").zarr_layout
    'v3'
    """
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    known = ", ".join(dialect.name for dialect in DIALECTS)
    raise UnsupportedError(f"the layout {name!r} cannot be written", hint=f"supported are {known}")


def may_be_group(hierarchy: Hierarchy, dialect: Dialect) -> bool:
    """Return whether a hierarchy has NCZarr's keys without a superblock, which the root of a dataset has.

    Examples
    --------
    >>> from nczarr.stores import MemoryStore
    >>> from nczarr.zarr import create_hierarchy
    >>> hierarchy = create_hierarchy(MemoryStore(), attributes={"_nczarr_group": {"groups": []}})
    >>> may_be_group(hierarchy, dialect_of(hierarchy))
    True
    """
    root = hierarchy.nodes[""]
    if not isinstance(root, GroupMetadata):
        return False
    if dialect.name == "nczarr-v3":
        key = nczarr3.SUPERBLOCK_KEY
        return key not in root.attributes and key not in nczarr3.group_keys(root)[0]
    if dialect.name == "zarr-v2":
        keys = (nczarr3.GROUP_KEY, nczarr3.GROUP_KEY.upper())
        return any(key in place for key in keys for place in (root.attributes, root.extra))
    return False


def documents_v2(stored: StoredDataset) -> dict[str, JSONObject]:
    """Return plain documents of Zarr v2 by key, without content that v2 cannot represent.

    The dataset must have been written with the option `chunk_keys` of v2, and codecs that v2 has.
    """
    options = replace(stored.options, layout="zarr-v2", lossy=True, manifest=False)
    plan = dialect_named("zarr-v2").plan(stored.dataset, options, stored.names)
    layout = V2Layout(stored.hierarchy.store)
    return {k: d for path, node in plan.nodes.items() for k, d in layout.documents(path, node).items()}

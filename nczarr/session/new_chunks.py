"""Choose the chunks of new variables of a Zarr dataset together, when they are stored or when a program asks."""

from __future__ import annotations

from collections.abc import Sequence

from nczarr.model import Storage, Type, join_fqn
from nczarr.model.common_chunks import ChunkWish, common_chunks
from nczarr.session.tree import DimensionNode, GroupNode, VariableNode
from nczarr.transfer import value_bytes

#: The FQN of a variable that does not exist yet: no name ends with a blank.
_NEW = join_fqn("/", " ")


def choose_chunks(root: GroupNode) -> None:
    """Choose the chunks of all variables without chunks. The caller holds the tree's lock.

    Those of stored variables, and those that a program has requested, set the lengths along their dimensions.
    """
    if all(_chunks_of(node) is not None for node in root.walk_variables() if node.dimensions):
        return
    wishes = _wishes(root)
    chosen = common_chunks([wish for _, wish in wishes]).shapes
    for node, wish in wishes:
        storage, chunks = node.storage, chosen[wish.fqn]
        if _chunks_of(node) is not None:
            continue
        named = chunks if storage.layout == "chunked" else None
        shards = storage.shard_shape
        if shards is None and not root.tree.rules.restrictions.without_shards:
            shards = wish.shards(chunks)
        node.storage = storage.with_chunks(named, chunks, shards)
        node.touch()


def chunks_beside(root: GroupNode, type_: Type, dimensions: Sequence[DimensionNode]) -> tuple[int, ...]:
    """Return the chunk shape of one more variable. The caller holds the tree's lock."""
    wishes = [*(wish for _, wish in _wishes(root)), _wish(_NEW, type_, dimensions, None)]
    return common_chunks(wishes).shapes[_NEW]


def _wishes(root: GroupNode) -> list[tuple[VariableNode, ChunkWish]]:
    """Return the wishes of the variables without chunks, and one for all others with the same chunks and dimensions.

    A program that asks for the chunks of each of many new variables would otherwise compare each with all. Variables of
    the same type and dimensions share a wish, under the name of the first.
    """
    found: list[tuple[VariableNode, ChunkWish]] = []
    known: dict[tuple[object, ...], ChunkWish] = {}
    for node in root.walk_variables():
        dimensions, chunks = node.dimensions, _chunks_of(node)
        if not dimensions:
            continue
        is_index = len(dimensions) == 1 and node.name == dimensions[0].name
        # Compared with each other, 800 new variables took 5.5 s, now 0.35.
        key = (dimensions, chunks, node.type.dtype, is_index)
        wish = known.get(key)
        if wish is None:
            wish = known[key] = _wish(node.fqn, node.type, dimensions, chunks)
        elif chunks is not None:
            continue
        found.append((node, wish))
    return found


def _wish(
    fqn: str, type_: Type, dimensions: Sequence[DimensionNode], chunks: tuple[int, ...] | None
) -> ChunkWish:
    return ChunkWish.of(
        fqn,
        [d.ref for d in dimensions],
        [0 if d.unlimited else d.size for d in dimensions],  # a new variable is going to grow
        [d.unlimited for d in dimensions],
        value_bytes(type_.dtype),
        chunks,
    )


def _chunks_of(node: VariableNode) -> tuple[int, ...] | None:
    """Return the chunks that are stored or requested; None if they are still to be chosen."""
    storage: Storage = node.storage
    chunks = storage.array_chunks or storage.chunk_shape
    if chunks is None and node.stored_as is not None and node.source is not None:
        return node.source.chunk_shape
    return chunks

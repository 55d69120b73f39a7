"""Describe how a netCDF model lies on a Zarr hierarchy, and the protocol of a dialect.

A dialect is one way to put the model on Zarr: NCZarr on v3, NCZarr on v2, plain Zarr, … Each is a small class
with three methods. Reading gives the model and, for each variable and group, where it is (a :class:`Reading`).
Writing is a pure function from the model to documents (a :class:`Plan`); changing a dataset is the difference
of two plans (:mod:`nczarr.mapping.rewriting.update`).

To add a dialect, write the class and name it in :data:`nczarr.mapping.dataset.dialects.DIALECTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nczarr.mapping.findings import Finding
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import Dataset, Dimension, join_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy
from nczarr.zarr.grids import ChunkGrid


@dataclass(frozen=True)
class Binding:
    """Where a variable's values are: the path of the array, and how it holds them."""

    path: str
    encoding: Encoding


@dataclass(frozen=True)
class Part:
    """A group of a dataset, where it is opened instead of the dataset.

    Parameters
    ----------
    fqn : str
        The FQN of the group in the dataset; empty if it is not known.
    whole : str or None
        The place of the dataset; None if it is not to be found.
    """

    fqn: str
    whole: str | None = None


@dataclass(frozen=True)
class Reading:
    """What a dialect found in a hierarchy.

    Parameters
    ----------
    dataset : Dataset
        The model; the variables' data are not bound.
    variables : mapping
        Where each variable is, by FQN.
    groups : mapping
        The path of each group, by FQN.
    losses : tuple of str
        What the hierarchy says and the model cannot; one sentence each.
    findings : tuple of Finding
        What is not as it should be, and what it was taken for.
    guessed : frozenset of str
        Dimensions that were made up because arrays contradict each other, by FQN.
    identity : str or None
        The identity of the dataset, where the dialect has one.
    foreign : frozenset of str
        The paths of groups and arrays that belong to another dataset; their documents are not this dataset's to change.
    part : Part or None
        The group that this is of a dataset; None for a dataset.
    """

    dataset: Dataset
    variables: Mapping[str, Binding]
    groups: Mapping[str, str]
    losses: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    guessed: frozenset[str] = frozenset()
    identity: str | None = None
    foreign: frozenset[str] = frozenset()
    part: Part | None = None


def left_out_nodes(unknown: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each node that cannot be opened, from :meth:`Hierarchy.unknown_nodes`.

    A group that is left out takes along the nodes below it; the sentence counts them.

    Examples
    --------
    >>> left_out_nodes({"v": "data_type: the data type 'int4' is not known"})
    ("'v' is left out: data_type: the data type 'int4' is not known",)
    """
    sentences = []
    for path, reason in unknown.items():
        if path.rpartition("/")[0] not in unknown:
            below = sum(other.startswith(f"{path}/") for other in unknown)
            inside = f", with {below} node{'s' if below > 1 else ''} below it" if below else ""
            sentences.append(f"{path!r} is left out{inside}: {reason}")
    return tuple(sentences)


def own_dimension(group: str, dimension: Dimension, length: int, known: Mapping[str, Dimension]) -> str:
    """Return the FQN of the dimension of arrays in `group` that are as long as no others of `dimension` are.

    One of this name and length that is known was made when the dataset was changed in this state before.

    Examples
    --------
    >>> own_dimension("/", Dimension("x", 4), 5, {"/x": Dimension("x", 4), "/x_5": Dimension("x_5", 7)})
    '/x_5_2'
    """
    wanted = name = f"{dimension.name}_{length}"
    number = 2
    while known.get(own := join_fqn(group, name), Dimension(name, length)) != Dimension(name, length):
        name, number = f"{wanted}_{number}", number + 1
    return own


@dataclass(frozen=True)
class Plan:
    """The documents that a dialect writes for a model, parents before children; otherwise as :class:`Reading`.

    `dataset` is what is held of the model; None if all of it is. `identity` is as in :class:`Reading`.
    """

    nodes: dict[str, ArrayMetadata | GroupMetadata]
    variables: dict[str, Binding]
    groups: dict[str, str]
    losses: tuple[str, ...] = ()
    dataset: Dataset | None = None
    identity: str | None = None


@dataclass(frozen=True)
class Known:
    """What exists already and stays where it is, when a dataset is changed.

    Parameters
    ----------
    nodes : mapping
        Node names by (group FQN, kind, name); the kind is ``"array"`` or ``"group"``.
    arrays : mapping
        Metadata and bindings of variables that did not change at all, by FQN.
    fixed : frozenset of str
        Those among them that stay as they are even where the dialect has another form now.
    encodings : mapping
        How the values of variables are held that stay, by FQN: with what else changes they keep that form.
    grids : mapping
        The chunk grids of their arrays, by FQN. The storage of a variable may name other chunks, those of its source.
    identity : str or None
        The identity of the dataset; None: it is new.
    """

    nodes: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    arrays: Mapping[str, tuple[ArrayMetadata, Binding]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    grids: Mapping[str, ChunkGrid] = field(default_factory=dict)
    identity: str | None = None


class Dialect(Protocol):
    """One way to put the model on Zarr."""

    @property
    def name(self) -> str:
        """As in :attr:`WriteOptions.layout`."""

    @property
    def zarr_layout(self) -> str:
        """The engine's name of the Zarr version: ``v3``, ``v2``, ``draft-2019``, …"""

    @property
    def is_plain(self) -> bool:
        """True for Zarr without NCZarr's keys, whose documents belong to other programs as well."""

    def can_read(self, hierarchy: Hierarchy) -> bool:
        """True if the hierarchy is of this dialect."""

    def read(self, hierarchy: Hierarchy, name: str) -> Reading:
        """Read the model; `name` becomes the name of the dataset.

        Raises
        ------
        MetadataError
            With the path of the document, if it is damaged.
        """

    def plan(
        self, dataset: Dataset, options: WriteOptions, names: NodeNames, known: Known | None = None
    ) -> Plan:
        """Make the documents for a model.

        Parameters
        ----------
        dataset : Dataset
            Resolved: see :func:`nczarr.model.resolve`.
        options : WriteOptions
        names : NodeNames
            Gives node names that the store can keep.
        known : Known, optional
            What exists already.

        Raises
        ------
        UnsupportedError, LossError
            If the dialect cannot hold the model.
        """

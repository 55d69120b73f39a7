"""Define a dialect, and the mapping of a netCDF model onto a Zarr hierarchy.

A dialect is one way to map the model onto Zarr: NCZarr on v3, NCZarr on v2, plain Zarr, … Reading returns the model and
the place of each variable and group (a :class:`Reading`). Writing is a pure function from the model to documents (a
:class:`Plan`); changing a dataset is the difference of two plans (:mod:`nczarr.mapping.dataset.update`).

To add a dialect, write its functions and add it to :data:`nczarr.mapping.dataset.open.DIALECTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from nczarr.dataclass import dataclass
from nczarr.mapping.findings import Finding
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.values.encodings import Encoding
from nczarr.model import Dataset, Dimension, join_fqn
from nczarr.zarr import ArrayMetadata, GroupMetadata, Hierarchy

Metadata = ArrayMetadata | GroupMetadata


@dataclass(frozen=True)
class Binding:
    """The place of a variable's values: the path of the array, and its encoding."""

    path: str
    encoding: Encoding


@dataclass(frozen=True)
class OpenedGroup:
    """A group that is opened instead of its dataset.

    Parameters
    ----------
    fqn : str
        The FQN of the group in the dataset; empty if it is unknown.
    whole : str or None
        The place of the dataset; None if it is unknown.
    """

    fqn: str
    whole: str | None = None


@dataclass(frozen=True)
class Reading:
    """The result of reading a hierarchy.

    Parameters
    ----------
    dataset : Dataset
        The model, without data.
    variables : mapping
        The place of each variable, by FQN.
    groups : mapping
        The path of each group, by FQN.
    losses : tuple of str
        A sentence for each part of the hierarchy that the model cannot represent.
    findings : tuple of Finding
        Deviations, and their interpretation.
    guessed : frozenset of str
        The FQNs of dimensions that exist only because arrays contradict each other.
    identity : str or None
        The identity of the dataset, if the dialect has one.
    foreign : frozenset of str
        The paths of groups and arrays that belong to another dataset; their documents must not change.
    part : OpenedGroup or None
        The group, if the hierarchy is not a whole dataset.
    nz : bool
        Whether the dataset agrees with NZ-1.0, which its changes have to keep.
    keys_in_attributes : bool
        Whether the keys of arrays are attributes, where changes have to keep them.
    """

    dataset: Dataset
    variables: Mapping[str, Binding]
    groups: Mapping[str, str]
    losses: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    guessed: frozenset[str] = frozenset()
    identity: str | None = None
    foreign: frozenset[str] = frozenset()
    part: OpenedGroup | None = None
    nz: bool = False
    keys_in_attributes: bool = False


def array_at(nodes: Mapping[str, Metadata], path: str) -> ArrayMetadata:
    """Return the metadata of an array, which exists."""
    metadata = nodes[path]
    assert metadata.is_array
    return metadata


def left_out_nodes(unknown: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each node that cannot be opened, from :meth:`Hierarchy.unknown_nodes`.

    The sentence of a group contains the number of nodes below it, which are left out too.

    Examples
    --------
    >>> left_out_nodes({"v": "data_type: the data type 'int4' is not known"})
    ("'v' is left out: data_type: the data type 'int4' is not known",)
    """
    sentences = []
    for path, reason in unknown.items():
        # One sentence names a group; those of a thousand nodes below it would hide it.
        if path.rpartition("/")[0] not in unknown:
            below = sum(other.startswith(f"{path}/") for other in unknown)
            inside = f", with {below} node{'s' if below > 1 else ''} below it" if below else ""
            sentences.append(f"{path!r} is left out{inside}: {reason}")
    return tuple(sentences)


def own_dimension(group: str, dimension: Dimension, length: int, known: Mapping[str, Dimension]) -> str:
    """Return the FQN of a separate dimension for arrays in `group` whose length contradicts other arrays.

    A known dimension of this name and length was created by an earlier change of the dataset in this state.

    Examples
    --------
    >>> own_dimension("/", Dimension("x", 4), 5, {"/x": Dimension("x", 4), "/x_5": Dimension("x_5", 7)})
    '/x_5_2'
    """
    base = name = f"{dimension.name}_{length}"
    number = 2
    while known.get(own := join_fqn(group, name), Dimension(name, length)) != Dimension(name, length):
        name, number = f"{base}_{number}", number + 1
    return own


@dataclass(frozen=True)
class Plan:
    """The documents of a model, parents before children; the other attributes are those of :class:`Reading`.

    `dataset` is the part of the model that the documents represent; None: the whole model.
    """

    nodes: dict[str, Metadata]
    variables: dict[str, Binding]
    groups: dict[str, str]
    losses: tuple[str, ...] = ()
    dataset: Dataset | None = None
    identity: str | None = None


@dataclass(frozen=True)
class KeptNodes:
    """The parts of an existing dataset that a change keeps.

    Parameters
    ----------
    nodes : mapping
        Node names by (group FQN, kind, name); the kind is ``"array"`` or ``"group"``.
    arrays : mapping
        Metadata and bindings of unchanged variables, by FQN.
    fixed : frozenset of str
        Those of them that do not change even if the dialect has another form now.
    encodings : mapping
        The encodings of variables that keep their values, by FQN.
    stored : mapping
        The metadata of their arrays, by FQN, whose chunks and codecs stay.
    identity : str or None
        The identity of the dataset; None: it is new.
    """

    nodes: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    arrays: Mapping[str, tuple[ArrayMetadata, Binding]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    stored: Mapping[str, ArrayMetadata] = field(default_factory=dict)
    identity: str | None = None


@dataclass(frozen=True)
class Dialect:
    """One way to map the model onto Zarr.

    Parameters
    ----------
    name : str
        The name in :attr:`WriteOptions.layout`.
    zarr_layout : str
        The engine's name of the Zarr version: ``v3``, ``v2``, ``draft-2019``, …
    read_from : frozenset of str
        The engine's layouts that the dialect reads.
    recognise : callable
        Returns whether a hierarchy of these layouts has this dialect.
    read : callable
        Reads the model of a hierarchy; the second argument becomes the name of the dataset. It raises MetadataError
        for a damaged document; the error contains its path.
    plan : callable
        Plans the documents of a resolved model (:func:`nczarr.model.resolve`). The names choose node names that the
        store can keep. `KeptNodes` are the parts of an existing dataset that do not change; None for a new one. It
        raises UnsupportedError or LossError if the dialect cannot represent the model.
    """

    name: str
    zarr_layout: str
    read_from: frozenset[str]
    recognise: Callable[[Hierarchy], bool]
    read: Callable[[Hierarchy, str], Reading]
    plan: Callable[[Dataset, WriteOptions, NodeNames, KeptNodes | None], Plan]

    @property
    def is_plain(self) -> bool:
        """True for Zarr without NCZarr's keys, whose documents also belong to other programs."""
        return self.name in ("zarr-v2", "zarr-v3")

    @property
    def is_complete(self) -> bool:
        """True if the dialect represents the whole netCDF-4 model."""
        return self.name == "nczarr-v3"

"""Represent a dataset in a store: read and change its model and its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Self

import numpy as np

from nczarr.errors import ModelError, NCZarrError, ReadOnlyError
from nczarr.mapping.dataset.changes import begin_changes, end_changes, mark_unstored
from nczarr.mapping.dataset.destination import Destination
from nczarr.mapping.dataset.documents import record_chunks, recorded_arrays, with_other_keys, write_lengths
from nczarr.mapping.dataset.lengths import differing_lengths
from nczarr.mapping.dataset.update import UnchangedDataset, apply_update, rewrite_documents
from nczarr.mapping.dataset.variable_data import VariableData
from nczarr.mapping.dialect import Binding, Dialect, KeptNodes, Plan, Reading
from nczarr.mapping.findings import Finding
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import ON_V3, WriteOptions
from nczarr.model import Dataset, Region, Variable, bind_data, join_fqn, resolve
from nczarr.model.lengths import StoredModel
from nczarr.model.parts import Restrictions, known_variables
from nczarr.model.sources import refuse_cast
from nczarr.stores import MemoryStore, Store
from nczarr.system.environment import is_on
from nczarr.system.logs import logger_of
from nczarr.zarr import Array, ArrayMetadata, Hierarchy, open_hierarchy
from nczarr.zarr.chunks.array import Tail
from nczarr.zarr.pool import run

_RESTRICTED = Restrictions(
    limited=frozenset({"attribute", "name", "type", "variable"}), names_without_slash=True
)


class StoredDataset:
    """A dataset in a store; :func:`open_dataset` and :func:`create_dataset` return objects of this class.

    A new dataset is hidden: readers cannot see it before :meth:`commit` (or :meth:`publish`) writes the root's document
    as the last one. It is also a :class:`nczarr.model.DatasetSink`. As a context manager it commits at the end, and
    removes a new dataset after an error.

    Reading and writing values is thread-safe; changing the model is not.

    Attributes
    ----------
    layout : str
        The name of the layout, as in :class:`WriteOptions`.
    hierarchy : Hierarchy
    losses : tuple of str
        The parts that the layout cannot represent on writing, or that the model cannot represent on reading.
    reading : Reading
        The result of reading the documents.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset, open_dataset
    >>> store = {}
    >>> create_dataset(store, Dataset("d")).commit()
    >>> with open_dataset(store) as stored:
    ...     stored.layout, stored.losses
    ('nczarr-v3', ())
    """

    #: Several threads may write values.
    concurrent = True
    disk_format = "ZARR"

    def __init__(
        self,
        hierarchy: Hierarchy,
        dialect: Dialect,
        found: Reading | Plan,
        dataset: Dataset,
        *,
        options: WriteOptions,
        names: NodeNames,
        destination: Destination | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        # Only on plain Zarr of another program: rewriting a document must change nothing that the program has not
        # changed.
        hierarchy.keeps_bare_numbers = destination is None and dialect.is_plain
        hierarchy.omits_empty_chunks = not options.write_empty_chunks
        self.losses = found.losses
        self.reading = (
            found if isinstance(found, Reading) else Reading(dataset, found.variables, found.groups)
        )
        self._options = options
        self._names = names
        self._dialect = dialect
        self._destination = destination
        self._closed = False
        self._marked = False
        self._durable = True
        if destination is not None:
            self.store.sync_early()
        self.written: set[str] = set()
        self._data: dict[str, VariableData] = {}
        self.groups: Mapping[str, str] = found.groups
        self._identity = found.identity
        self._model = StoredModel(dataset)
        # A new dataset has no values of aborted writers.
        self._bind(dataset, found.variables, Tail.UNKNOWN if isinstance(found, Reading) else Tail.CLEAR, {})

    @property
    def parallel_requests(self) -> int:
        """The number of requests to a server that wait at the same time; 1 without a server."""
        return self.hierarchy.store.parallel_requests

    @property
    def before_part(self) -> Callable[[], None] | None:
        """Excludes the writers that would undo the change of a part of a chunk, where no lock does."""
        return self.hierarchy.store.before_part

    @property
    def dataset(self) -> Dataset:
        """The model, with each variable's data bound to a :class:`VariableData`."""
        return self._model.dataset

    def length(self, fqn: str) -> int:
        """Return the stored length of an unlimited dimension."""
        return self._model.length(fqn)

    def _bind(
        self, dataset: Dataset, bindings: Mapping[str, Binding], tail: Tail, before: Mapping[str, str]
    ) -> None:
        """Adopt a model, and bind its data; valid bindings are kept.

        `tail`: what is known of the arrays of variables that are new. `before`: the old names of the others.
        """
        self._model.replace(dataset)
        data: dict[str, VariableData] = {}
        for at in dataset.all_variables:
            extents, values = self._model.extents(at), self._data.get(at)
            # The same object as long as it is valid: programs and pending values refer to it.
            if values is None or values.binding != bindings[at] or values.extents != extents:
                old = self._data.get(before.get(at, ""))
                values = VariableData(self, at, bindings[at], extents, tail if old is None else old.tail)
            data[at] = values
        self._data = data
        self._model.replace(bind_data(dataset, data))

    # -- properties

    @property
    def layout(self) -> str:
        """The name of the layout."""
        return self._dialect.name

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The deviations that reading the documents has found."""
        return self.reading.findings

    @property
    def store(self) -> Store:
        """The store."""
        return self.hierarchy.store

    @property
    def options(self) -> WriteOptions:
        """The options for writing."""
        return self._options

    @property
    def names(self) -> NodeNames:
        """The rules for node names."""
        return self._names

    @property
    def writable(self) -> bool:
        """True if the dataset can be changed."""
        return self.hierarchy.writable and not self._closed

    @property
    def durable(self) -> bool:
        """Whether :meth:`sync`, :meth:`publish` and :meth:`close` wait until all data are on disk.

        False: the system chooses time and order of writing to the disk, and a loss of power
        may also damage earlier data.
        """
        return self._durable

    @durable.setter
    def durable(self, durable: bool) -> None:
        self._durable = durable
        # A new dataset is synced as a whole before it gets its name.
        if self.hidden:
            self.store.sync_early(durable)
        elif self.writable:
            self.store.keep_order(durable)

    @property
    def hidden(self) -> bool:
        """True if the dataset is new, and invisible to readers."""
        return self._destination is not None

    def __repr__(self) -> str:
        return f"<StoredDataset {self.store.url} {self.layout}>"

    # -- values

    def data(self, fqn: str) -> VariableData:
        """Return the values of a variable; raise ModelError if there is none."""
        try:
            return self._data[fqn]
        except KeyError:
            self.dataset.variable_at(fqn)
            raise ModelError(f"there is no variable {fqn!r}", path=self.store.url) from None

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the best shape of blocks for writing a variable: the shape of its chunks, or of its shards."""
        return self.data(fqn).chunk_shape

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write values to a region; see :meth:`nczarr.model.DatasetSink.write`."""
        data = self.data(fqn)
        refuse_cast(values, data.dtype, fqn)
        # Refused before: numpy would cut 300 to 44 for a byte.
        data.write(region, values)

    # -- changes

    @property
    def restrictions(self) -> Restrictions:
        """The parts of the netCDF-4 model that the layout cannot hold."""
        restrictions = Restrictions() if self._dialect.is_complete else _RESTRICTED
        return replace(restrictions, without_shards=self.layout not in ON_V3, omitted=self._omitted())

    def _omitted(self) -> frozenset[str]:
        """Return the FQNs of the nodes outside the model; a dataset for reading needs none."""
        if not self.writable:
            return frozenset()
        own = self._before(self.groups).own_paths
        fqns = {path: fqn for fqn, path in self.groups.items()}
        others = (path.rpartition("/") for path in self.hierarchy.nodes if path not in own)
        return frozenset(join_fqn(fqns[group], name) for group, _, name in others if group in fqns and name)

    @property
    def limited(self) -> frozenset[str]:
        """The kinds of nodes for which the layout does not represent the whole netCDF-4 model."""
        return self.restrictions.limited

    def check_model(self, dataset: Dataset) -> None:
        """Raise the error of :meth:`update` for the parts of a dataset, without any change."""
        self._dialect.plan(resolve(dataset), self.options, self.names, KeptNodes())

    def update(self, dataset: Dataset) -> None:
        """Change the stored dataset to `dataset`: write the difference of the metadata.

        A variable whose data are a :class:`VariableData` of this dataset is the same variable, perhaps with another
        name or in another group: it keeps its values. A new variable has fill values. A variable whose type, storage or
        rank changes loses its values. Arrays get the shapes of the dimensions before the sizes are written.

        Readers that use consolidated metadata see the change after the next :meth:`sync` or :meth:`close`; removed and
        renamed nodes, at once.

        Raises
        ------
        ReadOnlyError, ModelError, UnsupportedError
            Before any change.
        """
        self._check_writable()
        self._begin()
        if not self.hidden and self._durable is not False:
            self.store.settle()  # the update may read values that wait
        before = known_variables(dataset, self._data)
        # Before a document claims the lengths up to which values are written.
        # Arrays before documents: a kill in between must leave no length without an array for it.
        self._extend(self._data[fqn] for fqn in before.values())
        plan, bound = apply_update(self._before(self.groups), dataset)
        self.losses = plan.losses
        self.groups = plan.groups
        self._identity = plan.identity
        self._bind(bound, plan.variables, Tail.CLEAR, before)
        self._check_lengths()

    def store_anew(self, changed: Mapping[str, Variable]) -> None:
        """Give variables other values and attributes at once; their types and shapes stay. Open the dataset again then.

        The new chunks have keys that the variables' chunks have not had before, and a document tells which keys count.
        So a reader gets the old values with the old attributes, or the new ones with the new; one that has the dataset
        open reads the old chunks, which stay.

        Parameters
        ----------
        changed : mapping
            The variables with their new values and attributes, by FQN.

        Raises
        ------
        ReadOnlyError
            If the dataset is open for reading.

        Examples
        --------
        >>> from nczarr.mapping import create_dataset, open_dataset
        >>> from nczarr.model import INT, Attribute, Dataset, Dimension, Variable
        >>> days = Variable("t", INT, ("x",), data=[0, 1], attributes=[Attribute.of("units", "days since 2000-01-01")])
        >>> store = {}
        >>> with create_dataset(store, Dataset("d", dimensions=[Dimension("x", 2)], variables=[days])) as stored:
        ...     stored.write("/t", (slice(0, 2),), np.array([0, 1], "i4"))
        >>> units = Attribute.of("units", "hours since 2000-01-01")
        >>> hours = Variable("t", INT, ("x",), data=[0, 24], attributes=[units])
        >>> with open_dataset(store, "r+") as stored:
        ...     stored.store_anew({"/t": hours})
        >>> with open_dataset(store) as stored:
        ...     t = stored.dataset.variables[0]
        ...     t.data.read((slice(0, 2),)).tolist(), t.attribute["units"].text
        ([0, 24], 'hours since 2000-01-01')
        """
        self._check_writable()
        self._begin()
        arrays: dict[str, ArrayMetadata] = {}
        for fqn, variable in changed.items():
            data = self.data(fqn)
            assert variable.data is not None
            texts = {a.name: a.text for a in variable.attributes if a.type.name in ("char", "string")}
            known = data.array.metadata
            attributes = {n: texts.get(n, v) for n, v in known.attributes.items()}
            metadata = with_other_keys(self.hierarchy, data.path, replace(known, attributes=attributes))
            array = Array(self.store, self.hierarchy.chunk_prefix(data.path), metadata, path=data.path)
            whole = tuple(slice(0, n, 1) for n in metadata.shape)
            array.write(whole, data.encoding.encode(variable.data.read(whole)))
            arrays[data.path] = metadata
        self.store.settle()  # the chunks, before a document names them
        self.hierarchy.put_many(arrays.items())
        self.sync()

    @property
    def is_outdated(self) -> bool:
        """True if an array with an unlimited dimension has another document than the dataset knows.

        Another program may have changed it, and not the consolidated copies. All are asked for together.
        """
        growing = [fqn for fqn, d in self.dataset.all_dimensions.items() if d.unlimited]
        return self.hierarchy.has_outdated([self._data[fqn].path for fqn in self._model.along(growing)])

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the new lengths of unlimited dimensions, without planning the whole model like :meth:`update`.

        Parameters
        ----------
        sizes : mapping
            Lengths by the FQN of the dimension. The data of their variables have grown before
            (:meth:`VariableData.grow`).

        Returns
        -------
        bool
            False, without any change, if :meth:`update` is required: in other layouts, and for documents with findings
            or of an unusual form.

        Raises
        ------
        ReadOnlyError
        """
        self._check_writable()
        if not self._dialect.is_complete or self.options.extensions:
            return False
        variables = [self._data[fqn] for fqn in self._model.along(sizes)]
        sound = not self.reading.findings
        # Accepted before anything is written: the arrays ask how long they must be.
        self._model.accept(sizes)
        self._extend(variables)
        # Findings mean that a document may have its lengths in another place: the plan of the whole model knows
        # all.
        if not write_lengths(self.hierarchy, self.groups, variables, sizes, sound=sound):
            return False
        # Noted only now: a document that the store refuses leaves the stored length as it is.
        self._model.note(sizes)
        self._check_lengths()
        return True

    def _check_lengths(self) -> None:
        """Raise an error if a document has another length than the model, in tests: nothing repairs it later."""
        if not is_on("NCZARR_SELF_CHECK") or not self._dialect.is_complete or self.options.extensions:
            return
        own = [values for values in self._data.values() if values.path not in self.reading.foreign]
        groups = {fqn: path for fqn, path in self.groups.items() if path not in self.reading.foreign}
        if found := list(differing_lengths(self.hierarchy, self.dataset, groups, own)):
            raise AssertionError("; ".join(found))

    def make_room(self) -> None:
        """Extend the arrays that have accepted more values than they have room for, many at the same time.

        No other thread reads or writes values. An array that the store refuses stays as it is: its next use raises the
        error.
        """

        def extend(values: VariableData) -> None:
            with suppress(NCZarrError, OSError):
                values.extend_alone()

        run(extend, [values for values in self._data.values() if values.is_short], self.parallel_requests)

    def _extend(self, variables: Iterable[VariableData]) -> None:
        """Extend arrays that are shorter than their dimensions, many at the same time if they wait for a server."""
        short = [values for values in variables if values.is_short]
        if self.parallel_requests > 1:
            run(VariableData.extend_alone, short, self.parallel_requests)
        else:
            for values in short:
                values.extend_alone()

    def rewrite(self, untouched: frozenset[str] = frozenset()) -> None:
        """Rewrite all documents with their understood content.

        Parameters
        ----------
        untouched : frozenset of str
            FQNs of variables whose documents do not change.
        """
        self._begin()
        plan = rewrite_documents(self._before(self.reading.groups), self.reading, untouched)
        self.groups = plan.groups
        names = {fqn: fqn for fqn in self._data}
        self._bind(self.dataset, plan.variables, Tail.UNKNOWN, names)

    def _before(self, groups: Mapping[str, str]) -> UnchangedDataset:
        return UnchangedDataset(
            self.hierarchy,
            self._dialect,
            self.dataset,
            self._data,
            groups,
            self.options,
            self.names,
            self._identity,
            self.reading.foreign,
        )

    def _check_writable(self) -> None:
        if not self.writable:
            raise ReadOnlyError("the dataset is open for reading", path=self.store.url, hint='use mode="r+"')

    def _begin(self) -> None:
        if not self._marked:
            self._marked = begin_changes(self.store, self.hierarchy)

    # -- the end

    def together(self) -> AbstractContextManager[None]:
        """Let values wait for the disk together. No thread reads them before the end of the block."""
        return self.store.together()

    def sync(self) -> None:
        """Make all written data durable, and update the consolidated metadata; a new dataset stays hidden."""
        if not self.writable:
            return
        if not self.hidden:
            self._record(())
        self.hierarchy.sync()
        if not self.hidden and self._durable is not False:
            self.store.settle()
        # Last: until the disk has all of it, another writer must find the marker.
        if self._marked:
            end_changes(self.store)
            self._marked = False
        if not self.hidden:
            self.store.sync()

    def _record(self, more: Iterable[str]) -> None:
        """Update the records of chunks of arrays with new values, and of others, if they have one."""
        # Once for each sync: a record costs a listing of the array.
        paths = {*self.written, *more}
        self.written -= paths
        record_chunks(self.hierarchy, sorted(paths))

    def publish(self) -> None:
        """Make a new dataset visible to readers, and remove the dataset that it replaces, without closing it."""
        if self._destination is None:
            return
        if self.options.manifest:
            # Before the consolidated copy, which contains the records.
            record_chunks(self.hierarchy, self.hierarchy.nodes, new=True)
            self.written.clear()
        if self.options.consolidated:
            self.hierarchy.consolidate()
        # Another process may have removed the marker of a dataset that it took for abandoned.
        self._destination.confirm()
        durable = self._durable
        self.hierarchy.prepare()
        # Values before the documents that claim them, where the disk may reorder.
        if durable:
            self._destination.settle()
        self.hierarchy.publish()
        # From here on the dataset is visible, also after an error: aborting would remove it.
        destination, self._destination = self._destination, None
        store = destination.finish(durable=durable)
        logger_of(__name__).info("%s: the new dataset is complete", self.store.url)
        # A temporary directory or key has got its final name.
        if store is not None:
            self.hierarchy = open_hierarchy(store, layout=self.hierarchy.layout, mode="r+")
            self.hierarchy.omits_empty_chunks = not self.options.write_empty_chunks
        self.store.keep_order(durable)

    def refused(self) -> dict[str, Exception]:
        """Return the variables and groups of a hidden dataset whose documents the store refuses, by FQN."""
        fqns = {path: fqn for fqn, path in self.groups.items()}
        fqns |= {data.path: fqn for fqn, data in self._data.items()}
        return {fqns[path]: error for path, error in self.hierarchy.refused_nodes().items() if path in fqns}

    def commit(self) -> None:
        """Make the dataset complete and visible, and close it."""
        if self._closed:
            return
        if self._destination is not None:
            self.publish()
        else:
            try:
                if self.writable:
                    # Tasks of Dask write chunks that this process has not noted.
                    self._record(recorded_arrays(self.hierarchy))
                self.sync()
            except BaseException:
                self._give_up()
                raise
        self._close()

    def abort(self) -> None:
        """Close, and remove a new dataset that is not published; the dataset that it would replace stays."""
        if not self._closed:
            if self._destination is not None:
                self._destination.abort()
                self._destination = None
            self._close()

    @property
    def resumable(self) -> bool:
        """True if the data of an unfinished new dataset stay in their place after an error."""
        return (
            self._destination is not None
            and not self._destination.replaces
            # A zip file without its directory is unreadable, and memory ends with the process.
            and not self.store.is_one_file
            and not isinstance(self.store, MemoryStore)
        )

    def suspend(self) -> None:
        """Close an unfinished new dataset, hidden from readers, to resume it later."""
        if not self._closed:
            self._destination = None
            self._close()

    def leave_unfinished(self, reason: str) -> None:
        """Close after a failed flush whose error no caller can catch.

        A new dataset stays marked unfinished, or is removed if it would replace another one. A visible dataset gets a
        marker with the reason.
        """
        if self.resumable:
            self.suspend()
        # The dataset that it would have replaced stays.
        elif self.hidden:
            self.abort()
        else:
            mark_unstored(self.store, reason)
            self.close()

    def close(self) -> None:
        """Commit changes, and release the store. Closing twice is allowed."""
        self.commit()

    def _give_up(self) -> None:
        """Release the store after an error; a zip file keeps its old content."""
        from nczarr.stores.zip import ZipStore  # not for each opening

        # `close` would write its directory, and make half a dataset readable.
        if isinstance(self.store, ZipStore):
            self._closed = True
            self.hierarchy.close()
            self.store.discard()
        else:
            with suppress(NCZarrError):
                self._close()

    def _close(self) -> None:
        self._closed = True
        self.hierarchy.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        # An error in the program's block: an unfinished dataset must not look like a complete one.
        if kind is not None and self._destination is not None:
            self.abort()
        else:
            self.close()

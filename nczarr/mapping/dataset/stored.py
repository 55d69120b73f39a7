"""Hold a dataset in a store: its model and its values, and change both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from nczarr.errors import ModelError, NCZarrError, ReadOnlyError
from nczarr.mapping import rewriting
from nczarr.mapping.dialect import Binding, Dialect, Known, Plan, Reading
from nczarr.mapping.findings import Finding
from nczarr.mapping.guarding.changes import begin_changes, end_changes, mark_unstored
from nczarr.mapping.guarding.destination import Destination
from nczarr.mapping.guarding.manifest import record_chunks, recorded_arrays
from nczarr.mapping.node_names import NodeNames
from nczarr.mapping.options import WriteOptions
from nczarr.mapping.rewriting.variable_data import VariableData
from nczarr.model import Dataset, Region, bind_data, resolve, with_lengths
from nczarr.model.restrictions import Restrictions
from nczarr.stores import MemoryStore, Store
from nczarr.stores.zip.store import ZipStore
from nczarr.zarr import Hierarchy, open_hierarchy

if TYPE_CHECKING:
    from typing import Self

_RESTRICTED = Restrictions(limited=frozenset({"attribute", "name", "type", "variable"}))


class StoredDataset:
    """A dataset in a store; objects come from :func:`open_dataset` and :func:`create_dataset`.

    A new dataset is hidden: no reader can see it before :meth:`commit` (or :meth:`publish`) has written the
    root's document, last of all. It is also a :class:`nczarr.model.DatasetSink`. As a context manager it commits
    at the end, and removes all that was written if there was an error.

    Reading and writing values is safe from several threads; changes of the model are not.

    Attributes
    ----------
    layout : str
        The layout's name, as in :class:`WriteOptions`.
    hierarchy : Hierarchy
    losses : tuple of str
        What the layout dropped on writing, or what it could not take over on reading.
    reading : Reading
        What was found when the dataset was opened.

    Examples
    --------
    >>> from nczarr.mapping import create_dataset, open_dataset
    >>> store = {}
    >>> create_dataset(store, Dataset("d")).commit()
    >>> with open_dataset(store) as stored:
    ...     stored.layout, stored.losses
    ('nczarr-v3', ())
    """

    #: Values may be written from several threads.
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
        hierarchy.keeps_bare_numbers = isinstance(found, Reading) and dialect.is_plain
        self.losses = found.losses
        self.reading = (
            found if isinstance(found, Reading) else Reading(dataset, found.variables, found.groups)
        )
        self._dialect = dialect
        self._options = options
        self._names = names
        self._destination = destination
        self._closed = False
        self._marked = False
        self._durable: bool | None = None
        self.written: set[str] = set()
        self._data: dict[str, VariableData] = {}
        self.groups: Mapping[str, str] = found.groups
        self._identity = found.identity
        # Lengths that the model does not say yet: it is made anew when somebody asks for it.
        self._lengths: dict[str, int] = {}
        self._along: dict[str, list[VariableData]] | None = None
        self._dataset = self._bind(dataset, found.variables)

    @property
    def dataset(self) -> Dataset:
        """The model, with each variable's data bound to a :class:`VariableData`."""
        if self._lengths:
            with self.hierarchy.lock:
                self._dataset = with_lengths(self._dataset, self._lengths)
                self._lengths = {}
        return self._dataset

    def _bind(self, dataset: Dataset, bindings: Mapping[str, Binding]) -> Dataset:
        """The model with its data bound; bindings that are still right are kept."""
        data: dict[str, VariableData] = {}

        for at, variable in dataset.all_variables.items():
            shape = dataset.shape(variable)
            values = self._data.get(at)
            if values is None or values.binding != bindings[at] or values.shape != shape:
                values = VariableData(self, at, bindings[at], shape)
            data[at] = values
        result = bind_data(dataset, data)
        self._data = data
        self._along = None
        return result

    # -- what it is

    @property
    def layout(self) -> str:
        """The name of the layout."""
        return self._dialect.name

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was not as it should be when the dataset was opened."""
        return self.reading.findings

    @property
    def store(self) -> Store:
        """The store."""
        return self.hierarchy.store

    @property
    def options(self) -> WriteOptions:
        """The options with which it is written."""
        return self._options

    @property
    def names(self) -> NodeNames:
        """How nodes are named."""
        return self._names

    @property
    def writable(self) -> bool:
        """True if it can be changed."""
        return self.hierarchy.writable and not self._closed

    @property
    def durable(self) -> bool | None:
        """Whether :meth:`sync`, :meth:`publish` and :meth:`close` return when the disk has everything.

        None, the default, is True. False: the system writes to the disk when it likes, in an order that it likes, and a
        loss of power may also damage what was stored before.
        """
        return self._durable

    @durable.setter
    def durable(self, durable: bool | None) -> None:
        self._durable = durable
        if not self.hidden and self.writable:
            self.store.keep_order(durable is not False)

    @property
    def hidden(self) -> bool:
        """True if it is new, and no reader can see it yet."""
        return self._destination is not None

    def __repr__(self) -> str:
        return f"<StoredDataset {self.store.url} {self.layout}>"

    # -- values

    def data(self, fqn: str) -> VariableData:
        """Return the values of a variable.

        Raises
        ------
        ModelError
            If there is no such variable.
        """
        try:
            return self._data[fqn]
        except KeyError:
            self.dataset.variable_at(fqn)
            raise ModelError(f"there is no variable {fqn!r}", path=self.store.url) from None

    def write_shape(self, fqn: str) -> tuple[int, ...]:
        """Shape of the blocks in which a variable is best written: its chunks, or its shards."""
        return self.data(fqn).chunk_shape

    def write(self, fqn: str, region: Region, values: np.ndarray) -> None:
        """Write values to a region; see :meth:`nczarr.model.DatasetSink.write`."""
        self.data(fqn).write(region, values)

    # -- changes

    @property
    def restrictions(self) -> Restrictions:
        """The parts of the netCDF-4 model that the layout cannot hold."""
        return Restrictions() if self._dialect.name == "nczarr-v3" else _RESTRICTED

    @property
    def limited(self) -> frozenset[str]:
        """The kinds of parts of which the layout cannot hold all that the netCDF-4 model allows."""
        return self.restrictions.limited

    def check_model(self, dataset: Dataset) -> None:
        """Raise what :meth:`update` would raise for the parts of a dataset, and change nothing.

        Raises
        ------
        LossError, ModelError, UnsupportedError
        """
        self._dialect.plan(resolve(dataset), self._options, self._names, Known())

    def update(self, dataset: Dataset) -> None:
        """Make the stored dataset say what `dataset` says: write the difference of the metadata.

        Values of variables that stay are kept. A variable whose data are a :class:`VariableData` of this dataset
        is the same variable, perhaps under another name or in another group: its values move with it. A
        variable that is new has no values yet (all fill). A variable whose type, storage or rank changes loses
        its values. Arrays get the shapes that the dimensions say; sizes are written after the arrays have them.

        Readers that use consolidated metadata see the change at the next :meth:`sync` or :meth:`close`; where
        nodes were removed or renamed, at once.

        Raises
        ------
        ReadOnlyError, ModelError, UnsupportedError
            Before anything is changed.
        """
        if not self.writable:
            raise ReadOnlyError("the dataset is open for reading", path=self.store.url, hint='use mode="r+"')
        self._begin()
        plan, bound = rewriting.apply_update(self._before(self.groups), dataset)
        self.losses = plan.losses
        self.groups = plan.groups
        self._identity = plan.identity
        self._dataset = self._bind(bound, plan.variables)

    def lengthen(self, sizes: Mapping[str, int]) -> bool:
        """Write the new lengths of unlimited dimensions whose values have grown: an :meth:`update` that changes
        nothing else, without looking at the rest.

        Parameters
        ----------
        sizes : mapping
            Lengths by the FQN of the dimension. The data of the variables that have them were made as long before
            (:meth:`VariableData.grow`).

        Returns
        -------
        bool
            False, and nothing is done, where :meth:`update` has to do it: at first, in other layouts, and where
            documents are of an unusual form.

        Raises
        ------
        ReadOnlyError
        """
        if not self.writable:
            raise ReadOnlyError("the dataset is open for reading", path=self.store.url, hint='use mode="r+"')
        if self._dialect.name != "nczarr-v3" or self._options.extensions:
            return False
        if self._along is None:
            self._along = {}
            for fqn, variable in self._dataset.all_variables.items():
                for reference in dict.fromkeys(variable.dimensions):
                    if isinstance(reference, str):
                        self._along.setdefault(reference, []).append(self._data[fqn])
        variables = dict.fromkeys(v for fqn in sizes for v in self._along.get(fqn, ()))
        if not rewriting.write_lengths(self.hierarchy, self.groups, variables, sizes):
            return False
        with self.hierarchy.lock:
            self._lengths = {**self._lengths, **sizes}
        return True

    def rewrite(self, untouched: frozenset[str] = frozenset()) -> None:
        """Write all documents anew, from what was understood of them.

        Parameters
        ----------
        untouched : frozenset of str
            FQNs of variables whose documents stay as they are.
        """
        self._begin()
        plan = rewriting.rewrite_documents(self._before(self.reading.groups), self.reading, untouched)
        self.groups = plan.groups
        self._dataset = self._bind(self.dataset, plan.variables)

    def _before(self, groups: Mapping[str, str]) -> rewriting.Before:
        return rewriting.Before(
            self.hierarchy,
            self._dialect,
            self.dataset,
            self._data,
            groups,
            self._options,
            self._names,
            self._identity,
            self.reading.foreign,
        )

    def _begin(self) -> None:
        if not self._marked:
            self._marked = begin_changes(self.store, self.hierarchy)

    # -- the end

    def sync(self) -> None:
        """Make everything that was written durable, and the consolidated metadata right.

        A new dataset stays hidden.
        """
        if self.writable:
            if not self.hidden:
                self._record(())
            self.hierarchy.sync()
            if not self.hidden and self._durable is not False:
                self.store.settle()
            if self._marked:
                end_changes(self.store)
                self._marked = False
            if not self.hidden:
                self.store.sync()

    def _record(self, more: Iterable[str]) -> None:
        """Keep the record of chunks of arrays that were written to since, and of others, where they have one."""
        paths = {*self.written, *more}
        self.written -= paths
        record_chunks(self.hierarchy, sorted(paths))

    def publish(self) -> None:
        """Make a new dataset visible to readers without closing it; a dataset that it replaces is gone then."""
        if self._destination is None:
            return
        if self._options.manifest:
            record_chunks(self.hierarchy, self.hierarchy.nodes, new=True)
            self.written.clear()
        if self._options.consolidated:
            self.hierarchy.consolidate()
        self._destination.confirm()
        durable = self._durable is not False
        if durable:
            self._destination.settle()
        self.hierarchy.publish()
        destination, self._destination = self._destination, None
        store = destination.finish(durable=durable)
        if store is not None:
            self.hierarchy = open_hierarchy(store, layout=self.hierarchy.layout, mode="r+")
        self.store.keep_order(durable)

    def refused(self) -> dict[str, Exception]:
        """Return the variables and groups of a hidden dataset whose documents the store refuses, by FQN."""
        places = {path: fqn for fqn, path in self.groups.items()}
        places |= {data.binding.path: fqn for fqn, data in self._data.items()}
        return {
            places[path]: error for path, error in self.hierarchy.refused_nodes().items() if path in places
        }

    def commit(self) -> None:
        """Make the dataset complete and visible, and close it."""
        if not self._closed:
            if self._destination is not None:
                self.publish()
            else:
                try:
                    if self.writable:
                        self._record(recorded_arrays(self.hierarchy))
                    self.sync()
                except BaseException:
                    self._give_up()
                    raise
            self._close()

    def abort(self) -> None:
        """Close; a new dataset that was not published is removed, and one that it was to replace stays."""
        if not self._closed:
            if self._destination is not None:
                self._destination.abort()
                self._destination = None
            self._close()

    @property
    def resumable(self) -> bool:
        """True if what is written of a new dataset stays where it is until it is complete."""
        return (
            self._destination is not None
            and not self._destination.replaces
            and not self.store.is_one_file
            and not isinstance(self.store, MemoryStore)
        )

    def suspend(self) -> None:
        """Close a new dataset as it is: unfinished, hidden from readers, to be gone on with."""
        if not self._closed:
            self._destination = None
            self._close()

    def leave_unfinished(self, reason: str) -> None:
        """Close after a flush failed, for a reason that no caller can catch.

        A new dataset stays marked unfinished, or, where it was to replace another one, is removed. A dataset that
        readers know gets a mark with the reason.
        """
        if self.resumable:
            self.suspend()
        elif self.hidden:
            self.abort()
        else:
            mark_unstored(self.store, reason)
            self.close()

    def close(self) -> None:
        """Commit, if there is anything to commit, and release the store. Closing twice is no error."""
        self.commit()

    def _give_up(self) -> None:
        """Release the store after an error; a zip file stays as it was."""
        self._closed = True
        self.hierarchy.close()
        if isinstance(self.store, ZipStore):
            self.store.discard()
        else:
            with suppress(NCZarrError):
                self.store.close()

    def _close(self) -> None:
        self._closed = True
        self.hierarchy.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and self._destination is not None:
            self.abort()
        else:
            self.close()

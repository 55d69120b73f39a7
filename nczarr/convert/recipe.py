"""Open the sources of a copy as it needs them: joined, chosen, shaped; again in another process, if need be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from nczarr.convert import change
from nczarr.convert.change.shaping import Shaping
from nczarr.convert.endpoints import open_source
from nczarr.errors import NCZarrError
from nczarr.formats import Kind, state_of_file
from nczarr.model import Dataset


@dataclass(frozen=True)
class Choice:
    """The part of a dataset that is copied, and under which names."""

    variables: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, dataset: Dataset, *, joined: bool = False) -> Dataset:
        """Return the part of a dataset; of one that is `joined` the nodes were chosen before."""
        return self.cut(dataset if joined else self.nodes(dataset))

    def nodes(self, dataset: Dataset) -> Dataset:
        """Return the chosen variables and groups."""
        if not (self.variables or self.only or self.groups or self.exclude):
            return dataset
        chosen = change.choose(
            dataset, variables=self.variables, only=self.only, groups=self.groups, exclude=self.exclude
        )
        # Who names what is copied asks for nothing else.
        named = self.variables or self.only or self.groups
        left_out, gone = ((), ()) if named else (dataset.left_out, dataset.gone)
        return replace(chosen, left_out=left_out, gone=gone)

    def nodes_of_all(self, datasets: Sequence[Dataset]) -> list[Dataset]:
        """Return the chosen variables and groups of datasets that will be one; what is left out need not be in all."""
        found = []
        for dataset in datasets:
            here = [*dataset.all_variables, *dataset.all_groups]
            there = tuple(p for p in self.exclude if any(change.matches(fqn, p) for fqn in here))
            elsewhere = {p for p in self.exclude if p not in there}
            for other in datasets if elsewhere else ():
                names = [*other.all_variables, *other.all_groups]
                elsewhere -= {p for p in elsewhere if any(change.matches(fqn, p) for fqn in names)}
            found.append(replace(self, exclude=(*there, *sorted(elsewhere))).nodes(dataset))
        return found

    def parts_of_all(self, datasets: Sequence[Dataset]) -> list[Dataset]:
        """Return the parts of datasets that will be one."""
        return [self.cut(dataset) for dataset in self.nodes_of_all(datasets)]

    def cut(self, dataset: Dataset) -> Dataset:
        """Return the chosen part of each dimension, under the new names."""
        if not (self.selection or self.names):
            return dataset
        return change.rename(change.select(dataset, self.selection), self.names)


@dataclass(frozen=True)
class Recipe:
    """How the dataset of a copy is made of its sources.

    Parameters
    ----------
    concat : str or None
        The dimension along which they are joined.
    source, target : str
        The kinds of both sides.
    """

    sources: tuple[Any, ...]
    source_options: Mapping[str, Any] | None
    concat: str | None
    join: str
    choice: Choice
    how: Shaping
    source: Kind | None
    target: Kind

    def states(self) -> tuple[tuple[int, int] | None, ...]:
        """Return size and time of change of each local file."""
        return tuple(None if isinstance(s, Dataset) else state_of_file(s) for s in self.sources)

    @contextmanager
    def open(self, states: tuple[tuple[int, int] | None, ...]) -> Iterator[Dataset]:
        """Open the sources.

        Parameters
        ----------
        states : tuple
            What :meth:`states` said when the copy began.

        Raises
        ------
        NCZarrError
            If a file is another one now.
        """
        for source, before, now in zip(self.sources, states, self.states(), strict=True):
            if before != now:
                raise NCZarrError("the file has changed while it was copied", path=str(source))
        with ExitStack() as stack:
            if self.concat is None:
                opened = stack.enter_context(
                    open_source(self.sources[0], storage_options=self.source_options, fresh=True)
                )
            else:
                from nczarr.convert import many

                opened = stack.enter_context(
                    many.join(
                        self.sources,
                        self.concat,
                        attributes=self.join,
                        storage_options=self.source_options,
                        choose=self.choice.nodes_of_all,
                    )
                )
            chosen = self.choice.of(opened, joined=self.concat is not None)
            yield change.shape(chosen, self.how, source=self.source, target=self.target).dataset

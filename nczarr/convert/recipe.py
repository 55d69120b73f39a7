"""Open the sources of a copy as it needs them: joined, chosen, shaped; again in another process, if need be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from nczarr.convert import change, many
from nczarr.convert.change import Shaping
from nczarr.convert.edges import open_source
from nczarr.convert.many import state_of_file
from nczarr.errors import NCZarrError
from nczarr.formats import Kind
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

    def of(self, dataset: Dataset) -> Dataset:
        """Return the part of a dataset."""
        if self == Choice():
            return dataset
        chosen = change.choose(
            dataset, variables=self.variables, only=self.only, groups=self.groups, exclude=self.exclude
        )
        return change.rename(change.select(chosen, self.selection), self.names)


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
                opened = stack.enter_context(
                    many.join(
                        self.sources,
                        self.concat,
                        attributes=self.join,
                        storage_options=self.source_options,
                    )
                )
            chosen = self.choice.of(opened)
            yield change.shape(chosen, self.how, source=self.source, target=self.target).dataset

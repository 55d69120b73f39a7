"""Refuse the values of a task whose variable has changed since the task was planned.

Tasks of Dask may run hours after ``to_zarr(…, compute=False)`` has cut the values at the chunks of a variable and
encoded them for its units. In a dataset that another program replaces meanwhile, they would be numbers of other units,
or lie outside of the array, where no reader sees them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nczarr.errors import EditError
from nczarr.model import Region, Type
from nczarr.model.stored_form import StoredForm
from nczarr.session import Session, VariableNode


@dataclass(frozen=True)
class TaskTarget:
    """A variable as tasks expect it.

    Parameters
    ----------
    block : tuple of int
        The shape of the chunks or shards: two tasks never write one.
    form : StoredForm or None
        None if the variable has no numbers.
    """

    type: Type
    dimensions: tuple[str, ...]
    block: tuple[int, ...]
    form: StoredForm | None

    @classmethod
    def of(cls, session: Session, node: VariableNode) -> TaskTarget:
        """Return a variable as it is now."""
        names = tuple(dimension.name for dimension in node.dimensions)
        form = StoredForm.of(node.type, node.attributes)
        return cls(node.type, names, session.chunk_shape(node) or (), form)

    def write(
        self,
        session: Session,
        fqn: str,
        node: VariableNode | None,
        region: Region,
        values: np.ndarray,
        path: str,
    ) -> None:
        """Write the values of a task to the variable that has its name now.

        The variable may have grown: other values have their own places.

        Raises
        ------
        EditError
            If the variable is not the planned one, or has no such place.
        """
        change = "has gone" if node is None else self._change(TaskTarget.of(session, node))
        # Chunks outside of the array were written without an error.
        if (
            node is not None
            and not change
            and any(r.stop > n for r, n in zip(region, node.shape, strict=True))
        ):
            change = f"has the shape {node.shape}, in which the place {_shown(region)} does not exist"
        # Another program may replace the store meanwhile: numbers got other units, and a missing variable
        # was a KeyError.
        if node is None or change:
            raise EditError(
                f"since the task was planned, the variable {change}",
                path=path,
                fqn=fqn,
                hint="call to_zarr again, which plans the tasks for the variable as it is now",
            )
        session.write(node, region, values)

    def _change(self, now: TaskTarget) -> str:
        """Return the difference of the variable as it is now; an empty text if there is none."""
        # A task into a replaced dataset wrote numbers of other units, or chunks outside of the array.
        if now.type != self.type:
            return f"has the type {now.type.name}, not {self.type.name}"
        if now.dimensions != self.dimensions:
            return f"has the dimensions {now.dimensions}, not {self.dimensions}"
        # Tasks are planned so that no two of them write one chunk, which another shape of chunks breaks.
        if now.block != self.block:
            return f"has chunks of the shape {now.block}, not {self.block}"
        form, then = now.form, self.form
        if (
            form is None
            or then is None
            or (form.is_like(then) and form.units_of_values == then.units_of_values)
        ):
            return ""
        return f"is stored as {form}, not as {then}"


def _shown(region: Region) -> str:
    return f"[{', '.join(f'{r.start}:{r.stop}' for r in region)}]"

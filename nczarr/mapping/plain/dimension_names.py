"""Choose the ``dimension_names`` of arrays (``docs/spec/nczarr-v3.md``, *Dimensions*).

Foreign readers see labels only, so that they have to make sense by themselves: inside an array they are unique,
and inside a group one label has one meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from nczarr.model import Dataset, DimensionRef, split_fqn


class Labels:
    """Gives the dimensions of each variable their labels.

    A dimension's label is its simple name, if that means this dimension in the variable's group. One that is
    hidden behind a nearer dimension of the same name, one that the variable has twice, and an anonymous one,
    get a label that no dimension of the dataset has.

    Examples
    --------
    >>> from nczarr.model import Dimension
    >>> labels = Labels(Dataset("d", dimensions=(Dimension("x", 2),)))
    >>> labels.of("/", ("/x", "/x", 3)), labels.of("/", ("/x",), inner=(4,))
    (('x', 'x_2', 'anonymous_3'), ('x', 'bytes_4'))
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._names = {d.name for d in dataset.all_dimensions.values()}
        self._visible: dict[tuple[str, str], str] = {}

    def of(
        self, group: str, references: Sequence[DimensionRef], inner: tuple[int, ...] = ()
    ) -> tuple[str, ...]:
        """Return the labels of a variable of the group given; `inner` are the lengths of added dimensions."""
        labels: list[str] = []
        for reference in references:
            if isinstance(reference, int):
                labels.append(self._unique(f"anonymous_{reference}", labels))
                continue
            label = self._label(group, reference)
            labels.append(self._unique(label, labels) if label in labels else label)
        for length in inner:
            labels.append(self._unique(f"bytes_{length}", labels))
        return tuple(labels)

    def _label(self, group: str, reference: str) -> str:
        key = (group, reference)
        if key not in self._visible:
            name = split_fqn(reference)[1]
            nearest = self._dataset.find_dimension(name, group)
            if nearest != reference:
                # Hidden dimensions of one name are numbered by their order in the dataset.
                others = [d for d in self._dataset.all_dimensions if split_fqn(d)[1] == name and d != nearest]
                name = self._unique(f"{name}_hidden{others.index(reference) + 1}", ())
            self._visible[key] = name
        return self._visible[key]

    def _unique(self, label: str, taken: Sequence[str]) -> str:
        if label not in self._names and label not in taken:
            return label
        number = 2
        while f"{label}_{number}" in self._names or f"{label}_{number}" in taken:
            number += 1
        return f"{label}_{number}"

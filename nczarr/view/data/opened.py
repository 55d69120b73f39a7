"""Open a dataset of any format for viewing: its model for metadata, and the netCDF interface for values."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model
from nczarr.convert import open_source
from nczarr.display import shown_location
from nczarr.errors import error_context
from nczarr.netcdf4 import Dataset
from nczarr.view.data.fields import FieldSource, with_fields

if TYPE_CHECKING:
    from typing import Self


class OpenedDataset:
    """A dataset that is open for viewing.

    Values are masked and unpacked like in netCDF4-python. Only one thread at a time reads, because the HDF5 library is
    not thread-safe; the Zarr engine still reads the chunks of one request in parallel.

    Parameters
    ----------
    source : str, path, store or nczarr.model.Dataset
        Any source that :func:`nczarr.convert.open_source` opens.
    storage_options : mapping, optional
        Options for remote stores.

    Examples
    --------
    >>> from nczarr import cdl
    >>> text = "netcdf d { dimensions: x = 3; variables: short v(x); v:scale_factor = 0.5; data: v = 1, _, 3; }"
    >>> with OpenedDataset(cdl.loads(text)) as opened:
    ...     print(opened.read("/v", slice(None)))
    [0.5 -- 1.5]
    """

    def __init__(self, source: Any, storage_options: Mapping[str, Any] | None = None) -> None:
        self.name = source.name if isinstance(source, model.Dataset) else shown_location(str(source))
        self._lock = threading.RLock()
        self._stack = ExitStack()
        try:
            found = self._stack.enter_context(open_source(source, storage_options=storage_options))
            self.model = with_fields(found)
            self._values = Dataset(self.model)
            self._stack.callback(self._values.close)
        except BaseException:
            self._stack.close()
            raise

    def read(self, fqn: str, index: Any) -> np.ma.MaskedArray:
        """Read a selection of a variable, masked and unpacked.

        Raises
        ------
        NCZarrError
            If the values cannot be read.
        """
        with self._lock, error_context(fqn=fqn):
            return np.ma.asanyarray(self._find(fqn)[index])

    def _find(self, fqn: str) -> Any:
        """Return the variable of the netCDF interface. Its paths have no escapes, so look up name by name."""
        *groups, name = model.parse_fqn(fqn)
        group = self._values
        for part in groups:
            group = group.groups[part]
        return group.variables[name]

    def variable(self, fqn: str) -> model.Variable:
        """Return the variable at an FQN; raise :class:`nczarr.errors.ModelError` if there is none."""
        return self.model.variable_at(fqn)

    def shape(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return self.model.shape(self.variable(fqn))

    def chunk_shape(self, fqn: str) -> tuple[int, ...]:
        """Return the shape of the smallest part of a variable that can be read separately."""
        variable = self.variable(fqn)
        shape = self.model.shape(variable)
        if isinstance(variable.data, FieldSource):
            group = model.split_fqn(fqn)[0]
            outer = self.chunk_shape(model.join_fqn(group, variable.data.owner))
            return (*outer, *variable.data.sizes)
        array = getattr(variable.data, "array", None)
        inner = getattr(array, "inner_chunk_shape", None)
        if inner is not None and len(inner) >= len(shape):
            return tuple(inner[: len(shape)])
        if variable.storage.chunk_shape and variable.storage.layout in (None, "chunked"):
            return variable.storage.chunk_shape
        # Contiguous storage: rows along the last axis can be read separately.
        return (1,) * (len(shape) - 1) + shape[-1:]

    def close(self) -> None:
        """Close the dataset; closing it twice is allowed."""
        with self._lock:
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def text_attribute(variable: model.Variable, name: str) -> str:
    """Return the text of an attribute; empty if the attribute is missing or not text.

    Examples
    --------
    >>> v = model.Variable("v", model.INT, attributes=(model.Attribute.of("units", "K"),))
    >>> text_attribute(v, "units"), text_attribute(v, "long_name")
    ('K', '')
    """
    attribute = variable.attribute.get(name)
    if attribute is None or attribute.type not in (model.CHAR, model.STRING):
        return ""
    return attribute.text.strip("\0 ")


def long_name(variable: model.Variable) -> str:
    """Return the description of a variable: ``long_name``, ``standard_name`` or its name, in this order."""
    standard = text_attribute(variable, "standard_name").replace("_", " ")
    return text_attribute(variable, "long_name") or standard or variable.name


def number_attribute(variable: model.Variable, name: str, default: float) -> float:
    """Return the first value of a numeric attribute; `default` if there is none."""
    attribute = variable.attribute.get(name)
    if attribute is None or attribute.values.dtype.kind not in "iuf" or not attribute.values.size:
        return default
    return float(attribute.values[0])

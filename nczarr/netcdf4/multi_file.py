"""Join several datasets along a dimension: :class:`MFDataset` and :class:`MFTime`."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nczarr import errors
from nczarr.netcdf4.base import data_model_of
from nczarr.netcdf4.dataset import Dataset
from nczarr.netcdf4.values.attributes import lookup_in
from nczarr.netcdf4.values.indexing import parse_selection
from nczarr.netcdf4.variable import Variable


class MFDataset(Dataset):
    """Several datasets as one: variables whose first dimension is the joining dimension are concatenated.

    Attributes, other variables and groups are those of the master.

    Parameters
    ----------
    files : str or sequence
        A pattern, whose matches are sorted, or paths (or other targets of :class:`Dataset`) in order.
    check : bool
        Check that names, ranks, shapes and types agree.
    aggdim : str, optional
        The joining dimension; default: the unlimited dimension of the master.
    exclude : sequence of str
        Variables that are not joined.
    master_file : str, optional
        The master; default: the first.

    Raises
    ------
    StoreError
        If there are no files, nothing to join, or, with `check`, files do not agree.
    ArgumentError
        If the master is not one of the files.

    Examples
    --------
    >>> parts = [{}, {}]
    >>> for i, part in enumerate(parts):
    ...     with Dataset(part, "w") as ds:
    ...         t = ds.createDimension("t", None)
    ...         ds.createVariable("v", "i4", ("t",))[:] = [2 * i, 2 * i + 1]
    >>> MFDataset(parts).variables["v"][1:3].tolist()
    [1, 2]
    """

    __slots__ = ("_nc_arguments", "_nc_parts")

    _nc_arguments: tuple[object, ...]
    _nc_parts: list[Dataset]

    def __init__(
        self,
        files: str | Sequence[Any],
        check: bool = False,
        aggdim: str | None = None,
        exclude: Sequence[str] = (),
        master_file: object = None,
    ) -> None:
        self._nc_parts = []
        self._nc_arguments = (files, check, aggdim, exclude, master_file)
        # As in netCDF4-python, a text is a pattern, and its matches are sorted.
        if isinstance(files, str):
            from glob import glob

            files = sorted(glob(files))
        # The errors have netCDF4-python's words.
        if files is None or not len(files):
            raise errors.StoreError("no files specified (file list is empty)")
        if master_file is not None and master_file not in files:
            raise errors.ArgumentError("master_file not in files list")
        master = files[0] if master_file is None else master_file
        super().__init__(master)
        try:
            self._nc_parts = [self if f is master or f == master else Dataset(f) for f in files]
            self._nc_join(check, aggdim, frozenset(exclude), str(master))
        # A file that does not open must not leave the others open.
        except BaseException:
            self.close()
            raise

    def _nc_join(self, check: bool, aggdim: str | None, exclude: frozenset[str], master: str) -> None:
        own: dict[str, Any] = self.dimensions  # the master's dimensions, before joining
        names = [n for n, d in own.items() if (d.isunlimited() if aggdim is None else n == aggdim)]
        if not names:
            raise errors.StoreError(f"master dataset {master} does not have a aggregation dimension")
        # Of several unlimited dimensions, netCDF4-python takes the last one.
        joining = names[-1]
        candidates = [(n, v) for n, v in self.variables.items() if n not in exclude]
        joined = {n: v for n, v in candidates if v.dimensions[:1] == (joining,)}
        if not joined:
            raise errors.StoreError(f"master dataset {master} does not have any variables to aggregate")
        parts: dict[str, list[Variable]] = {name: [] for name in joined}
        lengths = []
        for part in self._nc_parts:
            if joining not in part.dimensions:
                raise errors.StoreError(f"there is no dimension {joining}", path=part.filepath())
            lengths.append(len(part.dimensions[joining]))
            for name, v in joined.items():
                parts[name].append(_counterpart(part, name, v, check))
        total: Any = _Dimension(joining, lengths)
        self._nc_dimensions = {n: total if n == joining else d for n, d in own.items()}
        shown: dict[str, Any] = {
            n: _Variable(self, v, parts[n], lengths) if n in joined else v for n, v in self.variables.items()
        }
        self._nc_variables = shown

    @property
    def data_model(self) -> Any:
        """The data model of each file."""
        return [data_model_of(part._nc_session) for part in self._nc_parts]

    file_format = data_model

    @property
    def disk_format(self) -> Any:
        """The format of each file in the store."""
        return [part._nc_session.stored.disk_format for part in self._nc_parts]

    def close(self, *, durable: bool | None = None) -> None:
        """Close all files."""
        for part in self._nc_parts:
            # The first file is this dataset itself.
            if part is not self:
                part.close()
        super().close()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._nc_arguments

    def isopen(self) -> bool:
        """True if all files are open."""
        return all(part._nc_session.is_open for part in self._nc_parts)

    def __repr__(self) -> str:
        if not self._nc_session.is_open:
            return "MFDataset object no longer valid"
        session = self._nc_session
        lines = ["<class 'nczarr.MFDataset'>"]
        lines.append(
            f"root group ({data_model_of(session)} data model, file format {session.stored.disk_format}):"
        )
        lines += [f"    {name}: {self.getncattr(name)}" for name in self.ncattrs()]
        lines.append(f"    dimensions = {tuple(self.dimensions)}")
        lines.append(f"    variables = {tuple(self.variables)}")
        lines.append("    groups = ()")
        return "\n".join(lines)

    __str__ = __repr__
    #: The HTML would show the first file only, so notebooks show the text.
    _repr_html_ = None  # type: ignore[assignment]


def _counterpart(part: Dataset, name: str, master: Variable, check: bool) -> Variable:
    """Return the variable of one file for a variable of the master."""
    path = part.filepath()
    found = part.variables.get(name)
    if found is None:
        error = errors.StoreError if check else errors.UnknownNameError
        raise error(f"aggregation variable {name} not defined in {path}")
    if check:
        for what, ours, theirs in (
            ("dimensions", master.dimensions, found.dimensions),
            ("shape", master.shape[1:], found.shape[1:]),
            ("data type", master.dtype, found.dtype),
        ):
            if ours != theirs:
                raise errors.StoreError(
                    f"variable {name} : {what} mismatch: {ours} in the master, {theirs} in {path}"
                )
    return found


class _Dimension:
    """The joining dimension, with the total length of all files."""

    def __init__(self, name: str, lengths: Sequence[int]) -> None:
        self.name = self._name = name
        self.dimlens = list(lengths)
        self.dimtotlen = sum(lengths)

    @property
    def size(self) -> int:
        """Total length."""
        return self.dimtotlen

    def __len__(self) -> int:
        return self.dimtotlen

    def isunlimited(self) -> bool:
        """Always True."""
        return True

    def __repr__(self) -> str:
        return f"\"<class 'nczarr._Dimension'>\" (unlimited): name = '{self._name}', size = {self.dimtotlen}"


class _Variable:
    """A variable over several files."""

    def __init__(
        self, dataset: MFDataset, master: Variable, parts: Sequence[Variable], lengths: Sequence[int]
    ) -> None:
        self._dset = self._grp = dataset
        self._mastervar = master
        self._recVar = list(parts)
        self._recLen = list(lengths)
        self.dimensions = master.dimensions
        self.dtype = master.dtype
        self._name = self.name = master.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape; the first axis covers all files."""
        return (sum(self._recLen), *self._mastervar.shape[1:])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    def typecode(self) -> object:
        """The dtype."""
        return self.dtype

    def ncattrs(self) -> list[str]:
        """Names of the master's attributes."""
        return self._mastervar.ncattrs()

    def __getattr__(self, name: str) -> Any:
        # pickle and copy ask for such names before the object has its fields.
        if name.startswith("_"):
            raise errors.NodeAttributeError(f"no attribute {name!r}")
        return self._mastervar.getncattr(name)

    def __len__(self) -> int:
        return self.shape[0]

    def _each(self, method: str, value: bool) -> None:
        for part in self._recVar:
            getattr(part, method)(value)

    def set_auto_chartostring(self, val: bool) -> None:
        """:meth:`Variable.set_auto_chartostring` in all files."""
        self._each("set_auto_chartostring", val)

    def set_auto_maskandscale(self, val: bool) -> None:
        """:meth:`Variable.set_auto_maskandscale` in all files."""
        self._each("set_auto_maskandscale", val)

    def set_auto_mask(self, val: bool) -> None:
        """:meth:`Variable.set_auto_mask` in all files."""
        self._each("set_auto_mask", val)

    def set_auto_scale(self, val: bool) -> None:
        """:meth:`Variable.set_auto_scale` in all files."""
        self._each("set_auto_scale", val)

    def set_always_mask(self, val: bool) -> None:
        """:meth:`Variable.set_always_mask` in all files."""
        self._each("set_always_mask", val)

    def __getitem__(self, elem: Any) -> Any:
        axes = parse_selection(elem, self.shape).axes
        items = elem if isinstance(elem, tuple) else (elem,)
        # netCDF4-python refuses it with these words.
        if any(isinstance(i, slice) and (i.step or 1) < 0 for i in items) and any(map(_is_backward, axes)):
            raise errors.SelectionError(
                "negative strides not allowed when slicing MFVariable Variable instance"
            )
        records = np.atleast_1d(np.asarray(axes[0], dtype=np.intp))
        rest = tuple(np.asarray(axis, np.intp) if isinstance(axis, range) else axis for axis in axes[1:])
        pieces, order, first = [], [], 0
        for part, length in zip(self._recVar, self._recLen, strict=True):
            here = np.flatnonzero((records >= first) & (records < first + length))
            if here.size:
                pieces.append(part[(records[here] - first, *rest)])
                order.append(here)
            first += length
        if not pieces:
            # An empty selection has the dtype and the mask of a full one.
            pieces = [self._recVar[0][(np.empty(0, np.intp), *rest)]]
            order = [np.empty(0, np.intp)]
        join: Any = np.ma.concatenate if any(map(np.ma.isMA, pieces)) else np.concatenate
        data = join(pieces)[np.argsort(np.concatenate(order))]
        if isinstance(axes[0], int):
            data = data[0]
        return np.ma.getdata(data) if np.ma.isMA(data) and not np.ma.getmaskarray(data).any() else data

    def __repr__(self) -> str:
        lines = ["<class 'nczarr._Variable'>", f"{self.dtype} {self._name}{self.dimensions}"]
        lines += [f"    {name}: {self._mastervar.getncattr(name)}" for name in self.ncattrs()]
        known = self._dset.dimensions
        unlimited = tuple(d for d in self.dimensions if d in known and known[d].isunlimited())
        lines += [f"unlimited dimensions = {unlimited!r}", f"current size = {self.shape!r}"]
        return "\n".join(lines)


def _is_backward(axis: object) -> bool:
    return isinstance(axis, range) and axis.step < 0 < len(axis) - 1


def _ratio(a: float, b: float) -> float:
    """Return the ratio of two units, as an integer if it is close to one."""
    ratio = a / b
    # From hours to days, the inverse is the whole number 24; a 24th would be rounded first.
    if ratio < 1:
        return 1 / _ratio(b, a)
    return round(ratio) if math.isclose(ratio, round(ratio)) else ratio


class MFTime:
    """Times of several files in common units.

    Parameters
    ----------
    time : variable of an MFDataset
    units : str, optional
        Default: the master's.
    calendar : str, optional
        Default: that of all files, which must be the same.

    Raises
    ------
    ArgumentError
        If no calendar is given, and files have no or different calendars.

    Examples
    --------
    >>> import os, tempfile
    >>> from nczarr import Dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> names = [os.path.join(folder.name, name) for name in ("a.nc", "b.nc")]
    >>> for name, year in zip(names, (2000, 2001)):
    ...     with Dataset(name, "w", format="NETCDF3_CLASSIC", storage="netcdf") as ds:
    ...         _ = ds.createDimension("time", None)
    ...         t = ds.createVariable("time", "f8", ("time",))
    ...         t.units, t.calendar = f"days since {year}-01-01", "standard"
    ...         t[:] = [0, 1]
    >>> with MFDataset(names) as ds:
    ...     MFTime(ds.variables["time"])[:].tolist()
    [0.0, 1.0, 366.0, 367.0]
    >>> folder.cleanup()
    """

    def __init__(self, time: _Variable, units: str | None = None, calendar: str | None = None) -> None:
        import cftime

        self._time = time
        if calendar is None:
            calendars = {lookup_in(part._nc_node)("calendar") for part in time._recVar}
            # Times of two calendars have no common unit.
            if None in calendars or len(calendars) > 1:
                raise errors.ArgumentError(
                    "MFTime requires that the time variable in all files have the same calendar attribute",
                    hint="give a calendar",
                )
            calendar = calendars.pop()
        self.calendar = calendar
        self.units = units or time._mastervar.getncattr("units")
        # Two units of one calendar are related by the numbers of two days.
        days = [datetime.datetime(1900, 1, 1), datetime.datetime(1900, 1, 2)]
        try:
            target = cftime.date2num(days, self.units, calendar)
            found = [cftime.date2num(days, part.getncattr("units"), calendar) for part in time._recVar]
        except ValueError as error:
            raise errors.ArgumentError(f"MFTime cannot convert the times: {error}") from error
        steps = [_ratio(target[1] - target[0], first[1] - first[0]) for first in found]
        shifts = [target[0] - step * first[0] for step, first in zip(steps, found, strict=True)]
        self._step = np.repeat(steps, time._recLen)
        shift = np.repeat(shifts, time._recLen)
        self._shift = shift.astype(time.dtype) if time.dtype.kind == "f" else shift

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise errors.NodeAttributeError(f"no attribute {name!r}")
        return getattr(self._time, name)

    def __len__(self) -> int:
        return len(self._time)

    def __getitem__(self, elem: Any) -> Any:
        values = self._time[elem]
        times = values if (self._step == 1).all() else values * self._step[elem]
        times = times + self._shift[elem]
        if values.dtype.kind not in "iu":
            return times
        with np.errstate(invalid="ignore"):
            same = times.astype(values.dtype)
        # Fractions, or many seconds, may not fit the variable's type.
        return same if np.array_equal(same, times) else times

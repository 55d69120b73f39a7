"""Open and create netCDF files of every format; those that are edited here are read as the editor has them."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from nczarr.errors import UnsupportedError
from nczarr.formats import CLASSIC, netcdf_format
from nczarr.model import Dataset, Dimension, DimensionRef, Group, Variable, join_fqn, long_names, resolve
from nczarr.netcdf.sink import FileSink


class _Closable(Protocol):
    def close(self) -> None: ...


@dataclass
class OpenFile:
    """A netCDF file that is open for reading; also a context manager.

    Attributes
    ----------
    path : str
    dataset : Dataset
        The model; its variables' data are read from the file when they are asked for.

    Examples
    --------
    >>> import os, tempfile
    >>> from nczarr.model import Dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "a.nc")
    >>> from nczarr.netcdf import create_dataset, open_dataset
    >>> with create_dataset(path, Dataset("a", format="classic")) as sink:
    ...     sink.commit()
    >>> with open_dataset(path) as file:
    ...     file.dataset.name
    'a'
    >>> folder.cleanup()
    """

    path: str
    dataset: Dataset
    _file: _Closable = field(repr=False)

    def close(self) -> None:
        """Close the file. The variables' data cannot be read any more; closing twice does no harm."""
        self._file.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_dataset(path: str | os.PathLike[str]) -> OpenFile:
    """Open a netCDF file of any format: CDF-1, CDF-2, CDF-5, netCDF-4, or an HDF5 file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    OpenFile
        Its ``dataset`` has everything that the file has, in order; values are read when they are asked for,
        from any thread.

    Raises
    ------
    DatasetNotFoundError
        If there is no such file.
    NetCDFFileError
        If it is not a netCDF file, is damaged, or has something that netCDF has no place for.
    UnsupportedError
        If the file is HDF5 and h5py is not installed.

    Examples
    --------
    >>> from nczarr.model import Attribute
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> create_dataset(path, Dataset("a", attributes=(Attribute.of("title", "T"),), format="classic")).commit()
    >>> with open_dataset(path) as file:
    ...     file.dataset.attribute["title"].text
    'T'
    """
    path = os.fspath(path)
    name = Path(path).stem
    format_ = netcdf_format(path)
    if format_ == "hdf5":
        from nczarr.netcdf.hdf5 import HDF5File, read_hdf5

        editor = editor_of(path)
        file = HDF5File.open(path) if editor is None else editor.reopened()
        try:
            return OpenFile(path, read_hdf5(file, name), file)
        except BaseException:
            file.close()
            raise
    from nczarr.netcdf.classic import ClassicFile, read_classic

    classic = ClassicFile.open(path)
    try:
        return OpenFile(path, read_classic(classic, name), classic)
    except BaseException:
        classic.close()
        raise


def create_dataset(
    path: str | os.PathLike[str], dataset: Dataset, *, overwrite: bool = False, format: str | None = None
) -> FileSink:
    """Start to write a netCDF file: all metadata at once, the values region by region through the sink.

    Parameters
    ----------
    path : path-like
    dataset : Dataset
        Its variables' data are not looked at, only their shapes. Anonymous dimensions get names as netCDF's
        library gives them: ``phony_dim_0`` …
    overwrite : bool
        Replace an existing file, when the new one is complete.
    format : str, optional
        ``netCDF-4``, ``netCDF-4 classic model``, ``classic``, ``64-bit offset`` or ``cdf5``; the dataset's own
        ``format``, or else ``netCDF-4``.

    Returns
    -------
    FileSink
        Call its ``commit`` when all is written; until then there is only a temporary file beside the target.

    Raises
    ------
    DatasetExistsError
        If the file exists and `overwrite` is false, or a directory is there.
    LossError
        If the format cannot hold the dataset; the message names what.
    ModelError
        If the dataset breaks a rule of the model.
    UnsupportedError
        If the format is unknown, or a filter is not available, or h5py is needed and not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from nczarr.model import INT, Dimension, Variable
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.nc"
    >>> ds = Dataset("a", dimensions=(Dimension("x", 3),), variables=(Variable("v", INT, ("/x",)),))
    >>> with create_dataset(path, ds) as sink:
    ...     sink.write("/v", (slice(0, 2),), np.array([1, 2], "i4"))
    ...     sink.commit()
    >>> with open_dataset(path) as file:
    ...     print(file.dataset.variable_at("/v").data.read((slice(0, 3),)).tolist())
    [1, 2, -2147483647]
    """
    path = os.fspath(path)
    format = format or dataset.format or "netCDF-4"
    dataset = name_anonymous(resolve(dataset))
    for fqn, wrong in long_names(dataset):
        raise UnsupportedError(
            f"a netCDF file cannot have this name: {wrong}",
            path=path,
            fqn=fqn if len(fqn) < 80 else f"{fqn[:80]}…",
            hint="--rename, in Python rename=, gives it another one",
        )
    if format in CLASSIC.values():
        from nczarr.netcdf.classic import ClassicSink

        return ClassicSink(path, dataset, overwrite, format)
    if format not in ("netCDF-4", "netCDF-4 classic model"):
        raise UnsupportedError(
            f"there is no netCDF format {format!r}",
            path=path,
            hint="one of netCDF-4, netCDF-4 classic model, classic, 64-bit offset, cdf5",
        )
    from nczarr.netcdf.hdf5 import HDF5Sink

    strict = format == "netCDF-4 classic model"
    if strict:
        from nczarr.netcdf.classic import refuse_losses

        refuse_losses(path, dataset, format)
    return HDF5Sink(path, dataset, overwrite, strict=strict)


# Here and not with the editors: whoever opens a file asks, and need not load what edits it.
_edited: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


def remember_editor(path: str, editor: Any) -> None:
    """Note who edits a file."""
    found = os.stat(path)
    _edited[found.st_dev, found.st_ino] = editor


def forget_editor(editor: Any) -> None:
    """Note that somebody edits no more."""
    for key in [key for key, held in list(_edited.items()) if held is editor]:
        _edited.pop(key, None)


def editor_of(path: str) -> Any:
    """Who edits a file here; None if nobody does. A forked child has no part in what its parent edits."""
    if not _edited:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    editor = _edited.get((found.st_dev, found.st_ino))
    return editor if editor is not None and editor.process == os.getpid() else None


_G = TypeVar("_G", bound=Group)


def name_anonymous(dataset: Dataset) -> Dataset:
    """Put a dimension ``phony_dim_<n>`` in the place of every anonymous one, as netCDF's library does on reading.

    Variables of one group share dimensions of one size; inside a variable each axis has its own.

    Examples
    --------
    >>> from nczarr.model import INT
    >>> made = name_anonymous(Dataset("d", variables=(Variable("v", INT, (2, 2)), Variable("w", INT, (2,)))))
    >>> [d.name for d in made.dimensions], made.variables[0].dimensions, made.variables[1].dimensions
    (['phony_dim_0', 'phony_dim_1'], ('/phony_dim_0', '/phony_dim_1'), ('/phony_dim_0',))
    """
    if not any(isinstance(d, int) for v in dataset.all_variables.values() for d in v.dimensions):
        return dataset
    return _group("/", dataset)


def _group(fqn: str, group: _G) -> _G:
    taken = {d.name for d in group.dimensions} | {v.name for v in group.variables}
    taken |= {t.name for t in group.types} | {g.name for g in group.groups}
    made: list[Dimension] = []

    def named(variable: Variable) -> Variable:
        references: list[DimensionRef] = []
        for reference in variable.dimensions:
            if isinstance(reference, int):
                fit = (join_fqn(fqn, d.name) for d in made if d.size == reference)
                found = next((name for name in fit if name not in references), None)
                reference = found or new(reference)
            references.append(reference)
        return replace(variable, dimensions=tuple(references))

    def new(size: int) -> str:
        number = 0
        while f"phony_dim_{number}" in taken:
            number += 1
        made.append(Dimension(f"phony_dim_{number}", size))
        taken.add(made[-1].name)
        return join_fqn(fqn, made[-1].name)

    variables = tuple(named(v) for v in group.variables)
    return replace(
        group,
        variables=variables,
        dimensions=(*group.dimensions, *made),
        groups=tuple(_group(join_fqn(fqn, g.name), g) for g in group.groups),
    )

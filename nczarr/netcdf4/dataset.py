"""Define the classes of datasets and groups."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import DTypeLike

from nczarr import errors
from nczarr.compression import AskedCodecs
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, NCZarrError
from nczarr.formats import local_path, storage_of
from nczarr.model import normalize_name
from nczarr.model.paths import join_path, spell, split_path, unspell
from nczarr.netcdf4 import declarations
from nczarr.netcdf4.base import AttributeOwner, Named, data_model_of, member, reference_to
from nczarr.netcdf4.compatibility import DATA_MODELS, FORMAT_OF_MODEL, get_chunk_cache
from nczarr.netcdf4.compatibility import storage as storage_rule
from nczarr.netcdf4.declarations import CompoundType, Dimension, EnumType, OpaqueType, VLType
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.opening import Opening, check_encoding
from nczarr.netcdf4.paths import name_of, split_object_path
from nczarr.netcdf4.variable import Variable
from nczarr.rooms import Door
from nczarr.session import GroupNode, Session, kept_name
from nczarr.system.finalizing import close_dropped, close_with
from nczarr.targets import allowing
from nczarr.text import did_you_mean, visible
from nczarr.transfer import MEMORY, NoProgress, blocks_of, transfer

if TYPE_CHECKING:
    from nczarr import netcdf
    from nczarr.mapping import WriteOptions
    from nczarr.netcdf4 import html
else:
    html, netcdf = Door("nczarr.netcdf4.html"), Door("nczarr.netcdf")

#: Datasets open for writing.
_OPEN: weakref.WeakValueDictionary[int, Dataset] = weakref.WeakValueDictionary()


def _writers_at(path: Path | None) -> list[Session]:
    """Return the sessions that this process has open for writing at a path."""
    # For a NUL, realpath would raise an error of its own.
    if path is None or not _OPEN or "\0" in str(path):
        return []
    place = os.path.realpath(path)
    found = [(str(ds._nc_origin["filename"]), ds._nc_session) for ds in list(_OPEN.values())]
    return [
        s for name, s in found if s.is_open and not s.rules.is_inherited and os.path.realpath(name) == place
    ]


class Dataset(AttributeOwner):
    """A dataset with netCDF4-python's interface, which reads and writes.

    The frozen model of a dataset, which :func:`nczarr.open` gives, is :class:`nczarr.model.Dataset`.

    Parameters
    ----------
    filename : str, PathLike, mapping, store, or model dataset
        A path of a netCDF file, a path or URL of a Zarr hierarchy, anything that
        :func:`nczarr.mapping.open_dataset` opens, or, for reading, a URL of a netCDF file or a
        :class:`nczarr.model.Dataset`.
    mode : {'r', 'w', 'x', 'a', 'r+'}
        Read; create, and replace an existing dataset; create, but never replace; read and write. A trailing ``s`` is
        ignored.
    clobber : bool
        False: mode ``w`` replaces nothing.
    format : str
        Data model of a new dataset: ``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``,
        ``NETCDF3_64BIT_OFFSET``, ``NETCDF3_64BIT_DATA``. For Zarr it is a label.
    diskless, persist : bool
        Keep everything in memory; with `persist`, write it to `filename` on close.
    keepweakref : bool
        Objects of the dataset hold weak references to their groups, so a dataset without references is closed.
    memory : bytes-like or int, optional
        Mode ``r``: a zip archive of a Zarr hierarchy, or a netCDF file. Mode ``w``: create a netCDF file or an
        archive in memory, depending on the name. :meth:`close` returns it.
    encoding : str, optional
        Accepted; names of files are Unicode.
    parallel, comm, info
        Parallel access is not available: `parallel` must be False.
    auto_complex : bool
        Accept and return complex numbers. They are stored as compounds of a real and an imaginary part, in netCDF-3
        models as pairs along a dimension, as in netCDF4-python.
    storage_options : dict, optional
        For remote stores.
    allow : str or sequence of str
        Paths and URLs below which references (of kerchunk, or the virtual chunks of an Icechunk repository) may read
        files. They always may read files beside them.
    options : nczarr.mapping.WriteOptions, optional
        The layout of a new dataset. By default, variables without filters are not compressed.
    shared : bool
        Mode ``a`` or ``r+``: other processes that also set it may write to the same dataset. Only values can be
        written then, and no two processes may write the same values. A process that stores a part of a chunk waits for
        the others; whole chunks need no waiting. Where the file system has no locks, no two processes may write to the
        same chunk.
    storage : {'zarr', 'netcdf'}, optional
        The storage of a new dataset. Default: by its name, a netCDF file for ``.nc``, ``.nc4``, ``.cdf``, ``.h5`` …
        (:func:`nczarr.formats.storage_of`), Zarr for all others. An existing dataset keeps its storage.
    isolated : bool, optional
        Mode ``r``, a netCDF file: read it in a child process, so that a damaged file that crashes the HDF5 library,
        or keeps it busy for ever, is an error. Default: as the setting ``NCZARR_ISOLATED`` says. Nothing else needs
        it.
    durable : bool, optional
        On local disks, :meth:`sync` and :meth:`close` return when the disk has all data, and a file is replaced after
        its successor is on the disk. So a loss of power leaves the state of the last call. This is the default. False
        is faster, but a loss of power may then damage the dataset.
    wait : float, default 0
        Seconds to wait while other writers have the dataset open.
    **kwargs
        Ignored, as netCDF4-python does.

    Raises
    ------
    DatasetNotFoundError
        If the dataset does not exist (also a :class:`FileNotFoundError`).
    DatasetExistsError
        If the dataset exists and must not be replaced (also a :class:`FileExistsError`).
    LockedError
        If another writer has it open, and still has after `wait` seconds (also a :class:`PermissionError`).
    ArgumentError
        For an unknown mode or format, or an unavailable feature.

    Examples
    --------
    >>> import numpy as np
    >>> target = {}
    >>> with Dataset(target, "w") as ds:
    ...     ds.title = "example"
    ...     time = ds.createDimension("time", None)
    ...     v = ds.createVariable("t", "f8", ("time",))
    ...     v[:] = [0.5, 1.5]
    >>> with Dataset(target) as ds:
    ...     print(ds.title, ds["t"][1:], ds.dimensions["time"].isunlimited())
    example [1.5] True
    """

    __slots__ = (
        "__weakref__",
        "_nc_dimensions",
        "_nc_groups",
        "_nc_origin",
        "_nc_parent",
        "_nc_path",
        "_nc_variables",
        "_nc_weak",
    )

    _nc_node: GroupNode
    #: The arguments of the opening.
    _nc_origin: dict[str, Any]
    _nc_parent: Dataset | None
    _nc_path: str
    _nc_weak: bool
    # The objects of the nodes inside, created on first use.
    _nc_dimensions: dict[str, Dimension] | None
    _nc_groups: dict[str, Group] | None
    _nc_variables: dict[str, Variable] | None

    def __init__(
        self,
        filename: Any,
        mode: str = "r",
        clobber: bool = True,
        format: str = "NETCDF4",
        diskless: bool = False,
        persist: bool = False,
        keepweakref: bool = False,
        memory: Any = None,
        encoding: str | None = None,
        parallel: bool = False,
        comm: object = None,
        info: object = None,
        auto_complex: bool = False,
        *,
        storage_options: dict[str, Any] | None = None,
        allow: str | Sequence[str] = (),
        options: WriteOptions | None = None,
        shared: bool = False,
        storage: str | None = None,
        isolated: bool | None = None,
        durable: bool | None = None,
        wait: float = 0,
        **kwargs: object,
    ) -> None:
        check_encoding(encoding)
        storage_options = allowing(storage_options, allow)
        path = local_path(filename)
        # A program opens again what it has dropped: the writer stores its values first.
        if memory is None and (writers := _writers_at(path)):
            gc.collect()  # closes datasets without references now
            for writer in writers if mode in ("r", "rs") else ():  # the reader sees what they have written
                with suppress(NCZarrError, OSError):  # the writer gets the error at its next call
                    writer.sync(durable=False)
        session = Opening(
            filename, mode, clobber, format, diskless, persist, memory, parallel, storage_options, options,
            shared, storage, isolated, wait
        ).open()  # fmt: skip
        session.cache.bound = get_chunk_cache()[0]
        session.auto_complex = bool(auto_complex)
        if durable is not None and session.writable:
            session.stored.durable = durable
        self._nc_origin = {
            "filename": filename if path is None else str(path.absolute()),
            "keepweakref": keepweakref,
            "memory": memory,
            "auto_complex": auto_complex,
            "storage_options": storage_options,
            "isolated": isolated,
        }
        self._nc_bind(session, session.root, None, weak=keepweakref)
        if session.writable:
            _OPEN[id(self)] = self  # a subclass may have no hash
        close_with(self, session, at_exit=session.writable)

    def _nc_bind(self, session: Session, node: GroupNode, parent: Dataset | None, *, weak: bool) -> None:
        self._nc_session = session
        self._nc_node = node
        self._nc_weak = weak
        self._nc_parent = None if parent is None else reference_to(parent)
        self._nc_path = node.name if parent is None else join_path([*split_path(parent.path), node.name])
        self._nc_ncstring = parent._nc_ncstring if parent is not None else False
        self._nc_dimensions = self._nc_groups = self._nc_variables = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments; unpickling opens the dataset again."""
        session = self._nc_session
        # Two processes would write one dataset.
        if session.writable or not session.is_open:
            state = "open for writing" if session.is_open else "closed"
            raise errors.also(errors.UnsupportedError, NotImplementedError)(
                f"{type(self).__name__} is not picklable: it is {state}", path=session.name
            )
        return reopened, (type(self), self._nc_origin)

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, *, durable: bool | None = None) -> memoryview | None:
        """Write all changes, and close.

        Parameters
        ----------
        durable : bool, optional
            Wait for the disk; default: as the dataset was opened.

        Returns
        -------
        memoryview or None
            The netCDF file or zip archive, if the dataset was created with `memory`.

        Raises
        ------
        EditError
            If the dataset is closed.
        """
        _OPEN.pop(id(self), None)
        try:
            return self._nc_session.close(durable=durable)
        finally:
            close_dropped()

    # -- the tree ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, Group]:
        """Groups by name."""
        return self._nc_show("group", Group) if self._nc_groups is None else self._nc_groups

    @property
    def dimensions(self) -> dict[str, Dimension]:
        """Dimensions by name."""
        return self._nc_show("dimension", Dimension) if self._nc_dimensions is None else self._nc_dimensions

    @property
    def variables(self) -> dict[str, Variable]:
        """Variables by name."""
        return self._nc_show("variable", Variable) if self._nc_variables is None else self._nc_variables

    def _nc_show(self, kind: str, cls: Any) -> dict[str, Any]:
        """Create the objects of the nodes of a kind; another thread may have done it."""
        with self._nc_session.tree.lock:
            found: dict[str, Any] | None = getattr(self, f"_nc_{kind}s")
            if found is None:
                nodes = getattr(self._nc_node, f"{kind}s").items()
                found = Named(kind, {name: cls._nc_of(self, node) for name, node in nodes})
                setattr(self, f"_nc_{kind}s", found)
            return found

    def _nc_types_of(self, kind: type[declarations.UserDefinedType]) -> dict[str, Any]:
        shown = [declarations.shown_type(node) for node in self._nc_node.types]
        return {str(t.name): t for t in shown if isinstance(t, kind)}

    @property
    def cmptypes(self) -> dict[str, CompoundType]:
        """Compound types by name."""
        return self._nc_types_of(CompoundType)

    @property
    def vltypes(self) -> dict[str, VLType]:
        """Variable-length types by name."""
        return self._nc_types_of(VLType)

    @property
    def enumtypes(self) -> dict[str, EnumType]:
        """Enum types by name."""
        return self._nc_types_of(EnumType)

    @property
    def opaquetypes(self) -> dict[str, OpaqueType]:
        """Opaque types by name (not in netCDF4-python)."""
        return self._nc_types_of(OpaqueType)

    @property
    def parent(self) -> Dataset | None:
        """The group above; None at the root."""
        return self._nc_parent

    @property
    def path(self) -> str:
        """The path of the group, with slashes."""
        return self._nc_path

    @property
    def name(self) -> str:
        """The simple name; ``/`` for the root."""
        self._nc_session.rules.check_open()
        return self._nc_node.name

    @property
    def data_model(self) -> str:
        """``NETCDF4``, ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``, …"""
        return data_model_of(self._nc_session)

    file_format = data_model

    @property
    def disk_format(self) -> str:
        """The format in the store: ``ZARR``, ``HDF5`` or ``NETCDF3``."""
        return self._nc_session.stored.disk_format

    @property
    def keepweakref(self) -> bool:
        """True if the objects of the dataset hold weak references to their groups."""
        return self._nc_weak

    @property
    def auto_complex(self) -> bool:
        """True if the program sees compounds of a real and an imaginary part as complex numbers."""
        return self._nc_session.auto_complex

    @property
    def __orthogonal_indexing__(self) -> bool:
        return True

    # -- finding -----------------------------------------------------------------------------------------

    # Most paths are those of variables. A union with Group would make type checkers refuse every use of either.
    def __getitem__(self, elem: str) -> Variable:
        directory, last = split_object_path(elem)
        group: Any = self
        for name in directory:
            # netCDF4-python raises a KeyError for a group on the way, and an IndexError for the last name.
            if name not in group.groups:
                raise errors.UnknownNameError(
                    f"there is no group {name!r} in {group.path}", hint=did_you_mean(name, group.groups)
                )
            group = group.groups[name]
        # In netCDF4-python, a group wins over a variable of the same name.
        if last in group.groups:
            return cast(Variable, group.groups[last])
        if last in group.variables:
            return cast(Variable, group.variables[last])
        names = [*group.groups, *group.variables]
        raise errors.SelectionError(f"{last} not found in {group.path}", hint=did_you_mean(last, names))

    def _ipython_key_completions_(self) -> list[str]:
        inside = [f"{name}/{key}" for name, g in self.groups.items() for key in g._ipython_key_completions_()]
        return [*self.variables, *self.groups, *inside]

    def __iter__(self) -> NoReturn:
        # As in netCDF4-python. Python would ask for the variables 0, 1, … else.
        raise errors.ArgumentTypeError(
            f"{type(self).__name__} is not iterable. Consider iterating on Dataset.variables."
        )

    def __contains__(self, key: object) -> NoReturn:
        raise errors.ArgumentTypeError(
            f"{type(self).__name__} does not support membership operations. "
            "Perhaps try 'varname in dataset.variables' or 'dimname in dataset.dimensions'."
        )

    def get_variables_by_attributes(self, **kwargs: object) -> list[Variable]:
        """Return the variables of this group whose attributes have given values, or satisfy given functions.

        Parameters
        ----------
        **kwargs
            A value, or a function of the value (None if the attribute is missing) that returns True or False.
        """

        def fits(variable: Variable, key: str, requested: object) -> bool:
            value = getattr(variable, key, None)
            # As in netCDF4-python, a function selects by True alone: other true values are no answer.
            if callable(requested):
                return requested(value) is True
            return value is not None and bool(np.all(value == requested))

        variables = self.variables.values() if kwargs else ()
        return [v for v in variables if all(fits(v, key, requested) for key, requested in kwargs.items())]

    # -- making ------------------------------------------------------------------------------------------

    def createDimension(self, dimname: str, size: int | None = None) -> Dimension:
        """Create a dimension.

        Parameters
        ----------
        dimname : str
        size : int, optional
            None (the default) or 0: unlimited.

        Returns
        -------
        Dimension

        Raises
        ------
        EditError
            If the name is in use or invalid, the size exceeds the data model's limit, or the dataset is read-only.
        RangeError
            If the size is negative, or has more than 63 bits.
        ArgumentTypeError
            If the size is not a number.
        """
        return Dimension(self, dimname, size)

    def createGroup(self, groupname: str) -> Group:
        """Create a group with all groups of its path, or return the existing group.

        Parameters
        ----------
        groupname : str
            A name, or a path below this group, such as ``run1/ocean``.

        Returns
        -------
        Group

        Raises
        ------
        EditError
            If the name is in use or invalid, or the dataset is read-only or has a classic data model.
        ArgumentTypeError
            If the name is not text.
        """
        if not isinstance(groupname, str):
            raise errors.ArgumentTypeError(f"the name of a group is text, not {groupname!r}")
        group: Any = self
        directory, last = split_object_path(groupname)
        for name in filter(None, [*directory, last]):
            with (
                self._nc_session.tree.lock
            ):  # no other thread can create the group between lookup and creation
                known = group.groups.get(normalize_name(name))
                group = Group(group, spell(name)) if known is None else known
        return group

    def createVariable(
        self,
        varname: str,
        datatype: declarations.UserDefinedType | type[str] | DTypeLike,
        dimensions: str | bytes | Dimension | Sequence[str | bytes | Dimension] = (),
        compression: AskedCodecs | None = None,
        zlib: bool = False,
        complevel: int | None = 4,
        shuffle: bool = True,
        szip_coding: str = "nn",
        szip_pixels_per_block: int = 8,
        blosc_shuffle: int = 1,
        fletcher32: bool = False,
        contiguous: bool = False,
        chunksizes: Sequence[int] | None = None,
        endian: str = "native",
        least_significant_digit: int | None = None,
        significant_digits: int | None = None,
        quantize_mode: str = "BitGroom",
        fill_value: object = None,
        chunk_cache: int | None = None,
        shards: Sequence[int] | str | None = None,
    ) -> Variable:
        """Create a variable.

        Parameters
        ----------
        varname : str
            With slashes, the groups of the path are created.
        datatype : dtype-like, str, CompoundType, VLType or EnumType
        dimensions : sequence of (str or Dimension)
            A name is looked up in this group and those above. Empty: a scalar.
        compression : str, mapping, object, or sequence of these, optional
            ``zlib``, ``zstd``, ``bzip2``, ``blosc_lz``, ``blosc_lz4``, ``blosc_lz4hc``, ``blosc_zlib``,
            ``blosc_zstd``, ``szip``. No Zarr codec is szip: what is stored is compressed with zstd, and is szip again
            in netCDF files. For Zarr also one or several codecs: a name (``"lz4"``, ``"gzip:6"``), the JSON
            ``{"name": …, "configuration": …}``, or an object of zarr-python or numcodecs; ``"none"`` or ``[]`` stores
            the values uncompressed. `complevel`, `shuffle` and `blosc_shuffle` do not apply to them.
        zlib, complevel, shuffle, blosc_shuffle, fletcher32
            Settings of the filters.
        szip_coding, szip_pixels_per_block
            Settings of szip: ``nn`` or ``ec``, and an even number up to 32.
        contiguous, chunksizes
            Layout; 0 in `chunksizes` means the default.
        endian : {'native', 'little', 'big'}
            Byte order in the store.
        least_significant_digit : int, optional
            Decimal digit to which values are rounded on writing.
        significant_digits, quantize_mode
            Quantisation of floats on writing.
        fill_value
            ``_FillValue``; None: the default fill value without an attribute; False: elements are not filled;
            ``'default'``: the default fill value as an attribute.
        chunk_cache : int, optional
            Limit of the bytes of decoded chunks of this variable, within the limit of the dataset.
        shards : sequence of int or 'auto', optional
            Lengths of a shard, an object that packs whole chunks: multiples of the chunk lengths. ``'auto'``: about
            64 MiB, and none if one chunk is enough. Chunks that `chunksizes` does not give divide the shard. Only on
            Zarr v3.

        Returns
        -------
        Variable

        Raises
        ------
        EditError, ArgumentError, ArgumentTypeError, NodeAttributeError
            As netCDF4-python raises the builtin exceptions.
        """
        varname = kept_name(varname)
        directory, last = split_object_path(varname)
        group: Any = self.createGroup(join_path(directory)) if directory else self
        # netCDF4-python takes a single dimension without a tuple.
        if isinstance(dimensions, str | bytes | Dimension):
            dimensions = (dimensions,)
        found = tuple(d if isinstance(d, Dimension) else find_dimension(group, d) for d in dimensions)
        return Variable(
            group, spell(last), datatype, found, compression, zlib, complevel, shuffle, szip_coding,
            szip_pixels_per_block, blosc_shuffle, fletcher32, contiguous, chunksizes, endian,
            least_significant_digit, significant_digits, quantize_mode, fill_value, chunk_cache, shards
        )  # fmt: skip

    def createCompoundType(self, datatype: DTypeLike, datatype_name: str) -> CompoundType:
        """Create a compound type from a structured dtype.

        Parameters
        ----------
        datatype : dtype
            Structured; nested compounds are types of this dataset.
        datatype_name : str

        Returns
        -------
        CompoundType
            Its documentation lists the errors.
        """
        return CompoundType(self, datatype, datatype_name)

    def createVLType(self, datatype: DTypeLike, datatype_name: str) -> VLType:
        """Create a variable-length type.

        Parameters
        ----------
        datatype : dtype
            The type of the elements of each sequence.
        datatype_name : str

        Returns
        -------
        VLType
            Its documentation lists the errors.
        """
        return VLType(self, datatype, datatype_name)

    def createEnumType(
        self, datatype: DTypeLike, datatype_name: str, enum_dict: Mapping[str, int]
    ) -> EnumType:
        """Create an enum type.

        Parameters
        ----------
        datatype : dtype
            The integer type of the values.
        datatype_name : str
        enum_dict : mapping of str to int
            Names and values of the members, in order.

        Returns
        -------
        EnumType
            Its documentation lists the errors.
        """
        return EnumType(self, datatype, datatype_name, enum_dict)

    # -- renaming ----------------------------------------------------------------------------------------

    def renameDimension(self, oldname: str, newname: str) -> None:
        """Rename a dimension of this group; it moves to the end of :attr:`dimensions`.

        Parameters
        ----------
        oldname, newname : str

        Raises
        ------
        UnknownNameError
            If `oldname` does not exist.
        EditError
            If `newname` exists, or the dataset is read-only.
        """
        self._nc_rename("dimension", oldname, newname)

    def renameVariable(self, oldname: str, newname: str) -> None:
        """Rename a variable of this group; it moves to the end of :attr:`variables`.

        Parameters
        ----------
        oldname, newname : str

        Raises
        ------
        UnknownNameError
            If `oldname` does not exist.
        EditError
            If `newname` exists, or the dataset is read-only.
        """
        node = self._nc_rename("variable", oldname, newname)
        if node.stored_as is not None:
            self._nc_session.flush()

    def renameGroup(self, oldname: str, newname: str) -> None:
        """Rename a group of this group; it moves to the end of :attr:`groups`.

        The attribute :attr:`path` of the group's object keeps the old name, as in netCDF4-python.

        Parameters
        ----------
        oldname, newname : str

        Raises
        ------
        UnknownNameError
            If `oldname` does not exist.
        EditError
            If `newname` exists, or the dataset is read-only.
        """
        self._nc_rename("group", oldname, newname)
        self._nc_session.flush()

    def _nc_rename(self, kind: str, oldname: str, newname: str) -> Any:
        """Rename a node, whose object moves to the end, and return it."""
        with self._nc_session.tree.lock:
            shown = getattr(self, f"{kind}s")
            oldname = unspell(oldname, shown) if isinstance(oldname, str) else oldname
            node = getattr(self._nc_node, f"rename_{kind}")(oldname, name_of(newname, kind))
            shown[node.name] = shown.pop(oldname)
        return node

    # -- settings ----------------------------------------------------------------------------------------

    def _nc_each(self, method: str, value: bool) -> None:
        for inside in (*self.variables.values(), *self.groups.values()):
            getattr(inside, method)(value)

    def set_auto_mask(self, value: bool) -> None:
        """Call :meth:`Variable.set_auto_mask` of all variables in this group and the groups below it.

        Parameters
        ----------
        value : bool
        """
        self._nc_each("set_auto_mask", value)

    def set_auto_scale(self, value: bool) -> None:
        """Call :meth:`Variable.set_auto_scale` of all variables in this group and the groups below it.

        Parameters
        ----------
        value : bool
        """
        self._nc_each("set_auto_scale", value)

    def set_auto_maskandscale(self, value: bool) -> None:
        """Call :meth:`Variable.set_auto_maskandscale` of all variables in this group and the groups below it.

        Parameters
        ----------
        value : bool
        """
        self._nc_each("set_auto_maskandscale", value)

    def set_always_mask(self, value: bool) -> None:
        """Call :meth:`Variable.set_always_mask` of all variables in this group and the groups below it.

        Parameters
        ----------
        value : bool
        """
        self._nc_each("set_always_mask", value)

    def set_auto_chartostring(self, value: bool) -> None:
        """Call :meth:`Variable.set_auto_chartostring` of all variables in this group and the groups below it.

        Parameters
        ----------
        value : bool
        """
        self._nc_each("set_auto_chartostring", value)

    def set_ncstring_attrs(self, value: bool) -> None:
        """Store text attributes as netCDF strings in this group and below, also in variables created later.

        Parameters
        ----------
        value : bool
            False: as characters, where the text is ASCII (the default).
        """
        self._nc_ncstring = bool(value)
        self._nc_each("set_ncstring_attrs", value)

    def set_fill_on(self) -> None:
        """Fill variables created from now on (the default)."""
        self._nc_session.rules.check_writable()
        self._nc_session.fill = True

    def set_fill_off(self) -> None:
        """Do not fill variables created from now on; unwritten values are undefined."""
        self._nc_session.rules.check_writable()
        self._nc_session.fill = False

    def has_blosc_filter(self) -> bool:
        """True: blosc, zstd and bzip2 are available; netCDF files use szip, and Zarr records it."""
        return True

    has_zstd_filter = has_bzip2_filter = has_szip_filter = has_blosc_filter

    # -- the dataset as a whole --------------------------------------------------------------------------

    def filepath(self, encoding: str | None = None) -> str:
        """Return the name of the dataset at its opening.

        Parameters
        ----------
        encoding : str, optional
            An encoding of file names that Python has, without effect; default: None.

        Raises
        ------
        EditError
            If the dataset is closed.
        """
        self._nc_session.rules.check_open()
        check_encoding(encoding)
        return self._nc_session.name

    def isopen(self) -> bool:
        """True until the dataset is closed; False if its ``__init__`` failed."""
        session: Session | None = getattr(self, "_nc_session", None)
        return session is not None and session.is_open

    def sync(self, *, durable: bool | None = None) -> None:
        """Write all changes; of a reader: adopt the lengths and values that are stored now.

        On Zarr, a new length of a dimension replaces the document of each variable with that dimension, since stock
        readers must see equal lengths: 400 variables cost 400 files. To pay less, write a step of all variables before
        one call, or put variables that grow apart into groups with dimensions of their own.

        Parameters
        ----------
        durable : bool, optional
            Wait for the disk; default: as the dataset was opened. False leaves the data in the caches of the
            operating system, as netCDF-C does.
        """
        self._nc_session.sync(durable=durable)
        close_dropped()

    def __repr__(self) -> str:
        session = self._nc_session
        if not session.is_open:
            return f"{type(self).__name__} object no longer valid"
        lines = [f"<class 'nczarr.{type(self).__name__}'>"]
        if self._nc_parent is None:
            lines.append(f"root group ({self.data_model} data model, file format {self.disk_format}):")
        else:
            lines.append(f"group {self.path}:")
        lines += [f"    {name}: {self.getncattr(name)}" for name in self.ncattrs()]
        sizes = ", ".join(f"{d.name}({d.size})" for d in list(self._nc_node.dimensions.values()))
        variables = [f"{v.dtype} {name}({', '.join(v.dimensions)})" for name, v in self.variables.items()]
        lines.append(f"    dimensions(sizes): {sizes}")
        lines.append(f"    variables(dimensions): {', '.join(variables)}")
        lines.append(f"    groups: {', '.join(self.groups)}")
        return visible("\n".join(lines), layout=True)

    __str__ = __repr__

    def _repr_html_(self) -> str | None:
        if not self._nc_session.is_open:
            return None
        facts = (("data model", self.data_model), ("file format", self.disk_format))
        return html.html_of(self._nc_session, self._nc_node, () if self._nc_parent else facts)

    @staticmethod
    def fromcdl(
        cdlfilename: str | os.PathLike[str],
        ncfilename: str | os.PathLike[str] | None = None,
        mode: str = "a",
        format: str = "NETCDF4",
    ) -> Dataset:
        """Create a dataset from CDL text, and open it.

        Parameters
        ----------
        cdlfilename : path
        ncfilename : path, optional
            The new dataset, a netCDF file or Zarr depending on its name; default: `cdlfilename` with the suffix
            ``.zarr``.
        mode : str
            The mode of the opening.
        format : str
            The data model.

        Returns
        -------
        Dataset

        Raises
        ------
        DatasetNotFoundError
            If the CDL file does not exist.
        DatasetExistsError
            If the output exists.
        CDLError
            If the text is invalid.
        """
        from nczarr import mapping
        from nczarr.cdl import load

        source, rule = Path(cdlfilename), storage_rule()
        suffix = ".nc" if rule == "netcdf" else ".zarr"
        target = source.with_suffix(suffix) if ncfilename is None else Path(ncfilename)
        if format not in DATA_MODELS:
            raise errors.ArgumentError(f"illegal format requested: {format!r}", hint=", ".join(DATA_MODELS))
        if not source.exists():
            raise DatasetNotFoundError("there is no such file", path=str(source))
        # netCDF4-python raises a FileExistsError.
        if target.exists():
            raise DatasetExistsError("it exists already", path=str(target))
        dataset = replace(load(source), format=FORMAT_OF_MODEL[DATA_MODELS[format]])
        edge = netcdf if storage_of(target, rule=rule) == "netcdf" else mapping
        with edge.create_dataset(str(target), dataset) as sink:
            data = dataset.all_variables.items()
            work = [(fqn, v, v.data) for fqn, v in data if v.data is not None and 0 not in v.data.shape]
            transfer(blocks_of(work, sink), sink, NoProgress(), 1, MEMORY)
            sink.commit()
        return Dataset(str(target), mode)

    def tocdl(
        self, coordvars: bool = False, data: bool = False, outfile: str | os.PathLike[str] | None = None
    ) -> str | None:
        """Return the dataset as CDL text, with the special attributes (``_ChunkSizes``, …).

        Parameters
        ----------
        coordvars : bool
            Include the values of coordinate variables.
        data : bool
            Include all values.
        outfile : path, optional
            Write the text to this file, and return None.
        """
        from nczarr.cdl import DumpOptions, dump, dumps
        from nczarr.system.atomic import text_output

        self._nc_session.sync()
        options = DumpOptions(header_only=not data and not coordvars, coordinates=coordvars, special=True)
        stored = self._nc_session.stored.dataset
        if outfile is None:
            return dumps(stored, options)
        with translating("the output of tocdl is a path, not {!r}", outfile):
            path = Path(outfile)
        with text_output(path) as file:
            dump(stored, file, options)
        return None


class Group(Dataset):
    """A group, created by :meth:`Dataset.createGroup`. It has the members of a dataset, but cannot be closed.

    Parameters
    ----------
    parent : Dataset or Group
    name : str

    Raises
    ------
    EditError
        If the name is in use or invalid, or the dataset is read-only or has a classic data model.

    Examples
    --------
    >>> with Dataset("d.zarr", "w", diskless=True) as ds:
    ...     inner = ds.createGroup("ocean/deep")
    ...     inner.path, list(ds.groups)
    ('/ocean/deep', ['ocean'])
    """

    __slots__ = ()

    def __init__(self, parent: Dataset, name: str, **kwargs: object) -> None:
        session = parent._nc_session
        with session.tree.lock:
            groups = parent.groups
            node = parent._nc_node.add_group(name_of(name, "group"))
            self._nc_bind(session, node, parent, weak=parent.keepweakref)
            groups[node.name] = self

    @classmethod
    def _nc_of(cls, parent: Dataset, node: GroupNode) -> Group:
        """Return the object of an existing group."""
        group = cls.__new__(cls)
        group._nc_bind(parent._nc_session, node, parent, weak=parent.keepweakref)
        return group

    def __reduce__(self) -> tuple[object, ...]:
        return member, (self._nc_parent, "groups", self._nc_node.name)

    def isopen(self) -> bool:
        """Return False, as netCDF4-python does: only the dataset is opened and closed."""
        return False

    def close(self, *, durable: bool | None = None) -> None:
        """Raise an error: only the dataset can be closed."""
        raise errors.StoreError("cannot close a `Group` (only applies to Dataset)")


def reopened(cls: type[Dataset], origin: dict[str, Any]) -> Dataset:
    """Open an unpickled dataset."""
    return cls(**origin)


def find_dimension(group: Dataset, name: str | bytes) -> Dimension:
    """Return the dimension with a simple name in a group or those above."""
    if not isinstance(name, str | bytes):
        raise errors.NodeAttributeError(
            f"a dimension is a Dimension or its name, not {type(name).__name__}", fqn=group.path
        )
    requested = normalize_name(name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name)
    with group._nc_session.tree.lock:  # no other thread renames the dimension meanwhile
        find = group._nc_node.find_dimension
        node = find(requested) or find(unspell(requested))
        if node is not None:
            return declarations.shown_dimension(group, node)
    names = [name for scope in group._nc_node.ancestors() for name in list(scope.dimensions)]
    raise errors.ArgumentError(
        f"cannot find dimension {requested} in this group or parent groups",
        fqn=group.path,
        hint=did_you_mean(requested, names),
    )

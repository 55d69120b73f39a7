"""Define the class of variables: properties, values, storage, settings."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import DTypeLike

from nczarr import errors, model
from nczarr.compression import chosen_codecs, netcdf_filters
from nczarr.netcdf4.base import AttributeOwner, data_model_of, reference_to
from nczarr.netcdf4.compatibility import changed_cache, default_fillvals, get_chunk_cache
from nczarr.netcdf4.creation import VariableOptions, constructor_signature, resolve_datatype
from nczarr.netcdf4.declarations import Dimension, UserDefinedType, shown_dimension, shown_type, text_type
from nczarr.netcdf4.errors import translating
from nczarr.netcdf4.paths import name_of
from nczarr.netcdf4.values import types
from nczarr.netcdf4.values.access import read, write
from nczarr.netcdf4.values.attributes import lookup_in, make_attribute
from nczarr.netcdf4.values.numbers import cast_safely, quantization_in
from nczarr.netcdf4.values.points import PointIndexer
from nczarr.rooms import Door
from nczarr.session import DimensionNode, TypeNode, VariableNode
from nczarr.system.warning import warn
from nczarr.text import visible

if TYPE_CHECKING:
    from nczarr.netcdf4 import html
else:
    html = Door("nczarr.netcdf4.html")

_CAST_ATTRIBUTES = ("valid_min", "valid_max", "valid_range", "missing_value")


class Variable(AttributeOwner):
    """A variable, created by :meth:`Dataset.createVariable`, read and written by indexing.

    Parameters
    ----------
    grp : Dataset or Group
    name : str
    datatype : dtype-like, str, CompoundType, VLType or EnumType
    dimensions : sequence of Dimension
    **options
        As for :meth:`Dataset.createVariable`.

    Examples
    --------
    >>> import nczarr
    >>> with nczarr.Dataset({}, "w") as ds:
    ...     x = ds.createDimension("x", 3)
    ...     v = ds.createVariable("v", "i4", ("x",))
    ...     v[:2] = [1, 2]
    ...     print(v[:])
    [1 2 --]
    """

    __slots__ = ("__weakref__", "_nc_chunk_cache", "_nc_datatype", "_nc_endian", "_nc_group", "_nc_settings")

    __signature__ = constructor_signature()

    _nc_node: VariableNode
    _nc_group: Any
    _nc_chunk_cache: tuple[int, int, float]
    #: The object of its type; None for numpy types.
    _nc_datatype: Any
    #: The byte order at its creation; None if the session has not created it.
    _nc_endian: str | None
    _nc_settings: types.Settings

    def __init__(
        self,
        grp: Any,
        name: str,
        datatype: UserDefinedType | type[str] | DTypeLike,
        dimensions: Sequence[Dimension] = (),
        *settings: Any,
        **named: Any,
    ) -> None:
        session = grp._nc_session
        session.rules.check_writable()
        where = f"(variable '{name}', group '{grp.name}')"
        options = VariableOptions(where, *settings, **named)
        kind, shown, dtype = resolve_datatype(grp, datatype, where)
        type_ = kind.type if isinstance(kind, TypeNode) else kind
        # The classic formats are big-endian.
        if session.rules.netcdf3 and options.endian != "native":
            raise errors.EditError(
                f"only endian='native' allowed for NETCDF3 files, got '{options.endian}' {where}"
            )
        dims = tuple([d._nc_node for d in dimensions])
        # The record dimension of the classic formats is the first one.
        if session.rules.netcdf3 and any(d.unlimited for d in dims[1:]):
            raise errors.EditError(f"NetCDF: NC_UNLIMITED in the wrong index: {where}")
        options.check_endian(type_, dtype)
        changed_cache(get_chunk_cache(), options.chunk_cache, None, None)  # raise before the variable exists
        outside = session.rules.restrictions.strings_outside_chunks
        filters = options.suitable_filters(type_) if outside else options.filters()
        paired = dtype is not None and dtype.kind == "c"
        if paired and options.fill_value is not None and options.fill_value is not False:
            raise errors.ArgumentTypeError(f"illegal data type for attribute '_FillValue': {dtype} {where}")
        shown_as = dtype if shown is None else shown.dtype
        attributes = options.attributes(type_, shown_as, data_model_of(session))
        if paired:
            with session.tree.lock:  # between lookup and creation, another thread could create the dimension
                dims = (
                    *dims,
                    types.pair_dimension(grp._nc_node) or grp.createDimension(types.PAIR, 2)._nc_node,
                )
        storage = options.storage(session, type_, dims, filters)
        with session.tree.lock:
            variables = grp.variables
            node = grp._nc_node.add_variable(name_of(name, "variable"), kind, dims, storage, attributes)
            self._nc_bind(grp, node, shown, dtype)
            self._nc_endian = None if dtype is None else options.endian
            variables[node.name] = self
        self.set_var_chunk_cache(options.chunk_cache)

    @classmethod
    def _nc_of(cls, group: Any, node: VariableNode) -> Variable:
        """Return the object of an existing variable."""
        variable = cls.__new__(cls)
        shown = text_type() if node.type == model.STRING else None
        if node.type_node is not None:
            shown = shown_type(node.type_node)  # type: ignore[assignment]
        variable._nc_bind(group, node, shown, None)
        return variable

    def _nc_bind(self, group: Any, node: VariableNode, shown: Any, dtype: Any) -> None:
        self._nc_session = session = group._nc_session
        self._nc_group = reference_to(group)
        self._nc_node = node
        self._nc_datatype = shown
        self._nc_endian = None
        self._nc_ncstring = group._ncstring_attrs__
        self._nc_chunk_cache = get_chunk_cache()
        pairs = types.pair_dtype(node) if session.auto_complex else None
        numbers = types.complex_dtype(node.type) if session.auto_complex else None
        if pairs is not None:
            dtype = pairs
        elif shown is not None:
            dtype = shown.dtype if numbers is None else numbers
        elif dtype is None:
            dtype = types.shown_dtype(node.type, node.storage)
        digit = self._nc_lookup("least_significant_digit")
        self._nc_settings = types.Settings(
            dtype,
            getattr(shown, "dtype_view", None),
            digit=digit.item() if isinstance(digit, np.number) else None,
            quantization=quantization_in(self._nc_lookup, node.type.dtype),
            complex=numbers if pairs is None else pairs,
            paired=pairs is not None,
        )

    # -- properties --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name."""
        return self._nc_open.name

    _name = name

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        self._nc_session.rules.check_open()
        return tuple([d.name for d in self._nc_shown])

    @property
    def shape(self) -> tuple[int, ...]:
        """Current sizes of the dimensions."""
        self._nc_session.rules.check_open()
        return tuple([d.size for d in self._nc_shown])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._nc_shown)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def dtype(self) -> Any:
        """The numpy dtype; ``str`` for text; the elements' dtype for vlen and enum."""
        return self._nc_settings.dtype

    @property
    def datatype(self) -> Any:
        """The dtype, or the object of the user type."""
        return self._nc_settings.dtype if self._nc_datatype is None else self._nc_datatype

    @property
    def mask(self) -> bool:
        """True if reading masks missing values."""
        return self._nc_settings.mask

    @property
    def scale(self) -> bool:
        """True if reading unpacks numbers and writing packs them."""
        return self._nc_settings.scale

    @property
    def always_mask(self) -> bool:
        """True if reading returns a masked array even if no value is missing."""
        return self._nc_settings.always_mask

    @property
    def chartostring(self) -> bool:
        """True if the program sees characters with an ``_Encoding`` as text."""
        return self._nc_settings.chartostring

    @property
    def __orthogonal_indexing__(self) -> bool:
        return True

    def group(self) -> Any:
        """Return the group of the variable."""
        return self._nc_group

    def get_dims(self) -> tuple[Dimension, ...]:
        """The dimensions as objects."""
        self._nc_session.rules.check_open()
        return tuple([shown_dimension(self._nc_group, d) for d in self._nc_shown])

    @property
    def _nc_shown(self) -> tuple[DimensionNode, ...]:
        """The dimensions without that of the parts of complex numbers."""
        dimensions = self._nc_node.dimensions
        return dimensions[:-1] if self._nc_settings.paired else dimensions

    @property
    def _nc_open(self) -> VariableNode:
        """The node, if the dataset is open."""
        self._nc_session.rules.check_open()
        return self._nc_node

    def _nc_lookup(self, name: str) -> Any:
        return lookup_in(self._nc_node)(name)

    # -- attributes ----------------------------------------------------------------------------------------

    def setncattr(self, name: str, value: object) -> None:
        """Set a netCDF attribute; see :meth:`Dataset.setncattr`.

        Parameters
        ----------
        name : str
            Any name but ``_FillValue``, which only the creation of the variable sets.
        value : object

        Raises
        ------
        NodeAttributeError
            If the name is ``_FillValue``, or the dataset is read-only.
        """
        # netCDF4-python refuses it here, and takes it as a keyword of createVariable.
        if name == "_FillValue":
            raise errors.NodeAttributeError(
                "_FillValue attribute must be set when variable is created (using fill_value keyword to createVariable)"
            )
        super().setncattr(name, value)

    def _nc_set_attribute(self, name: str, value: object, *, as_string: bool = False) -> None:
        """Set a netCDF attribute; ``_FillValue`` of the variable's type, before values are written."""
        if name == "_FillValue":
            self._nc_refill(value)
        else:
            super()._nc_set_attribute(name, value, as_string=as_string)

    def renameAttribute(self, oldname: str, newname: str) -> None:
        """Rename a netCDF attribute in its place.

        Parameters
        ----------
        oldname, newname : str

        Raises
        ------
        NodeAttributeError
            If the new name is ``_FillValue``, and the variable has compounds or sequences.
        EditError
            If `oldname` does not exist, `newname` exists, or the dataset is read-only.
        """
        if newname == "_FillValue" and not isinstance(
            self._nc_node.type, model.PrimitiveType | model.EnumType
        ):
            raise errors.NodeAttributeError("cannot set _FillValue attribute for VLEN or compound variable")
        super().renameAttribute(oldname, newname)

    def _nc_refill(self, value: object) -> None:
        node = self._nc_node
        current = self._nc_lookup("_FillValue")
        # The same value again changes no unwritten element.
        if current is not None and np.array_equal(current, np.asarray(value)):
            return
        self._nc_check_settable()
        node.check_refill(has_values=self._nc_session.has_values(node))
        made = make_attribute("_FillValue", value, group=node.group, as_string=node.type == model.STRING)
        of_enum = isinstance(node.type, model.EnumType) and made.type == node.type.base
        # Of several values, the first was taken.
        if len(made.values) != 1 or not (made.type == node.type or of_enum):
            raise errors.NodeAttributeError(
                "NetCDF: Not a valid data type or _FillValue type mismatch", fqn=node.fqn
            )
        node.set_attribute(model.Attribute("_FillValue", node.type, made.values))

    def __setattr__(self, name: str, value: object) -> None:
        # netCDF4-python casts these four, and setncattr stores them as given.
        if name in _CAST_ATTRIBUTES and self._nc_kind == "primitive":
            dtype = self.dtype
            with translating("{} {!r} is no value of {}", name, value, dtype, fqn=self._nc_node.fqn):
                np.array(value, dtype)
            cast = cast_safely(np.array(value), dtype)
            # netCDF4-python warns with these words, and stores the value as given.
            if cast is None:
                warn(f"WARNING: {name} cannot be safely cast to variable dtype")
            value = value if cast is None else cast
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return _member, (self._nc_group, self._nc_node.name, self._nc_settings)

    # -- values --------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, elem: EllipsisType | slice) -> np.ma.MaskedArray[Any, Any]: ...
    @overload
    def __getitem__(self, elem: object) -> Any: ...
    def __getitem__(self, elem: object) -> Any:
        return read(self._nc_session, self._nc_node, self._nc_settings, elem)

    @property
    def vindex(self) -> PointIndexer:
        """Select single elements: ``variable.vindex[times, rows, columns]``, as zarr-python's ``vindex`` does.

        The arrays of positions are broadcast together, so that three arrays of 100 positions select 100 elements;
        ``variable[times, rows, columns]`` selects a box of a million. Other axes may have slices, which come last in
        the result. Each chunk is read once. The settings for masking and unpacking apply.

        Examples
        --------
        >>> import nczarr
        >>> dataset = nczarr.Dataset("points.zarr", "w", memory=1024)
        >>> for name, size in (("y", 3), ("x", 4)):
        ...     _ = dataset.createDimension(name, size)
        >>> v = dataset.createVariable("v", "i4", ("y", "x"))
        >>> v[:] = [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
        >>> v.vindex[[0, 2, 1], [3, 0, 2]].tolist()
        [3, 20, 12]
        >>> v.vindex[[2, 0], :].shape
        (2, 4)
        """
        return PointIndexer(self._nc_session, self._nc_node, self._nc_settings)

    def __setitem__(self, elem: object, data: object) -> None:
        write(self._nc_session, self._nc_node, self._nc_settings, elem, data)

    def __len__(self) -> int:
        shape = self.shape
        # As for a scalar of numpy.
        if not shape:
            raise errors.ArgumentTypeError("len() of unsized object", fqn=self._nc_node.fqn)
        return shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        # numpy 2 requires an error where values cannot be had without a copy.
        if copy is False:
            raise errors.ArgumentError(
                "the values have to be read, which makes a copy", fqn=self._nc_node.fqn
            )
        data = np.asanyarray(self[...])  # masked, which functions like np.mean respect
        return data if dtype is None else data.astype(dtype, copy=False)

    def assignValue(self, val: object) -> None:
        """Set the value of a scalar variable.

        Parameters
        ----------
        val : object
            One value of the variable's type.

        Raises
        ------
        SelectionError
            If the variable has dimensions.
        """
        self._nc_check_scalar("to assign values to a non-scalar variable, use a slice")
        self[:] = val

    def getValue(self) -> Any:
        """Return the value of a scalar variable.

        Raises
        ------
        SelectionError
            If the variable has dimensions.
        """
        self._nc_check_scalar("to retrieve values from a non-scalar variable, use slicing")
        return self[()]

    def _nc_check_scalar(self, message: str) -> None:
        self._nc_session.rules.check_open()
        # netCDF4-python raises an IndexError.
        if self._nc_shown:
            raise errors.SelectionError(message, fqn=self._nc_node.fqn)

    # -- storage -------------------------------------------------------------------------------------------

    def filters(self) -> dict[str, Any] | None:
        """The filters with their settings; None for netCDF-3 models.

        ``codecs`` lists the codecs of a Zarr array, if they do not follow from the recorded filters.
        """
        storage = self._nc_open.storage
        if self._nc_session.rules.netcdf3:
            return None
        described = types.describe_filters(netcdf_filters(storage.filters, storage.codecs).filters)
        if codecs := chosen_codecs(storage.filters, storage.codecs):
            described["codecs"] = [codec.to_json() for codec in codecs]
        return described

    def chunking(self) -> str | list[int] | None:
        """``'contiguous'`` or the chunk shape; None for netCDF-3 models."""
        self._nc_session.rules.check_open()
        if self._nc_session.rules.netcdf3:
            return None
        chunks = types.chunking_of(self._nc_session, self._nc_node)
        return "contiguous" if chunks is None else list(chunks)

    def shards(self) -> tuple[int, ...] | None:
        """The shape of the shards of a Zarr array, which pack chunks into one object; None without shards."""
        self._nc_session.choose_chunks()
        return self._nc_open.storage.shard_shape

    def quantization(self) -> tuple[int, str] | None:
        """Number of digits (or bits) and the mode of quantisation, or None."""
        self._nc_session.rules.check_open()
        return self._nc_settings.quantization

    def endian(self) -> str:
        """Return the byte order in the store: ``'little'``, ``'big'``, or ``'native'``, the default."""
        stored = types.stored_endian(self._nc_open.type, self._nc_node.storage)
        return "native" if self._nc_session.rules.netcdf3 else self._nc_endian or stored

    def get_fill_value(self) -> Any:
        """``_FillValue``, or the default fill value; None if unwritten elements are not filled."""
        if self._nc_open.storage.no_fill:
            return None
        value = self._nc_lookup("_FillValue")
        if value is not None:
            return value
        if self._nc_datatype is not None:
            return None
        return np.array(default_fillvals[self._nc_settings.dtype.str[1:]], self._nc_settings.dtype)

    def get_var_chunk_cache(self) -> tuple[int, int, float]:
        """Size in bytes, slots and preemption of the chunk cache, as last set."""
        self._nc_session.rules.check_open()
        return self._nc_chunk_cache

    def set_var_chunk_cache(
        self, size: int | None = None, nelems: int | None = None, preemption: float | None = None
    ) -> None:
        """Limit the bytes of decoded chunks of this variable, within the limit of the dataset.

        Parameters
        ----------
        size : int, optional
            Bytes; with 0, each write goes to the store. None (the default) leaves a setting unchanged.
        nelems : int, optional
            Number of slots, without effect.
        preemption : float, optional
            A number from 0 to 1, without effect.

        Raises
        ------
        RangeError
            If `size` or `nelems` is negative or has more than 64 bits.
        EditError
            If `preemption` is not in 0 to 1, or the dataset is closed.
        ArgumentTypeError
            If an argument is not a number.
        """
        self._nc_session.rules.check_open()
        self._nc_chunk_cache = changed_cache(self._nc_chunk_cache, size, nelems, preemption)
        if size is not None:
            self._nc_session.limit_cache(self._nc_node, self._nc_chunk_cache[0])

    # -- settings ------------------------------------------------------------------------------------------

    def set_auto_mask(self, mask: bool) -> None:
        """Set whether reading masks missing values.

        Parameters
        ----------
        mask : bool
            True (the default): the result is a masked array where values are missing.
        """
        self._nc_settings.mask = bool(mask)

    def set_auto_scale(self, scale: bool) -> None:
        """Set whether reading unpacks values and writing packs them.

        Parameters
        ----------
        scale : bool
            True (the default): by ``scale_factor`` and ``add_offset``.
        """
        self._nc_settings.scale = bool(scale)

    def set_auto_maskandscale(self, maskandscale: bool) -> None:
        """Call :meth:`set_auto_mask` and :meth:`set_auto_scale`.

        Parameters
        ----------
        maskandscale : bool
        """
        self.set_auto_mask(maskandscale)
        self.set_auto_scale(maskandscale)

    def set_always_mask(self, always_mask: bool) -> None:
        """Set whether reading returns a masked array even if no value is missing.

        Parameters
        ----------
        always_mask : bool
            True is the default.
        """
        self._nc_settings.always_mask = bool(always_mask)

    def set_auto_chartostring(self, chartostring: bool) -> None:
        """Set whether characters with an ``_Encoding`` are text.

        Parameters
        ----------
        chartostring : bool
            True (the default): reading joins the characters of the last dimension, and writing divides text.
        """
        self._nc_settings.chartostring = bool(chartostring)

    def set_ncstring_attrs(self, ncstring_attrs: bool) -> None:
        """Set whether text attributes are netCDF strings.

        Parameters
        ----------
        ncstring_attrs : bool
            False (the default): they are characters, where the text is ASCII.
        """
        self._nc_ncstring = bool(ncstring_attrs)

    def use_nc_get_vars(self, use_nc_get_vars: bool) -> None:
        """Accepted for compatibility; without effect."""

    def set_collective(self, value: bool) -> None:
        """Accepted for compatibility; without effect."""

    # -- text ----------------------------------------------------------------------------------------------

    @property
    def _nc_kind(self) -> str:
        """``primitive``, ``compound``, ``vlen``, ``enum`` or ``opaque``."""
        return "primitive" if self._nc_datatype is None else self._nc_datatype._nc_kind

    def __repr__(self) -> str:
        if not self._nc_session.is_open:
            return "Variable object no longer valid"
        kind, node = self._nc_kind, self._nc_node
        shown = str(self.dtype) if kind == "primitive" else kind
        lines = ["<class 'nczarr.Variable'>", f"{shown} {node.name}({', '.join(self.dimensions)})"]
        lines += [f"    {name}: {self.getncattr(name)}" for name in self.ncattrs()]
        if kind != "primitive":
            lines.append(f"{kind} data type: {self.dtype}")
        if self._nc_group.path != "/":
            lines.append(f"path = {self._nc_group.path}")
        unlimited = [d.name for d in node.dimensions if d.unlimited]
        lines.append(f"unlimited dimensions: {', '.join(unlimited)}")
        lines.append(f"current shape = {self.shape!r}")
        if kind == "primitive":
            lines.append(self._nc_filling())
        return visible("\n".join(lines), layout=True)

    def _repr_html_(self) -> str | None:
        return html.html_of(self._nc_session, self._nc_node) if self._nc_session.is_open else None

    def _nc_filling(self) -> str:
        if self._nc_node.storage.no_fill:
            return "filling off"
        if "_FillValue" in self._nc_node.attributes:
            return "filling on"
        code = self._nc_settings.dtype.str[1:]
        use = "ignored" if code in ("u1", "i1") else "used"
        return f"filling on, default _FillValue of {default_fillvals[code]} {use}"

    __str__ = __repr__


def _member(group: Any, name: str, settings: types.Settings) -> Variable:
    """Return an unpickled variable, with its settings."""
    variable: Variable = group.variables[name]
    object.__setattr__(variable, "_nc_settings", settings)
    return variable

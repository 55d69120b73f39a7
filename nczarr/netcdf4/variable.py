"""Variables of a dataset that is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nczarr import model
from nczarr.model import Attribute, Storage, Type, join_fqn
from nczarr.netcdf4 import storage_options
from nczarr.netcdf4.attributes import AttributeOwner, attribute_value
from nczarr.netcdf4.constants import default_fillvals
from nczarr.netcdf4.dimension import Dimension, checked_name
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFIndexError,
    NetCDFRuntimeError,
    NetCDFTypeError,
    NetCDFValueError,
)
from nczarr.netcdf4.new_variable import resolve_datatype, set_fill, set_quantization
from nczarr.netcdf4.reading import read
from nczarr.netcdf4.user_types import CompoundType, EnumType, VLType, bind_type
from nczarr.netcdf4.variable_text import describe_variable
from nczarr.netcdf4.writing import write

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset
    from nczarr.netcdf4.session import Session, StoredArray

_CAST_ATTRIBUTES = ("valid_min", "valid_max", "valid_range", "missing_value")


class Variable(AttributeOwner):
    """A variable; made by :meth:`Dataset.createVariable`, read and written by indexing.

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

    __slots__ = (
        "__weakref__",
        "_nc_attributes",
        "_nc_chunk_cache",
        "_nc_datatype",
        "_nc_dims",
        "_nc_dtype",
        "_nc_endian",
        "_nc_frozen",
        "_nc_generation",
        "_nc_group",
        "_nc_handle",
        "_nc_lsd",
        "_nc_name",
        "_nc_quantization",
        "_nc_session",
        "_nc_settings",
        "_nc_storage",
        "_nc_stored",
        "_nc_type",
    )

    _nc_attributes: dict[str, Attribute]
    _nc_chunk_cache: tuple[int, int, float]
    _nc_datatype: Any
    _nc_dims: tuple[Dimension, ...]
    _nc_dtype: np.dtype
    _nc_frozen: model.Variable | None
    _nc_group: Dataset
    _nc_handle: StoredArray | None
    _nc_generation: int
    _nc_name: str
    _nc_quantization: tuple[int, str] | None
    _nc_lsd: int | None
    _nc_session: Session
    _nc_settings: dict[str, bool]
    _nc_storage: Storage
    _nc_stored: bool
    _nc_type: Type

    def __init__(
        self,
        grp: Dataset,
        name: str,
        datatype: Any,
        dimensions: Sequence[Dimension] = (),
        compression: str | None = None,
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
        fill_value: Any = None,
        chunk_cache: int | None = None,
    ) -> None:
        session = grp._nc_session
        session.check_writable()
        where = f"(variable '{name}', group '{grp.name}')"
        type_, shown, dtype = resolve_datatype(grp, datatype, where)
        if session.data_model.startswith("NETCDF3") and endian != "native":
            raise NetCDFRuntimeError(
                f"only endian='native' allowed for NETCDF3 files, got '{endian}' {where}"
            )
        storage_options.check_endian(endian, where)
        if isinstance(type_, model.PrimitiveType) and type_ != model.STRING:
            storage_options.check_byte_order(dtype, endian)
        name = checked_name(name, "variable")
        if name in grp.variables or name in grp.groups:
            raise NetCDFRuntimeError(f"NetCDF: String match to name in use: {where}")
        compression = "zlib" if zlib and not compression else compression
        filters = storage_options.make_filters(compression, complevel, shuffle, blosc_shuffle, fletcher32)
        classic = session.data_model.startswith("NETCDF3")
        storage = storage_options.make_storage(
            type_,
            dimensions,
            filters=() if classic else filters,
            contiguous=contiguous and not classic,
            chunksizes=None if classic else chunksizes,
            endian=endian,
            no_fill=fill_value is False or not session.fill,
            where=where,
        )
        self._nc_setup(grp, name, type_, tuple(dimensions), storage=storage, datatype=shown, dtype=dtype)
        if chunk_cache is not None:
            self._nc_chunk_cache = (int(chunk_cache), *self._nc_chunk_cache[1:])
        set_quantization(self, significant_digits, quantize_mode, where)
        set_fill(self, fill_value)
        if least_significant_digit is not None:
            self._nc_set_attribute("least_significant_digit", least_significant_digit)
            self._nc_lsd = int(least_significant_digit)
        grp.variables[name] = self
        grp._nc_touch()
        session.changed(self)

    def _nc_setup(
        self,
        group: Dataset,
        name: str,
        type_: Type,
        dims: tuple[Dimension, ...],
        *,
        storage: Storage,
        datatype: Any = None,
        dtype: Any = None,
    ) -> None:
        session = group._nc_session
        self._nc_session = session
        self._nc_group = group._nc_reference()
        self._nc_name = name
        self._nc_type = type_
        self._nc_dims = dims
        self._nc_storage = storage
        self._nc_attributes = {}
        self._nc_frozen = None
        self._nc_handle = None
        self._nc_generation = -1
        self._nc_stored = False
        self._nc_lsd = None
        self._nc_quantization = None
        self._nc_chunk_cache = session.chunk_cache
        self._nc_endian = None if dtype is None else storage.endian
        self._nc_datatype = bind_type(type_) if datatype is None and type_ == model.STRING else datatype
        if self._nc_datatype is not None:
            self._nc_dtype = self._nc_datatype.dtype
        else:
            self._nc_dtype = storage_options.interface_dtype(type_, storage) if dtype is None else dtype
        self._nc_settings = {
            "mask": True,
            "scale": True,
            "always_mask": True,
            "chartostring": True,
            "ncstring": group._ncstring_attrs__,
            "get_vars": True,
        }

    # -- what it is --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name."""
        self._nc_session.check_open()
        return self._nc_name

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        self._nc_session.check_open()
        return tuple(d._nc_name for d in self._nc_dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Current sizes of the dimensions."""
        self._nc_session.check_open()
        return self._nc_shape

    @property
    def _nc_shape(self) -> tuple[int, ...]:
        return tuple(d._nc_size for d in self._nc_dims)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._nc_dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def dtype(self) -> Any:
        """The numpy dtype; ``str`` for text; the elements' dtype for vlen and enum."""
        return self._nc_dtype

    @property
    def datatype(self) -> Any:
        """The dtype, or the object of the user type."""
        return self._nc_dtype if self._nc_datatype is None else self._nc_datatype

    @property
    def mask(self) -> bool:
        """True if missing values are masked on reading."""
        return self._nc_settings["mask"]

    @property
    def scale(self) -> bool:
        """True if packed numbers are unpacked on reading and packed on writing."""
        return self._nc_settings["scale"]

    @property
    def always_mask(self) -> bool:
        """True if reading gives a masked array even where nothing is missing."""
        return self._nc_settings["always_mask"]

    @property
    def chartostring(self) -> bool:
        """True if characters with an ``_Encoding`` are text to the program."""
        return self._nc_settings["chartostring"]

    @property
    def _ncstring_attrs__(self) -> bool:
        return self._nc_settings["ncstring"]

    @property
    def __orthogonal_indexing__(self) -> bool:
        return True

    def group(self) -> Dataset:
        """The group that it belongs to."""
        return self._nc_group

    def get_dims(self) -> tuple[Dimension, ...]:
        """The dimensions as objects."""
        return self._nc_dims

    @property
    def _nc_fqn(self) -> str:
        return join_fqn(self._nc_group._nc_fqn, self._nc_name)

    def _nc_touch(self) -> None:
        self._nc_frozen = None
        if self._nc_group.variables.get(self._nc_name) is self:
            self._nc_group._nc_touch()

    def _nc_type_scope(self) -> Dataset:
        return self._nc_group

    def _nc_lookup(self, name: str) -> Any:
        """An attribute's value, or None."""
        attribute = self._nc_attributes.get(name)
        return None if attribute is None else attribute_value(attribute)

    def _nc_fill_scalar(self) -> Any:
        """The fill value of a primitive variable, in native byte order."""
        attribute = self._nc_attributes.get("_FillValue")
        value = model.default_fill(self._nc_type) if attribute is None else attribute.values[0]
        return np.asarray(value).astype(self._nc_type.dtype)[()]

    def _nc_freeze(self) -> model.Variable:
        if self._nc_frozen is None:
            self._nc_frozen = model.Variable(
                self._nc_name,
                self._nc_type,
                tuple(d._nc_ref for d in self._nc_dims),
                attributes=tuple(self._nc_attributes.values()),
                storage=self._nc_storage,
            )
        return self._nc_frozen

    # -- attributes ----------------------------------------------------------------------------------------

    def setncattr(self, name: str, value: Any) -> None:
        """Set a netCDF attribute as it is given; ``_FillValue`` is set with the variable only."""
        if name == "_FillValue":
            raise NetCDFAttributeError(
                "_FillValue attribute must be set when variable is created (using fill_value keyword to createVariable)"
            )
        super().setncattr(name, value)

    def setncatts(self, attdict: Any) -> None:
        """Set netCDF attributes from a mapping; ``_FillValue`` only while nothing is stored yet."""
        for name, value in attdict.items():
            if name == "_FillValue":
                self._nc_refill(value)
            else:
                self._nc_set_attribute(name, value)

    def _nc_refill(self, value: Any) -> None:
        held = self._nc_lookup("_FillValue")
        if held is not None and np.array_equal(held, value):
            return
        if self._nc_stored:
            raise NetCDFAttributeError(
                "NetCDF: Attempt to define fill value when data already exists.", fqn=self._nc_fqn
            )
        set_fill(self, value)
        self._nc_touch()

    def __setattr__(self, name: str, value: Any) -> None:
        primitive = not name.startswith("_nc_") and isinstance(self._nc_type, model.PrimitiveType)
        if primitive and name in _CAST_ATTRIBUTES and self._nc_type != model.STRING:
            from nczarr.netcdf4.masking import cast_safely

            cast = cast_safely(value, self._nc_dtype)
            if cast is not None:
                value = cast
            else:
                import warnings

                warnings.warn(f"WARNING: {name} cannot be safely cast to variable dtype", stacklevel=2)
        super().__setattr__(name, value)

    # -- values --------------------------------------------------------------------------------------------

    def __getitem__(self, elem: Any) -> Any:
        return read(self, elem)

    def __setitem__(self, elem: Any, data: Any) -> None:
        write(self, elem, data)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise NetCDFTypeError("len() of unsized object", fqn=self._nc_fqn)
        return shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise NetCDFValueError("the values have to be read, which makes a copy", fqn=self._nc_fqn)
        data = np.asarray(self[...])
        return data if dtype is None else data.astype(dtype, copy=False)

    def assignValue(self, val: Any) -> None:
        """Set the value of a scalar variable; otherwise :class:`IndexError`."""
        if self._nc_dims:
            raise NetCDFIndexError("to assign values to a non-scalar variable, use a slice", fqn=self._nc_fqn)
        self[:] = val

    def getValue(self) -> Any:
        """The value of a scalar variable; otherwise :class:`IndexError`."""
        if self._nc_dims:
            raise NetCDFIndexError(
                "to retrieve values from a non-scalar variable, use slicing", fqn=self._nc_fqn
            )
        return self[()]

    # -- storage -------------------------------------------------------------------------------------------

    def filters(self) -> dict[str, Any] | None:
        """The filters with their settings; None for netCDF-3 models."""
        self._nc_session.check_open()
        if self._nc_session.data_model.startswith("NETCDF3"):
            return None
        return storage_options.describe_filters(self._nc_storage.filters)

    def chunking(self) -> str | list[int] | None:
        """``'contiguous'`` or the chunk shape; None for netCDF-3 models."""
        self._nc_session.check_open()
        if self._nc_session.data_model.startswith("NETCDF3"):
            return None
        storage = self._nc_storage
        if storage.chunk_shape and storage.layout in (None, "chunked"):
            return list(storage.chunk_shape)
        if any(d._nc_unlimited for d in self._nc_dims) or storage.layout == "chunked":
            return list(storage_options.default_chunks(self._nc_type, self._nc_dims))
        return "contiguous"

    def quantization(self) -> tuple[int, str] | None:
        """Number of digits (or bits) and the mode of quantisation, or None."""
        return self._nc_quantization

    def endian(self) -> str:
        """Byte order in the store: ``'little'``, ``'big'``, or ``'native'`` if none was asked for."""
        self._nc_session.check_open()
        if self._nc_session.data_model.startswith("NETCDF3"):
            return "native"
        return self._nc_endian or storage_options.stored_endian(self._nc_type, self._nc_storage)

    def get_fill_value(self) -> Any:
        """``_FillValue``, or the default fill value; None if unwritten elements are not filled."""
        self._nc_session.check_open()
        if self._nc_storage.no_fill:
            return None
        value = self._nc_lookup("_FillValue")
        if value is not None:
            return value
        if self._nc_datatype is not None:
            return None
        return np.array(default_fillvals[self._nc_dtype.str[1:]], self._nc_dtype)

    def get_var_chunk_cache(self) -> tuple[int, int, float]:
        """Size, slots and preemption of the chunk cache, as last set; they have no effect."""
        return self._nc_chunk_cache

    def set_var_chunk_cache(
        self, size: int | None = None, nelems: int | None = None, preemption: float | None = None
    ) -> None:
        """Remember settings of the chunk cache; None leaves one as it is."""
        old = self._nc_chunk_cache
        self._nc_chunk_cache = (
            old[0] if size is None else size,
            old[1] if nelems is None else nelems,
            old[2] if preemption is None else preemption,
        )

    # -- settings ------------------------------------------------------------------------------------------

    def set_auto_mask(self, mask: bool) -> None:
        """Mask missing values on reading, or not."""
        self._nc_settings["mask"] = bool(mask)

    def set_auto_scale(self, scale: bool) -> None:
        """Unpack on reading and pack on writing, or not."""
        self._nc_settings["scale"] = bool(scale)

    def set_auto_maskandscale(self, maskandscale: bool) -> None:
        """Both :meth:`set_auto_mask` and :meth:`set_auto_scale`."""
        self.set_auto_mask(maskandscale)
        self.set_auto_scale(maskandscale)

    def set_always_mask(self, always_mask: bool) -> None:
        """Give masked arrays even where nothing is missing, or not."""
        self._nc_settings["always_mask"] = bool(always_mask)

    def set_auto_chartostring(self, chartostring: bool) -> None:
        """Turn characters with an ``_Encoding`` to text and back, or not."""
        self._nc_settings["chartostring"] = bool(chartostring)

    def set_ncstring_attrs(self, ncstring_attrs: bool) -> None:
        """Store text attributes as netCDF strings, or as characters where they are ASCII."""
        self._nc_settings["ncstring"] = bool(ncstring_attrs)

    def use_nc_get_vars(self, use_nc_get_vars: bool) -> None:
        """Accepted for compatibility; without effect."""
        self._nc_settings["get_vars"] = bool(use_nc_get_vars)

    def set_collective(self, value: bool) -> None:
        """Accepted for compatibility; without effect."""

    # -- helpers of other modules ----------------------------------------------------------------------------

    @property
    def _nc_kind(self) -> str:
        """``primitive``, ``compound``, ``vlen``, ``enum`` or ``opaque``."""
        for cls, kind in ((CompoundType, "compound"), (VLType, "vlen"), (EnumType, "enum")):
            if isinstance(self._nc_datatype, cls):
                return kind
        return "primitive" if self._nc_datatype is None else "opaque"

    def __repr__(self) -> str:
        return describe_variable(self)

    __str__ = __repr__

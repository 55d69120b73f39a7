"""What datasets and groups have in common: making, finding, renaming, settings."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from nczarr.model import join_fqn, normalize_name
from nczarr.netcdf4.constants import CLASSIC_FORMATS
from nczarr.netcdf4.dimension import Dimension, checked_name, find_dimension
from nczarr.netcdf4.errors import (
    NetCDFAttributeError,
    NetCDFIndexError,
    NetCDFKeyError,
    NetCDFRuntimeError,
    NetCDFTypeError,
)
from nczarr.netcdf4.group_node import GroupNode
from nczarr.netcdf4.user_types import CompoundType, EnumType, VLType
from nczarr.netcdf4.variable import Variable

if TYPE_CHECKING:
    from nczarr.netcdf4.dataset import Dataset
    from nczarr.netcdf4.group import Group


class GroupMethods(GroupNode):
    """Methods of :class:`Dataset` and :class:`Group`."""

    __slots__ = ()

    # -- finding -----------------------------------------------------------------------------------------

    def __getitem__(self, elem: str) -> Any:
        directory, last = posixpath.split(posixpath.normpath(elem))
        group: Any = self
        for name in directory.split("/"):
            if name and name not in group.groups:
                raise NetCDFKeyError(f"there is no group {name!r} in {group.path}")
            group = group.groups[name] if name else group
        if last in group.groups:
            return group.groups[last]
        if last in group.variables:
            return group.variables[last]
        raise NetCDFIndexError(f"{last} not found in {group.path}")

    def __iter__(self) -> Any:
        raise NetCDFTypeError(
            f"{type(self).__name__} is not iterable. Consider iterating on Dataset.variables."
        )

    def __contains__(self, key: Any) -> bool:
        raise NetCDFTypeError(
            f"{type(self).__name__} does not support membership operations. "
            "Perhaps try 'varname in dataset.variables' or 'dimname in dataset.dimensions'."
        )

    def get_variables_by_attributes(self, **kwargs: Any) -> list[Variable]:
        """Variables of this group whose attributes have the given values, or satisfy the given functions.

        Parameters
        ----------
        **kwargs
            A value, or a function of the value (None if the attribute is missing) that returns True or False.
        """
        found = []
        for variable in self._nc_variables.values():
            good = False
            for key, wanted in kwargs.items():
                held = getattr(variable, key, None)
                good = wanted(held) is True if callable(wanted) else _equal(held, wanted)
                if not good:
                    break
            if good:
                found.append(variable)
        return found

    # -- making ------------------------------------------------------------------------------------------

    def createDimension(self, dimname: str, size: int | None = None) -> Dimension:
        """Make a dimension.

        Parameters
        ----------
        dimname : str
        size : int, optional
            None or 0: unlimited.

        Raises
        ------
        NetCDFRuntimeError
            If the name is in use or not legal, or the dataset is read-only.
        NetCDFOverflowError
            If the size is negative.
        """
        return Dimension(cast("Dataset", self), dimname, size)

    def createGroup(self, groupname: str) -> Group:
        """Make a group, with all groups on the way; an existing one is returned.

        Raises
        ------
        NetCDFRuntimeError
            If the name is in use or not legal, or the dataset is read-only or has a classic data model.
        """
        from nczarr.netcdf4.group import Group

        group: Any = self
        for name in posixpath.normpath(groupname).split("/"):
            if not name:
                continue
            known = group.groups.get(normalize_name(name))
            group = Group(group, name) if known is None else known
        return cast("Group", group)

    def createVariable(
        self,
        varname: str,
        datatype: Any,
        dimensions: str | bytes | Dimension | Sequence[str | bytes | Dimension] = (),
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
    ) -> Variable:
        """Make a variable.

        Parameters
        ----------
        varname : str
            With slashes: groups on the way are made.
        datatype : dtype-like, str, CompoundType, VLType or EnumType
        dimensions : sequence of (str or Dimension)
            Names are looked for here, then upwards. Empty: a scalar.
        compression : str, optional
            ``zlib``, ``zstd``, ``bzip2``, ``blosc_lz``, ``blosc_lz4``, ``blosc_lz4hc``, ``blosc_zlib``, ``blosc_zstd``.
        zlib, complevel, shuffle, blosc_shuffle, fletcher32
            Settings of the filters.
        szip_coding, szip_pixels_per_block
            Accepted; szip is not available.
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
            Remembered only.

        Returns
        -------
        Variable

        Raises
        ------
        NetCDFRuntimeError, NetCDFValueError, NetCDFTypeError, NetCDFAttributeError
            As netCDF4-python raises the builtins of these names.
        """
        directory, varname = posixpath.split(posixpath.normpath(varname))
        group: Any = self.createGroup(directory) if directory else self
        if isinstance(dimensions, str | bytes | Dimension):
            dimensions = (dimensions,)
        found = tuple(d if isinstance(d, Dimension) else find_dimension(group, d) for d in dimensions)
        return Variable(
            group,
            varname,
            datatype,
            found,
            compression=compression,
            zlib=zlib,
            complevel=complevel,
            shuffle=shuffle,
            szip_coding=szip_coding,
            szip_pixels_per_block=szip_pixels_per_block,
            blosc_shuffle=blosc_shuffle,
            fletcher32=fletcher32,
            contiguous=contiguous,
            chunksizes=chunksizes,
            endian=endian,
            least_significant_digit=least_significant_digit,
            significant_digits=significant_digits,
            quantize_mode=quantize_mode,
            fill_value=fill_value,
            chunk_cache=chunk_cache,
        )

    def createCompoundType(self, datatype: Any, datatype_name: str) -> CompoundType:
        """Make a compound type from a structured dtype; see :class:`CompoundType`."""
        return CompoundType(cast("Dataset", self), datatype, datatype_name)

    def createVLType(self, datatype: Any, datatype_name: str) -> VLType:
        """Make a variable-length type; see :class:`VLType`."""
        return VLType(cast("Dataset", self), datatype, datatype_name)

    def createEnumType(self, datatype: Any, datatype_name: str, enum_dict: Mapping[str, int]) -> EnumType:
        """Make an enum type; see :class:`EnumType`."""
        return EnumType(cast("Dataset", self), datatype, datatype_name, enum_dict)

    # -- renaming ----------------------------------------------------------------------------------------

    def renameDimension(self, oldname: str, newname: str) -> None:
        """Rename a dimension of this group; it moves to the end of :attr:`dimensions`.

        Raises
        ------
        NetCDFKeyError
            If there is no `oldname`.
        NetCDFRuntimeError
            If there is a `newname`, or the dataset is read-only.
        """
        newname = self._nc_check_rename(self._nc_dimensions, oldname, newname, "dimension")
        dimension = self._nc_dimensions.pop(oldname)
        dimension._nc_name = newname
        self._nc_dimensions[newname] = dimension
        self._nc_session.root._nc_thaw_all()
        self._nc_touch()

    def renameVariable(self, oldname: str, newname: str) -> None:
        """Rename a variable of this group; it moves to the end of :attr:`variables`. Errors as above."""
        newname = self._nc_check_rename(self._nc_variables, oldname, newname, "variable")
        variable = self._nc_variables[oldname]
        session = self._nc_session
        if variable._nc_stored:
            session.flush()
        fqn = variable._nc_fqn
        del self._nc_variables[oldname]
        variable._nc_name = newname
        self._nc_variables[newname] = variable
        variable._nc_frozen = None
        self._nc_touch()
        if variable._nc_stored:
            session.moved([(variable, fqn)])

    def renameGroup(self, oldname: str, newname: str) -> None:
        """Rename a group of this group; it moves to the end of :attr:`groups`. Errors as above.

        The attribute :attr:`path` of the group's object keeps the old name, as in netCDF4-python.
        """
        newname = self._nc_check_rename(self._nc_groups, oldname, newname, "group")
        group = self._nc_groups[oldname]
        session = self._nc_session
        session.flush()
        fqn = group._nc_fqn
        moved = [(variable, variable._nc_fqn) for variable in group._nc_walk_variables()]
        del self._nc_groups[oldname]
        self._nc_groups[newname] = group
        group._nc_name = newname
        session.root._nc_move(fqn, join_fqn(self._nc_fqn, newname))
        self._nc_touch()
        session.moved(moved)

    def _nc_check_rename(self, nodes: Mapping[str, Any], old: str, new: str, what: str) -> str:
        self._nc_session.check_open()
        if old not in nodes:
            raise NetCDFKeyError(f"{old} not a valid {what} name", fqn=self._nc_fqn)
        self._nc_session.check_writable()
        new = checked_name(new, what)
        others: Mapping[str, Any] = {} if what == "dimension" else {**self._nc_variables, **self._nc_groups}
        if new in nodes or new in others:
            raise NetCDFRuntimeError(
                f"NetCDF: String match to name in use: the {what} {new!r}", fqn=self._nc_fqn
            )
        return new

    # -- settings ----------------------------------------------------------------------------------------

    def _nc_each_variable(self, method: str, value: bool) -> None:
        for variable in self._nc_variables.values():
            getattr(variable, method)(value)
        for group in self._nc_groups.values():
            group._nc_each_variable(method, value)

    def set_auto_mask(self, value: bool) -> None:
        """:meth:`Variable.set_auto_mask` for all variables here and below."""
        self._nc_each_variable("set_auto_mask", value)

    def set_auto_scale(self, value: bool) -> None:
        """:meth:`Variable.set_auto_scale` for all variables here and below."""
        self._nc_each_variable("set_auto_scale", value)

    def set_auto_maskandscale(self, value: bool) -> None:
        """:meth:`Variable.set_auto_maskandscale` for all variables here and below."""
        self._nc_each_variable("set_auto_maskandscale", value)

    def set_always_mask(self, value: bool) -> None:
        """:meth:`Variable.set_always_mask` for all variables here and below."""
        self._nc_each_variable("set_always_mask", value)

    def set_auto_chartostring(self, value: bool) -> None:
        """:meth:`Variable.set_auto_chartostring` for all variables here and below."""
        self._nc_each_variable("set_auto_chartostring", value)

    def set_ncstring_attrs(self, value: bool) -> None:
        """Store text attributes as netCDF strings here and below, now and in what is made later."""
        self._nc_ncstring = bool(value)
        for variable in self._nc_variables.values():
            variable.set_ncstring_attrs(value)
        for group in self._nc_groups.values():
            group.set_ncstring_attrs(value)

    def set_fill_on(self) -> None:
        """Variables made from now on are filled (the default)."""
        self._nc_session.check_writable()
        self._nc_session.fill = True

    def set_fill_off(self) -> None:
        """Variables made from now on are not filled: what is not written is undefined."""
        self._nc_session.check_writable()
        self._nc_session.fill = False

    def has_blosc_filter(self) -> bool:
        """True: blosc is available."""
        return True

    def has_zstd_filter(self) -> bool:
        """True: zstd is available."""
        return True

    def has_bzip2_filter(self) -> bool:
        """True: bzip2 is available."""
        return True

    def has_szip_filter(self) -> bool:
        """False: szip is not available."""
        return False

    # -- the dataset as a whole --------------------------------------------------------------------------

    def filepath(self, encoding: str | None = None) -> str:
        """The name that was given when the dataset was opened."""
        self._nc_session.check_open()
        return self._nc_session.name

    def isopen(self) -> bool:
        """True until the dataset is closed."""
        return self._nc_session.is_open

    def sync(self) -> None:
        """Write all that is not stored yet."""
        self._nc_session.sync()

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
        sizes = ", ".join(f"{d._nc_name}({d._nc_size})" for d in self._nc_dimensions.values())
        variables = ", ".join(
            f"{v.dtype} {v._nc_name}({', '.join(v.dimensions)})" for v in self._nc_variables.values()
        )
        lines.append(f"    dimensions(sizes): {sizes}")
        lines.append(f"    variables(dimensions): {variables}")
        lines.append(f"    groups: {', '.join(self._nc_groups)}")
        return "\n".join(lines)

    __str__ = __repr__

    def _nc_check_groups_allowed(self) -> None:
        if self._nc_session.data_model in CLASSIC_FORMATS:
            raise NetCDFRuntimeError("NetCDF: Attempting netcdf-4 operation on strict nc3 netcdf-4 file")

    def setncattr(self, name: str, value: Any) -> None:
        """Set a netCDF attribute; also with names that Python objects have themselves."""
        if not isinstance(name, str | bytes):
            raise NetCDFAttributeError(f"{name!r} cannot be the name of an attribute")
        super().setncattr(name, value)


def _equal(held: Any, wanted: Any) -> bool:
    same = held == wanted
    try:
        return held is not None and bool(same)
    except ValueError:  # arrays
        return held is not None and bool(same.all())

"""What ``print(variable)`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nczarr.netcdf4.constants import default_fillvals

if TYPE_CHECKING:
    from nczarr.netcdf4.variable import Variable


def describe_variable(variable: Variable) -> str:
    """A variable in some lines: type, attributes, dimensions, shape, fill."""
    if not variable._nc_session.is_open:
        return "Variable object no longer valid"
    kind = variable._nc_kind
    shown = str(variable.dtype) if kind == "primitive" else kind
    lines = ["<class 'nczarr.Variable'>", f"{shown} {variable._nc_name}({', '.join(variable.dimensions)})"]
    lines += [f"    {name}: {variable.getncattr(name)}" for name in variable.ncattrs()]
    if kind != "primitive":
        lines.append(f"{kind} data type: {variable.dtype}")
    if variable._nc_group.path != "/":
        lines.append(f"path = {variable._nc_group.path}")
    unlimited = [d._nc_name for d in variable._nc_dims if d._nc_unlimited]
    lines.append(f"unlimited dimensions: {', '.join(unlimited)}")
    lines.append(f"current shape = {variable.shape!r}")
    if kind == "primitive":
        lines.append(_filling(variable))
    return "\n".join(lines)


def _filling(variable: Variable) -> str:
    if variable._nc_storage.no_fill:
        return "filling off"
    if "_FillValue" in variable._nc_attributes:
        return "filling on"
    code = variable._nc_dtype.str[1:]
    use = "ignored" if code in ("u1", "i1") else "used"
    return f"filling on, default _FillValue of {default_fillvals[code]} {use}"

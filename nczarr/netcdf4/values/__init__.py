"""Convert values between the model's form and what a program sees: indices, masks, packing, text, rounding.

Nothing here knows the classes of the interface: functions take a session's nodes, and the settings of a variable
(:class:`nczarr.netcdf4.values.types.Settings`).
"""

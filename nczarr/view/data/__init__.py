"""Read what a picture needs of a dataset: coordinates, dates, strided parts of values, statistics.

Values come through the netCDF interface, masked and unpacked, and never more of them than a screen has pixels for.
The modules are imported one by one: times and statistics load libraries that few need.
"""

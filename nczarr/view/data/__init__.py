"""Read the data of pictures: coordinates, dates, strided values, statistics.

The netCDF interface masks and unpacks the values. Strides limit them to the number of pixels of a screen. Import the
modules individually: times and statistics import libraries that other modules do not need.
"""

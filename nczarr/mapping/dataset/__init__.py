"""Open, create and change netCDF datasets in Zarr stores, in any layout.

A :class:`StoredDataset` contains a model and the data of each variable, and is the same for every dialect. The packages
``guarding`` and ``rewriting`` protect and change it. The module ``maintenance`` finishes or removes remains of
interrupted writers (:func:`clean`), and writes the understood metadata after changes by other programs
(:func:`repair`).
"""

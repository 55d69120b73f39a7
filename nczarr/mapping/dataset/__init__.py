"""Open, create and change netCDF datasets in Zarr stores, whatever their layout.

A :class:`StoredDataset` holds a model and the data of each variable, and is the same for every dialect; what guards
it and how it is changed have rooms of their own (``guarding``, ``rewriting``). What was interrupted is finished or
removed (``cleaning``), what other programs changed is written down as it is understood (:func:`repair`).
"""

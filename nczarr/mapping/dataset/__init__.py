"""Open, create and change netCDF datasets in Zarr stores, in any layout.

A :class:`StoredDataset` contains a model and the data of each variable, and is the same for every dialect.

* A new dataset is hidden until it is complete, and foreign files in its directory are not deleted (``destination``). A
  writer of a whole dataset excludes other writers; documents that other programs have changed are detected
  (``changes``).
* A change is the difference of two plans, written in an order in which readers never see a size that the arrays do not
  have (``update``); lengths alone need no plan (``documents``). A journal records moves of arrays before they begin, so
  that an interrupted move can be finished or undone (``rename_journal``).
* The module ``maintenance`` finishes or removes remains of interrupted writers, and writes the understood metadata
  after changes by other programs.
"""

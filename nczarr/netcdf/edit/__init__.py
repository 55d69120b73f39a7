"""Write netCDF files: change the model and the values of a file without a copy of it.

:func:`open_file` opens an existing file, :func:`create_file` creates a new one. Both return an object with
the model (``dataset``) and the values of each variable (``data``). ``update`` changes the model,
``data(fqn).write`` changes values, ``sync`` writes all changes to the file.
"""

"""Generate docs/netcdf4-compatibility.md, which compares nczarr with netCDF4-python name by name.

Each row has a script for both libraries, which ``tests/netcdf4/test_compatibility.py`` executes. To generate the page:
``python tests/helpers/netcdf4_table.py``.
"""

# ruff: noqa: E501
from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import netcdf4_odd_calls as odd

PAGE = Path(__file__).parents[2] / "docs" / "netcdf4-compatibility.md"


@dataclass(frozen=True)
class Row:
    """A row of the table, with a script that uses ``nc`` (the library), ``path`` and ``log``."""

    names: str
    verdict: Literal["same", "better", "different"]
    script: str
    note: str = ""


def same(names: str, script: str, note: str = "") -> Row:
    return Row(names, "same", script, note)


def better(names: str, script: str, note: str) -> Row:
    return Row(names, "better", script, note)


def different(names: str, script: str, note: str) -> Row:
    return Row(names, "different", script, note)


#: The first lines of each script: a small dataset `ds`, open for writing.
START = """
ds = nc.Dataset(path, "w")
ds.createDimension("t", None); ds.createDimension("x", 3)
v = ds.createVariable("v", "f4", ("t", "x"), fill_value=-1.0)
v[:2] = np.arange(6).reshape(2, 3)
"""

SECTIONS: dict[str, list[Row]] = {
    "The module": [
        same(
            "`num2date`, `date2num`, `date2index`",
            "import cftime; log(nc.num2date is cftime.num2date, nc.date2num is cftime.date2num)",
            "the functions of cftime",
        ),
        same(
            "`stringtochar`, `chartostring`, `stringtoarr`",
            "log(nc.stringtochar(np.array(['ab', 'c'], 'S2')), nc.stringtoarr('ab', 4))\n"
            "log(nc.chartostring(np.array([[b'a', b'b']])))",
        ),
        same("`default_fillvals`", "log(nc.default_fillvals)"),
        same(
            "`is_native_little`, `is_native_big`, `default_encoding`, `unicode_error`",
            "log(nc.is_native_little, nc.is_native_big, nc.default_encoding, nc.unicode_error)",
        ),
        same(
            "`dtype_is_complex`, `NC_DISKLESS`, `NC_PERSIST`",
            "log(nc.dtype_is_complex('c16'), nc.NC_DISKLESS, nc.NC_PERSIST)",
        ),
        same(
            "`getlibversion`, `__netcdf4libversion__`, `__has_…__`",
            "log(type(nc.getlibversion()), nc.__has_rename_grp__, nc.__has_ncfilter__)",
            "the version is that of netCDF-C whose behaviour nczarr follows",
        ),
        same(
            "`__has_szip_support__`, `compression='szip'`",
            "ds.createDimension('p', 40); v = ds.createVariable('z', 'i4', ('p',), compression='szip', szip_coding='ec')\n"
            "v[:] = range(len(v)); log(nc.__has_szip_support__, v.filters(), v[:])",
            "Zarr has no szip codec, so Zarr stores use zstd and record szip with its settings; netCDF files use szip",
        ),
        same(
            "`parallel=`, without MPI: `ValueError`",
            "attempt(lambda: nc.Dataset(path + 'p', 'w', parallel=True))",
            "joint writing needs no MPI: see `shared=True`",
        ),
        same(
            "`rc_get`, `rc_set`",
            "nc.rc_set('A', 'b'); log(nc.rc_get('A'), nc.rc_get('none'))",
            "the setting is stored, and has no effect",
        ),
        same(
            "`get_chunk_cache`, `set_chunk_cache`",
            "old = nc.get_chunk_cache(); nc.set_chunk_cache(1 << 20, 100, 0.5); log(nc.get_chunk_cache())\n"
            "nc.set_chunk_cache(*old)",
            "the size is that of the decoded chunks in the cache of each dataset (in HDF5: of each variable); `NCZARR_CACHE` sets it, too",
        ),
        same(
            "`utils.ncinfo`, `utils._StartCountStride`, `utils._out_array_shape`",
            "count = nc.utils._StartCountStride((0, slice(2)), (2, 3))[1]\nlog([int(n) for n in nc.utils._out_array_shape(count)])",
        ),
        different(
            "`utils.nc3tonc4`, `utils.nc4tonc3`",
            "ds.close(); nc.Dataset(path + '3.nc', 'w', format='NETCDF3_CLASSIC').close()\n"
            "attempt(lambda: nc.utils._nc3tonc4(path + '3.nc', path + '4.nc', quiet=True))",
            "`nczarr copy --format=nc7`, and `--format=classic`; it has options to select, chunk and compress",
        ),
        better(
            "`install()`, `uninstall()`",
            "log(hasattr(nc, 'install'))",
            "nczarr replaces netCDF4 under its name, in programs that cannot be edited",
        ),
    ],
    "Dataset": [
        same(
            "`auto_complex=True`",
            "c = nc.Dataset(path + 'c', 'w', auto_complex=True); c.createDimension('x', 2)\n"
            "z = c.createVariable('z', 'c16', ('x',)); z[:] = [1j, 2]; log(c.auto_complex, z.dtype, z[:])",
            "complex numbers are stored as compounds of `r` and `i`, or in netCDF-3 models as pairs along a dimension; dimensions of size two called `ri` or `complex` are also read",
        ),
        same("modes `r`, `w`, `x`, `a`, `r+`", "ds.close(); log(nc.Dataset(path, 'a').variables['v'].shape)"),
        same("unknown mode or format: `ValueError`", "attempt(lambda: nc.Dataset(path, 'q'))"),
        same(
            "unknown format for an existing dataset: ignored",
            "ds.close(); ds = nc.Dataset(path, 'r', format='netcdf4'); log(ds.data_model); ds.close(); ds = nc.Dataset(path, 'a')",
        ),
        same(
            "missing file: `FileNotFoundError` with errno and filename",
            "try: nc.Dataset(path + 'x')\nexcept FileNotFoundError as e: log(e.errno, e.filename == path + 'x')",
        ),
        same(
            "a file of another kind: `OSError` -51",
            "open(path + 'g', 'w').write('garbage' * 9)\ntry: nc.Dataset(path + 'g')\nexcept OSError as e: log(e.errno)",
        ),
        same(
            "a damaged netCDF-4 file: `OSError` -101, with the file's name",
            "p = path + '.nc'; nc.Dataset(p, 'w').close(); b = open(p, 'rb').read()\nfor n in (200, 900, len(b) - 9):\n"
            "    open(p, 'wb').write(b[:n])\n    try: nc.Dataset(p)\n    except OSError as e: log(e.errno, e.filename == p)",
        ),
        same(
            "a path that cannot be created: `PermissionError` 13 when writing",
            "open(path + 'f', 'w')\nfor p in (path + '-no/a.nc', path + 'f/a.nc', path + 'x' * 300):\n    try: nc.Dataset(p, 'w')\n"
            "    except PermissionError as e: log(e.errno, e.filename == p)",
        ),
        different(
            "an existing dataset with mode `x`, or `clobber=False`",
            "ds.close()\ntry: nc.Dataset(path, 'x')\nexcept OSError as e: log(isinstance(e, FileExistsError))",
            "`FileExistsError` with errno 17, where netCDF4 has an `OSError` -35",
        ),
        same(
            "`data_model`, `path`, `parent`, `name`, `isopen()`",
            "g = ds.createGroup('g/h'); log(ds.data_model, g.path, g.name, g.parent.name, ds.isopen())",
        ),
        same("`disk_format` of a netCDF file", "log(ds.disk_format)"),
        different(
            r"`\/` in a name or path",
            "w = nc.Dataset(zarr, 'w')\nattempt(lambda: w.createVariable('g\\\\/v', 'i4', ()).name)",
            r'a slash that is part of the name, on Zarr (`createVariable(r"g\/v", …)`); `/` separates groups in both',
        ),
        different("`disk_format` of Zarr", "log(nc.Dataset(zarr, 'w').disk_format)", "`ZARR`"),
        same(
            "`diskless`, `persist`",
            "d = nc.Dataset(path + 'd', 'w', diskless=True); d.close(); import os; log(os.path.exists(path + 'd'))",
        ),
        same(
            "`memory=`",
            "m = nc.Dataset('m', 'w', memory=100); b = m.close(); log(bytes(b[:4]))",
            'the bytes are a zip archive of the Zarr hierarchy for a name in `.zarr` or `.zip`, or with `storage="zarr"`',
        ),
        same(
            "`keepweakref`",
            # Without the interpreter lock, the next opening closes what was dropped.
            "ds.close(); d = nc.Dataset(path, keepweakref=True); w = d['v']; del d; nc.Dataset(path).close()\n"
            "attempt(lambda: w[:])",
        ),
        same("`ds['g/v']`, `IndexError` for a missing name", "log(ds['v'].shape); attempt(lambda: ds['w'])"),
        better(
            "missing names",
            "try: ds.variables['vv']\nexcept KeyError as e: log('did you mean' in str(e))",
            "the error suggests a similar name",
        ),
        same(
            "`createGroup`, `createDimension`, rename…",
            "ds.renameDimension('x', 'y'); ds.renameVariable('v', 'w'); log(list(ds.dimensions), ds['w'].dimensions)",
        ),
        same(
            "`get_variables_by_attributes`",
            "v.units = 'K'; log([f.name for f in ds.get_variables_by_attributes(units='K')])",
        ),
        same("`set_auto_mask`, `set_auto_scale`, …", "ds.set_auto_mask(False); log(v.mask, v[:])"),
        same(
            "`set_fill_off`",
            "ds.set_fill_off(); ds.createVariable('n', 'i4', ('x',)); ds.close(); log(nc.Dataset(path)['n'].get_fill_value())",
        ),
        same(
            "`NETCDF3_…` and `NETCDF4_CLASSIC`: their limits",
            "d = nc.Dataset(path + '3', 'w', format='NETCDF3_CLASSIC'); attempt(lambda: d.createGroup('g')); d.close()",
        ),
        better(
            "pickling",
            "ds.close()\nimport pickle\nd = nc.Dataset(path)\ntry: log(pickle.loads(pickle.dumps(d))['v'].shape)\nexcept NotImplementedError: log('refused')",
            "datasets that are open for reading, and their variables, can be sent to other processes",
        ),
        better(
            "use after `close()`",
            "ds.close()\ntry: v[:]\nexcept RuntimeError as e: log('the dataset is closed' in str(e))",
            "the errors have the same classes, and a message in words",
        ),
        same(
            "a reader beside a writer in the same process",
            "log(nc.Dataset(path)['v'][:])",
            "opening the reader writes what the writer has, and a later opening sees later values; in other processes, readers see what was synced",
        ),
        different(
            "a second writer in the same process",
            "ds.sync()\ntry: nc.Dataset(path, 'a').close(); log('opened')\nexcept PermissionError: log('refused')",
            "it is refused, as in another process; `shared=True` permits joint writing of values",
        ),
    ],
    "Variable": [
        same(
            "`shape`, `ndim`, `size`, `dtype`, `dimensions`, `len()`",
            "log(v.shape, v.ndim, v.size, v.dtype, v.dimensions, len(v))",
        ),
        same("masking and fill values", "v[0] = np.ma.masked; log(v[:], v.get_fill_value())"),
        same(
            "`scale_factor`, `add_offset`",
            "p = ds.createVariable('p', 'i2', ('x',)); p.scale_factor = 0.5; p[:] = [1, 1.5, 2]; log(p[:])",
        ),
        same("orthogonal indexing", "log(v[[0, 1], [2, 0]], v[::-1, ...], v[-1, 1:])"),
        better(
            "`vindex`",
            "attempt(lambda: v.vindex[..., [0]].shape)",
            "`v.vindex[t, y, x]` reads single elements, such as 100 stations, and each chunk once; netCDF4-python has only `v[t, y, x]`, which reads the box of all combinations",
        ),
        better(
            "values that change",
            "import warnings\nu = ds.createVariable('u', 'i2', ('x',))\nwith warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always'); u[:] = np.array([1, 2, 70000]); log(u[:], len(caught))",
            "the casts are the same; the first value of each variable that comes back as another one is named in a warning (`ChangedValueWarning`)",
        ),
        same("unlimited dimensions", "v[5] = 9; log(v.shape, v[3:])"),
        same(
            "`chunking()`, `filters()`",
            "z = ds.createVariable('z', 'f4', ('t', 'x'), zlib=True, chunksizes=(10, 3)); log(z.chunking(), z.filters())",
        ),
        different(
            "default chunks of Zarr",
            "w = nc.Dataset(zarr, 'w'); w.createDimension('t'); w.createDimension('x', 1000)\n"
            "log(w.createVariable('v', 'f4', ('t', 'x')).chunking())",
            "without `chunksizes`, a chunk has about 512 KiB along an unlimited dimension (at most 4,096 steps), where netCDF-C has 1 step: one object in place of 128; all variables that are created together have one length along it; netCDF files have netCDF-C's chunks",
        ),
        better(
            "`shards()`, `createVariable(shards=…)`",
            "w = nc.Dataset(zarr, 'w'); w.createDimension('x', 3)\n"
            "attempt(lambda: w.createVariable('s', 'f4', ('x',), chunksizes=(1,), shards='auto').shards())",
            "shards pack the chunks of a Zarr array into few objects; netCDF files have none",
        ),
        same(
            "`endian`, `quantization`",
            "log(ds.createVariable('b', 'f4', ('x',), endian='big').endian(), v.quantization())",
        ),
        same(
            "`least_significant_digit`",
            "q = ds.createVariable('q', 'f4', ('x',), least_significant_digit=1); q[:] = 0.123; log(q[:])",
        ),
        same(
            "text",
            "s = ds.createVariable('s', str, ('x',)); s[0] = 'a'; s[1:] = np.array(['b', 'ü'], object); log(s[:], s[1])",
        ),
        same(
            "characters with `_Encoding`",
            "ds.createDimension('n', 4); c = ds.createVariable('c', 'S1', ('x', 'n')); c._Encoding = 'utf-8'; c[:] = np.array(['a', 'bc', ''], 'U4'); log(c[:])",
        ),
        better(
            "arrays of objects for characters",
            "ds.createDimension('n', 4); c = ds.createVariable('c', 'S1', ('x', 'n')); c._Encoding = 'utf-8'\n"
            "try: c[:] = np.array(['a', 'bc', ''], object); log(c[:])\nexcept ValueError: log('refused')",
            "each object is a text; netCDF4-python takes each for one character",
        ),
        same(
            "`set_var_chunk_cache`, `get_var_chunk_cache`",
            "v.set_var_chunk_cache(1000, 10, 0.5); log(v.get_var_chunk_cache())",
        ),
        same(
            "`assignValue`, `getValue`",
            "k = ds.createVariable('k', 'i4'); k.assignValue(3); log(k.getValue())",
        ),
        different("`print(variable)`", "log(repr(v).splitlines()[0])", "the class is `nczarr.Variable`"),
    ],
    "Attributes and types": [
        same(
            "types of attributes",
            "ds.a = 1; ds.b = [1.5, 2]; ds.c = 'text'; ds.d = ['x', 'y']; ds.e = np.int8(3); log(ds.a, ds.b, ds.c, ds.d, ds.e)",
        ),
        same(
            "`setncattr`, `ncattrs`, `delncattr`, `renameAttribute`",
            "ds.setncattr('ndim', 1); ds.renameAttribute('ndim', 'n'); log(ds.ncattrs()); ds.delncattr('n'); log(ds.ncattrs())",
        ),
        same(
            "compounds",
            "k = ds.createCompoundType(np.dtype([('a', 'i4'), ('s', 'S4')]), 'k'); c = ds.createVariable('c', k, ('x',)); c[0] = np.array((1, b'ab'), k.dtype_view); log(c[0])",
        ),
        same(
            "sequences",
            "k = ds.createVLType('i4', 'k'); c = ds.createVariable('c', k, ('x',)); c[0] = np.arange(3, dtype='i4'); log(c[0])",
        ),
        same(
            "enums",
            "k = ds.createEnumType('u1', 'k', {'a': 0, 'b': 1}); c = ds.createVariable('c', k, ('x',), fill_value=0); c[:] = 1; log(c[:], k.enum_dict)",
        ),
        better(
            "opaque types",
            "log(hasattr(ds, 'opaquetypes'))",
            "variables of these types are readable; netCDF4-python skips them",
        ),
    ],
    "Several files": [
        same(
            "`MFDataset`, `MFTime`",
            "ds.close()\nfor i in range(2):\n    d = nc.Dataset(path + str(i), 'w', format='NETCDF4_CLASSIC'); d.createDimension('t', None)\n"
            "    q = d.createVariable('q', 'i4', ('t',)); q.units = 'K'; q[:] = [i, i + 1]; d.close()\n"
            "m = nc.MFDataset([path + '0', path + '1']); log(m.variables['q'][:], m.variables['q'].shape)\n"
            "log([f[:].tolist() for f in m.get_variables_by_attributes(units='K')]); m.close()",
        ),
        better(
            "`MFDataset` of data model NETCDF4",
            "ds.close()\ntry: m = nc.MFDataset([path]); log(m.variables['v'].shape)\nexcept ValueError: log('refused')",
            "the data model is supported",
        ),
        better(
            "`MFTime` of days and hours",
            "ds.close()\nfor i, u in enumerate(('days', 'hours')):\n"
            "    d = nc.Dataset(path + str(i), 'w', format='NETCDF4_CLASSIC'); d.createDimension('t', None)\n"
            "    q = d.createVariable('q', 'f8', ('t',)); q.units, q.calendar = u + ' since 2000-01-01', 'standard'\n"
            "    q[:] = [0, 12]; d.close()\n"
            "m = nc.MFDataset([path + '0', path + '1']); log(nc.MFTime(m.variables['q'])[:]); m.close()",
            "hours of one file are converted to days of another; netCDF4-python treats them as days",
        ),
    ],
}

HEAD = """# netCDF4-python's interface

<!-- Made by tests/helpers/netcdf4_table.py, whose rows the tests execute with both libraries. -->

`import nczarr as netCDF4` or `import nczarr.netcdf4 as netCDF4` is enough for most programs. `install()` serves
programs that cannot be edited:

```python
import nczarr.netcdf4

nczarr.netcdf4.install()  # from here on `import netCDF4` gives nczarr
import netCDF4

assert netCDF4.Dataset is nczarr.Dataset
nczarr.netcdf4.uninstall()  # undoes it
```

A path that ends in `.nc`, `.nc3`, `.nc4`, `.cdf`, `.netcdf`, `.h5`, `.hdf5` or `.he5` names a **netCDF file**.
Any other path names a **Zarr** dataset. `storage="netcdf"` or `storage="zarr"` overrides the name. This rule,
{func}`nczarr.formats.storage_of`, applies to new datasets. An existing dataset is opened in its own format.

After `install()`, **every local path names a netCDF file** (`traj.ncdf`, `out.e`,
`wrfout_d01_2005-08-28_12:00:00`), as programs for netCDF4-python expect. The exceptions are paths that end in
`.zarr` or `.zip`, and existing directories. URLs keep the first rule. `nczarr.netcdf4.storage("netcdf")`, `"zarr"`
or `"auto"`, or the environment variable `NCZARR_STORAGE`, sets the rule of a program.

The same classes create, read and edit netCDF files of all five formats in place. netCDF-4 needs the package h5py.

```python
import nczarr

with nczarr.Dataset("made.nc", "w", format="NETCDF3_CLASSIC") as ds:
    ds.createDimension("time", None)
    ds.createVariable("t", "f4", ("time",))[:] = [1, 2]
with nczarr.Dataset("made.nc", "a") as ds:
    ds["t"][2] = 3  # one record more, in the file itself
    assert (ds.data_model, ds.disk_format) == ("NETCDF3_CLASSIC", "NETCDF3")
```

In the tables, **same** means that a script has the same results with both libraries (values, types, masks, classes
of errors), **better** that nczarr does more, and **different** that programs can notice the difference.

"""

TAIL = """## Random programs

`tests/netcdf4/test_random_programs.py` runs random programs with both libraries and compares every value,
dtype, mask and class of error (`NCZARR_PROGRAMS=2000` runs many of them). The programs create, rename, write,
append, read, mask, scale, synchronise and reopen, and use attributes, numbers, characters and text, strings,
compounds, sequences, enums and indexes of all kinds. They cover all five formats, and for nczarr netCDF
files, Zarr and zip files. The comparison excludes the following cases, in which netCDF4-python or netCDF-C
has a fault or the documentation is silent:

* An index beyond the end raises `IndexError`. netCDF4-python raises `RuntimeError` in the classic formats,
  and writes at any index of a variable without dimensions there. A read with a positive index of such a variable
  gives its value in both.
* A failed call changes nothing. netCDF4-python leaves a variable behind if chunk sizes or the fill value do
  not fit, and leaves a classic file in define mode, in which it is neither readable nor writable.
* A variable may be renamed to the name of a dimension, and vice versa. netCDF-C may crash.
* An attribute that was stored by `sync()`, set again and then renamed has its new name only. A file of netCDF-C
  keeps the old one too.
* A renamed attribute can be deleted. In classic files, netCDF-C does not find it under its new name, if that is shorter.
* `v[-3:] = values` on a dimension with fewer steps is refused if there are none, and otherwise writes the
  existing steps. netCDF4-python refuses it, or drops the values.
* Nothing is written with a `scale_factor` or `add_offset` that is not a single number. netCDF4-python packs
  with a vector that fits the values, and does not unpack with it.
* After `_FillValue` is deleted, unwritten elements have the default fill value of the type. In netCDF-C, they have
  the value that the attribute had when the variable was created. With `fill_value=False`, they are undefined.
* `v[1] = [7, 8]` raises `IndexError`. netCDF4-python keeps the last value.
* Masked values that are repeated to the shape of the selection keep their mask. netCDF4-python writes the values
  below it.
* `v[::-1, [2, 0]] = values` writes the values. netCDF4-python raises `IndexError`.
* An attribute that exceeds the 32 bits of a classic model raises `OverflowError`, and a string with a NUL
  inside raises `ValueError` in netCDF-4 files. netCDF4-python stores another number, and truncates the
  string.
* Characters are never packed. netCDF4-python can neither read nor write them with `scale_factor`. If the last
  dimension of text is empty, a read returns no characters; netCDF4-python raises `ValueError`.
* A variable keeps its dimensions when its group gets a dimension of the same name later. netCDF4-python looks for the
  dimension by its name, and reports the length of the later one.
* If a call has two errors, the libraries may report different ones.

## Several threads, processes and crashes

* Many threads can use one dataset at once: they read, write, change attributes, and create and rename variables. A loop
  over `variables`, `groups` or `dimensions` sees the state at its start. After one thread closes a dataset, the
  others get the error "the dataset is closed".
* Free-threaded Python (3.14t) runs nczarr in parallel: see [the
  trials](trust.md#without-the-interpreter-lock).
* A forked child of a writing process can neither write nor complete the dataset. The child can use datasets that are
  open for reading, and any other process can get them by pickling.
* A dataset has one writer. A second opening for writing raises `LockedError` (a `PermissionError`). The
  lock is the operating system's, on the directory or the file itself, and ends with the process that holds it.
  `shared=True` in all processes permits joint writing, but of values only. Processes that store parts of one chunk
  wait for each other. On object stores (`s3://`, …) a mark replaces the lock, and outlives a process that is killed:
  see [](howto/object-stores.md#two-programs-that-write). **There is no lock** in memory, on Windows, and on network
  file systems without `flock`: ensure there that only one process writes.
* A reader of a netCDF-4 file that was opened beside its writer in the same process stays valid after the writer is
  closed. Until that reader is closed too, the file is not opened for writing again (`LockedError`), since HDF5
  would give the reader wrong values.
* Partial writes of chunks wait in a cache of decoded chunks, and `sync()` and `close()` write them. The cache has
  64 MiB for each dataset (`NCZARR_CACHE`, `set_chunk_cache`), and one more chunk for each variable that grows, up to
  eight times as much in all. After a crash, the dataset has every value that `sync()` acknowledged. Values are stored
  before the sizes that include them, never the other way round.
* A dataset that a program drops without closing it is stored at once, or where that is not safe, at the next call that
  opens, syncs or closes a dataset, and at the latest when the program ends: see [](architecture.md#dropped-datasets).
* Values that a killed writer left behind the end of a dimension never reappear: nczarr removes them before
  the dimension grows.

## netCDF files

* A new file appears under its name at once. A new file in place of a non-empty one replaces it at the first
  `sync()` or at `close()`; until then, the old file stays unchanged.
* A dataset that this process has open for writing cannot be replaced under its name, since two writers of one file
  destroy each other's work. netCDF4-python refuses the replacement of netCDF-4 files (`PermissionError`), and mixes
  both in classic ones.
* The lock is on the file. The HDF5 library takes the same lock: while nczarr has a netCDF-4 file open for writing, programs
  with HDF5 can neither read nor write it, and vice versa. Readers in the same process see all synced data, and
  possibly more.
* A classic file counts a record once all variables have it, and the number of records is written last. If a header
  outgrows its room, the data move in a copy, which then replaces the file, so a kill leaves the old file. A header
  that has grown once has spare room.
* HDF5's metadata reach a netCDF-4 file at `sync()` (or when 16 MiB of them are pending), in an order that
  nczarr chooses: new objects first, then the superblock, then indexes, and last the headers with the sizes.
  After a kill between two calls, the file has the state of the last call. After a kill within a `sync()` that
  appends numbers without compression, the file is readable and has every acknowledged step. **There is no
  promise** for a kill within the fraction of a millisecond of a `sync()` that rewrites a chunk of strings or
  a compressed chunk, or creates variables: HDF5 overwrites bytes there, and may refuse that chunk, or the
  file, afterwards. Files of netCDF4-python have the same risk.
* `sync()` and `close()` wait until the data are on the disk, unlike netCDF-C: acknowledged data survive a loss of
  power. `durable=False`, for both and for `Dataset`, omits the wait; see [the cost](trust.md#writing).
* Only groups that come after the group of a type can use the type. nczarr refuses other uses when a program creates
  the variable or type. netCDF-C writes such files, and cannot read them.
* A full disk raises an error and does not end the process. A file that is open for editing may then be damaged.
* An HDF5 file without creation order (the default of h5py) is readable but cannot be changed, as with
  netCDF-C. The same applies to a file with a link to another name or another file.
* Attributes keep their positions when they get longer values. netCDF-C moves them to the end.
* A renamed object keeps its position in the dataset, and moves to the end of the open dataset's dictionaries,
  as in netCDF4-python. In netCDF-4 files, renamed variables and groups move to the end, where h5py's HDF5
  library places them.
* In HDF5, the variables, groups, types and dimensions of a group share one name space. nczarr refuses a
  second use of a name on creation.
* `diskless=True` creates a netCDF file in memory if the name is that of a netCDF file; `memory=` does so for
  all names except `.zarr` and `.zip`. `close()` returns its bytes, or with `persist=True` writes them to the
  file, which is locked against other writers until then. `options=` and `shared=` apply to Zarr only.
"""


CLIENTS = Path(__file__).parents[1] / "clients" / "clients.toml"

CLIENTS_HEAD = """## Programs

`tests/clients/run.py` runs the tests of packages that use netCDF4-python, with netCDF4-python and with nczarr
in its place. Tests that pass with the former must pass with the latter, with these exceptions:

| package | tests | passed with netCDF4, with nczarr | exceptions |
|---|---|---|---|
"""


def clients() -> str:
    """Return the table of the packages whose tests run with nczarr, with the exceptions."""
    lines = []
    for name, client in tomllib.loads(CLIENTS.read_text(encoding="utf-8"))["client"].items():
        found = [f"`{e['test'].strip('*:')}`: {e['reason']}" for e in client.get("exception", [])]
        cells = (f"{name} {client['version']}", client["what"], client.get("seen", "not counted yet"))
        lines.append(f"| {' | '.join(cells)} | {'; '.join(found) or 'none'} |")
    return CLIENTS_HEAD + "\n".join(lines) + "\n\n"


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD.rstrip(), ""]
    for title, rows in SECTIONS.items():
        lines += [f"## {title}", "", "| name | | |", "|---|---|---|"]
        lines += [f"| {row.names} | {row.verdict} | {row.note} |" for row in rows]
        lines.append("")
    return "\n".join(lines) + "\n" + clients() + odd_calls() + TAIL


def odd_calls() -> str:
    """Return the section on the calls of tests/netcdf4/test_odd_calls.py."""
    total = sum(len(calls) for _, calls in odd.GROUPS.values())
    lines = [
        "## Odd calls",
        "",
        f"`tests/netcdf4/test_odd_calls.py` makes {total:,} odd calls with both libraries (nczarr on netCDF files and on",
        "Zarr), and compares the class of error, or the result, the warnings, and the content of the dataset. An error",
        "of nczarr may be a subclass. All other calls than these have the same outcome:",
        "",
        "| method | calls | of these different | for example | reason |",
        "|---|---|---|---|---|",
    ]
    for group, (_, calls) in odd.GROUPS.items():
        shown = [f"`{group}`" if group[-1] == "]" or "(" in group else group, f"{len(calls):,}"]
        for difference in odd.DIFFERENCES[group]:
            found = [
                c for c in calls if any(odd.documented(group, c, f) is difference for f in difference.files)
            ]
            where = (
                ""
                if len(difference.files) == 2
                else " (Zarr)"
                if "zarr" in difference.files[0]
                else " (netCDF files)"
            )
            example = found[0].split(";")[0] if len(found[0]) > 70 else found[0]
            lines.append(
                "| " + " | ".join([*shown, f"{len(found)}{where}", f"`{example}`", difference.reason]) + " |"
            )
            shown = ["", ""]
        if not odd.DIFFERENCES[group]:
            lines.append("| " + " | ".join([*shown, "none", "", ""]) + " |")
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The table of docs/netcdf4-compatibility.md: what is the same as in netCDF4-python, what is better, what differs.

Each row is a script that runs with both libraries; ``tests/netcdf4/test_compatibility.py`` executes it. To write the page anew:
``python tests/helpers/netcdf4_table.py``.
"""

# ruff: noqa: E501
from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PAGE = Path(__file__).parents[2] / "docs" / "netcdf4-compatibility.md"


@dataclass(frozen=True)
class Row:
    """Names, what is to be said of them, and a script with ``nc`` (the library), ``path`` and ``log``."""

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


#: Put before each script: a small dataset `ds` that is open for writing.
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
            "those of cftime",
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
            "the netCDF-C whose behaviour is followed",
        ),
        same(
            "`__has_szip_support__`, `compression='szip'`",
            "ds.createDimension('p', 40); v = ds.createVariable('z', 'i4', ('p',), compression='szip', szip_coding='ec')\n"
            "v[:] = range(len(v)); log(nc.__has_szip_support__, v.filters(), v[:])",
            "recorded with its settings, and szip again in netCDF files; Zarr has no such codec, so zstd is stored",
        ),
        same(
            "`parallel=`, without MPI: `ValueError`",
            "attempt(lambda: nc.Dataset(path + 'p', 'w', parallel=True))",
            "writing together needs no MPI: see `shared=True`",
        ),
        same(
            "`rc_get`, `rc_set`", "nc.rc_set('A', 'b'); log(nc.rc_get('A'), nc.rc_get('none'))", "remembered"
        ),
        same(
            "`get_chunk_cache`, `set_chunk_cache`",
            "old = nc.get_chunk_cache(); nc.set_chunk_cache(1 << 20, 100, 0.5); log(nc.get_chunk_cache())\n"
            "nc.set_chunk_cache(*old)",
            "bytes of decoded chunks for each dataset (for each variable in HDF5); also `NCZARR_CACHE`",
        ),
        same(
            "`utils.ncinfo`, `utils.nc3tonc4`, `utils.nc4tonc3`",
            "c = nc.Dataset(path + '4.nc', 'w', format='NETCDF4_CLASSIC'); c.createDimension('t', None)\n"
            "c.createVariable('v', 'i2', ('t',))[:] = range(25); c.close()\n"
            "nc.utils._nc4tonc3(path + '4.nc', path + '3.nc', quiet=True)\n"
            "nc.utils._nc3tonc4(path + '3.nc', path + '5.nc', quiet=True, istop=9)\n"
            "log(nc.Dataset(path + '3.nc').data_model, nc.Dataset(path + '5.nc')['v'][:])\n"
            "attempt(lambda: nc.utils._nc4tonc3(path + '3.nc', path + '6.nc'))",
            "limits (`valid_range` …) are unpacked with the values, what is missing and what is fill stay apart, and a"
            " target is there only when it is complete; groups, types and a second unlimited dimension are refused",
        ),
        better(
            "`install()`, `uninstall()`",
            "log(hasattr(nc, 'install'))",
            "stands in for netCDF4 in programs that cannot be edited, under its name",
        ),
    ],
    "Dataset": [
        same(
            "`auto_complex=True`",
            "c = nc.Dataset(path + 'c', 'w', auto_complex=True); c.createDimension('x', 2)\n"
            "z = c.createVariable('z', 'c16', ('x',)); z[:] = [1j, 2]; log(c.auto_complex, z.dtype, z[:])",
            "compounds of `r` and `i`, in netCDF-3 models pairs along a dimension; read, too, from dimensions of two called `ri` or `complex`",
        ),
        same("modes `r`, `w`, `x`, `a`, `r+`", "ds.close(); log(nc.Dataset(path, 'a').variables['v'].shape)"),
        same("unknown mode or format: `ValueError`", "attempt(lambda: nc.Dataset(path, 'q'))"),
        same(
            "unknown format of what is there: ignored",
            "ds.close(); ds = nc.Dataset(path, 'r', format='netcdf4'); log(ds.data_model); ds.close(); ds = nc.Dataset(path, 'a')",
        ),
        same(
            "missing file: `FileNotFoundError` with errno and filename",
            "try: nc.Dataset(path + 'x')\nexcept FileNotFoundError as e: log(e.errno, e.filename == path + 'x')",
        ),
        same(
            "what is no dataset: `OSError` -51",
            "open(path + 'g', 'w').write('garbage' * 9)\ntry: nc.Dataset(path + 'g')\nexcept OSError as e: log(e.errno)",
        ),
        same(
            "a damaged netCDF-4 file: `OSError` -101, with the file's name",
            "p = path + '.nc'; nc.Dataset(p, 'w').close(); b = open(p, 'rb').read()\nfor n in (200, 900, len(b) - 9):\n"
            "    open(p, 'wb').write(b[:n])\n    try: nc.Dataset(p)\n    except OSError as e: log(e.errno, e.filename == p)",
        ),
        same(
            "a place where no file can be: `PermissionError` 13 when writing",
            "open(path + 'f', 'w')\nfor p in (path + '-no/a.nc', path + 'f/a.nc', path + 'x' * 300):\n    try: nc.Dataset(p, 'w')\n"
            "    except PermissionError as e: log(e.errno, e.filename == p)",
        ),
        different(
            "what is there with mode `x`, or `clobber=False`",
            "ds.close()\ntry: nc.Dataset(path, 'x')\nexcept OSError as e: log(isinstance(e, FileExistsError))",
            "`FileExistsError` with errno 17, where netCDF4 has an `OSError` -35",
        ),
        same(
            "`data_model`, `path`, `parent`, `name`, `isopen()`",
            "g = ds.createGroup('g/h'); log(ds.data_model, g.path, g.name, g.parent.name, ds.isopen())",
        ),
        same("`disk_format` of a netCDF file", "log(ds.disk_format)"),
        different("`disk_format` of Zarr", "log(nc.Dataset(zarr, 'w').disk_format)", "`ZARR`"),
        same(
            "`diskless`, `persist`",
            "d = nc.Dataset(path + 'd', 'w', diskless=True); d.close(); import os; log(os.path.exists(path + 'd'))",
        ),
        same(
            "`memory=`",
            "m = nc.Dataset('m', 'w', memory=100); b = m.close(); log(bytes(b[:4]))",
            'for a name in `.zarr` or `.zip`, or with `storage="zarr"`, a zip archive of the Zarr hierarchy',
        ),
        same(
            "`keepweakref`",
            "ds.close(); d = nc.Dataset(path, keepweakref=True); w = d['v']; del d; attempt(lambda: w[:])",
        ),
        same("`ds['g/v']`, `IndexError` for what is missing", "log(ds['v'].shape); attempt(lambda: ds['w'])"),
        better(
            "names that are not there",
            "try: ds.variables['vv']\nexcept KeyError as e: log('did you mean' in str(e))",
            "the error says which name may have been meant",
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
            "a dataset that is open for reading can be sent to other processes, with its variables",
        ),
        better(
            "use after `close()`",
            "ds.close()\ntry: v[:]\nexcept RuntimeError as e: log('the dataset is closed' in str(e))",
            "the same classes of errors, in words",
        ),
        different(
            "a second writer in the same process",
            "ds.sync()\ntry: nc.Dataset(path, 'a').close(); log('opened')\nexcept PermissionError: log('refused')",
            "refused, as in another process; `shared=True` asks for writing different chunks together",
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
        same("unlimited dimensions", "v[5] = 9; log(v.shape, v[3:])"),
        same(
            "`chunking()`, `filters()`",
            "log(v.chunking(), ds.createVariable('z', 'f4', ('x',), zlib=True).filters())",
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
            "opaque types", "log(hasattr(ds, 'opaquetypes'))", "are read; netCDF4-python skips such variables"
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
            "are joined, too",
        ),
        better(
            "`MFTime` of days and hours",
            "ds.close()\nfor i, u in enumerate(('days', 'hours')):\n"
            "    d = nc.Dataset(path + str(i), 'w', format='NETCDF4_CLASSIC'); d.createDimension('t', None)\n"
            "    q = d.createVariable('q', 'f8', ('t',)); q.units, q.calendar = u + ' since 2000-01-01', 'standard'\n"
            "    q[:] = [0, 12]; d.close()\n"
            "m = nc.MFDataset([path + '0', path + '1']); log(nc.MFTime(m.variables['q'])[:]); m.close()",
            "hours of one file become days of another; netCDF4-python takes them for days",
        ),
    ],
}

HEAD = """# netCDF4-python's interface

<!-- Made by tests/helpers/netcdf4_table.py, whose rows the tests execute with both libraries. -->

`import nczarr as netCDF4` or `import nczarr.netcdf4 as netCDF4` is enough for most programs. For programs that
cannot be edited:

```python
import nczarr.netcdf4

nczarr.netcdf4.install()  # from here on `import netCDF4` gives nczarr
import netCDF4

assert netCDF4.Dataset is nczarr.Dataset
nczarr.netcdf4.uninstall()  # undoes it
```

A path that ends in `.nc`, `.nc3`, `.nc4`, `.cdf`, `.netcdf`, `.h5`, `.hdf5` or `.he5` is a **netCDF file**, any other name
is **Zarr**; `storage="netcdf"` or `storage="zarr"` overrules the name. So much for what is made: what is there already is
opened as what it is. The rule is {func}`nczarr.formats.storage_of`. netCDF files of all five formats are made, read and
edited in place, with the same classes (netCDF-4 needs the package h5py).

```python
import nczarr

with nczarr.Dataset("made.nc", "w", format="NETCDF3_CLASSIC") as ds:
    ds.createDimension("time", None)
    ds.createVariable("t", "f4", ("time",))[:] = [1, 2]
with nczarr.Dataset("made.nc", "a") as ds:
    ds["t"][2] = 3  # one record more, in the file itself
    assert (ds.data_model, ds.disk_format) == ("NETCDF3_CLASSIC", "NETCDF3")
```

**same**: the same script has the same results (values, types, masks, classes of errors). **better**: it does more.
**different**: programs can notice.

"""

TAIL = """## What random programs showed

`tests/netcdf4/test_random_programs.py` runs random programs (make, rename, write, append, read, mask, scale, attributes,
numbers, characters and text, strings, compounds, sequences and enums, indexes of all kinds, `sync()`, open again) with both
libraries, in all five formats, ours on a netCDF file, on Zarr and in a zip file, and compares every value, dtype, mask and
kind of error (`NCZARR_PROGRAMS=2000` for many at random). What it leaves out, because netCDF4-python or netCDF-C is at fault there or neither says:

* An index behind the end is an `IndexError`; netCDF4-python raises `RuntimeError` in the classic formats, and takes any index of
  a variable without dimensions there.
* A call that fails changes nothing; netCDF4-python leaves a variable behind where chunk sizes or the fill value do not fit, and
  a classic file in define mode, where it can neither be read nor written.
* Renaming a variable to the name of a dimension, or the other way round, works; netCDF-C may crash.
* `v[-3:] = values`, where there are fewer steps, is refused if there are none and writes what is there otherwise; netCDF4-python
  refuses it, or drops the values.
* With a `scale_factor` or `add_offset` that is no single number nothing is written; netCDF4-python packs with a vector that fits
  the values, and does not unpack with it.
* Where `_FillValue` is deleted, unwritten elements read as the type's own fill value; with netCDF-C as what the attribute said when
  the variable was made. With `fill_value=False` they are undefined.
* `v[1] = [7, 8]` is an `IndexError`; netCDF4-python keeps the last value.
* `v[::-1, [2, 0]] = values` writes them; netCDF4-python raises `IndexError`.
* An attribute that needs more than the 32 bits that a classic model has is an `OverflowError`, and a string with a NUL inside a
  `ValueError` in netCDF-4 files; netCDF4-python stores another number, and cuts the string.
* Characters are never packed; with `scale_factor` netCDF4-python can neither read nor write them. Where the last dimension
  of text is empty, it is read as no characters; netCDF4-python raises `ValueError`.
* Where two things are wrong with a call, the error may be that of the other one.

## Several threads, processes and crashes

* One dataset can be used by many threads at once: reading, writing, attributes, making and renaming variables.
  Who goes through `variables`, `groups` or `dimensions` sees what was there at the beginning; once a dataset is closed in
  one thread, the others get "the dataset is closed".
* Free-threaded Python (3.14t) runs it as well, in parallel: [what was tried](trust.md#without-the-interpreter-lock).
* A forked child of a process that writes leaves the dataset alone: it can neither write it nor finish it. What is open
  for reading can be used in the child, and pickled to any other process.
* One writer: opening a dataset for writing that is open for writing elsewhere raises `NetCDFLockedError` (a
  `PermissionError`). The lock is the operating system's, on the directory or zip file itself: it goes with its owner,
  however that ends. `shared=True`, in all processes, asks for writing together: then only values can be written, and no
  two processes may write to one chunk. **There is no lock** on object stores and web servers (`s3://`, `https://`, …), in
  memory, on Windows, and on network file systems without `flock`: there, see to it that one process writes.
* Values that are written in parts wait in a cache of decoded chunks (64 MiB for a dataset; `NCZARR_CACHE`,
  `set_chunk_cache`). `sync()` and `close()` write them; after a crash everything that `sync()` acknowledged is there.
  Readers see values before the sizes that claim them, never the other way round.
* A dataset that a program drops without closing it is written when Python collects it, at the latest when the same process
  opens its path again.
* Values that a killed writer left behind the end of a dimension never come back: they are removed before it grows.

## netCDF files

* A new file is there at once, under its name; one that has something in it is replaced when the new one is synced or
  closed, and stays as it was until then.
* The lock is on the file. netCDF-4's own library takes the same one, so it can neither read nor write a netCDF-4 file
  while nczarr writes to it, and the other way round. Readers in the same process see all that was synced, and more.
* A classic file counts a record when all variables have it, and the number is written last. A header that grows beyond
  its room makes the data move; until they have moved, the file begins with no format's mark, so that a process killed
  then leaves a file that is refused, not one with wrong values. There is room behind a header that has grown once.
* A netCDF-4 file gets HDF5's books at `sync()` (or when 16 MiB of them wait), in an order of ours: what is new first, then
  the superblock, then indexes, and last the headers that say how much there is. A file whose writer is killed between two
  calls is as the last call left it. One whose writer is killed within a `sync()` that appends numbers without compression
  can be read, and has every step that was acknowledged. **Not promised** is a kill within the fraction of a millisecond
  of a `sync()` that writes a chunk of strings or a compressed chunk once more, or makes variables: HDF5 puts other bytes
  in their place, and may refuse that chunk, or the file, afterwards. netCDF4-python's files have no more than that.
* `sync()` and `close()` wait until the disk has everything, which netCDF-C's do not: what they acknowledged outlives a
  loss of power. `durable=False`, for both and for `Dataset`, leaves that to the system;
  [what it costs](trust.md#writing).
* A type that another group declares can be used in groups that come after that one; elsewhere it is refused when the
  variable or type is made (netCDF-C writes such files, and cannot read them).
* A full disk is an error, and not the end of the process. A file that was being edited then may be damaged.
* An HDF5 file that does not keep the order of its objects (h5py makes such by default) can be read, not changed, as with
  netCDF-C. Nor can one with a link to what has another name, or is in another file.
* Attributes keep their places when they get longer values; netCDF-C puts them at the end.
* What is renamed keeps its place in the dataset, and goes to the end of the open one's dictionaries, as with netCDF4-python.
  In netCDF-4 files variables and groups that are renamed later go to the end, where the HDF5 library of h5py has them.
* HDF5 keeps variables, groups, types and dimensions of a group under one set of names: what would need one twice is
  refused when it is made.
* `diskless=True` holds a netCDF file in memory if the name is one of a netCDF file, `memory=` for all names but `.zarr`
  and `.zip`; `close()` returns its bytes, or writes them with `persist=True`, for which nobody else may write to it as long
  as it is open. `options=` and `shared=` are for Zarr.
"""


CLIENTS = Path(__file__).parents[1] / "clients" / "clients.toml"

CLIENTS_HEAD = """## Programs

`tests/clients/run.py` runs the tests of packages that use netCDF4-python with it and with nczarr in its place. What passes
with the one is to pass with the other, but for the exceptions:

| package | tests | passed with netCDF4, with nczarr | exceptions |
|---|---|---|---|
"""


def clients() -> str:
    """The packages whose tests are run, and what may fail there."""
    lines = []
    for name, client in tomllib.loads(CLIENTS.read_text(encoding="utf-8"))["client"].items():
        found = [f"`{e['test'].strip('*:')}`: {e['reason']}" for e in client.get("exception", [])]
        cells = (f"{name} {client['version']}", client["what"], client.get("seen", "not counted yet"))
        lines.append(f"| {' | '.join(cells)} | {'; '.join(found) or 'none'} |")
    return CLIENTS_HEAD + "\n".join(lines) + "\n\n"


def page() -> str:
    """The text of the page."""
    lines = [HEAD.rstrip(), ""]
    for title, rows in SECTIONS.items():
        lines += [f"## {title}", "", "| name | | |", "|---|---|---|"]
        lines += [f"| {row.names} | {row.verdict} | {row.note} |" for row in rows]
        lines.append("")
    return "\n".join(lines) + "\n" + clients() + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Measure which programs read which written form, and write the table of the page *The view of other programs*.

``python docs/read_elsewhere.py [--zarrita FOLDER] [PYTHON ...]`` writes a store with an array of each form, and reads
it with the packages that each of the interpreters has (by default this one), and with zarrita from the
``node_modules`` of a folder. ``--print`` prints the table only.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "helpers"))
PAGE = HERE / "spec" / "how-others-see-it.md"
START, END = "<!-- measured: docs/read_elsewhere.py -->\n", "<!-- end of the measurement -->\n"
#: The forms, and the arrays of the store `NAME.zarr` that have them.
FORMS = {
    "numbers": "numbers", "big-endian": "big", "char": "char", "char as `uint8`": "char_uint8", "string": "string",
    "enum": "enum", "opaque": "opaque", "compound": "compound", "compound as `struct`": "compound_struct",
    "vlen": "vlen", "length 0": "none", "fletcher32": "fletcher", "shards": "shards",
}  # fmt: skip
#: Whole stores, for programs that open them as datasets: the forms of xarray with either form of char.
WHOLE = ("default", "uint8")


# --- writing, with nczarr


def write(folder: Path) -> None:
    """Write the stores, the netCDF file that they come from, and the values that readers are to return."""
    import numpy as np

    import nczarr
    from nczarr import model
    from nczarr.mapping import WriteOptions, create_dataset
    from nczarr.model import CHAR, DOUBLE, INT, STRING, Dataset, Field, MemorySource, Storage, Variable

    key, row = model.OpaqueType("/key", 3), model.VlenType("/row", INT)
    flag = model.EnumType("/flag", model.UBYTE, (("a", 0), ("b", 1)))
    pair = model.CompoundType("/pair", (Field("x", INT), Field("y", DOUBLE)))
    rows = np.empty(4, object)
    for i in range(4):
        rows[i] = np.arange(i, dtype="i4")
    numbers = np.arange(4, dtype="i4")
    values: dict[str, Any] = {
        "numbers": (DOUBLE, numbers / 3, {}),
        "big": (INT, numbers, {"storage": Storage("contiguous", endian="big")}),
        "char": (CHAR, np.frombuffer(b"abcd", "S1"), {}),
        "string": (STRING, np.array(["a", "", "é", "海"], object), {}),
        "enum": (flag, np.array([0, 1, 1, 0], "u1"), {}),
        "opaque": (key, np.frombuffer(bytes(range(12)), key.dtype), {}),
        "compound": (pair, np.frombuffer(bytes(range(48)), pair.dtype), {}),
        "vlen": (row, rows, {}),
        "fletcher": (INT, numbers, {"storage": Storage("chunked", (2,), (model.Filter(3, ()),))}),
        "shards": (INT, numbers, {"storage": Storage("chunked", (2,), shard_shape=(4,))}),
        "none": (INT, np.zeros(0, "i4"), {}),
    }  # fmt: skip

    def dataset(names: list[str]) -> Dataset:
        return Dataset(
            "d",
            types=(key, flag, row, pair),
            dimensions=(model.Dimension("x", 4), model.Dimension("none", 0)),
            attributes=(model.Attribute.of("title", "every form"),),
            variables=tuple(
                Variable(n, t, ("/none" if n == "none" else "/x",), data=MemorySource(v), **more)
                for n, (t, v, more) in values.items()
                if n in names
            ),
        )

    def make(name: str, names: list[str], **options: Any) -> None:
        made = dataset(names)
        with create_dataset(folder / f"{name}.zarr", made, WriteOptions(**options)) as sink:
            for fqn, variable in made.all_variables.items():
                data = variable.data
                assert data is not None
                sink.write(fqn, (slice(0, data.shape[0]),), data.read((slice(0, data.shape[0]),)))
            sink.commit()

    make("forms", list(values))
    make("char_uint8", ["char"], char="uint8")
    make("compound_struct", ["compound"], compound="struct")
    plain = ["numbers", "big", "char", "string", "enum", "fletcher"]
    make("default", plain)
    make("uint8", plain, char="uint8")
    make("v2", [n for n in plain if n not in ("string", "enum")], layout="nczarr-v2", lossy=True)
    nczarr.copy(folder / "default.zarr", folder / "default.nc")
    expected = {}
    for name in FORMS.values():
        store, path = place(name)
        with nczarr.mapping.open_dataset(folder / store) as stored:
            got = np.asarray(stored.hierarchy.array(path).read())
        if got.dtype == object:
            items = [v.encode() if isinstance(v, str) else bytes(v) for v in got.tolist()]
            expected[name] = [base64.b64encode(v).decode() for v in items]
        else:
            expected[name] = base64.b64encode(got.tobytes()).decode()
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


def place(name: str) -> tuple[str, str]:
    """Return the store and the path of the array of a form."""
    return (f"{name}.zarr", name.partition("_")[0]) if "_" in name else ("forms.zarr", name)


# --- reading, without nczarr


def compare(got: Any, expected: Any) -> str:
    """Return an empty text if the values of an array are those that were written."""
    import numpy as np

    got = np.asarray(got)
    if isinstance(expected, list):
        items = [v.encode() if isinstance(v, str) else bytes(v) for v in got.astype(object).reshape(-1)]
        equal = items == [base64.b64decode(v) for v in expected]
    elif got.dtype.kind in "OT":
        equal = "".join(got.astype(object).reshape(-1)).encode() == base64.b64decode(expected)
    else:
        equal = got.tobytes() == base64.b64decode(expected) or got.byteswap().tobytes() == base64.b64decode(
            expected
        )
    return "" if equal else "other values"


def attempt(read: Callable[[], str]) -> str:
    """Return an empty text, or what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def arrays(folder: Path, read: Callable[[Path, str], Any]) -> dict[str, str]:
    """Read the array of each form."""
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    found = {}
    for form, name in FORMS.items():
        store, path = place(name)
        found[form] = attempt(lambda s=store, p=path, n=name: compare(read(folder / s, p), expected[n]))  # type: ignore[misc]
    return found


def identical(folder: Path, name: str, opened: Any) -> str:
    """Return an empty text if xarray's dataset is that of the netCDF file."""
    import xarray as xr

    expected = xr.load_dataset(folder / "default.nc")
    xr.testing.assert_identical(opened.load().drop_attrs(deep=False), expected.drop_attrs(deep=False))
    return ""


def child(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Return by reader and version what is wrong with each form, and with each whole store."""
    import foreign_readers

    packages = {
        "zarr-python": "zarr",
        "zarrs": "zarrista",
        "zarrs-python": "zarrs",
        "tensorstore": "tensorstore",
    }
    found: dict[str, dict[str, dict[str, str]]] = {"arrays": {}, "whole": {}}
    for reader, read in foreign_readers.READERS.items():
        try:
            if reader == "GDAL":
                import gdal_multidim

                version = gdal_multidim.library().GDALVersionInfo(b"RELEASE_NAME").decode()
            else:
                foreign_readers.module(packages[reader])
                version = importlib.metadata.version(packages[reader])
        except Exception:
            continue
        if reader == "zarrs":
            version = f"in zarrista {version}"
        found["arrays"][f"{reader} {version}"] = arrays(folder, read)
    for name, use in USERS.items():
        try:
            version = importlib.metadata.version("netCDF4" if name == "netCDF-C" else name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if name == "netCDF-C":
            import netCDF4

            version = netCDF4.__netcdf4libversion__
        found["whole"][f"{name} {version}"] = {
            form: attempt(lambda u=use, f=form: u(folder, f)) for form in WHOLE
        }  # type: ignore[misc]
    return found


def use_xarray(folder: Path, form: str) -> str:
    import xarray as xr

    return identical(folder, form, xr.open_dataset(folder / f"{form}.zarr", engine="zarr"))


def use_dask(folder: Path, form: str) -> str:
    import xarray as xr

    return identical(folder, form, xr.open_dataset(folder / f"{form}.zarr", engine="zarr", chunks={}))


def use_icechunk(folder: Path, form: str) -> str:
    """Put every key into a repository, and read it with xarray."""
    import asyncio

    import icechunk
    import xarray as xr
    from zarr.core.buffer import default_buffer_prototype

    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    source = folder / f"{form}.zarr"

    async def put() -> None:
        buffers = default_buffer_prototype().buffer
        keys = sorted((p for p in source.rglob("*") if p.is_file()), key=lambda p: p.name != "zarr.json")
        for path in keys:
            await session.store.set(
                path.relative_to(source).as_posix(), buffers.from_bytes(path.read_bytes())
            )

    asyncio.run(put())
    session.commit("all")
    store = repository.readonly_session("main").store
    return identical(folder, form, xr.open_zarr(store, consolidated=False))


def use_virtualizarr(folder: Path, form: str) -> str:
    """Open the store as references, and compare the values through the manifest store."""
    import xarray as xr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import ZarrParser

    registry = ObjectStoreRegistry({"file://": LocalStore()})
    store = ZarrParser()(url=f"file://{folder / form}.zarr", registry=registry)
    return identical(folder, form, xr.open_zarr(store, consolidated=False, zarr_format=3))


def use_cfdm(folder: Path, form: str) -> str:
    import cfdm
    import netCDF4
    import numpy as np

    left = {f.nc_get_variable(): f.data.array for f in cfdm.read(str(folder / f"{form}.zarr"))}
    with netCDF4.Dataset(folder / "default.nc") as right:
        wrong = [
            n for n in right.variables if n not in left or not np.array_equal(left[n], joined(right[n][:]))
        ]
    return f"other values of {', '.join(wrong)}" if wrong else ""


def joined(values: Any) -> Any:
    """Return rows of characters as text, as cfdm has them."""
    import netCDF4

    return netCDF4.chartostring(values) if values.dtype == "S1" else values


def use_netcdf_c(folder: Path, form: str) -> str:
    """Read what nczarr writes as NCZarr v2; there is no netCDF-C that reads Zarr v3."""
    import netCDF4
    import numpy as np

    if form != "default":
        return "not written"
    with (
        netCDF4.Dataset(f"file://{folder}/v2.zarr#mode=nczarr,file") as left,
        netCDF4.Dataset(folder / "default.nc") as right,
    ):
        equal = [np.array_equal(left[n][:], right[n][:]) for n in left.variables]
    return "" if equal and all(equal) else "other values"


USERS: dict[str, Callable[[Path, str], str]] = {
    "xarray": use_xarray, "dask": use_dask, "icechunk": use_icechunk, "virtualizarr": use_virtualizarr,
    "cfdm": use_cfdm, "netCDF-C": use_netcdf_c,
}  # fmt: skip

ZARRITA = """
import * as zarr from "zarrita";
import { FileSystemStore } from "@zarrita/storage";
for (const [form, store, path] of JSON.parse(process.argv[1])) {
  try {
    const array = await zarr.open.v3(zarr.root(new FileSystemStore(store)).resolve(path), { kind: "array" });
    const { data } = await zarr.get(array);
    const bytes = data.buffer ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : null;
    console.log(JSON.stringify([form, bytes ? Buffer.from(bytes).toString("base64")
      : Array.from(data, (v) => Buffer.from(v).toString("base64"))]));
  } catch (error) { console.log(JSON.stringify([form, null, String(error)])); }
}
"""


def zarrita(folder: Path, modules: Path) -> dict[str, dict[str, str]]:
    """Read each form with zarrita."""
    places = [
        [form, *(str(folder / p) if i == 0 else p for i, p in enumerate(place(n)))]
        for form, n in FORMS.items()
    ]
    script = modules / "read_elsewhere.mjs"
    script.write_text(ZARRITA.replace("process.argv[1]", "process.argv[2]"), encoding="utf-8")
    done = subprocess.run(
        ["node", str(script), json.dumps(places)], capture_output=True, text=True, check=True
    )
    script.unlink()
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    found = {}
    for line in done.stdout.splitlines():
        form, got, *error = json.loads(line)
        found[form] = error[0] if error else "" if got == expected[FORMS[form]] else "other values"
    version = json.loads((modules / "node_modules" / "zarrita" / "package.json").read_text("utf-8"))[
        "version"
    ]
    return {f"zarrita {version}": found}


# --- the table


def measure(pythons: list[str], modules: Path | None) -> dict[str, dict[str, dict[str, str]]]:
    """Return the results of all readers of all interpreters."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        found: dict[str, dict[str, dict[str, str]]] = {"arrays": {}, "whole": {}}
        for python in pythons:
            command = [python, __file__, "--child", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            answer = json.loads(done.stdout.splitlines()[-1])
            python_version = answer.pop("python")
            for kind, results in answer.items():
                for reader, columns in results.items():
                    known = found[kind].get(reader)
                    same = known is not None and [bool(w) for w in known.values()] == [
                        bool(w) for w in columns.values()
                    ]
                    found[kind][reader if known is None or same else f"{reader}, Python {python_version}"] = (
                        columns
                    )
        if modules is not None:
            found["arrays"].update(zarrita(folder, modules))
        return found


def table(rows: dict[str, dict[str, str]], columns: list[str]) -> list[str]:
    """Return a table of Markdown: yes, or no."""
    lines = [f"| reader | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for reader in sorted(rows, key=str.lower):
        lines.append(f"| {reader} | {' | '.join('no' if rows[reader][c] else 'yes' for c in columns)} |")
    return lines


def text_of(found: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return the measured part of the page."""
    whole = {
        r: {"as by default": c["default"], 'with `char="uint8"`': c["uint8"]}
        for r, c in found["whole"].items()
    }
    lines = table(found["arrays"], list(FORMS))
    lines += [
        "",
        "Programs that open the whole dataset, compared with the netCDF file (netCDF-C: as NCZarr v2):",
        "",
    ]
    lines += table(whole, list(next(iter(whole.values()))))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument(
        "--zarrita", type=Path, metavar="FOLDER", help="a folder with zarrita in its node_modules"
    )
    parser.add_argument(
        "--print", action="store_true", help="print the table and the reasons, and change no page"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        python = ".".join(map(str, sys.version_info[:2]))
        print(json.dumps({"python": python, **child(options.child)}))
        return
    found = measure(options.pythons, options.zarrita)
    if options.print:
        print(text_of(found))
        for rows in found.values():
            for reader, columns in rows.items():
                for form, wrong in columns.items():
                    if wrong:
                        print(f"{reader}: {form}: {wrong}")
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    PAGE.write_text(f"{before}{START}\n{text_of(found)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

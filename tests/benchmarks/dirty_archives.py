"""Join every kind of dirty archive with other programs, and write the table of the documentation.

    python tests/benchmarks/dirty_archives.py --judge xarray|virtualizarr     # in an environment with that program
    python tests/benchmarks/dirty_archives.py --write                         # the table, from the recorded results

Judging needs netCDF4, numpy and the program, and not nczarr. The results are in `tests/data/dirty_archives.json`:
`right`, where each value of the files is in the result under its date and its meaning; `refused`; and `silently
wrong`, where the result has other values, lost or repeated steps, or the meaning of the first file for all. The
columns of nczarr come from the kinds themselves, which `tests/convert/test_dirty_archives.py` tests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/helpers"))
import dirty_archives  # noqa: E402
import dirty_fields  # noqa: E402
import numpy as np  # noqa: E402

RESULTS, PAGE = ROOT / "tests/data/dirty_archives.json", ROOT / "docs/reference/dirty-archives.md"
BEGIN, END = "<!-- begin: tests/benchmarks/dirty_archives.py --write -->", "<!-- end -->"
OUTCOMES = ("right", "refused", "silently wrong")
MEANING_OF_FIRST = ({"join": "first"},)
#: Largest error of a value that float32 represents, far below half the step of any packing.
ROUNDING = 5e-5


def with_xarray(paths: list[Path], out: Path) -> Any:
    """Join files as xarray's documentation shows it, and store the result."""
    import xarray

    options: dict[str, Any] = {"combine": "nested", "concat_dim": "time", "data_vars": "all"}
    with xarray.open_mfdataset([str(path) for path in paths], **options) as joined:
        joined.to_zarr(out / "xarray.zarr")
    return xarray.open_zarr(out / "xarray.zarr", decode_cf=False)


def with_virtualizarr(paths: list[Path], out: Path) -> Any:
    """Join files as VirtualiZarr's documentation shows it, and store references to their chunks with Icechunk."""
    import icechunk
    import xarray
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_mfdataset
    from virtualizarr.parsers import HDFParser

    joined = open_virtual_mfdataset(
        [f"file://{path}" for path in paths],
        ObjectStoreRegistry({"file://": LocalStore()}),
        HDFParser(),
        combine="nested",
        concat_dim="time",
        coords="minimal",
        compat="override",
    )
    prefix, config = f"file://{paths[0].parent}/", icechunk.RepositoryConfig.default()
    place = icechunk.local_filesystem_store(str(paths[0].parent))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, place))
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={prefix: None}
    )
    session = repository.writable_session("main")
    joined.vz.to_icechunk(session.store)
    session.commit("joined")
    stored = repository.readonly_session("main").store
    return xarray.open_zarr(stored, consolidated=False, zarr_format=3, decode_cf=False)


PROGRAMS: dict[str, Callable[[list[Path], Path], Any]] = {
    "xarray": with_xarray,
    "virtualizarr": with_virtualizarr,
}


def on_grid_of(of_file: dirty_fields.Fields, raw: dirty_fields.Raw) -> dirty_fields.Raw:
    """Return the part of a result on the grid of one file: programs may join different grids to a larger one."""
    for axis in ("lat", "lon"):
        if (axis, "") not in of_file or axis not in raw:
            continue
        _, numbers, attributes = raw[axis]
        chosen = np.flatnonzero(np.isin(dirty_fields.decoded(numbers, attributes), of_file[axis, ""]))
        raw = {
            name: (dims, np.take(values, chosen, dims.index(axis)) if axis in dims else values, more)
            for name, (dims, values, more) in raw.items()
        }
    return raw


def wrong(raw: dirty_fields.Raw, wanted: list[dirty_fields.Fields]) -> Iterator[str]:
    """Yield how a result differs from the fields of the files; a variable without time may have one for each date."""
    for of_file in wanted:
        found = dirty_fields.fields_of(on_grid_of(of_file, raw))
        dates = {date for _, date in of_file if date}
        for (name, date), field in of_file.items():
            is_there = (name, date) in found or date or not dates
            for key in [(name, date)] if is_there else [(name, own) for own in dates]:
                if key not in found:
                    yield f"{name} of {key[1]} is lost"
                elif not np.array_equal(np.isnan(found[key]), np.isnan(field)):
                    yield f"{name} of {key[1]}: other values are missing"
                elif (abs(found[key] - field) > ROUNDING).any():
                    yield f"{name} of {key[1]}: an error of {np.nanmax(abs(found[key] - field)):.3g}"
    real = {key for of_file in wanted for key in of_file}
    for (name, date), field in dirty_fields.fields_of(raw).items():
        if not ({(name, date), (name, "")} & real or np.isnan(field).all()):
            yield f"{name} of {date} is in no file"


def judged(kind: dirty_archives.Kind, join: Callable[[list[Path], Path], Any]) -> tuple[str, str]:
    """Return the outcome of joining an archive, and the reason."""
    with tempfile.TemporaryDirectory(prefix="dirty-") as folder:
        paths = dirty_archives.make(kind, Path(folder) / "in")
        try:
            found = join(paths, Path(folder))
            raw = {
                str(name): (tuple(map(str, v.dims)), np.asarray(v.values), dict(v.attrs))
                for name, v in found.variables.items()
            }
        except Exception as error:  # whatever the program raises
            return "refused", f"{type(error).__name__}: {error}"
        wanted = [] if kind.write is not None else dirty_fields.wanted_of(paths)
        problems = list(wrong(raw, wanted))
        _, times, attributes = raw.get("time", ((), np.array([]), {}))
        moments = dirty_fields.decoded(times, attributes)
        if len(np.unique(moments)) < len(moments):
            problems.append("steps are repeated or missing values")
        # The files say different things of values, and the result says one thing, or nothing.
        if (kind.says in ("units", "calendar") and not kind.cures) or kind.cures == MEANING_OF_FIRST:
            problems.append(f"{kind.says} of one file for all")
        if kind.write is not None:
            problems.append("a damaged file is joined")
    return ("silently wrong", problems[0]) if problems else ("right", "")


def own_outcomes(kind: dirty_archives.Kind) -> tuple[str, str]:
    """Return the outcomes of nczarr without options, and with the first option that its refusal names."""
    if not kind.says and kind.write is None:
        return "right", ""
    if kind.cures == MEANING_OF_FIRST:
        return "refused", "refused: `--join first` takes the meaning of the first file"
    options = next((cure for cure in kind.cures if cure), {})
    words = []
    for name, value in options.items():
        texts = value if isinstance(value, tuple) else [value]
        if isinstance(value, dict):
            texts = [f"{key}={number:g}" for key, number in value.items()]
        words.append(f"--{name.replace('_', '-')} {','.join(map(str, texts))}")
    return "refused", f"right: `{' '.join(words)}`" if words else "refused"


def table(results: dict[str, Any]) -> str:
    """Return the page's tables of counts and of kinds."""
    programs = results["programs"]
    names = [f"{title} {programs[name]['version']}" for name, title in TITLES.items()]
    rows = [["kind", "nczarr", "with the option", *names]]
    counts = [Counter[str]() for _ in range(2 + len(programs))]
    for name, kind in dirty_archives.KINDS.items():
        alone, helped = own_outcomes(kind)
        others = [programs[program]["outcomes"][name][0] for program in TITLES]
        rows.append([name, alone, helped, *others])
        for counter, outcome in zip(
            counts, [alone, (helped or alone).partition(":")[0], *others], strict=True
        ):
            counter[outcome] += 1
    totals = [["", *rows[0][1:]], *([o, *[str(c[o]) for c in counts]] for o in OUTCOMES)]
    return "\n\n".join("\n".join(lines_of(part)) for part in (totals, rows))


TITLES = {"xarray": "xarray", "virtualizarr": "VirtualiZarr"}


def lines_of(rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", choices=PROGRAMS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"programs": {}}
    if options.judge:
        warnings.simplefilter("ignore")
        outcomes = {}
        for name, kind in dirty_archives.KINDS.items():
            outcome, reason = judged(kind, PROGRAMS[options.judge])
            outcomes[name] = [outcome, " ".join(reason.split())[:120]]
            print(name, *outcomes[name], sep=": ", flush=True)
        results["programs"][options.judge] = {"version": version(options.judge), "outcomes": outcomes}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

"""Compare every store with a second reader, written in JavaScript from the specification alone."""

from __future__ import annotations

import copy
import json
import random
import runpy
import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import mapping_tools as tools
import mutations
import numpy as np
import pytest
import strategies
from document_changes import changes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.convert.verify.check import canonical
from nczarr.errors import NCZarrError
from nczarr.mapping import WriteOptions, check_metadata, open_dataset
from nczarr.model import DOUBLE, FLOAT, Attribute, Dataset, Dimension, MemorySource, Variable

HERE = Path(__file__).parent
MINIMAL = runpy.run_path(str(HERE.parents[1] / "docs" / "spec" / "minimal_reader.py"))
VECTORS = HERE.parent / "data" / "vectors"
NAMES = sorted(p.stem for p in VECTORS.glob("*.json"))
RECOVERED = (
    "groups", "copies", "labels", "fill_values", "attributes", "copied_in", "copied_group", "group_alone",
    "version_3_1", "carriers", "listing", "conflicts", "recovery", "other_programs", "node_names", "nzug", "nz",
)  # fmt: skip
CODES = sorted(VECTORS.rglob("*.findings"))


class Reader:
    """The reader, at work: it answers for one folder after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, subprocess.Popen[str]] = {}

    def _ask(self, store: Path, *options: str) -> Any:
        key = " ".join(options)
        if key not in self.started:
            command = ["node", str(self.folder / "reader.mjs"), *options]
            self.started[key] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        process = self.started[key]
        to, back = _pipe(process.stdin), _pipe(process.stdout)
        to.write(f"{store}\n")
        to.flush()
        return json.loads(back.readline())

    def read(self, store: Path) -> Any:
        """Canonical JSON; an object with `error` if the store is refused."""
        return self._ask(store)

    def check(self, store: Path) -> Any:
        """The codes of the constraints that are broken."""
        return self._ask(store, "--findings")

    def stop(self) -> None:
        for process in self.started.values():
            _pipe(process.stdin).close()
            process.wait()
            _pipe(process.stdout).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The reader, installed with npm in a folder of its own."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("Node.js is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < 20:
        pytest.skip(f"Node.js {version.strip()} is older than 20")
    folder = tmp_path_factory.mktemp("second_reader")
    for path in (*HERE.glob("*.mjs"), HERE / "package.json", HERE / "package-lock.json", HERE / ".npmrc"):
        shutil.copy(path, folder)
    subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    reader = Reader(folder)
    yield reader
    reader.stop()


def ours(store: Path) -> Any:
    with open_dataset(store, consolidated=False) as stored:
        return json.loads(json.dumps(canonical(stored.dataset)))


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_is_read_as_its_canonical_json_says(reader: Reader, name: str) -> None:
    expected = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert reader.read(VECTORS / f"{name}.zarr") == expected


@pytest.mark.parametrize("codes", CODES, ids=lambda p: p.stem)
def test_the_broken_constraints_of_a_vector_are_named(reader: Reader, codes: Path) -> None:
    assert reader.check(codes.with_suffix(".zarr")) == sorted(codes.read_text(encoding="utf-8").split())


def test_the_reader_passes_the_conformance_kit(reader: Reader, tmp_path: Path) -> None:
    """The kit alone, with its own runner."""
    make = runpy.run_path(str(HERE.parent / "conformance" / "make_kit.py"))["make"]
    with zipfile.ZipFile(make(tmp_path)) as packed:
        packed.extractall(tmp_path)
    kit = tmp_path / "nczarr-conformance-3.2"
    command = f"node {reader.folder / 'reader.mjs'}"
    options = ["--read", f"{command} STORES", "--check", f"{command} --findings STORES"]
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(kit / "run.py"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{len(NAMES) + len(CODES)} of {len(NAMES) + len(CODES)} passed\n"


def write(dataset: Dataset, folder: Path, **options: Any) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    tools.copy(dataset, folder, WriteOptions(**options))
    return folder


FORMS = (
    {},
    {"compound": "struct"},
    {"char": "uint8"},
    {"nz": True},
    {"extensions": True},
    {"keys_in_attributes": True},
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True),
    st.sampled_from(FORMS),
)
def test_both_readers_get_the_same_from_what_nczarr_writes(
    reader: Reader, tmp_path: Path, dataset: Dataset, form: dict[str, Any]
) -> None:
    store = write(dataset, tmp_path / "store.zarr", **form)
    assert reader.read(store) == ours(store)
    assert reader.check(store) == []


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True),
    st.sampled_from(sorted(mutations.MUTATIONS)),
    st.randoms(use_true_random=False),
)
def test_the_readers_agree_on_a_store_with_one_mutation(
    reader: Reader, tmp_path: Path, dataset: Dataset, code: str, chance: random.Random
) -> None:
    """Both name the same constraints, and read the same; the minimal reader refuses the store, or reads that, too."""
    store = write(dataset, tmp_path / "store.zarr", consolidated=False)
    documents = {p: json.loads(p.read_text(encoding="utf-8")) for p in store.rglob("zarr.json")}
    named = {p.relative_to(store).as_posix(): d for p, d in documents.items()}
    if not chance.choice(mutations.MUTATIONS[code])(named, chance):
        return
    shutil.rmtree(store)
    for key, document in named.items():
        (store / key).parent.mkdir(parents=True, exist_ok=True)
        (store / key).write_text(json.dumps(document), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            opened, found = check_metadata(store)
            opened.close()
            codes, expected = {f.code for f in found}, ours(store)
        except NCZarrError:
            codes, expected = {"metadata"}, {"error"}
    assert code in codes
    assert set(reader.check(store)) == codes
    answer = reader.read(store)
    assert set(answer) == expected if isinstance(expected, set) else answer == expected
    with warnings.catch_warnings(), suppress(*MINIMAL["DAMAGE"], OSError):
        warnings.simplefilter("ignore")
        assert json.loads(json.dumps(MINIMAL["Reader"](str(store)).read())) == expected


def test_every_bit_of_a_nan_is_read(reader: Reader, tmp_path: Path) -> None:
    single = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000, 0x80000000], "u4").view("f4")
    double = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 1 << 63], "u8").view("f8")
    variables = [
        Variable(
            n,
            t,
            ("/x",),
            attributes=(Attribute("_FillValue", t, v[1:2]), Attribute("missing_value", t, v)),
            data=MemorySource(v),
        )
        for n, t, v in (("f", FLOAT, single), ("d", DOUBLE, double))
    ]
    dataset = Dataset("d", dimensions=(Dimension("x", 4),), variables=tuple(variables))
    store = write(dataset, tmp_path / "store.zarr")
    found = reader.read(store)
    assert found == ours(store)
    assert [v["values"] for v in found["variables"]] == [
        ["NaN", "0x7fc00001", "0xffc00000", "-0"],
        ["NaN", "0x7ff8000000000001", "0xfff8000000000000", "-0"],
    ]
    assert reader.check(store) == []


def good(name: str) -> dict[str, Any]:
    folder = VECTORS / f"{name}.zarr"
    return {
        p.relative_to(folder).as_posix(): json.loads(p.read_text(encoding="utf-8"))
        for p in folder.rglob("zarr.json")
    }


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_both_readers_recover_the_same(reader: Reader, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(RECOVERED))
    changed = data.draw(changes(copy.deepcopy(good(name))))
    store = tmp_path / "store.zarr"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(VECTORS / f"{name}.zarr", store)
    for path in sorted(store.rglob("zarr.json"), key=lambda p: -len(p.parts)):
        if path.relative_to(store).as_posix() not in changed:
            shutil.rmtree(path.parent)
    for key, document in changed.items():
        (store / key).parent.mkdir(parents=True, exist_ok=True)
        (store / key).write_text(json.dumps(document), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with open_dataset(store, consolidated=False) as opened:
                if opened.layout != "nczarr-v3":
                    return  # plain Zarr, of which the page says nothing
            expected = ours(store)
        except NCZarrError:
            assert "error" in reader.read(store)
            return
    assert reader.read(store) == expected

"""Copy from every kind of source with every kind of option, and compare with netCDF4's reading of the file."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import netCDF4
import numpy as np
import pytest
import zarr
from odd_server import OddServer, send
from zarr.storage import MemoryStore, WrapperStore

import nczarr
from nczarr import cdl
from nczarr.convert.endpoints import open_source
from nczarr.convert.report import variable_storage
from nczarr.convert.verify.check import check
from nczarr.errors import LossError, NCZarrError
from nczarr.stores import open_store

STEPS = 14
#: Names of documents: a listing that forgets others still names these.
DOCUMENTS = {"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}


# --- the original, and what netCDF4 reads of it


def original(path: Path, form: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    with netCDF4.Dataset(path, "w", format=form) as file:
        for name, size in (("time", None), ("y", 6), ("x", 200)):
            file.createDimension(name, size)
        chunks = {"zlib": True, "chunksizes": (1, 6, 200)} if form == "NETCDF4" else {}
        file.createVariable("time", "f8", ("time",))[:] = np.arange(STEPS) / 4
        v = file.createVariable("v", "f4", ("time", "y", "x"), **chunks)
        for step in range(STEPS):
            if step != 7:  # whose chunk is never written
                v[step] = rng.random((6, 200))
        file.createVariable("w", "i2", ("y", "x"), fill_value=-5)[:] = np.arange(1200).reshape(6, 200)
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return {name: variable[:] for name, variable in file.variables.items()}


# --- places that forget what they hold


class Forgetful(MutableMapping[str, bytes]):
    """A mapping that iterates over some of its keys only."""

    def __init__(self, held: dict[str, bytes]) -> None:
        self.held = held

    def __getitem__(self, key: str) -> bytes:
        return self.held[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.held[key] = value

    def __delitem__(self, key: str) -> None:
        del self.held[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self.held if key.rpartition("/")[2] in DOCUMENTS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ForgetfulStore(WrapperStore[MemoryStore]):
    """A store of zarr-python of which listings leave out chunks."""

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        async for key in self._store.list_prefix(prefix):
            if key.rpartition("/")[2] in DOCUMENTS:
                yield key

    def list(self) -> AsyncIterator[str]:
        return self.list_prefix("")


@dataclass
class Site:
    """Answers of a web server for the folders below a directory; ``names`` makes the names on the index pages."""

    folder: Path
    names: Callable[[list[str]], list[str] | None]
    asked: list[str] = field(default_factory=list)

    def get(self, path: str, default: Any) -> Any:
        self.asked.append(path)
        place = self.folder / path.lstrip("/")
        if place.is_file():
            return lambda h: send(h, 200, place.read_bytes())
        if not place.is_dir() or not path.endswith("/"):
            return default
        names = self.names(sorted(p.name + "/" * p.is_dir() for p in place.iterdir()))
        if names is None:
            return lambda h: send(h, 403)
        page = "".join(f'<a href="{name}">{name}</a>' for name in names).encode()
        return lambda h: send(h, 200, page, Content_Type="text/html")


INDICES: dict[str, Callable[[list[str]], list[str] | None]] = {
    "index": lambda names: names,
    "ten-names": lambda names: names[:10],
    "documents-only": lambda names: [n for n in names if n in DOCUMENTS],
    "no-index": lambda names: None,
}


# --- sources


FORMS = ("NETCDF4", "NETCDF3_64BIT_DATA")


Places = tuple[str, dict[str, Any], dict[str, np.ndarray]]


@pytest.fixture(params=FORMS)
def places(request: pytest.FixtureRequest, made: Callable[[str], Places]) -> Places:
    """The form, sources by name, and what netCDF4 reads of the original."""
    return made(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Places]]:
    """Make the sources of a form at the first request for it."""
    servers: list[OddServer] = []
    known: dict[str, Places] = {}

    def get(form: str) -> Places:
        if form not in known:
            known[form] = make_places(form, tmp_path_factory.mktemp("sources"), servers)
        return known[form]

    yield get
    for server in servers:
        server.stop()
    fsspec.filesystem("memory").rm("/nczarr-every", recursive=True)


def make_places(form: str, folder: Path, servers: list[OddServer]) -> Places:
    nc = folder / "a.nc"
    values = original(nc, form)
    found: dict[str, Any] = {"netcdf": nc}
    for kind in ("json", "parquet", "icechunk"):
        if kind != "icechunk" or _has("icechunk"):
            nczarr.copy(nc, folder / f"r.{kind}", virtual=True)
            found[kind] = folder / f"r.{kind}"
    nczarr.copy(nc, folder / "a.zarr", chunks="time=1,y=2", manifest=True)
    found["zarr"] = folder / "a.zarr"
    nczarr.copy(folder / "a.zarr", folder / "a.zip")
    found["zip"] = folder / "a.zip"
    nczarr.copy(folder / "a.zarr", folder / "v2.zarr", layout="nczarr-v2")
    found["zarr-v2"] = folder / "v2.zarr"
    for name, names in INDICES.items():
        server = OddServer()
        server.answers = Site(folder, names)  # type: ignore[assignment]
        servers.append(server)
        for zarr_name in ("a.zarr", "v2.zarr"):
            found[f"http-{name}-{zarr_name}"] = f"{server.url}/{zarr_name}"
    held: dict[str, bytes] = {}
    nczarr.copy(folder / "a.zarr", held)
    found["dict"] = held
    found["mapping"] = Forgetful(held)
    nczarr.copy(folder / "a.zarr", f"memory://nczarr-every/{form}.zarr", overwrite=True)
    found["memory"] = f"memory://nczarr-every/{form}.zarr"
    found["mapper"] = fsspec.get_mapper(f"memory://nczarr-every/{form}.zarr")
    found["mapper-of-references"] = fsspec.filesystem(
        "reference", fo=str(folder / "r.json"), remote_protocol="file"
    ).get_mapper("")
    inside = MemoryStore()
    nczarr.copy(folder / "a.zarr", inside)
    found["zarr-python"] = inside
    found["zarr-python-forgetful"] = ForgetfulStore(inside)
    return form, found, values


def _has(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


SOURCES = [
    "netcdf",
    "json",
    "parquet",
    "icechunk",
    "zarr",
    "zip",
    "zarr-v2",
    *(f"http-{name}-{of}" for name in INDICES for of in ("a.zarr", "v2.zarr")),
    "dict",
    "mapping",
    "memory",
    "mapper",
    "mapper-of-references",
    "zarr-python",
    "zarr-python-forgetful",
]


#: Forms and sources; a source that is a Zarr copy of the first form needs no second one.
PAIRS = [
    (form, name)
    for form in FORMS
    for name in SOURCES
    if form == FORMS[0] or name in ("netcdf", "json", "parquet", "icechunk")
]


# --- options, and what they make of the values


def _rows(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    cut = {name: array[3:10] if name in ("time", "v") else array for name, array in values.items()}
    return cut


OPTIONS: dict[str, tuple[dict[str, Any], Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]]] = {
    "plain": ({}, dict),
    "compression-source": ({"compression": "source"}, dict),
    "compression-other": ({"compression": "gzip:1"}, dict),
    "checksum": ({"checksum": True}, dict),
    "shards": ({"chunks": "time=1", "shards": "time=5"}, dict),
    "rechunk": ({"chunks": f"time={STEPS},y=1,x=20"}, dict),
    "variables": ({"variables": "w"}, lambda values: {"w": values["w"]}),
    "exclude": ({"exclude": "w"}, lambda values: {n: a for n, a in values.items() if n != "w"}),
    "part": ({"select": {"time": slice(3, 10)}}, _rows),
    "resume": ({"resume": True}, dict),
    "verify": ({"verify": True}, dict),
    "digest": ({"digest": True}, dict),
    "manifest": ({"manifest": True}, dict),
    "plain-layout": ({"layout": "zarr-v3"}, dict),
    "workers": ({"workers": 1, "memory": "1MiB"}, dict),
}


def sources(places: Any, name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a source and the values that it holds."""
    _, found, values = places
    if name not in found:
        pytest.skip("icechunk is not installed")
    return found[name], values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("places", "source"), PAIRS, indirect=["places"])
def test_the_copy_holds_what_netcdf4_reads(places: Any, source: str, options: str, tmp_path: Path) -> None:
    given_source, values = sources(places, source)
    given, change = OPTIONS[options]
    nczarr.copy(given_source, tmp_path / "out.zarr", **given)
    expected = change(values)
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert set(group.array_keys()) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(group[name][...]), array, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("places", "source"), PAIRS, indirect=["places"])
def test_a_netcdf_copy_is_read_by_netcdf4(places: Any, source: str, tmp_path: Path) -> None:
    given_source, values = sources(places, source)
    nczarr.copy(given_source, tmp_path / "out.nc")
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        file.set_auto_mask(False)
        assert set(file.variables) == set(values)
        for name, array in values.items():
            np.testing.assert_array_equal(file[name][:], array, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("places", "source"), [p for p in PAIRS if p[1] != "netcdf"], indirect=["places"])
def test_check_finds_nothing_wrong(places: Any, source: str) -> None:
    given_source, _ = sources(places, source)
    assert list(check(given_source, data=True)) == []


# --- what is lost is said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "ten-names", "documents-only", "no-index"])
def test_check_over_http_finds_a_lost_chunk(places: Any, name: str, tmp_path: Path) -> None:
    """Only the key's own answer tells it."""
    _, found, _ = places
    shutil.copytree(found["zarr"], tmp_path / "a.zarr")
    (tmp_path / "a.zarr/v/c/11/1/0").unlink()
    server = OddServer()
    server.answers = Site(tmp_path, INDICES[name])  # type: ignore[assignment]
    try:
        (finding,) = check(f"{server.url}/a.zarr", data=True)
    finally:
        server.stop()
    assert (finding.code, finding.where) == ("chunk-missing", "/v")
    assert "c/11/1/0" in finding.what


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nczarr.mapping.RecoveryWarning")
@pytest.mark.parametrize("layout", ["nczarr-v3"])
@pytest.mark.parametrize("name", [None, "index", "documents-only"])
def test_a_variable_that_is_listed_and_not_there_is_no_silent_loss(
    places: Any, name: str | None, layout: str, tmp_path: Path
) -> None:
    _, found, values = places
    source: Any = tmp_path / "a.zarr"
    nczarr.copy(found["zarr"], source, consolidated=False, layout=layout)
    shutil.rmtree(source / "v")
    server = OddServer()
    if name is not None:
        server.answers = Site(tmp_path, INDICES[name])  # type: ignore[assignment]
        source = f"{server.url}/a.zarr"
    try:
        with pytest.raises(LossError, match=r"'v' is listed but missing.*lossy=True"):
            nczarr.copy(source, tmp_path / "out.zarr")
        assert not (tmp_path / "out.zarr").exists()
        with pytest.raises(LossError, match="'v' is listed"):
            nczarr.digest(source)
        losses = nczarr.copy(source, tmp_path / "out.zarr", lossy=True)
        assert any("'v' is listed but missing" in loss for loss in losses)
        nczarr.copy(source, tmp_path / "chosen.zarr", variables="w")
    finally:
        server.stop()
    for out in ("out.zarr", "chosen.zarr"):
        np.testing.assert_array_equal(zarr.open_group(tmp_path / out)["w"][...], values["w"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", ["plain", "compression-source", "part", "verify"])
@pytest.mark.parametrize("kind", ["json", "parquet", "icechunk", "reference-url", "mapper"])
def test_a_file_that_has_gone_is_an_error_that_names_it(tmp_path: Path, kind: str, options: str) -> None:
    tmp_path = tmp_path / ("long" * 60)  # the message keeps the end of a long path
    tmp_path.mkdir()
    original(tmp_path / "a.nc", "NETCDF4")
    suffix = kind if kind in ("json", "parquet", "icechunk") else "json"
    if suffix == "icechunk":
        pytest.importorskip("icechunk")
    refs: Any = tmp_path / f"r.{suffix}"
    nczarr.copy(tmp_path / "a.nc", refs, virtual=True)
    more: dict[str, Any] = {}
    if kind == "reference-url":
        more = {"source_options": {"fo": str(refs), "remote_protocol": "file"}}
        refs = "reference://"
    elif kind == "mapper":
        refs = fsspec.filesystem("reference", fo=str(refs), remote_protocol="file").get_mapper("")
    (tmp_path / "a.nc").rename(tmp_path / "gone.nc")
    with pytest.raises(NCZarrError, match=r"a\.nc"):
        nczarr.copy(refs, tmp_path / "out.zarr", **OPTIONS[options][0], **more)
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_info_counts_what_references_name(tmp_path: Path, kind: str) -> None:
    original(tmp_path / "a.nc", "NETCDF4")
    nczarr.copy(tmp_path / "a.nc", tmp_path / f"r.{kind}", virtual=True)
    with open_source(tmp_path / f"r.{kind}") as dataset:
        counts = {v.fqn: (v.objects_stored, v.objects) for v in variable_storage(dataset)}
    assert counts == {"/time": (1, 1), "/v": (13, 14), "/w": (1, 1)}


def test_info_does_not_count_what_an_index_page_names(places: Any) -> None:
    with open_source(places[1]["http-ten-names-a.zarr"]) as dataset:
        assert {v.objects_stored for v in variable_storage(dataset)} == {None}


def test_plain_zarr_without_consolidated_metadata_is_unsure(tmp_path: Path) -> None:
    """Nothing but the index page names the arrays: some may be left out, and that is said."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    group.create_array("v", data=np.arange(6))
    server = OddServer()
    server.answers = Site(tmp_path, INDICES["documents-only"])  # type: ignore[assignment]
    try:
        with pytest.warns(nczarr.mapping.RecoveryWarning, match="nodes-unsure"):
            nczarr.Dataset(f"{server.url}/a.zarr").close()
    finally:
        server.stop()


# --- an error is no absence


def test_an_error_inside_a_listing_is_no_empty_listing() -> None:
    class Broken(ForgetfulStore):
        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            raise KeyError("inside")
            yield ""

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            raise KeyError("inside")
            yield ""

    store = open_store(Broken(MemoryStore()))
    with pytest.raises(NCZarrError, match="cannot list"):
        list(store.list())
    with pytest.raises(NCZarrError, match="cannot list"):
        store.list_dir()


def test_an_error_inside_a_listing_of_references_is_no_empty_listing(tmp_path: Path) -> None:
    fs = fsspec.filesystem("reference", fo={"v/0": "x"}, skip_instance_cache=True)

    def broken(*given: Any, **more: Any) -> Any:
        raise KeyError("inside")

    fs.find = fs.ls = broken
    store = open_store(fs.get_mapper(""))
    with pytest.raises(NCZarrError, match="cannot list"):
        list(store.list())
    with pytest.raises(NCZarrError, match="cannot list"):
        store.list_dir()


def test_stores_say_what_their_listings_promise(tmp_path: Path) -> None:
    nczarr.copy(cdl.loads("netcdf d {}"), tmp_path / "a.zip")
    complete = [{}, "memory://x", tmp_path / "new.zarr", tmp_path / "a.zip", MemoryStore()]
    assert all(open_store(target, "w" if "new" in str(target) else "r").lists_all for target in complete)
    references = fsspec.filesystem("reference", fo={"v/0": "x"}).get_mapper("")
    forgetful = [Forgetful({}), ForgetfulStore(MemoryStore()), references, "http://127.0.0.1:9/"]
    assert not any(open_store(target).lists_all for target in forgetful)


def test_consolidating_what_is_not_listed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy would leave out the nodes that the listing leaves out."""
    from nczarr.cli import main
    from nczarr.stores.remote import fsspec_store

    nczarr.copy(cdl.loads("netcdf d {variables: int v; data: v = 1;}"), "memory://nczarr-once/a.zarr")
    try:
        assert main(["consolidate", "memory://nczarr-once/a.zarr"]) == 0
        monkeypatch.setattr(fsspec_store, "lists_all", lambda fs: False)
        assert main(["consolidate", "memory://nczarr-once/a.zarr"]) == 1
    finally:
        fsspec.filesystem("memory").rm("/nczarr-once", recursive=True)


def test_what_cannot_be_listed_is_not_replaced() -> None:
    """Chunks of the old dataset would show through."""
    held: dict[str, bytes] = {}
    nczarr.copy(cdl.loads("netcdf d {variables: int v; data: v = 1;}"), held)
    before = dict(held)
    with pytest.raises(NCZarrError, match="would mix with the dataset"):
        nczarr.copy(cdl.loads("netcdf d {variables: int v;}"), Forgetful(held), overwrite=True)
    assert held == before


def test_a_variable_of_a_forgetful_mapping_is_renamed_with_its_values(places: Any) -> None:
    _, found, values = places
    held = dict(found["dict"])
    with nczarr.Dataset(Forgetful(held), "r+") as ds:
        ds.renameVariable("v", "renamed")
    with nczarr.Dataset(held) as ds:
        ds.set_auto_mask(False)
        np.testing.assert_array_equal(ds["renamed"][:], values["v"])


@pytest.mark.slow
def test_a_variable_of_a_forgetful_mapping_that_is_made_again_is_fill(places: Any) -> None:
    """Chunks of a variable that was removed are no values of a new one."""
    _, found, _ = places
    held: dict[str, bytes] = {}
    nczarr.copy(found["zarr"], held, consolidated=False, chunks="y=6")
    del held["w/zarr.json"]
    with pytest.warns(nczarr.mapping.RecoveryWarning), nczarr.Dataset(Forgetful(held), "r+") as ds:
        ds.createVariable("w", "i2", ("y", "x"), fill_value=-5, chunksizes=(6, 200))
    with nczarr.Dataset(held) as ds:
        assert ds["w"][:].mask.all()

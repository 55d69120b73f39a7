"""Open datasets of which nodes are lost: every door names them and leaves them out, and none reads fill values."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import unicodedata
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import DatasetNotFoundError, LossError, StoreError
from nczarr.mapping import RecoveryWarning, check_metadata, open_dataset
from nczarr.stores import LocalStore, MemoryStore, open_store
from nczarr.zarr import open_hierarchy

LAYOUTS = ["nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2"]


def make(path: Path, layout: str = "nczarr-v3", groups: tuple[str, ...] = ("G", "H")) -> Path:
    """Write a dataset with a variable `v` in the root, and `a` and `in/b` in each group."""
    source: dict[str, bytes] = {}
    with nczarr.Dataset(source, "w") as ds:
        ds.createDimension("x", 3)
        ds.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
        for number, name in enumerate(groups, 1):
            group = ds.createGroup(name)
            group.createVariable("a", "i4", ("x",))[:] = 10 * number
            group.createGroup("in").createVariable("b", "i4", ("x",))[:] = 10 * number + 1
    nczarr.copy(source, path, layout=layout, lossy=True)
    return path


def zipped(folder: Path) -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return target


def in_memory(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


FORMS: dict[str, Callable[[Path], Any]] = {"directory": lambda path: path, "zip": zipped, "memory": in_memory}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_lost_group_is_named_and_left_out_at_every_door(
    form: str, layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xarray = pytest.importorskip("xarray")
    folder = make(tmp_path / "s.zarr", layout)
    shutil.rmtree(folder / "G")
    target = FORMS[form](folder)
    said = "the group 'G' is listed but missing: it was deleted or renamed"
    with pytest.warns(RecoveryWarning, match=said):
        ds = nczarr.Dataset(target)
    with ds:
        assert list(ds.groups) == ["H"]
        assert ds["H/in/b"][:].tolist() == [21] * 3
    if form == "directory" or layout.startswith(
        "nczarr"
    ):  # xarray's own engine reads plain Zarr, not in an archive
        with pytest.warns(RecoveryWarning, match=said):
            tree = xarray.open_datatree(target, engine="nczarr")
        assert "G" not in tree.children
        assert tree["H/a"].values.tolist() == [20] * 3
        tree.close()
    stored = open_store(target)
    hierarchy = open_hierarchy(stored)
    lost = [path for path in hierarchy.missing if path.count("/") == 0]
    assert lost == ["G"]
    assert not [path for path in hierarchy.nodes if path.startswith("G")]
    with pytest.raises(DatasetNotFoundError, match="'G/a': only the consolidated metadata name it"):
        hierarchy.array("G/a")
    for consolidated in (True, False):
        with pytest.warns(RecoveryWarning, match=said):
            nczarr.Dataset(target, consolidated=consolidated).close()
    found, findings = check_metadata(target)
    found.close()
    assert [str(f) for f in findings if f.code == "node-missing"] == [f"/: {said} [node-missing]"]
    with (
        pytest.warns(RecoveryWarning, match=said),
        pytest.raises(LossError, match="'G' is listed but missing"),
    ):
        nczarr.copy(target, tmp_path / "copy.zarr")
    with pytest.warns(RecoveryWarning, match=said):
        assert list(nczarr.diff(target, target)) == []
    if form != "memory":
        assert main(["dump", str(target)]) == 0
        printed = capsys.readouterr()
        assert said in printed.err
        assert "group: G" not in printed.out
        assert main(["digest", str(target)]) == 1
        assert said in capsys.readouterr().err


def test_a_foreign_change_beside_a_lost_group_is_seen(tmp_path: Path) -> None:
    folder = make(tmp_path / "s.zarr")
    shutil.rmtree(folder / "G")
    document = json.loads((folder / "v" / "zarr.json").read_text())
    document["attributes"]["units"] = "m"
    (folder / "v" / "zarr.json").write_text(json.dumps(document))
    later = (folder / "zarr.json").stat().st_mtime_ns + 10**9
    os.utime(folder / "v" / "zarr.json", ns=(later, later))
    with pytest.warns(RecoveryWarning, match="'G' is listed but missing"):
        ds = nczarr.Dataset(folder)
    with ds:
        assert ds["v"].units == "m"


def test_a_file_in_the_place_of_a_group_hides_no_other_change(tmp_path: Path) -> None:
    """An error of the system was taken for a dataset of which nothing has changed."""
    folder = make(tmp_path / "s.zarr")
    (folder / "H").rename(tmp_path / "H")
    (folder / "H").write_text("a file where the group was")
    later = (folder / "zarr.json").stat().st_mtime_ns + 10**9
    document = json.loads((folder / "v" / "zarr.json").read_text())
    document["attributes"]["units"] = "m"
    (folder / "v" / "zarr.json").write_text(json.dumps(document))
    os.utime(folder / "v" / "zarr.json", ns=(later, later))
    with pytest.warns(RecoveryWarning, match="'H' is listed but missing"):
        ds = nczarr.Dataset(folder)
    with ds:
        assert ds["v"].units == "m"
        assert ds["G/a"][:].tolist() == [10] * 3


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2"])
@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_another_unicode_form_is_not_the_group(form: str, layout: str, tmp_path: Path) -> None:
    """macOS, and archives made there, have names in the form NFD."""
    folder = make(tmp_path / "s.zarr", layout, ("été", "H"))
    (folder / "été").rename(folder / unicodedata.normalize("NFD", "été"))
    with pytest.warns(RecoveryWarning, match="the group 'été' is listed but missing: .*another Unicode form"):
        ds = nczarr.Dataset(FORMS[form](folder))
    with ds:
        assert "été" not in ds.groups
        assert ds["H/a"][:].tolist() == [20] * 3


@pytest.mark.parametrize("form", FORMS)
def test_of_two_names_that_differ_only_in_case_the_lost_one_is_named(form: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "s.zarr", groups=("T", "t"))
    shutil.rmtree(folder / "t")
    said = "the group 't' is listed but missing: a file system that ignores case has kept only 'T'"
    with pytest.warns(RecoveryWarning, match=said):
        ds = nczarr.Dataset(FORMS[form](folder))
    with ds:
        assert list(ds.groups) == ["T"]
        assert ds["T/a"][:].tolist() == [10] * 3


def test_a_file_system_that_answers_for_another_case_does_not_hide_the_loss(tmp_path: Path) -> None:
    """Opening `t` gives the folder `T` there, which a link imitates: only the listing tells them apart."""
    folder = make(tmp_path / "s.zarr", groups=("T", "t"))
    shutil.rmtree(folder / "t")

    class IgnoresCase(LocalStore):
        def file_path(self, key: str) -> str:
            parts = key.split("/")
            return super().file_path("/".join(["T" if part == "t" else part for part in parts]))

    hierarchy = open_hierarchy(IgnoresCase(folder))
    assert list(hierarchy.missing) == ["t", "t/a", "t/in", "t/in/b"]
    assert "t/a" not in hierarchy.nodes


@pytest.mark.skipif(shutil.which("zip") is None, reason="Info-ZIP's zip is missing")
def test_members_that_zip_deletes_are_missing(tmp_path: Path) -> None:
    target = zipped(make(tmp_path / "z.zarr"))
    subprocess.run(["zip", "-q", "-d", str(target), "G/*"], check=True)
    with pytest.warns(RecoveryWarning, match="'G' is listed but missing"):
        ds = nczarr.Dataset(target)
    with ds:
        assert list(ds.groups) == ["H"]


class RawName(zipfile.ZipInfo):
    """A member with a name in plain UTF-8, without the flag that says so."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(), self.flag_bits & ~0x800


def test_raw_names_of_archives_made_on_unix_are_utf_8(tmp_path: Path) -> None:
    folder = make(tmp_path / "z.zarr", groups=("été",))
    for system, name in ((3, "été"), (19, "été"), (0, "├⌐t├⌐")):
        target = tmp_path / f"{system}.zip"
        with zipfile.ZipFile(target, "w") as archive:
            for key, value in in_memory(folder).items():
                member = RawName(key)
                member.create_system = system
                archive.writestr(member, value)
        with open_store(target) as store:
            assert f"{name}/a/zarr.json" in set(store.list())
        if system:
            for opened in (nczarr.Dataset(target), nczarr.Dataset("z", memory=target.read_bytes())):
                with opened:
                    assert opened["été/a"][:].tolist() == [10] * 3
            with nczarr.Dataset(target, "a") as ds:
                ds.title = "more"
            with nczarr.Dataset(target) as ds:
                assert ds["été/in/b"][:].tolist() == [11] * 3


@pytest.mark.skipif(shutil.which("zip") is None, reason="Info-ZIP's zip is missing")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_that_info_zip_writes_are_read(locale: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "z.zarr", groups=("été",))
    command = ["zip", "-0", "-q", "-r", str(tmp_path / "z.zip"), "."]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "LC_ALL": locale})
    with nczarr.Dataset(tmp_path / "z.zip") as ds:
        assert ds["été/a"][:].tolist() == [10] * 3


def test_a_name_in_an_extra_field_counts(tmp_path: Path) -> None:
    """Archivers of other systems keep the name in UTF-8 beside one in their own code page."""

    class Named(RawName):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:
            return self.filename.encode("cp850"), self.flag_bits & ~0x800

    folder = make(tmp_path / "z.zarr", groups=("ãx",))
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for key, value in in_memory(folder).items():
            member = Named(key)
            member.create_system = 0
            content = struct.pack("<BL", 1, zlib.crc32(key.encode("cp850"))) + key.encode()
            member.extra = struct.pack("<HH", 0x7075, len(content)) + content
            archive.writestr(member, value)
    with nczarr.Dataset(tmp_path / "z.zip") as ds:
        assert ds["ãx/a"][:].tolist() == [10] * 3


def test_what_is_whole_is_opened_without_a_word(tmp_path: Path) -> None:
    folder = make(tmp_path / "s.zarr", groups=("T", "t", "été"))
    for form in FORMS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with nczarr.Dataset(form(folder)) as ds:
                assert sorted(ds.groups) == ["T", "t", "été"]


class ObjectStore(MemoryStore):
    """A store of which each listing costs requests, like an object store; it keeps the keys that were requested."""

    def __init__(self) -> None:
        super().__init__()
        self.lists_free = False
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        return super().get(key)


@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "zarr-v2"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_object_store_is_asked_for_the_array_where_all_chunks_are_missing(layout: str, mode: str) -> None:
    store = ObjectStore()
    source: dict[str, bytes] = {}
    with nczarr.Dataset(source, "w") as ds:
        ds.createDimension("x", 4)
        ds.createVariable("lost", "i4", ("x",), chunksizes=(2,))[:] = 1
        ds.createVariable("empty", "i4", ("x",), chunksizes=(2,))
    nczarr.copy(source, store, layout=layout, lossy=True)
    store.delete_many(["empty/0", "empty/1"])  # a copy to version 2 writes fill values
    store.delete_prefix("lost")
    with nczarr.Dataset(store, mode) as ds:
        for part in (slice(None), slice(1)):
            with pytest.raises(
                StoreError, match="the array is missing: only the consolidated metadata name it"
            ):
                ds["lost"][part]
        store.asked.clear()
        assert len(set(ds["empty"][:].filled(0).tolist())) == 1  # the fill value of the layout
        name = "empty/.zarray" if layout == "zarr-v2" else "empty/zarr.json"
        assert store.asked.count(name) == 1
        if mode == "a":  # the answer is kept
            assert ds["empty"][1:].size == 3
            assert store.asked.count(name) == 1


def test_a_folder_that_disappears_after_the_opening_is_not_fill(tmp_path: Path) -> None:
    folder = make(tmp_path / "s.zarr")
    with nczarr.Dataset(folder) as ds:
        shutil.rmtree(folder / "G")
        with pytest.raises(StoreError, match="the array is missing"):
            ds["G/a"][:]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_folder_that_was_emptied_is_not_fill(layout: str, mode: str, tmp_path: Path) -> None:
    """The listing of its group still has its name."""
    folder = make(tmp_path / "s.zarr", layout)
    for file in (folder / "v").rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.warns(RecoveryWarning, match="'v' is listed but missing"):
        ds = nczarr.Dataset(folder, mode)
    with ds:
        assert "v" not in ds.variables
    with (
        open_dataset(folder, mode="r+" if mode == "a" else "r", consolidated=True) as stored,
        pytest.raises(StoreError, match="the array is missing: only the consolidated metadata name it"),
    ):
        stored.data("/v").read((slice(None),))


def test_a_document_that_changed_since_the_opening_is_outdated(tmp_path: Path) -> None:
    hierarchy = open_hierarchy(LocalStore(make(tmp_path / "s.zarr")))
    assert hierarchy.outdated_nodes() == []
    later = (tmp_path / "s.zarr" / "zarr.json").stat().st_mtime_ns + 10**9
    os.utime(tmp_path / "s.zarr" / "v" / "zarr.json", ns=(later, later))
    (tmp_path / "s.zarr" / "G" / "a" / "zarr.json").unlink()
    shutil.copytree(tmp_path / "s.zarr" / "H", tmp_path / "s.zarr" / "K")
    assert hierarchy.outdated_nodes() == ["v", "K", "G/a"]

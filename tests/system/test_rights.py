"""Rights of what is replaced, planted links, file systems without hard links or cases, and stores of other users."""

from __future__ import annotations

import ast
import errno
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import import_graph
import pytest

import nczarr
from nczarr.cli import main
from nczarr.errors import NCZarrError, StoreError
from nczarr.stores import LocalStore
from nczarr.stores.zip import ZipStore
from nczarr.system import atomic
from nczarr.system.atomic import (
    Output,
    create_directory,
    create_file,
    ignores_case,
    partial_path,
    text_output,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
EXAMPLE = Path(__file__).parents[1] / "data" / "example.nc"
#: Targets of a copy, by the suffix of their names.
DOORS = [".zarr", ".zip", ".nc", ".cdl"]


def acl_of(path: Path, *, default: bool = False) -> str | None:
    """The access control list as getfacl prints it."""
    options = ["-d"] if default else ["-a"]
    command = ["getfacl", "-cEn", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def setfacl(tmp_path: Path) -> None:
    """Skip where files have no access control lists."""
    if shutil.which("setfacl") is None or not hasattr(os, "getxattr"):
        pytest.skip("there is no setfacl")
    if subprocess.run(["setfacl", "-m", "u:1:r", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("the file system has no access control lists")
    subprocess.run(["setfacl", "-b", str(tmp_path)], check=True)


def watched_renames(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[int]:
    """The rights of group and others of each temporary name, at each step of the file system that nczarr takes."""
    seen: list[int] = []

    def look() -> None:
        for name in os.listdir(folder):
            if name.startswith(".") and ".nczarr-" in name:
                seen.append(stat.S_IMODE(os.lstat(folder / name).st_mode) & 0o077)

    def noticed(function: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            look()
            result = function(*arguments, **options)  # type: ignore[operator]
            look()
            return result

        return call

    for name in ("open", "mkdir", "write", "fsync", "chmod", "chown", "replace", "rename", "pwrite"):
        monkeypatch.setattr(os, name, noticed(getattr(os, name)))
    return seen


@pytest.mark.parametrize("suffix", DOORS)
def test_the_mode_of_what_is_replaced_stays_and_is_never_wider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    target = tmp_path / f"a{suffix}"
    nczarr.copy(EXAMPLE, target)
    for mode in (0o700, 0o640) if target.is_file() else (0o700, 0o750):
        target.chmod(mode)
        with monkeypatch.context() as patch:
            seen = watched_renames(patch, tmp_path)
            nczarr.copy(EXAMPLE, target, overwrite=True)
        assert stat.S_IMODE(target.stat().st_mode) == mode
        assert seen
        assert all(rights & ~mode == 0 for rights in seen), [oct(rights) for rights in seen]
    assert os.listdir(tmp_path) == [target.name]


def test_mode_w_keeps_the_mode(tmp_path: Path) -> None:
    for name in ("a.zarr", "a.nc"):
        target = tmp_path / name
        nczarr.Dataset(target, "w").close()
        target.chmod(0o700)
        with nczarr.Dataset(target, "w") as dataset:
            dataset.title = "new"
        assert stat.S_IMODE(target.stat().st_mode) == 0o700


@pytest.mark.usefixtures("setfacl")
@pytest.mark.parametrize("suffix", DOORS)
def test_the_access_control_list_of_what_is_replaced_stays(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"a{suffix}"
    nczarr.copy(EXAMPLE, target)
    entries = "u::rwx,u:12:rw,g::-,g:13:r,m::rw,o::-"
    subprocess.run(["setfacl", "--set", entries, str(target)], check=True)
    if target.is_dir():
        subprocess.run(["setfacl", "-d", "-m", "u:14:rwx,o::-", str(target)], check=True)
    before, handed_down = acl_of(target), acl_of(target, default=True)
    assert "group::---" in str(before)
    nczarr.copy(EXAMPLE, target, overwrite=True)
    assert acl_of(target) == before
    if target.is_dir():
        assert acl_of(target, default=True) == handed_down
        assert "user:14:" in str(acl_of(target / "zarr.json"))


@pytest.mark.usefixtures("setfacl")
@pytest.mark.parametrize("suffix", DOORS)
def test_a_list_that_the_folder_hands_down_does_not_widen_what_is_replaced(
    tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / f"a{suffix}"
    nczarr.copy(EXAMPLE, target)
    target.chmod(0o740)
    before = acl_of(target)
    subprocess.run(["setfacl", "-d", "-m", "u:12:rwx", str(tmp_path)], check=True)
    nczarr.copy(EXAMPLE, target, overwrite=True)
    assert acl_of(target) == before


@pytest.mark.usefixtures("setfacl")
def test_every_other_output_keeps_rights(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    outputs = {
        "refs.json": lambda path: nczarr.copy(EXAMPLE, path, virtual=True, overwrite=True),
        "refs.parquet": lambda path: nczarr.copy(EXAMPLE, path, virtual=True, overwrite=True),
        "scan.parquet": lambda path: nczarr.scan([EXAMPLE], path),
        "a.txt": lambda path: write_text(path),
        "b.cdl": lambda path: nczarr.Dataset(EXAMPLE).tocdl(outfile=path),
    }
    for name, write in outputs.items():
        path = tmp_path / name
        write(path)
        subprocess.run(["setfacl", "-m", "u:12:rwx,g::-,o::-", str(path)], check=True)
        before = acl_of(path)
        write(path)
        assert acl_of(path) == before, name


def write_text(path: Path) -> None:
    with text_output(path) as file:
        file.write("x")


def test_a_group_that_cannot_be_kept_gets_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, partial = tmp_path / "a", tmp_path / "b"
    target.write_text("old")
    target.chmod(0o664)
    os.close(create_file(partial, private=True))
    monkeypatch.setattr(atomic, "_own", lambda path, user, group: group == -1)
    atomic.keep_rights(target, partial)
    assert stat.S_IMODE(partial.stat().st_mode) == 0o644
    acl = bytes.fromhex("020000000100 0700 ffffffff0400 0600 ffffffff2000 0400 ffffffff")
    assert atomic._without_group(acl)[14:16] == bytes([4, 0])


# --- planted names


def test_a_planted_link_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(atomic, "new_writer", lambda: "00000000-1-1-1")
    for name in ("a.txt", "b.cdl"):
        planted = partial_path(tmp_path / name)
        planted.symlink_to(victim)
        with pytest.raises(NCZarrError, match=r"exists"):
            write_text(tmp_path / name)
        assert victim.read_text() == "precious"
        planted.unlink(missing_ok=True)
    planted = partial_path(tmp_path / "c")
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        Output(tmp_path / "c").open()
    planted.unlink()
    planted.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        create_file(planted)
    with pytest.raises(FileExistsError):
        create_directory(planted)
    assert not (tmp_path / "nowhere").exists()


#: Modules that open files for writing beside `nczarr/system/atomic.py`, with the calls and the reason.
OPENERS = {
    "nczarr.cli.main": "the null device",
    "nczarr.convert.values.resume": "a journal of the store that nczarr has created",
    "nczarr.convert.virtual": "files of a temporary directory of `create_directory`",
    "nczarr.netcdf.bytes.file": "a netCDF file under its own name, which a program edits",
    "nczarr.netcdf4.opening": "a file in a private temporary directory",
    "nczarr.stores.zip": "the null device",
    "nczarr.system.atomic": "this module",
    "nczarr.system.durability": "a file that is there, to sync it",
    "nczarr.zarr.chunks.shard_files": "a shard that grows in place",
}


def opens_for_writing(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("O_CREAT", "O_WRONLY", "O_RDWR", "O_TRUNC"):
            yield node.attr
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("write_text", "write_bytes") and isinstance(node.func, ast.Attribute):
                yield name
            if name in ("mktemp", "mkstemp", "NamedTemporaryFile"):
                yield name
            modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if name == "open" and any(re.fullmatch(r"[wxa]b?\+?b?|rb?\+b?", mode) for mode in modes):
                yield f"open {modes}"


def test_one_module_opens_temporary_names() -> None:
    found = {
        module: calls
        for module, path in import_graph.modules().items()
        if (calls := list(opens_for_writing(ast.parse(path.read_text("utf-8")))))
    }
    assert {module: calls for module, calls in found.items() if module not in OPENERS} == {}
    assert list(opens_for_writing(ast.parse("path.open('w'); open(p, 'xb'); os.O_CREAT"))) != []


# --- file systems without hard links, or without cases


def refusing(number: int) -> object:
    def link(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return link


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP])
@pytest.mark.parametrize("renames", [True, False])
def test_a_store_is_made_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, renames: bool
) -> None:
    monkeypatch.setattr(os, "link", refusing(number))
    if not renames:
        monkeypatch.setattr(atomic, "_rename", lambda *_: False)
    target = tmp_path / "a.zarr"
    nczarr.copy(EXAMPLE, target)
    assert not list(nczarr.diff(EXAMPLE, target))
    nczarr.copy(EXAMPLE, target, overwrite=True)
    store = LocalStore(tmp_path / "s", "w")
    assert store.set_if_absent("mark", b"first")
    assert not store.set_if_absent("mark", b"second")
    assert store.get("mark") == b"first"
    assert os.listdir(tmp_path / "s") == ["mark"]


def test_other_errors_of_links_stay_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.EIO))
    store = LocalStore(tmp_path / "s", "w")
    with pytest.raises(NCZarrError):
        store.set_if_absent("mark", b"first")
    assert os.listdir(tmp_path / "s") == []


def test_the_probe_of_cases_leaves_nothing_and_asks_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not ignores_case(tmp_path / "new" / "store")
    true_lexists = os.path.lexists

    def ignoring(path: Path) -> bool:
        """Look up only the last part of a path without regard to case, as in a mounted exFAT."""
        return any(name.lower() == path.name.lower() for name in os.listdir(path.parent)) or true_lexists(
            path
        )

    monkeypatch.setattr(os.path, "lexists", ignoring)
    assert ignores_case(tmp_path / "new" / "store")
    assert os.listdir(tmp_path) == []


def test_names_that_differ_in_case_stay_apart_where_cases_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nczarr.mapping.dataset import open as opening

    monkeypatch.setattr(opening, "ignores_case", lambda _: True)
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as dataset:
        dataset.createDimension("x", 2)
        for number, name in enumerate("Tt"):
            dataset.createVariable(name, "i4", ("x",))[:] = number
    names = [p.name.lower() for p in (tmp_path / "a.zarr").iterdir() if p.is_dir()]
    assert len(set(names)) == 2
    with nczarr.Dataset(tmp_path / "a.zarr") as dataset:
        assert dataset["T"][:].tolist() == [0, 0]
        assert dataset["t"][:].tolist() == [1, 1]


# --- other users


def in_a_fork(work: Callable[[], object], *, user: int | None = None) -> str:
    """Run in a forked process, of another user if one is given; return its error of nczarr, or an empty text."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        said = "?"
        try:
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            work()
            said = ""
        except NCZarrError as error:
            said = f"refused: {error}"
        except BaseException as error:
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(process, 0)
    with open(reading, "rb") as file:
        return file.read().decode()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root writes for two users")
@pytest.mark.parametrize("suffix", DOORS)
@pytest.mark.parametrize("sticky", [True, False])
def test_the_store_of_another_user_stays_and_nothing_hidden_is_left(suffix: str, sticky: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(EXAMPLE, folder / "source.nc")
        target = folder / f"a{suffix}"
        for _ in range(2):  # what the other user needs is loaded then
            nczarr.copy(folder / "source.nc", target, overwrite=True)
        folder.chmod(0o1777 if sticky else 0o777)
        said = in_a_fork(lambda: nczarr.copy(folder / "source.nc", target, overwrite=True), user=65534)
        if sticky or target.is_dir():
            assert said.startswith("refused:")
            assert str(target) in said
            assert target.stat().st_uid == 0
        else:
            assert said == ""
        assert sorted(os.listdir(folder)) == sorted([target.name, "source.nc"])


def test_an_old_version_that_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nczarr.copy(EXAMPLE, tmp_path / "a.zarr")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.warns(atomic.LeftoverWarning, match=r"a\.zarr is replaced.*\.tmp now"):
        nczarr.copy(EXAMPLE, tmp_path / "a.zarr", overwrite=True)
    assert list(nczarr.diff(EXAMPLE, tmp_path / "a.zarr")) == []


# --- limits and empty files


def test_a_limit_of_the_size_of_a_classic_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with nczarr.Dataset(path, "w", format="NETCDF3_CLASSIC") as dataset:
            dataset.createDimension("x")
            dataset.createVariable("v", "f8", ("x",))[:] = range(10_000)

    said = in_a_fork(write)
    assert said.startswith("refused:")
    assert "File too large" in said
    assert str(path) in said
    with nczarr.Dataset(path) as dataset:
        assert dataset["v"].shape == (0,)


def test_an_empty_zip_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    with pytest.raises(StoreError, match=r"is empty.*remove it"):
        ZipStore(tmp_path / "a.zip")
    zipfile.ZipFile(tmp_path / "b.zip", "w").close()
    with pytest.raises(NCZarrError, match="the store is empty"):
        nczarr.Dataset(tmp_path / "b.zip")


def test_the_command_chooses_names_for_disks_that_ignore_case(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text(
        "netcdf a { dimensions: x = 1; variables: int T(x), t(x); data: T = 1; t = 2; }"
    )
    for words in (["gen", "a.cdl", "a.zarr"], ["copy", "a.cdl", "b.zarr"]):
        command, source, target = words[0], str(tmp_path / words[1]), tmp_path / words[2]
        assert main([command, source, str(target), "--case-insensitive"]) == 0
        names = [p.name.casefold() for p in target.iterdir() if p.is_dir()]
        assert len(set(names)) == 2

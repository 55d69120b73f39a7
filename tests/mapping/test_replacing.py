"""Replacing and writing datasets in stores that cannot rename, by processes that die."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dying_store import Died, DyingStore

import nczarr
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, StoreError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.dataset.destination import UNFINISHED
from nczarr.mapping.dataset.maintenance import clean
from nczarr.model import INT, Attribute, Dataset, Dimension, Group, MemorySource, Storage, Variable
from nczarr.stores import MemoryStore, Store
from nczarr.stores.base import REPLACED
from nczarr.system.atomic import WriterState, new_writer, writer_state

DATA = Path(__file__).parents[1] / "data"
LAYOUTS = ("nczarr-v3", "nczarr-v2", "zarr-v3", "zarr-v2", "draft-2019")
#: A writer on a machine of which nothing is known here.
ELSEWHERE = (f"00000000-1-0-{n:x}" for n in itertools.count())


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nczarr.mapping.dataset.destination.new_writer", lambda: next(ELSEWHERE))


def dataset(title: str, names: str) -> Dataset:
    def variables(names: str) -> tuple[Variable, ...]:
        return tuple(Variable(n, INT, ("/x",), storage=Storage(chunk_shape=(2,))) for n in names)

    attributes = (Attribute.of("title", title),)
    inner = (Group("g", variables=variables("w")),)
    return Dataset(
        "d",
        attributes=attributes,
        dimensions=(Dimension("x", 4),),
        variables=variables(names),
        groups=inner,
    )


OLD, NEW = dataset("old", "ab"), dataset("new", "bc")
VALUES = {"old": 1, "new": 2}


def write(store: Store, model: Dataset, layout: str, **options: bool) -> None:
    title = model.attribute["title"].text
    chosen = WriteOptions(layout=layout)  # type: ignore[arg-type]
    with create_dataset(store, model, chosen, **options) as sink:
        for fqn in model.all_variables:
            sink.write(fqn, (slice(0, 4),), np.full(4, VALUES[title], "i4"))


def content(store: Store) -> str:
    """Which dataset is there, all of it; every value is looked at."""
    with open_dataset(store) as stored:
        title = stored.dataset.attribute["title"].text
        model = {"old": OLD, "new": NEW}[title]
        assert set(stored.dataset.all_variables) == set(model.all_variables)
        for fqn in model.all_variables:
            assert stored.data(fqn).read((slice(0, 4),)).tolist() == [VALUES[title]] * 4
    return title


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_process_that_dies_while_it_replaces_loses_nothing(layout: str, elsewhere: None) -> None:
    clear = MemoryStore()
    write(clear, NEW, layout)
    seen = set()
    for steps in itertools.count():
        store = MemoryStore()
        write(store, OLD, layout)
        try:
            write(DyingStore(store, steps), NEW, layout, overwrite=True)
            break
        except Died:
            pass
        try:
            found = content(store)
        except DatasetNotFoundError as error:
            assert "nczarr clean" in str(error)
            found = "between"
        seen.add(found)
        again = MemoryStore()
        for key in store.list():
            again.set(key, store.get(key))
        # One way out is the clean-up, another to write once more.
        clean(store, force=True)
        assert content(store) == ("old" if found == "old" and UNFINISHED not in again.list() else "new")
        assert [key for key in store.list() if key.startswith(".nczarr-")] in ([], [REPLACED])
        write(again, NEW, layout, overwrite=True)
        assert content(again) == "new"
    assert sorted(store.list()) == sorted([REPLACED, *clear.list()])
    assert seen == {"old", "between", "new"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_process_that_dies_while_it_creates(layout: str, elsewhere: None) -> None:
    for steps in itertools.count():
        store = MemoryStore()
        try:
            write(DyingStore(store, steps), NEW, layout)
            break
        except Died:
            pass
        if not list(store.list()):
            continue
        try:
            assert content(store) == "new"
        except DatasetNotFoundError as error:
            assert "unfinished" in str(error)
            with pytest.raises(DatasetExistsError, match="unfinished"):
                write(store, NEW, layout)
        again = MemoryStore()
        for key in store.list():
            again.set(key, store.get(key))
        clean(store, force=True)
        assert not list(store.list()) or content(store) == "new"
        assert UNFINISHED not in store.list()
        write(again, NEW, layout, overwrite=True)
        assert content(again) == "new"
    assert steps > 5


def test_what_fails_is_removed_and_the_old_dataset_stays() -> None:
    store = MemoryStore()
    write(store, OLD, "nczarr-v3")
    before = sorted(store.list())

    def fail() -> None:
        with create_dataset(store, NEW, overwrite=True) as sink:
            sink.write("/b", (slice(0, 4),), np.zeros(4, "i4"))
            assert content(store) == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(store.list()) == before
    assert content(store) == "old"


def test_no_part_of_an_unfinished_dataset_opens(tmp_path: Path) -> None:
    sink = create_dataset(tmp_path / "a.zarr", OLD)
    sink.write("/a", (slice(0, 2),), np.zeros(2, "i4"))
    with pytest.raises(DatasetNotFoundError, match=r"unfinished: another process writes it"):
        open_dataset(tmp_path / "a.zarr")
    for part in ("a", "g"):
        with pytest.raises(DatasetNotFoundError):
            open_dataset(tmp_path / "a.zarr" / part)
    sink.commit()
    assert open_dataset(tmp_path / "a.zarr").dataset.all_variables


def test_of_two_writers_one_is_refused(elsewhere: None) -> None:
    store = MemoryStore()
    first = create_dataset(store, OLD)
    second = create_dataset(store, NEW, overwrite=True)
    with pytest.raises(StoreError, match="another process"):
        first.commit()
    first.abort()
    second.commit()
    assert open_dataset(store).dataset.attribute["title"].text == "new"


def test_two_that_replace_at_once_leave_one_whole_dataset(elsewhere: None) -> None:
    store = MemoryStore()
    write(store, OLD, "nczarr-v3")
    sinks = [create_dataset(store, NEW, overwrite=True) for _ in range(2)]
    for sink in sinks:
        for fqn in NEW.all_variables:
            sink.write(fqn, (slice(0, 4),), np.full(4, 2, "i4"))
    for sink in sinks:
        sink.commit()
        assert content(store) == "new"
    assert [key for key in store.list() if key.startswith(".nczarr-")] in ([], [REPLACED])


def test_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    store = MemoryStore()
    write(store, OLD, "nczarr-v3")
    sink = create_dataset(store, NEW, overwrite=True)
    sink.write("/b", (slice(0, 4),), np.zeros(4, "i4"))
    said = clean(store, force=True)
    assert len(said) == 1
    assert "is writing it" in said[0]
    sink.abort()
    assert clean(store) == []
    local = tmp_path / "a.zarr"
    sink = create_dataset(local, OLD)
    assert "is writing it" in clean(local)[0]
    sink.abort()
    assert not local.exists()


def test_clean_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nczarr.cli import main

    target = tmp_path / "a.zarr"
    nczarr.copy(OLD, target)
    (target / UNFINISHED).write_text("an older version wrote this")
    assert main(["clean", str(target)]) == 0
    assert "--force" in capsys.readouterr().out
    assert main(["clean", "--force", str(target), str(tmp_path / "nothing.zarr")]) == 0
    assert "complete; the mark" in capsys.readouterr().out
    assert main(["clean", str(target)]) == 0
    assert capsys.readouterr().out == ""


def test_clean_looks_through_datasets_only(tmp_path: Path) -> None:
    """In a folder of other things it removed, with what a dead process had left deep inside, all empty directories."""
    (tmp_path / "work" / "empty").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("mine")
    nczarr.copy(OLD, tmp_path / "a.zarr")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    writer = new_writer().split("-")
    writer[1] = f"{ended.pid:x}"
    left = tmp_path / "a.zarr" / "b" / f".nczarr-{'-'.join(writer)}.tmp"
    left.write_bytes(b"half a chunk")
    assert clean(tmp_path) == []
    assert left.exists()
    assert clean(tmp_path / "a.zarr") == [f"{left}: removed"]
    assert (tmp_path / "work" / "empty").is_dir()


@pytest.mark.filterwarnings("ignore::nczarr.mapping.RecoveryWarning")
@pytest.mark.parametrize("layout", ["nczarr-v3", "zarr-v3", "nczarr-v2", "draft-2019"])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("names", ["zb", "ba", "bz", "b"])
def test_a_process_that_dies_while_it_renames_shows_no_fill(
    layout: str, consolidated: bool, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One variable gets another name, two exchange theirs, one takes the other's, one goes."""
    monkeypatch.setattr("nczarr.mapping.dataset.rename_journal.new_writer", lambda: next(ELSEWHERE))
    for steps in itertools.count():
        store = MemoryStore()
        options = WriteOptions(layout=layout, consolidated=consolidated)  # type: ignore[arg-type]
        with create_dataset(store, OLD, options) as sink:
            for number, fqn in enumerate(OLD.all_variables):
                sink.write(fqn, (slice(0, 4),), np.full(4, number + 1, "i4"))
        done = False
        try:
            stored = open_dataset(DyingStore(store, steps), "r+")
            kept = {v.name: v for v in stored.dataset.variables}
            olds = ["a", "b"] if len(names) == 2 else ["b"]
            renamed = [replace(kept[old], name=new) for old, new in zip(olds, names, strict=True)]
            stored.update(replace(stored.dataset, variables=tuple(renamed)))
            stored.close()
            done = True
        except Died:
            pass
        if names in ("ba", "bz"):
            # Where one takes the name of another no single write switches; who comes next finishes it.
            try:
                open_dataset(store).close()
            except StoreError as error:
                assert "no value is lost" in str(error)
                assert "nczarr clean" in str(error)
                if steps % 2:
                    clean(store, force=True)
                else:
                    monkeypatch.setattr(
                        "nczarr.mapping.dataset.rename_journal.writer_state", lambda writer: WriterState.ENDED
                    )
            open_dataset(store, "r+").close()
            monkeypatch.setattr("nczarr.mapping.dataset.rename_journal.writer_state", writer_state)
            clean(store, force=True)
            assert not [key for key in store.list() if "moving" in key]
        with open_dataset(store) as found:
            values = {
                v.name: set(found.data(f"/{v.name}").read((slice(0, 4),)).tolist())
                for v in found.dataset.variables
            }
            old, new = (
                {"a": {1}, "b": {2}},
                dict(zip(names, [{1}, {2}] if len(names) == 2 else [{2}], strict=True)),
            )
            between = {**old, **new} if names == "zb" else old
            assert values in (old, new, between), (steps, values)
            if done:
                assert {v.name for v in found.dataset.variables} == set(names)
                break
    assert steps >= 3


def test_what_cannot_be_removed_is_said() -> None:
    """The store takes no more, not even the removal of what was written: nobody says that nothing is left."""

    class Broken(MemorySource):
        def read(self, region: object) -> np.ndarray:
            raise KeyboardInterrupt

    class Stuck(MemoryStore):
        def delete(self, key: str) -> None:
            raise StoreError("no connection", path=self.place(key))

    variable = Variable("v", INT, ("/x",), data=Broken(np.zeros(4, "i4")))
    model = Dataset("d", dimensions=(Dimension("x", 4),), variables=(variable,))
    with pytest.raises(KeyboardInterrupt) as caught:
        nczarr.copy(model, Stuck())
    assert "could not be removed: no connection (nczarr clean removes it)" in str(caught.value.__notes__)
    clear = MemoryStore()
    with pytest.raises(KeyboardInterrupt) as caught:
        nczarr.copy(model, clear)
    assert not hasattr(caught.value, "__notes__")
    assert list(clear.list()) == []


def test_clean_removes_the_mark_of_a_change_that_a_kill_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    nczarr.copy(DATA / "example.nc", path)
    ended = [
        sys.executable,
        "-c",
        "from nczarr.system.atomic import new_writer; print(new_writer(), end='')",
    ]
    mark = path / ".nczarr-writing"
    mark.write_bytes(subprocess.run(ended, capture_output=True, check=True).stdout)
    assert clean(path) == [f"{path}: the marker of an interrupted change is removed"]
    assert not mark.exists()
    mark.write_text(new_writer())  # of a process that lives
    assert "is writing it" in clean(path)[0]
    assert mark.exists()


WRITER = """
import sys
import numpy as np
import nczarr
from nczarr.model import INT, Dataset, Dimension, MemorySource, Storage, Variable
class Killed(MemorySource):
    def read(self, region, out=None):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
variable = Variable("v", INT, ("/x",), storage=Storage(chunk_shape=(2,)), data=Killed(np.zeros(4, "i4")))
nczarr.copy(Dataset("d", dimensions=(Dimension("x", 4),), variables=(variable,)), sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [True, False])
@pytest.mark.parametrize("left", ["v", "v/c", ""])
def test_directories_that_a_killed_process_left_are_in_nobodys_way(
    tmp_path: Path, left: str, cleaned: bool
) -> None:
    """A directory is made before the first file in it; a process may be killed in between."""
    path = tmp_path / "a.zarr"
    code = subprocess.run([sys.executable, "-c", WRITER, path], check=False).returncode
    assert code < 0
    assert (path / UNFINISHED).exists()
    (path / left).mkdir(parents=True, exist_ok=True)
    ended = [sys.executable, "-c", "from nczarr.system.atomic import value_name; print(value_name(), end='')"]
    name = subprocess.run(ended, capture_output=True, check=True, text=True).stdout
    (path / left / name).write_bytes(b"half")
    if cleaned:
        said = clean(path)
        assert "an unfinished dataset is removed" in said[-1]
        assert not path.exists()
    else:
        (path / UNFINISHED).unlink()  # it was killed before this was there
    nczarr.copy(DATA / "example.nc", path)
    clean(path)
    assert not list(path.rglob("*.tmp"))


def test_directories_without_files_are_not_taken_for_something_foreign(tmp_path: Path) -> None:
    (tmp_path / "a.zarr" / "v" / "c").mkdir(parents=True)
    nczarr.copy(DATA / "example.nc", tmp_path / "a.zarr")
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr" / "link").symlink_to(tmp_path / "a.zarr")
    with pytest.raises(DatasetExistsError, match="not a Zarr dataset"):
        nczarr.copy(DATA / "example.nc", tmp_path / "b.zarr", overwrite=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_a_store_that_cannot_list_nothing_is_replaced(layout: str) -> None:
    """The old chunks cannot be found and removed: they would be taken for the new dataset's."""
    store = MemoryStore()
    write(store, OLD, layout)
    before = {key: store.get(key) for key in store.list()}
    store.listable = store.lists_all = False
    with pytest.raises(DatasetExistsError, match="does not list all its keys"):
        write(store, NEW, layout, overwrite=True)
    with pytest.raises(DatasetExistsError, match="exists already"):
        write(store, NEW, layout)
    store.listable = store.lists_all = True
    assert {key: store.get(key) for key in store.list()} == before
    assert content(store) == "old"
    empty = MemoryStore()
    empty.listable = empty.lists_all = False
    write(empty, NEW, layout)
    empty.listable = empty.lists_all = True
    assert content(empty) == "new"

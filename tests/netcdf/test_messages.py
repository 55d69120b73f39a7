"""Messages of a child process: everything arrives unchanged, and a message that lies is refused in bounded memory."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from real_data import DATA

from nczarr.errors import ModelError, NCZarrError, NetCDFFileError, UnsupportedError
from nczarr.model import INT, STRING, CompoundType, Dataset, Field, VlenType, rewrite, same_values
from nczarr.model.types import NullText
from nczarr.netcdf import open_dataset
from nczarr.netcdf.messages import (
    DamagedMessageError,
    Message,
    dataset_message,
    error_message,
    error_of,
    read_dataset,
    read_message,
    read_values,
    values_message,
    write_message,
)

MOST = 1 << 20


def sent(message: Message) -> Message:
    """The message at the other end of a pipe."""
    stream = io.BytesIO()
    write_message(stream, message)
    stream.seek(0)
    return read_message(stream, MOST, MOST)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(own.datasets(anonymous=True, zero_sizes=True))
def test_every_dataset_arrives_unchanged(dataset: Dataset) -> None:
    found = read_dataset(sent(dataset_message(dataset)))
    assert found == rewrite(dataset, variable=lambda _, v: v.with_data(None))
    assert [v.storage for v in found.all_variables.values()] == [
        v.storage for v in dataset.all_variables.values()
    ]
    for variable in dataset.all_variables.values():
        shape = dataset.shape_of(variable)
        assert variable.data is not None
        values = variable.data.read(tuple([slice(0, n, 1) for n in shape]))
        assert same_values(
            read_values(sent(values_message(values, variable.type)), variable.type, shape), values
        )


def test_records_of_texts_and_sequences_arrive_unchanged() -> None:
    sequence = VlenType("/s", INT)
    record = CompoundType("/c", (Field("n", INT), Field("text", STRING), Field("steps", sequence)))
    values = np.zeros(3, record.dtype)
    values["n"] = [1, 2, 3]
    values["text"] = ["a", "", "é"]
    for place, steps in enumerate(([1, 2], [], [3])):
        values["steps"][place] = np.array(steps, "i4")
    found = read_values(sent(values_message(values, record)), record, (3,))
    assert found.dtype == values.dtype
    assert [(n, text, list(steps)) for n, text, steps in found.tolist()] == [
        (1, "a", [1, 2]), (2, "", []), (3, "é", [3])
    ]  # fmt: skip


def test_null_pointers_stay_apart_from_empty_strings() -> None:
    values = np.array([NullText(), "", "a\udcff"], object)
    found = read_values(sent(values_message(values, STRING)), STRING, (3,))
    assert [type(v) for v in found] == [NullText, str, str]
    assert found.tolist() == ["", "", "a\udcff"]


def test_errors_keep_their_class_and_place() -> None:
    error = error_of(sent(error_message(UnsupportedError("no", path="a.nc", fqn="/v", hint="do"))))
    assert isinstance(error, UnsupportedError)
    assert str(error) == "a.nc: /v: no (do)"
    assert error_of(Message("ready")) is None
    other = error_of(Message({"error": ["SystemExit", "no", None, None, None]}))
    assert type(other) is NetCDFFileError


@pytest.mark.parametrize(
    ("sizes", "most", "match"),
    [((MOST + 1, 0), 9, "description has"), ((2, 10), 9, "values have 10"), ((2, 1 << 63), 9, "values have")],
)
def test_sizes_are_checked_before_memory_is_taken(sizes: tuple[int, int], most: int, match: str) -> None:
    stream = io.BytesIO(b"".join(n.to_bytes(8, "little") for n in sizes) + b"[]")
    with pytest.raises(DamagedMessageError, match=match):
        read_message(stream, MOST, most)


def test_lengths_are_checked_before_memory_is_taken() -> None:
    huge = np.array([1 << 62], "<i8").tobytes()
    for type_, body in (
        (STRING, huge),
        (VlenType("/v", INT), huge),
        (STRING, np.array([-2], "<i8").tobytes()),
    ):
        with pytest.raises(DamagedMessageError):
            read_values(Message("values", body), type_, (1,))
    for body in (b"", bytes(7), bytes(9)):
        with pytest.raises(DamagedMessageError):
            read_values(Message("values", body), INT, (2,))
    with pytest.raises(DamagedMessageError):
        read_values(Message("values", b""), INT, (1 << 40, 1 << 20))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every part of a JSON value."""
    yield at
    for key, part in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from places(part, (*at, key))


@pytest.mark.parametrize("name", ["ref_tst_compounds2", "enum_variable", "sst"])
def test_whatever_is_changed_a_dataset_or_an_error_of_ours_results(name: str) -> None:
    with open_dataset(DATA / "netcdf" / f"{name}.nc") as file:
        message = dataset_message(file.dataset)
    about = json.loads(json.dumps(message.about))
    where = [place for place in places(about) if place]
    choose = random.Random(name)
    junk = [
        None,
        True,
        -1,
        0,
        1,
        1 << 31,
        1 << 62,
        1 << 70,
        0.5,
        "",
        "/",
        "/x/y",
        "int",
        [],
        [[]],
        {},
        ["a", 0, 1],
    ]
    refused = 0
    for _ in range(1_500):
        changed = copy.deepcopy(about)
        *path, last = choose.choice(where)
        inside = changed
        for key in path:
            inside = inside[key]
        inside[last] = choose.choice(junk)
        body = (
            message.body if choose.random() < 0.8 else message.body[: choose.randrange(1 + len(message.body))]
        )
        try:
            assert isinstance(read_dataset(Message(changed, body)), Dataset)
        except (DamagedMessageError, ModelError):
            refused += 1
    assert refused > 500


@pytest.mark.slow
def test_deep_types_and_groups_are_refused() -> None:
    about = json.loads(json.dumps(dataset_message(Dataset("d")).about))
    deep = [["vlen", f"/t{i}", i - 1 if i else "int"] for i in range(5_000)]
    with pytest.raises(DamagedMessageError, match="too deeply"):
        read_dataset(Message({**about, "types": deep}))
    groups = [["/" + "/".join("g" * i), [], [], [], []] for i in range(3_000)]
    with pytest.raises(NCZarrError, match="nested"):
        read_dataset(Message({**about, "groups": groups}))
    orphan = [*about["groups"], ["/a/b", [], [], [], []]]
    with pytest.raises(DamagedMessageError, match="no parent"):
        read_dataset(Message({**about, "groups": orphan}))

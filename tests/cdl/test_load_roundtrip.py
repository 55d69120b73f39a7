"""Print and parse any dataset of the model: the two operations are inverses."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rotation import examples

from nczarr.cdl import DumpOptions, dumps, loads
from nczarr.model import (
    INT,
    Attribute,
    Dataset,
    Dimension,
    EnumType,
    MemorySource,
    Variable,
    compare,
    join_fqn,
)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets())
def test_print_parse_is_identity(dataset: Dataset) -> None:
    text = dumps(dataset)
    assert [str(d) for d in compare(dataset, loads(text))] == [], text


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_print_parse_print(data: st.DataObject) -> None:
    text = dumps(data.draw(strategies.datasets(types="fixed")))
    assert dumps(loads(text)) == text


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.datasets(types="none", depth=1, names=strategies.plain_names()))
def test_special_attributes_bring_chunks_and_shards_back(dataset: Dataset) -> None:
    found = loads(dumps(dataset, DumpOptions(special=True)))
    for fqn, variable in dataset.all_variables.items():
        mine, theirs = variable.storage, found.all_variables[fqn].storage
        assert (mine.chunk_shape, mine.shard_shape) == (theirs.chunk_shape, theirs.shard_shape)


@pytest.mark.parametrize("name", [".a", "+1e5", "-Infinity", "@", "..", "-", "1", "NaN", "a%"])
def test_names_that_look_like_something_else(name: str) -> None:
    variable = Variable(name, INT, ("/" + name,), attributes=(Attribute.of(name, 1),))
    dataset = Dataset("d", dimensions=(Dimension(name, 2),), variables=(variable,))
    found = loads(dumps(dataset))
    assert [v.name for v in found.variables] == [name]
    assert found.variables[0].dimensions == ("/" + name,)
    assert name in found.variables[0].attribute


@pytest.mark.parametrize(
    ("name", "member"), [("0\\", "a"), ("a b", "0."), ("e", ".x"), ("e.e", "-"), ("1", "1")]
)
def test_enum_constants_with_their_type(name: str, member: str) -> None:
    enums = tuple(EnumType(join_fqn("/", n), INT, ((member, 1),)) for n in (name, "other"))
    variable = Variable("v", enums[0], (), data=MemorySource(np.array(1, "i4")))
    text = dumps(Dataset("d", types=enums, variables=(variable,)))
    assert dumps(loads(text)) == text

"""Break each constraint of the table, and see that `check` tells it; see that right stores have no finding."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import warnings
from pathlib import Path

import mapping_tools as tools
import mutations
import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczarr.errors import NCZarrError
from nczarr.mapping import WriteOptions, check_metadata, open_dataset, repair
from nczarr.mapping.constraints import CONSTRAINTS, page_table
from nczarr.mapping.findings import RecoveryWarning
from nczarr.model import (
    FLOAT,
    INT,
    Attribute,
    Dataset,
    Dimension,
    EnumType,
    Group,
    MemorySource,
    Variable,
    VlenType,
)
from nczarr.stores import MemoryStore

DATA = Path(__file__).parents[1] / "data"
INVALID = DATA / "vectors" / "invalid"
SPEC = Path(__file__).parents[2] / "docs" / "spec"
CODES = [c.code for c in CONSTRAINTS]
#: The roots of two datasets are needed to break this one, which a store of the vectors does.
NOT_MUTATED = {"copy-unclear"}
#: A trial asks for more, as for 600.
EXAMPLES = int(os.environ.get("NCZARR_TRIAL_EXAMPLES", "15"))
PLAIN = WriteOptions(consolidated=False)
quiet = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def rich() -> Dataset:
    """A dataset in which every constraint can be broken."""
    flag = EnumType("/flag", INT, (("one", 1),))
    data = MemorySource(np.ones((2, 2), "i4"))
    note = (Attribute.of("note", "n"), Attribute.of("half", 0.5, FLOAT))
    return Dataset(
        "rich",
        types=(flag,),
        dimensions=(Dimension("t", 2, True), Dimension("x", 2)),
        variables=(
            Variable("v", INT, ("/t", "/x"), attributes=note, data=data),
            Variable("w", INT, ("/t", "/x"), data=data),
            Variable("__f", flag, ("/t", "/x"), data=data),
        ),
        groups=(Group("g", variables=(Variable("u", INT, ("/x",), data=MemorySource(np.ones(2, "i4"))),)),),
    )


def documents_of(dataset: Dataset) -> mutations.Documents:
    store = MemoryStore()
    tools.copy(dataset, store, PLAIN)
    return {k: json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")}


def store_of(documents: mutations.Documents) -> MemoryStore:
    store = MemoryStore()
    for key, document in documents.items():
        store.set(key, json.dumps(document).encode())
    return store


def codes_of(documents: mutations.Documents) -> set[str]:
    """The codes that a check finds; a refused store breaks C34."""
    store = store_of(documents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            stored, found = check_metadata(store)
        except NCZarrError:
            return {"metadata"}
    stored.close()
    return {f.code for f in found}


def test_every_constraint_is_told_where_it_is_broken() -> None:
    good = documents_of(rich())
    assert codes_of(good) == set()
    assert {*mutations.MUTATIONS, *NOT_MUTATED} == set(CODES)
    for code, each in mutations.MUTATIONS.items():
        for mutation in each:
            documents = copy.deepcopy(good)
            assert mutation(documents, random.Random(1)), (code, mutation)
            assert code in codes_of(documents), (code, mutation)


@pytest.mark.parametrize("key", ["_nczarr_array", "_nczarr_attr"])
def test_an_unreadable_key_of_an_array_violates_nothing_else(key: str) -> None:
    """Also where its node name is not its name."""
    data = MemorySource(np.ones(2, "i4"))
    note = (Attribute.of("note", 7, FLOAT),)
    variable = Variable("a/b", INT, ("/x",), attributes=note, data=data)
    documents = documents_of(Dataset("d", dimensions=(Dimension("x", 2),), variables=(variable,)))
    (place,) = (k for k, d in documents.items() if d["node_type"] == "array")
    documents[place]["fill_value"] = 5
    documents[place]["nczarr"]["configuration"][key] = 7
    assert codes_of(documents) == {"key-unreadable"}


@pytest.mark.parametrize("change", ["/nowhere", None])
def test_an_array_of_packed_values_whose_type_is_lost_keeps_what_its_other_keys_say(
    change: str | None,
) -> None:
    """Its attributes, and its dimensions, of which one is unlimited."""
    row = VlenType("/row", FLOAT)
    note = (Attribute.of("half", 0.5, FLOAT), Attribute.of("count", 7, INT))
    values = np.empty(2, object)
    values[:] = [np.ones(1, "f4"), np.ones(0, "f4")]
    variable = Variable("v", row, ("/t",), attributes=note, data=MemorySource(values))
    documents = documents_of(
        Dataset("d", types=(row,), dimensions=(Dimension("t", 2, True),), variables=(variable,))
    )
    info = documents["v/zarr.json"]["nczarr"]["configuration"]["_nczarr_array"]
    info.pop("type")
    info.update({} if change is None else {"type": change})
    documents["v/zarr.json"]["dimension_names"] = ["another"]
    with pytest.warns(RecoveryWarning, match="data type"), open_dataset(store_of(documents)) as opened:
        found = opened.dataset.all_variables["/v"]
    assert (found.type.kind, found.dimensions, found.attributes) == ("vlen", ("/t",), note)


@quiet
@given(
    strategies.datasets(names=strategies.wild_names(), anonymous=True, zero_sizes=True),
    st.randoms(use_true_random=False),
)
def test_a_right_store_has_no_finding_and_one_with_a_mutation_has_it(
    dataset: Dataset, chance: random.Random
) -> None:
    documents = documents_of(dataset)
    assert codes_of(documents) == set()
    code = chance.choice(sorted(mutations.MUTATIONS))
    if chance.choice(mutations.MUTATIONS[code])(documents, chance):
        assert code in codes_of(documents), code


def test_the_page_prints_the_table() -> None:
    assert page_table() in (SPEC / "nczarr-v3-recovery.md").read_text(encoding="utf-8")
    assert len(set(CODES)) == len(CODES)


def test_every_constraint_has_a_store_that_breaks_it_alone() -> None:
    alone = {p.read_text(encoding="utf-8").strip() for p in INVALID.glob("*.findings")}
    # Without the record of the root nothing tells what its nodes are.
    assert set(CODES) - alone == {"copy-unclear"}
    assert "copy-unclear\nrecord-lost" in alone


WRITTEN = {
    c.code for c in CONSTRAINTS[36:] if c.remedy
} - {"annotation-stale"}  # fmt: skip


@pytest.mark.parametrize("code", sorted(WRITTEN))
def test_what_the_table_says_that_repair_writes_is_written(code: str) -> None:
    for mutation in mutations.MUTATIONS[code]:
        documents = documents_of(rich())
        assert mutation(documents, random.Random(2))
        store = MemoryStore()
        for key, document in documents.items():
            store.set(key, json.dumps(document).encode())
        assert code in [f.code for f in repair(store)]
        opened, found = check_metadata(store)
        opened.close()
        assert [f for f in found if f.code == code] == []


def test_opening_warns_where_a_size_is_lost() -> None:
    documents = documents_of(rich())
    del documents["zarr.json"]["attributes"]["_nczarr_group"]["dimensions"][0]["size"]
    store = MemoryStore()
    for key, document in documents.items():
        store.set(key, json.dumps(document).encode())
    with pytest.warns(RecoveryWarning, match="has no size"):
        open_dataset(store).close()


def flat(text: str) -> str:
    return " ".join(text.split())


def test_every_must_of_the_text_is_on_the_page_of_obligations() -> None:
    """The sentences of the four documents, in order, with constraints and stores that exist."""
    page = (SPEC / "obligations.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith(("| nczarr", "| governance"))]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    for name in ("nczarr-v3", "nczarr-v3-storage", "nczarr-v3-recovery", "governance"):
        text = (SPEC / f"{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"^The key words MUST.*$|^\| C\d+ \|.*$", "", text, flags=re.M)
        text, place = flat(text), 0
        sentences = [sentence for page_, sentence, _, _ in rows if page_ == name]
        for sentence in sentences:
            assert sentence in text[place:], sentence
            place = text.index(sentence, place) + 1
            assert len(re.findall(r"\bMUST\b", sentence)) == 1, sentence
        assert len(sentences) == len(re.findall(r"\bMUST\b", text)), name
    assert len(rows) >= 37
    for _, sentence, constraints, told in rows:
        stores = re.findall(r"`([a-z0-9_/]+)`", told)
        tests = re.findall(r"`(tests/.+?\.py)`", told)
        assert stores or tests, sentence
        assert all((DATA / "vectors" / f"{s}.zarr" / "zarr.json").is_file() for s in stores), sentence
        assert all((SPEC.parents[1] / t).is_file() for t in tests), sentence
        codes = {CODES[int(c) - 1] for c in re.findall(r"C(\d+)", constraints)}
        broken = {c for s in stores for c in _findings(s)}
        assert broken >= codes, (sentence, codes - broken)


def _findings(store: str) -> list[str]:
    path = DATA / "vectors" / f"{store}.findings"
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


@pytest.mark.parametrize("asked", [False, True])
def test_a_list_of_extensions_is_written_on_request_only(asked: bool) -> None:
    store = MemoryStore()
    tools.copy(rich(), store, WriteOptions(consolidated=False, extensions=asked))
    documents = [json.loads(store.get(k)) for k in store.list() if k.endswith("zarr.json")]
    assert {"extensions" in document for document in documents} == {asked}

"""One notation of names at every place where a user types one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import NCZarrError, cdl, convert, model
from nczarr.cli.main import main
from nczarr.convert import open_source
from nczarr.model import DOUBLE, INT, Attribute, Dataset, Dimension, Group, MemorySource, Variable
from nczarr.model.typed import fqn_of_typed, matching, parse_typed, split_typed, typed, typed_name
from nczarr.view.plotting import find_variable

#: A character of each kind that an option gives a meaning.
NAMES = ("a,b", "a[1]", "a*b", "a:b", "a@b", "a=b", "a b", "a?b", "a\\b", "a#b", "a'b")


def dataset_of(name: str) -> Dataset:
    """A dataset with this name for a group and its variable and dimension, beside names that patterns match."""

    def variable(own: str, ref: str) -> Variable:
        values = MemorySource(np.arange(4.0))
        about = (Attribute.of("units", "1"),)
        return Variable(own, DOUBLE, (ref,), attributes=about, data=values)

    group = Group(
        name,
        dimensions=(Dimension(name, 4),),
        variables=(variable(name, model.format_fqn([name, name])),),
    )
    others = tuple(variable(other, "/ab") for other in ("a1", "ab", "axb"))
    return Dataset("d", dimensions=(Dimension("ab", 4),), variables=others, groups=(group,))


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def store(name, tmp_path) -> str:
    path = tmp_path / "s.zarr"
    nczarr.copy(dataset_of(name), path)
    return str(path)


def listed(store: str, capsys) -> str:
    """The name of the variable in the group, as ls prints it."""
    assert main(["ls", store]) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.count("/") == 2 and not x.endswith("/"))
    return line


def variables(path: Path) -> list[str]:
    with open_source(path) as dataset:
        return list(dataset.all_variables)


@pytest.mark.slow
def test_the_listed_name_can_be_pasted_into_every_option_of_copy(store, name, tmp_path, capsys):
    fqn = model.format_fqn([name, name])
    at = listed(store, capsys)
    group = at.rpartition("/")[0]
    target = tmp_path / "t.zarr"

    def copied(*options: str) -> Dataset:
        assert main(["copy", "-q", "--overwrite", store, str(target), *options]) == 0, options
        with open_source(target) as dataset:
            return dataset

    for option in (
        ("-v", at),
        ("-V", at),
        ("-V", at.rpartition("/")[2]),
        ("-g", group),
        ("-V", f"{at},{at}"),
    ):
        assert list(copied(*option).all_variables) == [fqn]
    assert list(copied("-x", at).all_variables) == ["/a1", "/ab", "/axb"]
    assert fqn not in copied("-x", group).all_groups
    assert copied("-d", f"{at}=1:3").all_dimensions[fqn].size == 2
    assert copied("--unlimited", at).all_dimensions[fqn].unlimited
    assert copied("-c", f"{at}=3").all_variables[fqn].storage.chunk_shape == (3,)
    assert copied("-c", f"{at}:{at}=3").all_variables[fqn].storage.chunk_shape == (3,)
    assert copied("--shards", f"{at}=4", "-c", f"{at}=2").all_variables[fqn].storage.shard_shape == (4,)
    assert "quantize" in str(copied("--quantize", f"{at}=3").all_variables[fqn].attributes).lower()
    copied("--compression", f"{at}:zstd:5")
    assert set(copied("--rename", f"{at}=new").all_variables) - {"/a1", "/ab", "/axb"} == {
        model.format_fqn([name, "new"])
    }
    renamed = copied("--rename", f"{at}@units=new").all_variables[fqn]
    assert [a.name for a in renamed.attributes] == ["new"]
    named = copied("--rename", f"/a1@units={typed_name(name)}").all_variables["/a1"]
    assert [a.name for a in named.attributes] == [name]


@pytest.mark.slow
def test_the_listed_name_can_be_pasted_into_every_other_command(store, name, tmp_path, capsys):
    at = listed(store, capsys)
    group = at.rpartition("/")[0]
    for options in (["-v", at], ["-g", group], ["-d", f"{at}=1:3"]):
        assert main(["dump", *options, store]) == 0
        assert "data:" in capsys.readouterr().out
    with open_source(store) as dataset:
        assert find_variable(dataset, at) == find_variable(dataset, at.rpartition("/")[2])
        assert find_variable(dataset, at) == model.format_fqn([name, name])
    assert main(["plot", store, at, "-o", str(tmp_path / "a.png")]) == 0
    capsys.readouterr()


def test_the_listed_name_of_a_group_is_that_of_a_group_for_xarray(store, name, tmp_path, capsys):
    group = listed(store, capsys).rpartition("/")[0]
    with xr.open_dataset(store, engine="nczarr", group=group) as ds:
        assert list(ds) + list(ds.coords) == [name]
        ds.load().nczarr.to_zarr(tmp_path / "t.zarr", group=group)
        ds.nczarr.to_netcdf(tmp_path / "t.nc", group=group)
    for path in ("t.zarr", "t.nc"):
        assert variables(tmp_path / path) == [model.format_fqn([name, name])]
    with xr.open_datatree(store, engine="nczarr", group=group) as tree:
        assert name in tree.ds.variables


def test_keywords_and_plans_take_the_same_names(store, name, tmp_path, capsys):
    at, fqn = listed(store, capsys), model.format_fqn([name, name])
    target = tmp_path / "t.zarr"
    for text in (at, fqn):
        nczarr.copy(store, target, overwrite=True, variables=[text], chunks={text: {text: 3}})
        with open_source(target) as dataset:
            assert dataset.variable_at(fqn).storage.chunk_shape == (3,)
    plan = tmp_path / "p.toml"
    nczarr.copy(store, target, overwrite=True, select={at: 1}, chunks={at: {at: 1}}, dry_run=True, plan=plan)
    nczarr.copy(store, target, overwrite=True, plan=plan)
    with open_source(target) as dataset:
        assert dataset.dimension_at(fqn).size == 1


def test_zom_takes_the_listed_name(tmp_path, capsys):
    path = tmp_path / "s.zarr"
    nczarr.copy(dataset_of("g 1"), path)
    outputs = []
    for at in (r"/g\ 1/g\ 1", "/g 1/g 1", "g 1/g 1"):
        assert main(["zom", "--path", at, str(path)]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("at", [r"/g\ 1/g\ 1", "/g 1/g 1", r"g\ 1/g 1", "g 1"])
def test_both_forms_of_a_blank_are_names_everywhere(at, tmp_path, capsys):
    path, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    nczarr.copy(dataset_of("g 1"), path)
    for command in (
        ["copy", "-q", "-V", at, str(path), str(target)],
        ["copy", "-q", "--overwrite", "-c", f"{at}=2", str(path), str(target)],
        ["copy", "-q", "--overwrite", "-d", f"{at}=0:2", str(path), str(target)],
        ["dump", "-v", at, str(path)],
    ):
        assert main(command) == 0, command
    capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["copy", "-v", r"/g\ 1/v"], r"did you mean '/g\ 1/w'?"),
        (["copy", "-c", r"/g\ 1/v:x=1"], r"did you mean '/g\ 1/w'?"),
        (["copy", "--rename", "/w=v"], r"did you mean '/g\ 1/w'?"),
        (["copy", "-d", "y=0"], r"there are /x\,1"),
        (["dump", "-v", "/g 1/v"], r"did you mean '/g\ 1/w'?"),
    ],
)
def test_a_hint_prints_a_name_that_can_be_typed(command, hint, tmp_path, capsys):
    path = tmp_path / "s.zarr"
    inside = Group("g 1", variables=(Variable("w", INT, ("/x,1",)),))
    nczarr.copy(Dataset("d", dimensions=(Dimension("x,1", 2),), groups=(inside,)), path)
    target = [] if command[0] == "dump" else [str(tmp_path / "t.zarr")]
    assert main([command[0], str(path), *target, *command[1:]]) == 1
    assert hint in capsys.readouterr().err


def test_an_unclear_attribute_or_node_is_refused(tmp_path):
    about = (Attribute.of("b", 1),)
    dataset = Dataset("d", variables=(Variable("a", INT, (), attributes=about), Variable("a@b", INT)))
    with pytest.raises(NCZarrError, match="several nodes and attributes"):
        nczarr.copy(dataset, tmp_path / "a.zarr", rename={"/a@b": "c"})
    nczarr.copy(dataset, tmp_path / "a.zarr", rename={r"/a\@b": "c"})
    assert variables(tmp_path / "a.zarr") == ["/a", "/c"]


def test_a_name_that_exists_as_it_is_typed_is_no_pattern():
    assert matching("a*", ["/a*", "/ab"]) == ["/a*"]
    assert matching("/t[12]", ["/t1", "/t2", "/t3"]) == ["/t1", "/t2"]
    assert matching("/*/v", ["/g/h/v", "/v"]) == ["/g/h/v"]
    assert matching("[!a]*", ["/b", "/a", "/ c".replace(" ", r"\ ")]) == ["/b", r"/\ c"]
    assert matching("a?c", [r"/a\ c", r"/a\/c", "/abc"]) == [r"/a\ c", r"/a\/c", "/abc"]


@given(st.lists(st.text(st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=("Cs",)),
                        min_size=1).map(model.normalize_name), max_size=4))  # fmt: skip
def test_every_fqn_has_a_typed_form(names):
    fqn = model.format_fqn(names)
    assert parse_typed(typed(fqn)) == tuple(names)
    assert fqn_of_typed(typed(fqn)) == fqn
    assert split_typed(f"{typed(fqn)},x", ",") == [typed(fqn), "x"]
    assert matching(typed(fqn), [fqn, "/other"]) == [fqn]


def test_existing_spellings_keep_their_meaning():
    assert convert.change.selecting.parse_selection("a=b=0:1")[0] == "a=b"
    assert parse_typed(r"/a\b") == ("a\\b",)
    assert cdl.dumped_variables(dataset_of("g 1"), cdl.DumpOptions(variables=("g 1/g 1",))) == (
        r"/g\ 1/g\ 1",
    )

"""Test hostile names: their node names, and datasets with them in every store."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mapping_tools as tools
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import LossError, ModelError, NCZarrError
from nczarr.mapping import WriteOptions, create_dataset, open_dataset
from nczarr.mapping.node_names import NodeNames, escape_name, unescape_name
from nczarr.model import (
    INT,
    Attribute,
    Dataset,
    Dimension,
    Group,
    MemorySource,
    OpaqueType,
    Variable,
    check_name,
    join_fqn,
)
from nczarr.stores import MemoryStore

#: Name, and its node name in Zarr v3 (None: only that it is escaped).
HOSTILE = [
    ("__x", "_nc-__x"),
    ("__", "_nc-__"),
    ("_nc-x", "_nc-_nc-x"),
    ("_nc-_nc-x", "_nc-_nc-_nc-x"),
    ("zarr.json", "_nc-zarr.2Ejson"),
    (".zarray", "_nc-.2Ezarray"),
    (".zgroup", "_nc-.2Ezgroup"),
    (".zattrs", "_nc-.2Ezattrs"),
    (".zmetadata", "_nc-.2Ezmetadata"),
    (".nczarr", "_nc-.2Enczarr"),
    (".", "_nc-.2E"),
    ("..", "_nc-.2E.2E"),
    ("....", "_nc-.2E.2E.2E.2E"),
    ("a\\b", "_nc-a.5Cb"),
    ("x" * 256, None),
    ("é" * 200, None),
    ("x" * 255, "x" * 255),
    ("a b", "a b"),
    (" a", " a"),
    ("c", "c"),
    ("0", "0"),
    ("a:b", "a:b"),
    ("a*?[b]", "a*?[b]"),
    ("a#b&c=d", "a#b&c=d"),
    ("a%20b", "a%20b"),
    ("CON", "CON"),
    ("x.", "x."),
    (".hid", ".hid"),
    ("~", "~"),
    ("$HOME", "$HOME"),
    ("e\u0301", "e\u0301"),
    ("海面水温", "海面水温"),
    ("🌊", "🌊"),
    ("T", "T"),
    ("t", "t"),
]


@pytest.mark.parametrize(("name", "node"), HOSTILE, ids=[n[:12] for n, _ in HOSTILE])
def test_node_name(name: str, node: str | None) -> None:
    escaped = escape_name(name)
    assert node is None or escaped == node
    assert len(escaped.encode()) <= 255
    assert unescape_name(escaped) in (name, None if len(name.encode()) > 255 else name)


# The rules of the Zarr specification and of stores, written down a second time.
LEGAL = re.compile(
    r"(?!__)(?!\.+\Z)(?!(zarr\.json|\.zarray|\.zgroup|\.zattrs|\.zmetadata|\.nczarr|\.nczgroup|\.nczvar|\.nczattr)\Z)"
    r"[^/\\\x00-\x1f\x7f]+(?<! )\Z"
)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_any_name_gets_a_legal_node_name_and_comes_back(name: str) -> None:
    for windows in (False, True):
        node = escape_name(name, windows=windows)
        assert LEGAL.match(node)
        back = unescape_name(node)
        assert back == name or (back is None and len(node.encode()) > 180)
    node = escape_name(name, ascii_only=True)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", node)
    assert len(node) <= 255


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), unique=True))
def test_escaping_never_collides(names: list[str]) -> None:
    assert len({escape_name(n) for n in names}) == len(names)
    children = [(kind, n) for n in names for kind in ("array", "group")]
    for insensitive in (False, True):
        nodes = NodeNames(case_insensitive=insensitive).assign(children)
        keys = {n.casefold() if insensitive else n for n in nodes.values()}
        assert len(keys) == len(children)


@pytest.mark.parametrize("name", ["CON", "con.txt", "NUL", "a:b", "x.", "a?b", "COM1", 'a"b'])
def test_windows_names(name: str) -> None:
    node = escape_name(name, windows=True)
    assert node != name
    assert unescape_name(node) == name
    assert not re.search(r'[<>:"|?*]|\.\Z', node)


def hostile_dataset() -> Dataset:
    names = [n for n, _ in HOSTILE if check_name(n) is None]
    return Dataset(
        "d",
        types=tuple(OpaqueType("/" + re.sub(r"([/\\ ])", r"\\\1", n), 2) for n in names),
        dimensions=tuple(Dimension(n, 2) for n in names),
        attributes=tuple(Attribute.of(n, n) for n in names),
        variables=tuple(
            Variable(
                n,
                INT,
                ("/" + re.sub(r"([/\\ ])", r"\\\1", n),),
                attributes=(Attribute.of(n, i),),
                data=MemorySource(np.array([i, -i], "i4")),
            )
            for i, n in enumerate(names)
        ),
        # Zarr has one name space for arrays and groups; the model has two.
        groups=tuple(
            Group(n, variables=(Variable("v", INT, (), data=MemorySource(np.array(i, "i4"))),))
            for i, n in enumerate(names)
        ),
    )


@pytest.mark.parametrize("insensitive", [False, True])
@pytest.mark.parametrize("kind", ["memory", "local", "zip", "mapping"])
def test_hostile_names_come_back_on_every_store(kind: str, insensitive: bool, tmp_path: Path) -> None:
    target = {
        "memory": MemoryStore(),
        "local": tmp_path / "d.zarr",
        "zip": tmp_path / "d.zip",
        "mapping": {},
    }[kind]
    dataset = hostile_dataset()
    tools.copy(dataset, target, WriteOptions(case_insensitive=insensitive))
    assert tools.differences(dataset, target) == []


@pytest.mark.parametrize("layout", ["nczarr-v3", "draft-2019"])
@pytest.mark.parametrize("kind", ["memory", "local", "zip", "fsspec"])
def test_hostile_names_come_back_in_every_layout_that_holds_them(
    kind: str, layout: str, tmp_path: Path
) -> None:
    target = {
        "memory": MemoryStore(),
        "local": tmp_path / "d.zarr",
        "zip": tmp_path / "d.zip",
        "fsspec": f"memory://hostile/{tmp_path.name}.zarr",
    }[kind]
    dataset = hostile_dataset()
    tools.copy(dataset, target, WriteOptions(layout=layout))
    assert tools.differences(dataset, target) == []


@pytest.mark.s3
def test_hostile_names_come_back_on_s3(s3_server: dict[str, str]) -> None:
    dataset = hostile_dataset()
    for layout in ("nczarr-v3", "draft-2019"):
        tools.copy(dataset, f"s3://test/hostile/{layout}.zarr", WriteOptions(layout=layout))
        assert tools.differences(dataset, f"s3://test/hostile/{layout}.zarr") == []


@pytest.mark.parametrize("layout", ["zarr-v3", "zarr-v2"])
def test_plain_zarr_keeps_hostile_names_but_those_that_are_too_long(layout: str, tmp_path: Path) -> None:
    dataset = hostile_dataset()
    tools.copy(dataset, tmp_path / "d.zarr", WriteOptions(layout=layout))
    with open_dataset(tmp_path / "d.zarr") as stored:
        found = {v.name: v for v in stored.dataset.variables}
        for variable in dataset.variables:
            if len(variable.name.encode()) <= 255:
                data = stored.data(join_fqn("/", variable.name)).read_orthogonal(...)
                assert data.tolist() == variable.data.array.tolist()
                assert found[variable.name].attribute[variable.name].values.tolist() == [
                    variable.attributes[0].values[0]
                ]


#: Names that netcdf-c's Zarr takes; all others of the table are refused.
IN_NETCDF_C = {
    "x" * 255, "a b", "c", "0", "a:b", "a*?[b]", "a#b&c=d", "a%20b", "CON", "x.", "海面水温", "🌊", "T", "t"
}  # fmt: skip

NETCDF_C = """
import sys, netCDF4
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file") as dataset:
    group = dataset.groups[sys.argv[2]]
    assert list(group.variables) == [sys.argv[2]], list(group.variables)
    variable = group.variables[sys.argv[2]]
    assert variable.dimensions == (sys.argv[2],), variable.dimensions
    assert variable[...].tolist() == [1, 2]
    assert variable.getncattr(sys.argv[2]) == 7
"""


@pytest.mark.parametrize("name", [n for n, _ in HOSTILE if check_name(n) is None], ids=lambda n: n[:12])
def test_nczarr_v2_holds_a_name_as_netcdf_c_does_or_refuses_it(name: str, tmp_path: Path) -> None:
    attributes = (Attribute.of(name, 7, INT),)
    values = MemorySource(np.array([1, 2], "i4"))

    def body(fqn: str) -> dict[str, Any]:
        variable = Variable(name, INT, (join_fqn(fqn, name),), attributes=attributes, data=values)
        return {"dimensions": (Dimension(name, 2),), "variables": (variable,)}

    only_group = Dataset("d", groups=(Group(name, **body(join_fqn("/", name))),))
    only_variable = Dataset("d", **body("/"))
    out = tmp_path / "d.zarr"
    options = WriteOptions(layout="nczarr-v2")
    for dataset in (only_group, only_variable):
        if name not in IN_NETCDF_C:
            with pytest.raises(LossError, match=r"the name .* of a (group|variable|dimension)") as caught:
                tools.copy(dataset, out, options)
            assert name in str(caught.value) or repr(name) in str(caught.value)
            assert not out.exists()
            continue
        tools.copy(dataset, out, options, overwrite=True)
        assert tools.differences(dataset, out, storage=False) == []
    if name not in IN_NETCDF_C:
        # A lossy copy says what it changed, and is read by netcdf-c too.
        with create_dataset(out, only_variable, WriteOptions(layout="nczarr-v2", lossy=True)) as sink:
            assert sink.losses
            sink.write(join_fqn("/", name), (slice(0, 2),), np.array([1, 2], "i4"))
        reading = "import sys, netCDF4; d = netCDF4.Dataset('file://' + sys.argv[1] + '#mode=nczarr,file'); "
        reading += "assert [v[...].tolist() for v in d.variables.values()] == [[1, 2]]"
    else:
        out = tmp_path / "group.zarr"
        tools.copy(only_group, out, options)
        reading = NETCDF_C
    pytest.importorskip("netCDF4")
    # In a process of its own: on some names netcdf-c crashes.
    done = subprocess.run(
        [sys.executable, "-c", reading, str(out), name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_names_on_a_store_that_ignores_case_differ_in_more_than_case(tmp_path: Path) -> None:
    tools.copy(hostile_dataset(), tmp_path / "d.zarr", WriteOptions(case_insensitive=True))
    for folder in [tmp_path, *[p for p in tmp_path.rglob("*") if p.is_dir()]]:
        entries = [p.name.casefold() for p in folder.iterdir()]
        assert len(set(entries)) == len(entries)


def test_a_name_that_is_no_text_is_refused() -> None:
    for dataset in (
        Dataset("d", variables=(Variable("a\udcff", INT),)),
        Dataset("d", dimensions=(Dimension("a\udcff", 1),)),
        Dataset("d", attributes=(Attribute.of("a\udcff", 1),)),
        Dataset("d", types=(OpaqueType("/a\udcff", 1),)),
    ):
        store = MemoryStore()
        with pytest.raises(NCZarrError, match="Unicode text"):
            create_dataset(store, dataset)
        assert list(store.list()) == []
    with pytest.raises(ModelError):
        create_dataset(MemoryStore(), Dataset("d", variables=(Variable("a\tb", INT),)))


def test_names_that_clash_can_be_added_later(tmp_path: Path) -> None:
    from dataclasses import replace

    options = WriteOptions(case_insensitive=True)
    with create_dataset(
        tmp_path / "d.zarr", Dataset("d", variables=(Variable("T", INT),)), options
    ) as stored:
        stored.write("/T", (), np.array(7, "i4"))
        first = stored.data("/T").path
        new = replace(stored.dataset, variables=(Variable("t", INT), *stored.dataset.variables))
        stored.update(new)
        assert stored.data("/T").path == first
    with open_dataset(tmp_path / "d.zarr") as stored:
        assert [v.name for v in stored.dataset.variables] == ["t", "T"]
        assert stored.data("/T").read(()) == 7

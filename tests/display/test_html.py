"""Test the HTML of notebooks: well-formed, foldable without a script, escaped, bounded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczarr
from nczarr import cdl
from nczarr.convert import open_source
from nczarr.display import (
    ArrayDescription,
    AttributeDescription,
    DimensionDescription,
    GroupDescription,
    TypeDescription,
    format_value,
    show_array,
    show_attribute,
    show_group,
    show_type,
    visible,
)
from nczarr.display.html import MOST_IN_ALL, draw_chunks
from nczarr.model import Attribute, Dataset, Dimension, Group, Variable
from nczarr.model import types as t
from nczarr.stores import MemoryStore, open_store
from nczarr.zarr import open_hierarchy

DATA = Path(__file__).parents[1] / "data"

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</svg><script>",
    "&lt;b&gt;",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnp.exe",
    "a\u2066b\u2069c\u200f",
    "\ud800half\udc80",
    "\x00\x85\u2028\u2029\ufeff",
]


class Page(HTMLParser):
    """The elements, attributes and text of a fragment as a browser takes them; fails where tags do not match."""

    EMPTY = frozenset(("img", "br", "rect", "path", "input", "meta", "link"))

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self._open, tag
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data


ALLOWED = {
    *("div", "span", "bdi", "style", "details", "summary", "table", "tr", "th", "td", "ul", "li"),
    *("svg", "rect", "path"),
}


def check(html: str) -> Page:
    """A fragment that does nothing but be seen."""
    page = Page(html)
    assert set(page.tags) <= ALLOWED
    assert not any(name.startswith("on") or name in ("src", "href", "srcdoc") for name in page.names)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", html
    )
    html.encode("utf-8")
    assert "url(" not in html
    assert "@import" not in html
    return page


def everything(text: str) -> GroupDescription:
    """A description with a text at every place where text can be."""
    axis = DimensionDescription(text, 4, unlimited=True)
    attributes = (AttributeDescription(text, text, text), AttributeDescription("long_name", [text, text]))
    array = ArrayDescription(
        text, text, (axis,), text, attributes, (2,), (1,), (text,), 32, 8, ((text, text),)
    )
    type_ = TypeDescription(text, text, (text,))
    inner = GroupDescription(text, text, (axis,), (type_,), (array,), attributes, (), ((text, text),), text)
    return GroupDescription(
        text, text, (axis,), (type_,), (array,), attributes, (inner,), ((text, text),), text
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_seen_and_does_nothing(text: str) -> None:
    description = everything(text)
    page = check(show_group(description))
    assert visible(text)[:20].split("\\")[0] in page.text
    check(show_array(description.arrays[0]))
    check(show_attribute(description.attributes[0]))
    check(show_type(description.types[0]))


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_any_text_is_harmless(text: str) -> None:
    check(show_group(everything(text)))


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_visible_text_has_no_characters_that_act(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert all(c.isprintable() or c in "\u200c\u200d" or c.isspace() for c in shown)
    assert not set(shown) & set("\n\r\t\x1b\u202e\u2066")


def test_long_text_is_bounded() -> None:
    long = "x" * 100_000
    html = show_group(everything(long))
    check(html)
    assert len(html) < 100_000
    assert "99,000 more characters" in html


def test_many_nodes_are_bounded_and_counted() -> None:
    variables = tuple(Variable(f"v{i}", t.FLOAT) for i in range(100_000))
    groups = tuple(Group(f"g{i}", variables=variables[:300]) for i in range(300))
    html = Dataset("d", variables=variables, groups=groups)._repr_html_()
    page = check(html)
    assert page.tags.count("details") <= MOST_IN_ALL + 1000
    assert "99,800 more" in page.text
    assert "100,000" in page.text


def test_deep_groups_are_bounded() -> None:
    group = Group("innermost")
    for i in range(150):
        group = Group(f"g{i}", groups=(group,))
    page = check(Dataset("d", groups=(group,))._repr_html_())
    assert "deeper inside" in page.text


@pytest.mark.parametrize("name", ["example", "user_types", "groups", "names", "primitives", "nested"])
def test_datasets_show_every_name(name: str) -> None:
    with open_source(DATA / f"{name}.nc") as dataset:
        page = check(dataset._repr_html_())
        for variable in dataset.all_variables.values():
            assert visible(variable.name) in page.text
            check(variable._repr_html_())
            check(variable.type._repr_html_())
            for attribute in variable.attributes:
                assert visible(attribute.name) in check(attribute._repr_html_()).text
        for dimension in dataset.all_dimensions.values():
            shown = check(dimension._repr_html_()).text
            assert f"{dimension.size:,}" in shown
            assert ("∞" in shown) == dimension.unlimited
        for type_ in dataset.all_types.values():
            assert type_.name in page.text


def test_enum_attributes_show_names_of_values() -> None:
    dataset = cdl.load(DATA / "user_types.cdl")
    assert "cumulus" in check(dataset.attribute["cloud_of_the_day"]._repr_html_()).text
    assert "stratus = 2" in check(dataset.all_types["/cloud_t"]._repr_html_()).text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (np.float32(0.1), "0.1"),
        (np.array([]), "(empty)"),
        ([1, [2, 3]], "1, [2, 3]"),
        ({"a": None}, '{"a": null}'),
        (None, "null"),
        (np.array(["a", "b"], object), '"a", "b"'),
        (np.void(b"\x01\xff"), "0x01ff"),
        (b"\xff", "\\xff"),
    ],
)
def test_values(value: object, shown: str) -> None:
    assert format_value(value) == shown


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**12)), max_size=5),
)
def test_figures_of_chunks_are_small_and_well_formed(axes: list[tuple[int, int]]) -> None:
    shape, chunks = tuple(a for a, _ in axes), tuple(c for _, c in axes)
    figure = draw_chunks(shape, chunks, chunks)
    assert len(figure) < 8000
    if figure:
        ElementTree.fromstring(figure)
    assert bool(figure) == (bool(shape) and 0 not in shape)


def test_arrays_of_the_engine_show_how_they_are_stored(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    nczarr.copy(DATA / "example.nc", target)
    with open_store(str(target)) as store:
        hierarchy = open_hierarchy(store)
        page = check(hierarchy._repr_html_())
        assert "temp" in page.text
        array = hierarchy.array("ocean/temp")
        text = check(array._repr_html_()).text
        assert "times smaller" in text
        assert f"of {array.nchunks}" in text
        files = [f for f in (target / "ocean" / "temp").rglob("*") if f.is_file() and f.name != "zarr.json"]
        assert f"{len(files)} of {array.nchunks}" in text
        check(array.metadata._repr_html_())
        check(hierarchy.nodes["ocean"]._repr_html_())


def test_a_damaged_document_does_not_hide_the_others() -> None:
    store = MemoryStore()
    store.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    store.set("v/zarr.json", b'{"zarr_format": 3, "node_type": "array", "shape": "no"}')
    text = check(open_hierarchy(store)._repr_html_()).text
    assert "damaged" in text


def test_attribute_of_no_values() -> None:
    assert "(empty)" in check(Attribute("none", t.INT, np.array([], "i4"))._repr_html_()).text
    assert "x" in check(Dimension("x", 0, unlimited=True)._repr_html_()).text

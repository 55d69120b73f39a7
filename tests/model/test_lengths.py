"""Test the owner of lengths: the model of a stored dataset, and the accepted and stored lengths of its dimensions."""

from __future__ import annotations

from nczarr.model import INT, Dataset, Dimension, Group, Variable
from nczarr.model.lengths import StoredModel, accept, shape_of


def stored() -> StoredModel:
    return StoredModel(
        Dataset(
            "d",
            dimensions=(Dimension("t", 4, True), Dimension("x", 3)),
            variables=(Variable("v", INT, ("/t", "/x")), Variable("w", INT, ("/x", 2))),
            groups=(Group("g", variables=(Variable("u", INT, ("/t",)),)),),
        )
    )


def test_what_is_accepted_is_not_stored_before_it_is_noted() -> None:
    model = stored()
    v, u = model.extents("/v"), model.extents("/g/u")
    accept(v, (6, 3))
    accept(u, (5,))
    assert (shape_of(v), shape_of(u), shape_of(model.extents("/w"))) == ((6, 3), (6,), (3, 2))
    assert (model.length("/t"), model.dataset.dimension_at("/t").size) == (4, 4)
    model.note({"/t": 5})
    assert (model.length("/t"), model.dataset.dimension_at("/t").size, shape_of(u)) == (5, 5, (6,))
    model.note({"/t": 7})
    assert (model.length("/t"), model.dataset.dimension_at("/t").size, shape_of(v)) == (7, 7, (7, 3))


def test_another_model_replaces_the_lengths_and_the_variables() -> None:
    model = stored()
    v = model.extents("/v")
    assert model.along(["/t"]) == ["/v", "/g/u"]
    accept(v, (9, 3))
    model.replace(
        Dataset("d", dimensions=(Dimension("t", 5, True),), variables=(Variable("n", INT, ("/t",)),))
    )
    assert (model.length("/t"), shape_of(v), shape_of(model.extents("/n"))) == (5, (5, 3), (5,))
    assert model.along(["/t"]) == ["/n"]

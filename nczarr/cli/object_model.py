"""Run ``nczarr zom`` and ``nczarr validate``, which process Zarr Object Models (ZEP 6)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nczarr.cli.options import define, open_documents, option, storage_options
from nczarr.cli.terminal import say
from nczarr.display import shown_location
from nczarr.errors import DatasetExistsError, DatasetNotFoundError, MetadataError, error_context
from nczarr.model.typed import plain_path

if TYPE_CHECKING:
    from nczarr.zarr.zom import ZomNode

_SOURCE = "a Zarr hierarchy (path or URL), or a file NAME.json with a model"


def define_zom(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr zom``."""
    option(parser, "source", _SOURCE)
    option(parser, "--path", "process only this group or array", "PATH", default="")
    option(parser, "--to-v3", "convert a model of version 2 to version 3")
    option(parser, "--canonical", "expand short-hand names and defaults")
    option(parser, "--flatten", "print the nodes by path, not as a tree")
    action = parser.add_mutually_exclusive_group()
    text = "compare with a pattern: a model with only the required parts; '*' matches any value or name"
    option(action, "--match", text, "PATTERN.json")
    option(action, "--compare", "compare with the model of another hierarchy or file", "OTHER")
    option(action, "--create", "create a Zarr hierarchy from the model", "TARGET")
    define(
        parser,
        run_zom,
        """\
  nczarr zom run42.zarr > model.json
  nczarr zom --to-v3 old.zarr                   convert the model to version 3
  nczarr zom --flatten run42.zarr               one document per path, like consolidated metadata
  nczarr zom --match pattern.json run42.zarr    exit status 1 and a line for each mismatch
  nczarr zom --compare other.zarr run42.zarr
  nczarr zom --create new.zarr model.json       a new hierarchy of this structure, without data
""",
        lambda options: "text" if options.match or options.compare else "json",
    )


def define_validate(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr validate``."""
    option(parser, "source", _SOURCE, nargs="+")
    option(parser, "--json", "print a JSON object: problems by source")
    examples = "  nczarr validate run42.zarr\n  nczarr validate model.json other.zarr\n"
    define(parser, run_validate, examples, "text")


def run_zom(options: argparse.Namespace) -> int:
    """Run ``nczarr zom``."""
    from nczarr.zarr import zom

    where = storage_options(options)
    model = _model(options.source, where, options.path)
    if options.to_v3:
        model = zom.zom_to_v3(model)
    if options.canonical:
        model = zom.canonical_zom(model)
    if options.match is not None:
        return _say_all(zom.match_zom(model, _read_json(options.match)))
    if options.compare is not None:
        other = _model(options.compare, where)
        return _say_all(list(zom.zom_differences(model, zom.zom_to_v3(other) if options.to_v3 else other)))
    if options.create is not None:
        _create(options.create, model, where)
        return 0
    print(json.dumps(_plain(zom.flatten(model) if options.flatten else model.to_json()), indent=2))
    return 0


def run_validate(options: argparse.Namespace) -> int:
    """Run ``nczarr validate``."""
    from nczarr.zarr.zom import schema_problems

    found = {}
    for source in options.source:
        # Validate the unparsed JSON of a file: the model parsed from it would always be valid.
        value = (
            _read_json(source)
            if _is_file(source)
            else _plain(_model(source, storage_options(options)).to_json())
        )
        found[shown_location(source)] = schema_problems(value)
    if options.json:
        print(json.dumps(found))
    else:
        say(*(f"{source}: {problem}" for source, problems in found.items() for problem in problems))
    return int(any(found.values()))


def _say_all(sentences: list[str]) -> int:
    say(*sentences)
    return int(bool(sentences))


def _is_file(source: str) -> bool:
    return source.endswith(".json") and not Path(source).is_dir()


def _model(source: str, options: Mapping[str, Any] | None, path: str = "") -> ZomNode:
    from nczarr.zarr.zom import flatten, from_hierarchy, parse_zom, unflatten

    path = plain_path(path).strip("/")
    if not _is_file(source):
        with open_documents(source, "r", options) as hierarchy:
            return from_hierarchy(hierarchy, path)
    with error_context(source):
        model = parse_zom(_read_json(source))
        if not path:
            return model
        inside = {
            at[len(path) :].lstrip("/"): d
            for at, d in flatten(model).items()
            if (at + "/").startswith(path + "/")
        }
        if not inside:
            raise MetadataError(f"the model has no node {path!r}")
        return unflatten(inside)


def _read_json(name: str) -> Any:
    from nczarr.zarr.documents.json import parse_json

    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise DatasetNotFoundError(f"the file cannot be read: {error.strerror}", path=name) from None
    return parse_json(data, name)


def _plain(value: Any) -> Any:
    from nczarr.zarr.documents.json import dump_json

    # dump_json converts the bare NaN of old documents to strings, because JSON has no NaN.
    return json.loads(dump_json(value))


def _create(target: str, model: ZomNode, options: Mapping[str, Any] | None) -> None:
    from nczarr.stores import open_store
    from nczarr.zarr.zom import to_hierarchy

    with open_store(target, "w", options) as store:
        # The nodes of both would be one hierarchy.
        if any(store.list_dir()):
            raise DatasetExistsError("the target is not empty", path=target, hint="choose another target")
        # Without the order, a loss of power may leave a root without its nodes.
        store.keep_order()
        to_hierarchy(store, model)
        store.settle()

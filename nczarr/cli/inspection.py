"""Run the commands that print a dataset: ``nczarr dump``, ``info``, ``tree``, ``ls``, ``sources`` and ``du``."""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TextIO

from nczarr.cli import options as shared
from nczarr.cli.options import HIERARCHY, SOURCE, define, option, storage_options
from nczarr.cli.terminal import can_draw, described, folded_table, progress_bar, say, table
from nczarr.convert import Progress, open_source
from nczarr.convert.endpoints import provenance, read_whole, watch_reading
from nczarr.display import format_bytes, shown_location, visible
from nczarr.errors import NCZarrError, UnsupportedError, error_context
from nczarr.formats import kind_of_source, local_path
from nczarr.mapping import Finding
from nczarr.model import Dataset, Group, Variable, describe_type, join_fqn, split_fqn
from nczarr.model.typed import list_names, typed
from nczarr.system.atomic import text_output
from nczarr.transfer import NoProgress

if TYPE_CHECKING:
    from nczarr.convert.report import StoredObjects, VariableStorage

#: Options that have the name and the meaning of a field of :class:`nczarr.cdl.DumpOptions`.
_DUMPED = (
    "coordinates", "brief", "full", "line_length", "name", "times", "iso_times", "kind", "special", "filters", "ncml",
    "ncdump",
)  # fmt: skip


def define_dump(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr dump``: the flags of ncdump, and those of nczarr."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "-o --output", "write to a file instead of standard output", "FILE")
    option(parser, "-h --header", "header only, no data")
    option(parser, "-c --coordinates", "header, and data of coordinate variables")
    option(parser, "-v --variables", "data of these variables only", "A,B")
    option(parser, "-g --groups", "data of these groups only", "A,B")
    shared.add_dimension_option(parser)
    option(parser, "-b --brief", "add comments with the indices of each row", choices=["c", "f"])
    option(parser, "-f --full", "add comments with the indices of each value", choices=["c", "f"])
    option(parser, "-l --line-length", "maximum length of a data line", "N", type=int, default=80)
    option(parser, "-n --name", "name of the dataset in the first line", action="store")
    option(parser, "-p --precision", "significant digits of floats and doubles", "F[,D]")
    option(parser, "-t --times", "print times as dates")
    option(parser, "-i --iso-times", "print times as ISO 8601 dates with a T")
    option(parser, "-k --kind", "print the kind of the dataset only")
    option(parser, "-s --special", "also print special virtual attributes (_Storage, …)")
    option(parser, "-F --filters", "with -s: print all filters as one _Filter attribute")
    option(parser, "-x --ncml", "print the header as NcML instead of CDL")
    option(parser, "-w --whole", "for URLs: fetch each variable in one request")
    option(parser, "-X --suppress", "-Xp: with -s, omit _NCProperties", "p", choices=["p"])
    text = "log messages of libraries to standard error: 0 errors, 1 warnings, 2 information, 3 every request"
    option(parser, "-L --log-level", text, "N", type=int)
    option(parser, "--ncdump", "print exactly the output of ncdump, byte for byte")
    shared.add_progress_options(parser)
    define(
        parser,
        run_dump,
        "  nczarr dump run42.zarr\n  nczarr dump -h s3://bucket/run42.zarr\n"
        "  nczarr dump -v time -i -o time.cdl run42.nc\n  nczarr dump -v temp -d time=2020-03 run42.zarr\n",
        lambda options: "xml" if options.ncml else "cdl",
    )


def _digits(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise NCZarrError(f"-p {text!r} is not F or F,D", hint="give one or two numbers of digits: -p 9,17")
    return numbers[0], numbers[1] if len(numbers) == 2 else None


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that replaces `path` when it is complete."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # surrogateescape writes bytes that are not UTF-8 unchanged.
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
        yield sys.stdout
        sys.stdout.flush()
        return
    with text_output(path) as file:
        yield file


def run_dump(options: argparse.Namespace) -> None:
    """Run ``nczarr dump``."""
    # XML has one root element, and one name cannot be that of each dataset.
    if len(options.source) > 1 and (options.ncml or options.name is not None):
        flag = "-x" if options.ncml else "-n"
        raise NCZarrError(f"{flag} works with one dataset only, not with {len(options.source)}")
    if (level := options.log_level) is not None:
        # A negative index counts from the end of the levels: -1 would log every request.
        if level < 0:
            raise NCZarrError(f"-L {level}: the level must not be negative", hint="give a level from 0 to 3")
        import logging

        levels = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
        # Without force, basicConfig does nothing where a library has set a handler.
        logging.basicConfig(level=levels[min(level, 3)], format="nczarr: %(name)s: %(message)s", force=True)
    # Show the progress bar only if the output goes to a file.
    bar = progress_bar("none" if options.output is None else options.progress)
    with _output(options.output) as out:
        for number, source in enumerate(options.source):
            if number:
                out.write("\n")
            _dump(source, out, options, bar)


def _dump(source: str, out: TextIO, options: argparse.Namespace, bar: Progress) -> None:
    from nczarr import cdl

    floats, doubles = _digits(options.precision)
    hidden = provenance(source) if options.special else ()
    if options.suppress and not options.ncdump:  # ncdump accepts the flag, but prints _NCProperties anyway
        hidden = tuple(a for a in hidden if a.name != "_NCProperties")
    given = {name: getattr(options, name) for name in _DUMPED}
    with open_source(source, storage_options=storage_options(options)) as dataset, error_context(source):
        if given["name"] is None:
            # A signature in the query of a URL is a secret, and no part of a name.
            place = source.partition("?")[0] if "://" in source else source
            given["name"] = PurePosixPath(place.rstrip("/").partition("#")[0]).stem or dataset.name
        chosen = cdl.DumpOptions(
            **given,
            header_only=options.header,
            variables=list_names(options.variables or ""),
            groups=list_names(options.groups or ""),
            float_digits=floats,
            double_digits=doubles,
            hidden=hidden,
            location=shown_location(source),
        )
        if options.dimension:
            from nczarr.convert.change.selecting import select

            dataset = select(dataset, shared.selection_of(options.dimension))
        if options.whole and local_path(source) is None:
            dataset = read_whole(dataset)
        if isinstance(bar, NoProgress):
            cdl.dump(dataset, out, chosen)
            return
        with watch_reading(dataset, cdl.dumped_variables(dataset, chosen), bar) as watched:
            cdl.dump(watched, out, chosen)


def define_info(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr info``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "--stats", "read all values, and print minimum, maximum and missing values")
    option(parser, "--json", "print JSON")
    define(
        parser,
        run_info,
        "  nczarr info run42.zarr\n  nczarr info --stats run42.nc       with minimum and maximum values\n"
        "  nczarr info --json s3://bucket/run42.zarr\n",
        "table",
    )


def define_tree(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr tree``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "--json", "print JSON")
    define(parser, run_tree, "  nczarr tree run42.zarr\n  nczarr tree --json run42.nc\n", "tree")


def define_ls(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr ls``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "-l --long", "also print types and shapes")
    option(parser, "--json", "print a JSON list")
    examples = "  nczarr ls run42.zarr\n  nczarr ls -l run42.zarr            with types and shapes\n"
    define(parser, run_ls, examples, "names")


def define_sources(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr sources``."""
    option(parser, "source", HIERARCHY)
    option(parser, "--json", "print a JSON list")
    examples = "  nczarr join 'daily/*.nc' all.zarr --record-sources && nczarr sources all.zarr\n"
    define(parser, run_sources, examples)


def run_sources(options: argparse.Namespace) -> None:
    """Run ``nczarr sources``."""
    with open_source(options.source, storage_options=storage_options(options)) as dataset:
        found = dataset.sources
    if options.json:
        print(json.dumps([asdict(source) for source in found]))
        return
    if not found:
        raise UnsupportedError(
            "the dataset has no record of its sources",
            path=options.source,
            hint="nczarr join --record-sources makes one",
        )
    for source in found:
        steps = "" if source.steps is None else f"  steps {source.steps[0]}:{source.steps[1]}"
        size = "" if source.size is None else f"  {source.size} bytes"
        say(f"{source.name}{steps}{size}{f'  sha256 {source.sha256}' if source.sha256 else ''}")


def define_du(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr du``."""
    option(parser, "source", HIERARCHY, nargs="+")
    option(parser, "-s --summary", "print the total of each hierarchy only")
    option(parser, "--json", "print one JSON object for each hierarchy")
    define(parser, run_du, "  nczarr du run42.zarr\n  nczarr du -s s3://bucket/run42.zarr\n", "text")


def run_du(options: argparse.Namespace) -> None:
    """Run ``nczarr du``."""
    from nczarr.mapping.dataset.maintenance import stored_objects

    for source in options.source:
        found = stored_objects(source, storage_options(options))
        place = shown_location(source)
        total = (sum(item.size for item in found), sum(item.objects for item in found))
        if options.json:
            arrays = [{"path": item.path, "bytes": item.size, "objects": item.objects} for item in found]
            print(json.dumps({"source": place, "bytes": total[0], "objects": total[1], "arrays": arrays}))
            continue
        rows = [] if options.summary else [(item.size, item.objects, item.path) for item in found]
        rows.append((*total, place))
        cells = [[format_bytes(size), f"{objects:,}", path] for size, objects, path in rows]
        say(*table(["size", "objects", "path"], cells, right=[0, 1]))


def run_info(options: argparse.Namespace) -> None:
    """Run ``nczarr info``."""
    from nczarr.convert.report import variable_storage

    listed = []
    for number, source in enumerate(options.source):
        with _opened_with_layout(source, options) as (dataset, layout, group, stored, findings):
            near = local_path(source) is not None
            variables = list(variable_storage(dataset, stats=options.stats, near=near))
        dimensions = dataset.all_dimensions
        facts: dict[str, Any] = {
            # A URL may have a signature, which is a secret, and the output goes into logs.
            "path": shown_location(source),
            "kind": kind_of_source(source),
            "layout": layout,
            "origin": dataset.format,
            "groups": len(dataset.all_groups) - 1,
            "dimensions": len(dimensions),
            "unlimited": sum(d.unlimited for d in dimensions.values()),
            "types": len(dataset.all_types),
            "value_bytes": sum(
                math.prod(dataset.shape_of(v)) * v.type.dtype.itemsize
                for v in dataset.all_variables.values()
                # The dtype of a text has the size of a pointer.
                if v.type.is_fixed_size
            ),
            **({} if group is None else {"group": group}),
            "stored_bytes": None if stored is None else stored.bytes,
            **({} if stored is None else stored.to_json()),
            **({"findings": [finding.to_json() for finding in findings]} if findings else {}),
            "variables": [v.to_json() for v in variables],
        }
        listed.append(facts)
        if not options.json:
            say(*([""] if number else []), *_summary(facts, stored, findings, variables))
    if options.json:
        print(json.dumps(listed if len(listed) > 1 else listed[0]))


def _summary(
    facts: Mapping[str, Any],
    stored: StoredObjects | None,
    findings: Sequence[Finding],
    variables: Sequence[VariableStorage],
) -> Iterator[str]:
    """Yield the lines of ``nczarr info``."""
    lines = {name: facts[name] for name in ("path", "layout")}
    if (group := facts.get("group")) is not None:
        whole = group["dataset"] or "a dataset that is not above it"
        lines["group"] = f"{group['fqn'] or 'unknown FQN'}, of {whole}"
    if facts["origin"]:
        lines["origin"] = facts["origin"]
    lines["groups"] = facts["groups"]
    lines["dimensions"] = f"{facts['dimensions']} ({facts['unlimited']} unlimited)"
    lines["types"] = facts["types"]
    lines["variables"] = len(variables)
    lines["values"] = format_bytes(facts["value_bytes"])
    if stored is not None:
        objects = str(stored)
        lines["stored"] = f"{format_bytes(stored.bytes)}{objects and f' ({objects})'}"
        if stored.hint:
            lines["hint"] = stored.hint
    for name, text in [*lines.items(), *(("finding", finding) for finding in findings)]:
        yield from described(name, str(text))
    if variables:
        yield ""
        yield from _variable_table(variables)


def run_tree(options: argparse.Namespace) -> None:
    """Run ``nczarr tree``."""
    listed = []
    for dataset in _opened(options):
        if options.json:
            listed.append(tree_json(dataset))
        else:
            say(*draw_tree(dataset, lines=can_draw()))
    if options.json:
        print(json.dumps(listed if len(listed) > 1 else listed[0]))


def run_ls(options: argparse.Namespace) -> None:
    """Run ``nczarr ls``."""
    listed: list[dict[str, object]] = []
    for source, dataset in zip(options.source, _opened(options), strict=False):
        if options.json:
            listed += nodes_json(shown_location(source), dataset)
        else:
            say(*list_nodes(dataset, long=options.long))
    if options.json:
        print(json.dumps(listed))


def _opened(options: argparse.Namespace) -> Iterator[Dataset]:
    """Open the sources one after the other; print a heading for each of several."""
    for source in options.source:
        with open_source(source, storage_options=storage_options(options)) as dataset:
            if len(options.source) > 1 and not options.json:
                say(f"{shown_location(source)}:")
            yield dataset


@contextmanager
def _opened_with_layout(
    source: str, options: argparse.Namespace
) -> Iterator[tuple[Dataset, str, Mapping[str, str | None] | None, StoredObjects | None, Sequence[Finding]]]:
    """Yield a dataset, its layout, the group that is opened alone, the stored objects, and the findings."""
    from nczarr.convert.report import stored_objects

    where = storage_options(options)
    if (kind := kind_of_source(source)) != "zarr":
        with open_source(source, storage_options=where) as dataset:
            yield dataset, dataset.format or kind, None, stored_objects(source), ()
        return
    from nczarr import mapping

    with mapping.open_dataset(source, storage_options=where) as stored:
        part = stored.reading.part
        group = None if part is None else {"fqn": part.fqn or None, "dataset": part.whole}
        # A group that is opened alone has the objects below it, not those of its whole dataset.
        root = getattr(stored.store, "root", None) if part is None else source
        objects = None if root is None else stored_objects(root)
        yield stored.dataset, stored.layout, group, objects, stored.findings


def _variable_table(variables: Sequence[VariableStorage]) -> list[str]:
    head = ["variable", "type", "shape", "chunks", "shards", "codecs", "stored", "ratio", "chunks stored"]
    stats = any(v.missing is not None for v in variables)
    head += [*(["least", "greatest", "missing"] if stats else []), "values"]
    rows = []
    for v in variables:
        row = [typed(v.fqn), v.type.split(" {")[0], *map(_sizes, (v.shape, v.chunks, v.shards))]
        row.append(" ".join(c for c in v.codecs if c != "bytes"))
        row.append("" if v.stored_bytes is None else format_bytes(v.stored_bytes))
        row.append("" if v.ratio is None else f"{v.ratio:.1f}")
        row.append("" if v.objects_stored is None else f"{v.objects_stored} of {v.objects}")
        if stats:
            row += ["" if limit is None else f"{limit:.6g}" for limit in (v.minimum, v.maximum)]
            row.append("" if v.missing is None else str(v.missing))
        rows.append([*row, v.values])
    used = [i for i in range(len(head)) if i < 3 or any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return folded_table(
        [head[i] for i in used], shown, right=[k for k, i in enumerate(used) if 6 <= i < len(head) - 1]
    )


def _sizes(shape: Sequence[int] | None) -> str:
    return "x".join(map(str, shape)) if shape else ""


def list_nodes(dataset: Dataset, *, long: bool = False) -> Iterator[str]:
    """Yield the lines of ``nczarr ls``: the name of every group and variable, `long` adds types and shapes.

    All options take the names as they are printed.
    """
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield f"{typed(fqn)}/"
        for variable in group.variables:
            at = typed(join_fqn(fqn, variable.name))
            shape = _sizes(dataset.shape_of(variable)) or "-"
            yield f"{variable.type.name:10} {shape:20} {at}" if long else at


def nodes_json(source: str, dataset: Dataset) -> Iterator[dict[str, object]]:
    """Yield the items of ``nczarr ls --json``: an object for every group and variable."""
    for fqn, group in dataset.all_groups.items():
        if fqn != "/":
            yield {"source": source, "fqn": fqn, "node": "group"}
        for variable in group.variables:
            node = {"source": source, "fqn": join_fqn(fqn, variable.name), "node": "variable"}
            yield {**node, "type": variable.type.name, "shape": list(dataset.shape_of(variable))}


def tree_json(dataset: Dataset) -> dict[str, object]:
    """Return a dataset's groups, dimensions, types and variables as a JSON object."""

    def inside(group: Group) -> dict[str, object]:
        return {
            "name": group.name,
            "dimensions": [
                {"name": d.name, "size": d.size, "unlimited": d.unlimited} for d in group.dimensions
            ],
            "types": [describe_type(t) for t in group.types],
            "variables": [
                {
                    "name": v.name,
                    "type": v.type.name,
                    "dimensions": list(v.dimensions),
                    "shape": list(dataset.shape_of(v)),
                    "shards": v.storage.shard_shape,
                    "attributes": [a.name for a in v.attributes],
                }
                for v in group.variables
            ],
            "attributes": [a.name for a in group.attributes],
            "groups": [inside(child) for child in group.groups],
        }

    return inside(dataset)


_LINES = ("├── ", "└── ", "│   ")
_ASCII = ("|-- ", "`-- ", "|   ")


def draw_tree(dataset: Dataset, *, lines: bool = True) -> Iterator[str]:
    """Yield the lines of ``nczarr tree``; use ASCII characters only if `lines` is false.

    Examples
    --------
    >>> from nczarr.model import Dimension, INT
    >>> d = Dataset("d", dimensions=(Dimension("x", 2),), variables=(Variable("v", INT, ("/x",)),))
    >>> print(*draw_tree(d), sep="\\n")
    /
    └── int v(x = 2)
    """
    marks = _LINES if lines else _ASCII

    def branches(group: Group, indent: str) -> Iterator[str]:
        children: list[Variable | Group] = [*group.variables, *group.groups]
        for number, child in enumerate(children, 1):
            last = number == len(children)
            # A name in a hostile file may have control sequences, which a terminal would obey.
            yield indent + marks[last] + visible(_label(dataset, child))
            if isinstance(child, Group):
                yield from branches(child, indent + ("    " if last else marks[2]))

    yield "/"
    yield from branches(dataset, "")


def _label(dataset: Dataset, node: Variable | Group) -> str:
    if isinstance(node, Group):
        return f"{node.name}/"
    sizes = []
    for ref in node.dimensions:
        if isinstance(ref, int):
            sizes.append(str(ref))
            continue
        dimension = dataset.dimension_at(ref)
        sizes.append(f"{split_fqn(ref)[1]} = {dimension.size}{'*' if dimension.unlimited else ''}")
    inside = f"({', '.join(sizes)})" if sizes else ""
    shards = node.storage.shard_shape
    return f"{node.type.name} {node.name}{inside}{f' in shards of {_sizes(shards)}' if shards else ''}"

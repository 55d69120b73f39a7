"""Run the commands that compare, check, repair and remove: diff, digest, check, repair, consolidate, clean, rm."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator

from nczarr.cli import options as shared
from nczarr.cli.options import HIERARCHY, SOURCE, define, option, storage_options
from nczarr.cli.terminal import progress_bar, say
from nczarr.convert import ValueDifference, diff, digest
from nczarr.display import format_bytes, shown_location, visible
from nczarr.errors import NCZarrError, UnsupportedError
from nczarr.mapping import Finding, repair


def _printed(
    findings: Iterable[Finding],
    source: str,
    options: argparse.Namespace,
    note: Callable[[Finding], str] = lambda finding: "",
) -> Iterator[Finding]:
    """Print each finding with a note, below a heading if the command has several sources, and yield it."""
    # A URL may have a signature, and reports of a check go into logs.
    name = shown_location(source) if len(options.source) > 1 else None
    for number, finding in enumerate(findings):
        if options.json:
            print(json.dumps(({"source": name} if name else {}) | finding.to_json()))
        else:
            say(*([f"{name}:"] if name and not number else []), f"{finding}{note(finding)}")
        yield finding


def define_diff(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr diff``."""
    option(parser, "left", SOURCE)
    option(parser, "right", SOURCE)
    option(parser, "--header", "do not compare values")
    option(parser, "--storage", "also compare chunks, filters and byte order")
    option(parser, "--ignore", "ignore attributes with this name", "NAME", action="append", default=[])
    option(parser, "--rtol", "relative tolerance of numbers", "X", type=float, default=0.0)
    option(parser, "--atol", "absolute tolerance of numbers", "X", type=float, default=0.0)
    text = "maximum number of differing values to list for each variable (default: 1)"
    option(parser, "--places", text, "N", type=int, default=1)
    option(parser, "--json", "print a JSON list")
    shared.add_progress_options(parser)
    define(
        parser,
        run_diff,
        "  nczarr diff run42.nc run42.zarr               exit status 0: the datasets are equal\n"
        "  nczarr diff --rtol 1e-6 --places 5 a.zarr b.zarr\n"
        "  nczarr diff --json --ignore history a.nc b.zarr\n",
        "differences",
    )


def run_diff(options: argparse.Namespace) -> int:
    """Run ``nczarr diff``."""
    listed: list[dict[str, object]] = []
    found = 0
    for difference in diff(
        options.left,
        options.right,
        data=not options.header,
        storage=options.storage,
        ignore_attributes=options.ignore,
        rtol=options.rtol,
        atol=options.atol,
        places=options.places,
        storage_options=storage_options(options),
        progress=progress_bar(options.progress),
    ):
        found = 1
        if not options.json:
            say(difference)
        elif isinstance(difference, ValueDifference):
            listed.append(difference.to_json())
        else:
            listed.append({name: getattr(difference, name) for name in ("fqn", "what", "left", "right")})
    if options.json:
        print(json.dumps(listed))
    return found


def define_digest(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr digest``."""
    option(parser, "source", SOURCE, nargs="+")
    option(parser, "--variables", "also print a digest for each variable")
    option(parser, "--check", "compare with the stored digest (nczarr copy --digest)")
    option(parser, "--lossy", "skip unreadable parts with a warning")
    option(parser, "--json", "print a JSON list")
    shared.add_progress_options(parser)
    define(
        parser,
        run_digest,
        "  nczarr digest run42.nc run42.zarr run42.cdl   equal datasets have equal digests\n"
        "  nczarr copy --digest run42.nc run42.zarr && nczarr digest --check run42.zarr\n",
    )


def run_digest(options: argparse.Namespace) -> int:
    """Run ``nczarr digest``."""
    status = 0
    listed = []
    for source in options.source:
        found = digest(
            source,
            lossy=options.lossy,
            storage_options=storage_options(options),
            progress=progress_bar(options.progress),
        )
        name = shown_location(source)
        # A dataset without a digest fails, too: a script would take it for intact.
        if options.check and found.stored != found.dataset:
            stored = "no digest is stored" if found.stored is None else f"the stored digest is {found.stored}"
            text = f"nczarr: {name}: {stored}, the digest of the values is {found.dataset}"
            # A name in a hostile file may have control sequences, which a terminal would obey.
            print(visible(text), file=sys.stderr)
            status = 1
        if options.json:
            stored_digest = {"stored": found.stored} if options.check else {}
            variables = {"variables": dict(found.variables)}
            listed.append({"source": name, "sha256": found.dataset} | stored_digest | variables)
            continue
        say(f"{found.dataset}  {name}")
        if options.variables:
            say(*(f"{one}  {name}:{fqn}" for fqn, one in found.variables.items()))
    if options.json:
        print(json.dumps(listed))
    return status


# xarray adds arrays that no record lists: check names them, but they are no damage.
def _harmless_note(finding: Finding) -> str:
    return ": no damage; the next writer of nczarr or repair records it" if finding.is_harmless else ""


def define_check(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr check``."""
    option(parser, "source", HIERARCHY, nargs="*")
    option(parser, "--data", "also read and decode every chunk")
    option(parser, "--json", "print one JSON object for each finding")
    text = "check a directory of test vectors: compare each store with its CDL, its JSON, or its expected findings"
    option(parser, "--vectors", text, "FOLDER")
    option(parser, "--canonical", "print the content as canonical JSON instead, for a comparison of readers")
    shared.add_progress_options(parser)
    define(
        parser,
        run_check,
        "  nczarr check run42.zarr\n  nczarr check --data s3://bucket/run42.zarr\n"
        "  nczarr check --canonical run42.zarr > run42.json\n",
        "findings",
    )


def run_check(options: argparse.Namespace) -> int:
    """Run ``nczarr check``."""
    from nczarr.convert.verify.check import canonical_text, check, check_vectors

    if options.vectors is not None:
        failed = 0
        for name, problems in check_vectors(options.vectors):
            say(f"{name}: {'; '.join(problems) or 'ok'}")
            failed += bool(problems)
        return int(failed > 0)
    if not options.source:
        raise NCZarrError(
            "no Zarr hierarchy is given",
            hint="nczarr check HIERARCHY, or nczarr check --vectors FOLDER for test vectors",
        )
    found = 0
    for source in options.source:
        if options.canonical:
            print(canonical_text(source, storage_options(options)))
            continue
        where, bar = storage_options(options), progress_bar(options.progress)
        findings = check(source, data=options.data, storage_options=where, progress=bar)
        found += sum(not f.is_harmless for f in _printed(findings, source, options, _harmless_note))
    return int(found > 0)


def define_repair(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr repair``."""
    option(parser, "source", HIERARCHY, nargs="+")
    option(parser, "-n --dry-run", "print the repairs without making them")
    option(parser, "--json", "print one JSON object for each finding")
    define(parser, run_repair, "  nczarr repair run42.zarr\n", "findings")


def run_repair(options: argparse.Namespace) -> int:
    """Run ``nczarr repair``."""
    done = "would be done" if options.dry_run else "done"

    def note(finding: Finding) -> str:
        return f": {done}: {finding.remedy}" if finding.remedy else ": nothing is done"

    left = 0
    for source in options.source:
        found = repair(source, dry_run=options.dry_run, storage_options=storage_options(options))
        left += sum(not finding.remedy for finding in _printed(found, source, options, note))
    return int(left > 0)


def define_consolidate(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr consolidate``."""
    option(parser, "source", HIERARCHY, nargs="+")
    define(parser, run_consolidate, "  nczarr consolidate run42.zarr\n")


def run_consolidate(options: argparse.Namespace) -> None:
    """Run ``nczarr consolidate``."""
    from nczarr.mapping.dataset.open import dialect_of
    from nczarr.mapping.dataset.subgroup import refuse_group_of_dataset

    for source in options.source:
        with shared.open_documents(source, "r+", storage_options(options)) as hierarchy:
            # The consolidated metadata of a group alone hide newer documents of its dataset.
            refuse_group_of_dataset(hierarchy.store, "consolidated")
            # Other programs trust consolidated metadata, and would see no node that they lack.
            if not hierarchy.complete:
                raise UnsupportedError(
                    "the store cannot list all its keys, so consolidated metadata would lack nodes",
                    path=source,
                    hint="run nczarr consolidate on the machine that has the files",
                )
            # Old writers of plain Zarr have bare NaN, which JSON lacks: their documents stay as they are.
            hierarchy.keeps_bare_numbers = dialect_of(hierarchy).is_plain
            hierarchy.consolidate()


def define_clean(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr clean``."""
    option(parser, "targets", "a dataset (path or URL), complete or not", "target", nargs="+")
    text = (
        "also remove files that another machine may still be writing, and chunks without metadata documents"
    )
    option(parser, "--force", text)
    define(parser, run_clean, "  nczarr clean run42.zarr\n")


def run_clean(options: argparse.Namespace) -> None:
    """Run ``nczarr clean``."""
    from nczarr.mapping.dataset.maintenance import clean

    for target in options.targets:
        for line in clean(target, storage_options=storage_options(options), force=options.force):
            say(line)


def define_rm(parser: argparse.ArgumentParser) -> None:
    """Define ``nczarr rm``."""
    option(parser, "target", HIERARCHY, nargs="+")
    option(parser, "-n --dry-run", "print the objects without removing them")
    option(parser, "-y --yes", "do not ask")
    option(parser, "--force", "also remove objects that do not belong to the hierarchy")
    define(parser, run_rm, "  nczarr rm s3://bucket/run42.zarr\n  nczarr rm -y old.zarr older.zarr\n")


def run_rm(options: argparse.Namespace) -> int:
    """Run ``nczarr rm``."""
    from nczarr.mapping.dataset.maintenance import remove, stored_objects

    kept = 0
    for target in options.target:
        found = stored_objects(target, storage_options(options))
        size, objects = sum(item.size for item in found), sum(item.objects for item in found)
        summary = f"{shown_location(target)}: {objects:,} objects, {format_bytes(size)}"
        if options.dry_run:
            say(summary)
            say(*(f"  {item.path}: {item.objects:,}" for item in found))
            continue
        if not options.yes and not _agreed(summary, target):
            kept += 1
            # Nothing was removed, and a script has to see it in the status.
            continue
        remove(target, storage_options=storage_options(options), force=options.force)
        say(f"{summary}, removed")
    return int(kept > 0)


def _agreed(summary: str, target: str) -> bool:
    # A script cannot answer, and input() would take a line of its data.
    if not sys.stdin.isatty():
        raise NCZarrError(
            "nczarr rm asks before it removes, and standard input is no terminal",
            path=target,
            hint="use --yes",
        )
    answer: str = input(f"{summary}; remove them? [y/N] ")
    return answer.strip().lower() in ("y", "yes")

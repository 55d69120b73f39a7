"""Run a reader of NCZarr on Zarr v3 on the vectors beside this file: see README.md."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def difference(expected: Any, found: Any, where: str = "") -> str | None:
    """Return the place and both values of the first difference of two JSON values; None if they are equal."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(k for k in found if k not in expected)]:
            if key not in expected or key not in found:
                return f"{where}/{key} is {'missing' if key in expected else 'not expected'}"
            inside = difference(expected[key], found[key], f"{where}/{key}")
            if inside:
                return inside
        return None
    if isinstance(expected, list) and isinstance(found, list):
        for i, (one, other) in enumerate(zip(expected, found)):
            inside = difference(one, other, f"{where}/{i}")
            if inside:
                return inside
        if len(expected) == len(found):
            return None
        return f"{where} has {len(found)} values, and {len(expected)} are expected"
    if expected == found and isinstance(expected, bool) == isinstance(found, bool):
        return None
    return f"{where or '/'} is {json.dumps(found)}, and {json.dumps(expected)} is expected"


def ask(command: str, stores: list[Path]) -> list[Any]:
    """Return the JSON that a command prints of each store; an object with `error` if it prints none."""
    words = shlex.split(command)
    if "STORES" not in words:
        return [_run([str(store) if w == "STORE" else w for w in words], 1)[0] for store in stores]
    at = words.index("STORES")
    return _run([*words[:at], *map(str, stores), *words[at + 1 :]], len(stores))


def _run(words: list[str], count: int) -> list[Any]:
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    try:
        found = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        found = []
    if len(found) != count:
        return [{"error": f"no JSON for each store; {done.stderr.strip()[-200:]}"}] * count
    return found


def results(options: argparse.Namespace) -> Iterator[tuple[str, str, str | None]]:
    """Yield the name of each store that counts, `read` or `check`, and what is wrong or None."""
    minimal = set((HERE / "minimal.txt").read_text(encoding="utf-8").split())
    stores = sorted((HERE / "vectors").rglob("*.zarr"))
    if options.read:
        read = [s for s in stores if s.with_suffix(".json").exists()]
        for store, found in zip(read, ask(options.read, read)):
            if isinstance(found, dict) and set(found) == {"error"}:
                if not options.minimal or store.stem in minimal:
                    yield store.stem, "read", found["error"]
                continue
            expected = json.loads(store.with_suffix(".json").read_text(encoding="utf-8"))
            yield store.stem, "read", difference(expected, found)
    if options.check:
        checked = [s for s in stores if s.with_suffix(".findings").exists()]
        for store, found in zip(checked, ask(options.check, checked)):
            expected = sorted(store.with_suffix(".findings").read_text(encoding="utf-8").split())
            wrong = None if found == expected else f"{found} is found, and {expected} is expected"
            yield store.stem, "check", wrong


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--read", metavar="COMMAND", help="prints the canonical JSON of STORE")
    parser.add_argument("--check", metavar="COMMAND", help="prints the list of codes of STORE")
    parser.add_argument(
        "--minimal", action="store_true", help="a minimal reader: may refuse what minimal.txt does not list"
    )
    options = parser.parse_args()
    if not options.read and not options.check:
        parser.error("give --read or --check")
    found = list(results(options))
    failed = [line for line in found if line[2] is not None]
    for name, kind, wrong in failed:
        print(f"{name}: {kind}: {wrong}")
    print(f"{len(found) - len(failed)} of {len(found)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

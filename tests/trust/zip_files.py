"""Read zip files with flipped, cut and repeated bytes: right values, a missing key, or an error of our own."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
import zipfile
from pathlib import Path

from budget import Budget, main

from nczarr.errors import NCZarrError
from nczarr.stores import open_store

VALUES = {"zarr.json": b'{"zarr_format": 3}', **{f"v/c/{i}": bytes([i]) * 300 for i in range(6)}}
KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)


def trial(budget: Budget) -> None:
    """Damage a zip file at random places."""
    warnings.simplefilter("ignore")
    chance = budget.random
    originals = []
    for kind in KINDS:
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w", kind) as archive:
            for key, value in VALUES.items():
                archive.writestr(key, value)
        originals.append(memory.getvalue())
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "x.zip")
    for _ in budget:
        data = bytearray(chance.choice(originals))
        # Half of the time in the directory, where the sizes and places are.
        low = data.index(b"PK\1\2") if chance.random() < 0.5 else 0
        for _ in range(chance.choice([1, 1, 2, 5])):
            place = chance.randrange(low, len(data))
            act = chance.random()
            if act < 0.7:
                data[place] = chance.choice(
                    [0, 0xFF, chance.randrange(256), data[place] ^ (1 << chance.randrange(8))]
                )
            elif act < 0.85:
                del data[place : place + chance.randrange(1, 40)]
                low = min(low, len(data) - 1)
            else:
                data[place:place] = data[max(place - 30, 0) : place]
        path.write_bytes(data)
        try:
            with open_store(path) as store:
                keys = list(store.list())
                for key in keys:
                    try:
                        value = store.get(key)
                        # Parts of stored members are read without their checksum; whole values never are.
                        store.get_range(key, 3, 5)
                    except NCZarrError:
                        budget.count("errors")
                        continue
                    if key in VALUES:
                        assert value == VALUES[key], key
                        budget.count("right values")
                    else:
                        assert value in VALUES.values() or not value, key
                        budget.count("other names")
        except NCZarrError:
            budget.count("refused files")
    folder.cleanup()
    assert not os.path.exists(path)


if __name__ == "__main__":
    main(trial)

"""Kill copies to a real S3 server, through a proxy that refuses and resets, and go on with them.

As ``resumes.py``; needs what ``s3_faults.py`` needs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from budget import Budget, main
from resumes import KilledCopy, make_source
from s3_faults import Proxy, install_ceph

import nczarr
from nczarr.convert.values.resume import MANIFEST
from nczarr.mapping.dataset.destination import record_keys
from nczarr.mapping.dataset.maintenance import clean
from nczarr.stores import open_store

sys.path.insert(0, str(Path(__file__).parents[1]))


def trial(budget: Budget) -> None:
    """Each round starts or goes on with a copy; every value is compared at its end."""
    from s3.server import new_server

    folder = Path(tempfile.mkdtemp(prefix="nczarr-s3-"))
    server = new_server(folder / "state")
    server.start()
    proxy = None
    try:
        os.environ.update(server.settings)
        direct = server.settings["AWS_ENDPOINT_URL"]
        import s3fs

        s3fs.S3FileSystem(endpoint_url=direct).mkdir("test")
        source, target = folder / "source.nc", "s3://test/out.zarr"
        make_source(source)
        proxy = Proxy(folder, int(direct.rpartition(":")[2]), resets=2, refused=20)
        straight = {"endpoint_url": direct}

        def complete() -> bool:
            with open_store(target, "r", straight) as store:
                visible = store.exists("zarr.json")
            if visible:
                assert list(nczarr.diff(source, target, storage_options=straight)) == []
                clean(target, storage_options=straight)
            return visible

        def recorded() -> str | None:
            with open_store(target, "r", straight) as store:
                parts = [(store.get(key) or b"").decode() for key in record_keys(store)]
                return "\n".join(parts) if parts else None

        def check() -> None:
            assert list(nczarr.diff(source, target, storage_options=straight)) == []
            with open_store(target, "r+", straight) as store:
                assert store.get(MANIFEST) is None
                store.delete_many(list(store.list()))

        copy = KilledCopy(budget, source, target, recorded, complete, {"endpoint_url": proxy.url}, 0.2, 5)
        for _ in budget:
            if copy.attempt():
                check()
        if copy.attempt(undisturbed=True):
            check()
    finally:
        if proxy is not None:
            proxy.stop()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    install_ceph()
    main(trial)

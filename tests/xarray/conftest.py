"""Give xarray's own tests the marks of their configuration, and run their coroutines."""

from __future__ import annotations

import asyncio
import inspect

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for mark in ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array"):
        config.addinivalue_line("markers", f"{mark}: a mark of xarray's tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        for mark in item.iter_markers("skip_if_param"):
            wanted = {k: v for k, v in mark.kwargs.items() if k not in ("reason", "condition")}
            if mark.kwargs.get("condition", True) and wanted.items() <= values.items():
                item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, as pytest-asyncio does."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True

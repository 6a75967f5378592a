"""What every test may rely on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Before NumPy is imported: two cores are shared with the other workers of a parallel run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

import sim.jit

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT.parent / "shared" / "profiles"

# Plain twins check compiled code; that loops run as Python give the same has tests of its own.
sim.jit.mode = sim.jit.COMPILED

settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that compare compiled code with its plain twin."""
    for item in items:
        if any(getattr(value, "__name__", "").startswith("tests.naive") for value in vars(item.module).values()):
            item.add_marker("jit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """On the build machine a test that needs a program which is not there has failed."""
    report = yield
    needs = any(item.get_closest_marker(name) for name in ("browser", "node"))
    if report.skipped and os.environ.get("CI") == "true" and needs:
        report.outcome = "failed"
        report.longrepr = f"skipped where it must run: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def profiles() -> Path:
    """The folder of real profiles."""
    if not PROFILES.is_dir():
        pytest.skip("real profiles are not beside this checkout")
    return PROFILES

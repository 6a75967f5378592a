"""PyPI's trn* packages: the tests of `test_pypi_kernels`, on the sources in the folder instead of what is installed."""

from __future__ import annotations

import ast
import os
from functools import partial
from pathlib import Path
from typing import Any

from tests.corpora import ROOT, Case, Outcome

FOLDER = "pypi"
"""FOLDER/pypi/NAME-VERSION: unpacked source distributions."""
TESTS = ROOT / "tests/test_pypi_kernels.py"
REFUSED = "_is_refused"
"""Ends the names of tests of kernels that break a documented limit; their docstrings say which."""


def cases(folder: Path) -> list[Case]:
    """One for each test; its name begins with that of its package."""
    found = []
    for node in ast.parse(TESTS.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            _, package, about = node.name.split("_", 2)
            for source in sorted((folder / FOLDER).glob(f"{package}-*")):
                file = f"{FOLDER}/{source.name}"
                known = ast.get_docstring(node) if node.name.endswith(REFUSED) else ""
                found.append(Case("PyPI trn*", file, f"{package} {about}", partial(run, node.name, known or "")))
    return found


class _Watch:
    """Keeps what went wrong in a test, and its module."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.compared: list[tuple[float, float]] = []

    def pytest_collection_finish(self, session: Any) -> None:
        self.compared = session.items[0].module.COMPARED if session.items else []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.faults.append(crash.message if crash else str(report.longrepr))


def run(test: str, known: str, folder: Path) -> Outcome:
    """The test decides; the error is the largest of all its comparisons, relative to the largest value."""
    import pytest

    os.environ["PYPI_SOURCES"] = str(folder / FOLDER)
    seen = _Watch()
    quiet = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    code = pytest.main([*quiet, f"{TESTS}::{test}"], plugins=[seen])
    faults = seen.faults or ([] if code == 0 else [f"pytest ended with {code}"])
    if known and not faults:
        return Outcome(known=known)
    error, tolerance = max(seen.compared, default=(None, None))
    return Outcome(
        ran=bool(seen.compared),
        right=not faults,
        error=error,
        tolerance="" if tolerance is None else f"{tolerance:g} of the largest",
        reason="; ".join(faults),
    )

"""nki-samples' own tests of its legacy kernels, as they were before the samples moved to the current API.

FOLDER/nki-samples-legacy is a checkout of the commit before c4b806e. Only what the tests mark for the simulator of the
vendor is run.
"""

from __future__ import annotations

import ast
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tests.corpora import Case, Outcome, timed

FOLDER = "nki-samples-legacy"
DEVICE = "trn2"


def cases(folder: Path) -> list[Case]:
    """One for each set of parameters of each marked test, found without importing the files."""
    found = []
    for path in sorted((folder / FOLDER / "test/unit").glob("test_*.py")):
        file = str(path.relative_to(folder))
        for suite in ast.parse(path.read_text()).body:
            for test in suite.body if isinstance(suite, ast.ClassDef) else []:
                marks = [ast.unparse(mark) for mark in getattr(test, "decorator_list", [])]
                if "pytest.mark.simulation" in marks:
                    name = f"{suite.name}::{test.name}"
                    found += [
                        Case("nki-samples, legacy", file, f"{name}[{index}]", partial(run, file, name, index), DEVICE)
                        for index in range(_sets(test))
                    ]
    return found


def _sets(test: ast.FunctionDef) -> int:
    """How many sets of parameters a test has."""
    marks = [mark for mark in test.decorator_list if isinstance(mark, ast.Call) and len(mark.args) > 1]
    return prod(len(mark.args[1].elts) for mark in marks if isinstance(mark.args[1], (ast.List, ast.Tuple)))


class _One:
    """Leaves one set of parameters of a test, tells it that it is on the device, and keeps what went wrong."""

    def __init__(self, index: int):
        self.index = index
        self.faults: list[str] = []

    def pytest_collection_finish(self, session: Any) -> None:
        session.items[:] = session.items[self.index : self.index + 1]
        for item in session.items:
            if hasattr(item.module, "get_target_string"):
                item.module.get_target_string = lambda: DEVICE

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.faults.append(crash.message if crash else str(report.longrepr))


def run(file: str, test: str, index: int, folder: Path) -> Outcome:
    """The test decides whether the values are right; time is that of its last launch."""
    import sys

    import pytest

    import sim
    from sim.nki import shim

    np.random.seed(index)
    sys.path.insert(0, str(folder / FOLDER / "src"))
    one = _One(index)
    quiet = ["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", str(folder / FOLDER)]
    with sim.stand_ins(DEVICE):
        before = len(shim.setting.get().launches)
        code = pytest.main(["--simulation-only", *quiet, f"{folder / file}::{test}"], plugins=[one])
        launches = shim.setting.get().launches[before:]
    time = timed(launches[-1]) if launches and isinstance(launches[-1], sim.Run) else {}
    faults = one.faults or ([] if code == 0 else [f"pytest ended with {code}"])
    return Outcome(ran=bool(launches), right=not faults, tolerance="its own", reason="; ".join(faults), **time)

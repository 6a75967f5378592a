"""aws-neuron-sdk `nki/test`: the legacy API's tests of single instructions, run as they are."""

from __future__ import annotations

import ast
import io
import os
import unittest
from functools import partial
from pathlib import Path

import numpy as np

from tests.corpora import Case, Outcome, imported, timed

FOLDER = "aws-neuron-sdk/nki/test"
WIDE = ("test_nki_isa_activation.test_activation",)
"""Tests that want a bf16 result within 1e-5 of fp32: run as the simulator does with NKI_PRECISE_FP=0."""


GATHER = "nki_dma_gather_transpose_3d_sb2sb"
"""A kernel that no test calls."""


def cases(folder: Path) -> list[Case]:
    """One for each test method, found without importing the files."""
    file = f"{FOLDER}/test_nki_isa_dma_transpose.py"
    found = [Case("nki/test", file, GATHER, partial(gather, file))] if (folder / file).is_file() else []
    for path in sorted((folder / FOLDER).glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "unittest.TestCase" for base in node.bases):
                methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                tests = [name for name in methods if name.startswith("test_")]
                file = str(path.relative_to(folder))
                found += [
                    Case("nki/test", file, f"{path.stem}.{test}", partial(run, file, node.name, test)) for test in tests
                ]
    return found


def run(file: str, suite: str, test: str, folder: Path) -> Outcome:
    """The test decides whether the values are right; time is that of its last launch.

    NumPy's generator is seeded: `test_dropout` draws probabilities from 0 to 100, and one time in four drops all.
    """
    import sim
    from sim.nki import shim

    if f"{Path(file).stem}.{test}" in WIDE:
        os.environ["NKI_PRECISE_FP"] = "0"
    np.random.seed(0)
    with imported(folder / file, "trn2") as module:
        case = getattr(module, suite)(test)
        setting = shim.setting.get()
        before = len(setting.launches)
        result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(case)
        launches = setting.launches[before:] or setting.launches
    faults = [text.strip().splitlines()[-1] for _, text in (*result.failures, *result.errors)]
    time = timed(launches[-1]) if launches and isinstance(launches[-1], sim.Run) else {}
    return Outcome(ran=True, right=not faults, tolerance="its own", reason="; ".join(faults), **time)


def gather(file: str, folder: Path) -> Outcome:
    """The documents show no result of it: the emulator must refuse it by name."""
    from sim.errors import UnsupportedError

    source, index = np.zeros((32, 4, 128), np.uint16), np.zeros((32, 1), np.uint32)
    with imported(folder / file, "trn2") as module:
        try:
            getattr(module, GATHER)(source, index)
        except UnsupportedError as error:
            known = "gathers rows of a tile on chip by an index tile, which no document describes; no test calls it"
            return Outcome(known=known, reason=str(error))
    return Outcome(ran=True, reason="no reference")

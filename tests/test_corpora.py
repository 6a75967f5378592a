"""The runner of public kernels, on kernels made up here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from tests import census, conformance, corpora, corpora_history
from tests.corpora import Case, Check, Launch, Outcome
from tests.launched import watched

F32 = np.float32
SUITE = """
import os
import unittest
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out

def halved(a):
    return a

halved = nki.baremetal(show_compiler_tb=True)(halved)

class TestSmall(unittest.TestCase):
    def helper(self, factor):
        a = np.arange(64, dtype=np.float32).reshape(8, 8)
        self.assertTrue(np.array_equal(nki.simulate_kernel(doubled, a), factor * a))
    def test_right(self):
        self.helper(2)
    def test_wrong(self):
        self.helper(3)
    def test_end(self):
        os._exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = tmp_path / "aws-neuron-sdk/nki/test/test_small.py"
    file.parent.mkdir(parents=True)
    file.write_text(SUITE)
    return tmp_path


def test_each_kernel_runs_in_a_process_of_its_own(folder: Path, tmp_path: Path) -> None:
    report, page = tmp_path / "report.json", tmp_path / "page.md"
    command = [sys.executable, corpora.__file__, str(folder), "--json", str(report), "--page", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "3 kernels: 2 ran, 1 right, 0 known exceptions\n"
    right, wrong, ended = json.loads(report.read_text())
    assert (right["corpus"], right["kernel"], right["device"]) == ("nki/test", "test_small.test_right", "trn2")
    assert (right["ran"], right["right"], right["reason"]) == (True, True, "")
    assert right["instructions"] == 3
    assert right["latency_us"] > 0
    assert (wrong["ran"], wrong["right"]) == (True, False)
    assert wrong["reason"].startswith("AssertionError")
    assert (ended["ran"], ended["reason"]) == (False, "ended with code 3")
    assert right["kernels"] == wrong["kernels"] == ["aws-neuron-sdk/nki/test/test_small.py:8"]
    assert "dma_copy" in right["guesses"]
    assert len(done.stdout.splitlines()) == 3
    text = page.read_text()
    assert "| aws-neuron-sdk nki/test | 2 | 1 | 0 |" in text
    assert "Tests of `nki/test` that pass: 1 of 3." in text
    assert "- aws-neuron-sdk nki/test: aws-neuron-sdk/nki/test/test_small.py `halved`\n" in text
    assert "- nki/test, test_small.py `test_small.test_end`: ended with code 3\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| test_small.test_")]
    assert [row.split(" | ")[3] for row in rows] == ["right", "wrong", "n/a"]
    assert "- `dma_copy`: " in text.split("## What is guessed")[1]
    assert str(tmp_path) not in text


def test_a_kernel_that_takes_too_long_is_ended(folder: Path) -> None:
    case = corpora.cases(folder)[0]
    assert corpora.in_process(case, folder, 0.01).reason == "more than 0 s"


def test_a_case_that_raises_is_reported() -> None:
    def run(folder: Path) -> Outcome:
        raise ValueError("no such thing")

    assert corpora.run_case(Case("c", "f", "k", run), Path()).reason == "ValueError: no such thing"


@pytest.mark.parametrize(("off", "holds"), [(0.0, True), (0.009, True), (0.02, False)])
def test_a_tolerance_is_a_distance_or_numpys_allclose(off: float, holds: bool) -> None:
    want = np.ones(100, F32)
    assert Check(l2=1e-2).holds(want + F32(off), want) is holds
    assert Check(atol=1e-2).holds(want + F32(off), want) is holds
    assert corpora.distance(want + F32(0.5), want) == pytest.approx(0.5)
    assert corpora.distance(want, 0 * want) == 10


def launch(kernel: Any, array: np.ndarray, wanted: Any) -> Launch:
    return Launch(kernel, (array,), lambda: wanted, Check(rtol=0))


def doubling() -> Any:
    import neuronxcc.nki as nki
    import neuronxcc.nki.language as nl

    @nki.jit
    def doubled(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) * 2.0)
        return out

    return doubled


def test_values_are_compared_though_a_kernel_does_not_fit() -> None:
    a = np.arange(128 * 512, dtype=F32).reshape(128, 512)
    with sim.stand_ins("trn2"):
        doubled = doubling()
        fits = corpora.measure(launch(doubled, a, 2 * a), "trn2")
        assert (fits.ran, fits.right, fits.error, fits.shapes) == (True, True, 0, "[128, 512]")
        assert fits.latency_us > 0
        assert corpora.measure(launch(doubled, a, 3 * a), "trn2").right is False
        shape = corpora.measure(launch(doubled, a, a[0]), "trn2")
        assert (shape.right, shape.reason) == (False, "shape (128, 512), reference (512,)")
        large = np.ones((1, 50_000), F32)
        outgrown = corpora.measure(launch(doubled, large, 2 * large), "trn2")
        assert (outgrown.ran, outgrown.right, outgrown.latency_us) == (True, True, None)
        assert outgrown.reason.startswith("no time: ")


def test_kernels_are_counted_without_importing_their_files(tmp_path: Path) -> None:
    file = tmp_path / "nki-samples/src/kernels.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import nki_beta, torch\n"
        "@torch.jit\ndef no_kernel(x): ...\n"
        "@nki_beta.jit(mode='trace')\ndef a(x): ...\n"
        "def b(x): ...\nb = nki.benchmark(warmup=1)(b)\n"
        "def around():\n    @other\n    @nki.jit\n    def c(x): ...\n"
    )
    (file.parent / "broken.py").write_text("import nki\n@nki.jit\ndef d(:\n")
    found = census.census(tmp_path)
    assert [(kernel.name, kernel.line) for kernel in found] == [
        ("(invalid syntax, line 3)", 0),
        ("a", 4),
        ("b", 6),
        ("c", 9),
    ]
    assert found[1].place == "nki-samples/src/kernels.py:4"


def test_a_kernel_counts_as_right_when_no_case_of_it_is_wrong() -> None:
    def done(right: bool, *kernels: str, ran: bool = True) -> tuple[Case, Outcome]:
        return Case("c", "f", "k", lambda folder: Outcome()), Outcome(ran=ran, right=right, kernels=kernels)

    right, ran = conformance._places([done(True, "a", "b"), done(False, "b", "c"), done(False, "a", "d", ran=False)])
    assert (right, ran) == ({"a"}, {"a", "b", "c"})


def test_the_readme_tells_the_counts_of_the_conformance_page() -> None:
    page = (corpora.ROOT / "docs/conformance.md").read_text()
    (total,) = re.findall(r"^\| all \| (\d+) \| \d+ \| (\d+) \|$", page, re.MULTILINE)
    (told,) = re.findall(r"(\d+) of (\d+) kernels", (corpora.ROOT / "README.md").read_text())
    assert told == total[::-1]


def test_a_kernel_that_another_calls_is_seen(tmp_path: Path) -> None:
    with sim.stand_ins("trn2"), watched() as seen:
        inner = doubling()
        from neuronxcc import nki

        @nki.jit
        def outer(a: Any) -> Any:
            return inner(a)

        outer(np.ones((8, 8), F32))
    assert {Path(path).name for path, _ in seen.kernels} == {"test_corpora.py"}
    assert len(seen.kernels) == 2
    assert seen.shapes == "[8, 8]"
    assert seen.places(Path(__file__).parent.parent) == tuple(
        sorted(f"tests/test_corpora.py:{line}" for _, line in seen.kernels)
    )


def test_a_known_exception_is_no_failure_unless_it_is_right() -> None:
    case = Case("c", "f", "k", lambda folder: Outcome())
    values = corpora.COLUMNS.index("values")
    assert corpora.row(case, Outcome(ran=True, right=False, known="so"))[values] == "known"
    assert corpora.row(case, Outcome(ran=True, right=True, known="so"))[values] == "right"
    assert corpora.row(case, Outcome(ran=True, right=False))[values] == "WRONG"
    assert corpora.row(case, Outcome(known="so", reason="it broke"))[-1] == "so; it broke"


def test_each_set_of_parameters_of_a_marked_test_is_a_case(tmp_path: Path) -> None:
    file = tmp_path / corpora_history.FOLDER / "test/unit/test_pairs.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import pytest\n"
        "def get_target_string():\n    return ''\n"
        "class TestPairs:\n"
        "    @pytest.mark.parametrize('a, b', [(1, 2), (3, 3), [5, 6]])\n"
        "    @pytest.mark.parametrize('c', [True, False])\n"
        "    @pytest.mark.simulation\n"
        "    def test_pair(self, a, b, c):\n        assert a != b and get_target_string() == 'trn2'\n"
        "    def test_on_the_device(self):\n        assert False\n"
    )
    (file.parent / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--simulation-only', action='store_true')\n"
    )
    found = corpora_history.cases(tmp_path)
    assert [case.kernel for case in found] == [f"TestPairs::test_pair[{index}]" for index in range(6)]
    outcomes = [corpora.in_process(case, tmp_path, 60) for case in found[:2]]
    assert [outcome.right for outcome in outcomes] == [True, False]
    assert outcomes[1].reason == "assert (3 != 3)"

"""The sample traces that ship with the program open and are what the emulator writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sim
import trnprof
from sim.trace import validate
from trnprof.arguments import parse
from trnprof.commands.demo import TENSORS
from trnprof.home import data_dir

SAMPLES = [path for path in sorted(data_dir("traces").iterdir()) if (path / "trnprof.json").is_file()]


def test_at_least_one_sample_ships():
    assert SAMPLES


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_opens_and_names_no_machine(path: Path):
    trace = trnprof.open(str(path))
    validate(trace)
    assert trace.meta.is_simulation
    assert trnprof.classify(trace)[0].evidence
    assert not [text for text in trace.strings if text.startswith(("/home", "/root", "/work", "/Users"))]


def test_the_attention_sample_is_what_the_emulator_makes_today():
    kernel = sim.load(f"{data_dir('traces') / 'kernels' / 'attention.py'}::attention")
    fresh = sim.run(kernel, **parse(TENSORS, seed=0, values=True)).trace
    kept = trnprof.open(str(data_dir("traces") / "attention"))
    for column in ("start_ps", "end_ps", "engine", "wait"):
        np.testing.assert_array_equal(getattr(kept.instructions, column), getattr(fresh.instructions, column))
    assert kept.meta.outputs == fresh.meta.outputs

"""What a trace lacks is said, once each, with what cannot be judged for it; what can be said is said all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import trnprof
from sim.trace import Engine, Memory, Meta, Strings, Trace
from tests.handmade import ins, make, matmul, move, region, vector
from trnprof.advice import advise
from trnprof.commands import result
from trnprof.missing import missing
from trnprof.roofline import chart

SAMPLE = Path(__file__).resolve().parents[1] / "traces" / "attention"
FULL = {
    "regions": [region("kernel", 0, 1000)],
    "allocations": [{"tensor": "t", "memory": m, "start_ps": 0, "end_ps": 1, "partitions": 128, "bytes": 4}
                    for m in (Memory.SBUF, Memory.PSUM)],
    "tensors": [{"name": "a", "type": "IN", "memory": Memory.HBM, "bytes": 1 << 18}],
}  # fmt: skip


def rows(**more):
    return [matmul(213 * k, source="k.py:1", wait=1, **more) for k in range(3)]


def moved(**more):
    return [move(0, 800, 1 << 18, **{"descriptors": 128, "variable": "a", **more})]


def test_a_complete_trace_lacks_nothing():
    assert missing(make(rows(), moved(), **FULL)) == ()
    assert missing(trnprof.open(SAMPLE)) == ()


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (make(rows(), moved(), device="unknown", **FULL), "The device is unknown"),
        (make(rows(), **FULL), "No DMA rows"),
        (make(rows(flops=0, adjusted_flops=0, elements=0), moved(), **FULL), "No FLOPs and no elements"),
        (make([matmul(0, wait=1)], moved(), **FULL), "No source lines"),
        (make([matmul(0, source="a:1"), matmul(300, source="a:1")], moved(), **FULL), "No causes of waits"),
        (make(rows(), moved(), **{**FULL, "regions": []}), "No regions"),
        (make(rows(), moved(descriptors=0), **FULL), "Transfers do not tell their descriptors"),
        (make(rows(), moved(variable=None), **FULL), "Transfers do not name their tensors"),
        (make(rows(), moved(), **{**FULL, "tensors": []}), "No tensors"),
        (make(rows(), moved(), **{**FULL, "allocations": FULL["allocations"][1:]}), "counter of SBUF"),
        (make(rows(), moved(), **{**FULL, "allocations": FULL["allocations"][:1]}), "counter of PSUM"),
        (make([*rows(), vector(900, 0, source="k.py:2", wait=1)], moved(), **FULL), "1 instruction of no length"),
        (make([ins(Engine.SYNC, 0, 10, control=True)], moved(), **FULL), "No instruction does work"),
    ],
)  # fmt: skip
def test_each_gap_has_its_sentence(trace, sentence):
    found = missing(trace)
    assert [text for text in found if sentence in text], found
    assert len(set(found)) == len(found)


def test_an_emulated_trace_without_tiles_in_a_memory_did_not_use_it():
    captured = make(rows(), moved(), **{**FULL, "allocations": FULL["allocations"][:1]})
    emulated = replace(captured, meta=replace(captured.meta, is_simulation=True))
    assert missing(captured) and not missing(emulated)


def test_an_empty_trace_is_told_in_one_sentence():
    assert missing(make([])) == ("No instruction and no transfer: nothing can be judged",)


BAD = {
    "empty": make([]),
    "empty with a window": make([], window=(0, 1000)),
    "single instruction": make([matmul(0)]),
    "zero-length row": make([vector(0, 0)]),
    "zero-length rows among others": make([matmul(0), vector(100, 0), vector(100, 0)]),
    "overlapping rows": make([vector(0, 1000, 500), vector(100, 1000, 500), vector(200, 5000, 10)]),
    "no DMA rows": make([matmul(213 * k) for k in range(9)]),
    "DMA rows alone": make([], [move(0, 100, 1 << 16)]),
    "no device": make([matmul(0)], [move(0, 100, 1 << 16)], device="unknown"),
    "no columns": Trace(
        Meta(False, "trn2", "x"), Strings(["OP"]),
        type(make([]).instructions)(2, start_ps=np.array([0, 5]), end_ps=np.array([9, 7])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_poor_trace_gets_what_can_be_said(name):
    trace = BAD[name]
    record = result.record(trace)
    text = json.dumps(record, default=lambda value: value.item(), allow_nan=False)
    assert "nan" not in text.lower().replace("finance", "")
    whole = record["verdicts"][0]
    works = whole["time_ps"] > 0 and name not in ("empty with a window",)
    assert (whole["bound"] is not None) == works
    assert record["missing"]
    printed = result.text(trace)
    assert ("No verdict" in printed) == (not works)
    assert "not told by this trace:" in printed
    assert chart(trace).subtitle
    assert trnprof.Session(trace).verdict.title == ("No verdict" if not works else trnprof.Session(trace).verdict.title)
    assert isinstance(advise(trace), list)

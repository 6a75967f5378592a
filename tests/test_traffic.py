"""Bytes moved of each tensor, and how few would have done."""

from __future__ import annotations

import numpy as np
import pytest

from sim.trace import Memory
from tests.handmade import make, matmul, move
from trnprof.traffic import necessary_bytes, sizes, traffic

KIB = 1024
STORE = {"source_memory": Memory.SBUF, "dest_memory": Memory.HBM}


def tensor(name: str, kind: str, size: int) -> dict:
    return {"name": name, "type": kind, "memory": Memory.HBM, "bytes": size}


def kernel(variable: str | None = "named"):
    """a is loaded three times, `kept` goes out and comes back, half of `out` is written."""
    moves = [("a", {}), ("a", {}), ("a", {}), ("kept", STORE), ("kept", {}), ("out", STORE)]
    rows = [
        move(k * 100, 90, 64 * KIB, variable=name if variable else None, **way) for k, (name, way) in enumerate(moves)
    ]
    tensors = [tensor("a", "IN", 64 * KIB), tensor("kept", "INTERNAL", 64 * KIB), tensor("out", "OUT", 128 * KIB)]
    return make([matmul(0)], rows, tensors=tensors)


def every(trace):
    return np.arange(len(trace.transfers))


def test_loads_and_stores_are_told_by_tensor():
    trace = kernel()
    found = {each.name: (each.loaded, each.stored, each.kept) for each in traffic(trace, every(trace))}
    assert found == {
        "a": (192 * KIB, 0, False), "kept": (64 * KIB, 64 * KIB, True), "out": (0, 64 * KIB, False)
    }  # fmt: skip


def test_what_is_necessary_moves_once_and_intermediates_not_at_all():
    trace = kernel()
    assert necessary_bytes(trace, every(trace), whole=True) == (64 + 64) * KIB
    assert necessary_bytes(trace, np.array([0]), whole=False) == 64 * KIB


def test_transfers_without_names_leave_the_sizes_of_inputs_and_outputs_to_the_whole_alone():
    trace = kernel(variable=None)
    assert traffic(trace, every(trace)) == ()
    assert necessary_bytes(trace, every(trace), whole=True) == (64 + 128) * KIB
    assert necessary_bytes(trace, every(trace), whole=False) is None
    assert sizes(trace) == {"IN": 64 * KIB, "INTERNAL": 64 * KIB, "OUT": 128 * KIB}


@pytest.mark.parametrize("whole", [True, False])
def test_without_tensors_nothing_is_known_to_be_necessary(whole):
    trace = make([matmul(0)], [move(0, 100, 64 * KIB)])
    assert necessary_bytes(trace, every(trace), whole) is None

"""Weights that the matmul before left in TensorE are not loaded again, and nothing else is left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import sim
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.trace import Engine

ROWS, COLUMNS, PARTS = 128, 512, 3


def product(x, w, changes, order):
    """x turned by w, part after part; `changes`: w is written again before the last; `order`: weights take turns."""
    out = language.ndarray((PARTS, ROWS, COLUMNS), language.float32, language.shared_hbm)
    tiles = [language.load(x[part]) for part in range(PARTS)]
    weights = [language.load(w), language.load(w)]
    for part in range(PARTS):
        if changes and part == PARTS - 1:
            isa.tensor_copy(weights[0][:, :64], weights[1][:, :64])
        bank = language.ndarray((ROWS, COLUMNS), language.float32, language.psum)
        isa.nc_matmul(bank, weights[part % 2 if order else 0], tiles[part])
        result = language.ndarray((ROWS, COLUMNS), language.float32)
        isa.tensor_copy(result, bank)
        language.store(out[part], result)
    return out


def run(dtype: str = "bfloat16", changes: bool = False, order: bool = False, **passes: bool) -> sim.Run:
    shapes = (PARTS, 128, COLUMNS), (128, ROWS)
    given = [sim.TensorSpec(shape, dtype) for shape in shapes]
    return sim.run(Kernel(product), *given, changes, order, device="trn2", values=False, passes=passes)


def opcodes(result: sim.Run) -> Counter[str]:
    trace = result.trace
    rows = np.flatnonzero(trace.instructions.engine == Engine.TENSOR)
    return Counter(trace.text(trace.instructions, "opcode", row) for row in rows.tolist())


@pytest.mark.parametrize(
    ("options", "loads"),
    [({}, 1), ({"keep": False}, PARTS), ({"changes": True}, 2), ({"order": True}, PARTS)],
    ids=["the same each time", "switched off", "written between", "by turns"],
)
def test_weights_are_loaded_as_often_as_they_change(options: dict[str, bool], loads: int):
    assert opcodes(run(**options)) == {"LDWEIGHTS": loads, "MATMUL": PARTS}


def test_the_passes_of_fp32_each_load_their_own():
    assert opcodes(run("float32")) == {"LDWEIGHTS": 2 * PARTS, "MATMUL": 2 * PARTS}


def test_a_matmul_without_a_load_shows_and_counts_what_another_does():
    table, other = (run(keep=keep).trace for keep in (True, False))
    for trace in (table, other):
        names = [trace.text(trace.instructions, "opcode", row) for row in range(len(trace.instructions))]
        matmul = np.flatnonzero(np.array(names) == "MATMUL")
        assert len({trace.text(trace.instructions, "track", row) for row in matmul.tolist()}) == 1
        assert np.unique(trace.instructions.sbuf_read_bytes[matmul]).tolist() == [COLUMNS * 2]
        assert all((trace.text(trace.instructions, "operands", row) or "").count("src") == 1 for row in matmul.tolist())
    assert int(table.instructions.flops.sum()) == int(other.instructions.flops.sum())
    assert table.instructions.end_ps.max() <= other.instructions.end_ps.max()

"""Collective operations of a Neuron Explorer profile (table CcOp) as rows of the instructions.

A profile says of them when they ran, over which stream and how much they moved, not on which core; they count as work
of the kernel.
"""

from __future__ import annotations

import numpy as np

from sim.trace import NONE, Engine, Strings
from trnprof.readers.draft import Columns, size
from trnprof.readers.parquet import Source, codes, numbers

TABLE = "CcOp"
MARK = "_collective"
"""Which rows of the instructions are from this table."""


def columns_of(source: Source, spans: Columns, kept: np.ndarray, strings: Strings) -> Columns:
    """The columns of the rows with sound times.

    spans : start_ps, end_ps, core of these rows
    kept  : which rows of the table they are
    """
    count = size(spans)
    stream, has_stream = numbers(source.column(TABLE, ("stream_id", "stream_index")), kept.size)
    op, has_op = numbers(source.column(TABLE, ("op_id",)), kept.size)
    tracks = [f"CC stream {stream[row]}" if has_stream[row] else "CC" for row in np.flatnonzero(kept)]
    groups = [f"cc:{op[row]}" if has_op[row] else f"cc row {row}" for row in np.flatnonzero(kept)]
    return spans | {
        "engine": np.full(count, Engine.COLLECTIVE, np.int64),
        "opcode": codes(source.column(TABLE, ("operation",)), kept.size, strings)[kept],
        "name": codes(source.column(TABLE, ("algorithm",)), kept.size, strings)[kept],
        "track": strings.codes(tracks),
        "group": strings.codes(groups),
        "operands": strings.codes(_operands(source, kept)),
        MARK: np.ones(count, bool),
    }


_TOLD = ("dtype", "num_elements", "input_size", "output_size", "replica_group", "trigger_engine")


def _operands(source: Source, kept: np.ndarray) -> list[str]:
    """What a profile says of each operation beside its time: `dtype=bf16 num_elements=1024 …`."""
    found = {name: source.column(TABLE, (name,)) for name in _TOLD}
    texts = {name: values.to_pylist() for name, values in found.items() if values is not None}
    rows = np.flatnonzero(kept).tolist()
    return [" ".join(f"{name}={values[row]}" for name, values in texts.items() if values[row] is not None)
            for row in rows]  # fmt: skip


def below(instructions: Columns, more: Columns, absent: dict[str, int]) -> Columns:
    """Instructions with other rows after them; `absent` says what a column that one side lacks reads as."""
    counts = size(instructions), size(more)
    last = int(instructions["id"].max(initial=0))
    more = more | {"id": last + 1 + np.arange(counts[1], dtype=np.int64)}
    made = {}
    for name in {**instructions, **more}:
        sides = [
            side.get(name, np.full(count, absent.get(name, 0)))
            for side, count in ((instructions, counts[0]), (more, counts[1]))
        ]
        made[name] = np.concatenate(sides)
    return made


ABSENT = dict.fromkeys(("source", "function", "kind", "_layer", "_compiler_opcode", "_row", "name", "operands"), NONE)
"""Columns of the instructions that are no numbers."""

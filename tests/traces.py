"""Any trace that the tables allow, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sim.trace import (
    ENGINE_NAMES,
    NONE,
    TABLES,
    EdgeKind,
    Finding,
    Memory,
    Meta,
    QueueType,
    RegionKind,
    Strings,
    Table,
    Trace,
    Wait,
)

LIMITS = {
    "engine": (0, len(ENGINE_NAMES) - 1),
    "wait": (0, len(Wait) - 1),
    "queue_type": (0, len(QueueType) - 1),
    "source_memory": (NONE, len(Memory) - 1),
    "dest_memory": (NONE, len(Memory) - 1),
    "memory": (0, len(Memory) - 1),
}
KINDS = {"edges": len(EdgeKind) - 1, "regions": len(RegionKind) - 1}
TIME_PS = 1 << 50

names = st.text(max_size=6)
scalars = st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False) | st.booleans() | names | st.none()


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Every table with any rows, any of its columns present."""
    strings = Strings(draw(st.lists(names, unique=True, max_size=6)))
    sizes = {name: draw(st.integers(0, 4)) for name in TABLES}
    tables = {name: draw(_table(name, sizes, len(strings))) for name in TABLES}
    return Trace(draw(metas()), strings, **tables)


@st.composite
def _table(draw: st.DrawFn, name: str, sizes: dict[str, int], texts: int) -> Table:
    kind, rows = TABLES[name], sizes[name]
    needed = {"start_ps", "end_ps", "signaler", "waiter"} & set(kind.columns)
    present = [column for column in kind.columns if column in needed or draw(st.booleans())]
    data = {column: draw(_column(name, column, sizes, texts)) for column in present}
    if "start_ps" in data:
        data["start_ps"] = np.sort(data["start_ps"])
        data["end_ps"] = data["start_ps"] + np.abs(data["end_ps"] % (1 << 40))
    return kind(rows, **data)


@st.composite
def _column(draw: st.DrawFn, table: str, column: str, sizes: dict[str, int], texts: int) -> np.ndarray:
    spec, rows = TABLES[table].columns[column], sizes[table]
    links = {
        "wait_for": sizes["transfers" if table == "transfers" else "instructions"],
        "instruction": sizes["instructions"],
        "signaler": sizes["instructions"],
        "waiter": sizes["instructions"],
        "region": sizes["regions"],
        "transfer": sizes["transfers"],
    }
    if spec.text:
        low, high = NONE, texts - 1
    elif column == "parent":
        return np.arange(rows, dtype=np.int32) - 1
    elif column in links:
        low, high = NONE, links[column] - 1
    elif column == "kind":
        low, high = 0, KINDS[table]
    elif column.endswith("_ps"):
        low, high = 0, TIME_PS
    elif column in LIMITS:
        low, high = LIMITS[column]
    elif spec.dtype.kind == "i":
        low, high = np.iinfo(spec.dtype).min // 4, np.iinfo(spec.dtype).max // 4
    else:
        return draw(arrays.arrays(spec.dtype, rows))
    return draw(arrays.arrays(np.int64, rows, elements=st.integers(low, high))).astype(spec.dtype)


@st.composite
def metas(draw: st.DrawFn) -> Meta:
    low = draw(st.integers(0, TIME_PS))
    finding = st.builds(Finding, names, names, st.integers(-1, 9), st.none() | names)
    output = st.fixed_dictionaries({"name": names, "shape": st.lists(st.integers(0, 9), max_size=3)})
    return Meta(
        is_simulation=draw(st.booleans()),
        device=draw(st.sampled_from(("trn1", "trn2", "trn3", "inf1", "inf2", "unknown"))),
        source=draw(names),
        kernel=draw(names),
        window=(low, low + draw(st.integers(0, TIME_PS))),
        total_ps=draw(st.integers(0, TIME_PS)),
        benchmark_ps=draw(st.none() | st.integers(0, TIME_PS)),
        cores=draw(st.integers(1, 8)),
        lnc=draw(st.integers(1, 2)),
        tool=draw(names),
        schema_version=draw(names),
        notes=tuple(draw(st.lists(names, max_size=2))),
        findings=tuple(draw(st.lists(finding, max_size=2))),
        machine=draw(st.dictionaries(names, st.floats(allow_nan=False), max_size=2)),
        summary=draw(st.dictionaries(names, scalars, max_size=3)),
        outputs=tuple(draw(st.lists(output, max_size=2))),
    )


def assert_same(first: Trace, second: Trace) -> None:
    """Raise AssertionError unless the two traces are identical: meta, strings, columns present and values."""
    assert first.meta == second.meta
    assert list(first.strings) == list(second.strings)
    for (name, ours), (_, theirs) in zip(first.tables(), second.tables(), strict=True):
        assert len(ours) == len(theirs), name
        assert ours.present() == theirs.present(), name
        for column in ours.present():
            assert theirs.column(column).dtype == ours.column(column).dtype, (name, column)
            np.testing.assert_array_equal(ours.column(column), theirs.column(column), err_msg=f"{name}.{column}")

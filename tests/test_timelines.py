"""General timelines: Chrome JSON and Perfetto protobuf in."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sim.errors import InputError
from sim.trace import Engine, Trace
from tests import timelines
from trnprof import classify, readers
from trnprof.readers.wire import put_bytes, put_int
from trnprof.view import Session


def opened(data: bytes, tmp_path: Path) -> Trace:
    (tmp_path / "t").write_bytes(data)
    return readers.open(tmp_path / "t")


def chrome(tmp_path: Path, *events: dict[str, Any]) -> Trace:
    return opened(timelines.dumped({"traceEvents": list(events)}), tmp_path)


def slices(trace: Trace) -> list[tuple[str, str, int, int]]:
    """Track, name, start and end in ps."""
    table = trace.instructions
    texts = ((trace.text(table, "track", row), trace.text(table, "name", row)) for row in range(len(table)))
    return [(*text, *span) for text, span in zip(texts, zip(table.start_ps.tolist(), table.end_ps.tolist()))]


def arrows(trace: Trace) -> list[tuple[str | None, str | None]]:
    table, edges = trace.instructions, trace.edges
    ends = zip(edges.signaler.tolist(), edges.waiter.tolist())
    return [(trace.text(table, "name", one), trace.text(table, "name", other)) for one, other in ends]


def counters(trace: Trace) -> list[tuple[str | None, int, float]]:
    table = trace.counters
    return [
        (trace.text(table, "counter", row), int(table.time_ps[row]), float(table.value[row]))
        for row in range(len(table))
    ]


def reasons(trace: Trace, table: str) -> dict[str, int]:
    return trace.receipt["tables"][table]["reasons"]


def test_a_pytorch_profile_opens_with_exact_times_flows_and_counters(tmp_path: Path) -> None:
    trace = opened(timelines.dumped(timelines.kineto()), tmp_path)
    assert slices(trace) == [
        ("python / main", "aten::mm", 0, 12_500_000),
        ("python / main", "launch", 1_877_000, 2_877_000),
        ("python / main", "[memory]", 2_877_000, 2_877_000),
        ("device 0 / thread stream 7", "gemm", 19_877_000, 25_127_000),
    ]
    assert arrows(trace) == [("launch", "gemm")]
    assert counters(trace) == [("python / allocated", 2_877_000, 512.0), ("python / allocated", 8_877_000, 0.0)]
    assert json.loads(trace.text(trace.instructions, "operands", 0) or "")["Input Dims"] == [[128, 64], [64, 32]]
    assert f"Times start at {timelines.KINETO_START_US}123000 ps" in " ".join(trace.meta.notes)


def test_pairs_are_found_in_unsorted_files_and_asynchronous_slices_overlap(tmp_path: Path) -> None:
    trace = opened(timelines.dumped(timelines.paired()), tmp_path)
    us = 1_000_000
    assert slices(trace) == [
        ("process 1 / thread 1", "outer", 0, 30 * us),
        ("process 1 / request", "request", us, 5 * us),
        ("process 1 / request", "request", 2 * us, 9 * us),
        ("process 1 / request", "retry", 6 * us, 6 * us),
        ("process 1 / thread 1", "inner", 10 * us, 20 * us + 500),
    ]
    assert [(name, value) for name, _, value in counters(trace)] == [
        ("process 1 / memory used", 3.0),
        ("process 1 / memory free", 5.0),
    ]
    assert arrows(trace) == [("inner", "outer")]
    assert trace.receipt["left"] == {"events of phase 'v'": 1}


def test_overlapping_slices_of_one_track_lie_on_separate_lanes(tmp_path: Path) -> None:
    rows = [{"ph": "X", "pid": 1, "tid": 1, "name": str(n), "ts": n, "dur": 2} for n in range(4)]
    track = next(t for t in Session(chrome(tmp_path, *rows)).tracks() if t.kind == "instructions")
    assert track.lanes == 2


def test_each_unusable_event_is_set_aside_alone(tmp_path: Path) -> None:
    good = {"ph": "X", "pid": 1, "tid": 1, "name": "good", "ts": 1, "dur": 2}
    bad = [
        good | {"dur": -1},
        good | {"ts": None},
        good | {"ts": float("nan")},
        {k: v for k, v in good.items() if k != "dur"},
        {"ph": "E", "pid": 9, "tid": 9, "ts": 1},
        {"name": "no phase"},
        good | {"ts": 10**25},
        {"ph": "C", "pid": 1, "name": "c", "ts": 1, "args": {"v": "high"}},
        {"ph": "f", "id": 1, "pid": 8, "tid": 8, "ts": 1},
    ]
    trace = chrome(tmp_path, good, *bad, good)
    assert len(trace.instructions) == 2
    assert reasons(trace, "slices") == {
        "end before they start": 1,
        "have no time": 1,
        "have no duration": 1,
        "end what never began": 1,
        "lie beyond 64-bit picoseconds of the others": 1,
    }
    assert reasons(trace, "events") == {"are not valid JSON": 1, "have no phase": 1}
    assert reasons(trace, "counters") == {"have a value that is not a number": 1}
    assert reasons(trace, "flow events") == {"lie in no slice": 1}
    assert trace.meta.quarantined == 9
    assert all(table["balanced"] for table in trace.receipt["tables"].values())


def test_strict_refuses_a_file_that_is_shown_in_part(tmp_path: Path) -> None:
    good = {"ph": "X", "pid": 1, "tid": 1, "name": "good", "ts": 1, "dur": 2}
    chrome(tmp_path, good, good | {"dur": -1})
    with pytest.raises(InputError, match="1 of 2 slices end before they start"):
        readers.open(tmp_path / "t", strict=True)
    chrome(tmp_path, good)
    assert len(readers.open(tmp_path / "t", strict=True).instructions) == 1


def test_a_file_cut_off_anywhere_shows_what_is_whole(tmp_path: Path) -> None:
    data = timelines.dumped(timelines.paired())
    shown = {len(opened(data[:at], tmp_path).instructions) for at in range(200, len(data), 7)}
    assert shown == {1, 2, 3, 4, 5}


def test_text_in_strings_is_not_taken_for_structure(tmp_path: Path) -> None:
    trace = chrome(tmp_path, {"ph": "X", "pid": 1, "tid": 1, "name": 'a"},{"ph":"X"}]', "ts": 1, "dur": 2})
    assert [name for _, name, _, _ in slices(trace)] == ['a"},{"ph":"X"}]']
    assert not trace.meta.quarantined


def test_a_slice_without_an_end_lasts_to_the_last_moment(tmp_path: Path) -> None:
    begin = {"ph": "B", "pid": 1, "tid": 1, "name": "open", "ts": 1}
    trace = chrome(tmp_path, begin, {"ph": "X", "pid": 1, "tid": 2, "name": "x", "ts": 5, "dur": 4})
    assert slices(trace)[0][2:] == (1_000_000, 9_000_000)
    assert any("1 slices have no end" in note for note in trace.meta.notes)


def test_threads_of_one_name_stay_apart(tmp_path: Path) -> None:
    named = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": n, "args": {"name": "worker"}} for n in (1, 2)]
    rows = [{"ph": "X", "pid": 1, "tid": n, "name": "x", "ts": n, "dur": 1} for n in (1, 2)]
    assert len({track for track, *_ in slices(chrome(tmp_path, *named, *rows))}) == 2


def test_a_perfetto_trace_opens_with_clocks_names_flows_and_counters(tmp_path: Path) -> None:
    trace = opened(timelines.sdk(), tmp_path)
    start = 1_000_000_000 + 10_000_000
    base = min(start, 0) or start
    assert slices(trace) == [
        ("app / main", "draw", 0, 10_000_000),
        ("app / main", "vsync", 1_000_000, 1_000_000),
        ("app / main", "upload", 15_000_000, 20_000_000),
    ]
    assert f"Times start at {base} ps" in " ".join(trace.meta.notes)
    assert arrows(trace) == [("draw", "upload")]
    assert counters(trace) == [("app / memory", 2_000_000, 3072.0), ("app / memory", 15_000_000, 512.0)]
    assert trace.text(trace.instructions, "operands", 0) == '{"frame":42}'
    assert trace.text(trace.instructions, "opcode", 0) == "gfx"


def test_packets_of_other_data_sources_are_counted(tmp_path: Path) -> None:
    trace = opened(timelines.sdk() + put_bytes(1, put_int(8, 5) + put_bytes(1, b"")), tmp_path)
    assert trace.receipt["left"] == {"packets of other data sources": 1}


@pytest.mark.parametrize("data", [timelines.dumped(timelines.kineto()), timelines.sdk()], ids=["chrome", "perfetto"])
def test_compressed_files_open_as_well(data: bytes, tmp_path: Path) -> None:
    assert slices(opened(gzip.compress(data), tmp_path)) == slices(opened(data, tmp_path))


def test_a_general_timeline_has_no_verdict(tmp_path: Path) -> None:
    trace = opened(timelines.dumped(timelines.kineto()), tmp_path)
    assert set(trace.instructions.engine.tolist()) == {Engine.OTHER}
    assert [verdict.bound for verdict in classify(trace)] == [None]

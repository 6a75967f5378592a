"""Large traces are kept as columns that are mapped into memory."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import stages, tracefile
from sim.texts import PackedStrings, packed
from sim.trace import NONE, Strings, Trace, validate
from tests.at_scale import model
from trnprof import readers
from trnprof.readers import cache
from trnprof.view import Session, Viewport, lanes, links
from trnprof.view.tracks import Row

ROWS = 30_000


@pytest.fixture
def columns(tmp_path, monkeypatch) -> Path:
    """The folder of kept traces; everything is large enough for it."""
    monkeypatch.setattr(cache, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(cache, "LEAST_ROWS", 1)
    monkeypatch.delenv("TRNPROF_CACHE_BYTES", raising=False)
    return tmp_path / "cache" / "columns"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    trace = model(ROWS)
    validate(trace)
    return tracefile.write(trace, tmp_path_factory.mktemp("traces") / "large")


def same(first: Trace, second: Trace) -> None:
    assert first.meta == second.meta
    assert list(first.strings) == list(second.strings)
    for (name, mine), (_, other) in zip(first.tables(), second.tables(), strict=True):
        assert len(mine) == len(other)
        assert mine.present() == other.present()
        for column in mine.columns:
            assert np.array_equal(mine.column(column), other.column(column)), f"{name}.{column}"


def test_a_kept_trace_is_the_trace(columns, written):
    plain = tracefile.read(written)
    for _ in range(2):
        found = readers.open(written)
        assert found.store is not None
        same(plain, found)
    assert len(list(columns.iterdir())) == 1


def test_columns_are_mapped_not_read(columns, written):
    column = readers.open(written).instructions.start_ps
    assert not column.flags.owndata
    assert not column.flags.writeable


def test_the_picture_is_the_same_however_it_was_come_by(columns, written, monkeypatch):
    monkeypatch.setattr(lanes, "KEPT_ROWS", 5000)
    views = [Session(tracefile.read(written)), Session(readers.open(written))]
    views[1].timeline.prepare()
    views.append(Session(readers.open(written)))
    t0, t1 = views[0].extent
    for span in (t1 - t0, (t1 - t0) // 50):
        frames = [view.frame(Viewport(t0 + span // 7, t0 + span, 150)) for view in views]
        for frame in frames[1:]:
            assert frame.tracks == frames[0].tracks
            for column in ("start_ps", "end_ps", "row", "count", "busy", "flags", "gap_start_ps", "gap_row", "values"):
                assert np.array_equal(getattr(frame, column), getattr(frames[0], column), equal_nan=True), column
    assert any(lane._levels for row in views[-1].timeline.rows.values() if isinstance(row, Row) for lane in row.lanes)
    assert len({view.tracks() for view in views}) == 1
    assert len({view.meta for view in views}) == 1
    assert np.array_equal(views[0].overview(300).busy, views[-1].overview(300).busy)


def test_the_first_picture_of_another_opening_looks_at_no_row(columns, written, monkeypatch):
    first = Session(readers.open(written))
    home, some = Viewport(*first.home, 300), [track.id for track in first.tracks()][2:5]
    before = first.frame(home), first.frame(home, some), first.card(first.first_in(*first.home))
    monkeypatch.setattr(lanes.Lane, "marks", None)
    monkeypatch.setattr(lanes.Lane, "gaps", None)
    monkeypatch.setattr(links, "_grouped", None)
    second = Session(readers.open(written))
    after = second.frame(home), second.frame(home, some), second.card(second.first_in(*second.home))
    assert after[2] == before[2]
    assert second.tracks() == first.tracks()
    for frame, mine in zip(after[:2], before[:2], strict=True):
        for column in ("start_ps", "row", "count", "colour", "lane", "track", "gap_start_ps", "gap_track", "values"):
            assert np.array_equal(getattr(frame, column), getattr(mine, column), equal_nan=True), column


def test_a_file_that_changed_is_read_again(columns, tmp_path):
    path = tracefile.write(model(ROWS), tmp_path / "trace")
    readers.open(path)
    tracefile.write(model(ROWS, seed=1), path)
    same(tracefile.read(path), readers.open(path))


def test_a_trace_that_moved_is_known_again(columns, tmp_path, monkeypatch):
    path = tracefile.write(model(ROWS), tmp_path / "trace")
    readers.open(path)
    moved = path.rename(tmp_path / "elsewhere")
    monkeypatch.setattr(tracefile, "read", None)
    assert len(readers.open(moved).instructions) == ROWS


def test_a_captured_profile_is_named_after_where_it_lies_now(columns, tmp_path):
    events = [{"name": f"e{n}", "ph": "X", "ts": n, "dur": 1, "pid": 1, "tid": 1} for n in range(50)]
    path = tmp_path / "chrome.json"
    path.write_text(json.dumps(events))
    first = readers.open(path)
    assert first.store is not None
    moved = path.rename(tmp_path / "moved.json")
    assert readers.open(moved).meta == replace(first.meta, source=str(moved))


def test_what_was_derived_is_made_once_and_only_of_the_very_tables(columns, written):
    made: list[str] = []

    def make(name: str) -> dict[str, np.ndarray]:
        made.append(name)
        return {"answer": np.arange(4)}

    for _ in range(2):
        trace = readers.open(written)
        assert trace.derive("one", lambda: make("one"))["answer"].tolist() == [0, 1, 2, 3]
    assert made == ["one"]
    changed = replace(trace, transfers=trace.transfers.take(np.arange(3)))
    changed.derive("one", lambda: make("changed"))
    assert made == ["one", "changed"]
    assert tracefile.read(written).derive("one", lambda: make("plain"))
    assert made[-1] == "plain"


def test_the_trace_not_opened_longest_makes_room(columns, tmp_path, monkeypatch):
    paths = [tracefile.write(model(ROWS, seed=n), tmp_path / f"t{n}") for n in range(3)]
    for age, path in enumerate(paths[:2]):
        folder = readers.open(path).store.folder
        os.utime(folder / cache.INDEX, (1000 + age, 1000 + age))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    oldest = readers.open(paths[0]).store.folder
    monkeypatch.setenv("TRNPROF_CACHE_BYTES", str(size * 5 // 2))
    newest = readers.open(paths[2]).store.folder
    assert {oldest, newest} == set(columns.iterdir())


@pytest.mark.parametrize("room", ["0", "1000"])
def test_without_room_nothing_is_kept(columns, written, monkeypatch, room):
    monkeypatch.setenv("TRNPROF_CACHE_BYTES", room)
    assert readers.open(written).store is None
    assert not columns.exists() or not list(columns.iterdir())


def test_a_small_trace_is_not_kept(columns, written, monkeypatch):
    monkeypatch.setattr(cache, "LEAST_ROWS", 10 * ROWS)
    assert readers.open(written).store is None


def test_a_damaged_folder_is_made_anew(columns, written):
    folder = readers.open(written).store.folder
    (folder / cache.INDEX).write_text("{")
    same(tracefile.read(written), readers.open(written))
    (folder / "strings.data.npy").unlink()
    same(tracefile.read(written), readers.open(written))


def test_a_folder_that_was_never_finished_is_not_served_and_goes_after_a_day(columns, written):
    draft = columns / ".abandoned"
    draft.mkdir(parents=True)
    os.utime(draft, (1000, 1000))
    readers.open(written)
    assert not draft.exists()


def test_a_cut_that_comes_while_columns_are_written_leaves_nothing(columns, written, monkeypatch):
    monkeypatch.setattr(cache, "packed", lambda texts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        readers.open(written)
    assert list(columns.iterdir()) == []


def test_a_trace_taken_out_of_the_cache_while_it_is_open_still_answers(columns, written):
    trace = readers.open(written)
    starts = trace.instructions.start_ps
    for file in trace.store.folder.rglob("*.npy"):
        file.unlink()
    assert int(starts[-1]) == int(tracefile.read(written).instructions.start_ps[-1])
    assert trace.derive("late", lambda: {"answer": np.arange(2)})["answer"].tolist() == [0, 1]


def test_how_far_it_is_counts_to_the_whole(columns, written):
    told: list[tuple[int, int | None]] = []

    def watch(stage: stages.Stage | None) -> None:
        if stage is not None:
            watched.append(stage)
        elif watched:
            told.append((watched[-1].done(), watched[-1].total))

    watched: list[stages.Stage] = []
    with stages.watched(watch):
        readers.open(written)
    assert told == [(ROWS, ROWS)]


def test_packed_strings_are_strings():
    texts = ["", "a", "µ", "MATMUL", "x" * 300, "a\ud800b"]
    for strings in (Strings(texts), PackedStrings(*packed(texts))):
        assert list(strings) == texts
        assert [strings[code] for code in (0, 2, 5, NONE)] == ["", "µ", "a\ud800b", None]
        assert [strings.find(text) for text in ("µ", "MATMUL", "b")] == [2, 3, NONE]
        assert strings.code("b") == 6
        assert strings.code("b") == strings.find("b") == 6
        assert strings[6] == "b"
        assert strings.codes(["a", None, "c"]).tolist() == [1, NONE, 7]
        assert list(strings) == [*texts, "b", "c"]
        assert len(strings) == 8

"""The view-model on real profiles and on kernels of our own, emulated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trnprof.view import Session, Viewport

NAMES = (
    "inf2_matmul/profile_128x128x384.json",
    "inf2_matmul/profile_128x128x512.json",
    "inf2_matmul/profile_128x128x1024.json",
    "inf2_matmul/profile_bucketed_128x128x2048.json",
    "trn2_attention/baseline_bf16_s512.json",
    "trn2_attention/baseline_fp32_s512.json",
    "trn2_attention/baseline_fp32_s1024.json",
    "trn2_attention/fused_fp32_s512.json",
)


@pytest.fixture(scope="module", params=NAMES)
def session(request) -> Session:
    profiles = request.getfixturevalue("profiles")
    return Session.open(profiles / request.param)


def test_nothing_is_dropped_at_any_zoom(session):
    shown = {"instructions": len(session.trace.instructions), "transfers": len(session.trace.transfers)}
    shown["packets"] = len(session.trace.packets)
    for columns in (50, 1500):
        frame = session.frame(Viewport(*session.extent, columns))
        kind_of = {track.id: track.kind for track in session.tracks()}
        kinds = np.array([kind_of[name] for name in frame.tracks])[frame.track]
        assert {kind: int(frame.count[kinds == kind].sum()) for kind in shown} == shown


def test_it_starts_at_the_activity(session):
    t0, t1 = session.home
    frame = session.frame(Viewport(t0, t1, 1000))
    inside = (frame.end_ps > t0) & (frame.start_ps < t1)
    assert inside.sum() > 20
    assert t1 - t0 < 0.95 * (session.extent[1] - session.extent[0]), "a profile has start-up around its kernel"


def test_every_card_can_be_written(session):
    cards = [session.card(row).to_json() for row in range(0, len(session.trace.instructions), 7)]
    cards += [session.transfer_card(row).to_json() for row in range(len(session.trace.transfers))]
    assert all(card["track"] and json.dumps(card) for card in cards)


def test_every_gap_that_is_drawn_answers(session):
    frame = session.frame(Viewport(*session.home, 1500))
    assert frame.gap_row.size
    for track, start, end, row in zip(
        frame.gap_track, frame.gap_start_ps, frame.gap_end_ps, frame.gap_row, strict=True
    ):
        card = session.gap(frame.tracks[track], int(start + end) // 2)
        assert (card.t0_ps, card.t1_ps, card.then.row) == (start, end, row)


def test_tables_verdict_and_roofline_hold_together(session):
    assert sum(part.share for part in session.verdict.shares) == pytest.approx(1)
    assert all(0 <= row.share <= 1 for row in session.engine_rows())
    assert session.dots()[0].kind == "whole"
    area = session.area(*session.window)
    assert area.verdict.bound == session.verdict.bound
    assert {row.name: row.active_ps for row in area.engines} == {
        row.name: row.active_ps for row in session.engine_rows()
    }


def test_rows_that_cannot_be_read_are_counted_on_screen(profiles, tmp_path):
    document = json.loads((profiles / NAMES[-1]).read_text())
    document["instruction"][5]["duration"] = -4
    document["dma"][7]["timestamp"] = None
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps(document))
    assert Session.open(damaged).meta.counted == "441 instructions, 12 transfers, 480 packets, 2 rows set aside"


def test_an_emulated_kernel_answers_with_source_lines_and_marks():
    import sim
    from trnprof.home import data_dir

    kernel = sim.load(f"{data_dir('traces') / 'kernels' / 'rmsnorm.py'}::rmsnorm")
    rng = np.random.default_rng(0)
    tokens, weight = (rng.standard_normal((rows, 512)).astype(np.float32) for rows in (256, 1))
    session = Session(sim.run(kernel, tokens, weight).trace)
    assert session.meta.estimated
    assert session.source_lines()[0].place.startswith("rmsnorm.py:")
    row = session.first_in(*session.window)
    assert "estimated" in {fact.note for fact in session.card(row).facts}
    assert len(session.frame(Viewport(*session.home, 800))) > 10

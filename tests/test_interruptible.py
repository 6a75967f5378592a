"""Work that is given up in the middle."""

from __future__ import annotations

import threading

import pytest

from sim import stages
from trnprof import readers
from trnprof.view import Session
from trnprof.view.interruptible import Cancelled, Interruptible


def test_what_runs_ends_at_its_next_step_and_nothing_more_begins():
    control, begun, found = Interruptible(), threading.Event(), []

    def endless() -> None:
        begun.set()
        while True:
            stages.pause()

    def job() -> None:
        try:
            control.run(endless)
        except Cancelled:
            found.append("given up")

    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    begun.wait(10)
    control.cancel()
    thread.join(10)
    assert found == ["given up"]
    with pytest.raises(Cancelled):
        control.run(lambda: 1)


def test_a_late_answer_is_not_taken():
    control = Interruptible()
    with pytest.raises(Cancelled):
        control.run(control.cancel)


def test_only_the_thread_that_was_cancelled_stops():
    control = Interruptible()
    control.cancel()
    other = Interruptible()
    assert other.run(lambda: stages.pause() or 7) == 7
    stages.pause()


@pytest.mark.parametrize("step", [1, 5, 40])
def test_a_what_if_is_given_up_in_the_middle_and_leaves_the_session_whole(step, monkeypatch):
    session, control, steps = Session(readers.open("traces/attention")), Interruptible(), []
    pause = stages.pause

    def counted() -> None:
        steps.append(1)
        if len(steps) == step:
            control.cancel()
        pause()

    with monkeypatch.context() as patch:
        patch.setattr(stages, "pause", counted)
        with pytest.raises(Cancelled):
            control.run(lambda: session.what_if({"hbm_bw": "2x"}))
    assert len(steps) == step, "it stopped at once, in the middle of a run"
    fresh = Session(readers.open("traces/attention"))
    assert session.what_if({"hbm_bw": "2x"}).time_ps == fresh.what_if({"hbm_bw": "2x"}).time_ps

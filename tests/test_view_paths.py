"""The critical path, what-ifs and comparisons as a session answers them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sim
from sim import TensorSpec, dtypes
from sim.errors import UnsupportedError
from tests.synthetic import attention as captured
from trnprof.critical import CAUSES
from trnprof.view import Session
from trnprof.whatif import SETTINGS

KERNELS = Path(__file__).resolve().parent.parent / "traces" / "kernels"


@pytest.fixture(scope="module")
def session() -> Session:
    kernel = sim.load(str(KERNELS / "attention.py::attention"))
    shapes = ((128, 512), (128, 1024), (1024, 128))
    return Session(sim.run(kernel, *[TensorSpec(shape, dtypes.bfloat16) for shape in shapes], values=False).trace)


def test_the_pieces_of_the_critical_path_tile_the_window_and_its_causes_add_up(session):
    card = session.critical()
    assert (card.start_ps[0], card.end_ps[-1]) == session.window
    assert (card.start_ps[1:] == card.end_ps[:-1]).all()
    assert sum(row.time_ps for row in card.causes) == session.window[1] - session.window[0]
    assert card.causes[0].cause == CAUSES[0] and "TensorE ~" in card.causes[0].note
    assert [row.time_ps for row in card.causes] == sorted((row.time_ps for row in card.causes), reverse=True)


def test_an_instruction_on_the_path_has_no_slack_and_another_says_how_much(session):
    on_path = int(session.critical().row[0])
    assert session.slack(on_path) == "none: it holds up the end"
    loose = int(session.paths.path.slack_ps.argmax())
    assert session.slack(loose).startswith("could end ~")
    with pytest.raises(IndexError):
        session.slack(len(session.trace.instructions))


def test_a_circuit_names_its_loop_its_period_and_its_stations(session):
    circuit = session.critical().circuits[0]
    assert circuit.name.startswith("affine_range at line") and "rounds of ~" in circuit.headline
    assert {"attention.py:52", "attention.py:35"} <= {place for _, place, _, _ in circuit.stations}


def test_a_what_if_is_answered_in_words_and_its_trace_opens_beside(session):
    card = session.what_if({"tensor_clock": "2x"})
    assert card.settings == "tensor_clock=2x" and card.time_words.startswith("~") and card.change.startswith("−")
    assert card.time_ps < card.before_ps == session.window[1] - session.window[0]
    other = session.supposed({"tensor_clock": "2x"})
    assert other.window[1] - other.window[0] == card.time_ps
    both = other.compared_with(session)
    assert both.warnings == ("Figures of the device were set: clock_tensor.",)
    assert sum(row.change_ps for row in both.causes) == card.time_ps - card.before_ps
    assert len(both.pairs) == session.trace.instructions.control.size - session.trace.instructions.control.sum()


def test_the_settings_of_a_trace_show_what_is_now(session):
    rows = {row.name: row for row in session.settings()}
    assert rows.keys() <= SETTINGS.keys() and rows["tensor_clock"].value == "2.40 GHz" and rows["matmul"].word == "free"


def test_a_captured_trace_refuses_what_it_cannot_know(session):
    with pytest.raises(UnsupportedError, match="sbuf"):
        Session(captured()).what_if({"sbuf": "2x"})


def test_every_card_can_be_handed_on_as_json(session):
    for card in (session.critical(), session.what_if({"hbm_bw": "2x"}), session.compared_with(Session(captured()))):
        json.dumps(card.to_json(), allow_nan=False)

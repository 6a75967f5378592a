"""What is asked of the trace of a model: its ranking, its critical path, what another machine would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import trnprof
from sim import tracefile
from sim.errors import UnsupportedError
from sim.trace import Trace
from trnprof.cli import main
from trnprof.critical import critical_path
from trnprof.ranking import rank
from trnprof.whatif import what_ifs

TINY = {
    "name": "tiny", "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trace, Trace]]:
    """A small Llama, its repeated layers in slices and in full."""
    folder = tmp_path_factory.mktemp("operators")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trnprof.models.running.cache_dir", lambda: folder)
        made = (trnprof.run_model(TINY, phase="prefill", seq=128, full=full).trace for full in (False, True))
        yield tuple(made)


def test_a_ranking_counts_the_instructions_that_rows_stand_for(traces: tuple[Trace, Trace]) -> None:
    sliced, full = (rank(trace, "opcode", None) for trace in traces)
    assert traces[0].condensed and not traces[1].condensed
    assert {one.value: (one.count, one.longest_ps) for one in sliced} == {
        one.value: (one.count, one.longest_ps) for one in full
    }


def test_the_critical_path_goes_from_operator_to_operator_and_is_refused_over_slices(
    traces: tuple[Trace, Trace], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sliced, full = (critical_path(trace) for trace in traces)
    assert full.causes["unknown"] == 0
    assert sum(full.causes.values()) == sum(sliced.causes.values()) == sliced.causes["unknown"]
    tracefile.write(traces[0], tmp_path / "sliced")
    assert main(["critical", str(tmp_path / "sliced")]) == 3
    assert "rows stand for several instructions" in capsys.readouterr().err


def test_a_what_if_emulates_the_operators_of_a_model_again(traces: tuple[Trace, Trace], tmp_path: Path) -> None:
    tracefile.write(traces[0], tmp_path / "kept")
    kept = tracefile.read(tmp_path / "kept")
    same, faster = what_ifs(kept, [{"memory_bw": "1x"}, {"memory_bw": "2x"}])
    assert same.time_ps == same.before_ps == traces[0].meta.total_ps
    assert faster.time_ps < faster.before_ps
    assert what_ifs(faster.trace, [{"memory_bw": "0.5x"}])[0].time_ps == same.time_ps
    with pytest.raises(UnsupportedError, match="matmul: only the trace of one kernel"):
        what_ifs(kept, [{"matmul": "free"}])

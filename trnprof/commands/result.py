"""What `run`, `summary` and `demo` print of a trace: one JSON object, or words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trnprof.commands.streams import columns

if TYPE_CHECKING:
    from sim.trace import Finding, Meta, Trace
    from trnprof.bounds import Verdict

REGIONS_SHOWN = 5
FINDINGS_SHOWN = 10


def record(trace: Trace) -> dict[str, Any]:
    """The JSON object of `run` and `summary`, as the contract describes it."""
    from sim.trace import ENGINE_NAMES
    from trnprof.bounds import classify
    from trnprof.summary import engines, summarize

    meta = trace.meta
    return {
        "device": meta.device,
        "is_simulation": meta.is_simulation,
        "kernel": meta.kernel,
        "latency_ns": (meta.window[1] - meta.window[0]) / 1000,
        "total_ns": meta.total_ps / 1000,
        "benchmark_ns": None if meta.benchmark_ps is None else meta.benchmark_ps / 1000,
        "summary": summarize(trace),
        "engines": {
            ENGINE_NAMES[use.engine]: {"active_ns": use.active_ps / 1000, "instructions": use.instructions}
            for use in engines(trace)
        },
        "verdicts": [asdict(verdict) for verdict in classify(trace)],
        "findings": [asdict(finding) for finding in meta.findings],
        "outputs": [dict(output) for output in meta.outputs],
        "notes": list(meta.notes),
    }


def text(trace: Trace, kept: str | None = None) -> str:
    """The verdict with its evidence, the engine table, what moved, and what was found.

    kept : where the trace lies; None when it was not written
    """
    from trnprof.bounds import classify

    verdicts = classify(trace)
    parts = [_headline(trace.meta), _verdict(verdicts[0]), _engines(trace), _figures(trace), _regions(verdicts[1:])]
    parts += [_findings(trace.meta.findings), _outputs(trace.meta), _notes(trace.meta.notes)]
    if kept:
        parts.append(f"trace      {kept}")
    return "\n\n".join(part for part in parts if part)

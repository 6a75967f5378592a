"""What to change in a kernel so that it runs faster: rules with symptom, evidence, gain and fix.

A rule speaks when its symptom is there and repairing it would save a share of the time; else it is silent. Gains are
estimates of one change alone: they do not add up. Where a what-if stands for the change and the trace can be
emulated anew, it decides; else the trace's own times do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sim.errors import TrnprofError
from sim.trace import Trace
from trnprof.advice import overlap, placement, reuse, shapes, tensor, transfers
from trnprof.advice.record import Advice, Gain
from trnprof.advice.subject import LEAST, Subject
from trnprof.whatif import WhatIf, what_ifs

RULES: dict[str, Callable[[Subject], Iterator[Advice]]] = {
    "reloads": reuse.reloads,
    "intermediates": reuse.intermediates,
    "spills": reuse.spills,
    "small_descriptors": transfers.small_descriptors,
    "many_dmas": transfers.many_dmas,
    "transposing_dma": transfers.transposing_dma,
    "exposed_loads": overlap.exposed_loads,
    "single_buffer": overlap.single_buffer,
    "engines_in_turn": overlap.engines_in_turn,
    "serial_collectives": overlap.serial_collectives,
    "low_partitions": shapes.low_partitions,
    "short_instructions": shapes.short_instructions,
    "combine": placement.combine,
    "psum_copies": placement.psum_copies,
    "table_thrash": placement.table_thrash,
    "wrong_engine": placement.wrong_engine,
    "small_products": tensor.small_products,
    "stationary_reloads": tensor.stationary_reloads,
    "matmul_mapping": tensor.matmul_mapping,
    "tensor_transposes": tensor.tensor_transposes,
    "cold_clock": tensor.cold_clock,
    "wide_dtype": tensor.wide_dtype,
}
"""By name; `Advice.rule` is one of these."""


RETIMED = 100_000
"""Instructions up to which a trace is emulated anew for the sake of an estimate."""


def advise(trace: Trace, retime: bool = True) -> list[Advice]:
    """Changes that would make a trace's kernel faster, the largest gain first; empty when no rule has a complaint.

    retime : emulate the kernel anew where that gives the gain; False takes all gains from the trace's own times
    """
    subject = Subject(trace)
    if not subject.time_ps or not subject.rows.size:
        return []
    found = [advice for rule in RULES.values() for advice in rule(subject)]
    worth = [advice for advice in found if advice.share >= LEAST]
    if retime and trace.recorded is not None and len(trace.instructions) <= RETIMED:
        worth = [advice for advice in _retimed(subject, worth) if advice.share >= LEAST]
    return sorted(worth, key=lambda advice: (-advice.gain_ps, advice.rule))


def _retimed(subject: Subject, found: list[Advice]) -> Iterator[Advice]:
    """The advice with what the emulator says of it, where a what-if stands for it."""
    asked = [advice for advice in found if advice.what_if]
    try:
        answers = what_ifs(subject.trace, [dict(advice.what_if) for advice in asked]) if asked else []
    except TrnprofError:
        # A program of another version, or one that no longer fits: the trace's own times still stand.
        yield from found
        return
    told = dict(zip(map(id, asked), answers))
    for advice in found:
        answer = told.get(id(advice))
        yield advice if answer is None else _told(subject, advice, answer)


def _told(subject: Subject, advice: Advice, answer: WhatIf) -> Advice:
    gain = max(0, answer.before_ps - answer.time_ps)
    settings = ", ".join(f"{name}={value}" for name, value in advice.what_if)
    how = f"Emulated anew with {settings}: {subject.time(answer.time_ps)} instead of {subject.time(answer.before_ps)}"
    return replace(advice, gain_ps=gain, share=gain / subject.time_ps, how=how, retimed=True)


__all__ = ["LEAST", "RULES", "Advice", "Gain", "advise"]

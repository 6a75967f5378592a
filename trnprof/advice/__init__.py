"""What to change in a kernel so that it runs faster: rules with symptom, evidence, gain and fix.

A rule speaks when its symptom is there and repairing it would save a share of the time; else it is silent. Gains are
upper estimates of one change alone: they do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sim.trace import Trace
from trnprof.advice import overlap, placement, reuse, shapes, tensor, transfers
from trnprof.advice.record import Advice, Gain
from trnprof.advice.subject import LEAST, Subject

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


def advise(trace: Trace) -> list[Advice]:
    """Changes that would make a trace's kernel faster, the largest gain first; empty when no rule has a complaint."""
    subject = Subject(trace)
    if not subject.time_ps or not subject.rows.size:
        return []
    found = [advice for rule in RULES.values() for advice in rule(subject)]
    worth = [advice for advice in found if advice.share >= LEAST]
    return sorted(worth, key=lambda advice: (-advice.gain_ps, advice.rule))


__all__ = ["LEAST", "RULES", "Advice", "Gain", "advise"]

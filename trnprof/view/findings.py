"""What a review wants to know beside the verdict, in words: advice, and what all of it rests on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sim.trace import Trace
from trnprof.advice import Advice, advise
from trnprof.machine import Machine
from trnprof.view import format as words
from trnprof.view.records import Record

MOST = 12
"""Figures that are guessed, that are listed."""


@dataclass(frozen=True, slots=True)
class AdviceCard(Record):
    """A piece of advice in words."""

    number: int
    rule: str
    title: str
    gain: str
    """`~205 µs, 8 %`"""
    share: float
    how: str
    symptom: str
    evidence: tuple[str, ...]
    names: tuple[str, ...]
    """What the profile calls the instructions that show it; of `count`."""
    rows: tuple[int, ...]
    count: int
    region: str
    place: str
    """`matmul.py:35`, empty when the trace names no lines."""
    fix: str
    reference: str


@dataclass(frozen=True, slots=True)
class Assumption(Record):
    """A number that the figures of a review rest on."""

    name: str
    value: str
    basis: str
    """documented, measured, derived, guess, what-if or captured."""
    source: str
    note: str


def advice_cards(trace: Trace, retime: bool = True) -> tuple[AdviceCard, ...]:
    """The advice on a trace, the largest gain first; see `trnprof.advice.advise`."""
    return tuple(_advice(number, advice) for number, advice in enumerate(advise(trace, retime), start=1))


def _advice(number: int, advice: Advice) -> AdviceCard:
    gain = words.estimate(words.time(advice.gain_ps), advice.estimated)
    return AdviceCard(
        number=number,
        rule=advice.rule,
        title=words.plain(advice.title, 200),
        gain=f"{gain}, {words.share(advice.share)}",
        share=advice.share,
        how=_sentence(advice.how),
        symptom=_sentence(advice.symptom),
        evidence=tuple(words.plain(sentence, 300) for sentence in advice.evidence),
        names=tuple(words.plain(name, 60) for name in advice.names),
        rows=advice.rows,
        count=advice.count,
        region=words.plain(advice.region, 120),
        place=words.place(advice.source) if advice.source else "",
        fix=_sentence(words.plain(advice.fix, 600)),
        reference=advice.reference,
    )


def assumptions(trace: Trace, roofs: Machine) -> tuple[Assumption, ...]:
    """The roofs, and of an emulated trace the figures of the device that are guesses, with their sources."""
    found = [
        Assumption(c.name, words.quantity(c.value, c.unit), c.basis, words.plain(c.source, 200), c.note)
        for c in roofs.ceilings
    ]
    table = roofs.figures
    if not trace.meta.is_simulation or table is None:
        return tuple(found)
    figures = [figure for figure in table.figures.values() if "." in figure.id]
    kinds = Counter(figure.kind for figure in figures)
    told = words.listing([f"{count} {kind}" for kind, count in kinds.most_common()])
    found.append(Assumption("timing model", words.plural(len(figures), "figure"), "mixed", told, "trnprof devices"))
    for figure in [figure for figure in figures if figure.kind == "guess"][:MOST]:
        value = f"{words.digits(figure.value)} {figure.unit}" if isinstance(figure.value, (int, float)) else "n/a"
        found.append(Assumption(figure.id, value, figure.kind, words.plain(figure.source, 200), ""))
    return tuple(found)


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."

"""Words and numbers of every screen: `trnprof.words`, and the few forms that only a timeline needs."""

from __future__ import annotations

from trnprof.words import (
    BOUND_WORDS,
    ENGINE_CODES,
    ENGINE_WORDS,
    MINUS,
    NARROW,
    NO_VERDICT,
    NOT_AVAILABLE,
    THIN,
    WORKING,
    WORKING_NOTE,
    ahead,
    bound,
    bound_name,
    count,
    delta,
    digits,
    elements,
    estimate,
    exact,
    flops,
    inert,
    intensity,
    interval,
    listing,
    moment,
    of,
    percent,
    plain,
    points,
    quantity,
    rate,
    share,
    size,
    time,
    within,
    work,
)

__all__ = [
    "BOUND_WORDS",
    "ENGINE_CODES",
    "ENGINE_WORDS",
    "MINUS",
    "NARROW",
    "NOT_AVAILABLE",
    "NO_VERDICT",
    "THIN",
    "WORKING",
    "WORKING_NOTE",
    "ahead",
    "bound",
    "bound_name",
    "count",
    "delta",
    "digits",
    "elements",
    "estimate",
    "exact",
    "flops",
    "frequency",
    "inert",
    "intensity",
    "interval",
    "level",
    "listing",
    "moment",
    "of",
    "percent",
    "place",
    "plain",
    "plural",
    "points",
    "quantity",
    "rate",
    "share",
    "size",
    "slack",
    "step_of",
    "tick",
    "ticks",
    "time",
    "within",
    "work",
]

_TICK_UNITS = (("s", 10**12, 10**11), ("ms", 10**9, 10**8), ("µs", 10**6, 10**3), ("ns", 10**3, 10), ("ps", 1, 1))
"""Unit, its ps, and the smallest step that is told in it."""


def frequency(hertz: float | None) -> str:
    """A clock: `2.40 GHz`."""
    if hertz is None:
        return NOT_AVAILABLE
    return f"{digits(hertz / 1e9)}{NARROW}GHz"


def level(value: float | None, unit: str) -> str:
    """The value of a counter: `quantity`, and Hz."""
    return frequency(value) if unit == "Hz" else quantity(value, unit)


def place(source: str) -> str:
    """A source line without its folders: `attention.py:35`."""
    return plain(source.replace("\\", "/").rpartition("/")[2] or source, 80)


def slack(ps: int) -> str:
    """How long a predecessor was done before the start: whole ns below a microsecond, as profiles resolve it."""
    return delta(ps) if abs(ps) >= 10**6 else f"{'+' if ps >= 0 else MINUS}{exact(abs(ps))}"


def plural(n: int, noun: str) -> str:
    """A count with its noun: `1 instruction`, `442 instructions`."""
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def step_of(span_ps: float, most: int) -> int:
    """The smallest 1-2-5 step, ps, that puts at most `most` ticks into a span."""
    raw = max(1.0, span_ps / max(1, most))
    step = 1
    while step < raw:
        for factor in (1, 2, 5):
            if step * factor >= raw:
                return step * factor
        step *= 10
    return step


def ticks(t0_ps: int, t1_ps: int, most: int) -> tuple[tuple[int, str], ...]:
    """Moments of a ruler and their words, one unit for all."""
    step = step_of(t1_ps - t0_ps, most)
    first = -(-t0_ps // step) * step
    return tuple((at, tick(at, step)) for at in range(int(first), int(t1_ps) + 1, step))


def tick(at_ps: int, step_ps: int) -> str:
    """A moment to the decimals that the step needs: `15 µs`, `27.5 µs`; the unit follows the step."""
    unit, scale = next((unit, scale) for unit, scale, least in _TICK_UNITS if step_ps >= least)
    decimals = 0
    while step_ps * 10**decimals % scale and decimals < 6:
        decimals += 1
    text = f"{abs(at_ps) / scale:,.{decimals}f}".replace(",", THIN)
    return f"{MINUS if at_ps < 0 else ''}{text}{NARROW}{unit}"

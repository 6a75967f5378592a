"""A piece of advice: what is wrong, how that shows, what it costs and what to write instead."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Gain:
    """Time that a change would save, and how that was found."""

    ps: int
    how: str
    """One clause: the resource that needs less, and what sets the pace then."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One change that would make the kernel faster."""

    rule: str
    """A key of `trnprof.advice.RULES`."""
    title: str
    """What to do, one line."""
    gain_ps: int
    share: float
    """The gain of the whole time, 0-1."""
    how: str
    """Where the gain is from."""
    what_if: tuple[tuple[str, str], ...]
    """Settings of `trnprof.what_if` that stand for the change; empty where none does."""
    retimed: bool
    """The gain was found by emulating the kernel anew with these settings."""
    symptom: str
    """What is seen, one sentence."""
    evidence: tuple[str, ...]
    """Sentences with the numbers and the source lines."""
    instructions: tuple[int, ...]
    """The profile's own ids of the instructions that show it, those that take longest first; of `count`."""
    rows: tuple[int, ...]
    """The same as rows of `trace.instructions`."""
    names: tuple[str, ...]
    """What the profile calls them."""
    count: int
    region: str
    """The innermost region that holds them all."""
    index: int
    """Row of `trace.regions`, -1 for the whole trace."""
    source: str | None
    """`path:line` where most of their time goes."""
    fix: str
    """In terms of NKI."""
    reference: str
    """Where the vendor says so; empty where nobody does."""
    estimated: bool

    @property
    def gain_ns(self) -> float:
        return self.gain_ps / 1000

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"gain_ns": self.gain_ns, "what_if": dict(self.what_if)}

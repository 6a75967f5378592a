"""One documented constraint: what breaks it, what just keeps it, and what the message must name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.limits.tiles import Tiles


class Limit(NamedTuple):
    """A constraint of a call.

    rule      : the sentence, in our words
    call      : the call, of which one thing is open
    bad, good : what stands there to break the constraint, and to keep it by a hair
    says      : argument | value | limit, as the message has them
    device    : whom the constraint is for
    elsewhere : a device that the good call runs on instead, for what only newer devices can do
    """

    rule: str
    call: Callable[[Tiles, Any], Any]
    bad: Any
    good: Any
    says: str
    device: str = "trn2"
    elsewhere: str | None = None

    @property
    def pieces(self) -> tuple[str, str, str]:
        argument, value, limit = self.says.split(" | ")
        return argument, value, limit


def newer(call: Callable[[Tiles], Any], what: str, older: str, least: int, newer: str) -> Limit:
    """What NeuronCores have only from a version on."""
    rule = f"{what} needs NeuronCore-v{least}"
    had = {"trn1": "NeuronCore-v2", "trn2": "NeuronCore-v3"}[older]
    return Limit(rule, lambda t, _: call(t), None, None, f"{what} | {had} | NeuronCore-v{least}", older, newer)


Table = dict[str, list[Limit]]

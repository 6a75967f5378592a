"""What an idle engine waited for, as a colour and in words."""

from __future__ import annotations

from sim.trace import Engine, Wait
from trnprof.view import format as words
from trnprof.view.palette import NEUTRAL

_CAUSES = {
    Wait.DMA: (Engine.DMA, "DMA"),
    Wait.BUFFER: (NEUTRAL, "a free buffer"),
    Wait.PORT: (NEUTRAL, "a memory port"),
    Wait.TABLE: (Engine.SCALAR, "the activation table"),
    Wait.QUEUE: (Engine.DMA, "the DMA queue"),
    Wait.BANDWIDTH: (Engine.DMA, "HBM bandwidth"),
    Wait.ISSUE: (Engine.SYNC, "the DMA trigger"),
    Wait.COLLECTIVE: (Engine.COLLECTIVE, "a collective"),
    Wait.ENGINE: (NEUTRAL, "issue"),
}


def cause(wait: int, engine: int) -> tuple[int, str]:
    """Colour and words of what was waited for, empty when unknown; `engine` of the instruction that bound the start."""
    if wait in _CAUSES and not (wait == Wait.BUFFER and engine >= 0):
        index, text = _CAUSES[Wait(wait)]
        return int(index), text
    if engine >= 0:
        name = words.ENGINE_WORDS[engine]
        return engine, f"{name}, to free a buffer" if wait == Wait.BUFFER else name
    return NEUTRAL, ""


def waiting(text: str) -> str:
    """`waits for VectorE`, from the words of a cause."""
    return f"waits for {text}" if text else "idle, cause not recorded"

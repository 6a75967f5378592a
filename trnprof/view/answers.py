"""Answers in records that are found once for a trace that is kept, and read the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sim.trace import Arrays, Trace

Answer = TypeVar("Answer")


def answer(trace: Trace, name: str, kind: Any, make: Callable[[], Answer]) -> Answer:
    """What `make` finds; `kind` is its type, of dataclasses, tuples, numbers and text."""
    if trace.store is None:
        return make()
    import msgspec

    def find() -> Arrays:
        return {"answer": np.frombuffer(msgspec.msgpack.encode(make()), np.uint8)}

    return msgspec.msgpack.decode(trace.derive(f"answer.{name}", find)["answer"].tobytes(), type=kind)


def known(trace: Trace, name: str) -> bool:
    """Whether the answer is there, so that a screen need not wait for it."""
    return trace.store is not None and trace.store.knows(f"answer.{name}")

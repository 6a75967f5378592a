"""Python's search for cyclic garbage, left out where there is none to find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ignored() -> Iterator[None]:
    """No searches within: what makes many objects that live to its end, as a launch does, and no cycles of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

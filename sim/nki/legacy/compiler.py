"""`neuronxcc.nki.compiler`: allocation objects, and directives that say how the vendor's compiler is to work."""

from __future__ import annotations

from typing import Any

from sim.nki.legacy.allocation import psum, sbuf


def skip_middle_end_transformations(func: Any = None, **options: Any) -> Any:
    """A decorator, with or without arguments, that leaves the kernel as it is."""
    return func if func is not None else lambda kernel: kernel


def enable_stack_allocator(func: Any = None, log_level: int = 50, **options: Any) -> Any:
    return skip_middle_end_transformations(func)


def force_auto_alloc(func: Any = None, **options: Any) -> Any:
    return skip_middle_end_transformations(func)


class allocation_scope:
    """A directive that is a value, and may be a `with` block."""

    def __enter__(self) -> allocation_scope:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


class no_reorder(allocation_scope):
    """The instructions within stay in order in the vendor's compiler."""


class multi_buffer(allocation_scope):
    """As many places for a tile of a loop, in the vendor's compiler."""

    def __init__(self, factor: int = 2):
        self.factor = factor


__all__ = [
    "allocation_scope",
    "enable_stack_allocator",
    "force_auto_alloc",
    "multi_buffer",
    "no_reorder",
    "psum",
    "sbuf",
    "skip_middle_end_transformations",
]

"""`neuronxcc.nki.compiler`: allocation objects, and directives that say how the vendor's compiler is to work."""

from __future__ import annotations

from typing import Any

from sim.nki.legacy.allocation import psum, sbuf


def _directive(function: Any = None, **options: Any) -> Any:
    """A decorator, with or without arguments, that leaves the kernel as it is."""
    return function if function is not None else lambda kernel: kernel


skip_middle_end_transformations = _directive
enable_stack_allocator = _directive
force_auto_alloc = _directive


class _Scope:
    """A directive that is a value, and may be a `with` block."""

    def __init__(self, *args: Any, **options: Any):
        self.args = args

    def __enter__(self) -> _Scope:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


no_reorder = _Scope
multi_buffer = _Scope
allocation_scope = _Scope

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

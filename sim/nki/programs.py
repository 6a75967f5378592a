"""What a kernel asks about its launch, and what it says to the compiler and to the host."""

from __future__ import annotations

from typing import Any

from sim.errors import InputError
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor


def program_id(axis: int = 0) -> int:
    """Place of this program in the launch grid."""
    return _along("program_id", builder().program, axis) if builder().grid else 0


def num_programs(axes: Any = 0) -> int:
    """Programs along one or more axes of the launch grid, 1 without one."""
    count, grid = 1, builder().grid
    for axis in (axes if isinstance(axes, (tuple, list)) else (axes,)) if grid else ():
        count *= _along("num_programs", grid, axis)
    return count


def _along(call: str, values: tuple[int, ...], axis: Any) -> int:
    if not isinstance(axis, int) or not 0 <= axis < len(values):
        raise InputError(f"nl.{call}: axis: {axis!r} of a launch grid of {len(values)} axes", source=builder().where())
    return int(values[axis])


def program_ndim() -> int:
    """Axes of the launch grid, 0 without one."""
    return len(builder().grid)


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a tensor's values now, as the vendor's simulator does; without values, its shape."""
    if not isinstance(print_prefix, str):
        raise InputError(f"nl.device_print: print_prefix: {print_prefix!r} is no string", source=builder().where())
    if not isinstance(tensor, NkiTensor):
        raise InputError(f"nl.device_print: tensor: {tensor!r} is no tensor", source=builder().where())
    print(print_prefix, tensor.array() if builder().values else tensor)


class no_reorder:
    """`with nl.no_reorder():` keeps the instructions of each engine in program order, whatever could go first."""

    def __enter__(self) -> None:
        self._first = len(builder())

    def __exit__(self, *exc: Any) -> None:
        builder().keep_order(self._first)

"""`tile[...] = value` and `tile[...] += value`: written in place wherever the real compiler does so.

A legacy call returns a new tile, and an assignment stores it. No copy is made when nothing but the assignment can see
the tile: the instruction that made it is given the assignment's target as its destination.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sim.engines.tensor import MATMUL
from sim.errors import InputError, UnsupportedError
from sim.memory import PARTITIONS
from sim.nki import isa
from sim.nki.isa.issuing import QUADRANT
from sim.nki.legacy.operands import Cut, Result, in_sbuf, operand
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Memory


class _Probe:
    """Counts the references of a value that only an assignment or an augmented assignment sees."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self.seen = sys.getrefcount(value)

    def __iadd__(self, value: Any) -> _Probe:
        self.seen = sys.getrefcount(value)
        return self


_probe = _Probe()
_probe[0] = object()
ASSIGNED = _probe.seen
"""References to the value of `tile[...] = f()` as `__setitem__` sees them."""
_probe += object()
ADDED = _probe.seen
"""The same for `tile += f()`."""

_HELD = 4
"""References to the storage of such a value: the program's list, the tile, the instruction's operand, the question."""


def assign(target: Tile, value: Any, references: int) -> None:
    """Write a tile, or a number to every element, into a view.

    references : what `sys.getrefcount(value)` gave in `__setitem__`
    """
    value = operand(value, "assignment")
    if not isinstance(value, Tile):
        _fill(target, value)
    elif not target.has_place_of(value):
        alone = references <= ASSIGNED and sys.getrefcount(value.storage) <= _HELD
        _store(target, value, alone)


def write(target: Tile, value: NkiTensor) -> None:
    """Store a result that nobody else will see, within a call made of several instructions."""
    _store(target, Tile.of(value), True)


def _fill(target: Tile, value: Any) -> None:
    from sim.nki.legacy.moves import store

    if not isinstance(value, (int, float, bool, np.ndarray)) or np.ndim(value):
        raise InputError(f"cannot assign a {type(value).__name__} to `{target.name}`", source=builder().where())
    target.check("assignment")
    if target.layout.memory is Memory.HBM:
        store(target, value)
    elif starts_legally(target):
        isa.memset(target, value)
        _holds(target)
    else:
        filled = Result(target.shape, target.dtype).part()
        isa.memset(filled, value)
        isa.dma_copy(target, filled)


def starts_legally(view: Tile) -> bool:
    """Whether engines can access a view at its first partition; DMA engines can access any."""
    pitch, count = view.layout.pitch, view.layout.partitions
    step = QUADRANT if count <= QUADRANT else 2 * QUADRANT if count <= 2 * QUADRANT else PARTITIONS
    return view.offset // pitch % step == 0


def _holds(target: Tile) -> None:
    """PSUM that something was written to: a matmul added to it later accumulates."""
    if target.layout.memory is Memory.PSUM:
        _regions(target, False)


def _regions(target: Tile, accumulate: bool) -> bool:
    """Whether a matmul adds to what this part of PSUM holds; remembers that it holds something from now on."""
    if accumulate:
        return builder().accumulates(target)
    builder().accumulates(target, asked=False)
    return False


def _store(target: Tile, value: Tile, alone: bool) -> None:
    if value.reduction is not None:
        _reduce_into(target, value)
        return
    target, value = _fitted(target, value)
    if value is None:
        return
    if Memory.HBM in (target.layout.memory, value.layout.memory):
        from sim.nki.legacy.moves import load_into, store

        store(target, value) if target.layout.memory is Memory.HBM else load_into(target, value)
        return
    if alone and _redirected(builder(), target, value):
        return
    if starts_legally(target) and starts_legally(value):
        isa.tensor_copy(target, value)
        _holds(target)
    else:
        isa.dma_copy(target, in_sbuf(value))


def _fitted(target: Tile, value: Tile) -> tuple[Tile, Tile | None]:
    """Both sides under the value's mask, in one shape; no value when the mask left nothing."""
    if value.kept is not None:
        if any(first >= last for first, last in value.kept):
            return target, None
        if target.shape != value.shape:
            target = _reshaped(target, value)
        target, value = target.box(value.kept), value.box(value.kept)
    target.check("assignment")
    value.check("assignment")
    if target.shape == value.shape:
        return target, value
    if target.size == value.size:
        return target, value if value.layout.pitch and value.shape[0] == target.shape[0] else value.reshape(
            target.shape
        )
    return target, _spread(target, value)


def _reshaped(target: Tile, value: Tile) -> Tile:
    try:
        return target.reshape(value.shape)
    except InputError:
        raise _mismatch(target, value) from None


def _spread(target: Tile, value: Tile) -> Tile:
    """A smaller value repeated over the target."""
    wanted, have = target.shape, value.shape
    if len(have) < len(wanted):
        value = value.reshape((have[0], *(1,) * (len(wanted) - len(have)), *have[1:]))
        have = value.shape
    if len(have) != len(wanted) or any(h not in (1, w) for h, w in zip(have, wanted)):
        raise _mismatch(target, value)
    return value.broadcast_to(wanted)


def _mismatch(target: Tile, value: Tile) -> InputError:
    return InputError(
        f"cannot assign shape {list(value.shape)} to `{target.name}` {list(target.shape)}", source=builder().where()
    )


def _redirected(program: ProgramBuilder, target: Tile, value: Tile, accumulate: bool = False) -> bool:
    """Let the instruction that made the value write the target instead."""
    made_by = program.maker(value.storage)
    if made_by is None:
        return False
    static = None
    if made_by.op is MATMUL:
        if target.layout.memory is not Memory.PSUM:
            return False
        program.forget(value.storage)
        static = (_regions(target, accumulate), *made_by.static[1:])
    elif accumulate:
        return False
    if not program.redirect(made_by, value.storage, target, static):
        return False
    if static is None:
        _holds(target)
    return True


def _reduce_into(target: Tile, value: Tile) -> None:
    """`tile[...] = nl.loop_reduce(x, op)`: the tile itself is the running result."""
    op, mask = value.reduction
    x = Tile(value.storage, value.layout, value.offset, value.indirection, value.bounds)
    part = Cut("nl.loop_reduce", mask, target.shape, target, x)
    if not part.empty:
        into, x = part.operands
        isa.tensor_tensor(into, into, _other_memory(into, x), op)


def _other_memory(target: Tile, x: Tile) -> Tile:
    """The Vector Engine reads at most one operand from PSUM."""
    return in_sbuf(x) if target.layout.memory is Memory.PSUM else x


def add_in_place(target: Tile, value: Any, references: int) -> Tile:
    """`tile += value`: a matmul accumulates in PSUM, anything else is added on the Vector Engine."""
    value = operand(value, "addition")
    target.check("addition")
    if not isinstance(value, Tile):
        isa.tensor_scalar(target, target, _add(), value)
        return target
    alone = references <= ADDED and sys.getrefcount(value.storage) <= _HELD
    into, value = _fitted(target, value)
    if value is None:
        return target
    in_psum = into.layout.memory is Memory.PSUM
    if in_psum and alone and _redirected(builder(), into, value, accumulate=True):
        return target
    if in_psum and not builder().accumulates(into):
        isa.memset(into, 0.0)
    isa.tensor_tensor(into, into, _other_memory(into, value), _add())
    return target


def _add() -> Any:
    from sim.nki.legacy import functions

    return functions.FUNCTIONS["add"]

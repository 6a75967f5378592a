"""Loops of the legacy API, and the reduction over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from sim.errors import InputError
from sim.nki import isa
from sim.nki.legacy.allocation import Buffer
from sim.nki.legacy.index import LoopIndex
from sim.nki.legacy.operands import elementwise, in_sbuf, tile
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.program import ProgramBuilder
from sim.trace import RegionKind


def _loop(kind: str, bounds: tuple[Any, ...]) -> Iterator[LoopIndex]:
    program = builder()
    try:
        numbers = range(*[int(bound) for bound in bounds])
    except (TypeError, ValueError) as error:
        raise InputError(f"nl.{kind}{bounds}: {error}", source=program.where()) from None
    return _iterate(program, kind, program.here(), numbers)


def _iterate(program: ProgramBuilder, kind: str, source: int, numbers: range) -> Iterator[LoopIndex]:
    line = (program.strings[source] or "").rsplit(":", 1)[-1]
    loops = _open.setdefault(program, [])
    loop = _Loop() if kind != "static_range" else None
    with program.inside(RegionKind.LOOP, f"{kind} at line {line}", source):
        for number in numbers:
            program.iterations.begin()
            index = LoopIndex(number)
            index.first = number == numbers.start
            if loop is not None:
                loop.begin(index.first)
                loops.append(loop)
            try:
                yield index
            finally:
                if loop is not None:
                    loops.remove(loop)


class _Loop:
    """An open loop whose body the vendor's compiler traces once.

    buffers : allocations of the first iteration, by place in the code and how often it has been passed
    """

    __slots__ = ("buffers", "first", "passed")

    def __init__(self) -> None:
        self.buffers: dict[tuple, Buffer] = {}
        self.first = True
        self.passed: dict[Any, int] = {}

    def begin(self, first: bool) -> None:
        self.first = first
        self.passed = {}

    def key(self, site: Any) -> tuple:
        self.passed[site] = self.passed.get(site, 0) + 1
        return site, self.passed[site]


_open: WeakKeyDictionary[ProgramBuilder, list[_Loop]] = WeakKeyDictionary()


def traced_once(buffer: Buffer, site: Any) -> Buffer:
    """The buffer that a tensor made in a loop has in every iteration.

    Kernels compute addresses with Python counters. The vendor's compiler runs a loop's body once, so a tensor keeps the
    address of the first iteration, although here the counter goes on.
    """
    found = None
    loops = _open.get(builder(), [])
    keys = [(loop, loop.key(site)) for loop in loops]
    for loop, key in keys:
        if not loop.first and found is None:
            found = loop.buffers.get(key)
    chosen = found or buffer
    for loop, key in keys:
        loop.buffers.setdefault(key, chosen)
    return chosen


def affine_range(*bounds: Any, precise_schedule: bool = False, directives: Any = None) -> Iterator[LoopIndex]:
    """Numbers of a loop without dependence between its iterations."""
    return _loop("affine_range", bounds)


def sequential_range(*bounds: Any, precise_schedule: bool = False, directives: Any = None) -> Iterator[LoopIndex]:
    """Numbers of a loop whose iterations depend on those before."""
    return _loop("sequential_range", bounds)


def static_range(*bounds: Any, precise_schedule: bool = False, directives: Any = None) -> Iterator[LoopIndex]:
    """Numbers of a loop that the compiler unrolls."""
    return _loop("static_range", bounds)


def loop_reduce(
    x: Any, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, name: str | None = None
) -> Tile:
    """The running result of `op` over loops: what the destination held, op x; x itself in the first iteration.

    The destination is the tile that the result is assigned to, or the name that it is bound to.
    """
    source = tile(x, "nl.loop_reduce", "x")
    indices = loop_indices if isinstance(loop_indices, (tuple, list)) else (loop_indices,)
    kind = source.dtype if dtype is None else dtype
    frame = sys._getframe(1)
    site = (frame.f_code, frame.f_lasti)
    if all(getattr(index, "first", index == 0) for index in indices):
        result = elementwise("nl.loop_reduce", isa.tensor_copy, source, mask=mask, dtype=kind)
    else:
        bound = frame.f_locals.values()
        before = next((value for value in bound if isinstance(value, Tile) and value.site == site), None)
        if before is None:
            return _waiting(source, op, mask)
        result = elementwise("nl.loop_reduce", _combining(op), source, before, mask=mask, dtype=kind)
    result.site = site
    return result


def _combining(op: Any) -> Callable[[Tile, Tile, Tile], None]:
    def issue(dst: Tile, data: Tile, before: Tile) -> None:
        isa.tensor_tensor(dst, before, in_sbuf(data), op)

    return issue


def _waiting(source: Tile, op: Any, mask: Any) -> Tile:
    """A result that is made when it is assigned: only then is it known what it adds to."""
    result = Tile(source.storage, source.layout, source.offset, source.indirection, source.bounds)
    result.reduction = (op, mask)
    return result

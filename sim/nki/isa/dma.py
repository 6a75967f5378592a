"""`nki.isa` calls that the DMA engines carry out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.engines import dma as engines
from sim.errors import InputError
from sim.memory import View
from sim.nki import functions
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, check_dtype, issue_idle, issue_transfer, member, no_tensor
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.program import Op, ProgramBuilder

PRIORITIES = range(4)
PRIORITY_GENERATION = 4


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: Any = enums.oob_mode.error,
    dge_mode: Any = enums.dge_mode.unknown,
    engine: Any = enums.engine.unknown,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = src between HBM and SBUF; with `vector_offset` on one side, a gather or a scatter of rows."""
    program = builder()
    check_dtype(dtype)
    _check_priority(program, "dma_copy", priority)
    operands, indirect = _indirect(program, engines.COPY, dst, src)
    static = (
        member(dge_mode, enums.dge_mode, "dma_copy", "dge_mode"),
        member(engine, enums.engine, "dma_copy", "engine"),
        indirect,
    )
    if member(oob_mode, enums.oob_mode, "dma_copy", "oob_mode") != "skip":
        return issue_transfer(program, engines.COPY, operands, static, name)
    if any(side.indirection is not None and side.indirection.outside for side in (dst, src)):
        return issue_idle(program, engines.COPY, operands, static, name)
    return issue_transfer(program, engines.COPY, operands, static, name, skip=True)


def _check_priority(program: ProgramBuilder, call: str, priority: int | None) -> None:
    if priority is None:
        return
    if program.device.generation < PRIORITY_GENERATION:
        fault = f"needs NeuronCore-v{PRIORITY_GENERATION} or newer"
    elif priority not in PRIORITIES:
        fault = "must be 0 to 3"
    else:
        return
    raise InputError(f"nki.isa.{call}: priority: {priority}, {fault}", source=program.where())


def _indirect(
    program: ProgramBuilder, op: Op, dst: NkiTensor, src: NkiTensor
) -> tuple[tuple[View, ...], engines.Gather | None]:
    """The operands of a transfer. An indexed side becomes its whole tensor, as any of its rows may be meant."""
    for place, view in enumerate((dst, src)):
        if not isinstance(view, NkiTensor):
            raise no_tensor(op, (dst, src), program)
        if view.indirection is not None and view.indirection.vector:
            other = src if place == 0 else dst
            if other.indirection is not None and other.indirection.vector:
                raise InputError(f"{op.call}: dst and src both have a vector_offset", source=program.where())
            gather = engines.Gather(place, view.layout, view.offset, view.indirection.stride)
            whole = NkiTensor(view.storage, view.storage.layout, 0)
            pair = (whole, src) if place == 0 else (dst, whole)
            return (*pair, view.indirection.view), gather
    return (dst, src), None


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: Any = enums.dge_mode.unknown,
    oob_mode: Any = enums.oob_mode.error,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = src with its dimensions permuted: (1, 0), (2, 1, 0) or (3, 1, 2, 0); rows of src may be gathered."""
    program = builder()
    check_dtype(dtype)
    _check_priority(program, "dma_transpose", priority)
    operands, indirect = _indirect(program, engines.TRANSPOSE, dst, src)
    order = tuple(map(int, axes)) if axes is not None else engines.AXES.get(len(src.shape), ())
    mode = member(dge_mode, enums.dge_mode, "dma_transpose", "dge_mode")
    skip = member(oob_mode, enums.oob_mode, "dma_transpose", "oob_mode") == "skip"
    if skip and src.indirection is None:
        fault = "nki.isa.dma_transpose: oob_mode: skip, must be error for a src without indices"
        raise InputError(fault, source=program.where())
    return issue_transfer(program, engines.TRANSPOSE, operands, (order, mode, indirect), name, skip=skip)


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: Any = enums.oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """dst = sum of srcs, in fp32 inside the DMA engines; with a `vector_offset`, read-modify-write of indexed rows."""
    program = builder()
    if not unique_indices:
        raise InputError("nki.isa.dma_compute: unique_indices: False is not supported yet", source=program.where())
    operands, indirect = _indirect_sum(program, dst, tuple(srcs))
    op = functions.alu(reduce_op, "dma_compute", "reduce_op")
    static = (op, tuple(float(scale) for scale in scales or ()), indirect)
    skip = member(oob_mode, enums.oob_mode, "dma_compute", "oob_mode") == "skip"
    return issue_transfer(program, engines.COMPUTE, operands, static, name, skip=skip)


def _indirect_sum(
    program: ProgramBuilder, dst: NkiTensor, srcs: tuple[NkiTensor, ...]
) -> tuple[tuple[View, ...], engines.GatherAdd | None]:
    """Operands in the order that `GatherAdd.add` takes: dst, plain side, indexed tensor, indices."""
    for view in (dst, *srcs):
        if not isinstance(view, NkiTensor):
            raise no_tensor(engines.COMPUTE, (dst, *srcs), program)
    indexed = [view for view in srcs if view.indirection is not None and view.indirection.vector]
    if not indexed:
        return (dst, *srcs), None
    if len(srcs) != 2 or len(indexed) != 1:
        raise InputError(
            f"nki.isa.dma_compute: srcs: {len(srcs)} tensors with {len(indexed)} vector_offset, must be 2 with 1",
            source=program.where(),
        )
    view, plain = indexed[0], next(src for src in srcs if src is not indexed[0])
    place = 0 if dst.indirection is not None and dst.indirection.vector else 1
    gather = engines.GatherAdd(place, view.layout, view.offset, view.indirection.stride)
    whole = NkiTensor(view.storage, view.storage.layout, 0)
    target = NkiTensor(dst.storage, dst.storage.layout, 0) if place == 0 else dst
    return (target, plain, whole, view.indirection.view), gather

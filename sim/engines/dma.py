"""Transfers: copies, transposes and sums that the DMA engines make between HBM and SBUF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.memory import PARTITIONS, Layout, storage_dtype
from sim.program import Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory

REACHABLE = (Memory.HBM, Memory.SBUF)
UNKNOWN = "unknown"
TRANSPOSED_FREE, TRANSPOSED_ROWS = 128, 16
MAX_SOURCES = 16
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The permutation of dma_transpose for each number of dimensions."""


def trigger(device: Device, mode: str, engine: str, gathers: bool) -> tuple[str, Engine]:
    """(descriptor kind, engine that starts the transfer).

    Unknown: hardware descriptors from SyncE where the device has them, software ones for a gather, else static.
    """
    hardware = device.generation > laws.SHARING_GENERATION
    if mode == "hwdge" and not hardware:
        fail(f"dge_mode: hwdge needs NeuronCore-v3 or newer, {device.name} has {device.neuroncore}")
    if gathers:
        if mode not in (UNKNOWN, "swdge"):
            fail(f"dge_mode: {mode}, a vector_offset needs swdge")
        return "sw", Engine.GPSIMD
    if mode == "swdge":
        return "sw", Engine.GPSIMD
    if engine != UNKNOWN:
        return _asked_for(mode, engine, hardware)
    return ("static", Engine.SYNC) if mode == "none" or not hardware else ("hw", Engine.SYNC)


def _asked_for(mode: str, engine: str, hardware: bool) -> tuple[str, Engine]:
    checks.one_of("engine", engine, ("sync", "scalar", "gpsimd"))
    wanted = Engine[engine.upper()]
    if wanted is Engine.GPSIMD:
        return "sw", wanted
    return ("static" if mode == "none" or not hardware else "hw"), wanted


def describe_copy(device: Device, layouts: tuple[Layout, ...], mode: str, engine: str, indirect: Any) -> Form:
    """indirect : None, or `Gather`: then the last operand holds the indices"""
    dst, src = layouts[:2]
    _reach(("dst", dst), ("src", src))
    if indirect is not None:
        check_index(("dst", "src")[indirect.place], layouts[indirect.place], layouts[2], indirect.layout.shape[0])
    moved = (dst, src) if indirect is None else indirect.sides(dst, src)
    count = moved[1].nbytes // moved[1].itemsize
    if moved[0].nbytes // moved[0].itemsize != count:
        fail(f"dst: {moved[0].nbytes // moved[0].itemsize} elements, src has {count}", _shapes(*moved))
    if dtypes.PACKED & {dst.dtype, src.dtype}:
        checks.same_dtype("src", src, "dst", dst)
    if mode == "hwdge" and dst.dtype != src.dtype:
        checks.same_dtype("src", src, "dst", dst)
    started = trigger(device, mode, engine, indirect is not None)
    return _form("dma_copy", device, layouts, moved, started, laws.descriptors(*moved), 1)


def check_index(name: str, whole: Layout, index: Layout, rows: int) -> None:
    """A tensor in HBM of which an index in SBUF names the rows, one a partition."""
    if whole.memory is not Memory.HBM:
        fail(f"{name}: vector_offset into a tensor in {whole.memory.name}, must be in HBM")
    checks.tile(f"{name}: vector_offset", index, checks.SBUF)
    checks.dtype_in(f"{name}: vector_offset", index, (dtypes.uint32, dtypes.int32))
    if index.partitions * index.elements < rows:
        fail(f"{name}: vector_offset of shape {list(index.shape)}, must have {rows} indices")


def _shapes(dst: Layout, src: Layout) -> str:
    return f"shapes dst {list(dst.shape)}, src {list(src.shape)}"


def _reach(*operands: tuple[str, Layout]) -> None:
    for name, layout in operands:
        if layout.memory not in REACHABLE:
            remedy = "copy it to SBUF first" if layout.memory is Memory.PSUM else None
            fail(f"{name}: a tile in {layout.memory.name}, must be in HBM or SBUF", remedy)
        if layout.memory is not Memory.HBM:
            checks.tile(name, layout, REACHABLE)


def _form(
    call: str,
    device: Device,
    layouts: tuple[Layout, ...],
    moved: tuple[Layout, ...],
    started: tuple[str, Engine],
    pieces: int,
    efficiency: float,
) -> Form:
    dst, *srcs = moved
    cost, dma = laws.dma(device, dst, tuple(srcs), started, pieces, efficiency)
    roles = (Role.WRITE,) + (Role.READ,) * (len(layouts) - 1)
    elements = dst.nbytes // dst.itemsize // max(1, dst.partitions)
    return laws.form(call, started[1], "DMA_DIRECT2D", roles, layouts, cost, elements=elements, dma=dma)


def compute_copy(arrays: list[np.ndarray], mode: str, engine: str, indirect: Any, skip: bool = False) -> None:
    if indirect is not None:
        indirect.move(arrays, skip)
        return
    dst, src = arrays
    values.put(dst, src)


@dataclass(frozen=True, slots=True)
class Gather:
    """A transfer whose rows one side finds by index.

    place  : 0 when dst is scattered to, 1 when src is gathered from
    layout : the pattern of one row (its first dimension counts the indices)
    offset : bytes to the first element
    stride : bytes that one unit of the index moves
    """

    place: int
    layout: Layout
    offset: int
    stride: int

    def sides(self, dst: Layout, src: Layout) -> tuple[Layout, Layout]:
        """What moves, instead of the whole tensor that the index may reach."""
        return (self.layout, src) if self.place == 0 else (dst, self.layout)

    def rows(self, base: np.ndarray, index: int) -> np.ndarray | None:
        """The elements that one index names, None when they lie outside the tensor."""
        start = self.offset + index * self.stride
        shape, strides = self.layout.shape[1:], self.layout.strides[1:]
        end = start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + self.layout.itemsize
        if start < 0 or end > base.nbytes:
            return None
        return np.ndarray(shape, storage_dtype(self.layout.dtype), base, start, strides)

    def move(self, arrays: list[np.ndarray], skip: bool) -> None:
        """Copy row by row; an index outside the tensor is skipped, or an error."""
        base, other = arrays[self.place], arrays[1 - self.place]
        indices = arrays[2].reshape(-1)[: self.layout.shape[0]].tolist()
        table = values.raw(other)
        for row, index in enumerate(indices):
            found = self.rows(base, int(index))
            if found is None:
                if skip:
                    continue
                name = ("dst", "src")[self.place]
                fail(f"{name}: index {index} of partition {row} reaches outside the tensor", "oob_mode.skip ignores it")
            if self.place == 0:
                values.put(found, table[row])
            else:
                dtypes.store(table[row], np.ascontiguousarray(found).reshape(-1))
        if self.place == 1 and not np.shares_memory(table, other):
            other[...] = table.reshape(other.shape)


def describe_transpose(
    device: Device, layouts: tuple[Layout, ...], axes: tuple[int, ...], mode: str, indirect: Any
) -> Form:
    dst, src = layouts[:2]
    _reach(("dst", dst), ("src", src))
    source = src if indirect is None else indirect.layout
    # "none" stands in the list of modes of the reference but not among the valid ones; public kernels pass it.
    checks.one_of("dge_mode", mode, (UNKNOWN, "hwdge", "none") if indirect is None else (UNKNOWN, "swdge"))
    checks.same_dtype("src", src, "dst", dst)
    ndim = len(source.shape)
    if AXES.get(ndim) != axes:
        known = ", ".join(map(str, AXES.values()))
        fail(f"axes: {axes} for a src of {ndim} dimensions, must be one of {known} with as many dimensions")
    turned = tuple(source.shape[axis] for axis in axes)
    if _squeezed(dst.shape) != _squeezed(turned):
        fail(f"dst: shape {list(dst.shape)}, the transpose of src has {list(turned)}")
    if indirect is not None or mode == "hwdge":
        _check_generated(source)
    if indirect is not None:
        checks.generation(device, 3, "src: vector_offset")
        check_index("src", src, layouts[2], source.shape[0])
        _check_gathered(source, layouts[2])
    elif mode == "hwdge":
        _check_hardware(source)
    started = trigger(device, mode, UNKNOWN, indirect is not None)
    on_chip = source.memory is Memory.SBUF and dst.memory is Memory.SBUF
    efficiency = device.get("dma_transpose_eff_sbuf" if on_chip else "dma_transpose_eff")
    pieces = laws.descriptors(source, source) if efficiency else source.nbytes // source.itemsize
    return _form("dma_transpose", device, layouts, (dst, source), started, pieces, efficiency or 1)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _check_generated(source: Layout) -> None:
    """Limits of the transposes whose descriptors the device generates."""
    if source.itemsize != dtypes.bfloat16.itemsize:
        fail(f"src: dtype {checks.dtype_name(source.dtype)}, a generated transpose moves 2-byte elements")
    if source.shape[-1] > TRANSPOSED_FREE:
        fail(f"src: last dimension {source.shape[-1]} > {TRANSPOSED_FREE}")


def _check_gathered(source: Layout, index: Layout) -> None:
    """Limits of a transpose whose rows an index names."""
    rows, (partitions, *columns) = source.shape[0], index.shape
    if rows % TRANSPOSED_ROWS:
        fail(f"src: first dimension {rows} is no multiple of {TRANSPOSED_ROWS}")
    if len(source.shape) == 4 and 1 not in source.shape[1:3]:
        fail(f"src: shape {list(source.shape)}, dimension 1 or 2 must be 1")
    checks.dtype_in("src: vector_offset", index, (dtypes.uint32,))
    if len(columns) != 1:
        fail(f"src: vector_offset of shape {list(index.shape)}, must have 2 dimensions")
    if columns[0] > 1 and partitions != PARTITIONS:
        fail(f"src: vector_offset of shape {list(index.shape)}, must have {PARTITIONS} partitions for several columns")
    if partitions % TRANSPOSED_ROWS:
        fail(f"src: vector_offset of {partitions} partitions, must be a multiple of {TRANSPOSED_ROWS}")


def _check_hardware(source: Layout) -> None:
    """Limits of a transpose whose descriptors the hardware makes."""
    rows = source.shape[0]
    if len(source.shape) == 2:
        if rows != TRANSPOSED_ROWS:
            fail(f"src: first dimension {rows}, a hwdge transpose of 2 dimensions needs {TRANSPOSED_ROWS}")
        return
    checks.one_of("src: first dimension", rows, (1, 2, 4, 8, 16))
    if rows * source.shape[-2] % TRANSPOSED_ROWS:
        fail(f"src: shape {list(source.shape)}, first x last but one must be a multiple of {TRANSPOSED_ROWS}")


def compute_transpose(
    arrays: list[np.ndarray], axes: tuple[int, ...], mode: str, indirect: Any, skip: bool = False
) -> None:
    dst, src = arrays[:2]
    if indirect is None:
        values.put(dst, np.ascontiguousarray(src.transpose(axes)))
        return
    gathered = np.zeros(indirect.layout.shape, src.dtype)
    columns = np.ascontiguousarray(arrays[2].T)
    indirect.move([gathered, src, columns], skip)
    values.put(dst, np.ascontiguousarray(gathered.transpose(axes)))


def describe_compute(
    device: Device, layouts: tuple[Layout, ...], reduce_op: str, scales: tuple[float, ...], indirect: Any
) -> Form:
    dst, *srcs = layouts
    if indirect is not None:
        srcs.pop()
    _reach(("dst", dst), *((f"srcs[{i}]", layout) for i, layout in enumerate(srcs)))
    checks.one_of("reduce_op", reduce_op, ("add",))
    if not 1 <= len(srcs) <= MAX_SOURCES:
        fail(f"srcs: {len(srcs)} tensors, must be 1 to {MAX_SOURCES}")
    if any(scale != 1 for scale in scales):
        fail(f"scales: {list(scales)}, every scale must be 1.0")
    if scales and len(scales) != len(srcs):
        fail(f"scales: {len(scales)} numbers, must be {len(srcs)}, one for each of srcs")
    if indirect is not None:
        check_index("srcs", srcs[1], layouts[-1], indirect.layout.shape[0])
        checks.tile("srcs", srcs[0], (Memory.SBUF,))
    moved = (dst, *srcs) if indirect is None else indirect.moved(dst, srcs)
    count = moved[0].nbytes // moved[0].itemsize
    for number, layout in enumerate(moved[1:]):
        if layout.nbytes // layout.itemsize != count:
            fail(f"srcs[{number}]: {layout.nbytes // layout.itemsize} elements, dst has {count}")
    started = ("static", Engine.SYNC) if indirect is None else ("sw", Engine.GPSIMD)
    pieces = sum(laws.descriptors(moved[0], layout) for layout in moved[1:])
    return _form("dma_compute", device, layouts, moved, started, pieces, device["dma_compute_eff"])


@values.quiet
def compute_compute(
    arrays: list[np.ndarray], reduce_op: str, scales: tuple[float, ...], indirect: Any, skip: bool = False
) -> None:
    if indirect is not None:
        indirect.add(arrays, skip)
        return
    dst, *srcs = arrays
    total = dtypes.to_fp32(srcs[0]).reshape(dst.shape)
    for src in srcs[1:]:
        total = total + dtypes.to_fp32(src).reshape(dst.shape)
    values.put(dst, total)


class GatherAdd(Gather):
    """Read-modify-write of indexed rows: dst[index] += src (scatter), or dst += src[index] (gather)."""

    __slots__ = ()

    def moved(self, dst: Layout, srcs: list[Layout]) -> tuple[Layout, ...]:
        plain = srcs[0]
        return (self.layout, self.layout, plain) if self.place == 0 else (dst, dst, self.layout)

    def add(self, arrays: list[np.ndarray], skip: bool) -> None:
        """arrays : dst, the plain side, the indexed tensor, the indices"""
        dst, plain, base, index = arrays
        for row, number in enumerate(index.reshape(-1)[: self.layout.shape[0]].tolist()):
            found = self.rows(base, int(number))
            if found is None:
                if skip:
                    continue
                fail(f"srcs: index {number} of partition {row} reaches outside the tensor", "oob_mode.skip ignores it")
            target, held, addend = (found, found, plain[row]) if self.place == 0 else (dst[row], plain[row], found)
            values.put(target, dtypes.to_fp32(held) + dtypes.to_fp32(addend).reshape(held.shape))


COPY = Op("nki.isa.dma_copy", describe_copy, compute_copy)
TRANSPOSE = Op("nki.isa.dma_transpose", describe_transpose, compute_transpose)
COMPUTE = Op("nki.isa.dma_compute", describe_compute, compute_compute)

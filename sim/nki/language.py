"""`nki.language`: tensors, moves, loops and constants of the current generation (NKI 0.3 to 0.7).

The elementwise, reduction and composite functions live in `sim.nki.elementwise` and `sim.nki.reductions`; they are
wrappers that allocate a destination tile and issue `nki.isa` instructions, as the vendor's own are.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from operator import index as as_int
from typing import Any, SupportsFloat

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.memory import PARTITIONS
from sim.nki import isa
from sim.nki.elementwise import *  # noqa: F403
from sim.nki.elementwise import FUNCTIONS, broadcast_partitions
from sim.nki.functions import AluOp
from sim.nki.grids import NkiBlockGrid, NkiGrid, NkiTileGrid, alloc_blocks, alloc_tiles, blocks, tiles
from sim.nki.limits import TileSize
from sim.nki.loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    sequential_range,
    static_range,
    while_loop,
)
from sim.nki.objects import NKIObject
from sim.nki.programs import device_print, no_reorder, num_programs, program_id, program_ndim
from sim.nki.reductions import *  # noqa: F403
from sim.nki.session import builder
from sim.nki.tensor import DynamicSlice, MemoryRegion, NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Memory

DType = str
"""For annotations: the reference calls a dtype a string."""
bool_ = dtypes.parse("bool_")
int8, int16, int32 = (dtypes.parse(name) for name in ("int8", "int16", "int32"))
uint8, uint16, uint32 = (dtypes.parse(name) for name in ("uint8", "uint16", "uint32"))
float16, float32, bfloat16 = (dtypes.parse(name) for name in ("float16", "float32", "bfloat16"))
tfloat32 = dtypes.parse("tfloat32")
float8_e4m3, float8_e4m3fn, float8_e5m2 = (dtypes.parse(n) for n in ("float8_e4m3", "float8_e4m3fn", "float8_e5m2"))
float8_e8m0fnu = dtypes.parse("float8_e8m0fnu")
float8_e5m2_x4, float8_e4m3fn_x4 = dtypes.parse("float8_e5m2_x4"), dtypes.parse("float8_e4m3fn_x4")
float4_e2m1fn_x4 = dtypes.parse("float4_e2m1fn_x4")

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
hbm = private_hbm
average, prelu, bypass = AluOp("average"), AluOp("prelu"), AluOp("bypass")

tile_size = TileSize()

RAND_GENERATION = 4
MANTISSA = 24
"""Bits of a whole number that fp32 holds exactly."""


def is_hbm(buffer: Any) -> bool:
    return _region(buffer).memory is Memory.HBM


def is_sbuf(buffer: Any) -> bool:
    return _region(buffer) is sbuf


def is_psum(buffer: Any) -> bool:
    return _region(buffer) is psum


def is_on_chip(buffer: Any) -> bool:
    return not is_hbm(buffer)


def _region(buffer: Any) -> MemoryRegion:
    if isinstance(buffer, MemoryRegion):
        return buffer
    name = "private_hbm" if buffer == "hbm" else buffer
    try:
        return MemoryRegion(name)
    except ValueError:
        raise InputError(
            f"nl.ndarray: buffer: {buffer!r} is no memory",
            source=builder().where(),
            remedy="use nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm",
        ) from None


# -- tensors ---------------------------------------------------------------------------------------


def ndarray(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "", address: tuple | None = None) -> NkiTensor:
    """A new tensor with undefined contents.

    shape   : on chip [partition, free…] with at most 128 partitions
    address : (first partition, byte offset in the partition); without it the emulator finds a place
    raises  : InputError for a shape, dtype or buffer that the device does not have
    """
    program = builder()
    try:
        sizes = tuple(map(as_int, shape)) if hasattr(shape, "__iter__") else (as_int(shape),)
    except TypeError:
        sizes = _whole(program, shape)
    try:
        kind = dtypes.parse(dtype)
    except InputError as error:
        raise InputError(f"nl.ndarray: {error.message}", source=program.where(), remedy=error.remedy) from None
    known = _checked.get((sizes, buffer))
    if known is None:
        known = _checked[sizes, buffer] = _check(program, sizes, buffer)
    memory, placed = known
    if address is not None:
        address = _place(program, sizes, memory, address)
    storage = program.allocate(sizes, kind, memory, name or None, address=address, buffer=placed)
    return NkiTensor(storage, storage.layout, 0)


def _whole(program: ProgramBuilder, shape: Any) -> tuple[int, ...]:
    """A shape of floats that are whole numbers, as a division in the kernel leaves them."""
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if any(not isinstance(size, SupportsFloat) or float(size) != int(size) for size in sizes):
        fault = f"nl.ndarray: shape {shape!r}: every dimension must be an integer"
        raise InputError(fault, source=program.where(), remedy="divide with //")
    return tuple(map(int, sizes))


_checked: dict[tuple, tuple[Memory, str]] = {}
"""Memory and buffer by what `ndarray` was asked for: a loop asks for the same again and again."""


def _check(program: ProgramBuilder, sizes: tuple[int, ...], buffer: Any) -> tuple[Memory, str]:
    region = _region(buffer)
    fault = _shape_fault(sizes, region)
    if fault:
        raise InputError(f"nl.ndarray: shape {list(sizes)} in {region.value}: {fault}", source=program.where())
    return region.memory, region.value


def _place(program: ProgramBuilder, sizes: tuple[int, ...], memory: Memory, address: Any) -> tuple[int, int]:
    """The first partition and the byte in it that a kernel chose."""
    try:
        partition, offset = map(as_int, address)
    except (TypeError, ValueError):
        fault = f"{address!r}, must be two integers: first partition, byte offset"
    else:
        if memory is Memory.HBM:
            fault = f"{address!r}, a tensor in HBM has none"
        elif not 0 <= partition <= PARTITIONS - sizes[0]:
            fault = f"{address!r}, {sizes[0]} partitions from {partition} on are not all of 0 to {PARTITIONS - 1}"
        else:
            return partition, offset
    raise InputError(f"nl.ndarray: address: {fault}", source=program.where())


def _shape_fault(sizes: tuple[int, ...], region: MemoryRegion) -> str | None:
    if not sizes or any(size < 1 for size in sizes):
        return "every dimension must be at least 1"
    if region.memory is Memory.HBM:
        return None
    if len(sizes) < 2:
        return "on-chip tensors have a partition and at least one free dimension"
    if sizes[0] > PARTITIONS:
        return f"partition dimension {sizes[0]} > {PARTITIONS}"
    return None


def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """A new tensor with one value in every element."""
    tensor = ndarray(shape, dtype, buffer, name)
    if tensor.layout.memory is Memory.HBM:
        _fill_hbm(tensor, lambda rows: full(rows.shape, fill_value, dtype))
    else:
        isa.memset(tensor, fill_value)
    return tensor


def _fill_hbm(tensor: NkiTensor, make: Callable[[NkiTensor], NkiTensor]) -> None:
    """Engines do not write HBM: tiles are made and stored, row block by row block."""
    flat = tensor.reshape((-1, tensor.shape[-1])) if tensor.ndim != 2 else tensor
    for first in builtins.range(0, flat.shape[0], PARTITIONS):
        rows = flat[first : builtins.min(first + PARTITIONS, flat.shape[0])]
        isa.dma_copy(rows, make(rows))


def zeros(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    return full(shape, 1, dtype, buffer, name)


def rand(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """A new tensor of numbers distributed evenly over [0, 1).

    Before NeuronCore-v4 the Vector Engine draws bits, of which the upper 24 become a number.
    """
    tensor = ndarray(shape, dtype, buffer, name)
    if tensor.layout.memory is Memory.HBM:
        _fill_hbm(tensor, lambda rows: rand(rows.shape, dtype))
    elif builder().device.generation >= RAND_GENERATION:
        isa.rand2(tensor, 0.0, 1.0)
    else:
        bits, whole = ndarray(tensor.shape, uint32), ndarray(tensor.shape, float32)
        isa.rng(bits)
        isa.tensor_scalar(bits, bits, FUNCTIONS["right_shift"], 32 - MANTISSA)
        isa.tensor_copy(whole, bits)
        isa.tensor_scalar(tensor, whole, FUNCTIONS["multiply"], 2.0**-MANTISSA)
    return tensor


def random_seed(seed: NkiTensor) -> None:
    """Seed what `rand` draws from; a [1, 1] tensor of 32 bits on chip."""
    isa.set_rng_seed(seed)


def empty_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    return zeros(x.shape, dtype or x.dtype, buffer or sbuf, name)


def shared_constant(constant: Any) -> NkiTensor:
    """A constant that the compiler places in HBM."""
    array = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
    return builder_constant(array)


def builder_constant(array: np.ndarray) -> NkiTensor:
    """An HBM tensor that holds the array before the kernel starts."""
    program = builder()
    storage = program.allocate(array.shape, dtypes.parse(array.dtype), Memory.HBM, role="WEIGHT", buffer="shared_hbm")
    storage.fill(array)
    return NkiTensor(storage, storage.layout, 0)


def shared_identity_matrix(n: int, dtype: Any = np.uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """An n x n identity matrix in SBUF, loaded from a constant."""
    kind = dtypes.parse(dtype)
    tile = ndarray((n, n), kind) if dst is None else dst
    isa.dma_copy(tile, builder_constant(dtypes.cast(np.eye(n, dtype=np.float32), kind)))
    return tile


# -- moves -----------------------------------------------------------------------------------------


def _check_tensor(call: str, argument: str, value: Any) -> None:
    if not isinstance(value, NkiTensor):
        raise InputError(f"nl.{call}: {argument}: {value!r} is no tensor", source=builder().where())


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Load an HBM tile into a new SBUF tile."""
    _check_tensor("load", "src", src)
    fault = _shape_fault(src.shape, sbuf)
    if fault:
        message = f"nl.load: src: shape {list(src.shape)}: {fault}"
        remedy = f"load at most {PARTITIONS} rows at a time" if src.ndim > 1 else "reshape it to (1, n) or (n, 1)"
        raise InputError(message, source=builder().where(), remedy=remedy)
    tile = ndarray(src.shape, dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Load a 2-D HBM tile transposed into a new SBUF tile."""
    _check_tensor("load_transpose2d", "src", src)
    if len(src.shape) != 2:
        raise InputError(f"nl.load_transpose2d: src: {src.ndim} dimensions, must be 2", source=builder().where())
    tile = ndarray((src.shape[1], src.shape[0]), src.dtype)
    isa.dma_transpose(tile, src)
    return tile if dtype is None or dtypes.parse(dtype) == src.dtype else copy(tile, dtype)


def store(dst: NkiTensor, value: Any) -> None:
    """Store an on-chip tile to HBM; from PSUM it passes through SBUF, which the DMA engines can read."""
    _check_tensor("store", "dst", dst)
    tile = value if isinstance(value, NkiTensor) else full(dst.shape, value, dst.dtype)
    if tile.layout.memory is Memory.PSUM:
        tile = copy(tile)
    isa.dma_copy(dst, tile)


def copy(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the values of an on-chip tile."""
    tile = ndarray(x.shape, dtype or x.dtype)
    isa.tensor_copy(tile, x)
    return tile


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    return x.expand_dim(axis if axis >= 0 else axis + x.ndim + 1)


def broadcast_to(x: NkiTensor, shape: tuple[int, ...], dtype: Any = None) -> NkiTensor:
    """A tile with dimensions of size 1 repeated; across partitions the Tensor Engine multiplies by ones."""
    wanted = tuple(shape)
    if x.shape == wanted:
        return x
    if len(wanted) != x.ndim or any(have not in (1, want) for have, want in zip(x.shape, wanted)):
        raise InputError(
            f"nl.broadcast_to: shape: {list(x.shape)} cannot become {list(wanted)}", source=builder().where()
        )
    tile = broadcast_partitions(x, wanted[0], dtype) if x.shape[0] != wanted[0] else x
    return tile if tile.shape == wanted else copy(tile.broadcast_to(wanted), dtype)


def _check_2d(call: str, argument: str, tile: Any, limit: int) -> None:
    _check_tensor(call, argument, tile)
    if tile.ndim != 2 or tile.shape[1] > limit:
        fault = f"nl.{call}: {argument}: shape {list(tile.shape)}, must have 2 dimensions, the free one at most {limit}"
        raise InputError(fault, source=builder().where())


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """x @ y, or x.T @ y with transpose_x, in a new PSUM tile.

    x, y : tiles in SBUF, at most 128 x 128 and 128 x 512
    """
    for argument, tile, limit in (("x", x, tile_size.gemm_stationary_fmax), ("y", y, tile_size.gemm_moving_fmax)):
        _check_2d("matmul", argument, tile, limit)
    inner = x.shape[0] if transpose_x else x.shape[1]
    if inner != y.shape[0]:
        fault = f"nl.matmul: y: shape {list(y.shape)}, its partitions must be the {inner} over which x is summed"
        raise InputError(fault, source=builder().where())
    stationary = x if transpose_x else copy(transpose(x))
    out = ndarray((stationary.shape[1], y.shape[1]), float32, psum)
    isa.nc_matmul(out, stationary, y)
    return out


def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Partition and free dimension exchanged, in a new PSUM tile (Tensor Engine)."""
    _check_2d("transpose", "x", x, PARTITIONS)
    out = ndarray((x.shape[1], x.shape[0]), dtype or x.dtype, psum)
    isa.nc_transpose(out, x)
    return out


def gather_flattened(data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """data[partition, indices[partition, i]] over the flattened free dimensions."""
    if axis != 0:
        raise InputError(f"nl.gather_flattened: axis: {axis}, must be 0", source=builder().where())
    tile = ndarray(indices.shape, dtype or data.dtype)
    isa.nc_n_gather(tile, data, indices)
    return tile


def ds(start: int, size: int) -> DynamicSlice:
    return DynamicSlice(start, size)


def static_cast(x: NkiTensor, dtype: Any) -> NkiTensor:
    """A copy of a tile in another dtype."""
    return copy(x, dtype)


def nc(cores: int) -> int:
    """`kernel[nl.nc(2)]`: as many physical cores."""
    return cores


class fp32:
    """Limits of fp32, where kernels look for them."""

    min = float(np.finfo(np.float32).min)
    max = float(np.finfo(np.float32).max)


range = builtins.range
bool = bool_

"""`neuronxcc.nki.language`: tensors, moves and constants of the legacy API."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.memory import storage_dtype
from sim.nki import isa
from sim.nki import language as current
from sim.nki.language import hbm, private_hbm, psum, sbuf, shared_hbm
from sim.nki.legacy.allocation import Buffer, buffer_of
from sim.nki.legacy.blocks import BlockTensor, ParDim, block_dims
from sim.nki.legacy.functions import EXPORTED, matmul, transpose
from sim.nki.legacy.index import Grid, arange, mgrid
from sim.nki.legacy.launch_grid import nc, spmd_dim
from sim.nki.legacy.loops import affine_range, loop_reduce, sequential_range, static_range, traced_once
from sim.nki.legacy.moves import dma_copy, dma_transpose, in_hbm, load, store
from sim.nki.legacy.operands import Limits, Result, elementwise, operand, tile
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.nki.tensor import DynamicSlice, MemoryRegion
from sim.trace import Memory

globals().update(EXPORTED)

bool_, int8, int16, int32 = np.bool_, np.int8, np.int16, np.int32
uint8, uint16, uint32 = np.uint8, np.uint16, np.uint32
float16, float32, bfloat16 = np.float16, np.float32, dtypes.bfloat16
float8_e4m3, float8_e5m2, tfloat32 = dtypes.float8_e4m3, dtypes.float8_e5m2, dtypes.tfloat32
par_dim, ds = ParDim, DynamicSlice


fp32, bfp16 = Limits(np.float32), Limits(ml_dtypes.bfloat16)


class _TileSize(type(current.tile_size)):  # type: ignore[misc]
    """Tile sizes that module code of a kernel file asks for, too, before there is a device."""

    psum_fmax = 512
    """fp32 elements of a PSUM bank."""

    @property
    def total_available_sbuf_size(self) -> int:
        return self.sbuf_fmax_bytes


tile_size = _TileSize()


# -- tensors ---------------------------------------------------------------------------------------


def ndarray(
    shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", lazy_initialization: bool = False
) -> Tile | BlockTensor:
    """A new tensor with undefined contents; dimensions left of `nl.par_dim` are block dimensions.

    buffer : nl.sbuf by default; nl.psum, nl.hbm, nl.shared_hbm, or an allocation of nki.compiler
    """
    return _tensor("nl.ndarray", shape, dtype, buffer, name, None)


def full(
    shape: Any, fill_value: Any, dtype: Any, *, buffer: Any = None, name: str = "", lazy_initialization: bool = False
) -> Tile | BlockTensor:
    """A new tensor with one value in every element."""
    return _tensor("nl.full", shape, dtype, buffer, name, operand(fill_value, "nl.full"))


def zeros(
    shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", lazy_initialization: bool = False
) -> Tile | BlockTensor:
    """A new tensor of zeros; in PSUM the first matmul that is added overwrites, so nothing is written."""
    return _tensor("nl.zeros", shape, dtype, buffer, name, 0)


def ones(
    shape: Any, dtype: Any, *, buffer: Any = None, name: str = "", lazy_initialization: bool = False
) -> Tile | BlockTensor:
    return _tensor("nl.ones", shape, dtype, buffer, name, 1)


def empty_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "") -> Tile | BlockTensor:
    return ndarray(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def zeros_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "") -> Tile | BlockTensor:
    return zeros(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def _tensor(call: str, shape: Any, dtype: Any, buffer: Any, name: str, value: Any) -> Tile | BlockTensor:
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    placed = buffer_of(sbuf if buffer is None else buffer)
    if placed is None:
        region = current._region(buffer or sbuf)
        if region.memory is Memory.HBM:
            return _in_hbm(call, sizes, dtype, region, name, value)
        placed = Buffer(region.memory, None)
    if placed.place is not None:
        placed = traced_once(placed, builder().here())
    blocks = block_dims(sizes)
    sizes = tuple(int(size) for size in sizes)
    fault = current._shape_fault(sizes[blocks:] if len(sizes) - blocks > 1 else (*sizes[blocks:], 1), _region(placed))
    if fault:
        raise InputError(f"{call}: shape {list(sizes)} in {_region(placed).value}: {fault}", source=builder().where())
    kind = dtypes.parse(dtype)
    make = _Maker(sizes[blocks:], kind, placed, name, value, builder().here())
    return BlockTensor(sizes, blocks, kind, name, make.block) if blocks else make.block(())


def _region(buffer: Buffer) -> MemoryRegion:
    return MemoryRegion(buffer.memory.name.lower())


def _in_hbm(call: str, sizes: tuple, dtype: Any, region: MemoryRegion, name: str, value: Any) -> Tile:
    made = Tile.of(current.ndarray(tuple(int(size) for size in sizes), dtype, region, name))
    if value is not None:
        store(made, value)
    return made


class _Maker:
    """Makes the blocks of one tensor, at the kernel's addresses and with the tensor's initial value."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, buffer: Buffer, name: str, value: Any, source: int):
        self.shape = shape if len(shape) > 1 else (*shape, 1)
        self.dtype = dtype
        self.buffer = buffer
        self.name = name
        self.value = value
        self.source = source
        """Where the tensor was declared; a block is made on the line that first touches it."""

    def block(self, place: tuple[int, ...]) -> Tile:
        program = builder()
        width = self.dtype.itemsize
        for size in self.shape[1:]:
            width *= size
        address = self.buffer.address(place, self.shape, width)
        name = self.name or program.assigned(self.source)
        label = f"{name}{list(place)}" if name and place else name
        line, program.line = program.line, self.source
        try:
            storage = program.allocate(self.shape, self.dtype, self.buffer.memory, label, address=address)
        finally:
            program.line = line
        made = Tile(storage, storage.layout, 0)
        if self.value is not None:
            if self.buffer.memory is Memory.PSUM and self.value == 0:
                storage.written = None
            else:
                made[...] = self.value
        return made


def shared_constant(constant: Any, dtype: Any = None) -> Tile:
    """A constant that the compiler places in HBM."""
    array = np.asarray(constant)
    return Tile.of(current.builder_constant(array if dtype is None else dtypes.cast(array, dtype)))


def shared_identity_matrix(n: int, dtype: Any = np.uint8) -> Tile:
    """An n x n identity matrix in HBM."""
    return shared_constant(np.identity(n, np.float32), dtype)


# -- moves -----------------------------------------------------------------------------------------


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """Load a 2-D HBM tile transposed into a new SBUF tile."""
    source = in_hbm(src, "nl.load_transpose2d", "src")
    if source.ndim != 2:
        raise InputError(f"nl.load_transpose2d: src has {source.ndim} dimensions, not 2", source=builder().where())
    return dma_transpose(source, mask=mask, dtype=dtype)


def copy(src: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """A new SBUF tile with the values of an on-chip tile."""
    return elementwise("nl.copy", isa.tensor_copy, src, mask=mask, dtype=dtype)


def expand_dims(data: Any, axis: Any) -> Tile:
    """A view with dimensions of size 1 put in."""
    view = tile(data, "nl.expand_dims", "data")
    for place in sorted(axis if hasattr(axis, "__iter__") else (axis,)):
        view = view.expand_dims(place)
    return view


def gather_flattened(data: Any, indices: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """data[partition, indices[partition, i]] over the flattened free dimensions."""
    source = tile(data, "nl.gather_flattened", "data")
    return elementwise(
        "nl.gather_flattened",
        lambda dst, index: isa.nc_n_gather(dst, source, index),
        indices,
        mask=mask,
        dtype=dtype or source.dtype,
    )


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None) -> None:
    """dst = op(dst, value) on indexed rows in HBM."""
    dma_copy(dst=dst, src=value, dst_rmw_op=op, mask=mask)


def all_reduce(
    x: Any,
    op: Any,
    program_axes: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    parallel_reduce: bool = True,
    asynchronous: bool = False,
) -> Tile:
    raise UnsupportedError("nl.all_reduce over programs of a launch grid is not emulated", source=builder().where())


# -- random numbers --------------------------------------------------------------------------------


def rand(shape: Any, dtype: Any = np.float32) -> Tile:
    """A tile of numbers distributed evenly over [0, 1): 24 random bits each."""
    bits, result = Result(shape, np.uint32).part(), Result(shape, dtype)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, EXPORTED["right_shift"], 8)
    isa.tensor_scalar(result.part(), bits, EXPORTED["multiply"], 2.0**-24)
    return result.returned()


def random_seed(seed: Any, *, mask: Any = None) -> None:
    """Seed the Vector Engine's generators."""
    given = operand(seed, "nl.random_seed")
    if not isinstance(given, Tile):
        given, value = Result((1, 1), np.uint32).part(), given
        isa.memset(given, value)
    isa.set_rng_seed(given)


# -- the launch, constants, the host ---------------------------------------------------------------


def program_id(axis: int) -> int:
    program = builder().program
    return program[axis] if axis < len(program) else 0


def num_programs(axes: Any = None) -> int:
    """Programs of the launch grid along axes; all of them by default."""
    grid = builder().grid
    wanted = range(len(grid)) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    return int(np.prod([grid[axis] for axis in wanted if axis < len(grid)], dtype=np.int64))


def program_ndim() -> int:
    return len(builder().grid)


def device_print(prefix: str, x: Any, *, mask: Any = None) -> None:
    """Print a tile's values to stderr."""
    view = operand(x, "nl.device_print")
    shown = view.array() if isinstance(view, Tile) and builder().values else view
    print(prefix, shown, file=sys.stderr)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """A number or array of the host in another format."""
    if isinstance(input_data, (int, float, np.generic)):
        return np.asarray(input_data).astype(storage_dtype(dtypes.parse(dtype)))[()]
    return dtypes.cast(np.asarray(input_data), dtype)


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point format."""
    return ml_dtypes.finfo(storage_dtype(dtypes.parse(dtype)))


def gemm_grid() -> Grid:
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_moving_fmax]


def gemm_stationary_grid() -> Grid:
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_stationary_fmax]


__all__ = [
    "affine_range",
    "arange",
    "hbm",
    "load",
    "loop_reduce",
    "matmul",
    "nc",
    "private_hbm",
    "psum",
    "sequential_range",
    "shared_hbm",
    "spmd_dim",
    "static_range",
    "store",
    "transpose",
]

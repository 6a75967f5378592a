"""`nki.isa` calls of the Tensor Engine."""

from __future__ import annotations

from typing import Any

from sim.engines import tensor as pe
from sim.engines import vector_select
from sim.errors import InputError
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, issue, member
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Engine, Finding, Memory

ANY_START_GENERATION = 4
"""The first generation whose matmuls may add to what another instruction wrote."""
WIDE_GENERATION = 4
"""The first generation whose matmuls may write all of PSUM."""
SMALL = 32
"""Rows and columns up to which the Vector Engine transposes."""


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple = (),
    tile_size: tuple = (),
    perf_mode: Any = enums.matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """dst = stationary.T @ moving on the Tensor Engine, or dst += with accumulate.

    dst        : [M, N] in PSUM, fp32 (bf16 from v4 on)
    stationary : [K, M], moving: [K, N], in SBUF; K, M <= 128; with double_row [K, 2, ·]
    accumulate : None overwrites on the first matmul into this part of PSUM and adds from then on
    """
    program = builder()
    _check_bank(program, dst, "nc_matmul")
    static = (
        _adds(program, dst, accumulate) and not is_transpose,
        bool(is_transpose),
        (bool(is_stationary_onezero), bool(is_moving_onezero)),
        tuple(map(int, tile_position)) if tile_position else (),
        tuple(map(int, tile_size)) if tile_size else (),
        member(perf_mode, enums.matmul_perf_mode, "nc_matmul", "perf_mode"),
    )
    return issue(pe.MATMUL, (dst, stationary, moving), static, name, Engine.TENSOR)


def _check_bank(program: ProgramBuilder, dst: NkiTensor, call: str) -> None:
    """A result that a bank of PSUM can hold lies in one, before NeuronCore-v4 (trainium_inferentia2_arch)."""
    device = program.device
    if device.generation >= WIDE_GENERATION or not isinstance(dst, NkiTensor) or dst.layout.memory is not Memory.PSUM:
        return
    layout, own, bank = dst.layout, dst.storage.address, int(device["psum_bank_bytes"])
    first = dst.offset % layout.pitch + (own[1] if own else 0)
    if layout.elements * layout.itemsize <= bank and first // bank != (first + layout.span - 1) // bank:
        fault = f"dst: bytes {first} to {first + layout.span} of a partition cross a PSUM bank of {bank}"
        raise InputError(f"nki.isa.{call}: {fault}", source=program.where(), remedy="write to each bank by itself")


def _adds(program: ProgramBuilder, dst: NkiTensor, accumulate: bool | None) -> bool:
    """Whether a matmul adds to what is in PSUM; the region is remembered in any case."""
    if not isinstance(dst, NkiTensor) or dst.layout.memory is not Memory.PSUM:
        return False
    if accumulate is None:
        return program.accumulates(dst)
    summed = program.accumulates(dst, asked=False)
    if accumulate and not summed and program.device.generation < ANY_START_GENERATION:
        _warn_of_start(program, dst)
    return bool(accumulate)


def _warn_of_start(program: ProgramBuilder, dst: NkiTensor) -> None:
    """Public kernels that fill PSUM with zeros and add from then on run right, but no document promises it."""
    where = program.where()
    kind = "undefined_accumulation"
    if any(finding.kind == kind and finding.source == where for finding in program.findings):
        return
    allocated = program.strings[dst.storage.source]
    program.findings.append(
        Finding(
            kind,
            f"nki.isa.nc_matmul ({where}) adds to `{dst.name}` (allocated at {allocated}), not all of which a "
            f"matmul has written: undefined before NeuronCore-v{ANY_START_GENERATION}; begin with accumulate=False",
            len(program),
            where,
        )
    )


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: tuple | None = None,
    tile_size: tuple | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = stationary.T @ moving of microscaled tiles, dequantized on the way (NeuronCore-v4).

    stationary, moving : [P, M], [P, N] of x4-packed formats; contracted over P and the four
    *_scale            : float8_e8m0fnu or uint8, four rows at the start of each quadrant of 32 partitions
    """
    packed = tuple(str(getattr(side, "dtype", None)) for side in (stationary, moving))
    static = (
        _adds(builder(), dst, accumulate),
        tuple(map(int, tile_position or ())),
        tuple(map(int, tile_size or ())),
        packed,
    )
    operands = (dst, stationary, moving, stationary_scale, moving_scale)
    return issue(pe.MATMUL_MX, operands, static, name, Engine.TENSOR)


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: Any = enums.engine.unknown, name: str | None = None
) -> NkiInstruction:
    """dst = data.T, partition and (flattened) free dimension exchanged.

    Tensor Engine: SBUF to PSUM, up to 128 x 128. Vector Engine: SBUF or PSUM, up to 32 x 32.
    """
    asked = member(engine, enums.engine, "nc_transpose", "engine")
    if asked not in ("tensor", "vector", "unknown"):
        raise InputError(f"nki.isa.nc_transpose: engine: {asked}, must be tensor or vector", source=builder().where())
    if asked == "vector" or (asked == "unknown" and _fits_vector(dst, data)):
        return issue(vector_select.TRANSPOSE, (dst, data), (), name)
    _check_bank(builder(), dst, "nc_transpose")
    return issue(pe.TRANSPOSE, (dst, data), (), name, Engine.TENSOR)


def _fits_vector(dst: NkiTensor, data: NkiTensor) -> bool:
    """Small tiles go to the Vector Engine, as do those that the Tensor Engine cannot read or write."""
    if not isinstance(dst, NkiTensor) or not isinstance(data, NkiTensor):
        return False
    layout = data.layout
    small = layout.partitions <= SMALL and layout.elements <= SMALL
    return small and (dst.layout.memory is not Memory.PSUM or layout.memory is not Memory.SBUF)

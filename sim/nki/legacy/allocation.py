"""`neuronxcc.nki.compiler.sbuf` and `.psum`: buffers whose addresses the kernel chooses.

A tensor made with such a buffer has each of its blocks at the address that a function of the block's index gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.errors import InputError
from sim.nki.session import builder
from sim.trace import Memory

Placer = Callable[..., tuple[int, ...]]


class Buffer:
    """Where a tensor lives, and where its blocks lie.

    place : (idx, pdim_size, fdim_size), the block's index, partitions and bytes a partition -> (first partition, byte)
            in SBUF, (bank, first partition, byte in the bank) in PSUM; None leaves it to the emulator
    """

    __slots__ = ("memory", "place")

    def __init__(self, memory: Memory, place: Placer | None):
        self.memory = memory
        self.place = place

    def address(self, block: tuple[int, ...], shape: tuple[int, ...], width: int) -> tuple[int, int] | None:
        """(first partition, byte offset) of one block.

        raises: InputError when the placing function gives no such thing
        """
        if self.place is None:
            return None
        given = self.place(idx=block, pdim_size=shape[0], fdim_size=width)
        try:
            numbers = tuple(int(number) for number in given)
        except TypeError:
            numbers = ()
        if self.memory is Memory.PSUM and len(numbers) == 3:
            bank, partition, byte = numbers
            return partition, bank * int(builder().device["psum_bank_bytes"]) + byte
        if self.memory is Memory.SBUF and len(numbers) == 2:
            return numbers[0], numbers[1]
        wanted = "(bank, partition, byte)" if self.memory is Memory.PSUM else "(partition, byte)"
        raise InputError(f"allocation of block {block}: {given!r} is no {wanted}", source=builder().where())


def _modulo(base: int, tiles: tuple[int, ...], index: tuple[int, ...], scale: int) -> int:
    """base + row-major number of the block index taken modulo the tiles of each dimension, times scale."""
    if not index:
        return base
    sizes = tiles or (1,) * len(index)
    if len(sizes) != len(index):
        raise InputError(f"mod_alloc: {tiles} for a tensor of {len(index)} block dimensions", source=builder().where())
    number = 0
    for at, size in zip(index, sizes):
        number = number * size + at % size
    return base + number * scale


class SbufSpace:
    """`ncc.sbuf`."""

    memory = Memory.SBUF

    def alloc(self, func: Placer) -> Buffer:
        return Buffer(Memory.SBUF, func)

    def auto_alloc(self) -> Buffer:
        return Buffer(Memory.SBUF, None)

    def mod_alloc(
        self, *, base_addr: int, base_partition: int = 0, num_par_tiles: tuple = (), num_free_tiles: tuple = ()
    ) -> Buffer:
        """Blocks rotate through `num_free_tiles` places of their own size."""

        def place(idx: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, ...]:
            partition = _modulo(base_partition, tuple(num_par_tiles), idx, pdim_size)
            return partition, _modulo(base_addr, tuple(num_free_tiles), idx, fdim_size)

        return Buffer(Memory.SBUF, place)


class PsumSpace:
    """`ncc.psum`."""

    memory = Memory.PSUM

    def alloc(self, func: Placer) -> Buffer:
        return Buffer(Memory.PSUM, func)

    def auto_alloc(self) -> Buffer:
        return Buffer(Memory.PSUM, None)

    def mod_alloc(
        self,
        *,
        base_bank: int,
        base_addr: int = 0,
        base_partition: int = 0,
        num_bank_tiles: tuple = (),
        num_par_tiles: tuple = (),
        num_free_tiles: tuple = (),
    ) -> Buffer:
        """Blocks rotate through `num_bank_tiles` banks."""

        def place(idx: tuple[int, ...], pdim_size: int, fdim_size: int) -> tuple[int, ...]:
            bank = _modulo(base_bank, tuple(num_bank_tiles), idx, 1)
            partition = _modulo(base_partition, tuple(num_par_tiles), idx, pdim_size)
            return bank, partition, _modulo(base_addr, tuple(num_free_tiles), idx, fdim_size)

        return Buffer(Memory.PSUM, place)


sbuf, psum = SbufSpace(), PsumSpace()


def buffer_of(value: Any) -> Buffer | None:
    """The on-chip buffer that a `buffer=` argument stands for, None when it is none of ours."""
    if isinstance(value, Buffer):
        return value
    return value.auto_alloc() if isinstance(value, (SbufSpace, PsumSpace)) else None

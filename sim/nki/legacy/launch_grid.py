"""Launch grids of the legacy API: any number of dimensions, some of them spread over physical cores."""

from __future__ import annotations

from math import prod
from typing import Any

from sim.errors import InputError


class GridDim(int):
    """A dimension of a launch grid, made of sub-dimensions (size, on physical cores?), outermost first."""

    parts: tuple[tuple[int, bool], ...]

    def __new__(cls, *parts: tuple[int, bool]) -> GridDim:
        self = super().__new__(cls, prod(size for size, _ in parts))
        self.parts = parts
        return self

    def __mul__(self, other: int) -> GridDim:
        return GridDim(*self.parts, *_parts(other))

    def __rmul__(self, other: int) -> GridDim:
        return GridDim(*_parts(other), *self.parts)

    def core(self, at: int) -> tuple[int, int]:
        """(number of the physical core, number of cores) of a place along this dimension."""
        core, cores, rest = 0, 1, at
        for size, physical in reversed(self.parts):
            rest, place = divmod(rest, size)
            if physical:
                core += place * cores
                cores *= size
        return core, cores


def _parts(value: Any) -> tuple[tuple[int, bool], ...]:
    return value.parts if isinstance(value, GridDim) else ((int(value), False),)


def nc(size: int) -> GridDim:
    """`nl.nc(2)`: programs along this dimension run on as many physical cores."""
    return GridDim((int(size), True))


def spmd_dim(*sizes: Any) -> GridDim:
    """`nl.spmd_dim(4, nl.nc(2))`: one dimension of sub-dimensions, outermost first."""
    return GridDim(*(part for size in sizes for part in _parts(size)))


def grid_of(key: Any, kernel: str) -> tuple[int, ...]:
    """The launch grid that `kernel[key]` asks for; 0 counts as 1, as in public kernels.

    raises: InputError for what is no size
    """
    sizes = key if isinstance(key, tuple) else (key,)
    if any(not isinstance(size, int) or size < 0 for size in sizes):
        raise InputError(f"{kernel}[{key!r}]: a launch grid is made of positive integers")
    return tuple(size or 1 for size in sizes)


def core_of(grid: tuple[int, ...], place: tuple[int, ...]) -> int:
    """The physical core of a program: dimensions made with `nl.nc` spread over the cores, others stay on one."""
    core = 0
    for size, at in zip(grid, place):
        if isinstance(size, GridDim):
            number, cores = size.core(at)
            core = core * cores + number
    return core

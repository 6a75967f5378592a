"""`@nki.jit`: a kernel that runs in the emulator when it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from sim.errors import InputError
from sim.nki import session
from sim.nki.benchmark import BenchmarkResult
from sim.nki.compiler import CompileConfig, SpecializationConfig
from sim.nki.environment import PLATFORMS
from sim.nki.tensor import NkiTensor
from sim.spec import Device

SHARING_GENERATION = 3
"""NeuronCores from here on form logical cores of two ("Using Logical Neuron Cores", core_barrier)."""


class Kernel:
    """A kernel function; calling it outside a kernel launches it, inside it is inlined."""

    tensor = NkiTensor
    """What an array argument becomes."""
    on_chip_results = False
    """Whether a kernel may return tiles that are not in HBM."""
    device: str | None = None
    """The device that the kernel was decorated for, None for the launch's."""

    def __init__(self, function: Callable, grid: tuple[int, ...] = (), generation: str = "current"):
        functools.update_wrapper(self, function)
        self.function = function
        self.grid = grid
        """Launch grid; (2,) runs on two physical cores (LNC 2)."""
        self.generation = generation
        self.__signature__ = inspect.signature(function)

    def __getitem__(self, grid: Any) -> Kernel:
        """`kernel[2]`, `kernel[g0, g1]`: the same kernel over a launch grid."""
        sizes = grid if isinstance(grid, tuple) else (grid,)
        if any(not isinstance(size, int) or size < 1 for size in sizes):
            raise InputError(f"{self.__name__}[{grid!r}]: a launch grid is made of positive integers")
        made = type(self)(self.function, sizes, self.generation)
        made.device = self.device
        return made

    def __call__(self, *args: Any, **named: Any) -> Any:
        if session.active():
            return self.function(*args, **named)
        from sim import launch

        return launch.call(self, args, named)

    def core(self, grid: tuple[int, ...], place: tuple[int, ...]) -> int:
        """The physical core that runs a program of a launch grid."""
        return place[0] if grid == (2,) else 0

    def at_once(self, grid: tuple[int, ...]) -> bool:
        """Whether the programs of a launch grid run at the same time and may wait for each other."""
        return grid == (2,)

    @property
    def place(self) -> str | None:
        """`path:line` of the function; None for one that is not written in Python."""
        code = getattr(self.function, "__code__", None)
        return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    def check_grid(self, grid: tuple[int, ...], device: Device) -> None:
        """raises: InputError for a grid that is not the physical cores of one logical core of the device"""
        most = 1 if device.generation < SHARING_GENERATION else 2
        if len(grid) > 1 or (grid and grid[0] > most):
            cores = "1 physical core" if most == 1 else "1 or 2 physical cores"
            asked = f"{self.__name__}[{', '.join(map(str, grid))}]"
            remedy = "loop over the blocks in the kernel" if most > 1 else "LNC 2 comes with NeuronCore-v3"
            raise InputError(f"{asked}: a kernel runs on {cores} of {device.name}", remedy=remedy)

    def with_schedule(self, schedule: Any) -> Kernel:
        """Hand-written instruction order: kept for the compiler, without effect on the emulated values."""
        return self


def jit(
    fn: Callable | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    func: Callable | None = None,
    platform_target: str | None = None,
    **options: Any,
) -> Any:
    """Decorator of a kernel; what only the vendor's compiler minds is accepted and has no effect.

    platform_target : the device, as releases before 0.3 took it
    raises          : InputError for a configuration that is none
    """
    for value, kind, name in (
        (compile_config, CompileConfig, "compile_config"),
        (specialization_config, SpecializationConfig, "specialization_config"),
    ):
        if value is not None and not isinstance(value, kind):
            raise InputError(f"nki.jit: {name}: {value!r} is no nki.compiler.{kind.__name__}")

    def decorate(function: Callable) -> Kernel:
        made = function if isinstance(function, Kernel) else Kernel(function)
        made.device = PLATFORMS.get(platform_target or "", platform_target) or made.device
        return made

    function = fn if fn is not None else func
    return decorate if function is None else decorate(function)


class BenchmarkKernel(Kernel):
    """A kernel that keeps the time of its last launch."""

    benchmark_result: BenchmarkResult | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        if session.active():
            return self.function(*args, **named)
        from sim import launch

        done = launch.recorded(self, args, named)
        self.benchmark_result = BenchmarkResult(done.benchmark_ns)
        return done.result


def simulate(kernel: Any) -> Kernel:
    """A callable that runs the kernel and returns its outputs in the form of its inputs."""
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def _run_as(kind: type[Kernel], name: str) -> Callable:
    """A run mode of earlier releases, with or without options; all run in the emulator."""

    def decorate(kernel: Any = None, **options: Any) -> Any:
        if kernel is None:
            return decorate
        if not callable(kernel):
            raise InputError(f"nki.{name}: {kernel!r} is no kernel")
        known = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
        return kind(known.function, known.grid, known.generation)

    decorate.__name__ = name
    return decorate


benchmark = _run_as(BenchmarkKernel, "benchmark")
baremetal, profile = (_run_as(Kernel, name) for name in ("baremetal", "profile"))

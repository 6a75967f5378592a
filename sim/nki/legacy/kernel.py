"""`nki.jit` and its relatives in the legacy API: kernels that run when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.errors import InputError
from sim.nki import session
from sim.nki.benchmark import BenchmarkResult
from sim.nki.environment import PLATFORMS
from sim.nki.kernel import Kernel
from sim.nki.legacy.launch_grid import core_of, grid_of
from sim.nki.legacy.moves import RowOutOfBounds
from sim.nki.legacy.tile import Tile
from sim.spec import Device

MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace", "profile")


class LegacyKernel(Kernel):
    """A kernel function of `neuronxcc.nki`.

    device : the device that `platform_target=` names, None for the launch's
    mode   : what `nki.jit(mode=…)` asked for; every mode runs in the emulator
    """

    tensor = Tile
    on_chip_results = True
    """The vendor's simulation gave back tiles that a kernel returns from on-chip memory."""

    def __init__(self, function: Callable, grid: tuple[int, ...] = (), device: str | None = None, mode: str = "auto"):
        super().__init__(function, grid, "legacy")
        self.device = device
        self.mode = mode
        self.benchmark_result: BenchmarkResult | None = None
        """After a call in benchmark mode."""

    def __getitem__(self, grid: Any) -> LegacyKernel:
        """`kernel[4, 2]`, `kernel[nl.nc(2), 2]`: the same kernel over a launch grid."""
        return LegacyKernel(self.function, grid_of(grid, self.__name__), self.device, self.mode)

    def check_grid(self, grid: tuple[int, ...], device: Device) -> None:
        """Any grid: its programs run one after another."""

    def core(self, grid: tuple[int, ...], place: tuple[int, ...]) -> int:
        return core_of(grid, place) if self.grid else super().core(grid, place)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if session.active():
            if self.grid:
                raise InputError(f"{self.__name__}: a kernel with a launch grid cannot be called inside a kernel")
            return self.function(*args, **named)
        from sim import launch

        try:
            done = launch.recorded(self, args, named)
        except RowOutOfBounds as error:
            raise IndexError(error.numpy) from error
        if self.mode == "benchmark":
            self.benchmark_result = BenchmarkResult(done.benchmark_ns)
        return done.result


def _made(function: Any, mode: str, platform_target: str | None) -> LegacyKernel:
    if mode not in MODES:
        raise InputError(f"nki.jit(mode={mode!r}): known are {', '.join(MODES)}")
    device = PLATFORMS.get(platform_target or "", platform_target)
    grid: tuple[int, ...] = ()
    if isinstance(function, Kernel):
        device = device or getattr(function, "device", None)
        function, grid = function.function, function.grid
    if not callable(function):
        raise InputError(f"nki.jit: {function!r} is no function")
    return LegacyKernel(function, grid, device, mode)


def jit(
    func: Any = None, mode: str = "auto", platform_target: str | None = None, kernel: Any = None, **options: Any
) -> Any:
    """Decorator of a kernel, with or without arguments; compiler options are accepted and have no effect."""
    function = func if func is not None else kernel
    if function is None:
        return lambda later: _made(later, mode, platform_target)
    return _made(function, mode, platform_target)


def _with_mode(mode: str) -> Callable:
    def decorate(kernel: Any = None, func: Any = None, **options: Any) -> Any:
        return jit(kernel if kernel is not None else func, mode, options.get("platform_target"))

    decorate.__name__ = mode
    return decorate


baremetal, benchmark, profile, trace = (_with_mode(mode) for mode in ("baremetal", "benchmark", "profile", "trace"))


def simulate_kernel(kernel: Any, *args: Any, **named: Any) -> Any:
    """Run a kernel on arrays and give back what it returns; what it writes into an argument is seen there."""
    return _made(kernel, "simulation", None)(*args, **named)

"""The environment variables of NKI that mean something to a run.

NEURON_PLATFORM_TARGET_OVERRIDE : the device
NEURON_LOGICAL_NC_CONFIG        : physical cores of one logical core, for kernels that are launched without `kernel[n]`
NKI_PRECISE_FP                  : with 0, values of low precision are not rounded; time is that of the real formats
NKI_COMPILER_FRONTEND           : with `custom`, kernels are read by the parser of the releases up to 0.6
NEURON_RT_STOCHASTIC_ROUNDING_EN: with 1, the device rounds by chance, which is not emulated
NKI_SIMULATOR                   : nothing; kernels are always emulated

sources: NKI 0.6 reference "nki.jit", "NKI CPU simulator"; NKI 0.7 "Announcing changes to NKI specialization"
"""

from __future__ import annotations

import os

from sim.errors import InputError, UnsupportedError

PLATFORM, CORES = "NEURON_PLATFORM_TARGET_OVERRIDE", "NEURON_LOGICAL_NC_CONFIG"
PRECISION, FRONTEND = "NKI_PRECISE_FP", "NKI_COMPILER_FRONTEND"
ROUNDING = "NEURON_RT_STOCHASTIC_ROUNDING_EN"
PLATFORMS = {
    "trn1": "trn1",
    "inf2": "inf2",
    "gen2": "trn1",
    "trn2": "trn2",
    "gen3": "trn2",
    "trn3": "trn3",
    "gen4": "trn3",
}
"""Values of NEURON_PLATFORM_TARGET_OVERRIDE."""


def target_device(default: str) -> str:
    """The device that the environment names, else the default."""
    wanted = os.environ.get(PLATFORM)
    if not wanted:
        return default
    if wanted.lower() not in PLATFORMS:
        raise InputError(f"{PLATFORM}={wanted}: known are {', '.join(PLATFORMS)}")
    return PLATFORMS[wanted.lower()]


def logical_cores(grid: tuple[int, ...], kernel: str) -> int:
    """Physical cores of a logical core for a kernel with this launch grid.

    raises: InputError for a grid that contradicts the environment, as the vendor's runtime does
    """
    wanted = os.environ.get(CORES)
    if not wanted:
        return 1
    if wanted not in ("1", "2"):
        raise InputError(f"{CORES}={wanted}: known are 1 and 2")
    if grid and grid != (int(wanted),):
        raise InputError(f"{kernel}[{', '.join(map(str, grid))}]: {CORES} is {wanted}, the two must be the same")
    return int(wanted)


def is_precise() -> bool:
    """Whether values are rounded to the formats that the kernel asks for."""
    return os.environ.get(PRECISION) != "0"


def is_parsed() -> bool:
    """Whether kernels are read by the parser, and not traced."""
    return os.environ.get(FRONTEND) == "custom"


def check_rounding() -> None:
    """Raise UnsupportedError where the runtime is told to round by chance."""
    if os.environ.get(ROUNDING) == "1":
        fault = f"{ROUNDING}=1: stochastic rounding is not emulated"
        raise UnsupportedError(fault, remedy=f"set {ROUNDING}=0, or trace with values=False")

"""The top level of `neuronxcc.nki`."""

from sim.nki.legacy.kernel import LegacyKernel, baremetal, benchmark, jit, profile, simulate_kernel, trace
from sim.nki.legacy.typing import tensor

nki_jit = jit
__version__ = "0.1.0"
__all__ = ["LegacyKernel", "baremetal", "benchmark", "jit", "nki_jit", "profile", "simulate_kernel", "tensor", "trace"]

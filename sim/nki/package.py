"""The top level of `nki`, current generation."""

from sim.nki.kernel import Kernel, baremetal, benchmark, jit, profile, simulate
from sim.nki.tensor import NkiTensor

__version__ = "0.7.0"
__all__ = ["Kernel", "NkiTensor", "baremetal", "benchmark", "jit", "profile", "simulate"]

"""`neuronxcc.nki.FrameworkKernel`: by its name only."""

from __future__ import annotations

from typing import Any

from sim.errors import UnsupportedError


def _refuse(*args: Any, **options: Any) -> Any:
    raise UnsupportedError(
        "neuronxcc.nki.FrameworkKernel is not emulated: it writes a kernel into a framework's HLO",
        remedy="call the kernel with arrays of NumPy, PyTorch or JAX",
    )


class FrameworkKernel:
    """The base of kernels that XLA calls; it can be named, not used."""

    __new__ = _refuse

    def dump_config(self, *args: Any, **kwargs: Any) -> Any:
        return _refuse()

    def is_framework_tensor(self, t: Any) -> Any:
        return _refuse()

    def map_framework_tensor(self, t: Any) -> Any:
        return _refuse()

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        return _refuse()

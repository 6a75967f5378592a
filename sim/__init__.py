"""The emulator: runs NKI kernels on a NeuronCore made of NumPy and numba, and says how long they would take."""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "run": "sim.launch",
    "load": "sim.launch",
    "Run": "sim.launch",
    "TensorSpec": "sim.launch",
    "PerRank": "sim.launch",
    "Options": "sim.compiler",
    "error_bars": "sim.spread",
    "repeat": "sim.periodic",
    "stand_ins": "sim.nki.shim",
    "Trace": "sim.trace",
    "device": "sim.spec",
    "target_device": "sim.nki.environment",
}
"""Loaded when first asked for: `import sim` costs nothing."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)

"""Arrays of PyTorch and JAX at the border of a launch; neither package is imported unless the caller did."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sim import dtypes

NUMPYS_OWN = 1
"""`dtype.isbuiltin` of a format that NumPy has itself."""


def framework(value: Any) -> str | None:
    """`torch` or `jax` for an array of theirs."""
    root = type(value).__module__.partition(".")[0]
    if root == "torch" and hasattr(value, "detach"):
        return "torch"
    return "jax" if root in ("jax", "jaxlib") and hasattr(value, "__array__") else None


def host_array(value: Any) -> np.ndarray:
    """The values as NumPy's array; for formats that NumPy lacks, in those of ml_dtypes."""
    if framework(value) != "torch":
        return np.asarray(value)
    plain = value.detach().cpu().contiguous()
    kind = getattr(np, str(plain.dtype).removeprefix("torch."), None) or dtypes.parse(plain.dtype)
    if np.dtype(kind).isbuiltin == NUMPYS_OWN:
        return plain.numpy()
    return plain.view(sys.modules["torch"].uint8).numpy().view(kind)


def in_framework(value: Any, name: str) -> Any:
    """Outputs in the form of the inputs, in whatever tuple, list or dict they stand."""
    if isinstance(value, dict):
        return {key: in_framework(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(in_framework(item, name) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    if name == "jax":
        return sys.modules["jax"].numpy.asarray(value)
    torch = sys.modules["torch"]
    if value.dtype.isbuiltin == NUMPYS_OWN:
        return torch.from_numpy(value)
    return torch.from_numpy(value.view(np.uint8)).view(getattr(torch, value.dtype.name))


def write_into(value: Any, array: np.ndarray) -> None:
    """Let the caller see what the kernel wrote into an argument; JAX's arrays never change."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value[...] = array
    elif framework(value) == "torch":
        value.detach().copy_(in_framework(np.ascontiguousarray(array), "torch"))

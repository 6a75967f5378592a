"""`neuronxcc.nki.typing`: names for annotations."""

from __future__ import annotations

from typing import Any


class tensor:
    """`tensor[128, 512]` says a tile's shape."""

    def __class_getitem__(cls, shape: Any) -> type[tensor]:
        return cls


class mutable_tensor(tensor):
    """A tensor argument that the kernel writes."""


scalar = Any

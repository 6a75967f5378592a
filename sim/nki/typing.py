"""`nki.typing`: names for annotations."""

from __future__ import annotations

from typing import Any


class tensor:
    """`tensor[128, 512]`: an annotation without effect."""

    def __class_getitem__(cls, shape: Any) -> type:
        return cls


class mutable_tensor(tensor):
    """A tensor argument that the kernel writes."""

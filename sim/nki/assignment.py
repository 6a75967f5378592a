"""`tensor[...] = value`: a store, a load or a copy, by where the two sides lie."""

from __future__ import annotations

from typing import Any

from sim.errors import InputError
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Memory


def assign(target: NkiTensor, value: Any) -> None:
    """Write a tile, or a number to every element, into a view."""
    from sim.nki import isa, language

    if isinstance(value, NkiTensor):
        if value.shape != target.shape and value.size == target.size:
            value = value.reshape(target.shape)
        if Memory.HBM in (target.layout.memory, value.layout.memory):
            language.store(target, value)
        else:
            isa.tensor_copy(target, value)
    elif isinstance(value, (int, float)):
        isa.memset(target, value)
    else:
        raise InputError(f"cannot assign a {type(value).__name__} to `{target.name}`", source=builder().where())

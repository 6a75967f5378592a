"""Losses."""

from __future__ import annotations

from math import prod

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_dtype, check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, each

Array = np.ndarray
LARGEST_ADDRESS = 1 << 31


def cross_entropy(logits: Array, labels: Array, lse: bool = False) -> Array | tuple[Array, Array]:
    """logits [T, V], labels [T]"""
    rows = wide(logits)
    largest = rows.max(axis=1)
    sums = largest + np.log(np.exp(rows - largest[:, None]).sum(axis=1))
    loss = sums - rows[np.arange(len(labels)), labels]
    return (loss, sums) if lse else loss


def cross_entropy_backward(logits: Array, labels: Array, lse: Array, dloss: Array) -> Array:
    """logits [T, V], labels, lse and dloss [T]"""
    out = np.exp(wide(logits) - wide(lse)[:, None])
    out[np.arange(len(labels)), labels] -= 1
    return out * wide(dloss)[:, None]


def _check(name: str, logits: TensorSpec, vectors: dict[str, TensorSpec]) -> None:
    check_shape(name, "logits", logits, ("T", "V"))
    for argument, vector in vectors.items():
        check_shape(name, argument, vector, (logits.shape[0],))
    check_dtype(name, "labels", vectors["labels"], "int32")
    if prod(logits.shape) >= LARGEST_ADDRESS:
        fault = f"{name}: logits: {prod(logits.shape)} elements, an address of 32 bits reaches {LARGEST_ADDRESS - 1}"
        raise InputError(fault, remedy="cut the rows into several calls")


def _loss_outputs(logits: TensorSpec, labels: TensorSpec, lse: bool = False) -> tuple[TensorSpec, ...]:
    _check("cross_entropy", logits, {"labels": labels})
    return (TensorSpec((logits.shape[0],), dtypes.float32),) * (2 if lse else 1)


def _gradient_outputs(
    logits: TensorSpec, labels: TensorSpec, lse: TensorSpec, dloss: TensorSpec
) -> tuple[TensorSpec, ...]:
    _check("cross_entropy_backward", logits, {"labels": labels, "lse": lse, "dloss": dloss})
    return (TensorSpec(tuple(logits.shape), logits.dtype),)


OPERATORS = (
    Operator(
        "cross_entropy",
        "cross_entropy.py",
        cross_entropy,
        _loss_outputs,
        each(4),
    ),
    Operator(
        "cross_entropy_backward",
        "cross_entropy.py",
        cross_entropy_backward,
        _gradient_outputs,
        each(3),
    ),
)

"""Runs a graph with values: every operator through its reference or its kernel, every view with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.frontends.graph import FrameworkGraph, Loop, Step, Steps, View
from sim.frontends.ir import NUMPY
from sim.frontends.views import VIEWS

if TYPE_CHECKING:
    from sim.models.graph import Operation

Array = np.ndarray
Compute = Callable[["Operation", Sequence[Array]], tuple[Array, ...]]


def run(graph: FrameworkGraph, given: Sequence[Any], kernels: bool, device: str) -> tuple[Array, ...]:
    """raises : UnsupportedError for what nobody has written, InputError for inputs that do not fit"""
    if graph.unsupported:
        raise UnsupportedError(f"{graph.name}: there is no operator for {', '.join(map(str, graph.unsupported))}")
    compute = _with_kernel(device) if kernels else by_reference
    return walk(graph.plan, _inputs(graph, given), compute)


def _inputs(graph: FrameworkGraph, given: Sequence[Any]) -> list[Array]:
    asked = [one for one in graph.inputs if one.name not in graph.weights]
    if len(given) != len(asked):
        names = ", ".join(one.name for one in asked)
        raise InputError(f"{graph.name}: {len(given)} inputs, it takes {len(asked)}: {names}")
    values = dict(graph.weights)
    for argument, value in zip(asked, given):
        array = argument.array(value)
        if array.shape != argument.shape:
            fault = f"{graph.name}: {argument.name}: shape {list(array.shape)}, must be {list(argument.shape)}"
            raise InputError(fault)
        values[argument.name] = array
    return [one.array(values[one.name]) for one in graph.inputs]


def walk(steps: Steps, inputs: Sequence[Array], compute: Compute) -> tuple[Array, ...]:
    """What some steps make of their inputs; a value is let go after its last use."""
    held: dict[int, Array] = {**steps.constants, **dict(zip(steps.inputs, inputs, strict=True))}
    last = {number: at for at, step in enumerate(steps.steps) for number in step.inputs}
    for at, step in enumerate(steps.steps):
        made = _done(step, [held[number] for number in step.inputs], compute)
        held.update(zip(step.outputs, made, strict=True))
        for number in step.inputs:
            if last[number] == at and number not in steps.outputs:
                held.pop(number, None)
    return tuple(held[number] for number in steps.outputs)


def _done(step: Step, inputs: Sequence[Array], compute: Compute) -> Sequence[Array]:
    if isinstance(step.does, View):
        return (VIEWS[step.does.kind](*inputs, **_numpy(step.does.arguments)),)
    if isinstance(step.does, Loop):
        carried = tuple(inputs)
        for _ in range(step.does.trips):
            carried = walk(step.does.body, carried, compute)
        return carried
    return compute(step.does, inputs)


def by_reference(operation: Operation, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """In fp64, rounded to the operator's own dtypes."""
    from sim.ops import operator
    from sim.ops.operator import specs

    found, scalars = operator(operation.operator), _numpy(operation.scalars)
    promised = found.outputs(*specs(tuple(inputs)), **scalars)
    with np.errstate(all="ignore"):
        made = found.reference(*inputs, **scalars)
    made = made if isinstance(made, tuple) else (made,)
    wanted = (dtypes.parse(spec.dtype) for spec in promised)
    return tuple(rounded(np.asarray(value), dtype) for value, dtype in zip(made, wanted, strict=True))


def rounded(value: Array, dtype: np.dtype) -> Array:
    """In another format as the hardware rounds, but for whole numbers of more than 24 bits, which stay exact."""
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return dtypes.cast(value, dtype)
    limits = np.iinfo(dtype)
    return np.nan_to_num(np.clip(np.rint(value), limits.min, limits.max)).astype(dtype)


def _with_kernel(device: str) -> Compute:
    from sim.ops import launch

    def compute(operation: Operation, inputs: Sequence[Array]) -> tuple[Array, ...]:
        # A kernel may write into what it is given.
        own = [np.array(value) for value in inputs]
        return launch(operation.operator, *own, device=device, **_numpy(operation.scalars)).outputs

    return compute


def _numpy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Formats as NumPy's."""
    return {name: NUMPY.get(value, value) if name == "dtype" else value for name, value in arguments.items()}

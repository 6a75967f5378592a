"""What `op=` may be: functions of `nki.language`, and NumPy's of the same meaning in the legacy API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.engines.functions import ACTIVATIONS, ALU
from sim.errors import InputError
from sim.nki.session import builder

ALIASES = {
    "max": "maximum",
    "min": "minimum",
    "sum": "add",
    "prod": "multiply",
    "all": "logical_and",
    "any": "logical_or",
    "mult": "multiply",
    "sub": "subtract",
    "identity": "copy",
    "absolute": "abs",
    "mean": "average",
}
"""Names that people write for the same operator."""

_NUMPY = {
    getattr(np, ours_or_numpy): ours
    for ours_or_numpy, ours in {
        **{name: name for name in ALU if hasattr(np, name)},
        **{name: name for name in ACTIVATIONS if hasattr(np, name)},
        **{name: ours for name, ours in ALIASES.items() if hasattr(np, name)},
        "amax": "maximum",
        "amin": "minimum",
    }.items()
}
LATE = {"abs_max": 4, "abs_min": 4}
"""Operators that older NeuronCores lack, by the first generation that has them (nki.language)."""
BYPASS = "bypass"
"""No operator in this stage."""


class AluOp:
    """An operator as a value: `name` is its key in `sim.engines.functions`."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"nl.{self.name}"


def name_of(op: Any) -> str | None:
    """The canonical name of an operator, None for what is none."""
    name = getattr(op, "name", None)
    if not isinstance(name, str):
        try:
            name = _NUMPY.get(op)
        except TypeError:
            return None
    if name is None and getattr(op, "__module__", "").startswith(__package__):
        name = op.__name__
    return ALIASES.get(name, name)


def alu(op: Any, call: str, argument: str) -> str:
    """The ALU operator that `op` stands for; bypass for None.

    raises: InputError naming call, argument and source line
    """
    if op is None:
        return BYPASS
    name = name_of(op)
    if name in ALU or name == BYPASS:
        if name in LATE:
            _check_generation(name, call, argument)
        return name
    raise _unknown(op, call, argument, "ALU operator", ALU)


def _check_generation(name: str, call: str, argument: str) -> None:
    device = builder().device
    if device.generation < LATE[name]:
        message = f"nki.isa.{call}: {argument}: {name} needs NeuronCore-v{LATE[name]} or newer, {device.name} has "
        raise InputError(message + device.neuroncore, source=builder().where())


def activation(op: Any, call: str, argument: str = "op") -> str:
    """The activation function that `op` stands for.

    raises: InputError naming call, argument and source line
    """
    name = name_of(op)
    if name in ACTIVATIONS:
        return name
    raise _unknown(op, call, argument, "activation function", ACTIVATIONS)


def _unknown(op: Any, call: str, argument: str, what: str, known: Iterable[str]) -> InputError:
    shown = repr(op) if isinstance(op, str) else getattr(op, "__name__", None) or repr(op)
    return InputError(
        f"nki.isa.{call}: {argument}: {shown} is no {what}",
        source=builder().where(),
        remedy=f"known: {', '.join(known)}",
    )


MAXIMUM, EQUAL = AluOp("maximum"), AluOp("equal")
"""Defaults of calls that take an operator."""

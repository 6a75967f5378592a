"""The operators by name."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from sim.errors import InputError
from sim.launch import Run, run
from sim.ops import definitions
from sim.ops.operator import Operator, specs


@cache
def _known() -> dict[str, Operator]:
    """The operators that the modules of `definitions` list, by name."""
    known: dict[str, Operator] = {}
    for module in pkgutil.iter_modules(definitions.__path__):
        for one in import_module(f"{definitions.__name__}.{module.name}").OPERATORS:
            if one.name in known:
                raise ValueError(f"operator {one.name} is defined twice")
            known[one.name] = one
    return dict(sorted(known.items()))


class _Operators(Mapping[str, Operator]):
    """All operators, read from their definitions when first asked for."""

    def __getitem__(self, name: str) -> Operator:
        return _known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_known())

    def __len__(self) -> int:
        return len(_known())


OPERATORS: Mapping[str, Operator] = _Operators()


def operator(name: str) -> Operator:
    """An operator by name.

    raises: InputError for an unknown one, with those that are spelled alike
    """
    if name in OPERATORS:
        return OPERATORS[name]
    alike = difflib.get_close_matches(name, OPERATORS, n=3)
    raise InputError(f"{name}: no such operator", remedy=f"did you mean {' or '.join(alike or OPERATORS)}")


def launch(name: str, *inputs: Any, device: str = "trn2", lnc: int = 1, values: bool = True, **scalars: Any) -> Run:
    """Run an operator's kernel.

    inputs  : arrays, or `TensorSpec` with values=False; None for a tensor that is left out
    scalars : the operator's other arguments
    raises  : InputError for an unknown operator, or inputs that do not fit together
    """
    found = operator(name)
    kernel = found.kernel
    found.outputs(*specs(inputs), **scalars)
    return run(kernel, *inputs, device=device, lnc=lnc, values=values, **scalars)

"""Every operator of the frameworks' own lists has a rule, comes in parts, or is told by name with a reason."""

from __future__ import annotations

import inspect
import os
from importlib.util import find_spec
from typing import Any

import pytest

if (find_spec("torch") is None or find_spec("jax") is None) and not os.environ.get("CI"):
    pytest.skip("torch or jax is not installed: pip install 'trnprof[torch,jax]'", allow_module_level=True)

import torch
from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

from sim.frontends.aten import reading
from sim.frontends.aten.rules import RULES as ATEN
from sim.frontends.stablehlo.control import REFUSED
from sim.frontends.stablehlo.rules import RULES as STABLEHLO


def core_operators() -> list[Any]:
    """Overloads that PyTorch tags as core ATen."""
    names = {name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    found = []
    for name in sorted(names):
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None and torch.Tag.core in operator.tags:
            found.append(operator)
    return found


def fate(operator: Any) -> str:
    """What becomes of an operator."""
    name = str(operator).removeprefix("aten.")
    short = name.split(".")[0]
    if name in ATEN or short in ATEN:
        return "rule"
    if short.startswith(reading.SIZES):
        return "size"
    if short in reading.WHY or short in reading.RANDOM:
        return "told"
    return "parts" if reading._decomposition(operator) is not None else "forgotten"


def test_every_core_operator_of_pytorch_is_accounted_for() -> None:
    fates: dict[str, list[str]] = {}
    for operator in core_operators():
        fates.setdefault(fate(operator), []).append(str(operator))
    assert sum(map(len, fates.values())) > 180
    assert "forgotten" not in fates, fates["forgotten"]
    assert len(fates["rule"]) > 160
    assert len(fates["told"]) < 15, fates["told"]


def names_of(module: Any) -> set[str]:
    classes = [one for _, one in inspect.getmembers(module, inspect.isclass)]
    return {one.OPERATION_NAME for one in classes if hasattr(one, "OPERATION_NAME")}


@pytest.mark.parametrize(("module", "least"), [(_stablehlo_ops_gen, 110), (_chlo_ops_gen, 50)])
def test_every_operation_of_stablehlo_is_accounted_for(module: Any, least: int) -> None:
    by_the_reader = {"stablehlo.return", "stablehlo.composite"}
    names = names_of(module) - by_the_reader
    assert len(names) >= least
    assert {name for name in names if name.removeprefix("stablehlo.") not in STABLEHLO} == set()
    told = {name for name in names if name.removeprefix("stablehlo.") in REFUSED}
    assert len(told) < len(names) / 3


def test_what_is_told_says_why() -> None:
    assert all(len(why) > 5 for why in (*REFUSED.values(), *reading.WHY.values()))

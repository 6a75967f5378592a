"""The rules by the names of StableHLO's operations, without `stablehlo.`, and of CHLO's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.frontends.stablehlo import control, elementwise, folding, gathering, shapes, sliding

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **shapes.RULES,
    **folding.RULES,
    **gathering.RULES,
    **sliding.RULES,
    **control.RULES,
}

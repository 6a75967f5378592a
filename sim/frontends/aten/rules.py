"""The rules by the names of ATen's operators, without `aten.`; a name without an overload stands for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.frontends.aten import elementwise, indexing, norms, products, reductions, shapes, windows

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **shapes.RULES,
    **products.RULES,
    **reductions.RULES,
    **indexing.RULES,
    **norms.RULES,
    **windows.RULES,
}

"""Operators of neural networks, as NKI kernels of our own.

`sim.ops.launch("matmul", x, w)` runs one; `sim.ops.operator("matmul")` has its kernel, its NumPy reference and the
textbook's count of its work. The kernels, in `kernels/`, are ordinary NKI files and meant to be read.
"""

from sim.ops.operator import Operator, Work
from sim.ops.registry import OPERATORS, launch, operator

__all__ = ["OPERATORS", "Operator", "Work", "launch", "operator"]

"""What Python would compute from a tensor, and a kernel cannot: its values exist on the device alone.

source: NKI language guide, "Tensor Values"; the NkiTensor reference of NKI 0.6 has no operators
"""

from __future__ import annotations

from typing import Any

from sim.errors import InputError
from sim.nki.session import builder


class Valueless:
    """Refuses NumPy, iteration and operators by name, instead of with what Python happens to say."""

    __slots__ = ()
    __array_ufunc__ = None
    """NumPy leaves an operator with a tensor to the tensor."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise _refused(self, "array of NumPy", "compute with nki.language or nki.isa")

    __array_function__ = __array__

    def __iter__(self) -> Any:
        raise _refused(self, "sequence to iterate over", "index it in a loop over range(tensor.shape[0])")

    def _operator(self, *_: Any) -> Any:
        raise _refused(self, "operand of a Python operator", "use nl.add(x, y), nl.less(x, y) and the like")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
    __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __matmul__ = __rmatmul__ = _operator
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _operator
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = _operator


def _refused(tensor: Any, what: str, remedy: str) -> InputError:
    fault = f"`{tensor.name}` {list(tensor.shape)} is no {what}: its values are known on the device alone"
    return InputError(fault, source=builder().where(), remedy=remedy)

"""Elementwise functions, reductions and composites of `neuronxcc.nki.language`.

Each is the current API's function, with a mask, the legacy rules for the dtype of the result, and operands that may be
given as blocks. Every function is also an operator: `op=nl.add`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod as product
from typing import Any

from sim import dtypes
from sim.engines import tensor
from sim.errors import InputError
from sim.nki import elementwise as current
from sim.nki import isa, reductions
from sim.nki.elementwise import BINARY, UNARY
from sim.nki.isa.issuing import issue
from sim.nki.legacy import shaped
from sim.nki.legacy.assignment import write
from sim.nki.legacy.operands import Cut, Result, elementwise, in_sbuf, operand, promoted, tile, within
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.trace import Engine, Memory

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
SHIFTS = ("left_shift", "right_shift")
COMPOSED = ("reciprocal", "sin", "cos", "tan", "invert", "logical_not", "trunc", "floor", "ceil", "negative", "abs")
"""Functions of one tile that the current API makes of several instructions, or of Vector's."""

Function = current.Function


def _unary(name: str) -> Function:
    inner = current.FUNCTIONS.get(name)
    usual = bool if name == "logical_not" else None

    def call(x: Any, *, dtype: Any = usual, mask: Any = None) -> Tile:
        def issue(dst: Tile, data: Tile) -> None:
            if name in COMPOSED:
                write(dst, inner(data, dtype=dst.dtype))
            else:
                isa.activation(dst, FUNCTIONS[name], data)

        return elementwise(f"nl.{name}", issue, x, mask=mask, dtype=dtype or usual)

    call.__doc__ = f"{name} of a tile, elementwise."
    return Function(name, call)


def _binary(name: str) -> Function:
    def call(
        x: Any,
        y: Any,
        dtype: Any = bool if name in COMPARISONS + LOGICAL else None,
        mask: Any = None,
    ) -> Tile:
        return combine(name, x, y, dtype, mask)

    call.__doc__ = f"{name} of two tiles, or of a tile and a number, elementwise with broadcasting."
    return Function(name, call)


def combine(name: str, x: Any, y: Any, dtype: Any = None, mask: Any = None) -> Tile:
    """x op y under a mask, in a new SBUF tile."""
    call = f"nl.{name}"
    x, y = (operand(side, call) for side in (x, y))
    tiles = [side for side in (x, y) if isinstance(side, Tile)]
    if not tiles:
        raise InputError(f"{call}: at least one of x, y must be a tile", source=builder().where())
    if dtype is None:
        dtype = dtypes.bool_ if name in COMPARISONS + LOGICAL else promoted(x, y)
        dtype = dtypes.float32 if name == "divide" and dtype in dtypes.INTEGERS else dtype
    frame = tiles[0].shape if len(tiles) == 1 else _frame(call, *tiles)
    part = Cut(call, mask, frame, x, y)
    if part.empty:
        return Result(frame, dtype).returned(part.ranges)
    inner = Tile.of(current.combine(current.FUNCTIONS[name], *part.operands, dtypes.parse(dtype)))
    if part.ranges is None:
        return inner
    result = Result(frame, dtype)
    write(result.part(part.ranges), inner)
    return result.returned(part.ranges)


def _frame(call: str, x: Tile, y: Tile) -> tuple[int, ...]:
    ndim = max(x.ndim, y.ndim)
    a, b = ((1,) * (ndim - side.ndim) + side.shape for side in (x, y))
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
        raise InputError(
            f"{call}: shapes {list(x.shape)} and {list(y.shape)} do not broadcast", source=builder().where()
        )
    return tuple(max(m, n) for m, n in zip(a, b))


FUNCTIONS: dict[str, Function] = {name: _unary(name) for name in (*UNARY, *COMPOSED, "erf_dx")}
FUNCTIONS |= {name: _binary(name) for name in (*BINARY, *SHIFTS)}


# -- reductions ------------------------------------------------------------------------------------


def reduce(call: str, op: Any, data: Any, axis: Any, mask: Any, dtype: Any, negate: bool, keepdims: bool) -> Tile:
    """A reduction over free dimensions in any place: the engine walks them last."""
    data = tile(data, call, "data")
    axes = tuple(sorted(int(a) % data.ndim for a in (axis if hasattr(axis, "__iter__") else (axis,))))
    if not axes or axes[0] == 0:
        raise InputError(
            f"{call}: axis {axis} of {list(data.shape)}: the partition cannot be reduced", source=builder().where()
        )
    kept = [dim for dim in range(data.ndim) if dim not in axes]
    shape = tuple(1 if dim in axes else data.shape[dim] for dim in range(data.ndim))
    result = Result(shape if keepdims else tuple(data.shape[dim] for dim in kept), dtype or data.dtype)
    part = Cut(call, mask, data.shape, data)
    left = None
    if part.ranges is not None:
        left = tuple((0, 1) if dim in axes else part.ranges[dim] for dim in (range(data.ndim) if keepdims else kept))
        left = left if len(left) > 1 else (*left, (0, 1))
    if not part.empty:
        (view,) = part.operands
        view = view.permute((*kept, *axes)) if axes != tuple(range(data.ndim - len(axes), data.ndim)) else view
        isa.tensor_reduce(result.part(left), op, view, tuple(range(len(kept), data.ndim)), negate=negate)
    return result.returned(left)


def _reduction(name: str, op: str) -> Function:
    usual = bool if name == "all" else None

    def call(x: Any, axis: Any, *, dtype: Any = usual, mask: Any = None, keepdims: bool = False) -> Tile:
        data = tile(x, f"nl.{name}", "x")
        if name == "all":
            data = combine("not_equal", data, 0, data.dtype, mask)
        if name != "mean":
            return reduce(f"nl.{name}", FUNCTIONS[op], data, axis, mask, dtype or usual, False, keepdims)
        total = reduce("nl.mean", FUNCTIONS[op], data, axis, mask, dtypes.float32, False, keepdims)
        count = data.size // total.size
        return combine("multiply", total, 1.0 / count, dtype or data.dtype)

    call.__doc__ = f"{name} along free dimensions (Vector Engine)."
    return Function(name, call)


REDUCTIONS = {
    name: _reduction(name, op)
    for name, op in {
        "sum": "add",
        "max": "maximum",
        "min": "minimum",
        "prod": "multiply",
        "all": "minimum",
        "mean": "add",
    }.items()
}


def var(x: Any, axis: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """Population variance along free dimensions, which go."""
    data = tile(x, "nl.var", "x")
    mean = REDUCTIONS["mean"](data, axis, dtype=dtypes.float32, mask=mask, keepdims=True)
    centred = combine("subtract", data, mean, dtypes.float32, mask)
    squares = combine("multiply", centred, centred, dtypes.float32, mask)
    return REDUCTIONS["mean"](squares, axis, dtype=dtype or data.dtype, mask=mask)


# -- composites ------------------------------------------------------------------------------------


def softmax(x: Any, axis: Any, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None) -> Tile:
    """exp(x - max) / sum along trailing free dimensions."""
    kind = dtype or compute_dtype
    return elementwise(
        "nl.softmax", lambda dst, data: write(dst, reductions.softmax(data, axis, dst.dtype)), x, mask=mask, dtype=kind
    )


def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    *,
    dtype: Any = None,
    compute_dtype: Any = None,
    mask: Any = None,
) -> Tile:
    """x / sqrt(sum(x²) / n + epsilon) * w."""

    def issue(dst: Tile, data: Tile, weight: Tile) -> None:
        write(dst, reductions.rms_norm(data, weight, axis, n, epsilon, dst.dtype, compute_dtype))

    return elementwise("nl.rms_norm", issue, x, w, mask=mask, dtype=dtype or compute_dtype)


def where(condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """x where condition is not 0, else y."""
    tiles = [side for side in (operand(x, "nl.where"), operand(y, "nl.where")) if isinstance(side, Tile)]
    kind = dtype or (promoted(*tiles) if tiles else promoted(x, y))

    def issue(dst: Tile, flag: Tile, yes: Any, no: Any) -> None:
        write(dst, current.where(flag, yes, no, dst.dtype))

    return elementwise("nl.where", issue, condition, x, y, mask=mask, dtype=kind)


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """Zero elements with probability `rate`; the others are not rescaled."""
    return elementwise("nl.dropout", isa.dropout, x, rate, mask=mask, dtype=dtype)


# -- the Tensor Engine -----------------------------------------------------------------------------


def transpose(x: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """Partition and free dimension exchanged, in a new PSUM tile."""
    return shaped.nc_transpose(x, mask=mask, dtype=dtype)


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None) -> Tile:
    """x @ y, or x.T @ y with transpose_x, in a new PSUM tile."""
    moving = y if type(y) is Tile else tile(y, "nl.matmul", "y")
    stationary = x if type(x) is Tile else tile(x, "nl.matmul", "x")
    if not transpose_x:
        stationary = _turned(in_sbuf(stationary))
    return shaped.nc_matmul(stationary, moving, mask=mask)


def _turned(stationary: Tile) -> Tile:
    """The transpose that the product needs, which compilers add after they have looked for equal values."""
    stationary.check("nl.matmul")
    within("nl.matmul", "x: free size", elements(stationary.shape))
    turned = Result((elements(stationary.shape), stationary.shape[0]), stationary.dtype, Memory.PSUM).part()
    issue(tensor.EXPANDED_TRANSPOSE, (turned, stationary), (), None, Engine.TENSOR)
    return turned


def broadcast_to(src: Any, *, shape: Any) -> Tile:
    """A tile with dimensions of size 1 repeated: a view along free dimensions, a new tile across partitions."""
    source, wanted = tile(src, "nl.broadcast_to", "src"), tuple(int(size) for size in shape)
    if source.shape == wanted:
        return source
    if len(wanted) != source.ndim or any(have not in (1, want) for have, want in zip(source.shape, wanted)):
        raise InputError(
            f"nl.broadcast_to: shape: {list(source.shape)} cannot become {list(wanted)}", source=builder().where()
        )
    source.check("nl.broadcast_to")
    if source.shape[0] != wanted[0]:
        source = Tile.of(current.broadcast_partitions(in_sbuf(source), wanted[0]))
    return source if source.shape == wanted else source.repeated(wanted)


def elements(shape: tuple[int, ...]) -> int:
    """Elements a partition."""
    return product(shape[1:])


EXPORTED: dict[str, Callable[..., Any]] = {**FUNCTIONS, **REDUCTIONS}
EXPORTED |= {f.__name__: f for f in (var, softmax, rms_norm, where, dropout, transpose, matmul, broadcast_to)}

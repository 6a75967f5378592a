"""Products, folds, and orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from sim.frontends.builder import Builder
from sim.frontends.folds import NEUTRAL, argument, product, ranked, top
from sim.frontends.ir import Value
from sim.frontends.stablehlo.reading import Reader, Unwritten, text
from sim.frontends.stablehlo.shapes import known_number, sizes

FOLDS = {
    "stablehlo.add": "add", "stablehlo.multiply": "mul", "stablehlo.maximum": "max", "stablehlo.minimum": "min",
    "stablehlo.and": "and", "stablehlo.or": "or", "stablehlo.xor": "xor",
}  # fmt: skip
LIMITS = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int16": (-(2**15), 2**15 - 1), "int8": (-128, 127),
          "uint8": (0, 255), "uint16": (0, 65535), "bool": (0, 1)}  # fmt: skip


def body_of(op: Any, number: int = 0) -> str:
    """The one function that a region folds with."""
    names = [one.operation.name for one in op.regions[number].blocks[0].operations]
    if len(names) != 2 or names[0] not in FOLDS:
        raise Unwritten(f"a fold by {', '.join(name.removeprefix('stablehlo.') for name in names[:-1])}")
    return FOLDS[names[0]]


def neutral(b: Builder, kind: str, start: Value, dtype: str) -> bool:
    """Whether a fold that starts here starts with nothing."""
    number = known_number(b, start)
    low, high = LIMITS.get(dtype, (None, None))
    return number is not None and (
        number == NEUTRAL.get(kind) or (kind == "max" and number == low) or (kind == "min" and number == high)
    )


def fold(b: Builder, kind: str, x: Value, axes: Sequence[int]) -> Value:
    """Some axes folded, and gone."""
    if x.dtype == "bool":
        kind = {"or": "max", "and": "min", "add": "max", "mul": "min"}.get(kind, kind)
    if kind in ("add", "max", "min"):
        return b.reduce("sum" if kind == "add" else kind, x, axes) if axes else x
    if kind != "mul":
        raise Unwritten(f"a fold by {kind}")
    for axis in sorted(axes, reverse=True):
        found = product(b, x, axis)
        x = b.reshape(found, (*found.shape[:axis], *found.shape[axis + 1 :]))
    return x


def reduce(reader: Reader, op: Any, inputs: list, specs: list) -> Any:
    axes = sizes(op, "dimensions")
    if len(inputs) == 4:
        return _place(reader, op, inputs, axes)
    if len(inputs) != 2:
        raise Unwritten(f"a fold of {len(inputs) // 2} tensors together")
    kind, (x, start) = body_of(op), inputs
    found = fold(reader.builder, kind, x, axes)
    return found if neutral(reader.builder, kind, start, x.dtype) else reader.builder.map(kind, found, start)


def _place(reader: Reader, op: Any, inputs: list, axes: Sequence[int]) -> list[Value]:
    """The extreme of one tensor and the number that another has there: argmax, argmin."""
    x, numbers = inputs[:2]
    kinds = [x.dtype, numbers.dtype] * 2
    up, down = (reader.tried(op, 0, (first, 0.0, 3 - first, 1.0), kinds) for first in (1.0, 2.0))
    kind = {(2.0, 1.0, 2.0, 0.0): "max", (1.0, 0.0, 1.0, 1.0): "min"}.get((*up, *down))
    if kind is None or len(axes) != 1:
        raise Unwritten("a fold of two tensors that is no argmax and no argmin")
    b, axis = reader.builder, axes[0]
    best, at = b.reduce(kind, x, [axis]), argument(b, kind, x, axis)
    return [best, b.cast(at, numbers.dtype)]


def dot_general(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    how = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contract = (list(how.lhs_contracting_dimensions), list(how.rhs_contracting_dimensions))
    batch = (list(how.lhs_batching_dimensions), list(how.rhs_batching_dimensions))
    return reader.builder.dot(*inputs, contract, batch, dtype=specs[0][1])


def dot(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.dot(*inputs, ((inputs[0].rank - 1,), (0,)), dtype=specs[0][1])


def einsum(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """Of two tensors, each letter once in each."""
    given, _, asked = text(op.attributes["einsum_config"]).replace(" ", "").partition("->")
    first, second = given.split(",")
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise Unwritten("a letter twice")
    b, (x, y) = reader.builder, inputs
    for name, other in ((first, second), (second, first)):
        alone = [at for at, letter in enumerate(name) if letter not in other and letter not in asked]
        if alone:
            raise Unwritten("a letter that is summed in one tensor alone")
    shared = [letter for letter in first if letter in second]
    together = [letter for letter in shared if letter in asked]
    inner = [letter for letter in shared if letter not in asked]
    sides = [([name.index(one) for one in inner], [name.index(one) for one in together]) for name in (first, second)]
    found = b.dot(x, y, (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]), dtype=specs[0][1])
    made = [*together, *(one for one in first if one not in shared), *(one for one in second if one not in shared)]
    return b.transpose(found, [made.index(letter) for letter in asked])


def sort(reader: Reader, op: Any, inputs: list, specs: list) -> list[Value]:
    """By the first tensor; the others follow it."""
    axis = int(op.attributes["dimension"])
    kinds = [one.dtype for one in inputs for _ in range(2)]
    rest = [0.0] * (len(kinds) - 2)
    ascending, descending = (reader.tried(op, 0, (a, 3.0 - a, *rest), kinds)[0] for a in (1.0, 2.0))
    ties = [reader.tried(op, 0, (1.0, 1.0, *(more if at % 2 else 1 - more for at in range(len(rest)))), kinds)[0]
            for more in (0.0, 1.0)]  # fmt: skip
    if (ascending, descending) not in ((1.0, 0.0), (0.0, 1.0)) or (rest and any(ties)):
        raise Unwritten("an order that is not by the first tensor alone")
    values, _, *more = ranked(reader.builder, inputs[0], axis, descending == 1.0, *inputs[1:])
    return [values, *more]


def top_k(reader: Reader, op: Any, inputs: list, specs: list) -> list[Value]:
    values, places = top(reader.builder, inputs[0], specs[0][0][-1], -1)
    return [values, reader.builder.cast(places, specs[1][1])]


def batch_norm(reader: Reader, op: Any, inputs: list, specs: list) -> Any:
    """Inference, training (with its mean and variance), and the gradient."""
    b, name = reader.builder, op.operation.name.rpartition("_")[2]
    axis, eps = int(op.attributes["feature_index"]), float(op.attributes["epsilon"])
    x = inputs[0]
    axes = [at for at in range(x.rank) if at != axis]
    count = prod(x.shape[at] for at in axes)

    def wide(vector: Value) -> Value:
        return b.reshape(vector, [x.shape[axis] if at == axis else 1 for at in range(x.rank)])

    if name == "training":
        scale, offset = inputs[1:3]
        mean = b.reduce("mean", x, axes)
        variance = b.reduce("mean", b.map("square", b.map("sub", x, wide(mean))), axes)
    else:
        scale, offset = inputs[1:3]
        mean, variance = inputs[2:4] if name == "grad" else inputs[3:5]
    root = b.map("rsqrt", b.map("add", variance, eps))
    normal = b.map("mul", b.map("sub", x, wide(mean)), wide(root))
    if name != "grad":
        out = b.map("add", b.map("mul", normal, wide(scale)), wide(offset))
        return [out, mean, variance] if name == "training" else out
    dy = inputs[4]
    dscale, doffset = b.reduce("sum", b.map("mul", dy, normal), axes), b.reduce("sum", dy, axes)
    even = b.map("mul", wide(doffset), 1 / count)
    along = b.map("mul", normal, b.map("mul", wide(dscale), 1 / count))
    dx = b.map("mul", b.map("sub", b.map("sub", dy, even), along), b.map("mul", wide(root), wide(scale)))
    return [dx, dscale, doffset]


RULES: dict[str, Callable[..., Any]] = {
    "reduce": reduce, "dot_general": dot_general, "dot": dot, "einsum": einsum, "sort": sort, "chlo.top_k": top_k,
    "batch_norm_inference": batch_norm, "batch_norm_training": batch_norm, "batch_norm_grad": batch_norm,
}  # fmt: skip

"""Functions of each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.frontends.builder import Builder
from sim.frontends.identities import IDENTITIES, atan2
from sim.frontends.ir import Value
from sim.frontends.stablehlo.reading import Reader, Unwritten, text

BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}


def unary(kind: str) -> Callable[..., Value]:
    def rule(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
        x = inputs[0]
        return IDENTITIES[kind](reader.builder, x) if kind in IDENTITIES else reader.builder.map(kind, x)

    return rule


def whole(kind: str) -> Callable[..., Value]:
    """Of a truth value, what `and` and `or` are of it."""
    truth = {"mul": "and", "add": "or", "max": "or", "min": "and"}

    def rule(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
        kept = truth[kind] if inputs[0].dtype == "bool" and kind in truth else kind
        return reader.builder.map(kept, *inputs)

    return rule


def logical(kind: str, bits: str) -> Callable[..., Value]:
    def rule(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
        return reader.builder.map(kind if inputs[0].dtype == "bool" else bits, *inputs)

    return rule


def divide(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """Of whole numbers, what is left after the point is cut off."""
    b, (x, y) = reader.builder, inputs
    if x.is_float:
        return b.map("div", x, y)
    return b.cast(b.map("trunc", b.map("div", b.cast(x, "fp32"), b.cast(y, "fp32"))), x.dtype)


def compare(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    direction = str(op.attributes["comparison_direction"])
    names = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal"}
    kind = next(kind for name, kind in names.items() if name in direction)
    return reader.builder.map(kind, *inputs, dtype="bool")


def select(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.map("select", *inputs, dtype=specs[0][1])


def convert(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.cast(inputs[0], specs[0][1])


def clamp(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    low, x, high = inputs
    return reader.builder.map("min", reader.builder.map("max", x, low), high)


def power(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.map("pow", *inputs)


def precision(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """Rounded to the bits of a smaller format, where there is such a format."""
    bits = tuple(int(op.attributes[name]) for name in ("exponent_bits", "mantissa_bits"))
    form = {(8, 7): "bf16", (5, 10): "fp16", (8, 23): "fp32", (4, 3): "fp8_e4m3", (5, 2): "fp8_e5m2"}.get(bits)
    if form is None:
        raise Unwritten(f"a format of {bits[0]} and {bits[1]} bits")
    b = reader.builder
    # A cast of its own: what is joined with its neighbours would not round.
    rounded = b.add("cast", [inputs[0]], (inputs[0].shape, form), dtype=form)
    return b.add("cast", [rounded], (inputs[0].shape, specs[0][1]), dtype=specs[0][1])


def arithmetic_shift(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """x // 2ⁿ, rounded down; of a number without a sign, a logical one"""
    b, (x, y) = reader.builder, inputs
    if x.dtype.startswith("u"):
        return b.map("right_shift", x, y)
    shifted = b.map("right_shift", x, y)
    ones = b.map("invert", b.map("right_shift", b.full(x.shape, -1, x.dtype), y))
    return b.map("select", b.map("less", x, 0), b.map("bitwise_or", shifted, ones), shifted)


def popcount(b: Builder, x: Value) -> Value:
    found = b.map("bitwise_and", x, 1)
    for bit in range(1, BITS[x.dtype]):
        found = b.map("add", found, b.map("bitwise_and", b.map("right_shift", x, bit), 1))
    return found


def leading_zeros(b: Builder, x: Value) -> Value:
    """The bits that are not set once every bit below a set one is set too."""
    size, step = BITS[x.dtype], 1
    while step < size:
        x = b.map("bitwise_or", x, b.map("right_shift", x, step))
        step *= 2
    return b.map("sub", size, popcount(b, x))


def bits(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """The same bits as another format of the same width."""
    (x,), (shape, dtype) = inputs, specs[0]
    if x.shape != shape:
        raise Unwritten("numbers of another width")
    return reader.builder.add("bits", [x], (shape, dtype), dtype=dtype)


def broadcast(kind: str) -> Callable[..., Value]:
    """CHLO's functions of shapes that broadcast."""

    def rule(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
        wide = [reader.builder.expand(one, specs[0][0]) for one in inputs]
        inner = RULES[kind]
        return inner(reader, op, wide, specs)

    return rule


def infinite(number: float) -> Callable[..., Value]:
    return lambda reader, op, inputs, specs: reader.builder.map("equal", inputs[0], number)


def constant_like(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.full(specs[0][0], float(text(op.attributes["value"]).split(":")[0]), specs[0][1])


_NAMES = {
    "abs": "abs", "exponential": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "negate": "neg",
    "floor": "floor", "ceil": "ceil", "logistic": "sigmoid", "tanh": "tanh", "sine": "sin", "cosine": "cos",
    "tan": "tan", "cbrt": "cbrt", "log_plus_one": "log1p", "exponential_minus_one": "expm1",
    "round_nearest_even": "round", "round_nearest_afz": "round_away", "sign": "sign", "is_finite": "isfinite",
}  # fmt: skip
_CHLO = {
    "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "lgamma": "lgamma", "digamma": "digamma", "sinh": "sinh",
    "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "tan": "tan", "square": "square", "is_inf": "isinf",
}  # fmt: skip
_BROADCAST = ("add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder",
              "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor")  # fmt: skip

RULES: dict[str, Callable[..., Any]] = {
    **{name: unary(kind) for name, kind in _NAMES.items()},
    **{f"chlo.{name}": unary(kind) for name, kind in _CHLO.items()},
    "add": whole("add"), "multiply": whole("mul"), "maximum": whole("max"), "minimum": whole("min"),
    "subtract": whole("sub"), "divide": divide, "remainder": whole("fmod"), "power": power,
    "and": logical("and", "bitwise_and"), "or": logical("or", "bitwise_or"), "xor": logical("xor", "bitwise_xor"),
    "not": logical("not", "invert"), "shift_left": whole("left_shift"), "shift_right_logical": whole("right_shift"),
    "shift_right_arithmetic": arithmetic_shift, "compare": compare, "select": select, "convert": convert,
    "clamp": clamp, "reduce_precision": precision, "bitcast_convert": bits,
    "atan2": lambda reader, op, inputs, specs: atan2(reader.builder, *inputs),
    "popcnt": lambda reader, op, inputs, specs: popcount(reader.builder, inputs[0]),
    "count_leading_zeros": lambda reader, op, inputs, specs: leading_zeros(reader.builder, inputs[0]),
    "chlo.is_pos_inf": infinite(float("inf")), "chlo.is_neg_inf": infinite(float("-inf")),
    "chlo.constant_like": constant_like,
}  # fmt: skip
RULES.update({f"chlo.broadcast_{name}": broadcast(name) for name in _BROADCAST})

"""Functions of each element."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from sim.frontends.builder import COMPARISONS, Builder, Number
from sim.frontends.identities import IDENTITIES, atan2
from sim.frontends.ir import Value

Operand = Value | Number
ORDER = ("bool", "uint8", "int8", "int16", "int32", "fp16", "bf16", "fp32")
"""Of two formats the later one is what both become."""


def common(*operands: Operand) -> str:
    """The format that PyTorch computes in; a number alone never makes a float wider."""
    tensors = [one for one in operands if isinstance(one, Value)]
    ranked = [one for one in tensors if one.rank] or tensors
    kinds = {one.dtype for one in ranked}
    found = "fp32" if {"fp16", "bf16"} <= kinds else max(kinds, key=ORDER.index)
    zero = max((one.dtype for one in tensors), key=ORDER.index)
    if found not in ("fp16", "bf16", "fp32"):
        found = zero if ORDER.index(zero) > ORDER.index(found) and zero.startswith(("fp", "bf")) else found
        if any(isinstance(one, float) for one in operands):
            return "fp32" if not found.startswith(("fp", "bf")) else found
        if found == "bool" and any(isinstance(one, int) and not isinstance(one, bool) for one in operands):
            return "int32"
    return found


def together(b: Builder, *operands: Operand) -> list[Operand]:
    """Operands in one format."""
    kind = common(*operands)
    return [b.cast(one, kind) if isinstance(one, Value) else one for one in operands]


def apply(b: Builder, kind: str, *operands: Operand, dtype: str | None = None) -> Value:
    """One function, of tensors and numbers in their common format."""
    if not any(isinstance(one, Value) for one in operands):
        operands = (b.constant(operands[0], "fp32"), *operands[1:])
    return b.map(kind, *together(b, *operands), dtype=dtype)


def binary(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, specs: list, x: Operand, y: Operand, alpha: Number = 1, **_: Any) -> Value:
        if alpha != 1:
            y = b.map("mul", y, alpha) if isinstance(y, Value) else y * alpha
        return apply(b, kind, x, y)

    return rule


def unary(kind: str) -> Callable[..., Value]:
    """Of a float; a whole number becomes one first, where the result is one."""

    def rule(b: Builder, specs: list, x: Value, **_: Any) -> Value:
        x = b.cast(x, specs[0][1]) if specs[0][1] != "bool" and not x.is_float else x
        return IDENTITIES[kind](b, x) if kind in IDENTITIES else b.map(kind, x)

    return rule


def whole(kind: str) -> Callable[..., Value]:
    """What leaves whole numbers as they are."""
    return lambda b, specs, x, **_: b.map(kind, x) if x.is_float else x


def divide(b: Builder, specs: list, x: Operand, y: Operand, rounding_mode: str | None = None, **_: Any) -> Value:
    kind = common(x, y)
    floats = [b.cast(one, "fp32" if not kind.startswith(("fp", "bf")) else kind) if isinstance(one, Value) else one
              for one in (x, y)]  # fmt: skip
    found = b.map("div", *floats)
    return b.map(rounding_mode, found) if rounding_mode else found


def logical(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, specs: list, x: Value, y: Operand, **_: Any) -> Value:
        return b.map(kind, *(b.cast(one, "bool") if isinstance(one, Value) else bool(one) for one in (x, y)))

    return rule


def bits(kind: str) -> Callable[..., Value]:
    """Of truth values as of whole numbers."""

    def rule(b: Builder, specs: list, x: Operand, y: Operand, **_: Any) -> Value:
        x, y = together(b, x, y)
        y = b.lifted(y, x.dtype) if isinstance(x, Value) else y
        return b.map(kind, x, y)

    return rule


def invert(b: Builder, specs: list, x: Value) -> Value:
    return b.map("not", x) if x.dtype == "bool" else b.map("invert", x)


def clamp(b: Builder, specs: list, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    if low is not None:
        x = apply(b, "max", x, low)
    return apply(b, "min", x, high) if high is not None else x


def where(b: Builder, specs: list, mask: Value, x: Operand, y: Operand) -> Value:
    dtype = specs[0][1]
    x, y = (b.cast(one, dtype) if isinstance(one, Value) else b.constant(one, dtype) for one in (x, y))
    return b.map("select", b.cast(mask, "bool"), x, y)


def gelu(b: Builder, specs: list, x: Value, approximate: str = "none") -> Value:
    return b.map("gelu_tanh" if approximate == "tanh" else "gelu", x)


def gelu_backward(b: Builder, specs: list, dy: Value, x: Value, approximate: str = "none") -> Value:
    """dy (Φ(x) + x φ(x)), or the derivative of the tanh form"""
    if approximate == "tanh":
        inner = b.map("mul", x, b.map("add", b.map("mul", b.map("square", x), 0.044715), 1.0))
        bent = b.map("tanh", b.map("mul", inner, sqrt(2 / 3.141592653589793)))
        slope = b.map("mul", b.map("add", b.map("mul", b.map("square", x), 0.134145), 1.0), 0.7978845608028654)
        right = b.map("mul", b.map("mul", x, b.map("sub", 1.0, b.map("square", bent))), slope)
        return b.map("mul", dy, b.map("mul", b.map("add", b.map("add", bent, 1.0), right), 0.5))
    below = b.map("mul", b.map("add", b.map("erf", b.map("mul", x, sqrt(0.5))), 1.0), 0.5)
    density = b.map("mul", b.map("exp", b.map("mul", b.map("square", x), -0.5)), 0.3989422804014327)
    return b.map("mul", dy, b.map("add", below, b.map("mul", x, density)))


def elu(b: Builder, specs: list, x: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Value:
    low = b.map("mul", IDENTITIES["expm1"](b, b.map("mul", x, float(input_scale))), float(alpha))
    found = b.map("select", b.map("greater", x, 0), x, low)
    return b.map("mul", found, float(scale)) if scale != 1 else found


def leaky_relu(b: Builder, specs: list, x: Value, slope: Number = 0.01) -> Value:
    return b.map("select", b.map("greater", x, 0), x, b.map("mul", x, float(slope)))


def power(b: Builder, specs: list, x: Operand, y: Operand, **_: Any) -> Value:
    """Small whole powers as products: the power of a negative number by logarithms is none."""
    if isinstance(x, Value) and not isinstance(y, Value):
        found = whole_power(b, b.cast(x, specs[0][1]), y)
        if found is not None:
            return found
    return apply(b, "pow", x, y)


def whole_power(b: Builder, x: Value, power: Number) -> Value | None:
    """A power that has a function of its own, or is a product; None for another."""
    named = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 2: "square"}
    if power in named:
        return b.map(named[power], x)
    if power not in (1, 3, 4, -2):
        return None
    square = b.map("square", x) if power != 1 else x
    return {1: lambda: x, 3: lambda: b.map("mul", square, x), 4: lambda: b.map("square", square),
            -2: lambda: b.map("reciprocal", square)}[power]()  # fmt: skip


def rounded(b: Builder, specs: list, x: Value, decimals: int = 0) -> Value:
    if not x.is_float:
        return x
    scale = 10.0**decimals
    return b.map("round", x) if not decimals else b.map("mul", b.map("round", b.map("mul", x, scale)), 1 / scale)


def derivative(kind: str) -> Callable[..., Value]:
    """dy times the derivative as a function of the result: of sigmoid y (1 - y), of tanh 1 - y²."""

    def rule(b: Builder, specs: list, dy: Value, y: Value) -> Value:
        slope = b.map("mul", y, b.map("sub", 1.0, y)) if kind == "sigmoid" else b.map("sub", 1.0, b.map("square", y))
        return b.map("mul", dy, slope)

    return rule


def threshold_backward(b: Builder, specs: list, dy: Value, x: Value, threshold: Number) -> Value:
    return b.map("select", b.map("greater", x, threshold), dy, b.lifted(0, dy.dtype))


def to_copy(b: Builder, specs: list, x: Value, *_: Any, **__: Any) -> Value:
    return b.cast(x, specs[0][1])


def silu_backward(b: Builder, specs: list, dy: Value, x: Value) -> Value:
    """dy s (1 + x (1 - s)), s = sigmoid(x)"""
    s = b.map("sigmoid", x)
    return b.map("mul", dy, b.map("mul", s, b.map("add", b.map("mul", x, b.map("sub", 1.0, s)), 1.0)))


_SAME = ("abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "neg", "sign", "relu", "sigmoid", "tanh", "erf", "silu",
         "square", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log1p",
         "expm1", "log2", "log10", "exp2", "isnan", "isinf", "isfinite", "erfc", "erfinv", "lgamma",
         "digamma")  # fmt: skip
_COMPARED = dict(zip(("eq", "ne", "lt", "le", "gt", "ge"), COMPARISONS))

RULES: dict[str, Callable[..., Any]] = {
    **{name: unary(name) for name in _SAME},
    **{name: whole(name) for name in ("floor", "ceil", "trunc")},
    **{name: binary(kind) for name, kind in _COMPARED.items()},
    **{name: binary(name) for name in ("add", "sub", "mul")},
    "rsub": lambda b, specs, x, y, alpha=1: apply(b, "sub", y, b.map("mul", x, alpha) if alpha != 1 else x),
    "maximum": binary("max"), "minimum": binary("min"), "fmod": binary("fmod"), "remainder": binary("mod"),
    "fmax": binary("max"), "fmin": binary("min"),
    "div": divide, "true_divide": divide,
    "floor_divide": lambda b, specs, x, y: divide(b, specs, x, y, "floor"),
    "pow": power, "round": rounded, "atan2": lambda b, specs, y, x, **_: atan2(b, *together(b, y, x)),
    "logical_and": logical("and"), "logical_or": logical("or"), "logical_xor": logical("xor"),
    "logical_not": lambda b, specs, x: b.map("not", x, dtype="bool"),
    "bitwise_and": bits("bitwise_and"), "bitwise_or": bits("bitwise_or"), "bitwise_xor": bits("bitwise_xor"),
    "bitwise_left_shift": bits("left_shift"), "__lshift__": bits("left_shift"), "bitwise_not": invert,
    "clamp": clamp, "clamp_min": clamp, "clamp_max": lambda b, specs, x, high: clamp(b, specs, x, None, high),
    "hardtanh": lambda b, specs, x, low=-1.0, high=1.0: clamp(b, specs, x, low, high),
    "ldexp": lambda b, specs, x, y, **_: apply(b, "mul", x, b.map("pow", 2.0, b.cast(y, "fp32"))),
    "where": where, "gelu": gelu, "gelu_backward": gelu_backward, "elu": elu, "leaky_relu": leaky_relu,
    "sigmoid_backward": derivative("sigmoid"), "tanh_backward": derivative("tanh"), "silu_backward": silu_backward,
    "threshold_backward": threshold_backward,
    "softplus": lambda b, specs, x, beta=1, threshold=20: _softplus(b, x, float(beta)),
    "_to_copy": to_copy, "to": to_copy, "prims.convert_element_type": to_copy, "_assert_tensor_metadata": to_copy,
}  # fmt: skip


def _softplus(b: Builder, x: Value, beta: float) -> Value:
    if beta == 1:
        return b.map("softplus", x)
    return b.map("mul", b.map("softplus", b.map("mul", x, beta)), 1 / beta)

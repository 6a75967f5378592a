"""What the ALU operators and activation functions compute, in fp32.

sources: NKI 0.6 reference "Supported Math Operators" and "Supported Activation Functions". The Scalar Engine evaluates
piecewise polynomials whose tables are not published; here an activation is its mathematical definition, except `sin`
beyond [-pi, pi], whose documented cubic extrapolation is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi, sqrt

import numpy as np

from sim.trace import NONE

Values = np.ndarray
LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True, slots=True)
class Alu:
    """An operator of the Vector, GpSimd and Scalar engines' arithmetic units.

    apply    : (fp32, fp32) -> fp32 or bool; bit-vector operators take and give integers of one width
    reduce   : the ufunc that folds a row, None where the operator is no legal reduction
    identity : what a fold starts from
    """

    name: str
    apply: Callable[[Values, Values], Values]
    unary: bool = False
    bitvec: bool = False
    reduce: np.ufunc | None = None
    identity: float = 0.0


def _right_shift(a: Values, b: Values) -> Values:
    """Logical: the sign bit is a bit as any other."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.right_shift(a.view(unsigned), np.asarray(b).astype(unsigned)).view(a.dtype)


def _rsqrt(a: Values) -> Values:
    return np.float32(1) / np.sqrt(a)


def _operators() -> dict[str, Alu]:
    both = [
        Alu("add", np.add, reduce=np.add),
        Alu("subtract", np.subtract, reduce=np.subtract),
        Alu("multiply", np.multiply, reduce=np.multiply, identity=1.0),
        Alu("maximum", np.maximum, reduce=np.maximum, identity=-inf),
        Alu("minimum", np.minimum, reduce=np.minimum, identity=inf),
        Alu("logical_and", np.logical_and, reduce=np.logical_and, identity=1.0),
        Alu("logical_or", np.logical_or, reduce=np.logical_or),
        Alu("logical_xor", np.logical_xor, reduce=np.logical_xor),
        Alu("equal", np.equal),
        Alu("not_equal", np.not_equal),
        Alu("greater_equal", np.greater_equal),
        Alu("greater", np.greater),
        Alu("less_equal", np.less_equal),
        Alu("less", np.less),
        Alu("power", np.power),
        Alu("divide", np.divide),
        Alu("mod", np.mod),
        Alu("fmod", np.fmod),
        Alu("abs_max", lambda a, b: np.where(np.abs(a) > np.abs(b), a, b)),
        Alu("abs_min", lambda a, b: np.where(np.abs(a) < np.abs(b), a, b)),
        Alu("bitwise_and", np.bitwise_and, bitvec=True, reduce=np.bitwise_and, identity=-1),
        Alu("bitwise_or", np.bitwise_or, bitvec=True, reduce=np.bitwise_or),
        Alu("bitwise_xor", np.bitwise_xor, bitvec=True, reduce=np.bitwise_xor),
        Alu("left_shift", lambda a, b: np.left_shift(a, np.asarray(b).astype(a.dtype)), bitvec=True),
        Alu("right_shift", _right_shift, bitvec=True),
    ]
    one = [
        Alu("invert", lambda a, b: np.invert(a), unary=True, bitvec=True),
        Alu("abs", lambda a, b: np.abs(a), unary=True),
        Alu("square", lambda a, b: np.square(a), unary=True),
        Alu("relu", lambda a, b: np.maximum(a, np.float32(0)), unary=True),
        Alu("rsqrt", lambda a, b: _rsqrt(a), unary=True),
        Alu("reciprocal", lambda a, b: np.reciprocal(a), unary=True),
        Alu("copy", lambda a, b: a, unary=True),
    ]
    return {op.name: op for op in both + one}


ALU: dict[str, Alu] = _operators()
COMPARISONS = frozenset(("equal", "not_equal", "greater_equal", "greater", "less_equal", "less"))


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of the Scalar Engine.

    valid : inputs for which the reference promises a result
    table : activation table set that must be loaded, -1 when every set has it (which functions share a set is a guess,
            but for {exp}, {sigmoid}, {silu}, {softplus}, which profiles show apart)
    """

    name: str
    apply: Callable[[Values], Values]
    valid: tuple[float, float] = (-inf, inf)
    table: int = NONE


def _erf(x: Values) -> Values:
    from sim.jit import numeric

    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    out = np.empty_like(flat)
    numeric.erf(flat, out)
    return out.reshape(x.shape)


def _erfc(x: Values) -> Values:
    from sim.jit import numeric

    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    out = np.empty_like(flat)
    numeric.erfc(flat, out)
    return out.reshape(x.shape)


def _gated(x: Values, gate: Values) -> Values:
    """x * gate, which is 0 where x is -inf, as the gate has come to 0 by then."""
    return np.maximum(x, -LARGEST) * gate


def _finite(x: Values) -> Values:
    """x with its infinities replaced, for products with what is 0 there."""
    return np.clip(x, -LARGEST, LARGEST)


def _sigmoid(x: Values) -> Values:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def _density(x: Values) -> Values:
    """Of the normal distribution."""
    return np.exp(np.float32(-0.5) * x * x) * np.float32(1 / sqrt(2 * pi))


def _cumulative(x: Values) -> Values:
    return np.float32(0.5) * _erfc(x * np.float32(-sqrt(0.5)))


def _gelu_tanh(x: Values) -> Values:
    inner = np.float32(sqrt(2 / pi)) * x * (np.float32(1) + np.float32(0.044715) * x * x)
    return _gated(x, _sigmoid(np.float32(2) * inner))


def _gelu_sigmoid_dx(x: Values) -> Values:
    slope = np.float32(1.702)
    return _sigmoid_product_dx(slope * x)


def _silu_dx(x: Values) -> Values:
    return _sigmoid_product_dx(x)


def _sigmoid_product_dx(x: Values) -> Values:
    """Derivative of x * sigmoid(x); 1 - sigmoid(x) is sigmoid(-x)."""
    s = _sigmoid(x)
    return s * (np.float32(1) + _finite(x) * _sigmoid(-x))


def _softplus(x: Values) -> Values:
    return np.logaddexp(np.float32(0), x)


def _sin(x: Values) -> Values:
    """Beyond [-pi, pi] the last cubic goes on: sin(9) is 27.65."""
    beyond = np.abs(x) - np.float32(pi)
    cubic = np.sign(x) * (beyond * beyond * beyond / np.float32(6) - beyond)
    return np.where(beyond > 0, cubic, np.sin(x))


def _activations() -> dict[str, Activation]:
    everywhere = [
        Activation("copy", lambda x: x),
        Activation("square", np.square),
        Activation("relu", lambda x: np.maximum(x, np.float32(0))),
        Activation("sign", np.sign),
        Activation("abs", np.abs),
    ]
    tabled = [
        ("exp", np.exp, (-inf, inf)),
        ("sigmoid", _sigmoid, (-inf, inf)),
        ("silu", lambda x: _gated(x, _sigmoid(x)), (-inf, inf)),
        ("softplus", _softplus, (-inf, inf)),
        ("rsqrt", _rsqrt, (2.0**-87, 2.0**97)),
        ("sqrt", np.sqrt, (2.0**-116, 2.0**118)),
        ("log", np.log, (2.0**-64, 2.0**64)),
        ("tanh", np.tanh, (-inf, inf)),
        ("gelu", lambda x: _gated(x, _cumulative(x)), (-inf, inf)),
        ("gelu_dx", lambda x: _cumulative(x) + _finite(x) * _density(x), (-inf, inf)),
        ("gelu_apprx_tanh", _gelu_tanh, (-inf, inf)),
        ("gelu_apprx_sigmoid", lambda x: _gated(x, _sigmoid(np.float32(1.702) * x)), (-inf, inf)),
        ("gelu_apprx_sigmoid_dx", _gelu_sigmoid_dx, (-inf, inf)),
        ("silu_dx", _silu_dx, (-inf, inf)),
        ("mish", lambda x: _gated(x, np.tanh(_softplus(x))), (-inf, inf)),
        ("erf", _erf, (-inf, inf)),
        ("erf_dx", lambda x: np.float32(2 / sqrt(pi)) * np.exp(-x * x), (-inf, inf)),
        ("sin", _sin, (-pi, pi)),
        ("arctan", np.arctan, (-pi / 2, pi / 2)),
        ("reciprocal", np.reciprocal, (-(2.0**42), 2.0**42)),
        ("prelu", lambda x: x, (-inf, inf)),
    ]
    numbered = [Activation(name, apply, valid, table) for table, (name, apply, valid) in enumerate(tabled)]
    return {function.name: function for function in everywhere + numbered}


ACTIVATIONS: dict[str, Activation] = _activations()

"""Functions that no operator has, written with those that operators have."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from sim.frontends.builder import Builder
from sim.frontends.ir import Value

Rule = Callable[..., Value]
TURN = 6.28125


def sine(b: Builder, x: Value) -> Value:
    """Within [-π, π], where the Scalar Engine knows it."""
    turns = b.map("round", b.map("mul", x, 1 / (2 * pi)))
    # A whole turn in two parts, of which the first times a whole number is exact (Cody and Waite).
    rough = b.map("sub", x, b.map("mul", turns, TURN))
    return b.map("sin", b.map("sub", rough, b.map("mul", turns, 2 * pi - TURN)))


def cosine(b: Builder, x: Value) -> Value:
    return sine(b, b.map("add", x, pi / 2))


def log1p(b: Builder, x: Value) -> Value:
    """log(u) x / (u - 1) with u = 1 + x, which keeps what u rounds off (Kahan); x itself where u is 1."""
    u = b.map("add", x, 1.0)
    less = b.map("sub", u, 1.0)
    none = b.map("equal", less, 0.0)
    exact = b.map("mul", b.map("log", u), b.map("div", x, b.map("select", none, b.lifted(1.0, x.dtype), less)))
    found = b.map("select", none, x, exact)
    return b.map("select", b.map("equal", b.map("abs", u), float("inf")), u, found)


def expm1(b: Builder, x: Value) -> Value:
    """tanh(x / 2) (exp(x) + 1), which is exact near 0; exp(x) - 1 elsewhere"""
    near = b.map("mul", b.map("tanh", b.map("mul", x, 0.5)), b.map("add", b.map("exp", x), 1.0))
    far = b.map("sub", b.map("exp", x), 1.0)
    return b.map("select", b.map("less", b.map("abs", x), 0.5), near, far)


def sinh(b: Builder, x: Value) -> Value:
    """(m + m / (m + 1)) / 2 with m = exp(x) - 1"""
    size = b.map("abs", x)
    m = expm1(b, size)
    half = b.map("mul", b.map("add", m, b.map("sub", 1.0, b.map("reciprocal", b.map("add", m, 1.0)))), 0.5)
    return b.map("mul", half, b.map("sign", x))


def cosh(b: Builder, x: Value) -> Value:
    power = b.map("exp", b.map("abs", x))
    return b.map("mul", b.map("add", power, b.map("reciprocal", power)), 0.5)


def asin(b: Builder, x: Value) -> Value:
    """atan(x / sqrt(1 - x²)), and π / 2 at the ends"""
    root = b.map("sqrt", b.map("mul", b.map("sub", 1.0, x), b.map("add", x, 1.0)))
    end = b.map("equal", b.map("abs", x), 1.0)
    inner = arctan(b, b.map("div", x, b.map("select", end, b.lifted(1.0, x.dtype), root)))
    return b.map("select", end, b.map("mul", x, pi / 2), inner)


def acos(b: Builder, x: Value) -> Value:
    return b.map("sub", pi / 2, asin(b, x))


def arctan(b: Builder, x: Value) -> Value:
    """The Scalar Engine knows it within [-π/2, π/2]: beyond 1 it is ±π/2 less that of 1/x"""
    large = b.map("greater", b.map("abs", x), 1.0)
    inside = b.map("arctan", b.map("select", large, b.map("reciprocal", _nonzero(b, x)), x))
    return b.map("select", large, b.map("sub", b.map("mul", b.map("sign", x), pi / 2), inside), inside)


def _nonzero(b: Builder, x: Value) -> Value:
    return b.map("select", b.map("equal", x, 0.0), b.lifted(1.0, x.dtype), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Of the quotient, turned by half a turn where x is negative"""
    flat = b.map("equal", x, 0.0)
    right = arctan(b, b.map("div", y, _nonzero(b, x)))
    upward = b.map("select", b.map("less", y, 0.0), b.lifted(-1.0, x.dtype), b.lifted(1.0, x.dtype))
    left = b.map("add", right, b.map("mul", upward, pi))
    turned = b.map("select", b.map("less", x, 0.0), left, right)
    return b.map("select", flat, b.map("mul", b.map("sign", y), pi / 2), turned)


def asinh(b: Builder, x: Value) -> Value:
    """sign(x) log1p(|x| + x² / (1 + sqrt(x² + 1)))"""
    size, square = b.map("abs", x), b.map("square", x)
    root = b.map("sqrt", b.map("add", square, 1.0))
    inner = b.map("add", size, b.map("div", square, b.map("add", root, 1.0)))
    return b.map("mul", b.map("sign", x), log1p(b, inner))


def acosh(b: Builder, x: Value) -> Value:
    """log(x + sqrt((x - 1)(x + 1)))"""
    root = b.map("sqrt", b.map("mul", b.map("sub", x, 1.0), b.map("add", x, 1.0)))
    return b.map("log", b.map("add", x, root))


def atanh(b: Builder, x: Value) -> Value:
    """(log1p(x) - log1p(-x)) / 2"""
    return b.map("mul", b.map("sub", log1p(b, x), log1p(b, b.map("neg", x))), 0.5)


def tan(b: Builder, x: Value) -> Value:
    return b.map("div", sine(b, x), cosine(b, x))


def cbrt(b: Builder, x: Value) -> Value:
    return b.map("mul", b.map("sign", x), b.map("pow", b.map("abs", x), 1 / 3))


def is_nan(b: Builder, x: Value) -> Value:
    return b.map("not_equal", x, x)


def is_finite(b: Builder, x: Value) -> Value:
    return b.map("less", b.map("abs", x), float("inf"))


def is_inf(b: Builder, x: Value) -> Value:
    return b.map("equal", b.map("abs", x), float("inf"))


def erfc(b: Builder, x: Value) -> Value:
    return b.map("sub", 1.0, b.map("erf", x))


_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def erf_inv(b: Builder, x: Value) -> Value:
    """Two polynomials of w = -log(1 - x²) (M. Giles, Approximating the erfinv function, 2010)."""
    w = b.map("neg", b.map("log", b.map("mul", b.map("sub", 1.0, x), b.map("add", x, 1.0))))
    near = _polynomial(b, b.map("sub", w, 2.5), _CENTRE)
    far = _polynomial(b, b.map("sub", b.map("sqrt", b.map("max", w, 0.0)), 3.0), _TAIL)
    found = b.map("mul", x, b.map("select", b.map("less", w, 5.0), near, far))
    return b.map("select", b.map("equal", b.map("abs", x), 1.0), b.map("mul", x, float("inf")), found)


def _polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """The highest power first."""
    found: Value | float = coefficients[0]
    for each in coefficients[1:]:
        found = b.map("add", b.map("mul", x, found), each)
    return found


_LANCZOS = (676.520368121885098567009190444019, -1259.13921672240287047156078755283,
            771.3234287776530788486528258894, -176.61502916214059906584551354, 12.507343278686904814458936853,
            -0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7)  # fmt: skip
_G = 7.5


def lgamma(b: Builder, x: Value) -> Value:
    """Lanczos' series with g = 7 and 8 terms; below 1/2 by reflection, with sin(π x)."""
    small = b.map("less", x, 0.5)
    z = b.map("sub", b.map("select", small, b.map("sub", 1.0, x), x), 1.0)
    series: Value | float = 0.99999999999980993
    for number, each in enumerate(_LANCZOS):
        series = b.map("add", b.map("mul", b.map("reciprocal", b.map("add", z, number + 1.0)), each), series)
    t = b.map("add", z, _G)
    large = b.map("sub", b.map("mul", b.map("add", z, 0.5), b.map("log", t)), t)
    found = b.map("add", b.map("add", large, b.map("log", series)), log(2 * pi) / 2)
    size = b.map("abs", sine(b, b.map("mul", b.map("sub", x, b.map("floor", x)), pi)))
    mirrored = b.map("sub", b.map("sub", log(pi), b.map("log", size)), found)
    return b.map("select", small, mirrored, found)


def digamma(b: Builder, x: Value) -> Value:
    """Lanczos' series, differentiated; below 1/2 by reflection."""
    small = b.map("less", x, 0.5)
    z = b.map("sub", b.map("select", small, b.map("sub", 1.0, x), x), 1.0)
    above: Value | float = 0.0
    below: Value | float = 0.99999999999980993
    for number, each in enumerate(_LANCZOS):
        part = b.map("reciprocal", b.map("add", z, number + 1.0))
        below = b.map("add", b.map("mul", part, each), below)
        above = b.map("add", b.map("mul", b.map("square", part), -each), above)
    t = b.map("add", z, _G)
    inner = b.map("sub", b.map("log", t), b.map("div", b.lifted(7.0, x.dtype), t))
    found = b.map("add", inner, b.map("div", above, below))
    angle = b.map("mul", x, pi)
    mirrored = b.map("sub", found, b.map("mul", b.map("div", cosine(b, angle), sine(b, angle)), pi))
    return b.map("select", small, mirrored, found)


def logarithm(base: float) -> Rule:
    return lambda b, x: b.map("mul", b.map("log", x), 1 / log(base))


def round_away(b: Builder, x: Value) -> Value:
    """Halves go away from zero."""
    return b.map("mul", b.map("sign", x), b.map("floor", b.map("add", b.map("abs", x), 0.5)))


IDENTITIES: dict[str, Rule] = {
    "sin": sine, "cos": cosine, "tan": tan, "sinh": sinh, "cosh": cosh, "asin": asin, "acos": acos, "atan": arctan,
    "asinh": asinh, "acosh": acosh, "atanh": atanh, "log1p": log1p, "expm1": expm1, "cbrt": cbrt,
    "log2": logarithm(2), "log10": logarithm(10), "exp2": lambda b, x: b.map("exp", b.map("mul", x, log(2))),
    "isnan": is_nan, "isinf": is_inf, "isfinite": is_finite, "erfc": erfc, "erfinv": erf_inv, "lgamma": lgamma,
    "digamma": digamma, "round_away": round_away,
}  # fmt: skip
"""By the names that both frameworks' rules use."""

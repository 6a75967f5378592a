"""Values that NumPy does not compute in one call."""

from __future__ import annotations

import math

import numpy as np

from sim.jit import njit


@njit(cache=True)
def erf(values, out):
    """Fill out[i] with the error function of values[i].

    values, out : float32[n]
    """
    for i in range(values.size):
        out[i] = math.erf(values[i])


@njit(cache=True)
def erfc(values, out):
    """Fill out[i] with one minus the error function of values[i], precise where that is small.

    values, out : float32[n]
    """
    for i in range(values.size):
        out[i] = math.erfc(np.float64(values[i]))


@njit(cache=True)
def scan(data0, data1, state, op0, op1, reverse, out):
    """Fill out[p, i] with op1(op0(data0[p, i], previous), data1[p, i]); the first `previous` is state[p].

    data0, data1, out : float32[p, n]; state: float32[p], the last result of each row on return
    op0, op1          : 0 multiply, 1 add, 2 subtract, 3 maximum, 4 minimum
    reverse           : bit 0 exchanges the arguments of op0, bit 1 those of op1
    """
    for p in range(data0.shape[0]):
        held = state[p]
        for i in range(data0.shape[1]):
            held = _apply(op0, data0[p, i], held) if reverse & 1 == 0 else _apply(op0, held, data0[p, i])
            held = _apply(op1, held, data1[p, i]) if reverse & 2 == 0 else _apply(op1, data1[p, i], held)
            out[p, i] = held
        state[p] = held


@njit(cache=True)
def _apply(op, left, right):
    if op == 0:
        return left * right
    if op == 1:
        return left + right
    if op == 2:
        return left - right
    if op == 3:
        return max(left, right)
    return min(left, right)


@njit(cache=True)
def match_in_order(data, wanted, found):
    """Fill found[p, i] with the first place of wanted[p, i] in data[p] that no earlier equal value took, else -1.

    data : float32[p, n]; wanted: float32[p, k]; found: int64[p, k]
    """
    for p in range(data.shape[0]):
        for i in range(wanted.shape[1]):
            start = 0
            for j in range(i):
                if wanted[p, j] == wanted[p, i] and found[p, j] >= start:
                    start = found[p, j] + 1
            found[p, i] = -1
            for n in range(start, data.shape[1]):
                if data[p, n] == wanted[p, i]:
                    found[p, i] = n
                    break

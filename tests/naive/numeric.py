"""Slow twins of `sim.jit.numeric`."""

import math
import operator

OPERATIONS = (operator.mul, operator.add, operator.sub, max, min)


def erf(values, out):
    for i, value in enumerate(values):
        out[i] = math.erf(value)


def erfc(values, out):
    for i, value in enumerate(values):
        out[i] = math.erfc(value)


def scan(data0, data1, state, op0, op1, reverse, out):
    for p, (row0, row1) in enumerate(zip(data0, data1, strict=True)):
        held = state[p]
        for i, (left, right) in enumerate(zip(row0, row1, strict=True)):
            held = _apply(op0, *((held, left) if reverse & 1 else (left, held)))
            held = _apply(op1, *((right, held) if reverse & 2 else (held, right)))
            out[p, i] = held
        state[p] = held


def _apply(op, left, right):
    return OPERATIONS[op](left, right)


def match_in_order(data, wanted, found):
    for p, row in enumerate(data):
        taken = {}
        for i, value in enumerate(wanted[p]):
            places = [n for n, element in enumerate(row) if element == value]
            turn = taken.get(float(value), 0)
            found[p, i] = places[turn] if turn < len(places) else -1
            taken[float(value)] = turn + 1

"""Slow twin of `sim/jit/aging.py`: all places are compared."""

from __future__ import annotations


def broken(until: list[int], start: int, count: int, now: int) -> bool:
    block = start // count * count
    return any(age >= now for age in until[block : block + count])


def longest_free(until: list[int], count: int, step: int, now: int, block: int) -> int:
    places = [p for p in range(0, len(until) - count + 1, step) if not block or broken(until, p, block, now)]
    ages = [(max(until[start : start + count]), start) for start in places]
    age, start = min(ages, default=(now, -1))
    return start if age < now else -1


def place(grains: list[int], first: list[int], last: list[int], room: int, block: int) -> list[int]:
    """Places of the tiles, in the order of their first instruction, as far as they fit."""
    found: list[int] = []
    until = [-1] * room
    for count, begin, end in zip(grains, first, last, strict=True):
        start = longest_free(until, count, count, begin, block) if count < block else -1
        if start < 0:
            start = longest_free(until, count, count, begin, 0)
        if start < 0:
            start = longest_free(until, count, 1, begin, 0)
        if start < 0:
            return found
        until[start : start + count] = [end] * count
        found.append(start)
    return found

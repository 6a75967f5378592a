"""Slow twin of `sim/jit/aging.py`: all places are compared."""

from __future__ import annotations


def newest(until: list[int], start: int, end: int, enough: int) -> int:
    found = max(until[start:end], default=-1)
    return next((age for age in until[start:end] if age >= enough), found)


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


def oldest(until: list[int], kind: list[int], count: int, block: int, now: int) -> int:
    """As its namesake, with the ages of all places in a list; marks the blocks that are taken in `kind`."""

    def age(start: int) -> int:
        return max(until[start : start + count])

    def is_open(start: int) -> bool:
        begin = start // block * block
        return kind[start // block] == count or max(until[begin : begin + block]) < now

    if count >= block:
        places = range(0, len(until) - count + 1, block)
    else:
        places = [
            start
            for begin in range(0, len(until), block)
            for start in range(begin, min(begin + block, len(until)) - count + 1, count)
            if is_open(start)
        ]
    free = [(age(start), start) for start in places if age(start) < now]
    free = free or [(age(start), start) for start in range(len(until) - count + 1) if age(start) < now]
    if not free:
        return -1
    start = min(free)[1]
    for number in range(start // block, -(-(start + count) // block)):
        kind[number] = count
    return start

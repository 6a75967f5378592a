"""Slow twin of `sim/jit/competing.py`: a sorted list is a heap, and a set is one."""

from __future__ import annotations


def push(heap: list, base: int, count: int, key: int, value: int) -> None:
    heap[base : base + count + 1] = sorted([*heap[base : base + count], (key, value)])


def pop(heap: list, base: int, count: int) -> None:
    heap[base : base + count - 1] = sorted(heap[base : base + count])[1:]


def mark(places: list[int], place: int) -> None:
    places[:] = sorted({*places, place})


def take(places: list[int]) -> int:
    return places.pop(0)

"""Arguments that several commands have."""

from __future__ import annotations

from argparse import ArgumentTypeError

HELP = (
    "a parameter of the kernel. SPEC: DTYPE[SHAPE] such as bf16[128,512] (seeded: normal for floats, 0-127 for "
    "integers), @file.npy or bf16@file.npy, a number, true, false, none, or a string (in quotes where it looks like "
    "one of the others)"
)


def natural(text: str) -> int:
    """A whole number that is not negative, from a command line."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text} is not a whole number of 0 or more")
    return int(text)


def share(text: str) -> float:
    """`3%` or 0.03 of a command line."""
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text} is not a share such as 3%")
    return value

"""What TensorE has done by a moment, row by row."""

from __future__ import annotations

from fractions import Fraction


def done(spans: list[tuple[int, int]], work: list[int], at: int) -> Fraction:
    """Each span's work, spread evenly over its time, as far as it lies before the moment."""
    found = Fraction(0)
    for (start, end), amount in zip(spans, work, strict=True):
        if start <= at:
            found += amount * min(Fraction(at - start, max(end - start, 1)), Fraction(1))
    return found

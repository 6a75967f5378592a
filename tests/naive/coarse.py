"""Slow twin of `trnprof.jit.coarse`."""

from __future__ import annotations

import numpy as np


def push_apart(first: np.ndarray, then: np.ndarray, least: np.ndarray, time: np.ndarray) -> bool:
    before = time.tolist()
    for one, other, apart in zip(first.tolist(), then.tolist(), least.tolist(), strict=True):
        time[other] = max(int(time[other]), int(time[one]) + apart)
    return time.tolist() != before

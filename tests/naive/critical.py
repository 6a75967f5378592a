"""Slow twin of `trnprof.jit.critical`."""

from __future__ import annotations

import numpy as np


def tighten(signaler: np.ndarray, waiter: np.ndarray, gap: np.ndarray, slack: np.ndarray) -> bool:
    before = slack.tolist()
    for first, then, room in zip(signaler.tolist(), waiter.tolist(), gap.tolist(), strict=True):
        slack[first] = min(int(slack[first]), int(slack[then]) + room)
    return slack.tolist() != before

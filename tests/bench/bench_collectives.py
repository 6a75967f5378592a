"""How long collectives take to time: `pytest -n 0 tests/bench/bench_collectives.py`; no timed assertions.

An all-reduce of 1 GiB over 262,144 chips in 4,096 UltraServers: alone, with every chip or every rank late by a time of
its own, and with a slow link. The goal is below 0.1 s.
"""

from __future__ import annotations

import numpy as np
import pytest

from sim.arrivals import Slow
from sim.collectives import exchange
from sim.fabrics import fabric

CHIPS = 262_144
SIZE = 1 << 30
CLUSTER = fabric("trn2u", CHIPS)
SKEWS = {"none": 0, "chips": CLUSTER.chips, "ranks": CLUSTER.ranks}


@pytest.mark.parametrize("skewed", SKEWS)
@pytest.mark.parametrize("slow", [(), (Slow(77, 0.5, "efa"),)], ids=["alike", "a slow link"])
def test_an_all_reduce_over_262144_chips(benchmark, skewed, slow):
    skew = np.random.default_rng(0).exponential(50e6, SKEWS[skewed]) if SKEWS[skewed] else None
    found = benchmark(exchange, "all_reduce", SIZE, CLUSTER, skew=skew, slow=slow)
    assert found.ranks == CLUSTER.ranks and found.duration_ps > 0


def test_a_sweep_of_a_thousand_collectives(benchmark):
    sizes = [1 << bit for bit in range(10, 35)]
    fabrics = [fabric("trn2u", 64 << bit) for bit in range(13)]
    kinds = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    found = benchmark(lambda: [exchange(kind, size, made) for kind in kinds for made in fabrics for size in sizes])
    assert len(found) == 4 * 13 * 25

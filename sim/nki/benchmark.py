"""What `nki.benchmark` leaves on a kernel: the emulator's estimate in the place of measured latencies."""

from __future__ import annotations

from sim.errors import InputError

PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)


class BenchmarkResult:
    """What `nki.benchmark` leaves on a kernel; the figures are the emulator's estimate, not measured."""

    is_estimate = True

    def __init__(self, benchmark_ns: float | None):
        self.nc_latency = Latency(benchmark_ns)


class Latency:
    """Latency statistics of one core. The emulator is deterministic: all percentiles are one number."""

    is_estimate = True

    def __init__(self, benchmark_ns: float | None):
        self._us = None if benchmark_ns is None else benchmark_ns / 1e3

    def get_latency_percentile(self, percentile: int) -> float | None:
        """Microseconds.

        raises: InputError for a percentile that the vendor does not offer
        """
        if percentile not in PERCENTILES:
            raise InputError(f"get_latency_percentile({percentile}): known are {', '.join(map(str, PERCENTILES))}")
        return self._us

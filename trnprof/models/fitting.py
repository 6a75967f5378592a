"""Whether a model fits into HBM, what would, and which way to spread it is fastest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sim.errors import CapacityError, InputError
from sim.models import Sharding, read, training
from sim.models.graph import COLLECTIVE, Operation
from sim.models.work import work_of
from trnprof import words
from trnprof.models.setting import Setting, setting

FIXED_PS = 5_000_000
"""What a kernel takes beside its work, in an estimate: first load, last store."""
MOST_CORES = 4096
"""Logical cores up to which a smaller sharding that fits is looked for."""


def check_fit(asked: Setting) -> None:
    """raises : CapacityError that says by how much a model does not fit, and what would"""
    need, room = sum(asked.held.values()), asked.room
    if need <= room:
        return
    parts = ", ".join(f"{name} {words.size(size)}" for name, size in asked.held.items() if size)
    message = (
        f"{asked.model.name} needs {words.size(need)} of HBM on each core of {asked.device.name}, "
        f"{words.size(need - room)} more than its {words.size(room)} (LNC {asked.lnc}): {parts}"
    )
    raise CapacityError(message, remedy=_remedy(asked))


def _remedy(asked: Setting) -> str:
    found = smallest(asked)
    if found is None:
        return "no tp and pp that divide it make it fit; take a smaller batch, a shorter sequence, or ZeRO"
    shards = found.sharding
    lnc = f" with LNC {found.lnc}" if found.lnc != asked.lnc else ""
    need = words.size(sum(found.held.values()))
    return f"it fits with tp={shards.tp} pp={shards.pp}{lnc}: {need} of {words.size(found.room)}"


def smallest(asked: Setting) -> Setting | None:
    """The fewest cores of tensor and pipeline parallelism that the model fits on; the rest stays as asked."""
    sizes = sorted(
        ((tp, pp) for tp in _powers(MOST_CORES) for pp in _powers(MOST_CORES // tp)),
        key=lambda pair: (pair[0] * pair[1], pair[1]),
    )
    for tp, pp in sizes:
        try:
            shards = replace(asked.sharding, tp=tp, pp=pp, interleave=asked.sharding.interleave if pp > 1 else 1,
                             sp=asked.sharding.sp and tp > 1)  # fmt: skip
            tried = replace(asked, sharding=shards)
            if sum(tried.held.values()) <= tried.room:
                return tried
        except InputError:
            continue
    return None


def _powers(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length()) if 1 << k <= most]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to spread a model, with its time by a roofline and the network's."""

    sharding: Sharding
    time_ps: int
    held_bytes: int
    fits: bool


def search(config: Any, cores: int, **asked: Any) -> tuple[Candidate, ...]:
    """Ways to spread a model over so many logical cores, the fastest that fit first.

    asked  : what `run_model` takes, without tp, pp, dp, cp, ep
    raises : InputError where none divides the model
    """
    model = read(config)
    ways = _shardings(cores, asked, getattr(model, "experts", 0))
    found = [candidate for shards in ways if (candidate := _tried(model, shards, asked))]
    if not found:
        raise InputError(f"search: no way to spread the model over {cores} cores divides it")
    return tuple(sorted(found, key=lambda one: (not one.fits, one.time_ps)))


def _shardings(cores: int, asked: Mapping[str, Any], experts: int) -> Iterator[Sharding]:
    """All products of tp, pp, dp and cp that make up the cores, with experts over dp where there are any."""
    sizes = [size for size in range(1, cores + 1) if cores % size == 0]
    zero = asked.get("zero", 0)
    for tp in sizes:
        for pp in (size for size in sizes if cores % (tp * size) == 0):
            for dp in (size for size in sizes if cores % (tp * pp * size) == 0):
                cp = cores // (tp * pp * dp)
                for ep in sorted({1, dp, tp} if experts else {1}):
                    yield Sharding(tp, pp, dp, ep, cp, bool(asked.get("sp")) and tp > 1, zero if dp > 1 else 0)


def _tried(config: Any, shards: Sharding, asked: Mapping[str, Any]) -> Candidate | None:
    named = {name: value for name, value in asked.items() if name not in ("sp", "zero", "full", "watch", "must_fit")}
    sizes = {name: getattr(shards, name) for name in Sharding.__slots__}
    try:
        tried = setting(config, **(named | sizes))
        held = sum(tried.held.values())
        return Candidate(shards, estimate_ps(tried), held, held <= tried.room)
    except InputError:
        return None


def estimate_ps(asked: Setting) -> int:
    """The time of a phase with every operator at its roof and no overlap between them."""
    duration = _Estimate(asked)
    if asked.workload.phase != "train":
        return sum(calls * duration(operation) for operation, calls in asked.graph.operations())
    network = asked.network
    exchange = None if network is None else lambda scalars: network(scalars)[0]
    return training.step(asked.graph, asked.workload, asked.sharding, duration, exchange).step_ps


class _Estimate:
    """Durations at the roof, each worked out once."""

    def __init__(self, asked: Setting):
        self.asked = asked
        self.known: dict[tuple, int] = {}

    def __call__(self, operation: Operation) -> int:
        if operation.key not in self.known:
            self.known[operation.key] = self._made(operation)
        return self.known[operation.key]

    def _made(self, operation: Operation) -> int:
        if operation.operator == COLLECTIVE:
            return self.asked.network(operation.scalars)[0]
        work = work_of(operation)
        seconds = max(work.flops / self.asked.peak, (work.read_bytes + work.written_bytes) / self.asked.bandwidth)
        return round(seconds * 1e12) + FIXED_PS

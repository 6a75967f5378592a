"""A model in one phase on a device: how long, how well it uses the machine, what bounds it, whether it fits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sim import spec
from sim.errors import CapacityError, UnsupportedError
from sim.models import Sharding, Workload, read
from sim.models.emulation import Emulation, Instance, Watcher, emulate
from sim.models.exchanges import network
from sim.models.families import Model, check_phase
from sim.models.graph import COLLECTIVE
from sim.models.work import count, held_bytes, work_of
from sim.spec import Device, hbm_bandwidth, peak_flops
from sim.trace import Trace
from trnprof import words
from trnprof.bounds import Verdict, judge
from trnprof.machine import machine
from trnprof.regions import whole
from trnprof.work import Index

GIB = 1 << 30
SECOND_PS = 1e12


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """One distinct operation of a model."""

    name: str
    operator: str
    calls: int
    time_ps: int
    """Of all calls."""
    share: float
    """Of the model's time."""
    bound: str | None
    """None where there is no verdict."""
    bound_share: float | None
    mfu: float | None
    mbu: float | None
    shapes: tuple[str, ...]
    verdict: Verdict | None = field(repr=False)
    """Of one call; None for a collective."""

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__ if name != "verdict"}
        return own | {"evidence": [asdict(item) for item in self.verdict.evidence] if self.verdict else []}


@dataclass(frozen=True, slots=True)
class ModelRun:
    """What `run_model` gives; what does not apply to the phase is None."""

    model: str
    workload: Workload
    sharding: Sharding
    device: str
    lnc: int
    latency_ps: int
    """Of the phase: the prompt, one token, one step, one input."""
    ttft_ps: int | None
    """To the first token: prefill, transcribe's encoder."""
    tpot_ps: int | None
    """Between tokens, a sequence: decode."""
    tokens_per_s: float | None
    samples_per_s: float
    mfu: float | None
    """FLOPs of the algorithm over what TensorE of all cores could have done in the time."""
    mbu: float | None
    """Bytes that the operators need at least over what HBM could have moved in the time."""
    flops: int
    """Of one core."""
    moved_bytes: int
    """Of one core, at least."""
    held: Mapping[str, int]
    """Bytes in the HBM of one logical core, by kind."""
    room: int
    """Bytes of HBM of one logical core."""
    verdict: Verdict
    operators: tuple[OperatorUse, ...]
    """The longest first."""
    network_ps: int
    """Time in collectives."""
    emulation: Emulation = field(repr=False)

    @property
    def trace(self) -> Trace:
        return self.emulation.trace

    @property
    def cores(self) -> int:
        """Logical cores."""
        return self.sharding.ranks

    @property
    def chips(self) -> int:
        cores = int(spec.device(self.device)["cores"])
        return -(-self.cores * self.lnc // cores)

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__ if name not in _NOT_PLAIN}
        return own | {
            "workload": asdict(self.workload),
            "sharding": asdict(self.sharding),
            "cores": self.cores,
            "chips": self.chips,
            "held": dict(self.held),
            "verdict": self.verdict.to_json(),
            "operators": [use.to_json() for use in self.operators],
            "notes": list(self.trace.meta.notes),
        }


_NOT_PLAIN = ("workload", "sharding", "held", "verdict", "operators", "emulation")


def run_model(
    config: str | os.PathLike[str] | Mapping[str, Any],
    phase: str = "prefill",
    batch: int = 1,
    seq: int = 2048,
    context: int = 2048,
    device: str = "trn2",
    lnc: int = 1,
    dtype: str = "bf16",
    fabric: str | None = None,
    full: bool = False,
    must_fit: bool = True,
    watch: Watcher | None = None,
    **more: Any,
) -> ModelRun:
    """Emulate a model in one phase.

    config   : a Hugging Face config.json, a TOML of ours, or a mapping
    fabric   : what joins the chips (`trn2u`, `trn3-gen1`); the device's plain instances when not given
    full     : keep every instruction of every layer in the trace
    must_fit : raise where HBM is too small; else the verdict says memory capacity
    watch    : told of (operation, its number, how many there are)
    more     : tp, pp, dp, ep, cp, sp, zero, interleave; draft, steps, microbatch, recompute
    raises   : InputError, UnsupportedError, CapacityError
    """
    shards = {name: more.pop(name) for name in Sharding.__slots__ if name in more}
    workload = Workload(phase, batch, seq, context, dtype, **more)
    sharding = Sharding(**shards)
    model, target = read(config), spec.device(device)
    if not target.emulated:
        raise UnsupportedError(f"{target.title} has no timing model", remedy="only its roofline is known")
    check_phase(model, phase)
    graph = model.graph(workload, sharding)
    held = held_bytes(model, graph, workload, sharding)
    if must_fit:
        check_fit(model, held, target, lnc)
    done = emulate(graph, target.name, lnc, network(sharding, fabric or device, lnc), full, held, watch=watch)
    return _measured(model, workload, sharding, target, lnc, done, held)


def room_bytes(device: Device, lnc: int) -> int:
    """HBM of one logical core."""
    return int(device["hbm_bytes"] * GIB / device["cores"] * lnc)


def check_fit(model: Model, held: Mapping[str, int], device: Device, lnc: int) -> None:
    """raises : CapacityError that says by how much a model does not fit"""
    need, room = sum(held.values()), room_bytes(device, lnc)
    if need <= room:
        return
    parts = ", ".join(f"{name} {words.size(size)}" for name, size in held.items() if size)
    message = (
        f"{model.name} needs {words.size(need)} of HBM on each core of {device.name}, {words.size(need - room)} more "
        f"than its {words.size(room)} (LNC {lnc}): {parts}"
    )
    raise CapacityError(message, remedy="spread it over more cores with tp or pp, or take a smaller batch")


def _measured(
    model: Model,
    workload: Workload,
    sharding: Sharding,
    device: Device,
    lnc: int,
    done: Emulation,
    held: Mapping[str, int],
) -> ModelRun:
    graph, latency = done.graph, done.duration_ps
    index, roofs = Index(done.trace), machine(done.trace)
    sums = count(graph)
    peak, bandwidth = _limits(workload, device, lnc)
    seconds = latency / SECOND_PS
    stages = sharding.pp
    tokens = _tokens(workload)
    return ModelRun(
        model=model.name,
        workload=workload,
        sharding=sharding,
        device=device.name,
        lnc=lnc,
        latency_ps=latency,
        ttft_ps=latency if workload.phase == "prefill" else None,
        tpot_ps=latency if workload.phase == "decode" else None,
        tokens_per_s=tokens / seconds if tokens else None,
        samples_per_s=workload.batch / seconds,
        mfu=sums.flops / (peak * seconds * stages) if peak else None,
        mbu=sums.moved_bytes / (bandwidth * seconds * stages),
        flops=sums.flops,
        moved_bytes=sums.moved_bytes,
        held=held,
        room=room_bytes(device, lnc),
        verdict=judge(index, roofs, whole(done.trace, index)),
        operators=_operators(done, peak, bandwidth),
        network_ps=sum(one.total_ps for one in done.instances if one.operation.operator == COLLECTIVE),
        emulation=done,
    )


def _limits(workload: Workload, device: Device, lnc: int) -> tuple[float, float]:
    """FLOP/s and bytes/s of one logical core."""
    return peak_flops(device, workload.dtype) * lnc, hbm_bandwidth(device) * lnc


def _tokens(workload: Workload) -> int:
    """Tokens that all cores together take in or give out."""
    per_sequence = {"prefill": workload.seq, "decode": 1, "train": workload.seq, "transcribe": workload.seq}
    return workload.batch * per_sequence.get(workload.phase, 0)


def _operators(done: Emulation, peak: float, bandwidth: float) -> tuple[OperatorUse, ...]:
    uses = [_use(instance, done.duration_ps, peak, bandwidth) for instance in done.instances]
    return tuple(sorted(uses, key=lambda use: -use.time_ps))


def _use(instance: Instance, latency: int, peak: float, bandwidth: float) -> OperatorUse:
    operation, work = instance.operation, work_of(instance.operation)
    verdict = None
    if instance.trace is not None:
        index = Index(instance.trace)
        verdict = judge(index, machine(instance.trace), whole(instance.trace, index))
    seconds = instance.duration_ps / SECOND_PS
    shapes = tuple(f"{one.dtype}[{','.join(map(str, one.shape))}]" for one in operation.inputs)
    if verdict is None:
        shapes = (
            f"{operation.scalars['kind']} {words.size(operation.scalars['size_bytes'])} x {operation.scalars['ranks']}",
        )
    return OperatorUse(
        name=instance.name,
        operator=operation.operator,
        calls=instance.calls,
        time_ps=instance.total_ps,
        share=instance.total_ps / latency if latency else 0.0,
        bound=verdict.bound if verdict else "network",
        bound_share=verdict.share if verdict else 1.0,
        mfu=work.flops / (peak * seconds) if work and seconds and peak else None,
        mbu=(work.read_bytes + work.written_bytes) / (bandwidth * seconds) if work and seconds else None,
        shapes=shapes,
        verdict=verdict,
    )


__all__ = ["ModelRun", "OperatorUse", "check_fit", "room_bytes", "run_model"]

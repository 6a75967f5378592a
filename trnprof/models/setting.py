"""A model, what is asked of it, and the machine: what every question about a model starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sim import fabrics, spec
from sim.errors import InputError, UnsupportedError
from sim.models import Sharding, Workload, pipeline, read, training
from sim.models.exchanges import Network, network
from sim.models.families import Model, check_phase
from sim.models.graph import Graph
from sim.models.work import held_bytes
from sim.models.workload import FP8
from sim.spec import Device, hbm_bandwidth, peak_flops

GIB = 1 << 30
PAIRED = 3
"""The generation of NeuronCores from which on two can make one logical core."""


@dataclass(frozen=True)
class Setting:
    """One model in one phase on one machine."""

    model: Model
    workload: Workload
    sharding: Sharding
    device: Device
    lnc: int
    fabric: str | None
    """What joins the chips; None for the device's plain instances."""
    slow_link: float = 1.0
    """Share of their rate that the links of one chip have."""

    @cached_property
    def graph(self) -> Graph:
        """What one core of each stage does; of training, the forward pass over one microbatch."""
        return self.model.graph(self.workload, self.sharding)

    @cached_property
    def held(self) -> Mapping[str, int]:
        """Bytes in the HBM of one logical core, of the fullest pipeline stage, by kind."""
        if self.workload.phase != "train":
            return held_bytes(self.model, self.graph, self.workload, self.sharding)
        stages, count = self.sharding.pp, training.microbatches(self.workload, self.sharding)
        orders = [pipeline.order(stage, stages, self.sharding.interleave, count) for stage in range(stages)]
        return training.held(self.graph, self.workload, self.sharding, [pipeline.most_held(tasks) for tasks in orders])

    @property
    def room(self) -> int:
        """Bytes of HBM of one logical core."""
        return int(self.device["hbm_bytes"] * GIB / self.device["cores"] * self.lnc)

    @property
    def peak(self) -> float:
        """FLOP/s of one logical core."""
        return peak_flops(self.device, self.workload.dtype) * self.lnc

    @property
    def bandwidth(self) -> float:
        """HBM bytes/s of one logical core."""
        return hbm_bandwidth(self.device) * self.lnc

    @cached_property
    def network(self) -> Network | None:
        return network(self.sharding, self.fabric or self.device, self.lnc, self.slow_link)


def setting(
    config: str | os.PathLike[str] | Mapping[str, Any] | Model,
    phase: str | None = None,
    device: str | Device = "trn2",
    lnc: int = 1,
    fabric: str | None = None,
    slow_link: float = 1.0,
    **more: Any,
) -> Setting:
    """raises : InputError, UnsupportedError for what cannot be asked"""
    shards = {name: more.pop(name) for name in Sharding.__slots__ if name in more}
    strange = [name for name in more if name not in Workload.__slots__]
    if strange:
        raise InputError(f"{', '.join(strange)}: no such setting of a model")
    if more.get("dtype") == "fp8":
        more["dtype"] = FP8
    sharding = Sharding(**shards)
    target = spec.device(device)
    if not target.emulated:
        raise UnsupportedError(f"{target.title} has no timing model", remedy="only its roofline is known")
    if lnc not in (1, 2):
        raise InputError(f"lnc={lnc!r}: a logical core has 1 or 2 physical cores")
    if lnc > 1 and target.generation < PAIRED:
        raise InputError(f"lnc={lnc}: a logical core of {target.name} is one physical core")
    if fabric is not None and fabrics.fabric(fabric).device.name != target.name:
        raise InputError(f"fabric={fabric}: it joins other chips than {target.name}")
    model = config if hasattr(config, "graph") else read(config)
    phase = phase or model.phases[0]
    check_phase(model, phase)
    workload = _workload(model, phase, more)
    return Setting(model, workload, sharding, target, lnc, fabric, slow_link)


def _workload(model: Model, phase: str, asked: dict[str, Any]) -> Workload:
    """As asked; what is left open is as long as a learned table of positions allows."""
    positions = getattr(model, "positions", 0)
    if not positions:
        return Workload(phase, **asked)
    usual = Workload(phase)
    free = positions - asked.get("draft", 0) - 1
    defaults = {"seq": min(usual.seq, positions), "context": max(1, min(usual.context, free))}
    workload = Workload(phase, **defaults | asked)
    if workload.length > positions and not getattr(model, "patches", 0):
        name = "context" if phase == "decode" else "seq"
        raise InputError(f"{name}={getattr(workload, name)}: {model.name} has {positions} positions")
    return workload

"""What is known of a model that has run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sim import spec
from sim.models import Sharding, Workload
from sim.models.emulation import Emulation
from sim.models.training import Exposed
from sim.trace import Trace
from trnprof.bounds import Verdict


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
class TrainingUse:
    """What only a training step has."""

    microbatches: int
    bubble_ps: int
    """In which the pipeline stage that works longest has nothing to do."""
    exchanges: tuple[Exposed, ...]
    """Of gradients and weights over dp."""
    hfu: float
    """As MFU, with what is computed again."""

    @property
    def exposed_ps(self) -> int:
        """Exchanges over dp that no work hides."""
        return sum(one.exposed_ps for one in self.exchanges)


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
    """To the first token: prefill."""
    tpot_ps: int | None
    """Between tokens of a sequence, on average: decode."""
    tokens_per_s: float | None
    samples_per_s: float | None
    """None for one token more of each sequence, which ends none."""
    mfu: float | None
    """FLOPs of the algorithm over what TensorE of all cores could have done in the time."""
    mbu: float | None
    """Bytes that the operators need at least over what HBM could have moved in the time."""
    flops: int
    """Of one core of every pipeline stage."""
    moved_bytes: int
    """Of one core of every pipeline stage, at least."""
    held: Mapping[str, int]
    """Bytes in the HBM of one logical core, by kind."""
    room: int
    """Bytes of HBM of one logical core."""
    verdict: Verdict
    operators: tuple[OperatorUse, ...]
    """The longest first."""
    network_ps: int
    """Time in collectives."""
    training: TrainingUse | None
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
        return chips(self.cores, self.device, self.lnc)

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
            "training": asdict(self.training) if self.training else None,
            "notes": list(self.trace.meta.notes),
        }


_NOT_PLAIN = ("workload", "sharding", "held", "verdict", "operators", "training", "emulation")


def chips(cores: int, device: str, lnc: int) -> int:
    """Chips that so many logical cores fill."""
    return -(-cores * lnc // int(spec.device(device)["cores"]))

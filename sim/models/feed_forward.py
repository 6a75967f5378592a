"""The feed-forward part of a transformer layer: dense, gated, or many experts of which each token takes a few."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sim.models.draft import QUICK, Draft
from sim.models.graph import SIZES, Operand
from sim.models.workload import Sharding, divided

WIDEST = 12_288
"""Hidden size up to which the kernel of a whole feed-forward part finds room on chip for more than `FEW` tokens."""
FEW = 128


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two products with an activation between them, three where one gates."""

    intermediate: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    experts: int = 0
    """0 for a dense one."""
    experts_per_token: int = 0
    shared_intermediate: int = 0
    """Of an expert that every token takes."""


def feed(draft: Draft, part: FeedForward, rows: int, hidden: int) -> None:
    """The feed-forward part on `rows` tokens, to the sum over tensor-parallel cores."""
    if part.experts:
        _experts(draft, part, rows, hidden)
    else:
        local = divided("feed-forward columns", part.intermediate, "tp", draft.sharding.tp)
        _dense(draft, part, "mlp", rows, hidden, local)
    draft.reduced("mlp", rows, hidden)


def _dense(
    draft: Draft,
    part: FeedForward,
    name: str,
    rows: int,
    hidden: int,
    local: int,
    times: int = 1,
    held: int = 1,
    role: str = "weight",
) -> None:
    """One kernel where the activations need not be kept and it has room for them, else one a product."""
    if (
        draft.workload.phase != "train"
        and draft.workload.dtype in QUICK
        and not part.bias
        and (rows <= FEW or hidden <= WIDEST)
    ):
        weights = [draft.weight(hidden, local, role=role)] * (2 if part.gated else 1)
        weights.append(draft.weight(local, hidden, role=role))
        operator = "gated_mlp" if part.gated else "mlp"
        flow = draft.flow(rows, hidden)
        draft.call(f"{name}/{operator}", operator, flow, *weights, times=times, held=held, activation=part.activation)
        return
    each = {"bias": part.bias, "times": times, "held": held, "role": role}
    if part.gated:
        draft.matmul(f"{name}/gate", rows, hidden, local, **each)
        draft.matmul(f"{name}/up", rows, hidden, local, same_input=True, **each)
        shapes = ((rows, local), (rows, local))
        draft.elementwise(f"{name}/{part.activation}", f"{part.activation}_multiply", *shapes, times=times)
    else:
        draft.matmul(f"{name}/up", rows, hidden, local, **each)
        draft.elementwise(f"{name}/{part.activation}", part.activation, (rows, local), times=times)
    draft.matmul(f"{name}/down", rows, local, hidden, **each)


def _experts(draft: Draft, part: FeedForward, rows: int, hidden: int) -> None:
    """Routing, the way to the experts and back, and the experts, each with its even share of the tokens."""
    sharding, chosen = draft.sharding, part.experts_per_token
    draft.matmul("mlp/router", rows, hidden, part.experts)
    draft.call("mlp/routing", "topk_routing", draft.flow(rows, part.experts), k=chosen, normalize=True)
    copies = rows * chosen
    element = SIZES[draft.dtype]
    if sharding.experts_over_data:
        draft.collective("mlp/dispatch", "all_to_all", copies * hidden * element, "dp", sharding.ep)
    local = divided("experts", part.experts, "ep", sharding.ep)
    columns = divided("expert columns", part.intermediate, "tp", sharding.expert_slices)
    active, each = routed(part, rows, sharding)
    if _together(draft, part, rows, active):
        _at_once(draft, part, rows, hidden, columns)
    else:
        _dense(draft, part, "mlp/experts", each, hidden, columns, times=active, held=local, role="expert")
        if sharding.experts_over_data:
            draft.collective("mlp/combine", "all_to_all", copies * hidden * element, "dp", sharding.ep)
        draft.elementwise("mlp/weighted_sum", "add", (rows, hidden), (rows, hidden), times=chosen)
    if part.shared_intermediate:
        columns = divided("shared expert columns", part.shared_intermediate, "tp", sharding.tp)
        _dense(draft, part, "mlp/shared", rows, hidden, columns)


def _together(draft: Draft, part: FeedForward, rows: int, active: int) -> bool:
    """Whether the kernel of all experts is faster than one call an expert: for few tokens, unless it reads experts that
    no token reaches. It reads one a choice, and every expert where there are more choices than experts."""
    return (
        draft.workload.phase != "train"
        and draft.workload.dtype in QUICK
        and part.gated
        and not part.bias
        and draft.sharding.ep == 1
        and rows <= FEW
        and min(rows * part.experts_per_token, part.experts) <= active
    )


def _at_once(draft: Draft, part: FeedForward, rows: int, hidden: int, columns: int) -> None:
    """The experts of all tokens and their weighted sum in one kernel."""
    first = draft.weight(part.experts, hidden, columns, role="expert")
    last = draft.weight(part.experts, columns, hidden, role="expert")
    chosen = rows, part.experts_per_token
    numbers, factors = Operand(chosen, "int32", "index"), Operand(chosen, draft.dtype, "index")
    draft.call("mlp/experts/expert_mlp", "expert_mlp", draft.flow(rows, hidden), first, first, last, numbers, factors,
               activation=part.activation)  # fmt: skip


def routed(part: FeedForward, rows: int, sharding: Sharding) -> tuple[int, int]:
    """(experts of this core that get a token, tokens of each), when tokens choose evenly and independently.

    rows : tokens of one data-parallel core
    """
    local = part.experts // sharding.ep
    tokens = rows * (sharding.ep if sharding.experts_over_data else 1)
    idle = (1 - part.experts_per_token / part.experts) ** tokens
    active = max(1, round(local * (1 - idle)))
    return active, max(1, ceil(tokens * part.experts_per_token * local / part.experts / active))

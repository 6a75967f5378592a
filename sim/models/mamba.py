"""Mamba: layers that carry a state along the sequence instead of looking back at it."""

from __future__ import annotations

from dataclasses import dataclass

from sim.models.config import Fields
from sim.models.decoder import name_of
from sim.models.draft import Draft
from sim.models.graph import SIZES, Graph, Layer, Operand, Section
from sim.models.workload import Sharding, Workload, divided, only


@dataclass(frozen=True, slots=True)
class Mamba:
    """Embedding, selective state-space layers, norm and head."""

    name: str
    hidden: int
    inner: int
    """Channels that have a state."""
    state: int
    """Numbers of the state of one channel."""
    rank: int
    """Of the projection that makes the step size."""
    kernel: int
    """Tokens that the convolution before the scan sees."""
    layers: int
    vocabulary: int
    tied: bool
    phases: tuple[str, ...] = ("prefill", "decode")

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """What one core does for its sequences."""
        only(sharding, self.name, "tp", "dp")
        batch = divided("the batch", workload.batch, "dp", sharding.dp)
        tokens = 1 if workload.phase == "decode" else workload.seq
        draft, rows = Draft(workload, sharding), batch * tokens
        ids = Operand((rows,), "int32", "index")
        draft.call("embedding/tokens", "embedding", ids, draft.weight(self._columns(sharding), self.hidden))
        draft.reduced("embedding", rows, self.hidden)
        layers = [draft.layer("embedding")]
        self._layer(draft, batch, tokens)
        layers += [
            draft.layer("layers", self.layers),
            self._head(draft, batch if workload.phase == "prefill" else rows),
        ]
        return Graph(self.name, workload.phase, (Section("model", tuple(layers)),))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """The state and the last inputs of the convolution, however long the sequence is."""
        batch = divided("the batch", workload.batch, "dp", sharding.dp)
        inner = divided("inner channels", self.inner, "tp", sharding.tp)
        each = inner * (self.state * SIZES["fp32"] + (self.kernel - 1) * SIZES[Draft(workload, sharding).dtype])
        return batch * self.layers * each

    def _layer(self, draft: Draft, batch: int, tokens: int) -> None:
        rows, inner = batch * tokens, divided("inner channels", self.inner, "tp", draft.sharding.tp)
        draft.norm("norm", rows, self.hidden)
        draft.matmul("in", rows, self.hidden, 2 * inner)
        width = tokens if draft.workload.phase != "decode" else self.kernel
        draft.call("convolution", "depthwise_conv1d", draft.flow(batch, inner, width + self.kernel - 1 if
                   draft.workload.phase != "decode" else width), draft.weight(inner, self.kernel))  # fmt: skip
        draft.elementwise("convolution/silu", "silu", (rows, inner))
        draft.matmul("scan/inputs", rows, inner, self.rank + 2 * self.state)
        draft.collective("scan/all_reduce", "all_reduce", rows * (self.rank + 2 * self.state) * 2, "tp")
        draft.matmul("scan/step", rows, self.rank, inner, bias=True)
        self._scan(draft, batch, tokens, inner)
        draft.elementwise("gate", "silu_multiply", (rows, inner), (rows, inner))
        draft.matmul("out", rows, inner, self.hidden)
        draft.reduced("out", rows, self.hidden)
        draft.add("residual", rows, self.hidden)

    def _scan(self, draft: Draft, batch: int, tokens: int, inner: int) -> None:
        flow = draft.flow(batch, tokens, inner)
        states = draft.flow(batch, tokens, self.state)
        decay = draft.weight(inner, self.state, dtype="fp32")
        before = [Operand((batch, inner, self.state), "fp32", "cache")] if draft.workload.phase == "decode" else []
        draft.call("scan", "ssm_scan", flow, flow, decay, states, states, draft.weight(inner), *before)

    def _head(self, draft: Draft, rows: int) -> Layer:
        columns = self._columns(draft.sharding)
        draft.norm("head/norm", rows, self.hidden)
        draft.matmul("head/logits", rows, self.hidden, columns, shared=self.tied)
        return draft.layer("head")

    def _columns(self, sharding: Sharding) -> int:
        return -(-self.vocabulary // sharding.tp)


def read_mamba(fields: Fields) -> Mamba:
    """Mamba as Hugging Face writes it."""
    hidden = fields.integer("hidden_size", "d_model", most=1 << 20)
    expand = fields.integer("expand", default=2, most=64)
    rank = None if fields.values.get("time_step_rank") == "auto" else fields.integer("time_step_rank", default=None)
    return Mamba(
        name=name_of(fields),
        hidden=hidden,
        inner=fields.integer("intermediate_size", default=expand * hidden),
        state=fields.integer("state_size", default=16, most=1 << 12),
        rank=rank or -(-hidden // 16),
        kernel=fields.integer("conv_kernel", default=4, most=64),
        layers=fields.integer("num_hidden_layers", "n_layer", most=10_000),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )

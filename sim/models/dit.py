"""Diffusion transformers: DiT over the patches of a latent image."""

from __future__ import annotations

from dataclasses import dataclass

from sim.models.attention import Attention, attend
from sim.models.config import Fields
from sim.models.decoder import name_of
from sim.models.draft import Draft
from sim.models.feed_forward import FeedForward, feed
from sim.models.graph import Graph, Layer, Operand, Section
from sim.models.workload import Sharding, Workload, divided, only

GUIDED = 2
"""Passes for one image: with its condition and without (classifier-free guidance)."""
FREQUENCIES = 256
"""Numbers that a time is written as before it is embedded."""


@dataclass(frozen=True, slots=True)
class DiT:
    """Equal layers whose norms are scaled and shifted by what is to be drawn and how far it is."""

    name: str
    hidden: int
    layers: int
    attention: Attention
    feed_forward: FeedForward
    tokens: int
    patch_inputs: int
    patch_outputs: int
    phases: tuple[str, ...] = ("denoise",)

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """Steps of a denoiser, each over every image twice."""
        only(sharding, self.name, "tp", "dp")
        batch = GUIDED * divided("the batch", workload.batch, "dp", sharding.dp)
        draft = Draft(workload, sharding)
        layers = [self._begin(draft, batch)]
        self._block(draft, batch)
        layers += [draft.layer("layers", self.layers), self._end(draft, batch)]
        return Graph(self.name, workload.phase, (Section("step", tuple(layers), workload.steps),))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Nothing stays from step to step."""
        return 0

    def _begin(self, draft: Draft, batch: int) -> Layer:
        rows = batch * self.tokens
        draft.matmul("patches", rows, self.patch_inputs, self.hidden, bias=True)
        draft.call("positions", "elementwise", draft.flow(self.tokens, self.hidden),
                   draft.weight(self.tokens, self.hidden), times=batch, held=1, kind="add")  # fmt: skip
        draft.matmul("time/1", batch, FREQUENCIES, self.hidden, bias=True, activation="silu")
        draft.matmul("time/2", batch, self.hidden, self.hidden, bias=True)
        return draft.layer("begin")

    def _block(self, draft: Draft, batch: int) -> None:
        draft.elementwise("condition/silu", "silu", (batch, self.hidden))
        draft.matmul("condition/scales and shifts", batch, self.hidden, 6 * self.hidden, bias=True)
        rows = batch * self.tokens
        for name in ("attention", "mlp"):
            self._modulated(draft, name, batch)
            if name == "attention":
                attend(draft, self.attention, batch, self.tokens, self.hidden)
            else:
                feed(draft, self.feed_forward, rows, self.hidden)
            self._broadcast(draft, f"{name}/gate", "mul", batch)
            draft.add(f"{name}/residual", rows, self.hidden)

    def _modulated(self, draft: Draft, name: str, batch: int) -> None:
        """A norm without weights of its own, then a scale and a shift for each image."""
        ones = Operand((self.hidden,), draft.dtype, "index")
        draft.call(f"{name}/norm", "layernorm", draft.flow(batch * self.tokens, self.hidden), ones, ones)
        self._broadcast(draft, f"{name}/scale", "mul", batch)
        self._broadcast(draft, f"{name}/shift", "add", batch)

    def _broadcast(self, draft: Draft, name: str, kind: str, batch: int) -> None:
        draft.elementwise(name, kind, (self.tokens, self.hidden), (self.hidden,), times=batch)

    def _end(self, draft: Draft, batch: int) -> Layer:
        draft.matmul("condition/scale and shift", batch, self.hidden, 2 * self.hidden, bias=True)
        self._modulated(draft, "end", batch)
        draft.matmul("patches", batch * self.tokens, self.hidden, self.patch_outputs, bias=True)
        return draft.layer("end")


def read_dit(fields: Fields) -> DiT:
    """DiT as diffusers writes it."""
    heads = fields.integer("num_attention_heads", most=1 << 16)
    head_dim = fields.integer("attention_head_dim", most=1 << 14)
    hidden = heads * head_dim
    patch, size = fields.integer("patch_size"), fields.integer("sample_size", most=1 << 16)
    if size % patch:
        raise fields.fault("patch_size", f"{patch} does not divide a sample of {size}")
    channels = fields.integer("in_channels")
    outputs = fields.integer("out_channels", default=2 * channels)
    attention = Attention(heads, heads, head_dim, False, rope=False, qkv_bias=True, output_bias=True)
    return DiT(
        name=name_of(fields),
        hidden=hidden,
        layers=fields.integer("num_layers", most=10_000),
        attention=attention,
        feed_forward=FeedForward(4 * hidden, False, "gelu", bias=True),
        tokens=(size // patch) ** 2,
        patch_inputs=channels * patch * patch,
        patch_outputs=outputs * patch * patch,
    )

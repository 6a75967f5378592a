"""Encoders that see all of their input at once: BERT for text, ViT for images."""

from __future__ import annotations

from dataclasses import dataclass

from sim.models.attention import Attention, attend
from sim.models.config import Fields
from sim.models.decoder import activation_of, local_words, loss, name_of
from sim.models.draft import Draft
from sim.models.feed_forward import FeedForward, feed
from sim.models.graph import Graph, Layer, Operand, Section
from sim.models.workload import Sharding, Workload, only, sequences_of


@dataclass(frozen=True, slots=True)
class Encoder:
    """Equal layers over tokens or patches."""

    name: str
    hidden: int
    layers: int
    attention: Attention
    feed_forward: FeedForward
    before: bool
    """Norms come before attention and feed-forward, not after."""
    vocabulary: int = 0
    """0 for images."""
    positions: int = 0
    patch_inputs: int = 0
    """Numbers of one patch of an image."""
    patches: int = 0
    classes: int = 0
    phases: tuple[str, ...] = ("encode", "train")

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """What one core does for its inputs; of training, the forward pass over one microbatch."""
        training = workload.phase == "train"
        only(sharding, self.name, "tp", "dp", "sp", *(("zero",) if training else ()))
        draft = Draft(workload, sharding)
        batch = sequences_of(workload, sharding)
        tokens = self.patches + 1 if self.patches else workload.seq
        rows = batch * tokens
        first = self._patches(draft, batch) if self.patches else self._words(draft, rows)
        encoder_block(draft, self.attention, self.feed_forward, batch, tokens, self.hidden, self.before)
        end = self._masked_words if training and self.vocabulary else self._end
        layers = (first, draft.layer("layers", self.layers), end(draft, batch, rows))
        return Graph(self.name, workload.phase, (Section("model", layers),))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """An encoder keeps nothing."""
        return 0

    def _words(self, draft: Draft, rows: int) -> Layer:
        """Words, places and kinds of text are looked up and added."""
        ids = Operand((rows,), "int32", "index")
        tables = (("tokens", self.vocabulary), ("positions", self.positions), ("types", 2))
        for name, size in tables:
            draft.call(f"embedding/{name}", "embedding", ids, draft.weight(size, self.hidden))
        draft.add("embedding/add positions", rows, self.hidden)
        draft.add("embedding/add types", rows, self.hidden)
        draft.norm("embedding/norm", rows, self.hidden, "layernorm")
        return draft.layer("embedding")

    def _patches(self, draft: Draft, batch: int) -> Layer:
        """A convolution whose stride is its width is a product of patches."""
        patches = Operand((batch * self.patches, self.patch_inputs), draft.workload.dtype, "index")
        weights = draft.weight(self.patch_inputs, self.hidden, dtype=draft.workload.dtype), draft.weight(self.hidden)
        draft.call("embedding/patches", "matmul", patches, *weights)
        tokens = self.patches + 1
        places = draft.weight(tokens, self.hidden)
        draft.call("embedding/positions", "elementwise", draft.flow(tokens, self.hidden), places, times=batch, held=1,
                   kind="add")  # fmt: skip
        return draft.layer("embedding")

    def _end(self, draft: Draft, batch: int, rows: int) -> Layer:
        if self.before:
            draft.norm("head/norm", rows, self.hidden, "layernorm")
        if self.classes:
            draft.matmul("head/classes", batch, self.hidden, self.classes, bias=True)
            if draft.workload.phase == "train":
                loss(draft, batch, self.classes, spread=False)
        else:
            draft.matmul("head/pooler", batch, self.hidden, self.hidden, bias=True)
            draft.elementwise("head/tanh", "tanh", (batch, self.hidden))
        return draft.layer("head")

    def _masked_words(self, draft: Draft, batch: int, rows: int) -> Layer:
        """Guesses of all words, as BERT is trained: a product and a norm, then the embedding transposed."""
        columns = local_words(self.vocabulary, draft.sharding)
        spread = draft.spread(rows)
        draft.matmul("head/transform", spread, self.hidden, self.hidden, bias=True)
        draft.elementwise("head/gelu", "gelu", (spread, self.hidden))
        draft.norm("head/norm", spread, self.hidden, "layernorm")
        draft.gathered("head/all_gather", rows, self.hidden)
        draft.matmul("head/logits", rows, self.hidden, columns, bias=True, shared=True)
        loss(draft, rows, columns)
        return draft.layer("head")


def encoder_block(
    draft: Draft, attention: Attention, part: FeedForward, batch: int, tokens: int, hidden: int, before: bool = True
) -> None:
    """One layer with layer norms before or after its two parts."""
    rows = batch * tokens
    spread = draft.spread(rows)
    if before:
        draft.norm("attention/norm", spread, hidden, "layernorm")
    draft.gathered("attention/all_gather", rows, hidden)
    attend(draft, attention, batch, tokens, hidden)
    draft.add("attention/residual", spread, hidden)
    if not before:
        draft.norm("attention/norm", spread, hidden, "layernorm")
    else:
        draft.norm("mlp/norm", spread, hidden, "layernorm")
    draft.gathered("mlp/all_gather", rows, hidden)
    feed(draft, part, rows, hidden)
    draft.add("mlp/residual", spread, hidden)
    if not before:
        draft.norm("mlp/norm", spread, hidden, "layernorm")


def read_bert(fields: Fields) -> Encoder:
    """BERT and RoBERTa."""
    hidden, attention, part = _parts(fields)
    return Encoder(
        name=name_of(fields),
        hidden=hidden,
        layers=fields.integer("num_hidden_layers", most=10_000),
        attention=attention,
        feed_forward=part,
        before=False,
        vocabulary=fields.integer("vocab_size"),
        positions=fields.integer("max_position_embeddings", default=512),
    )


def read_vit(fields: Fields) -> Encoder:
    """Vision transformers."""
    hidden, attention, part = _parts(fields)
    size = fields.integer("image_size", default=224, most=1 << 16)
    patch = fields.integer("patch_size", default=16, most=1 << 16)
    if size % patch:
        raise fields.fault("patch_size", f"{patch} does not divide an image of {size}")
    return Encoder(
        name=name_of(fields),
        hidden=hidden,
        layers=fields.integer("num_hidden_layers", most=10_000),
        attention=attention,
        feed_forward=part,
        before=True,
        patch_inputs=fields.integer("num_channels", default=3) * patch * patch,
        patches=(size // patch) ** 2,
        classes=fields.integer("num_labels", default=1000),
    )


def _parts(fields: Fields) -> tuple[int, Attention, FeedForward]:
    hidden = fields.integer("hidden_size", most=1 << 20)
    heads = fields.integer("num_attention_heads", most=1 << 16)
    if hidden % heads:
        raise fields.fault("num_attention_heads", f"{heads} does not divide a hidden size of {hidden}")
    attention = Attention(heads, heads, hidden // heads, False, rope=False, qkv_bias=True, output_bias=True)
    inner = fields.integer("intermediate_size")
    return hidden, attention, FeedForward(inner, False, activation_of(fields, "gelu"), bias=True)

"""Whisper: an encoder over 30 seconds of sound, a decoder that writes what it heard."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.models.attention import Attention, attend
from sim.models.config import Fields
from sim.models.decoder import name_of
from sim.models.draft import PAGE, Draft, pages
from sim.models.encoder import encoder_block
from sim.models.feed_forward import FeedForward, feed
from sim.models.graph import SIZES, Graph, Layer, Operand, Section
from sim.models.workload import Sharding, Workload, divided, only


@dataclass(frozen=True, slots=True)
class Whisper:
    """Sound in, text out."""

    name: str
    hidden: int
    bins: int
    """Bands of the spectrogram."""
    frames: int
    """Of the spectrogram; the encoder sees half as many."""
    encoder_layers: int
    encoder: tuple[Attention, FeedForward]
    decoder_layers: int
    decoder: tuple[Attention, FeedForward]
    vocabulary: int
    positions: int
    """Most tokens of a text."""
    phases: tuple[str, ...] = ("transcribe", "encode")

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """The encoder once; of `transcribe`, the decoder for as many tokens as `seq` says, at their mean context."""
        only(sharding, self.name, "tp", "dp")
        batch = divided("the batch", workload.batch, "dp", sharding.dp)
        draft = Draft(replace(workload, phase="encode"), sharding)
        sections = [Section("encoder", self._encoder(draft, batch))]
        if workload.phase == "transcribe":
            step = Draft(replace(workload, phase="decode", context=max(1, workload.seq // 2)), sharding)
            sections.append(Section("token", self._step(step, batch), workload.seq))
        return Graph(self.name, workload.phase, tuple(sections))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Keys and values of the text and of the sound."""
        if workload.phase != "transcribe":
            return 0
        batch = divided("the batch", workload.batch, "dp", sharding.dp)
        attention, element = self.decoder[0], SIZES[Draft(workload, sharding).dtype]
        lengths = (workload.seq, self.frames // 2)
        each = sum(attention.cache_bytes(sharding, length, element) for length in lengths)
        return batch * self.decoder_layers * each

    def _encoder(self, draft: Draft, batch: int) -> tuple[Layer, ...]:
        tokens = self.frames // 2
        self._convolution(draft, "convolution 1", batch, self.bins, self.frames, 1)
        self._convolution(draft, "convolution 2", batch, self.hidden, self.frames, 2)
        draft.call("positions", "elementwise", draft.flow(tokens, self.hidden), draft.weight(tokens, self.hidden),
                   times=batch, held=1, kind="add")  # fmt: skip
        layers = [draft.layer("sound")]
        encoder_block(draft, *self.encoder, batch, tokens, self.hidden)
        layers.append(draft.layer("encoder layers", self.encoder_layers))
        draft.norm("norm", batch * tokens, self.hidden, "layernorm")
        layers.append(draft.layer("encoder end"))
        attention = self.decoder[0]
        columns = 2 * attention.local_kv_heads(draft.sharding) * attention.head_dim
        draft.matmul("keys and values", batch * tokens, self.hidden, columns, bias=True)
        layers.append(draft.layer("cross attention", self.decoder_layers))
        return tuple(layers)

    def _convolution(self, draft: Draft, name: str, batch: int, channels: int, width: int, stride: int) -> None:
        weights = draft.weight(self.hidden, channels, 3), draft.weight(self.hidden)
        draft.call(name, "conv1d", draft.flow(batch, channels, width), *weights, stride=stride, padding=1)
        draft.elementwise(f"{name}/gelu", "gelu", (batch * width // stride, self.hidden))

    def _step(self, draft: Draft, batch: int) -> tuple[Layer, ...]:
        """One token of each text."""
        ids, local = Operand((batch,), "int32", "index"), -(-self.vocabulary // draft.sharding.tp)
        draft.call("embedding/tokens", "embedding", ids, draft.weight(local, self.hidden))
        draft.call("embedding/positions", "embedding", ids, draft.weight(self.positions, self.hidden))
        draft.add("embedding/add", batch, self.hidden)
        layers = [draft.layer("embedding")]
        attention, part = self.decoder
        draft.norm("attention/norm", batch, self.hidden, "layernorm")
        attend(draft, attention, batch, 1, self.hidden)
        draft.add("attention/residual", batch, self.hidden)
        self._cross(draft, attention, batch)
        draft.norm("mlp/norm", batch, self.hidden, "layernorm")
        feed(draft, part, batch, self.hidden)
        draft.add("mlp/residual", batch, self.hidden)
        layers.append(draft.layer("decoder layers", self.decoder_layers))
        draft.norm("head/norm", batch, self.hidden, "layernorm")
        draft.matmul("head/logits", batch, self.hidden, local, shared=True)
        layers.append(draft.layer("head"))
        return tuple(layers)

    def _cross(self, draft: Draft, attention: Attention, batch: int) -> None:
        """Attention over the encoder's keys and values."""
        heads, each = attention.local_heads(draft.sharding), pages(self.frames // 2)
        inner = heads * attention.head_dim
        draft.norm("cross attention/norm", batch, self.hidden, "layernorm")
        draft.matmul("cross attention/query", batch, self.hidden, inner, bias=True)
        kv_heads = attention.local_kv_heads(draft.sharding)
        cache = Operand((batch * each, kv_heads, PAGE, attention.head_dim), draft.dtype, "cache")
        table, lengths = Operand((batch, each), "int32", "index"), Operand((batch,), "int32", "index")
        query = draft.flow(batch, heads, attention.head_dim)
        draft.call("cross attention/scores", "decode_attention", query, cache, cache, table, lengths)
        draft.matmul("cross attention/output", batch, inner, self.hidden, bias=True)
        draft.reduced("cross attention", batch, self.hidden)
        draft.add("cross attention/residual", batch, self.hidden)


def read_whisper(fields: Fields) -> Whisper:
    """Whisper of any size."""
    hidden = fields.integer("d_model", "hidden_size", most=1 << 20)
    return Whisper(
        name=name_of(fields),
        hidden=hidden,
        bins=fields.integer("num_mel_bins", default=80),
        frames=2 * fields.integer("max_source_positions", default=1500, most=1 << 16),
        encoder_layers=fields.integer("encoder_layers", most=10_000),
        encoder=_parts(fields, "encoder", hidden, causal=False),
        decoder_layers=fields.integer("decoder_layers", most=10_000),
        decoder=_parts(fields, "decoder", hidden, causal=True),
        vocabulary=fields.integer("vocab_size"),
        positions=fields.integer("max_target_positions", default=448),
    )


def _parts(fields: Fields, name: str, hidden: int, causal: bool) -> tuple[Attention, FeedForward]:
    heads = fields.integer(f"{name}_attention_heads", most=1 << 16)
    if hidden % heads:
        raise fields.fault(f"{name}_attention_heads", f"{heads} does not divide d_model {hidden}")
    attention = Attention(heads, heads, hidden // heads, causal, rope=False, qkv_bias=True, output_bias=True)
    return attention, FeedForward(fields.integer(f"{name}_ffn_dim"), False, "gelu", bias=True)

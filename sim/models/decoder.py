"""Decoders that predict the next token: Llama, Qwen, Mistral, Mixtral, GPT-OSS, GPT-2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sim.models.attention import Attention, attend
from sim.models.config import Fields
from sim.models.draft import Draft
from sim.models.feed_forward import FeedForward, feed
from sim.models.graph import SIZES, Graph, Layer, Operand, Section
from sim.models.workload import Sharding, Workload, divided, sequences_of

PAD = 64
"""A vocabulary is padded to a multiple of this on each core."""


@dataclass(frozen=True, slots=True)
class Block:
    """One layer: attention and feed-forward, each behind a norm and a residual."""

    attention: Attention
    feed_forward: FeedForward
    norm: str = "rmsnorm"


@dataclass(frozen=True, slots=True)
class Decoder:
    """Embedding, blocks, norm and head."""

    name: str
    hidden: int
    blocks: tuple[Block, ...]
    vocabulary: int
    tied: bool = False
    """The head is the embedding transposed."""
    positions: int = 0
    """Rows of a learned table of positions; 0 where positions are rotations."""
    phases: tuple[str, ...] = ("prefill", "decode", "train")
    causal: bool = True

    @property
    def experts(self) -> int:
        """0 where every feed-forward part is dense."""
        return max(block.feed_forward.experts for block in self.blocks)

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """What one core of each pipeline stage does; of training, the forward pass over one microbatch."""
        sequences, tokens = self.local(workload, sharding)
        pieces = self._pieces(sharding)
        draft = Draft(workload, sharding)
        sections = []
        for number, piece in enumerate(pieces):
            layers = list(self._layers(draft, piece, sequences, tokens))
            if number == 0:
                layers.insert(0, self._embedding(draft, sequences * tokens))
            if number == len(pieces) - 1:
                layers.append(self._head(draft, sequences, tokens))
            else:
                draft.collective("send", "permute", self._sent(draft, sequences * tokens), "pp", 2)
                layers.append(draft.layer("pipeline"))
            stage = number % sharding.pp
            name = f"stage {stage}" + (f", piece {number // sharding.pp}" if sharding.interleave > 1 else "")
            sections.append(Section(name if sharding.pp > 1 else "model", tuple(layers), stage=stage))
        return Graph(self.name, workload.phase, tuple(sections))

    def local(self, workload: Workload, sharding: Sharding) -> tuple[int, int]:
        """(sequences, new tokens of each) of one core."""
        sequences = sequences_of(workload, sharding)
        if workload.phase == "decode":
            return sequences, workload.draft + 1
        return sequences, divided("the tokens of a sequence", workload.seq, "cp", sharding.cp)

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Keys and values of one core, of the pipeline stage that has the most."""
        if workload.phase not in ("prefill", "decode"):
            return 0
        sequences, tokens = self.local(workload, sharding)
        length = workload.context + tokens if workload.phase == "decode" else workload.seq
        element = SIZES[Draft(workload, sharding).dtype]
        stages = [0] * sharding.pp
        for number, piece in enumerate(self._pieces(sharding)):
            held = (block.attention.cache_bytes(sharding, length, element) for block in piece)
            stages[number % sharding.pp] += sequences * sum(held)
        return max(stages)

    def _pieces(self, sharding: Sharding) -> list[tuple[Block, ...]]:
        """The blocks of each pipeline stage, and of each of its pieces where stages hold several."""
        count = sharding.pp * sharding.interleave
        each = divided("layers", len(self.blocks), "pp x interleave" if sharding.interleave > 1 else "pp", count)
        return [self.blocks[first : first + each] for first in range(0, len(self.blocks), each)]

    def _layers(self, draft: Draft, blocks: tuple[Block, ...], sequences: int, tokens: int) -> Iterator[Layer]:
        """Equal blocks in a row are one layer that repeats."""
        first = 0
        while first < len(blocks):
            last = first
            while last < len(blocks) and blocks[last] == blocks[first]:
                last += 1
            self._block(draft, blocks[first], sequences, tokens)
            yield draft.layer("layers", last - first)
            first = last

    def _block(self, draft: Draft, block: Block, sequences: int, tokens: int) -> None:
        rows, spread = sequences * tokens, draft.spread(sequences * tokens)
        draft.norm("attention/norm", spread, self.hidden, block.norm)
        draft.gathered("attention/all_gather", rows, self.hidden)
        attend(draft, block.attention, sequences, tokens, self.hidden)
        draft.add("attention/residual", spread, self.hidden)
        draft.norm("mlp/norm", spread, self.hidden, block.norm)
        draft.gathered("mlp/all_gather", rows, self.hidden)
        feed(draft, block.feed_forward, rows, self.hidden)
        draft.add("mlp/residual", spread, self.hidden)

    def _embedding(self, draft: Draft, rows: int) -> Layer:
        table = draft.weight(self.local_vocabulary(draft.sharding), self.hidden)
        draft.call("embedding/tokens", "embedding", Operand((rows,), "int32", "index"), table)
        if self.positions:
            places = Operand((rows,), "int32", "index")
            draft.call("embedding/positions", "embedding", places, draft.weight(self.positions, self.hidden))
            draft.add("embedding/add", rows, self.hidden)
        draft.reduced("embedding", rows, self.hidden)
        return draft.layer("embedding")

    def _head(self, draft: Draft, sequences: int, tokens: int) -> Layer:
        """A prefill needs the last token of each sequence only."""
        rows = sequences if draft.workload.phase == "prefill" else sequences * tokens
        norm, columns = self.blocks[-1].norm, self.local_vocabulary(draft.sharding)
        draft.norm("head/norm", draft.spread(rows), self.hidden, norm)
        draft.gathered("head/all_gather", rows, self.hidden)
        draft.matmul("head/logits", rows, self.hidden, columns, shared=self.tied and draft.sharding.pp == 1)
        if draft.workload.phase == "train":
            loss(draft, rows, columns)
        else:
            size = rows * columns * draft.sharding.tp * SIZES[draft.dtype]
            draft.collective("head/gather_logits", "all_gather", size, "tp")
        return draft.layer("head")

    def _sent(self, draft: Draft, rows: int) -> int:
        return draft.spread(rows) * self.hidden * SIZES[draft.dtype]

    def local_vocabulary(self, sharding: Sharding) -> int:
        """Columns of the head on one core, padded."""
        return local_words(self.vocabulary, sharding)


def local_words(vocabulary: int, sharding: Sharding) -> int:
    """Words of a vocabulary on one core, padded."""
    if sharding.tp == 1:
        return vocabulary
    return -(-vocabulary // (sharding.tp * PAD)) * PAD


def loss(draft: Draft, rows: int, columns: int, spread: bool = True) -> None:
    """The cross entropy of logits [rows, columns]; `spread`: each core has a part of the columns."""
    labels = Operand((rows,), "int32", "index")
    draft.call("head/loss", "cross_entropy", draft.flow(rows, columns), labels)
    if spread:
        # Maxima and sums of each row meet.
        draft.collective("head/loss_sums", "all_reduce", 2 * rows * SIZES["fp32"], "tp")


def read_llama(fields: Fields) -> Decoder:
    """Llama, Mistral and Qwen 2 and 3, with experts or without."""
    family = fields.text("model_type")
    hidden = fields.integer("hidden_size", most=1 << 20)
    heads = fields.integer("num_attention_heads", most=1 << 16)
    attention = Attention(
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", default=heads, most=1 << 16),
        head_dim=_head_dim(fields, hidden, heads),
        window=_window(fields, family),
        qk_norm=family.startswith("qwen3"),
        qkv_bias=family.startswith("qwen2") or fields.flag("attention_bias"),
        output_bias=fields.flag("attention_bias") and not family.startswith("qwen2"),
    )
    _check_heads(fields, attention)
    blocks = [Block(attention, _feed_forward(fields, layer)) for layer in range(_layers(fields))]
    return _decoder(fields, hidden, _windowed(fields, blocks))


def _windowed(fields: Fields, blocks: list[Block]) -> list[Block]:
    """Blocks whose `layer_types` say that they see all tokens do."""
    kinds = fields.texts("layer_types", default=None)
    if kinds is None:
        return blocks
    if len(kinds) != len(blocks):
        raise fields.fault("layer_types", f"has {len(kinds)} entries for {len(blocks)} layers")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise fields.fault("layer_types", f"{kind!r} is neither full_attention nor sliding_attention")
    return [
        replace(block, attention=replace(block.attention, window=None)) if kind == "full_attention" else block
        for block, kind in zip(blocks, kinds, strict=True)
    ]


def read_gpt2(fields: Fields) -> Decoder:
    """GPT-2 and what Megatron calls GPT-3: layer norms, biases, learned positions."""
    hidden = fields.integer("n_embd", "hidden_size", most=1 << 20)
    heads = fields.integer("n_head", "num_attention_heads", most=1 << 16)
    head_dim = _head_dim(fields, hidden, heads)
    attention = Attention(heads, heads, head_dim, rope=False, qkv_bias=True, output_bias=True)
    inner = fields.integer("n_inner", default=4 * hidden)
    block = Block(attention, FeedForward(inner, gated=False, activation="gelu", bias=True), "layernorm")
    return Decoder(
        name=name_of(fields),
        hidden=hidden,
        blocks=(block,) * _layers(fields),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
        positions=fields.integer("n_positions", "max_position_embeddings", default=1024),
    )


def name_of(fields: Fields) -> str:
    """What people call the model: its own name, else that of its file, else its family."""
    from pathlib import Path

    own = fields.text("name", "_name_or_path", default="")
    stem = Path(fields.source).stem
    return own or (
        stem if stem != "config" and "/" not in stem and " " not in stem else fields.text("model_type", "_class_name")
    )


def _decoder(fields: Fields, hidden: int, blocks: list[Block]) -> Decoder:
    return Decoder(
        name=name_of(fields),
        hidden=hidden,
        blocks=tuple(blocks),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings"),
    )


def _layers(fields: Fields) -> int:
    return fields.integer("num_hidden_layers", "n_layer", "num_layers", most=10_000)


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    given = fields.integer("head_dim", default=None, most=1 << 14)
    if given is None and hidden % heads:
        raise fields.fault("hidden_size", f"{hidden} is no multiple of {heads} heads", remedy="or give `head_dim`")
    return given or hidden // heads


def _check_heads(fields: Fields, attention: Attention) -> None:
    if attention.heads % attention.kv_heads:
        what = f"{attention.kv_heads} does not divide {attention.heads} attention heads"
        raise fields.fault("num_key_value_heads", what)
    if attention.head_dim % 2:
        raise fields.fault("head_dim", f"{attention.head_dim} is odd: rotations take pairs")


def _window(fields: Fields, family: str) -> int | None:
    """Qwen states a window that it does not use unless it says so."""
    if family.startswith("qwen") and not fields.flag("use_sliding_window"):
        return None
    return fields.integer("sliding_window", default=None)


def _feed_forward(fields: Fields, layer: int) -> FeedForward:
    """Dense, or experts where the family has them in this layer."""
    activation = activation_of(fields)
    experts = fields.integer("num_local_experts", "num_experts", "n_routed_experts", default=0, least=0, most=1 << 16)
    dense = fields.values.get("mlp_only_layers") or []
    step = fields.integer("decoder_sparse_step", default=1)
    if not experts or (isinstance(dense, list) and layer in dense) or (layer + 1) % step:
        return FeedForward(fields.integer("intermediate_size"), activation=activation, bias=fields.flag("mlp_bias"))
    chosen = fields.integer("num_experts_per_tok", "experts_per_token", most=experts)
    return FeedForward(
        fields.integer("moe_intermediate_size", "intermediate_size"),
        activation=activation,
        experts=experts,
        experts_per_token=chosen,
        shared_intermediate=fields.integer("shared_expert_intermediate_size", default=0, least=0),
    )


def activation_of(fields: Fields, default: str = "silu") -> str:
    """The activation as operators name it."""
    name = fields.text("hidden_act", "activation_function", default=default)
    known = {"silu": "silu", "swish": "silu", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu", "gelu_fast": "gelu",
             "gelu_pytorch_tanh": "gelu", "quick_gelu": "gelu"}  # fmt: skip
    if name not in known:
        raise fields.fault("hidden_act", f"{name!r} is none of {', '.join(known)}")
    return known[name]

"""Attention of one rank: whole heads of some sequences, or a part of their tokens."""

from __future__ import annotations

from dataclasses import dataclass

from sim.errors import InputError
from sim.models.draft import PAGE, Draft, pages
from sim.models.graph import SIZES, Operand
from sim.models.workload import Sharding, divided

WIDEST = 512
"""Values of a head that the kernels for attention take."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention, with fewer heads of keys and values than of queries where they are shared."""

    heads: int
    kv_heads: int
    head_dim: int
    causal: bool = True
    window: int | None = None
    rope: bool = True
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False

    def local_heads(self, sharding: Sharding) -> int:
        return divided("attention heads", self.heads, "tp", sharding.tp)

    def local_kv_heads(self, sharding: Sharding) -> int:
        """At least one: cores that outnumber the heads keep copies."""
        if self.kv_heads % sharding.tp and sharding.tp % self.kv_heads:
            divided("key-value heads", self.kv_heads, "tp", sharding.tp)
        return max(1, self.kv_heads // sharding.tp)

    def cache_bytes(self, sharding: Sharding, tokens: int, element: int) -> int:
        """Keys and values of one sequence in one layer, in whole pages."""
        tokens = min(tokens, self.window) if self.window else tokens
        held = pages(-(-tokens // sharding.cp)) * PAGE
        return 2 * held * self.local_kv_heads(sharding) * self.head_dim * element


def attend(draft: Draft, attention: Attention, sequences: int, tokens: int, hidden: int) -> None:
    """Projections, positions, the attention itself and its output, for `tokens` new tokens of each sequence.

    tokens : of one sequence on this core
    """
    sharding, rows = draft.sharding, sequences * tokens
    queries, keys = attention.local_heads(sharding), attention.local_kv_heads(sharding)
    columns = (queries + 2 * keys) * attention.head_dim
    draft.matmul("attention/qkv", rows, hidden, columns, bias=attention.qkv_bias)
    if attention.qk_norm:
        draft.norm("attention/query_norm", rows * queries, attention.head_dim)
        draft.norm("attention/key_norm", rows * keys, attention.head_dim)
    if attention.rope:
        _rotate(draft, "attention/rope", rows, queries + keys, attention.head_dim)
    _core(draft, attention, sequences, tokens)
    draft.matmul("attention/output", rows, queries * attention.head_dim, hidden, bias=attention.output_bias)
    draft.reduced("attention", rows, hidden)


def _rotate(draft: Draft, name: str, rows: int, heads: int, head_dim: int) -> None:
    table = Operand((rows, head_dim // 2), draft.dtype, "index")
    draft.call(name, "rope", draft.flow(rows, heads, head_dim), table, table)


def _core(draft: Draft, attention: Attention, sequences: int, tokens: int) -> None:
    phase = draft.workload.phase
    if phase in ("prefill", "decode"):
        _store(draft, attention, sequences, tokens)
    if phase == "decode":
        _over_cache(draft, attention, sequences, tokens)
    elif attention.head_dim > WIDEST and not attention.causal:
        _in_products(draft, attention, sequences, tokens)
    elif draft.sharding.cp > 1:
        _in_context_parallel(draft, attention, sequences, tokens)
    else:
        draft.call(
            "attention/scores",
            "attention",
            *_operands(draft, attention, sequences, tokens, tokens),
            **_scalars(attention),
        )


def _in_products(draft: Draft, attention: Attention, sequences: int, tokens: int) -> None:
    """Heads that are too wide for one kernel: products with a softmax between them, through HBM."""
    heads = sequences * attention.local_heads(draft.sharding)
    whole = draft.flow(heads, tokens, attention.head_dim)
    draft.call("attention/scores", "batched_matmul", whole, whole, transpose_w=True)
    draft.call("attention/softmax", "softmax", draft.flow(heads * tokens, tokens))
    draft.call("attention/values", "batched_matmul", draft.flow(heads, tokens, tokens), whole)


def _scalars(attention: Attention) -> dict[str, object]:
    return {"causal": attention.causal} | ({"window": attention.window} if attention.window else {})


def _operands(
    draft: Draft, attention: Attention, sequences: int, queries: int, keys: int, role: str = "activation"
) -> tuple[Operand, ...]:
    heads, kv_heads = attention.local_heads(draft.sharding), attention.local_kv_heads(draft.sharding)
    past = Operand((sequences, kv_heads, keys, attention.head_dim), draft.dtype, role)
    return draft.flow(sequences, heads, queries, attention.head_dim), past, past


def _store(draft: Draft, attention: Attention, sequences: int, tokens: int) -> None:
    """New keys and values go into the cache."""
    workload, kv_heads = draft.workload, attention.local_kv_heads(draft.sharding)
    length = workload.context + tokens if workload.phase == "decode" else tokens
    length = min(length, attention.window) if attention.window else length
    size = sequences * pages(-(-length // draft.sharding.cp))
    cache = Operand((size, kv_heads, PAGE, attention.head_dim), draft.dtype, "cache")
    rows = sequences * tokens
    new, slots = draft.flow(rows, kv_heads, attention.head_dim), Operand((rows,), "int32", "index")
    whole = workload.phase == "prefill" and (sequences == 1 or tokens % PAGE == 0)
    scalars = {"in_pages": True} if whole else {}
    for name in ("keys", "values"):
        draft.call(f"attention/{name}_to_cache", "kv_cache_update", cache, new, slots, **scalars)


def _over_cache(draft: Draft, attention: Attention, sequences: int, tokens: int) -> None:
    """One query a sequence goes over pages; several, guessed ahead, over whole sequences."""
    workload, sharding = draft.workload, draft.sharding
    length = workload.context + tokens
    length = -(-(min(length, attention.window) if attention.window else length) // sharding.cp)
    if tokens > 1:
        operands = _operands(draft, attention, sequences, tokens, max(length, tokens), "cache")
        draft.call("attention/scores", "attention", *operands, **_scalars(attention))
    else:
        heads, kv_heads = attention.local_heads(sharding), attention.local_kv_heads(sharding)
        each = pages(length)
        cache = Operand((sequences * each, kv_heads, PAGE, attention.head_dim), draft.dtype, "cache")
        table, lengths = Operand((sequences, each), "int32", "index"), Operand((sequences,), "int32", "index")
        query = draft.flow(sequences, heads, attention.head_dim)
        draft.call("attention/scores", "decode_attention", query, cache, cache, table, lengths)
    # Parts of a context meet with their maxima and sums: two numbers beside each head's output.
    heads = attention.local_heads(sharding)
    size = sequences * tokens * heads * (attention.head_dim + 2) * SIZES["fp32"]
    draft.collective("attention/join_context", "all_reduce", size, "cp")


def _in_context_parallel(draft: Draft, attention: Attention, sequences: int, tokens: int) -> None:
    """Keys and values of all tokens are gathered; a causal core takes an early and a late piece of the queries.

    The two pieces of the first core are the first and the last of 2 cp; together they cost what any other pair does.
    """
    parts = draft.sharding.cp
    whole = tokens * parts
    kv_heads = attention.local_kv_heads(draft.sharding)
    size = 2 * sequences * whole * kv_heads * attention.head_dim * SIZES[draft.dtype]
    draft.collective("attention/gather_context", "all_gather", size, "cp")
    if not attention.causal:
        operands = _operands(draft, attention, sequences, tokens, whole)
        draft.call("attention/scores", "attention", *operands, **_scalars(attention))
        return
    if tokens % 2:
        raise InputError(
            f"cp={parts} does not divide {whole} tokens into {2 * parts} equal pieces",
            remedy="causal attention pairs an early with a late piece on each core",
        )
    for name, keys in (("early", tokens // 2), ("late", whole)):
        operands = _operands(draft, attention, sequences, tokens // 2, keys)
        draft.call(f"attention/scores_{name}", "attention", *operands, **_scalars(attention))

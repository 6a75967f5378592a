"""What is asked of a model, and over how many cores it is spread."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sim.errors import InputError
from sim.models.graph import SIZES

PHASES = ("prefill", "decode", "train", "encode", "denoise", "transcribe")
RECOMPUTE = ("none", "selective", "full")
FP8 = "float8_e4m3"
MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Workload:
    """One phase of a model.

    prefill    : `batch` prompts of `seq` tokens, to their first new token
    decode     : one token more of `batch` sequences that have `context` tokens; with `draft` tokens guessed ahead
    train      : one step over `batch` sequences of `seq` tokens
    encode     : `batch` inputs of `seq` tokens, or images
    denoise    : `steps` steps of a diffusion model for `batch` images
    transcribe : `batch` pieces of 30 s of sound to `seq` tokens
    """

    phase: str
    batch: int = 1
    seq: int = 2048
    context: int = 2048
    dtype: str = "bf16"
    draft: int = 0
    acceptance: float = 1.0
    """Share of the guessed tokens that turn out right, each by itself; of no use without `draft`."""
    steps: int = 1
    microbatch: int = 1
    """Sequences that a pipeline stage trains at once."""
    recompute: str = "none"

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise InputError(f"phase: {self.phase!r} is none of {', '.join(PHASES)}")
        if self.recompute not in RECOMPUTE:
            raise InputError(f"recompute: {self.recompute!r} is none of {', '.join(RECOMPUTE)}")
        if self.dtype not in ("bf16", "fp16", "fp32", FP8):
            raise InputError(f"dtype: {self.dtype!r} is none of bf16, fp16, fp32, {FP8}")
        for name in ("batch", "seq", "context", "steps", "microbatch"):
            _check(name, getattr(self, name), 1)
        _check("draft", self.draft, 0)
        if isinstance(self.acceptance, bool) or not 0 <= self.acceptance <= 1:
            raise InputError(f"acceptance={self.acceptance!r}: a share of 0 to 1")

    @property
    def tokens_a_step(self) -> float:
        """Tokens that one step of a decoder gives each sequence: one, and the guesses up to the first wrong one."""
        return sum(self.acceptance**number for number in range(self.draft + 1))

    @property
    def length(self) -> int:
        """Most tokens that a sequence has in the end."""
        return self.context + self.draft + 1 if self.phase == "decode" else self.seq

    @property
    def element(self) -> int:
        """Bytes of a number."""
        return SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Sharding:
    """Over how many cores each dimension of the work is spread; a core is a logical one."""

    tp: int = 1
    """Tensor: heads, feed-forward columns and vocabulary."""
    pp: int = 1
    """Pipeline: layers."""
    dp: int = 1
    """Data: sequences."""
    ep: int = 1
    """Experts, over the cores that dp spreads sequences over, or over those of tp."""
    cp: int = 1
    """Context: tokens of one sequence."""
    sp: bool = False
    """Sequence parallel: what tensor parallelism leaves whole is spread over the tokens."""
    zero: int = 0
    """1 spreads the optimizer over dp, 2 the gradients too, 3 the weights too."""
    interleave: int = 1
    """Pieces of the model that a pipeline stage holds."""

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp", "ep", "cp", "interleave"):
            _check(name, getattr(self, name), 1)
        if self.zero not in (0, 1, 2, 3):
            raise InputError(f"zero: {self.zero!r} is none of 0, 1, 2, 3")
        if self.sp and self.tp == 1:
            raise InputError("sp: sequence parallelism spreads over the cores of tp, which is 1")
        if self.interleave > 1 and self.pp == 1:
            raise InputError(f"interleave={self.interleave}: there is no pipeline, pp is 1")
        if self.ep > 1 and self.dp % self.ep and self.tp % self.ep:
            raise InputError(
                f"ep={self.ep} divides neither dp={self.dp} nor tp={self.tp}",
                remedy="experts are spread over the cores that dp or tp name",
            )

    @property
    def ranks(self) -> int:
        """Logical cores."""
        return prod((self.tp, self.pp, self.dp, self.cp))

    @property
    def experts_over_data(self) -> bool:
        """Experts are spread over dp, and tokens travel to them; else over tp, where every core has every token."""
        return self.ep > 1 and self.dp % self.ep == 0

    @property
    def expert_slices(self) -> int:
        """Over how many cores one expert is sliced."""
        return self.tp if self.ep == 1 or self.experts_over_data else self.tp // self.ep


def divided(what: str, whole: int, name: str, by: int) -> int:
    """`whole` spread evenly. raises : InputError that names the parallelism and what it may be"""
    if whole % by:
        fitting = [size for size in range(1, min(whole, 4096) + 1) if whole % size == 0]
        shown = ", ".join(map(str, fitting[:12])) + (", …" if len(fitting) > 12 else "")
        raise InputError(f"{name}={by} does not divide {what} {whole}", remedy=f"{name} may be {shown}")
    return whole // by


def sequences_of(workload: Workload, sharding: Sharding) -> int:
    """Sequences or images that one core takes at once: of training, a microbatch."""
    whole = divided("the batch", workload.batch, "dp", sharding.dp)
    if workload.phase != "train":
        return whole
    divided("the batch of a core", whole, "microbatch", workload.microbatch)
    return workload.microbatch


def _check(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise InputError(f"{name}={value!r}: a whole number of {least} to {MOST}")


def only(sharding: Sharding, model: str, *names: str) -> None:
    """raises : InputError for a parallelism that a family of models does not have"""
    for name in ("tp", "pp", "dp", "ep", "cp", "sp", "zero"):
        if name not in names and getattr(sharding, name) not in (1, 0, False):
            raise InputError(f"{model}: {name}={getattr(sharding, name)}: it is spread by {', '.join(names)} alone")

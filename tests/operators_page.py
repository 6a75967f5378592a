"""Writes docs/operators.md: every operator's emulated time beside its bound and the best public kernel's.

    python tests/operators_page.py [FOLDER] > docs/operators.md

FOLDER holds checkouts of the repositories whose kernels are compared (`tests/public_operators.py`); without it that
column says n/a.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import sim.ops  # noqa: E402
from sim import spec  # noqa: E402
from sim.launch import TensorSpec  # noqa: E402
from tests import public_operators as public  # noqa: E402

PEAKS = {"bfloat16": "tf_bf16", "float32": "tf_fp32", "float8_e4m3": "tf_fp8"}
H, F, KV, V = 4096, 14336, 1024, 128256
"""Llama-3-8B: width, hidden width, keys or values, vocabulary."""
PRODUCTS = (
    "matmul", "batched_matmul", "mlp", "gated_mlp", "attention", "attention_backward", "decode_attention", "conv1d",
    "conv2d", "conv2d_input_gradient", "conv2d_weight_gradient", "expert_mlp",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One call: shapes of its inputs, None for the default dtype."""

    operator: str
    inputs: tuple[Any, ...]
    scalars: dict[str, Any] = field(default_factory=dict)
    dtype: str = "bfloat16"
    device: str = "trn2"
    lnc: int = 1
    public: tuple[str, Callable[[Path], float]] | None = None

    def specs(self) -> tuple[TensorSpec, ...]:
        return tuple(one if isinstance(one, TensorSpec) else TensorSpec(tuple(one), self.dtype) for one in self.inputs)

    def bound_ns(self) -> float:
        """The longer of the products at TensorE's peak and the least traffic at HBM's rate."""
        device, work = spec.device(self.device), sim.ops.operator(self.operator).work(*self.specs(), **self.scalars)
        flops = work.flops if self.operator in PRODUCTS else 0
        peak = device[PEAKS[self.dtype]] * 1e3 * self.lnc
        return max(flops / peak, (work.read_bytes + work.written_bytes) / (device["hbm_nc"] * self.lnc))


def whole(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "int32")


def single(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float32")


def paged(batch: int, context: int, page: int) -> tuple[Any, ...]:
    """Inputs of a decode step of Llama-3-8B."""
    pages = context // page
    cache = (batch * pages, 8, page, 128)
    return (batch, 32, 128), cache, cache, whole(batch, pages), whole(batch)


def products() -> list[Row]:
    shapes = ((H, H), (H, KV), (H, F), (F, H))
    rows = [Row("matmul", ((m, k), (k, n))) for m in (1, 16, 64) for k, n in shapes]
    rows += [
        Row("matmul", ((2048, k), (k, n)), public=("nki-samples tutorial", public.tutorial_matmul(2048, k, n)))
        if n > KV
        else Row("matmul", ((2048, k), (k, n)))
        for k, n in shapes
    ]
    for dtype in ("float8_e4m3", "float32"):
        rows += [Row("matmul", ((m, H), (H, F)), dtype=dtype) for m in (16, 2048)]
    rows += [Row("matmul", ((m, H), (F, H)), {"transpose_w": True}) for m in (16, 2048)]
    rows += [Row("matmul", ((m, H), (H, F)), lnc=2) for m in (16, 2048)]
    old = {"dtype": "float32", "device": "trn1"}
    name = "matmul_M4096_N12288_K5120"
    rows.append(Row("matmul", ((4096, 5120), (5120, 12288)), **old, public=("NKIBench", public.bench(name))))
    name, turned = "transpose_matmul_M4096_K2048_N10944", {"transpose_x": True}
    rows.append(Row("matmul", ((2048, 4096), (2048, 10944)), turned, **old, public=("NKIBench", public.bench(name))))
    name = "bmm_B16_M4096_K64_N4096"
    bench = ("NKIBench", public.bench(name))
    rows.append(Row("batched_matmul", ((16, 4096, 64), (16, 64, 4096)), **old, public=bench))
    rows.append(Row("mlp", ((2048, H), (H, 4 * H), (4 * H, H))))
    weights = ((H, F), (H, F), (F, H))
    rows += [Row("gated_mlp", ((t, H), *weights)) for t in (1, 16, 64, 512, 2048)]
    rows += [Row("gated_mlp", ((t, H), *weights), lnc=2) for t in (16, 2048)]
    weights = ((1024, 3072), (1024, 3072), (3072, 1024))
    name = "swiglu_M4096_N3072_K1024"
    return [*rows, Row("gated_mlp", ((4096, 1024), *weights), **old, public=("NKIBench", public.bench(name)))]


def attentions() -> list[Row]:
    rows = []
    for length, causal in ((2048, False), (2048, True), (8192, True)):
        known = ("nki-library", public.library_attention(4, length, causal))
        shapes = ((1, 4, length, 128), (1, 1, length, 128), (1, 1, length, 128))
        rows.append(Row("attention", shapes, {"causal": causal}, public=known))
    window = ((1, 4, 4096, 128), (1, 1, 4096, 128), (1, 1, 4096, 128))
    rows.append(Row("attention", window, {"causal": True, "window": 1024}))
    bench = ("NKIBench", public.bench("gqa_full_B1_N4096_QH16_KH8_D128"))
    shapes = ((1, 16, 4096, 128), (1, 8, 4096, 128), (1, 8, 4096, 128))
    rows.append(Row("attention", shapes, dtype="float32", device="trn1", public=bench))
    for causal in (False, True):
        known = ("nki-library", public.library_attention_backward(2048, causal))
        one = (1, 1, 2048, 128)
        inputs = (one, one, one, one, one, single(1, 1, 2048))
        rows.append(Row("attention_backward", inputs, {"causal": causal}, public=known))
    rows += [Row("decode_attention", paged(*one)) for one in ((1, 4096, 16), (16, 4096, 16), (64, 2048, 16))]
    return [*rows, Row("decode_attention", paged(1, 4096, 16), lnc=2)]


def streams() -> list[Row]:
    x, vector = (2048, H), (H,)
    rows = [Row("rmsnorm", ((t, H), vector)) for t in (1, 64, 2048)]
    rows += [Row("layernorm", (x, vector, vector)), Row("softmax", (x,))]
    rows += [Row("rmsnorm_backward", (x, vector, x)), Row("layernorm_backward", (x, vector, x))]
    rows.append(Row("softmax_backward", (x, x)))
    known = ("nki-library", public.library_rope(2048))
    rows.append(Row("rope", ((2048, 40, 128), (2048, 64), (2048, 64)), public=known))
    rows += [Row("embedding", (whole(2048), (V, H))), Row("gather", ((V, H), whole(2048)))]
    rows += [Row("kv_cache_update", ((4096, 8, 16, 128), (t, 8, 128), whole(t))) for t in (16, 2048)]
    rows.append(Row("kv_cache_update", ((4096, 8, 16, 128), (2048, 8, 128), whole(2048)), {"in_pages": True}))
    rows += [Row("elementwise", (x, x), {"kind": "add"}), Row("elementwise", (x, vector), {"kind": "add"})]
    rows += [Row("elementwise", ((2048, F), (2048, F)), {"kind": "silu_multiply"})]
    silu = ("NKIBench", public.bench("silu_M4096_N7168"))
    old = {"dtype": "float32", "device": "trn1"}
    rows.append(Row("elementwise", ((4096, 7168),), {"kind": "silu"}, **old, public=silu))
    rows += [Row("reduce", (x,), {"kind": kind, "axis": axis}) for kind in ("sum", "max") for axis in (1, 0)]
    rows += [Row("transpose", (x,)), Row("transpose", ((1, 2048, 32, 128),), {"axes": (0, 2, 1, 3)})]
    rows.append(Row("cast", (x,), {"dtype": "float32"}))
    gated = (("sigmoid", "fp32", 0), ("mul", "fp32", 2, 1), ("tanh", "fp32", 3))
    rows.append(Row("expression", (x, x), {"steps": gated}))
    rows.append(Row("topk_routing", ((2048, 128),), {"k": 4}))
    layer = ((H, F), (H, F))
    rows += [Row("sgd", (*layer, (H, F))), Row("adamw", (*layer, single(H, F), single(H, F)))]
    known = ("nki-library", public.library_cross_entropy(2048, V))
    rows.append(Row("cross_entropy", ((2048, V), whole(2048)), lnc=2, public=known))
    inputs = ((2048, V), whole(2048), single(2048), single(2048))
    return [*rows, Row("cross_entropy_backward", inputs)]


def images() -> list[Row]:
    """Stable Diffusion 1.5 (two images of a denoiser's step, the decoder's largest), Whisper small, and pools."""
    rows = []
    for channels, size in ((320, 64), (640, 32), (1280, 16), (1280, 8)):
        rows.append(square(2, channels, size, channels))
    rows += [square(2, 1280, 8, 1280, laid=True), square(2, 320, 64, 320, stride=2), square(2, 4, 64, 320)]
    for channels, size in ((320, 64), (1280, 16)):
        image, taps = (2, channels, size, size), (channels, channels, 3, 3)
        rows.append(Row("conv2d_input_gradient", (image, taps), {"size": (size, size), "padding": 1}))
        rows.append(Row("conv2d_weight_gradient", (image, image), {"taps": (3, 3), "padding": 1}))
    rows += [square(1, 512, 64, 512), square(1, 256, 256, 256), square(1, 128, 512, 128), square(1, 128, 512, 3)]
    for channels, stride in ((80, 1), (768, 2)):
        known = ("nki-library", public.library_conv1d(channels, 768, 3000, stride))
        inputs = ((1, channels, 3000), (3, channels, 768), (768,))
        how = {"stride": stride, "padding": 1, "weight_layout": "WIO"}
        rows.append(Row("conv1d", inputs, how, public=known))
    known = ("nki-library", public.library_depthwise(128, 2051, 4))
    rows.append(Row("depthwise_conv1d", ((1, 128, 2051), (128, 4)), lnc=2, public=known))
    rows.append(Row("depthwise_conv2d", ((16, 512, 28, 28), (512, 3, 3)), {"padding": 1}))
    shapes = ((2, 320, 64, 64), (2, 1280, 8, 8), (1, 128, 512, 512))
    rows += [Row("group_norm", (shape, shape[1:2], shape[1:2]), {"groups": 32}) for shape in shapes]
    rows += [Row("group_norm_backward", (shape, shape[1:2], shape), {"groups": 32}) for shape in shapes]
    rows += [Row("upsample", ((2, 640, 32, 32),), {"scale": 2}), Row("upsample", ((1, 256, 256, 256),), {"scale": 2})]
    rows.append(Row("max_pool2d", ((16, 64, 112, 112),), {"window": 3, "stride": 2, "padding": 1}))
    known = ("nki-samples contributed", public.contributed_max_pool(448))
    rows.append(Row("max_pool2d", ((1, 1, 448, 448),), {"window": 3, "stride": 1}, public=known))
    rows.append(Row("avg_pool2d", ((16, 64, 112, 112),), {"window": 2}))
    known = ("nki-samples tutorial", public.tutorial_avg_pool(128, 56))
    return [*rows, Row("avg_pool2d", ((1, 128, 56, 56),), {"window": 2}, public=known)]


def square(images: int, channels: int, size: int, outputs: int, laid: bool = False, stride: int = 1) -> Row:
    """A convolution with 3 x 3 taps; `laid`: weights lie as they are needed."""
    taps = (3, 3, channels, outputs) if laid else (outputs, channels, 3, 3)
    how = {"padding": 1} | ({"stride": stride} if stride > 1 else {}) | ({"weight_layout": "HWIO"} if laid else {})
    return Row("conv2d", ((images, channels, size, size), taps, (outputs,)), how)


def states() -> list[Row]:
    """Mamba-2.8B: a prompt of 2048 tokens, and a step of 1 and of 16 sequences."""

    def scan(batch: int, times: int, channels: int, dtype: str, **more: Any) -> Row:
        x, seen = TensorSpec((batch, times, channels), dtype), TensorSpec((batch, times, 16), dtype)
        state = (single(batch, channels, 16),) if times == 1 else ()
        return Row("ssm_scan", (x, x, single(channels, 16), seen, seen, (channels,), *state), dtype=dtype, **more)

    known = ("nki-samples tutorial", public.tutorial_scan(5120, 2048, "bfloat16"))
    rows = [scan(1, 2048, 5120, "bfloat16", public=known)]
    known = ("nki-samples tutorial", public.tutorial_scan(5120, 2048, "float32"))
    rows.append(scan(1, 2048, 5120, "float32", public=known))
    rows.append(scan(1, 7168, 256, "float32", device="trn1", public=("NKIBench", public.bench("mamba_M7168_C256_S16"))))
    rows += [scan(batch, 1, 5120, "bfloat16") for batch in (1, 16)]
    return [
        *rows,
        Row("depthwise_conv1d", ((1, 5120, 2051), (5120, 4))),
        Row("depthwise_conv1d", ((16, 5120, 4), (5120, 4))),
    ]


def mixtures() -> list[Row]:
    """Mixtral-8x7B on one core of eight, and as a whole, and GPT-OSS-20B."""

    def experts(tokens: int, width: int, hidden: int, count: int, chosen: int, **more: Any) -> Row:
        matrices = ((count, width, hidden), (count, width, hidden), (count, hidden, width))
        return Row("expert_mlp", ((tokens, width), *matrices, whole(tokens, chosen), single(tokens, chosen)), **more)

    return [
        experts(1, 4096, 14336, 8, 2),
        experts(16, 4096, 1792, 8, 2),
        experts(16, 2880, 2880, 32, 4),
        experts(2048, 4096, 1792, 8, 2),
        experts(2048, 4096, 14336, 8, 2),
        experts(2048, 2880, 2880, 32, 4),
    ]


HEAD = """# Operators

The emulator's own kernels (`sim/ops/kernels`, readable as tutorials), timed at the shapes of Llama-3-8B (a prefill of
2048 tokens, decode steps of 1 to 64 sequences), Stable Diffusion 1.5, Whisper small, Mamba-2.8B, Mixtral-8x7B and
GPT-OSS-20B, and at those of public benchmarks. Made by `python tests/operators_page.py FOLDER > docs/operators.md`;
`~` marks emulated times.

`of bound` is the least that the call needs, the longer of its products at TensorE's peak and its least traffic at the
HBM bandwidth of a core, over the emulated time. `best public` is the fastest public kernel of the same computation that
we found, run unmodified on the same emulator; below 1.00 ours is faster. Layouts differ where the public kernel says
so: nki-samples takes x transposed, nki-library the keys, and its gradients all operands.

| operator | shapes | dtype | device | ours | of bound | best public | ours / public |
|---|---|---|---|---:|---:|---:|---:|"""

TAIL = """
What holds the others back:

- a product with few rows and few columns (a decode step's keys and values, 8 MiB of weights) is as long as its
  latencies: two DMAs, a transpose and the store, some 10 µs;
- TensorE's clock halves while less than a third of it is busy: decode steps in fp8 and fp32 wait for it, not for HBM;
- a decode step with w given as [N, K] reads it through DMA transposes, at 90 % of their rate;
- the hidden values of an fp8 feed-forward block are bf16, so its last product runs at bf16's rate;
- attention in either direction is bounded by what each 512 scores cost all engines: VectorE's maxima and copies out of
  PSUM (forward), 3 and 6 passes of TensorE; its `of bound` counts the products alone;
- layer norms and gradients of norms take six to nine passes over their elements, more than the engines do while HBM
  moves them; cross entropy takes one exponential an element and lane on ScalarE, 307 GB/s of bf16;
- scatters into one cache follow each other, as nothing says that they do not meet; of a prompt whose tokens fill
  pages in order (`in_pages`), one for each head is left;
- 320 channels are two and a half tiles of 128, of inputs and of outputs, and fill 69 % of TensorE, 4 inputs or 3
  outputs next to nothing; weights as [O, C, kh, kw] are turned before they are used, which small images notice;
- the gradient of a convolution's weights turns the image for every tap, and adds up in fp32 on VectorE;
- a depthwise convolution is a product with a diagonal, which costs TensorE a column as any other: nine for 3 x 3;
- the selective scan takes VectorE two cycles an element, 2731 µs for 2048 x 5120 x 16, which it reaches to 93 % in
  bf16; in fp32 adding up the states takes TensorE four passes;
- group norms of small images and decode steps of the scan are a chain of latencies;
- experts of a prefill do as many blocks of 256 tokens as there may be, 24 where 16 would do for Mixtral, as which
  expert has how many is known on the device only.

`sparse_matmul` has a reference but no kernel: NKI documents no call for 4:16 sparse weights. nki-library's MLP kernels
could not be compared: the file that launches them is no Python (line 203).
"""


def rows() -> list[Row]:
    return [*products(), *attentions(), *streams(), *images(), *states(), *mixtures()]


def call(row: Row) -> list[str]:
    """The cells that say what is run."""
    shapes = " ".join("×".join(map(str, one.shape)) for one in row.specs())
    how = ", ".join(f"{name}={value}" for name, value in row.scalars.items())
    return [
        f"`{row.operator}`",
        f"{shapes} {how}".strip(),
        {"bfloat16": "bf16", "float32": "fp32", "float8_e4m3": "fp8"}[row.dtype],
        f"{row.device}, 2 cores" if row.lnc == 2 else row.device,
    ]


def line(row: Row, folder: Path | None) -> str:
    run = sim.ops.launch(row.operator, *row.specs(), device=row.device, lnc=row.lnc, values=False, **row.scalars)
    times = [microseconds(run.latency_ns), f"{row.bound_ns() / run.latency_ns:.0%}"]
    return "| " + " | ".join([*call(row), *times, *compared(row, run.latency_ns, folder)]) + " |"


def microseconds(ns: float) -> str:
    """An emulated time to three figures or a whole number."""
    value = ns / 1e3
    return f"~{value:.3g} µs" if value < 1000 else f"~{value:,.0f} µs".replace(",", " ")


def compared(row: Row, ours: float, folder: Path | None) -> tuple[str, str]:
    """The best public kernel's time, and ours over it."""
    if row.public is None:
        return "", ""
    name, timing = row.public
    if folder is None:
        return f"n/a ({name})", "n/a"
    with redirect_stdout(sys.stderr):  # what kernels print is no part of the page
        other = timing(folder)
    return f"{microseconds(other)} ({name})", f"{ours / other:.2f}"


def main() -> None:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    print(HEAD)
    for row in rows():
        print(line(row, folder), flush=True)
    print(TAIL, end="")


if __name__ == "__main__":
    main()

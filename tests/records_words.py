"""The words of docs/timing.md: the model, what it leaves out, errors of first runs, reasons for misses."""

from __future__ import annotations

WORDS = """# Time: the model and its error

Written by `python -m tests.records FOLDER --ablate -o docs/timing.md`, FOLDER with the public repositories.
{count} published measurements, estimates like with like (a profile's total time, a benchmark's p50, a device time):
mean absolute error {mean}, median {median}, largest {worst}, {far} beyond 25 %. Figures are fitted on these records and
documented figures, none on a kernel, a shape or a file: so this is the error of calibration, not of kernels never seen.
NKIBench's times lie on a grid of 55.6 µs and mean ±56 µs each.

## The model

Five engines a core issue within a window of their own order. An instruction occupies its engine for elements × cycles +
issue overhead, its result is visible after elements × cycles + latency, another engine hears of it a semaphore later.
A DMA costs its engine an issue, then dispatch (software descriptors are written first), its turn on the DMA engines
(bytes at their rate + descriptors), HBM's bandwidth, then a notification. Every figure is in `sim/devices`, with source
and spread. Before that, compiler passes:

| pass | what it does | legacy API | current API |
|---|---|---|---|
| rename | a tile overwritten as a whole gets a buffer of its own | on | on |
| forward | no copy from PSUM where Vector and Scalar of the same iteration can read PSUM itself | on | off |
| pack | transposes in a row share a PSUM bank and one copy | on | off |
| align | a result that begins at another partition than the two tiles it combines is copied there | on | off |
| assign | engines left open are chosen: copies to Scalar on v2, by turns later | on | off |
| split | parts of a tile that are never accessed together get places of their own | on | off |
| fuse | affine loops of as many iterations run together, where the second uses what the first makes | on | off |
| hoist | what does not change in a loop is computed once, what comes again if it fits or some must spill | on | off |
| distribute | an affine loop runs statement by statement, or its loads come first; small neighbours merge | on | off |
| share | an input that is still resident is not loaded or prepared again | on | off |
| spill | what must leave SBUF is saved once and reloaded; loads are repeated, so that one more tile fits | on | off |
| room | KiB a partition that spilling keeps free | 8 | – |
| straight | loops that Python unrolled: list schedule, first-fit addresses in that order | on | off |
| keep | a matmul with the weights of the one before does not load them again | on | on |
| buffers | slots of an allocation site for each tile alive at once | 2 | 0 (one pool) |
| window | instructions among which an engine takes the oldest ready one | 16, GpSimd 6 | 64 |

`--pass NAME=off` (`sim.run(…, passes={{NAME: False}})`) switches one; `Options.alternatives()` lists the decisions that
nobody can know of a real compiler, and error bars run each the other way. What a pass added or merged says so by its
name in the trace: `spill save x`, `repeat of load x`, `4 copies packed`, `8 merged`, `done once for 4`.

### TensorE: weights

A pass of a matmul loads its weights, then streams. One set of weights is loaded ahead: that begins when the set before
starts to work and the operands are there, so a pass streams from

    max(end of the pass before, max(operands there, start of the pass before) + columns of weights × cycles)

with ¼ cycle a column of 16 or 8 bits (documented: up to four times as fast as streaming; 1 for weights with a stride, a
guess), 2 of an fp32 pass, 1 of an fp32 transpose; a pass streams for at least 64 cycles. Weights of the matmul before
are there. A vector times bf16 weights is therefore bound by the 64 cycles, in fp32 by the weights: 256 for 128 columns.

Evidence, ten captured profiles of trn2. Result of the first matmul of an idle TensorE, from the start of LDWEIGHTS,
less streaming: bf16 187 ns, fp32 transpose 265, fp32 369 at the cold clock of 1.2 GHz, 228 and 270 for the latter two
at 2.4 GHz: 157–175 + 32, 128, 256 cycles. LDWEIGHTS begins 2 ns after the MATMUL before is at work (one set ahead).
Transposes of 128 columns are 107 ns apart cold and 56 warm in bf16, with new weights each time: their load is hidden.
Where load and stream are as long (fp32, 128 × 128), passes are 3 ns further apart than else. 117 captured profiles of
inf2: a first fp16 MATMUL streams 14–18 ns after LDWEIGHTS began (32 cycles: 13). Weights kept: 8 LDWEIGHTS, 16 MATMUL.

## Estimates

First run: the error before any rule was changed because of the record. Traffic and engine shares where the record has
them.

{estimates}

## What each pass and group of figures explains

Mean absolute error over {ablated} records (longer programs are left out), one thing changed at a time.

{ablation}

## What compilers did, read from the records' bytes

Arithmetic on the counters of records, and what the rule for it gives here.

- Mamba (base) reads, beyond reloads, 32 × 3,670,016 bytes (`delta`) + 2 × 3,670,016 (`u`) + 64 × 28,672 (rows of B and
  C) + 16,384, and saves and reloads 15 tiles: `deltaU` is computed once for each block of channels, rows are loaded and
  broadcast each time, one of two sums leaves for each state. Ours (hoist, spill) the same, with 16 tiles
  saved and reloaded.
- Its hardware_flops are 2 × 128 × 7168 × 64: a broadcast is one pass of TensorE. Ours the same.
- Lora reads, beyond reloads, `x` twice and everything else once, 434.7 MB, and transposes 47.3 GFLOP: what all parts of
  the output need transposed is transposed once, at 640 KiB a partition. Ours (hoist) 429 MB.
- Matmul, which need not spill, transposes again for each part, and reads all of `rhs` 32 times. Ours 7 % less of it.
- Rope reads and writes 2 × 4 × 262,144 bytes of SBUF a partition beyond transfers: two copies of half tiles where the
  code has one. Ours (align) the same.
- Swiglu saves 50.3 + 16.8 MB and reloads 50.3 + 2 × 16.8: its own scratch, which profiles count too, and the transposed
  input; two of its loops became one. Ours (fuse, spill) saves the same and reloads 22.8 MB of the input.
- Lora saves 4075 tiles of 262,144 bytes: 320 of the transposed input, 683 of the 768 that are added at the end (85 fit
  into SBUF), and the partial sums, all 768 after each of four quarters. It reloads 7275: the input in each of 11 parts,
  the others once. Nearly all partial sums of a part would fit: they leave as repeated sweeps over a matrix do, least
  recently used first. Mamba, whose loop is five times shorter, spills only what does not fit: a compiler tells which
  of two uses comes first up to some hundred instructions ahead. Ours (spill) saves 3345 tiles and reloads 6545.
- All records save and reload whole multiples of 262,144 bytes: statistics of a few bytes a partition stay. Nothing
  below 256 bytes leaves here (spill).

- The profiles of the MLPs of 256 x 512 x 1024 are not public, but the number of their events is. In the 8 public
  profiles of attention it is 617 + 16 for each DMA + 1 for each instruction on Tensor, Vector or Scalar, without
  exception; fp32 773 and bf16 725 events are then 28 instructions and 8 or 5 DMAs: inputs are loaded once for all
  iterations, 4 KiB a partition at once, and stored likewise. Ours (distribute) the same. Loads go through their tensor
  in its order, so that merged rows continue each other (`rhs` of 1024 columns in rows of 4 KiB, K tile after K tile).

`nkibench-trn1-mamba-accelopt-best` is not compared any more. Its first run here was -20.8 %, the last -38.8 %, with the
code that is published beside it (`mamba_optimized.py`). That cannot be the code: it loads `a` for each of 14 parts of
the sequence, 229,376 bytes, where the record leaves 16,384; and the record's SBUF bytes leave none for the ends of
scans that it copies. `mamba_v2.py` of the same folder gives the record's HBM bytes, read and written, and FLOPs to
the last digit (126,631,936, 7,340,032 and 117,440,512), no spill, and a time 6 % short (2135 µs).

## What is not modelled

- Interchange of nested loops.
- Reloads ahead of need: a few more tiles would have to leave (bmm_softmax keeps 86 of 256 tiles, the record 76).
- What compilers before those of NKIBench did: docs' mamba v2 of 7168 columns takes 81 µs a state, NKIBench's record of
  the same loops 71. In the published picture of 8192 columns every step waits for the one before: a load of `C` for the
  end of the scan, the broadcast for that load, `delta` for the product after it, the exponential for `delta`, a load of
  `B` for the exponential, the reload of `deltaU` for the last broadcast. Four places of 32 KiB in turn explain all of
  it; ours has five. From 1024 to 4096 columns the wait for one broadcast is what is missing: rows with slots of their
  own would give it (2048 to 6144 columns then come to -2 to -9 %), but v1 of 4096 channels would be 39 % too slow.
- How compilers split elementwise chains between engines.
- Overlap of matmuls in different row tiles of TensorE: no document gives its time.
- GpSimd is free for its next transfer 582 ns after one whose semaphore it had to wait for; captured ones need 1.2 µs.
- A transfer of a profile that runs alone reaches 420 GB/s; ours shares HBM with the other core and stays at 358.
- How far loads are moved over waiting stores: 6 merged transfers fit, 4 or 10 move the largest MLPs by 10 %.
- Descriptors that a queue waits for when its ring is full; what other cores of the chip do to HBM.
- Why an fp32 pass of v2 takes 184 cycles beyond streaming, a fit to times of NKIBench: weights that are loaded behind
  the pass before, as on v3, do not explain it. Three of those kernels have an HFU of 0.4345–0.4347, which 184 cycles
  forbid (0.4238 at most) and ½ × 7/8 × 1024/1031 is; but 7/8 of the clock and 7 cycles put the times further off.
- Whether loading weights counts as work for TensorE's clock: here it does not, so that a stream of fp32 matmuls with
  few moving columns stays cold. How long weights with a stride take is a guess.
- The phase of TensorE's clock window, arbitrary in each run: about 1 µs of a 20 µs kernel.
""".replace("{{NAME: False}}", "{NAME: False}")

FIRST_RUN = {
    "nkibench-trn1-matmul_add_rmsnorm-base": 0.066,
    "nkibench-trn1-add_rmsnorm_matmul-base": 0.162,
    "nkibench-trn1-matmul-base": -0.085,
    "nkibench-trn1-rope_single_freq_apply-base": -0.246,
    "nkibench-trn1-transpose_matmul-base": 0.002,
    "nkibench-trn1-silu-base": -0.157,
    "nkibench-trn1-mamba-base": 0.021,
    "nkibench-trn1-swiglu-base": 0.344,
    "nkibench-trn1-lora-base": 0.836,
    "nkibench-trn1-gqa_full-base": 1.65,
    "nkibench-trn1-bmm_softmax-base": 1.43,
    "nkibench-trn1-rope_single_freq_apply-accelopt-best": 0.629,
    "tkf-trn2-attn-baseline-fp32-s512-profile": -0.146,
    "tkf-trn2-attn-baseline-fp32-s1024-profile": -0.235,
    "tkf-trn2-attn-fused-fp32-s512-profile": 0.058,
    "tkf-trn2-attn-fused-bf16-s512-profile": 0.098,
    "tkf-trn2-attn-baseline-bf16-s512-profile": -0.125,
    "tkf-trn2-mlp-fused_taylor-fp32-256x512x1024": -0.152,
    "tkf-trn2-mlp-fused_pwl-fp32-512x1024x2048": -0.115,
    "tkf-trn2-mlp-fused_taylor-fp32-512x1024x2048": -0.132,
    "tkf-trn2-mlp-fused_taylor-fp32-1024x2048x4096": -0.151,
    "tkf-trn2-mlp-fused_taylor-fp32-2048x4096x4096": -0.109,
    "tkf-trn2-mlp-fused_taylor-bf16-256x512x1024": -0.032,
    "tkf-trn2-mlp-fused_pwl-bf16-512x1024x2048": 0.11,
    "tkf-trn2-mlp-fused_taylor-bf16-512x1024x2048": 0.089,
    "tkf-trn2-mlp-fused_pwl-fp32-1024x2048x4096": -0.045,
    "tkf-trn2-mlp-fused_pwl-fp32-2048x4096x4096": -0.062,
    "tkf-trn2-mlp-fused_pwl-fp32-128x128x512": -0.087,
    "tkf-trn2-mlp-fused_taylor-fp32-128x128x512": -0.064,
    "tkf-trn2-mlp-fused_pwl-fp32-256x512x1024": -0.025,
    "tkf-trn2-mlp-fused_pwl-bf16-128x128x512": -0.108,
    "tkf-trn2-mlp-fused_taylor-bf16-128x128x512": -0.049,
    "tkf-trn2-mlp-fused_pwl-bf16-256x512x1024": 0.029,
    "doc-mamba-v1-256x512": -0.132,
    "doc-mamba-v1-4096x512": -0.089,
    "doc-mamba-v2-4096x512": 0.281,
    "doc-mamba-v2-4096x1024": -0.095,
    "doc-mamba-v2-4096x2048": 0.083,
    "doc-mamba-v2-4096x3072": 0.097,
    "doc-mamba-v2-4096x4096": -0.106,
    "doc-mamba-v2-4096x5120": -0.162,
    "doc-mamba-v2-4096x6144": -0.072,
    "doc-mamba-v2-4096x7168": -0.168,
    "doc-mamba-v2-4096x8192": 0.029,
}
"""Errors before any pass of the middle end was written, some of NKIBench with spilling only; AccelOpt's best kernels
came after the passes, docs' mamba and two MLPs before copies that do not change in a loop were told from those that
do, the MLPs of 128 and two of 256 before transfers were timed as captured ones are, the others before transfers of
GpSimd had a window of their own."""

REASONS = {
    "rope.*best": "straight-line code; the record has two copies on ScalarE, the published code none",
    "rope": "straight-line code, -31 % with straight=off",
    "transpose_matmul-base": "the compiler runs the masked tail as whole tiles (3 % more FLOPs)",
    "bmm_softmax": "reuse of SBUF is tight: a few tiles more or less resident move it between -10 and +13 %",
    "matmul_add_rmsnorm": "TensorE waits for tiles of which there are none to spare; with two for each it is +5 %",
    "nkibench.*matmul-base": "7 % fewer loads are repeated than in the record",
    "doc-mamba-v1-4096": "VectorE 2.12 ms, ours 10 cycles an element: some of deltaU is still there",
    "doc-mamba-v2-4096x[46]": "how many tiles take turns decides: with two for each of them it is -11 and -12 %",
    "doc-mamba": "older compiler: VectorE waits for a broadcast each iteration, deltaU is spilled (7168 up)",
    "mlp.*taylor": "which engines run the chain of elementwise operations is not known",
    "mlp.*fp32-512": "TensorE: in order the matmuls take 9 % longer, within a window of 16 they fill waits for loads",
    "mlp": "fixed cost around the window, the p50 is rounded to 1 µs",
    "s4096": "SBUF is nearly full: how buffers take turns decides",
    "s1024": "the real ScalarE issues store triggers behind later copies, ours as soon as they are ready",
    "k14": "bound by the triggers of one queue: 640 ns each would fit, other kernels fit 580 to 590",
    "attn": "fixed cost around the window, the p50 is rounded to 1 µs",
}
"""By what the id looks like, first match; shown where the error is beyond 5 %."""

PARTS = (WORDS, FIRST_RUN, REASONS)

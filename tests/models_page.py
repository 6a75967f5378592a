"""Makes the tables of docs/models.md from runs of `trnprof.run_model`.

    python tests/models_page.py [--page FILE]

Prose stands outside of the marks; what lies between them is written anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.errors import CapacityError
from trnprof import words
from trnprof.models import ModelRun, run_model

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "traces" / "models"
PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"
CHIP = {"trn1": {"device": "trn1", "tp": 2}, "trn2": {"device": "trn2", "lnc": 2, "tp": 4},
        "trn3": {"device": "trn3", "lnc": 2, "tp": 4}}  # fmt: skip
"""One chip of each device, all cores on one model."""

WORK = {
    "prefill of 2048 tokens": ("llama-3-8b", {"phase": "prefill", "seq": 2048}),
    "prefill of 8192 tokens": ("llama-3-8b", {"phase": "prefill", "seq": 8192}),
    "decode, batch 1": ("llama-3-8b", {"phase": "decode", "batch": 1, "context": 4096}),
    "decode, batch 16": ("llama-3-8b", {"phase": "decode", "batch": 16, "context": 4096}),
    "decode, batch 64": ("llama-3-8b", {"phase": "decode", "batch": 64, "context": 4096}),
    "experts, decode, batch 8": ("gpt-oss-20b", {"phase": "decode", "batch": 8, "context": 4096}),
    "denoise, 4 images": ("dit-xl-2", {"phase": "denoise", "batch": 4}),
    "transcribe 64 tokens": ("whisper-small", {"phase": "transcribe", "seq": 64}),
}
WIDER = {("gpt-oss-20b", "trn1"): 4}
"""Cores of tensor parallelism where one chip is too small."""

ONE_CORE = ("dit-xl-2", "whisper-small")
"""Small models that one logical core runs."""

TRAINING = {
    "trn1": {"device": "trn1", "tp": 8, "dp": 4, "batch": 32},
    "trn2": {"device": "trn2", "lnc": 2, "tp": 8, "dp": 8, "batch": 64},
    "trn3": {"device": "trn3", "lnc": 2, "tp": 8, "dp": 8, "batch": 64},
}
FRONTIER = {"phase": "train", "batch": 28672, "seq": 8192, "tp": 32, "pp": 14, "dp": 1024, "lnc": 2, "zero": 1,
            "sp": True, "device": "trn2", "fabric": "trn2u", "recompute": "selective", "interleave": 3}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--only", choices=TABLES, help="make one table anew")
    args = parser.parse_args()
    page, text = args.page, args.page.read_text()
    for name, made in TABLES.items():
        if args.only not in (None, name):
            continue
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{table(made())}\n{end}{after}"
    page.write_text(text)


def table(rows: Iterator[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *body)]
    return "\n".join(lines)


def run(name: str, **asked: Any) -> ModelRun:
    began = time.process_time()
    made = run_model(MODELS / f"{name}.json", **asked)
    said = " ".join(f"{key}={value}" for key, value in asked.items())
    print(f"{name} {said}: {words.time(made.latency_ps)}, {time.process_time() - began:.1f} s", file=sys.stderr)
    return made


def bound(made: ModelRun) -> str:
    verdict = made.verdict
    name = words.bound_name(verdict.bound).lower() + (f" ({verdict.engine})" if verdict.engine else "")
    return f"{name} {words.share(verdict.share)}"


def figures(made: ModelRun) -> tuple[str, ...]:
    rate = made.tokens_per_s or made.samples_per_s
    network = words.share(made.network_ps / made.latency_ps) if made.network_ps else "none"
    held = f"{words.size(sum(made.held.values()))} of {words.size(made.room)}"
    time_ = words.estimate(words.time(made.latency_ps))
    return (time_, words.digits(rate), words.share(made.mfu), words.share(made.mbu), network, held, bound(made))


HEAD = ("time", "tokens/s (else images/s)", "MFU", "MBU", "network", "HBM of a core", "bound by")


def devices() -> Iterator[tuple[str, ...]]:
    """The same work on one chip of each device, and a training step on one instance."""
    yield ("work", "model", "machine", *HEAD)
    for work, (name, asked) in WORK.items():
        for chip in CHIP.values():
            machine = {key: value for key, value in chip.items() if key != "tp"} if name in ONE_CORE else chip
            if (name, chip["device"]) in WIDER:
                machine = machine | {"tp": WIDER[name, chip["device"]]}
            yield (work, *row(name, **asked, **machine))
    for machine in TRAINING.values():
        made = run("llama-3-8b", phase="train", seq=4096, zero=1, sp=True, recompute="selective", **machine)
        yield (f"training, {machine['batch']} x 4096 tokens", made.model, where(made), *figures(made))


def row(name: str, **asked: Any) -> tuple[str, ...]:
    """Model, machine and figures; what does not fit is shown all the same, bound by memory capacity."""
    try:
        made = run(name, **asked)
    except CapacityError:
        made = run(name, **asked, must_fit=False)
        return (made.model, where(made), "does not fit", *[""] * 4, *figures(made)[5:])
    return (made.model, where(made), *figures(made))


def where(made: ModelRun) -> str:
    shards = made.sharding
    spread = [f"{name} {getattr(shards, name)}" for name in ("tp", "pp", "dp", "ep") if getattr(shards, name) > 1]
    cores = f"{made.cores} x LNC {made.lnc}" if made.cores > 1 else f"one core of LNC {made.lnc}"
    return ", ".join([f"{made.device}, {cores}", *spread])


def turns() -> Iterator[tuple[str, ...]]:
    """One thing is changed until the bound does."""
    yield ("changed", "machine", *HEAD)
    for machine in ({"device": "trn1"}, {"device": "trn2", "lnc": 2}):
        for tp in (2, 8, 32):
            made = run("llama-3-8b", phase="prefill", seq=2048, tp=tp, sp=True, **machine)
            yield (f"prefill of 2048 tokens, tp {tp} with sp", where(made), *figures(made))
    for tp in (2, 8, 32):
        made = run("llama-3-8b", phase="decode", batch=16, context=4096, device="trn2", lnc=2, tp=tp)
        yield (f"decode of 16, tp {tp}", where(made), *figures(made))
    for batch in (1, 16, 64, 256):
        made = run("llama-3-8b", phase="decode", batch=batch, context=1024, device="trn2", lnc=2, tp=4)
        yield (f"decode of {batch}, context 1024", where(made), *figures(made))


def misfits() -> Iterator[tuple[str, ...]]:
    """What HBM is too small for, in the words of the error."""
    yield ("asked", "answer")
    for name, asked in (
        ("llama-3-8b", {"phase": "decode", "device": "trn2", "lnc": 1}),
        ("llama-3-8b", {"phase": "decode", "device": "trn2", "lnc": 2, "tp": 4, "batch": 256, "context": 8192}),
        ("llama-3-70b", {"phase": "decode", "device": "trn1", "tp": 2}),
        ("llama-3.1-405b", {"phase": "prefill", "device": "trn2", "lnc": 2, "tp": 4}),
        ("llama-3-8b", {"phase": "train", "device": "trn2", "lnc": 2, "seq": 4096}),
    ):
        said = " ".join(f"{key}={value}" for key, value in asked.items() if key != "phase")
        try:
            run(name, **asked)
            raise AssertionError(f"{name} {said} fits")
        except CapacityError as error:
            yield (f"{name}, {asked['phase']} {said}", str(error).replace("|", "/"))


def frontier() -> Iterator[tuple[str, ...]]:
    """A training step of a frontier-size model on more than 100 000 chips, and what one slow part does."""
    yield ("machine", "chips", "step", "tokens/s", "MFU", "HFU", "pipeline bubble", "gradients and weights exposed",
           "tensor parallel", "HBM of a core")  # fmt: skip
    for title, asked in (
        ("as it should be", {}),
        ("one chip 20 % slower", {"slow_chip": 1.2}),
        ("one chip's links at a quarter", {"slow_link": 0.25}),
    ):
        made = run("llama-3.1-405b", **FRONTIER, **asked)
        use, step = made.training, made.latency_ps
        apart = f"{words.time(use.exposed_ps)} of {words.time(sum(one.total_ps for one in use.exchanges))}"
        yield (
            title, words.count(made.chips), words.estimate(words.time(step)), words.digits(made.tokens_per_s),
            words.share(made.mfu), words.share(use.hfu), words.share(use.bubble_ps / step), apart,
            words.share((made.network_ps - use.exposed_ps) / step),
            f"{words.size(sum(made.held.values()))} of {words.size(made.room)}",
        )  # fmt: skip


CSV = "aws-neuron-sdk, benchmarks/trn1/latency_data_decoder.csv"
NXDI = "aws-neuron-sdk, nxd-inference/tutorials"
MEASURED = (
    ("llama-2-7b", "trn1", 32, 128, 8064, 13.32, 6.70, CSV),
    ("llama-3-70b", "trn1", 32, 128, 1024, 53.2, 24.48, CSV),
    ("llama-3-70b", "trn1", 32, 2048, 2048, 547.0, 26.2, CSV),
    ("mistral-7b", "trn1", 32, 8192, 8192, 1322.9, 9.89, CSV),
    ("llama-3-70b", "trn2", 64, 10000, 1500, 814.2, 19.6, f"{NXDI}/llama70b_perf_comparison.csv"),
    ("llama-3.1-405b", "trn2", 64, 10000, 1500, 2442.0, 37.9, f"{NXDI}/llama405b_perf_comparison.csv"),
)
"""(model, device, cores, tokens in, tokens out, ms to the first token, ms a token, source), batch 1, bf16."""


def measured() -> Iterator[tuple[str, ...]]:
    """Published times of whole models; nothing was fitted to them."""
    yield ("model", "machine", "tokens in, out", "first token: measured", "ours", "off by", "a token: measured", "ours",
           "off by", "source")  # fmt: skip
    for name, device, tp, given, made, first, each, source in MEASURED:
        machine = {"device": device, "tp": tp, "lnc": 2 if device == "trn2" else 1}
        prompt = run(name, phase="prefill", seq=given, **machine).latency_ps
        step = run(name, phase="decode", context=given + made // 2, **machine).latency_ps
        shown = [
            text
            for published, ours in ((first, prompt), (each, step))
            for text in (
                words.time(published * 1e9),
                words.estimate(words.time(ours)),
                words.percent(ours / (published * 1e9) - 1),
            )
        ]
        yield (name, f"{device}, tp {tp}", f"{given}, {made}", *shown, source)


TABLES = {"devices": devices, "turns": turns, "misfits": misfits, "measured": measured, "frontier": frontier}


if __name__ == "__main__":
    main()

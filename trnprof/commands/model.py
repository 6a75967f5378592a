from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnprof.commands import arguments
from trnprof.commands.streams import columns, emit, emit_json, say, wrapped

if TYPE_CHECKING:
    from trnprof.models import ModelRun, OperatorUse

OPERATORS_SHOWN = 14
SHARDINGS_SHOWN = 6
PHASES = ("prefill", "decode", "train", "encode", "denoise", "transcribe")
ASKED = ("phase", "batch", "seq", "context", "draft", "acceptance", "steps", "microbatch", "recompute", "dtype",
         "device", "fabric", "lnc", "sp", "zero", "full", "slow_chip", "slow_link")  # fmt: skip
"""What `run_model` takes beside `SIZES`."""

SIZES = {
    "tp": "tensor parallel: heads, feed-forward columns and vocabulary over N cores",
    "pp": "pipeline parallel: layers over N cores",
    "dp": "data parallel: sequences over N cores",
    "ep": "expert parallel: experts over N of the cores of dp or tp",
    "cp": "context parallel: tokens of a sequence over N cores",
    "interleave": "pieces of the model on each pipeline stage",
}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a Hugging Face config.json, a folder with one, a TOML, or "
                        "FILE.py::FUNCTION that returns a graph of trnprof.frontends")  # fmt: skip
    help_ = "what the model does (the first that it has: prefill, transcribe, encode or denoise)"
    parser.add_argument("--phase", choices=PHASES, help=help_)
    _declare_workload(parser)
    parser.add_argument("--device", metavar="D", default="trn2", help="trn1, inf2, trn2 or trn3 (trn2)")
    help_ = "what joins the chips: trn2u, trn3-gen1, … (the device's plain instances)"
    parser.add_argument("--fabric", metavar="F", help=help_)
    parser.add_argument("--lnc", type=int, choices=(1, 2), default=1, help="physical cores of one logical core (1)")
    for name, what in SIZES.items():
        parser.add_argument(f"--{name}", type=arguments.natural, default=1, metavar="N", help=f"{what} (1)")
    parser.add_argument("--sp", action="store_true", help="sequence parallel: what tp leaves whole, over tokens")
    help_ = "1 spreads the optimizer over dp, 2 the gradients too, 3 the weights too (0)"
    parser.add_argument("--zero", type=int, choices=(0, 1, 2, 3), default=0, help=help_)
    help_ = "look for the fastest way to spread the model over N logical cores, and emulate that"
    parser.add_argument("--search", type=arguments.natural, default=0, metavar="N", help=help_)
    help_ = "how many times longer one chip takes for what it computes (train)"
    parser.add_argument("--slow-chip", type=float, default=1.0, metavar="F", help=help_)
    help_ = "share of their rate that the links of one chip have"
    parser.add_argument("--slow-link", type=float, default=1.0, metavar="F", help=help_)
    parser.add_argument("--full", action="store_true", help="keep every instruction of every layer in the trace")
    parser.add_argument("-o", "--output", metavar="DIR", help="write the trace there")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _declare_workload(parser: ArgumentParser) -> None:
    natural = arguments.natural
    parser.add_argument("--batch", type=natural, default=1, metavar="N", help="sequences or images of all cores (1)")
    help_ = "tokens of a prompt or sequence (2048, or as many as the model has positions)"
    parser.add_argument("--seq", type=natural, metavar="N", help=help_)
    help_ = "tokens that a decoder has before it (2048, likewise)"
    parser.add_argument("--context", type=natural, metavar="N", help=help_)
    parser.add_argument("--draft", type=natural, default=0, metavar="N", help="tokens guessed ahead of a decoder (0)")
    help_ = "share of the guessed tokens that turn out right (1)"
    parser.add_argument("--acceptance", type=float, default=1.0, metavar="F", help=help_)
    parser.add_argument("--steps", type=natural, default=1, metavar="N", help="steps of a denoiser (1)")
    help_ = "sequences that a pipeline stage trains at once (1)"
    parser.add_argument("--microbatch", type=natural, default=1, metavar="N", help=help_)
    help_ = "what training computes again instead of keeping it (none)"
    parser.add_argument("--recompute", choices=("none", "selective", "full"), default="none", help=help_)
    help_ = "number format of weights, and of what they are multiplied with (bf16)"
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32", "fp8"), help=help_)


def execute(args: Namespace) -> None:
    """Emulate a model: its operators as kernels, laid out layer by layer.

    trnprof model config.json --phase prefill --seq 2048 --tp 8
    trnprof model config.json --phase decode --batch 16 --context 4096 --lnc 2
    trnprof model block.py::build

    Each distinct operator is run once, at instruction level; -o keeps the trace of the whole model.
    """
    from trnprof.models import run_model

    names = [name for name in vars(args) if name in ASKED or name in SIZES]
    asked = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.search:
        asked |= _searched(args, asked)
    config: Any = args.config
    if "::" in config:
        from trnprof.frontends import load

        config, asked["phase"] = load(config), "encode"
    with _progress(args.json) as watch:
        run = run_model(config, watch=watch, **asked)
    if args.output:
        _keep(run, Path(args.output))
    if args.json:
        emit_json({**run.to_json(), "trace": args.output})
        return
    emit(_text(run, args.output))
    if not args.output:
        say("the trace was not kept; -o DIR keeps it for trnprof web and tui")


def _searched(args: Namespace, asked: dict[str, Any]) -> dict[str, Any]:
    """The sizes of the fastest sharding; the best few are told on stderr."""
    from trnprof import words
    from trnprof.models import search

    rest = {name: value for name, value in asked.items() if name not in (*SIZES, "full", "slow_chip", "slow_link")}
    found = search(args.config, args.search, **rest)
    rows = [("sharding", "estimate", "HBM of a core")]
    for one in found[:SHARDINGS_SHOWN]:
        sizes = " ".join(f"{name}={getattr(one.sharding, name)}" for name in SIZES if getattr(one.sharding, name) > 1)
        fits = words.size(one.held_bytes) + ("" if one.fits else ", does not fit")
        rows.append((sizes or "one core", words.estimate(words.time(one.time_ps)), fits))
    say(columns(rows, frozenset((1,))))
    best = found[0].sharding
    return {name: getattr(best, name) for name in (*SIZES, "sp", "zero")}


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """A line on stderr, if that is a terminal, with a bar over the distinct operators."""
    from trnprof.commands.progress import ERASE, drawn

    if quiet or not sys.stderr.isatty():
        yield None
        return

    def watch(name: str, number: int, total: int) -> None:
        line = f"{ERASE}{drawn(number, total)}  operator {number + 1} of {total}: {name}"
        sys.stderr.write(line[:100])
        sys.stderr.flush()

    try:
        yield watch
    finally:
        sys.stderr.write(ERASE)
        sys.stderr.flush()


def _keep(run: ModelRun, path: Path) -> None:
    from sim import tracefile
    from trnprof.summary import summarize

    tracefile.write(run.trace, path, summary=summarize(run.trace))


def _text(run: ModelRun, kept: str | None) -> str:
    return "\n\n".join((_head(run), _figures(run, kept), _operators(run)))


def _head(run: ModelRun) -> str:
    from trnprof import words
    from trnprof.commands import result

    work, shards = run.workload, run.sharding
    said = {"prefill": f"{work.seq} tokens", "decode": f"context {work.context}", "train": f"{work.seq} tokens"}
    asked = [
        f"batch {work.batch}",
        *([said[work.phase]] if work.phase in said and run.tokens_per_s else []),
        work.dtype,
    ]
    spread = [f"{name} {getattr(shards, name)}" for name in SIZES if getattr(shards, name) > 1]
    spread += [*(["sp"] if shards.sp else []), *([f"ZeRO {shards.zero}"] if shards.zero else [])]
    cores = f"{words.count(run.cores)} logical core{'s' if run.cores > 1 else ''} of LNC {run.lnc}"
    asked_of = f"{run.device}, {cores}, {', '.join(asked + spread)}"
    head = f"{words.plain(run.model, 60)} {work.phase}  {asked_of}; {result.origin(run.trace.meta)}"
    lines = [head, result.lead(run.verdict, run.trace.meta)]
    told = [item for item in run.verdict.evidence if result.tells(item, run.verdict)]
    return "\n".join(lines + [wrapped(item.sentence, "  · ") for item in told])


def _figures(run: ModelRun, kept: str | None) -> str:
    from trnprof import words

    def time(ps: int | None) -> str:
        return words.estimate(words.time(ps))

    held = ", ".join(f"{name} {words.size(size)}" for name, size in run.held.items() if size)
    total = sum(run.held.values())
    rows = [
        ("time to first token", time(run.ttft_ps) if run.ttft_ps else ""),
        ("time per output token", time(run.tpot_ps) if run.tpot_ps else ""),
        ("time", "" if run.ttft_ps or run.tpot_ps else time(run.latency_ps)),
        ("tokens/s", words.estimate(words.digits(run.tokens_per_s)) if run.tokens_per_s else ""),
        ("samples/s", words.estimate(words.digits(run.samples_per_s)) if run.samples_per_s else ""),
        ("use", _use(run)),
        ("network", f"{time(run.network_ps)} in collectives" if run.network_ps else ""),
        *_training(run),
        ("HBM of a core", f"{words.size(total)} of {words.size(run.room)}: {held}"),
        ("trace", kept or ""),
    ]
    return columns([row for row in rows if row[1]])


def _use(run: ModelRun) -> str:
    from trnprof import words

    more = f", HFU {words.share(run.training.hfu)}" if run.training else ""
    return f"MFU {words.share(run.mfu)}{more}, MBU {words.share(run.mbu)}"


def _training(run: ModelRun) -> list[tuple[str, str]]:
    from trnprof import words

    use = run.training
    if use is None:
        return []
    passes = f"{words.count(use.microbatches)} microbatch{'es' if use.microbatches > 1 else ''}"
    bubble = f"{passes}, bubble {words.share(use.bubble_ps / run.latency_ps)}"
    rows = [("pipeline", bubble)]
    for one in use.exchanges:
        hidden = f"{words.estimate(words.time(one.exposed_ps))} of {words.time(one.total_ps)} exposed"
        if one.slowed_ps:
            hidden += f"; it slows what hides it by {words.estimate(words.time(one.slowed_ps))}"
        rows.append((f"dp, {one.name}", hidden))
    return rows


def _operators(run: ModelRun) -> str:
    from trnprof import words

    rows = [("operator", "calls", "time", "share", "MFU", "MBU", "bound by", "")]
    rows += [_row(use) for use in run.operators[:OPERATORS_SHOWN]]
    text = columns(rows, frozenset((1, 2, 3, 4, 5)))
    hidden = len(run.operators) - OPERATORS_SHOWN
    return f"{text}\n{words.count(hidden)} more in --json" if hidden > 0 else text


def _row(use: OperatorUse) -> tuple[str, ...]:
    from trnprof import words

    bound = words.bound_name(use.bound) + (f" {words.share(use.bound_share)}" if use.bound_share is not None else "")
    return (
        words.plain(use.name, 44),
        words.count(use.calls),
        words.estimate(words.time(use.time_ps)),
        words.share(use.share),
        words.share(use.mfu),
        words.share(use.mbu),
        bound,
        words.plain(" ".join(use.shapes[:2]), 60),
    )

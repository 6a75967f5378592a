"""Runs a model: its distinct operators once each, then the whole as one trace, and what that says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.models import training
from sim.models.config import load
from sim.models.emulation import Emulation, Instance, Watcher, emulate, instances, laid_out
from sim.models.graph import COLLECTIVE, Graph
from sim.models.work import Count, count, work_of
from sim.spec import Device
from trnprof import words
from trnprof.bounds import judge
from trnprof.home import cache_dir
from trnprof.machine import machine
from trnprof.models.fitting import check_fit
from trnprof.models.record import ModelRun, OperatorUse, TrainingUse
from trnprof.models.setting import Setting, setting
from trnprof.regions import whole
from trnprof.work import Index

SECOND_PS = 1e12


def run_model(
    config: str | os.PathLike[str] | Mapping[str, Any],
    phase: str | None = None,
    device: str | Device = "trn2",
    lnc: int = 1,
    fabric: str | None = None,
    full: bool = False,
    must_fit: bool = True,
    slow_chip: float = 1.0,
    slow_link: float = 1.0,
    watch: Watcher | None = None,
    **more: Any,
) -> ModelRun:
    """Emulate a model in one phase.

    config    : a Hugging Face config.json, a TOML of ours, or a mapping
    phase     : the first that the model has when not given: prefill, transcribe, encode or denoise
    fabric    : what joins the chips (`trn2u`, `trn3-gen1`); the device's plain instances when not given
    full      : keep every instruction of every layer in the trace
    must_fit  : raise where HBM is too small; else the verdict says memory capacity
    slow_chip : how many times longer one chip of the first pipeline stage takes for what it computes (train)
    slow_link : share of their rate that the links of one chip have; its own exchanges are told
    watch     : told of (operation, its number, how many there are)
    more      : batch, seq, context, dtype, draft, acceptance, steps, microbatch, recompute; tp, pp, dp, ep, cp, sp,
                zero, interleave
    raises    : InputError, UnsupportedError, CapacityError
    """
    asked = setting(config, phase, device, lnc, fabric, slow_link, **more)
    train = asked.workload.phase == "train"
    if not 1 <= slow_chip < inf or (slow_chip > 1 and not train):
        raise InputError(f"slow_chip={slow_chip!r}: a factor of at least 1, of a training step")
    graph, held = asked.graph, asked.held
    if must_fit:
        check_fit(asked)
    if train:
        made = _train(asked, full, slow_chip, watch)
    else:
        done = emulate(graph, asked.device, lnc, asked.network, full, held, watch, _folder())
        made = _measured(asked, done, count(graph))
    said = {"phase": asked.workload.phase, "lnc": lnc, "fabric": fabric, "full": full}
    said |= {"slow_chip": slow_chip, "slow_link": slow_link}
    return _signed(made, config, said | more)


def _signed(made: ModelRun, config: Any, asked: dict[str, Any]) -> ModelRun:
    """The run, its trace with what was asked for, so that it can be asked again."""
    if hasattr(config, "graph"):
        return made
    trace = made.trace
    meta = replace(trace.meta, model={"config": dict(load(config).values), **asked})
    return replace(made, emulation=replace(made.emulation, trace=replace(trace, meta=meta)))


def _folder() -> Path:
    """Where traces of operators are kept between runs."""
    return cache_dir() / "operators"


def _train(asked: Setting, full: bool, slow: float, watch: Watcher | None) -> ModelRun:
    """Every distinct operation of a step, then the step of the pipeline stage that works longest."""
    work, shards, network = asked.workload, asked.sharding, asked.network
    needed = training.needed(asked.graph, work, shards)
    found = instances(needed, asked.device, asked.lnc, network, watch, _folder())
    times = {one.operation.key: one.duration_ps for one in found}
    step = training.step(
        asked.graph, work, shards, lambda one: times[one.key],
        None if network is None else lambda scalars: network(scalars)[0], slow, _shares(asked, found),
    )  # fmt: skip
    used = {operation.key for operation, _ in step.graph.operations()}
    extra = instances(_exposed(step.graph, times), asked.device, asked.lnc, network)
    mine = _recounted(step.graph, [one for one in (*found, *extra) if one.operation.key in used])
    done = laid_out(step.graph, mine, asked.device, asked.lnc, full, asked.held, step.gaps)
    once = [_forward_backward(asked, again) for again in ("none", work.recompute)]
    flops, again = (one.flops * step.microbatches for one in once)
    moved = once[1].moved_bytes * step.microbatches
    seconds = done.duration_ps / SECOND_PS
    hfu = again / (asked.peak * seconds * shards.pp)
    use = TrainingUse(step.microbatches, step.bubble_ps, step.exchanges, hfu)
    return _measured(asked, done, Count(flops, moved, 0), use)


def _shares(asked: Setting, found: Sequence[Instance]) -> training.Shares:
    """What operations, as emulated, and exchanges take of the HBM bandwidth."""
    taken = {}
    for one in found:
        moved = 0 if one.trace is None else whole(one.trace, Index(one.trace)).work.hbm_bytes
        most = asked.bandwidth * one.duration_ps / SECOND_PS
        taken[one.operation.key] = min(1.0, moved / most) if most else 0.0
    network = asked.network
    shared = (lambda scalars: network.exchange(scalars).memory_share) if network else (lambda scalars: 0.0)
    return training.Shares(lambda one: taken[one.key], shared)


def _exposed(graph: Graph, known: Mapping[tuple, int]) -> Graph:
    """The part of a graph that has not been emulated: exchanges that are exposed in part."""
    sections = [
        replace(section, layers=tuple(
            replace(layer, operations=tuple(one for one in layer.operations if one.key not in known))
            for layer in section.layers
        )) for section in graph.sections
    ]  # fmt: skip
    return replace(graph, sections=tuple(sections))


def _recounted(graph: Graph, found: list[Instance]) -> tuple[Instance, ...]:
    """Instances with the calls that they have in this graph."""
    calls: dict[tuple, int] = {}
    for operation, number in graph.operations():
        calls[operation.key] = calls.get(operation.key, 0) + number
    return tuple(replace(one, calls=calls[one.operation.key]) for one in found)


def _forward_backward(asked: Setting, recompute: str) -> Count:
    """One microbatch through all stages."""
    graph = training.passes(asked.graph, recompute)
    return count(graph)


def _measured(asked: Setting, done: Emulation, sums: Count, use: TrainingUse | None = None) -> ModelRun:
    work, latency = asked.workload, done.duration_ps
    index, roofs = Index(done.trace), machine(done.trace)
    seconds, stages = latency / SECOND_PS, asked.sharding.pp
    speaks = bool(getattr(asked.model, "vocabulary", 0))
    tokens = _tokens(asked) if speaks else 0
    tpot = round(latency / work.tokens_a_step) if work.phase == "decode" and speaks else None
    return ModelRun(
        model=asked.model.name,
        workload=work,
        sharding=asked.sharding,
        device=asked.device.name,
        lnc=asked.lnc,
        latency_ps=latency,
        ttft_ps=latency if work.phase == "prefill" else None,
        tpot_ps=tpot,
        tokens_per_s=tokens / seconds if tokens and seconds else None,
        samples_per_s=work.batch / seconds if tpot is None else None,
        mfu=sums.flops / (asked.peak * seconds * stages),
        mbu=sums.moved_bytes / (asked.bandwidth * seconds * stages),
        flops=sums.flops,
        moved_bytes=sums.moved_bytes,
        held=asked.held,
        room=asked.room,
        verdict=judge(index, roofs, whole(done.trace, index)),
        operators=_operators(asked, done),
        network_ps=sum(one.total_ps for one in done.instances if one.operation.operator == COLLECTIVE),
        training=use,
        emulation=done,
    )


def _tokens(asked: Setting) -> float:
    """Tokens that all cores together take in or give out."""
    work = asked.workload
    per_sequence = {"prefill": work.seq, "decode": work.tokens_a_step, "train": work.seq, "transcribe": work.seq}
    return work.batch * per_sequence.get(work.phase, 0)


def _operators(asked: Setting, done: Emulation) -> tuple[OperatorUse, ...]:
    uses = [_use(asked, instance, done.duration_ps) for instance in done.instances]
    return tuple(sorted(uses, key=lambda use: -use.time_ps))


def _use(asked: Setting, instance: Instance, latency: int) -> OperatorUse:
    operation, work = instance.operation, work_of(instance.operation)
    verdict, shapes = None, tuple(f"{one.dtype}[{','.join(map(str, one.shape))}]" for one in operation.inputs)
    if instance.trace is not None:
        index = Index(instance.trace)
        verdict = judge(index, machine(instance.trace), whole(instance.trace, index))
    else:
        said = operation.scalars
        shapes = (f"{said['kind']} {words.size(said['size_bytes'])} x {said['ranks']}",)
    seconds = instance.duration_ps / SECOND_PS
    counted = work is not None and seconds > 0
    return OperatorUse(
        name=instance.name,
        operator=operation.operator,
        calls=instance.calls,
        time_ps=instance.total_ps,
        share=instance.total_ps / latency if latency else 0.0,
        bound=verdict.bound if verdict else "network",
        bound_share=verdict.share if verdict else 1.0,
        mfu=work.flops / (asked.peak * seconds) if counted else None,
        mbu=(work.read_bytes + work.written_bytes) / (asked.bandwidth * seconds) if counted else None,
        shapes=shapes,
        verdict=verdict,
    )

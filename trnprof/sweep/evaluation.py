"""One point: the model or the kernel is run with its parameters, and what failed says why."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

from sim import spec
from sim.errors import CapacityError, TrnprofError
from sim.spec import Device
from trnprof.bounds import Verdict
from trnprof.sweep.record import SHARES, Outcome, Point, Value

PICO = 1e-12
DEFAULT_DEVICE = "trn2"
KILLED = 137
"""Exit code of a program that was killed, as a shell tells it."""


def evaluate(point: Point) -> Outcome:
    """The point's outcome; its own faults are recorded, not raised."""
    try:
        return _model(point.parameters) if point.subject == "model" else _kernel(point)
    except CapacityError as fault:
        return _failed(point, fault, "memory_capacity")
    except TrnprofError as fault:
        return _failed(point, fault, None)
    except MemoryError:
        return killed(point, "out of memory")
    except Exception as fault:
        # A kernel is code of other people's, and one combination of many.
        return _failed(point, TrnprofError(f"{type(fault).__name__}: {fault}"), None)


def killed(point: Point, why: str) -> Outcome:
    """The outcome of a point that had too little of a machine; another run may have more."""
    return Outcome(error=why, exit_code=KILLED, device=_name(point.parameters))


def _failed(point: Point, fault: TrnprofError, bound: str | None) -> Outcome:
    return Outcome(error=str(fault), exit_code=fault.exit_code, bound=bound, device=_name(point.parameters))


def _name(parameters: Mapping[str, Value]) -> str:
    try:
        return spec.device(parameters.get("device", DEFAULT_DEVICE)).name
    except TrnprofError:
        return str(parameters.get("device"))


def _inside(parameters: Mapping[str, Value], table: str) -> dict[str, Value]:
    """The parameters of `what_if` or `pass`, by their own names."""
    return {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith(f"{table}.")}


def _model(parameters: Mapping[str, Value]) -> Outcome:
    from trnprof.models import run_model
    from trnprof.whatif import changes

    own = {name: value for name, value in parameters.items() if "." not in name}
    device = spec.device(own.pop("device", DEFAULT_DEVICE))
    asked = _inside(parameters, "what_if")
    if asked:
        figures, _ = changes(device, asked)
        device = device.replace(figures)
    run = run_model(own.pop("model"), device=device, **own)
    physical = run.cores * run.lnc
    return Outcome(
        latency_ps=run.latency_ps,
        throughput=run.tokens_per_s or run.samples_per_s,
        unit="token" if run.tokens_per_s else "sample",
        device=run.device,
        cores=physical,
        chips=physical / int(device["cores"]),
        mfu=run.mfu,
        mbu=run.mbu,
        flops=run.flops,
        moved_bytes=run.moved_bytes,
        held_bytes=sum(run.held.values()),
        room_bytes=run.room,
        network_ps=run.network_ps,
        **_said(run.verdict),
    )


def _said(verdict: Verdict) -> dict[str, Any]:
    shares = {name: verdict.shares[name] for name in SHARES} if verdict.bound else {}
    return shares | {
        "bound": verdict.bound,
        "bound_share": verdict.share,
        "margin": verdict.margin,
        "runner_up": verdict.runner_up,
        "engine": verdict.engine,
    }


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a kernel did on a machine."""

    time_ps: int
    verdict: Verdict
    trace: Any


def _kernel(point: Point) -> Outcome:
    from trnprof.machine import machine
    from trnprof.regions import whole
    from trnprof.work import Index

    lnc = point.parameters.get("lnc", 1)
    device = spec.device(point.parameters.get("device", DEFAULT_DEVICE))
    done = _launched(point, device, lnc)
    work = whole(done.trace, Index(done.trace)).work
    seconds, roofs = done.time_ps * PICO, machine(done.trace)
    tensor, memory = roofs.mixed(work.dtypes), roofs.bandwidth()
    return Outcome(
        latency_ps=done.time_ps,
        throughput=1 / seconds if seconds else None,
        unit="launch",
        device=device.name,
        cores=lnc,
        chips=lnc / int(device["cores"]),
        mfu=work.flops / (tensor.value * seconds) if work.flops and tensor and seconds else None,
        mbu=work.hbm_bytes / (memory.value * seconds) if memory and seconds else None,
        flops=work.flops,
        moved_bytes=work.hbm_bytes,
        network_ps=work.collective_ps,
        **_said(done.verdict),
    )


def _launched(point: Point, device: Device, lnc: Any) -> _Launch:
    """The kernel by shapes alone; what it prints is no result of a sweep."""
    import sim
    from trnprof.arguments import bind, find_kernel, parse
    from trnprof.bounds import classify
    from trnprof.whatif import what_if

    parameters = point.parameters
    with redirect_stdout(StringIO()):
        kernel = find_kernel(str(parameters["kernel"]), device.name)
        texts = [f"{name}={text}" for name, text in point.arguments.items()]
        inputs, scalars = bind(kernel, parse(texts, seed=0, values=False))
        passes = _inside(parameters, "pass")
        run = sim.run(kernel, *inputs, device=device, lnc=lnc, values=False, passes=passes, **scalars)
    wrong = [finding for finding in run.findings if not finding.is_warning]
    if wrong:
        raise TrnprofError(f"the kernel is wrong: {wrong[0].sentence}", source=wrong[0].source)
    asked = _inside(parameters, "what_if")
    if asked:
        found = what_if(run.trace, asked)
        return _Launch(found.time_ps, found.verdict, found.trace)
    low, high = run.trace.meta.window
    return _Launch(high - low, classify(run.trace)[0], run.trace)

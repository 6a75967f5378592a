"""Work done per byte against work done per second, under the roofs of the machine.

Ratios are ratios of sums. FLOPs are the algorithm's; a region without TensorE work is placed by the element
operations of its busiest engine, one for each element and instruction. A region that moved no HBM byte has no
intensity, hence no dot: it is listed with the reason. The axes depend on the machine alone, so that two charts of one
device can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from sim import display
from sim.trace import COMPUTE_ENGINES, Engine, Trace
from trnprof import words
from trnprof.bounds import Verdict, judge
from trnprof.evidence import element_roof
from trnprof.machine import Ceiling, Machine, machine, rivals, short, working_cores
from trnprof.regions import Region, by_region, by_source_line, selection, whole
from trnprof.work import Index

TOLERANCE = 1.02
"""A dot this far above a roof proves a wrong roof or unit."""

NANO = 1e9

DOTS = 40
"""Regions of a chart beside the whole; the table of a larger trace holds those that took longest."""

LEVELS = {
    "kernels": ("model", "layer", "operator", "kernel"),
    "regions": ("model", "layer", "operator", "kernel", "loop"),
    "lines": ("line",),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A region under the roofs."""

    name: str
    kind: str
    """whole, model, layer, operator, kernel, loop, line or selection."""
    index: int
    """Row of `trace.regions`, -1 for none."""
    start_ps: int
    end_ps: int
    time_ps: int
    engine: str
    """The engine whose work is counted: TensorE, or the busiest of the others."""
    unit: str
    """FLOP/s, or elem/s for element operations."""
    done: int
    """FLOPs or element operations."""
    hbm_bytes: int
    intensity: float | None
    """Done per HBM byte; None without bytes or without work."""
    achieved: float | None
    """Done per second; None without work or time."""
    roof: str | None
    """The compute roof that applies."""
    attainable: float | None
    """Per second: the lower of that roof and of memory at this intensity."""
    share: float | None
    """Achieved of attainable, 0-1."""
    exceeds: bool
    """Above what the machine can do: a roof, a unit or a byte count is wrong."""
    bound: str | None
    """None without a verdict."""
    estimated: bool
    baseline: bool = False
    low: float | None = None
    """The interval of an estimate, per second."""
    high: float | None = None

    @property
    def missing(self) -> str | None:
        """Why it cannot be drawn."""
        if self.time_ps <= 0:
            return "no time"
        if not self.done:
            return "no FLOP and no element operation is counted"
        return None if self.hbm_bytes else "no HBM byte, so no intensity"


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis, fixed by the machine."""

    low: float
    high: float
    unit: str
    title: str


@dataclass(frozen=True, slots=True)
class Ridge:
    """Where a compute roof meets a memory roof."""

    name: str
    intensity: float
    value: float


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a baseline to what became of it; both are places in `Chart.dots`."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """All that a roofline picture shows, as data."""

    title: str
    subtitle: str
    device: str
    estimated: bool
    x: Axis
    y: Axis
    ceilings: tuple[Ceiling, ...]
    """Highest first among the compute roofs, then memory, then network."""
    main: tuple[str, ...]
    """Ids of the ceilings that the whole trace is measured against."""
    rivals: tuple[Ceiling, ...]
    """Roofs of other machines, to compare with."""
    ridges: tuple[Ridge, ...]
    """Of the main compute roof with each memory roof, the main one first; then of the other TensorE roofs with it."""
    dots: tuple[Point, ...]
    """The whole first, then regions by time, then the baseline."""
    without: tuple[Point, ...]
    """Regions that have no place; `Point.missing` says why."""
    arrows: tuple[Arrow, ...]
    caption: tuple[str, ...]
    """Sentences: what the marks mean, what is counted, where the roofs and the data come from."""

    def _repr_html_(self) -> str | None:
        return display.html(self)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def point(trace: Trace, t0: int | None = None, t1: int | None = None, device: str | None = None) -> Point:
    """The dot of the whole trace, or of a window of it.

    t0, t1 : ps; both or neither
    """
    index, roofs = Index(trace), _machine(trace, device)
    region = whole(trace, index) if t0 is None or t1 is None else selection(trace, t0, t1, index)
    return place(roofs, region, judge(index, roofs, region))


def place(roofs: Machine, region: Region, verdict: Verdict, baseline: bool = False) -> Point:
    """Where a region lies."""
    work = region.work
    engine, done, roof = _counted(roofs, region)
    achieved = done / work.time_ps * 1e12 if done and work.time_ps else None
    intensity = done / work.hbm_bytes if done and work.hbm_bytes else None
    attainable = _attainable(roofs, roof, intensity, _flow(work.hbm_bytes, work.time_ps))
    return Point(
        name=region.name,
        kind=region.kind,
        index=region.index,
        start_ps=region.start_ps,
        end_ps=region.end_ps,
        time_ps=work.time_ps,
        engine=words.ENGINE_WORDS[engine],
        unit="FLOP/s" if engine == Engine.TENSOR else "elem/s",
        done=done,
        hbm_bytes=work.hbm_bytes,
        intensity=intensity,
        achieved=achieved,
        roof=roof.name if roof else None,
        attainable=attainable,
        share=achieved / attainable if achieved and attainable else None,
        exceeds=_exceeds(roofs, roof, achieved, _flow(work.hbm_bytes, work.time_ps)),
        bound=verdict.bound,
        estimated=verdict.estimated,
        baseline=baseline,
    )


@dataclass(frozen=True)
class Known:
    """What a chart stands on; a large trace is not summed up twice for it."""

    index: Index
    everything: Region

    @classmethod
    def of(cls, trace: Trace) -> Known:
        index = Index(trace)
        return cls(index, whole(trace, index))

    @cached_property
    def tree(self) -> tuple[Region, ...]:
        """Its regions, parents before children."""
        return by_region(self.index.trace, self.index)


def chart(
    trace: Trace,
    device: str | None = None,
    baseline: Trace | None = None,
    level: str = "regions",
    compare: Sequence[str] = (),
    known: Known | None = None,
) -> Chart:
    """The roofline of a trace.

    device   : draw the roofs of this device instead of the trace's own
    baseline : an earlier trace; its dot is joined to the trace's
    level    : kernels, regions (loops too) or lines
    compare  : GPUs whose roofs are drawn as well: v100, a100, h100, …
    known    : what has been summed up of the trace, where somebody has
    """
    roofs, others = _machine(trace, device), rivals(compare)
    known = known or Known.of(trace)
    dots, verdict = _points(known, roofs, level)
    if baseline is not None:
        dots += _points(Known.of(baseline), _machine(baseline, device), "kernels", True)[0][:1]
    drawn = tuple(dot for dot in dots if dot.missing is None)
    main = _main(roofs, dots[0])
    wide = any(dot.unit == "elem/s" for dot in drawn)
    x, y = axes(roofs, wide, others)
    return Chart(
        title=_title(trace, roofs),
        subtitle=_subtitle(verdict),
        device=roofs.device,
        estimated=trace.meta.is_simulation,
        x=x,
        y=y,
        ceilings=_shown(roofs, wide),
        main=main,
        rivals=others,
        ridges=_ridges(roofs, main),
        dots=drawn,
        without=tuple(dot for dot in dots if dot.missing is not None),
        arrows=tuple(_arrows(drawn)),
        caption=_caption(known.everything, trace, roofs, baseline, others),
    )


def axes(roofs: Machine, wide: bool, others: Sequence[Ceiling] = ()) -> tuple[Axis, Axis]:
    """The frame of a machine.

    wide   : with room for the element rates of the other engines
    others : roofs of other machines that must lie inside as well
    """
    compute = [c.value for c in roofs.of_kind("compute") if wide or c.id.startswith("tensor.")] or [1e12]
    memory = roofs.get("hbm") or roofs.bandwidth()
    flow = memory.value if memory is not None else 1e11
    slowest, fastest = min(compute), max((*compute, *(c.value for c in others if c.kind == "compute")))
    x = Axis(
        slowest / flow / (8 if wide else 100), fastest / flow * 8, "FLOP/B",
        f"Arithmetic intensity, {'operations' if wide else 'FLOP'} per HBM byte",
    )  # fmt: skip
    title = f"Performance, {'operations/s: FLOP on TensorE, elements on the others' if wide else 'FLOP/s'}"
    return x, Axis(slowest / (100 if wide else 1000), fastest * 2, "FLOP/s", title)


def _machine(trace: Trace, device: str | None) -> Machine:
    return machine(trace) if device is None else machine(device, working_cores(trace))


def _points(known: Known, roofs: Machine, level: str, baseline: bool = False) -> tuple[list[Point], Verdict]:
    trace, index, everything = known.index.trace, known.index, known.everything
    kinds = LEVELS[level]
    found = by_source_line(trace, index) if level == "lines" else known.tree
    inner = [region for region in found if region.kind in kinds and not _same(region, everything, found)]
    inner.sort(key=lambda region: -region.work.time_ps)
    verdict = judge(index, roofs, everything)
    dots = [_with_bar(trace, place(roofs, everything, verdict, baseline))]
    return dots + [place(roofs, r, judge(index, roofs, r), baseline) for r in inner[:DOTS]], verdict


def _with_bar(trace: Trace, dot: Point) -> Point:
    """The dot of the whole with the interval of its time, where the trace keeps one."""
    bar = trace.meta.error_bars.get("latency_ns")
    if not bar or dot.achieved is None or not bar["low"] or not bar["high"]:
        return dot
    return replace(dot, low=dot.done / bar["high"] * NANO, high=dot.done / bar["low"] * NANO)


def _same(region: Region, everything: Region, found: Sequence[Region]) -> bool:
    """Whether a region, like a kernel that is alone, would lie under the dot of the whole or of what encloses it."""
    parent = next((each for each in found if each.index == region.parent and region.parent >= 0), everything)
    return region.rows.size == parent.rows.size and region.kind != "line"


def _counted(roofs: Machine, region: Region) -> tuple[Engine, int, Ceiling | None]:
    """The engine whose work is counted, that work, and the roof over it."""
    work = region.work
    if work.flops:
        return Engine.TENSOR, work.flops, roofs.mixed(work.dtypes)
    engine = max(COMPUTE_ENGINES[1:], key=lambda each: (work.elements[each] > 0, work.active_ps[each]))
    done = work.elements[engine]
    return engine, done, element_roof(roofs, engine, done, work.time_ps)


def _flow(n: int, time_ps: int) -> float:
    """Bytes per second."""
    return n / time_ps * 1e12 if time_ps else 0.0


def _attainable(roofs: Machine, roof: Ceiling | None, intensity: float | None, flow: float) -> float | None:
    memory = roofs.bandwidth(flow)
    if roof is None:
        return None
    return min(roof.value, intensity * memory.value) if intensity is not None and memory is not None else roof.value


def _exceeds(roofs: Machine, roof: Ceiling | None, achieved: float | None, flow: float) -> bool:
    # Data compressed 4:16 may pass the dense roof of its dtype.
    sparse = roofs.get("tensor.sparse")
    highest = max(roof.value, sparse.value if sparse and roof.id.startswith("tensor.") else 0) if roof else None
    too_fast = highest is not None and achieved is not None and achieved > highest * TOLERANCE
    return too_fast or any(limit is not None and flow > limit * TOLERANCE for limit in (roofs.wire, roofs.stack))


def _main(roofs: Machine, dot: Point) -> tuple[str, ...]:
    compute = next((c.id for c in roofs.ceilings if c.name == dot.roof), None)
    if compute is None and roofs.of_kind("compute"):
        # A mixture of dtypes has no line of its own: the nearest one below it stands for it.
        lines = [c for c in roofs.of_kind("compute") if c.id.startswith("tensor.")] or list(roofs.of_kind("compute"))
        compute = min(lines, key=lambda c: c.value).id
    memory = roofs.bandwidth()
    return tuple(id for id in (compute, memory.id if memory else None) if id)


def _shown(roofs: Machine, wide: bool) -> tuple[Ceiling, ...]:
    """The ceilings inside the frame, in drawing order."""
    compute = sorted(roofs.of_kind("compute"), key=lambda c: -c.value)
    inside = [c for c in compute if wide or c.id.startswith("tensor.")]
    return (*inside, *sorted(roofs.of_kind("memory"), key=lambda c: -c.value), *roofs.of_kind("network"))


def _ridges(roofs: Machine, main: Iterable[str]) -> tuple[Ridge, ...]:
    known = [c for id in main if (c := roofs.get(id)) is not None]
    compute = next((c for c in known if c.kind == "compute"), None)
    if compute is None:
        return ()
    memory = sorted(roofs.of_kind("memory"), key=lambda c: c.id not in main)
    found = [Ridge(f"{compute.name} / {c.name}", compute.value / c.value, compute.value) for c in memory]
    others = [c for c in roofs.of_kind("compute") if c.id.startswith("tensor.") and c.id != compute.id]
    if memory:
        found += [Ridge(f"{c.name} / {memory[0].name}", c.value / memory[0].value, c.value) for c in others]
    return tuple(found)


def _arrows(dots: Sequence[Point]) -> Iterator[Arrow]:
    before = next((i for i, dot in enumerate(dots) if dot.baseline), None)
    if before is None or dots[0].baseline:
        return
    was, now = dots[before], dots[0]
    parts = [
        _factor(was.time_ps, now.time_ps, "faster", "slower"),
        _factor(was.hbm_bytes, now.hbm_bytes, "fewer bytes", "more bytes"),
    ]
    yield Arrow(before, 0, ", ".join(part for part in parts if part) or "no change")


def _factor(was: float, now: float, less: str, more: str) -> str:
    if not was or not now or 0.995 < was / now < 1.005:
        return ""
    return f"{words.digits(was / now)}× {less}" if was > now else f"{words.digits(now / was)}× {more}"


def _title(trace: Trace, roofs: Machine) -> str:
    cores = "one core" if roofs.cores == 1 else f"{roofs.cores} cores"
    other = "" if roofs.device == trace.meta.device else f"{words.plain(trace.meta.device, 40)}, under the roofs of "
    return f"{words.plain(trace.meta.kernel or 'trace', 60)} on {other}{roofs.device}, {cores}"


def _subtitle(verdict: Verdict) -> str:
    if verdict.bound is None or verdict.runner_up is None:
        return f"{words.NO_VERDICT}. {verdict.evidence[0].sentence}."
    points = words.points(verdict.scores[verdict.bound], verdict.scores[verdict.runner_up])
    lead = words.ahead(points, words.bound_name(verdict.runner_up).lower())
    led_by = f" on {verdict.engine}" if verdict.engine else ""
    return f"{words.bound(verdict.bound)}{led_by}, {lead}. {verdict.evidence[0].sentence}."


def _caption(
    everything: Region, trace: Trace, roofs: Machine, baseline: Trace | None, others: Sequence[Ceiling] = ()
) -> tuple[str, ...]:
    from trnprof import __version__

    meta = trace.meta
    origin = "Estimated by emulation" if meta.is_simulation else "Captured on hardware"
    hbm = roofs.get("hbm")
    dtypes = sorted({short(d) for d, _ in everything.work.dtypes})
    lines = [
        "Area of a dot grows with time: circle the whole, diamond a region, dashed frame an estimate",
        "FLOPs are the algorithm's: transposes and second fp32 passes are not counted",
        f"Roofs: {roofs.title}, {'one core' if roofs.cores == 1 else f'{roofs.cores} cores'}"
        + (f"; {hbm.name}: {hbm.note}" if hbm and hbm.note else ""),
        *(["Whiskers: 80 % of what the time may be, by figures, compiler and model"] if meta.error_bars else []),
        *(
            [f"For comparison: {words.listing([f'all of one {c.note}' for c in others if c.kind == 'memory'])}"]
            if others
            else []
        ),
        f"Axes are fixed by the machine{'s' if others else ''}",
        f"{origin}{f', {chr(44).join(dtypes)}' if dtypes else ''}: {words.plain(meta.source or 'unnamed trace', 80)}"
        + (f"; baseline: {words.plain(baseline.meta.source or 'unnamed trace', 80)}" if baseline else ""),
        f"trnprof {__version__}" + (f", {words.plain(meta.tool, 60)}" if meta.tool and not meta.is_simulation else ""),
    ]
    return tuple(lines)


__all__ = [
    "Arrow",
    "Axis",
    "Ceiling",
    "Chart",
    "Machine",
    "Point",
    "Ridge",
    "axes",
    "chart",
    "machine",
    "place",
    "point",
]

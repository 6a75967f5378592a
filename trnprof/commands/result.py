"""What `run`, `summary` and `demo` print of a trace: one JSON object, or words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trnprof.commands.streams import columns, wrapped

if TYPE_CHECKING:
    from sim.trace import Meta, Trace
    from trnprof.bounds import Verdict
    from trnprof.evidence import Evidence

ROWS_SHOWN = 6
FINDINGS_SHOWN = 10
TELLING = 0.05
"""Evidence of other bounds below this share of its limit is left to --json."""

BYTES = {"read": "hbm_read_bytes", "written": "hbm_write_bytes"}
SPILLS = {"saved": "spill_save_bytes", "reloaded": "spill_reload_bytes"}
FLOPS = {"hardware": "hardware_flops", "transposes": "transpose_flops"}
UTILISATIONS = {"HFU": "hfu_estimated_percent", "MFU": "mfu_estimated_percent", "MBU": "mbu_estimated_percent"}


def record(trace: Trace) -> dict[str, Any]:
    """The JSON object of `run` and `summary`, as the contract describes it."""
    from dataclasses import asdict

    from sim.trace import ENGINE_NAMES
    from trnprof.bounds import classify
    from trnprof.missing import missing
    from trnprof.summary import engines, summarize

    meta, working = trace.meta, _working(trace)
    return {
        "device": meta.device,
        "is_simulation": meta.is_simulation,
        "kernel": meta.kernel,
        "latency_ns": (meta.window[1] - meta.window[0]) / 1000,
        "total_ns": meta.total_ps / 1000,
        "benchmark_ns": None if meta.benchmark_ps is None else meta.benchmark_ps / 1000,
        "error_bars": dict(meta.error_bars) or None,
        "summary": summarize(trace),
        "engines": {
            ENGINE_NAMES[use.engine]: {
                "active_ns": use.active_ps / 1000,
                **({"working_ns": working[use.engine] / 1000} if use.engine in working else {}),
                "instructions": use.instructions,
            }
            for use in engines(trace)
        },
        "verdicts": [verdict.to_json() for verdict in classify(trace)],
        "findings": [asdict(finding) for finding in meta.findings],
        "outputs": [dict(output) for output in meta.outputs],
        "notes": list(meta.notes),
        "receipt": dict(meta.receipt) or None,
        "missing": list(missing(trace)),
    }


def text(trace: Trace, kept: str | None = None) -> str:
    """The verdict with its evidence, the engine table, what moved, and what was found.

    kept : where the trace lies; None when it was not written
    """
    from trnprof.bounds import classify

    whole, *parts = classify(trace)
    paragraphs = [_verdict(trace, whole), _engines(trace), _facts(trace, whole, kept), _regions(parts)]
    paragraphs += [_lines(trace), _missing(trace), _findings(trace.meta)]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _verdict(trace: Trace, whole: Verdict) -> str:
    from trnprof.machine import machine
    from trnprof.view import format as words

    meta, cores = trace.meta, words.plural(machine(trace).cores, "core")
    head = [
        f"{words.plain(meta.kernel or meta.source, 80)}  {words.plain(meta.device, 40)}, {cores}, {origin(meta)}",
        lead(whole, meta),
        *(wrapped(sentence, "  · ") for sentence in _sure(meta)),
    ]
    return "\n".join(head + [wrapped(item.sentence, "  · ") for item in whole.evidence if tells(item, whole)])


def _sure(meta: Meta) -> Iterator[str]:
    """How sure the verdict is, and what the error bars are made of."""
    bars = meta.error_bars
    if bars:
        yield bars["verdict"]["sentence"]
        yield from filter(None, (bars.get("sentence"),))


def lead(whole: Verdict, meta: Meta) -> str:
    """The bound, how much of the time it takes, and how sure that is."""
    from trnprof.view import format as words

    if whole.bound is None or whole.runner_up is None:
        return words.bound(None)
    led_by = f" on {whole.engine}" if whole.engine else ""
    points = words.points(whole.scores[whole.bound], whole.scores[whole.runner_up])
    return (
        f"{words.bound(whole.bound)}{led_by}: {words.share(whole.share)} of "
        f"{_within(_time(whole.time_ps, meta.is_simulation), meta, 'latency_ns')}, "
        f"{words.ahead(points, words.bound(whole.runner_up).lower())}"
    )


def origin(meta: Meta) -> str:
    from sim.spec import device

    if not meta.is_simulation:
        return "captured on hardware" if meta.device != "unknown" else "captured"
    known = meta.device != "unknown"
    compared = ", never compared with hardware" if known and not device(meta.device).validated else ""
    return f"emulated{compared}: ~ marks an estimate"


def _time(ps: int, estimated: bool) -> str:
    from trnprof.view import format as words

    return words.estimate(words.time(ps), estimated and ps > 0)


def _within(time: str, meta: Meta, name: str) -> str:
    """A time with its error bars, where the trace has some."""
    from trnprof.view import format as words

    bar = meta.error_bars.get(name)
    return words.within(time, bar["low"] * 1000, bar["high"] * 1000) if bar else time


def tells(evidence: Evidence, verdict: Verdict) -> bool:
    return evidence.bound == (verdict.bound or "") or (evidence.share or 0) >= TELLING


def _engines(trace: Trace) -> str:
    from trnprof.summary import engines
    from trnprof.view import format as words

    estimated = trace.meta.is_simulation
    working = _working(trace)
    rows = [("engine", "active", "share", words.WORKING, "instructions")]
    rows += [
        (
            words.ENGINE_WORDS[use.engine],
            _time(use.active_ps, estimated),
            words.share(use.share),
            _time(working[use.engine], estimated) if use.engine in working else "",
            words.count(use.instructions),
        )
        for use in engines(trace)
        if use.instructions
    ]
    return columns(rows, frozenset((1, 2, 3, 4))) if len(rows) > 1 else ""


def _working(trace: Trace) -> dict[int, int]:
    """How long each engine did work of the kernel, ps: as the views, reports and comparisons tell it."""
    from trnprof.regions import whole
    from trnprof.work import Index

    return dict(enumerate(whole(trace, Index(trace)).work.active_ps))


def _facts(trace: Trace, whole: Verdict, kept: str | None) -> str:
    from trnprof.summary import summarize
    from trnprof.view import format as words

    meta, fields = trace.meta, summarize(trace)
    times = {
        "kernel": (whole.time_ps, "latency_ns"),
        "whole trace": (meta.total_ps, "total_ns"),
        "nki.benchmark": (meta.benchmark_ps, "benchmark_ns"),
    }
    shown = {name: _within(_time(ps, meta.is_simulation), meta, field) for name, (ps, field) in times.items() if ps}
    rows = [
        ("time", _listed(shown)),
        ("HBM", _listed(_present(fields, BYTES, words.size))),
        ("spills", _listed(_present(fields, SPILLS, words.size))),
        ("FLOPs", _listed(_present(fields, FLOPS, words.work))),
        ("use", _listed(_present(fields, UTILISATIONS, words.share))),
        *[("output", _output(output)) for output in meta.outputs],
        ("trace", kept or ""),
    ]
    return columns([row for row in rows if row[1]])


def _present(fields: dict[str, Any], names: dict[str, str], write: Callable[[Any], str]) -> dict[str, str]:
    """The fields of the summary that there are, in words; none where all are zero."""
    values = {title: fields[name] for title, name in names.items() if fields.get(name) is not None}
    return {title: write(value) for title, value in values.items()} if any(values.values()) else {}


def _listed(facts: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _output(output: Mapping[str, Any]) -> str:
    from trnprof.view import format as words

    digest = output.get("sha256")
    shape = ", ".join(map(str, output["shape"]))
    return f"{words.plain(output['name'], 60)} {output['dtype']}[{shape}]" + (
        f", sha256 {digest[:12]}…" if digest else ""
    )


def _regions(parts: list[Verdict]) -> str:
    """Kernels, operators and loops that take the longest, in the order of the trace."""
    from trnprof.view import format as words

    inner = [verdict for verdict in parts if verdict.kind != "line"]
    if len(inner) < 2:
        return ""
    longest = sorted(inner, key=lambda verdict: -verdict.time_ps)[:ROWS_SHOWN]
    rows = [("region", "", "time", "bound by", "share")]
    rows += [
        (
            words.plain(verdict.region, 60),
            verdict.kind,
            _time(verdict.time_ps, verdict.estimated),
            verdict.engine or words.bound_name(verdict.bound),
            words.share(verdict.share),
        )
        for verdict in inner
        if verdict in longest
    ]
    return columns(rows, frozenset((2, 4)))


def _lines(trace: Trace) -> str:
    """The source lines that keep an engine busy for longest."""
    from sim.trace import Engine
    from trnprof.regions import by_source_line
    from trnprof.view import format as words

    rows = []
    for line in by_source_line(trace):
        active = dict(enumerate(line.work.active_ps)) | {Engine.DMA: line.work.dma_active_ps}
        engine = max(active, key=active.__getitem__)
        rows.append((active[engine], engine, sum(line.work.instructions), line.name))
    rows.sort(reverse=True)
    table = [("busiest lines", "active", "instructions", "")]
    table += [
        (
            words.ENGINE_WORDS[engine],
            _time(active, trace.meta.is_simulation),
            words.count(count),
            words.plain(name, 100),
        )
        for active, engine, count, name in rows[:ROWS_SHOWN]
    ]
    return columns(table, frozenset((1, 2))) if rows else ""


def _missing(trace: Trace) -> str:
    from trnprof.missing import missing

    lines = [wrapped(sentence, "  · ") for sentence in missing(trace)]
    return "\n".join(["not told by this trace:", *lines]) if lines else ""


def _findings(meta: Meta) -> str:
    """What is wrong in an emulated kernel, and where to read what is assumed."""
    from trnprof.view import format as words

    notes = [f"notes: {len(meta.notes)}, in --json"] if meta.notes else []
    if not meta.is_simulation:
        return "\n".join(notes)
    lines = [wrapped(f"{finding.kind}: {words.plain(finding.sentence)}", "  · ") for finding in meta.findings]
    hidden = len(lines) - FINDINGS_SHOWN
    more = [f"  {hidden} more in --json"] if hidden > 0 else []
    return "\n".join([f"findings: {len(lines) or 'none'}", *lines[:FINDINGS_SHOWN], *more, *notes])

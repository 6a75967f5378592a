"""What each pass and each group of figures explains, and the page that says so (`records.py --ablate`).

Each record's program is timed anew with one thing changed. Programs of more than `LARGEST` instructions are left out of
this, not of the table of errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sim
from sim.errors import TrnprofError
from sim.passes import NUMBERS, PASSES
from sim.retiming import on_device, recording
from sim.schedule import schedule

LARGEST = 3_000

GROUPS = {
    "NKIBench": r"^nkibench",
    "attention": r"^tkf.*attn",
    "MLP": r"^tkf.*mlp",
    "current API": r"^(doc-trn2|autotune)",
    "docs' mamba": r"^doc-mamba",
}
"""Sets of records, by what their ids look like."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing changed."""

    name: str
    passes: Mapping[str, bool | int] = field(default_factory=dict)
    figures: Mapping[str, float | str] = field(default_factory=dict)


OFF = {name: False for name in PASSES if name not in (*NUMBERS, "spill")}
"""All passes off but spilling, without which some kernels fit nowhere."""

VARIANTS = (
    Variant("all passes off, one pool", passes={**OFF, "buffers": 0}),
    *(Variant(f"{name} off", passes={name: False}) for name in OFF if name != "rotate"),
    *(Variant(f"buffers {count}", passes={"buffers": count}) for count in (0, 1, 4)),
    *(Variant(f"window {count}", passes={"window": count}) for count in (1, 8, 64)),
    Variant("room 16", passes={"room": 16}),
    Variant(
        "DMA latency 0",
        figures={f"dma.{part}_{way}": 0 for part in ("dispatch", "stagger", "notify") for way in ("load", "store")},
    ),
    Variant("DMA issue 0", figures={f"dma.issue_{kind}": 0 for kind in ("static", "hw", "sw", "hw_scratch")}),
    Variant("DMA descriptors 0", figures={"dma.desc_ovh": 0}),
    Variant("DMA engines twice as fast", figures={"dma.bw_read": "2x", "dma.bw_write": "2x"}),
    Variant("semaphores 0", figures={"sem.wake": 0, "sem.same": 0}),
    Variant("TensorE issue overhead 0", figures={"pe.issue_ovh": 0, "pe.issue_ovh_16": 0}),
    Variant("TensorE clock always warm", figures={"pe.clock_cold": 1}),
    Variant("VectorE, ScalarE issue overhead 0", figures={"dve.issue_ovh": 0, "act.issue_ovh": 0}),
)


def latency_ns(run: sim.Run, variant: Variant) -> float | None:
    """The kernel window with one thing changed; None where the device has no such figure or nothing fits."""
    source = recording(run.trace)
    program, device = source.program, source.program.device
    known = {name: value for name, value in variant.figures.items() if name in device.figures}
    if variant.figures and not known:
        return None
    try:
        if known:
            program = on_device(program, device.replace(known))
        return schedule(program, source.options.switched(variant.passes)).end_ps / 1e3
    except TrnprofError:
        return None


def ablated(run: sim.Run, which: str, measured_us: float) -> Iterator[tuple[str, float]]:
    """(variant, error) of each variant that can be; nothing for a program that is too long."""
    if len(run.program) > LARGEST:
        return
    beside = getattr(run, which) - run.latency_ns
    for variant in VARIANTS:
        found = latency_ns(run, variant)
        if found is not None:
            yield variant.name, (found + beside) / 1e3 / measured_us - 1


def table(rows: list[dict]) -> str:
    """Mean absolute error of each set of records under each variant, Markdown."""
    done = [row for row in rows if row.get("ablation")]
    names = ["as it is", *(variant.name for variant in VARIANTS)]
    lines = ["| variant | all | bias | " + " | ".join(GROUPS) + " |", "|---" * (3 + len(GROUPS)) + "|"]
    for name in names:
        errors = {row["id"]: row["ablation"].get(name, row["error"]) for row in done}
        cells = [_mean(errors, "."), f"{sum(errors.values()) / max(1, len(errors)):+.1%}"]
        lines.append(f"| {name} | " + " | ".join(cells + [_mean(errors, look) for look in GROUPS.values()]) + " |")
    return "\n".join(lines)


def _mean(errors: Mapping[str, float], look: str) -> str:
    import re

    found = [abs(error) for name, error in errors.items() if re.search(look, name)]
    return f"{sum(found) / len(found):.1%}" if found else "–"


def estimates(rows: list[dict], first: Mapping[str, float], reasons: Mapping[str, str]) -> str:
    """One line a record, Markdown: estimate, measurement, error, the first run's error, traffic, and why it is off."""
    import re

    head = ("record", "estimate µs", "measured µs", "error", "first run", "HBM and engines, ours / measured", "why")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        if "error" not in row:
            lines.append(f"| {row['id']} | – | {row['measured_us']:.1f} | – | – | – | {row['failed']} |")
            continue
        why = next((text for look, text in reasons.items() if re.search(look, row["id"])), "")
        began = f"{first[row['id']]:+.1%}" if row["id"] in first else "–"
        times = f"~{row['estimate_us']:.1f} | {row['measured_us']:.1f} | {row['error']:+.1%} | {began}"
        lines.append(f"| {row['id']} | {times} | {_counters(row)} | {why if abs(row['error']) > 0.05 else ''} |")
    return "\n".join(lines)


UNITS = {"hbm_read_bytes": ("read MB", 1e6), "hbm_write_bytes": ("write MB", 1e6), "spill_save_bytes": ("save MB", 1e6),
         "spill_reload_bytes": ("reload MB", 1e6), "hardware_flops": ("GFLOP", 1e9),
         "vector_engine_active_time_percent": ("Vector %", 0.01),
         "scalar_engine_active_time_percent": ("Scalar %", 0.01)}  # fmt: skip


def _counters(row: dict) -> str:
    pairs = [
        f"{UNITS[name][0]} {ours / UNITS[name][1]:.1f}/{theirs / UNITS[name][1]:.1f}"
        for name, (ours, theirs) in row.get("counters", {}).items()
        if ours or theirs
    ]
    return ", ".join(pairs)


def page(rows: list[dict], words: str, first: Mapping[str, float], reasons: Mapping[str, str]) -> str:
    """The whole page: words with the two tables in their places."""
    done = [abs(row["error"]) for row in rows if "error" in row]
    if not done:
        print("no record ran", file=sys.stderr)
    facts = {
        "{count}": str(len(done)),
        "{mean}": f"{sum(done) / max(1, len(done)):.1%}",
        "{median}": f"{sorted(done)[len(done) // 2]:.1%}" if done else "n/a",
        "{worst}": f"{max(done, default=0):.1%}",
        "{far}": str(sum(error > 0.25 for error in done)),
        "{ablated}": str(sum(bool(row.get("ablation")) for row in rows)),
        "{estimates}": estimates(rows, first, reasons),
        "{ablation}": table(rows),
    }
    for name, text in facts.items():
        words = words.replace(name, text)
    return words

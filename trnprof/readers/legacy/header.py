"""What a legacy profile says of itself: device, figures, kernel, tool."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Any

from sim.trace import Meta
from trnprof.readers.legacy.rows import About, storable

_MACHINE = {
    "pe_clock_freq": "tensor_engine_clock_freq",
    "pe_clock_others": "neuroncore_clock_freq",
    "pe_num_rows": "tensor_engine_num_rows",
    "pe_num_cols": "tensor_engine_num_cols",
}
"""Legacy metadata names and Explorer's."""


def header(document: About, path: str) -> Meta:
    """The meta of a document, without window and notes."""
    summary, metadata = first(document.summary), first(document.metadata)
    machine = machine_of(metadata)
    return Meta(
        is_simulation=metadata.get("is_simulation") is True,
        device=device_of(str(summary.get("instance_type", "")), machine),
        source=path,
        kernel=_kernel(document),
        total_ps=round((total_seconds(document) or 0) * 1e12),
        cores=max(int(machine.get("num_physical_cores", 1)), 1),
        lnc=2 if metadata.get("vnc_enabled") is True else 1,
        tool=_tool(document, summary),
        schema_version="legacy",
        machine=machine,
        summary=summary,
    )


def first(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The one row of a table, empty when it has none."""
    return rows[0] if rows else {}


def total_seconds(document: About) -> float | None:
    """The total time that the profile reports."""
    total = number(first(document.summary).get("total_time"))
    return total if total and 0 < total < 1e6 else None


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def machine_of(metadata: dict[str, Any]) -> dict[str, float]:
    """Figures of the metadata under Explorer's names."""
    figures = {_MACHINE.get(key, key): number(value) for key, value in metadata.items()}
    return {key: float(value) for key, value in figures.items() if value is not None}


def device_of(instance: str, machine: dict[str, float]) -> str:
    """Device by EC2 instance type, else by the Tensor Engine's clock and the base clock."""
    family = instance.partition(".")[0].lower()
    for name in ("trn1", "trn2", "trn3", "inf1", "inf2"):
        if family.startswith(name):
            return name
    clocks = (machine.get("tensor_engine_clock_freq"), machine.get("neuroncore_clock_freq"))
    return {(2.8, 1.4): "trn1", (2.4, 1.2): "trn2"}.get(clocks, "unknown")


def _kernel(document: About) -> str:
    """The kernel's name: the NEFF's, or its folder's where the file is just called graph."""
    profile = first(document.profile_info)
    name = first(document.neff_header).get("network_name") or profile.get("neff_name") or profile.get("profile_name")
    path = PurePosixPath(str(name or ""))
    return storable(path.parent.name if path.stem in ("graph", "file") and path.parent.name else path.stem)


def _tool(document: About, summary: dict[str, Any]) -> str:
    version = first(document.profile_info).get("profiler_version") or summary.get("profiler_version") or ""
    return storable(f"neuron-profile {version}".strip())

"""The ceilings of a machine: what its engines, its memory and its links could do at best.

Every ceiling carries its source. What a captured profile says of its own machine goes before the device table.
Rates are per second and for all cores of the trace together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sim.errors import InputError
from sim.spec import (
    GIGA,
    Device,
    Gpu,
    device,
    dma_bandwidth,
    gpus,
    hbm_bandwidth,
    link_bandwidth,
    peak_dtypes,
    peak_flops,
)
from sim.trace import Arrays, Engine, Trace

UNKNOWN = "unknown"

BF16_FACTORS = {"float32": 4.0, "bfloat16": 1.0, "float8": 0.5, "int8": 0.5, "mx": 0.25}
"""What one FLOP counts in BF16 equivalents (Neuron Explorer, `adjusted_flops`); fp8 counts 1 on NeuronCore-v2."""

_FAMILIES = (
    ("mx", "mx"), ("float8", "float8"), ("fp8", "float8"), ("cfp8", "float8"), ("int8", "int8"), ("uint8", "int8"),
    ("tf32", "bfloat16"), ("tfloat32", "bfloat16"), ("bf16", "bfloat16"), ("bfloat16", "bfloat16"),
    ("fp16", "bfloat16"), ("float16", "bfloat16"), ("fp32", "float32"), ("float32", "float32"), ("f32", "float32"),
)  # fmt: skip

_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float8": "fp8", "int8": "int8", "mx": "MX"}

_ENGINES = ((Engine.VECTOR, "VectorE"), (Engine.SCALAR, "ScalarE"), (Engine.GPSIMD, "GpSimdE"))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit of a machine."""

    id: str
    """tensor.bf16, tensor.fp32, tensor.fp8, tensor.mx, tensor.sparse, vector, scalar, gpsimd, hbm, dma, link, …"""
    name: str
    value: float
    """Per second."""
    unit: str
    """FLOP/s, elem/s (elements times instructions that pass over them) or B/s."""
    kind: str
    """compute, memory or network."""
    source: str
    basis: str
    """documented, measured, derived, guess, what-if, or captured: the profile said so."""
    note: str = ""

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Machine:
    """All ceilings of the cores that a trace ran on."""

    device: str
    title: str
    cores: int
    ceilings: tuple[Ceiling, ...]
    wire: float | None = None
    """Bytes per second that the DMA engines cannot pass, whatever they do; None when unknown."""
    stack: float | None = None
    """Bytes per second of the HBM stacks that these cores are attached to, which they may share with others."""
    figures: Device | None = field(default=None, repr=False, compare=False)

    def get(self, id: str) -> Ceiling | None:
        return next((ceiling for ceiling in self.ceilings if ceiling.id == id), None)

    def tensor(self, dtype: str | None) -> Ceiling | None:
        """TensorE's roof for a dtype; bf16's when the dtype is unknown."""
        return self.get(f"tensor.{_SHORT[family(dtype) or 'bfloat16'].lower()}") or self.get("tensor.bf16")

    def mixed(self, work: Sequence[tuple[str, int]]) -> Ceiling | None:
        """TensorE's roof for FLOPs of several dtypes, given as (dtype, FLOPs): all of them over their time at peak."""
        roofs = [(self.tensor(dtype), flops) for dtype, flops in work if flops > 0]
        if not roofs or any(roof is None for roof, _ in roofs):
            return self.get("tensor.bf16")
        first = roofs[0][0]
        if all(roof == first for roof, _ in roofs):
            return first
        value = sum(flops for _, flops in roofs) / sum(flops / roof.value for roof, flops in roofs)
        names = " + ".join(dict.fromkeys(short(dtype) for dtype, flops in work if flops > 0))
        return replace(first, id="tensor.mixed", name=f"TensorE {names}", value=value, basis="derived",
                       source="the roofs of the dtypes, weighted by their FLOPs", note="")  # fmt: skip

    def of_kind(self, kind: str) -> tuple[Ceiling, ...]:
        return tuple(ceiling for ceiling in self.ceilings if ceiling.kind == kind)

    def bandwidth(self, flow: float = 0.0) -> Ceiling | None:
        """The lower of HBM and DMA; for a flow above it, the next that holds, for one core may draw on a whole stack.

        flow : bytes per second that were reached
        """
        roofs = [c for c in self.of_kind("memory") if c.id in ("hbm", "dma")]
        hbm = self.get("hbm")
        if hbm is not None and self.stack is not None and self.stack > hbm.value:
            roofs.append(replace(hbm, id="stack", name="HBM stack", value=self.stack, note="shared with other cores"))
        roofs.sort(key=lambda c: c.value)
        return next((c for c in roofs if flow <= c.value), roofs[-1] if roofs else None)


def machine(of: Trace | Device | str, cores: int | None = None) -> Machine:
    """The ceilings of a device, or of the device and cores that a trace ran on.

    cores : how many cores work together; a trace knows its own
    """
    if isinstance(of, Trace):
        return _of_trace(of, cores)
    table = device(of) if isinstance(of, str) else of
    return _of_device(table, cores or 1)


def device_of(trace: Trace) -> Device:
    """The device of a trace as its table has it. raises : InputError where the trace names none, or one not known"""
    if trace.meta.device in ("", UNKNOWN):
        raise InputError(f"{trace.meta.source}: does not name its device, and without one no figure is known")
    return device(trace.meta.device)


def rivals(names: Sequence[str]) -> tuple[Ceiling, ...]:
    """Dense roofs and memory roofs of GPUs, for comparison; all of a GPU against the cores of the trace.

    names  : `a100`, `H100`, or more of a GPU's name; of several sizes that fit, the one with the largest memory
    raises : InputError for a GPU that is not known
    """
    found = []
    for name in names:
        fitting = [gpu for gpu in gpus() if name.strip().lower() in gpu.name.lower()]
        if not name.strip() or not fitting:
            known = ", ".join(gpu.name for gpu in gpus())
            raise InputError(f"unknown GPU {name!r}", remedy=f"known: {known}")
        found += _rival(max(fitting, key=lambda gpu: gpu.hbm_bytes))
    return tuple(found)


def _rival(gpu: Gpu) -> Iterator[Ceiling]:
    id, source = gpu.name.partition(" ")[0], gpu.source
    dtype = "fp16" if "FP16" in gpu.note else "bf16"
    yield Ceiling(f"gpu.{id.lower()}.{dtype}", f"{id} {dtype}", gpu.bf16_flops, "FLOP/s", "compute", source, gpu.kind,
                  f"{gpu.name}, dense")  # fmt: skip
    yield Ceiling(
        f"gpu.{id.lower()}.hbm", f"{id} HBM", gpu.hbm_bytes_per_s, "B/s", "memory", source, gpu.kind, gpu.name
    )


def family(dtype: str | None) -> str | None:
    """The kind of arithmetic that decides TensorE's rate: float32, bfloat16 (all 16-bit and tf32), float8, int8, mx."""
    name = (dtype or "").lower()
    return next((kind for start, kind in _FAMILIES if name.startswith(start)), None)


def short(dtype: str | None) -> str:
    """How a chart names the arithmetic of a dtype: fp32, bf16, fp8, MX."""
    kind = family(dtype)
    return _SHORT[kind] if kind else (dtype or UNKNOWN)


def bf16_factor(dtype: str | None, device_name: str) -> float:
    """What one FLOP of this dtype counts in BF16 equivalents."""
    kind = family(dtype) or "bfloat16"
    if kind == "float8" and device_name in ("trn1", "inf2"):
        return 1.0
    return BF16_FACTORS[kind]


def working_cores(trace: Trace) -> int:
    """How many physical cores do work in the trace, at least one; a core that only runs control does none."""

    def find() -> Arrays:
        core = trace.instructions.core[~trace.instructions.control]
        return {"working": np.unique(core[core >= 0])}

    return max(1, trace.derive("working_cores", find)["working"].size)


def _of_trace(trace: Trace, cores: int | None) -> Machine:
    cores = cores or working_cores(trace)
    said = trace.meta.machine
    try:
        made = _of_device(device(trace.meta.device).replace(trace.meta.what_if), cores)
    except InputError:
        return _of_profile(trace.meta.device, said, cores)
    return _captured(made, said) if said else made


def _of_device(table: Device, cores: int) -> Machine:
    ceilings = (*_tensor_roofs(table, cores), *_element_roofs(table, cores), *_byte_roofs(table, cores))
    wire = table.get("dma_ddr_bandwidth") or _product(table, "dma_engines_nc", "dma_engine_theory")
    stacks = -(-cores // cores_a_stack(table))
    return Machine(
        device=table.name,
        title=table.title,
        cores=cores,
        ceilings=ceilings,
        wire=wire * GIGA * cores if wire else None,
        stack=hbm_bandwidth(table, stack=True) * stacks,
        figures=table,
    )


def cores_a_stack(table: Device) -> int:
    """Cores that draw on one HBM stack."""
    if "hbm_nc" not in table:
        return int(table["cores"])
    return max(1, round(hbm_bandwidth(table, stack=True) / hbm_bandwidth(table)))


def _tensor_roofs(table: Device, cores: int) -> Iterator[Ceiling]:
    """One roof for each distinct height; dtypes of equal height share the faster-named one."""
    for dtype in peak_dtypes(table):
        kind = family(dtype)
        if kind is None or dtype not in ("float32", "bfloat16", "float8_e4m3", "mxfp8"):
            continue
        value = peak_flops(table, dtype) * cores
        if kind == "float8" and value == peak_flops(table, "bfloat16") * cores:
            continue
        name = _SHORT[kind]
        source, basis = _origin(table, f"tf_{name.lower()}")
        yield Ceiling(f"tensor.{name.lower()}", f"TensorE {name}", value, "FLOP/s", "compute", source, basis,
                      _PEAK_NOTES.get(kind, ""))  # fmt: skip
    if peak_dtypes(table, sparse=True):
        source, basis = _origin(table, "tf_sparse")
        value = peak_flops(table, "bfloat16", sparse=True) * cores
        yield Ceiling("tensor.sparse", "TensorE 4:16 sparse", value, "FLOP/s", "compute", source, basis,
                      "counts the FLOPs of the dense product")  # fmt: skip


_PEAK_NOTES = {
    "bfloat16": "2 x rows x columns x clock; fp16 and tf32 run at this rate",
    "float32": "two passes of two cycles a column",
    "float8": "needs double-row mode",
    "mx": "MXFP8 and MXFP4",
}


def _element_roofs(table: Device, cores: int) -> Iterator[Ceiling]:
    """One element a lane and cycle; on newer cores some VectorE instructions take two or four."""
    for engine, name in _ENGINES:
        key = engine.name.lower()
        width, clock = table.get(f"{key}_elems"), table.get(f"clock_{key}")
        value = table.get(f"gelem_{key}") or (width * clock if width and clock else None)
        if value is None:
            continue
        source, basis = _origin(table, f"gelem_{key}" if f"gelem_{key}" in table else f"{key}_elems")
        yield Ceiling(key, name, value * GIGA * cores, "elem/s", "compute", source, basis,
                      "elements x instructions that pass over them, one element a lane and cycle")  # fmt: skip
        wide = table.get(f"{key}_elems_16")
        if key == "vector" and wide and clock and wide * clock > value:
            source, basis = _origin(table, "vector_elems_16")
            yield Ceiling("vector.16", "VectorE 4x mode", wide * clock * GIGA * cores, "elem/s", "compute", source,
                          basis, "16-bit copies and scalar operations between SBUF operands")  # fmt: skip


def _byte_roofs(table: Device, cores: int) -> Iterator[Ceiling]:
    source, basis = _origin(table, "hbm_nc" if "hbm_nc" in table else "hbm_bw")
    sharing = cores_a_stack(table)
    place = "a stack" if "hbm_nc" in table else "the chip"
    note = f"one core's share when all {sharing} cores of {place} are busy" if sharing > 1 else ""
    yield Ceiling("hbm", "HBM" if "hbm_nc" in table else "DRAM", hbm_bandwidth(table) * cores, "B/s", "memory", source,
                  basis, note)  # fmt: skip
    if "dma_engine_peak" in table and "dma_engines_nc" in table:
        source, basis = _origin(table, "dma_engine_peak")
        yield Ceiling("dma", "DMA", dma_bandwidth(table) * cores, "B/s", "memory", source, basis,
                      f"{table['dma_engines_nc']} DMA engines a core at the rate they sustain")  # fmt: skip
    if "neuronlink_bw" in table:
        source, basis = _origin(table, "neuronlink_bw")
        share = link_bandwidth(table) / table["cores"] * cores
        yield Ceiling(
            "link",
            "NeuronLink",
            share,
            "B/s",
            "network",
            source,
            "derived",
            "all links of a chip, divided among its cores",
        )


def _captured(made: Machine, said: Mapping[str, float]) -> Machine:
    """The machine with the figures that the profile itself gives."""
    ceilings = list(made.ceilings)
    clock, table = said.get("tensor_engine_clock_freq"), made.figures
    if clock and table is not None:
        ceilings = [_faster(c, clock / table["clock_tensor"]) if c.id.startswith("tensor.") else c for c in ceilings]
    stack = said.get("hbm_ddr_bandwidth")
    if stack and table is not None:
        share = stack / cores_a_stack(table) * made.cores
        ceilings = [_said(c, share, "hbm_ddr_bandwidth") if c.id == "hbm" else c for c in ceilings]
        made = replace(made, stack=stack * -(-made.cores // cores_a_stack(table)))
    wire = said.get("dma_ddr_bandwidth")
    if wire:
        made = replace(made, wire=wire * made.cores)
        rate = {"note": "the wire's rate; DMA engines sustain less"}
        ceilings = [
            replace(_said(c, wire * made.cores, "dma_ddr_bandwidth"), **rate) if c.id == "dma" else c for c in ceilings
        ]
    return replace(made, ceilings=tuple(ceilings))


def _of_profile(name: str, said: Mapping[str, float], cores: int) -> Machine:
    """What a profile of a device without a table says of itself; possibly nothing."""
    ceilings = []
    clock = said.get("tensor_engine_clock_freq")
    rows, columns = said.get("tensor_engine_num_rows", 128), said.get("tensor_engine_num_cols", 128)
    if clock:
        ceilings.append(_from_profile("tensor.bf16", "TensorE bf16", 2 * rows * columns * clock * GIGA * cores,
                                      "FLOP/s", "compute", "tensor_engine_clock_freq"))  # fmt: skip
    stack, wire = said.get("hbm_ddr_bandwidth"), said.get("dma_ddr_bandwidth")
    if stack:
        ceilings.append(_from_profile("hbm", "HBM stack", stack, "B/s", "memory", "hbm_ddr_bandwidth"))
    if wire:
        ceilings.append(_from_profile("dma", "DMA", wire * cores, "B/s", "memory", "dma_ddr_bandwidth"))
    title = name if name and name != UNKNOWN else "unknown device"
    return Machine(name or UNKNOWN, title, cores, tuple(ceilings), wire * cores if wire else None, stack)


def _from_profile(id: str, name: str, value: float, unit: str, kind: str, metadata: str) -> Ceiling:
    return Ceiling(id, name, value, unit, kind, f"the profile's {metadata}", "captured")


def _faster(ceiling: Ceiling, factor: float) -> Ceiling:
    if abs(factor - 1) < 1e-9:
        return ceiling
    return _said(ceiling, ceiling.value * factor, "tensor_engine_clock_freq")


def _said(ceiling: Ceiling, value: float, metadata: str) -> Ceiling:
    return replace(ceiling, value=value, source=f"the profile's {metadata}", basis="captured")


def _origin(table: Device, id: str) -> tuple[str, str]:
    if id not in table:
        return "2 x rows x columns x clock", "derived"
    figure = table.figure(id)
    return figure.source, figure.kind


def _product(table: Device, first: str, second: str) -> float | None:
    return table[first] * table[second] if first in table and second in table else None

"""Device tables: every number of a Neuron device with its unit, source, kind and spread.

The numbers lie in `sim/devices`. A what-if is a device with other numbers. The functions at the end turn figures
into the peaks and bandwidths of a roofline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError
from sim.figures import Figure, catalogue, load, read, read_device, spelled

if TYPE_CHECKING:
    from sim.trace import Engine

NAMES = ("inf1", "trn1", "inf2", "trn2", "trn3")
"""Oldest first."""

COST_UNITS = frozenset(("ns", "us", "us/hop", "cycles"))
"""A cost may be set to zero in a what-if; a rate or a size may not."""

GIGA = 1e9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Device:
    """One Neuron device: `device["clock_tensor"]` is the value of a figure."""

    name: str
    title: str
    neuroncore: str
    generation: int
    validated: bool
    """Estimates for it were compared with measurements."""
    emulated: bool
    """False: there are enough figures for a roofline only."""
    figures: Mapping[str, Figure]

    def figure(self, id: str) -> Figure:
        """The figure of that id; InputError when this device has none."""
        found = self.figures.get(id)
        if found is None:
            raise InputError(f"{self.name} has no figure {id!r}", remedy=_nearest(id, self.figures))
        return found

    def get(self, id: str) -> float | int | None:
        """The value, None when this device has no such figure."""
        found = self.figures.get(id)
        return None if found is None else found.value

    def __getitem__(self, id: str) -> float | int:
        return self.figure(id).value

    def __contains__(self, id: object) -> bool:
        return id in self.figures

    def __repr__(self) -> str:
        return f"<Device {self.name}>"

    def replace(self, changes: Mapping[str, float | int | str] | None = None, /, **more: float | int | str) -> Device:
        """This device with other values: a number, or a factor such as "2x".

        Figures that physically move with a changed one (`follows` in figures.json) are scaled along, unless they are
        changed themselves. InputError for an unknown figure or an impossible value.
        """
        asked = {**(changes or {}), **more}
        values = {id: _changed(self.name, self.figure(id), change) for id, change in asked.items()}
        figures = dict(self.figures)
        for id, value in values.items():
            figures[id] = _what_if(figures[id], value, f"what-if: set to {asked[id]}")
        for id, factor, roots in _followers(self, values):
            figures[id] = _what_if(figures[id], _scaled(figures[id].value, factor), f"what-if: moves with {roots}")
        roof = _bandwidth_roof(figures)
        if "roof_bw_nc" not in values and roof != _bandwidth_roof(self.figures):
            figures["roof_bw_nc"] = _what_if(figures["roof_bw_nc"], roof, "what-if: the lower of DMA and memory")
        return replace(self, figures=figures)

    @property
    def supposed(self) -> dict[str, float]:
        """Figures that a what-if has set or moved."""
        return {id: figure.value for id, figure in self.figures.items() if figure.kind == "what-if"}

    def with_figures(self, figures: Mapping[str, Figure], title: str = "") -> Device:
        """This device with other figures in place of its own; nothing moves along."""
        return replace(self, figures={**self.figures, **figures}, title=title or self.title)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU to compare rooflines with."""

    name: str
    bf16_flops: float
    """Dense peak, FLOP/s; V100: FP16."""
    fp8_flops: float | None
    hbm_bytes: int
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float
    """Both directions."""
    kind: str
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A size that can be rented, or an UltraServer of several."""

    name: str
    device: str
    chips: int
    neuroncores: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    vcpus: int | None
    host_bytes: int | None
    neuronlink: str
    """As published; empty for a single chip."""
    topology: str
    efa_gbps: float | None
    """Gbit/s."""
    kind: str
    source: str
    note: str = ""


def device(name: str | Device) -> Device:
    """The device of that name, alias, NeuronCore, instance size or device file; InputError that lists the names else.

    A device file (`….json`, as `trnprof calibrate` writes it) changes figures of a device and keeps its name.
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, str) and name.endswith(".json"):
        return _from_file(Path(name))
    key = name.partition("(")[0].strip().lower() if isinstance(name, str) else ""
    known = _aliases()
    found = known.get(key) or known.get(key.partition(".")[0])
    if found is None:
        raise InputError(f"unknown device {name!r}", remedy=f"known: {', '.join(NAMES)}")
    return _load(found)


def devices() -> tuple[Device, ...]:
    """All devices, oldest first."""
    return tuple(_load(name) for name in NAMES)


def rows(device: Device) -> list[tuple[str, Figure]]:
    """(group, figure) pairs in printing order."""
    return [(entry.group, device.figures[id]) for id, entry in catalogue().items() if id in device]


@cache
def gpus() -> tuple[Gpu, ...]:
    """Comparison GPUs, oldest first."""
    return tuple(_gpu(record) for record in read("gpus"))


@cache
def instances() -> tuple[Instance, ...]:
    """Instance sizes and UltraServers; memory and bandwidth are those of their chips."""
    return tuple(_instance(record) for record in read("instances"))


RATE_FIGURES = {"tfloat32": "pe.rate_tf32", "float8": "pe.rate_fp8", "mx": "pe.rate_mx", "int8": "pe.rate_int8"}
"""The figure that gives the rate of a kind of arithmetic against bf16."""

SPARSE_FIGURES = dict.fromkeys(("bfloat16", "float16", "tfloat32"), "pe.rate_sparse") | {"float8": "pe.rate_sparse_fp8"}

SHORT_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "tf32": "tfloat32",
    "fp32": "float32",
    "fp8": "float8",
    "cfp8": "float8",
    "mxfp8": "mx",
    "mxfp4": "mx",
}


def peak_flops(device: Device, dtype: str, sparse: bool = False) -> float:
    """Peak of one core's TensorE in FLOP/s.

    bf16 is 2 x rows x columns x clock, the peak that AWS's profiler uses; the marketing pages are 3-15 % above it.
    fp32 takes `pe.passes_fp32` passes of `pe.cycles_per_column_fp32` cycles. Other dtypes are multiples of bf16.
    Inferentia1, whose array and clock are guesses, has its documented bf16 peak.
    dtype : float32, tfloat32, bfloat16, float16, float8_*, mxfp8, mxfp4, int8, or their short names
    sparse : the stationary matrix is 4:16 sparse
    raises : InputError for a dtype that the device's TensorE does not have
    """
    rate = _rate(device, dtype, sparse)
    if rate is None:
        what = f"sparse {dtype}" if sparse else dtype
        raise InputError(f"{device.name}: TensorE has no peak for {what}", remedy=_peaks(device))
    return rate * _bf16_peak(device)


def peak_dtypes(device: Device, sparse: bool = False) -> tuple[str, ...]:
    """The dtypes that `peak_flops` knows on this device: one name for each distinct kind of arithmetic."""
    names = ("float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "mxfp8", "int8")
    return tuple(name for name in names if _rate(device, name, sparse) is not None)


def element_rate(device: Device, engine: Engine | str, dtype16bit: bool) -> float:
    """Elements per second that VectorE, ScalarE or GpSimdE of one core can stream: documented width x clock.

    The 16-bit width of VectorE holds for contiguous SBUF operands only (its 4x mode).
    raises : InputError for an engine without a data path, or a device without the figure
    """
    name = (engine if isinstance(engine, str) else engine.name).lower()
    if name not in ("vector", "scalar", "gpsimd"):
        raise InputError(f"{name} has no element rate", remedy="vector, scalar or gpsimd")
    wide = {"gpsimd": "gpsimd_elems"}.get(name, f"{name}_elems_32")
    return device[f"{name}_elems_16" if dtype16bit else wide] * device[f"clock_{name}"] * GIGA


def dma_bandwidth(device: Device) -> float:
    """Bytes per second that the DMA engines of one core sustain: engines x the guide's peak of one engine.

    AWS's profiler counts with the higher wire rate, figure `dma_ddr_bandwidth`. InputError on Inferentia1.
    """
    return device["dma_engines_nc"] * device["dma_engine_peak"] * GIGA


def hbm_bandwidth(device: Device, stack: bool = False) -> float:
    """Bytes per second of device memory: one core's share, or the whole stack that it is attached to.

    stack : what one core could draw alone, and what AWS's profiler divides by (716 GB/s on Trn2, ridge 109.84);
            its own rounding `hbm_ddr_bandwidth` where known, else `hbm.stack_bw`
    Inferentia1 has DRAM without stacks: a quarter of the chip's, or all of it.
    """
    if "hbm_nc" not in device:
        return device["hbm_bw"] * GIGA / (1 if stack else device["cores"])
    if not stack:
        return device["hbm_nc"] * GIGA
    return device["hbm_ddr_bandwidth" if "hbm_ddr_bandwidth" in device else "hbm.stack_bw"] * GIGA


def link_bandwidth(device: Device) -> float:
    """Bytes per second of all NeuronLinks of one chip together, as published."""
    return device["neuronlink_bw"] * GIGA


def _bf16_peak(device: Device) -> float:
    if device.figure("clock_tensor").kind == "guess":
        return device["tf_bf16"] * 1e12
    return 2 * device["pe_rows"] * device["pe_cols"] * device["clock_tensor"] * GIGA


def _rate(device: Device, dtype: str, sparse: bool) -> float | None:
    """The rate of a dtype against dense bf16, None where TensorE does not have it."""
    name = SHORT_DTYPES.get(dtype.lower(), dtype.lower())
    family = "mx" if name.endswith("_x4") else "float8" if name.startswith("float8") else name
    if sparse:
        return device.get(SPARSE_FIGURES.get(family, ""))
    if family in ("bfloat16", "float16"):
        return 1.0
    if family == "float32":
        passes, cycles = device.get("pe.passes_fp32"), device.get("pe.cycles_per_column_fp32")
        return None if passes is None or cycles is None else 1 / (passes * cycles)
    return device.get(RATE_FIGURES.get(family, ""))


def _peaks(device: Device) -> str:
    sparse = peak_dtypes(device, sparse=True)
    return f"it has {', '.join(peak_dtypes(device))}" + (f"; sparse {', '.join(sparse)}" if sparse else "")


def _changed(name: str, figure: Figure, change: float | int | str) -> float | int:
    """The value that a what-if asks for."""
    text = str(change).strip().lower()
    try:
        number = float(text.removesuffix("x"))
    except ValueError:
        number = math.nan
    value = _scaled(figure.value, number) if text.endswith("x") else _tidy(number, figure.value)
    if not 0 <= value < math.inf or (value == 0 and figure.unit not in COST_UNITS):
        limit = f'a number in {figure.unit} or a factor such as "2x"'
        raise InputError(f"{name}: {figure.id} cannot be {change!r}", remedy=limit)
    return value


def _scaled(value: float | int, factor: float) -> float | int:
    return _tidy(value * factor, value)


def _tidy(number: float, like: float | int) -> float | int:
    """Counts stay ints."""
    return int(number) if isinstance(like, int) and float(number).is_integer() else number


def _what_if(figure: Figure, value: float | int, source: str) -> Figure:
    if value == figure.value:
        return figure
    was = f"was {figure.value:g} {figure.unit} ({figure.kind})"
    return replace(figure, value=value, kind="what-if", source=source, spread=None, note=was)


def _followers(device: Device, values: Mapping[str, float | int]) -> Iterator[tuple[str, float, str]]:
    """(id, factor, roots) of the figures that move with the changed ones; "/root" moves inversely."""
    for id, entry in catalogue().items():
        if id not in device or id in values:
            continue
        roots = [root for root in entry.follows if root.removeprefix("/") in values]
        factor = 1.0
        for root in roots:
            name = root.removeprefix("/")
            ratio = values[name] / device[name]
            factor = factor / ratio if root.startswith("/") else factor * ratio
        if factor != 1.0:
            yield id, factor, ", ".join(root.removeprefix("/") for root in roots)


def _bandwidth_roof(figures: Mapping[str, Figure]) -> float:
    """The lower of DMA and memory per core, GB/s."""
    if "hbm_nc" in figures:
        return min(figures["dma_core_peak"].value, figures["hbm_nc"].value)
    return figures["hbm_bw"].value / figures["cores"].value


@cache
def _load(name: str) -> Device:
    fields, figures = load(name)
    kept = ("title", "neuroncore", "generation", "validated", "emulated")
    return Device(name=name, figures=figures, **{field: fields[field] for field in kept})


def _from_file(path: Path) -> Device:
    base, title, figures = read_device(path)
    found = device(base)
    unknown = [id for id in figures if id not in found]
    if unknown:
        raise InputError(
            f"{path}: {found.name} has no figure {unknown[0]!r}", remedy=_nearest(unknown[0], found.figures)
        )
    return found.with_figures(figures, title)


def _gpu(record: Mapping[str, Any]) -> Gpu:
    fp8 = record["fp8_tflops"]
    return Gpu(
        name=record["name"],
        bf16_flops=record["bf16_tflops"] * 1e12,
        fp8_flops=None if fp8 is None else fp8 * 1e12,
        hbm_bytes=int(record["hbm_gb"] * GIGA),
        hbm_bytes_per_s=record["hbm_gb_s"] * GIGA,
        nvlink_bytes_per_s=record["nvlink_gb_s"] * GIGA,
        kind=record["kind"],
        source=spelled(record["source"]),
        note=record["note"],
    )


def _instance(record: Mapping[str, Any]) -> Instance:
    chip, chips, host = _load(record["device"]), record["chips"], record["host_gib"]
    return Instance(
        name=record["name"],
        device=record["device"],
        chips=chips,
        neuroncores=chips * int(chip["cores"]),
        hbm_bytes=chips * int(chip["hbm_bytes"]) << 30,
        hbm_bytes_per_s=chips * chip["hbm_bw"] * GIGA,
        vcpus=record["vcpus"],
        host_bytes=None if host is None else host << 30,
        neuronlink=record["neuronlink"],
        topology=record["topology"],
        efa_gbps=record["efa_gbps"],
        kind=record["kind"],
        source=spelled(record["source"]),
        note=record["note"],
    )


@cache
def _aliases() -> dict[str, str]:
    """Every name that a device answers to, in lower case."""
    known = {record["name"].lower(): record["device"] for record in read("instances")}
    for name in NAMES:
        known |= dict.fromkeys((name, *read(name)["aliases"]), name)
    return known


def _nearest(id: str, known: Mapping[str, Figure]) -> str | None:
    from difflib import get_close_matches

    matches = get_close_matches(id, known, n=3)
    return f"nearest: {', '.join(matches)}" if matches else None

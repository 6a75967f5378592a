"""How long an instruction takes: the few laws that all of them follow, in integer picoseconds.

    occupancy = elements x cycles / clock + issue overhead        until the engine takes its next instruction
    latency   = elements x cycles / clock + pipeline latency      until the result is visible

Every figure comes from the device tables (`sim.spec`), which say where it is from. What differs from call to call is
cycles an element; `CYCLES` has those that the documents print and the device tables do not.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sim import dtypes
from sim.memory import PARTITIONS, Layout
from sim.program import Cost, DmaCost, Form, Role
from sim.spec import Device
from sim.trace import NONE, Engine, Memory, QueueType

PS = 1000
"""Picoseconds in a nanosecond."""

SBUF_PORT, PSUM_PORT = 1, 2
SHARED_PORTS = {
    Engine.VECTOR: {Memory.SBUF: SBUF_PORT, Memory.PSUM: PSUM_PORT},
    Engine.GPSIMD: {Memory.SBUF: SBUF_PORT},
    Engine.SCALAR: {Memory.PSUM: PSUM_PORT},
}
"""NeuronCore-v2 (trainium_inferentia2_arch): Vector and GpSimd share SBUF, Vector and Scalar share PSUM."""
SHARING_GENERATION = 2

CYCLES: dict[str, Fraction] = {
    "bn_aggr": Fraction(13, 3),
    "exponential": Fraction(1, 4),
    "quantize_mx": Fraction(1, 4),
    "rand2": Fraction(1, 4),
    "nonzero_with_count": Fraction(4),
    "sequence_bounds": Fraction(4),
    "tensor_copy_predicated": Fraction(2),
    "scalar_tensor_tensor": Fraction(2),
    "reduce_16bit": Fraction(1, 2),
    "memset_zero_16bit": Fraction(1, 2),
}
"""Engine cycles an element. v2.26.1 instruction reference: bn_aggr, tensor_copy_predicated, scalar_tensor_tensor (both
on v2), reduce_16bit, memset_zero_16bit. trainium3_arch: exponential, quantize_mx, rand2. The others are guesses."""


def ns(value: float) -> int:
    return round(value * PS)


def cycles(device: Device, clock: str, count: float | Fraction) -> int:
    return round(float(count) * PS / device[clock])


def wide(layout: Layout) -> bool:
    """Whether elements are wider than the 16 bits that the perf modes of the Vector Engine need."""
    return layout.itemsize > dtypes.bfloat16.itemsize


def contiguous(layout: Layout) -> bool:
    return layout.innermost_stride == layout.itemsize


def strided(device: Device, layouts: tuple[Layout, ...]) -> int:
    """2 when an operand's innermost stride halves the port's rate, else 1."""
    limit = device["stride_penalty_bytes"]
    return 2 if any(layout.innermost_stride > max(limit, layout.itemsize) for layout in layouts) else 1


def ports(device: Device, engine: Engine, layouts: tuple[Layout, ...]) -> int:
    """Shared ports that the operands go through; later generations share none."""
    if device.generation > SHARING_GENERATION:
        return 0
    shared = SHARED_PORTS.get(engine, {})
    held = 0
    for layout in layouts:
        held |= shared.get(layout.memory, 0)
    return held


def vector(
    device: Device,
    layouts: tuple[Layout, ...],
    elements: int,
    per_element: float | Fraction = 1,
    fixed: str = "",
    columns: bool = False,
) -> Cost:
    """An instruction on the Vector Engine.

    per_element : cycles an element in each lane
    fixed       : figure of the latency beyond streaming; by default that of the source's memory
    columns     : numbers that it works with are tiles, which are read first
    """
    streaming = elements * per_element * strided(device, layouts)
    from_psum = any(layout.memory is Memory.PSUM for layout in layouts[1:])
    latency = fixed or ("dve.lat_psum" if from_psum else "dve.lat_sbuf")
    busy = max(device["min_ii_cycles"], streaming + device["dve.issue_ovh"])
    first = ns(device["dve.operand_tensor"]) if columns else 0
    return Cost(
        occupancy_ps=cycles(device, "clock_vector", busy) + first,
        latency_ps=cycles(device, "clock_vector", streaming) + ns(device[latency]) + first,
        port=ports(device, Engine.VECTOR, layouts),
    )


def copy_rate(device: Device, dst: Layout, src: Layout) -> float:
    """Elements a lane and cycle of VectorE's tensor_copy and tensor_scalar (perf modes of trainium2_arch).

    Both in SBUF: four of 16 bits when contiguous, two when strided, two of fp32. PSUM: two of 16 bits, one of fp32.
    """
    one = min(1, device["dve.rate_copy_fp32"])
    in_sbuf = dst.memory is Memory.SBUF and src.memory is Memory.SBUF
    if wide(dst) or wide(src):
        return device["dve.rate_copy_fp32"] if in_sbuf else one
    if not in_sbuf or not (contiguous(dst) and contiguous(src)):
        return min(device["dve.rate_copy_fp32"], device["dve.rate_copy_bf16"])
    return device["dve.rate_copy_bf16"]


def scalar(
    device: Device, layouts: tuple[Layout, ...], elements: int, copies: bool, columns: bool = False, table: int = NONE
) -> Cost:
    """An instruction on the Scalar Engine: one element a lane and cycle.

    copies  : no function is applied
    columns : bias or scale is a tile; from SBUF it is read through the port that the data come through
    """
    streaming = cycles(device, "clock_scalar", elements * strided(device, layouts))
    from_psum = layouts[1].memory is Memory.PSUM
    kind = ("act.lat_copy", "act.lat_copy_sbuf") if copies else ("act.lat_nonlinear_psum", "act.lat_nonlinear")
    first = ns(device["act.operand_tensor"]) if columns else 0
    behind = ns(device["act.operand_sbuf"]) if columns and not from_psum else 0
    shortest = cycles(device, "clock_scalar", device["min_ii_cycles"])
    return Cost(
        occupancy_ps=max(shortest, streaming + ns(device["act.issue_ovh"])) + first + behind,
        latency_ps=streaming + ns(device[kind[not from_psum]]) + (first if copies else 0),
        table=table,
        port=ports(device, Engine.SCALAR, layouts),
    )


def gpsimd(device: Device, layouts: tuple[Layout, ...], streaming: float | Fraction) -> Cost:
    """An instruction on GpSimd: its start-up, then `streaming` cycles."""
    running = cycles(device, "clock_gpsimd", streaming * strided(device, layouts))
    return Cost(
        occupancy_ps=running + cycles(device, "clock_gpsimd", device["gp.start"]),
        latency_ps=running + ns(device["gp.lat"]),
        port=ports(device, Engine.GPSIMD, layouts),
    )


def sequencer(device: Device) -> Cost:
    """An instruction that moves a register and touches no data path."""
    return Cost(ns(device["seq.move"]), ns(device["seq.move"]))


def form(
    call: str,
    engine: Engine,
    opcode: str,
    roles: tuple[Role, ...],
    layouts: tuple[Layout, ...],
    cost: Cost,
    function: str = "",
    elements: int = 0,
    dma: DmaCost | None = None,
) -> Form:
    """The form of an instruction that is not a matmul; sizes are those of its first input, else of its result."""
    data = next((layout for layout, role in zip(layouts, roles, strict=True) if role is Role.READ), layouts[0])
    return Form(
        call=f"nki.isa.{call}",
        engine=engine,
        opcode=opcode,
        roles=roles,
        layouts=layouts,
        cost=cost,
        dma=dma,
        function=function.upper(),
        dtype=dtypes.short(data.dtype),
        partitions=max(layout.partitions for layout in layouts),
        elements=elements or data.elements,
    )


# -- TensorE's clock ------------------------------------------------------------------------------


def at_clock(cost: Cost, share: float) -> Cost:
    """The cost while TensorE's clock runs at a share of its full rate: what streams stretches, the latency does not."""
    if share == 1 or not cost.clocked:
        return cost
    slow = round((cost.occupancy_ps - cost.gap_ps) / share)
    return replace(
        cost,
        occupancy_ps=slow,
        latency_ps=slow + cost.latency_ps - cost.occupancy_ps,
        weights_ps=round(cost.weights_ps / share),
        tail_ps=round(cost.tail_ps / share),
        gap_ps=0,
    )


def ahead(device: Device, share: float) -> int:
    """How long before it streams a MATMUL behind another is shown as started, at a share of the full clock."""
    cold, lowest = device.get("pe.lat_cold") or device["pe.lat"], device.get("pe.clock_cold") or 1
    grows = max(0, ns(cold - device["pe.lat"])) / (1 / lowest - 1) if lowest < 1 else 0
    return round(grows * (1 / share - 1))


def load_duration(device: Device, load_ps: int, share: float) -> int:
    """LDWEIGHTS: a slower clock stretches what grows with the columns, not the fixed part."""
    fixed = ns(device["pe.load_fixed"])
    return fixed + round((load_ps - fixed) / share)


# -- DMA -------------------------------------------------------------------------------------------


QUEUES = {
    ("static", Engine.SYNC): ("qSyncIO0", QueueType.DATA),
    ("static", Engine.SCALAR): ("qScalarIO0", QueueType.DATA),
    ("static", Engine.GPSIMD): ("qGpSimdIO0", QueueType.DATA),
    ("hw", Engine.SYNC): ("qSyncDynamicHW", QueueType.HARDWARE_DYNAMIC),
    ("hw", Engine.SCALAR): ("qScalarDynamicHW", QueueType.HARDWARE_DYNAMIC),
    ("sw", Engine.GPSIMD): ("qGpSimdDynamic", QueueType.SOFTWARE_DYNAMIC),
}
"""Queue names as real profiles write them."""


def runs(total: int, one: int, other: int) -> int:
    """Pieces of `total` elements that are contiguous on both sides, whose runs are `one` and `other` elements."""
    from math import lcm

    one, other = min(one, total), min(other, total)
    return -(-total // one) + -(-total // other) - -(-total // lcm(one, other))


def descriptors(dst: Layout, src: Layout) -> int:
    """DMA elements: runs of bytes without a hole on either side, so at least one for each partition row."""
    total = src.nbytes // src.itemsize
    return runs(total, dst.contiguous_bytes // dst.itemsize, src.contiguous_bytes // src.itemsize)


def dma_engines(device: Device, *layouts: Layout) -> int:
    """Engine e moves partitions 8e to 8e + 7; between HBM tensors the bytes are dealt out in packets."""
    engines = int(device["dma_engines_nc"])
    partitions = max(layout.partitions for layout in layouts)
    if partitions:
        return -(-partitions // (PARTITIONS // engines))
    return max(1, min(engines, -(-layouts[0].nbytes // int(device["dma.packet"]))))


def piece_ns(device: Device, moved: int, pieces: int, stores: bool, efficiency: float = 1) -> float:
    """How long one DMA engine takes for its part of a transfer, ns."""
    rate = device["dma.bw_write" if stores else "dma.bw_read"] * efficiency
    return moved / rate + pieces * device["dma.desc_ovh"]


def dma(
    device: Device,
    dst: Layout,
    srcs: tuple[Layout, ...],
    trigger: tuple[str, Engine],
    pieces: int,
    efficiency: float = 1,
) -> tuple[Cost, DmaCost]:
    """A transfer: what it costs the engine that triggers it, and the DMA engines.

    trigger    : ("static" | "hw" | "sw", engine)
    pieces     : descriptors
    efficiency : share of the DMA bandwidth that the kind of transfer reaches
    """
    kind, _ = trigger
    loads = all(src.memory is Memory.HBM for src in srcs)
    stores = dst.memory is Memory.HBM and not loads
    direction = "store" if stores else "load"
    moved = max(dst.nbytes, sum(src.nbytes for src in srcs))
    engines = dma_engines(device, dst, *srcs)
    each = piece_ns(device, -(-moved // engines), -(-pieces // engines), stores, efficiency)
    in_hbm = sum(layout.nbytes for layout in (dst, *srcs) if layout.memory is Memory.HBM)
    queue, queue_type = QUEUES[trigger]
    issue = ns(device[f"dma.issue_{kind}"])
    writing = max(0, ns(device["dma.sw_wake"]) - issue) if kind == "sw" else 0
    return Cost(issue, issue), DmaCost(
        dispatch_ps=writing + ns(device[f"dma.dispatch_{direction}"] + device[f"dma.stagger_{direction}"]),
        notify_ps=ns(device[f"dma.notify_{direction}"]),
        service_ps=ns(each),
        hbm_ps=ns(in_hbm / device["hbm_nc"]),
        engines=engines,
        bytes=moved,
        descriptors=pieces,
        queue=queue,
        queue_type=queue_type,
    )

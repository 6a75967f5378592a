from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, UsageError
from trnprof.commands.arguments import share
from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    import numpy as np

    from sim.arrivals import Slow
    from sim.collectives import Exchange
    from sim.fabrics import Fabric, Group
    from sim.overlap import Overlap

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
PICOSECONDS = {"ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
DTYPES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "uint8": 1, "int8": 1, "int32": 4}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="all-reduce, all-gather, reduce-scatter, all-to-all, permute, …")
    parser.add_argument(
        "--size", action="append", metavar="BYTES", help="64MiB; several, or 1KiB..1GiB for every fourfold, as a table"
    )
    parser.add_argument("--device", default="trn2", metavar="D", help="trn1, inf2, trn2, trn2u (UltraServer), trn3, …")
    parser.add_argument("--chips", type=int, metavar="N", help="chips that are joined; one instance if not given")
    parser.add_argument("--lnc", type=int, metavar="N", help="cores of a rank; 2 from Trn2 on")
    parser.add_argument("--group", metavar="SIZE[/STRIDE]", help="ranks that take part, side by side or STRIDE apart")
    parser.add_argument("--busy", action="store_true", help="the other ranks do the same in groups of their own")
    parser.add_argument("--algorithm", metavar="A", help="mesh, rdh, kangaring, ring; A+B: inside nodes and between")
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument(
        "--skew", action="append", default=[], metavar="T", help="ranks come late: 50us at random (mean), or RANK=2ms"
    )
    parser.add_argument(
        "--slow-link", action="append", default=[], metavar="[LEVEL:]RANK=SHARE",
        help="links of a rank's chip that have a part of their rate: 5=50%%, efa:5=0.25, memory:5=0.8",
    )  # fmt: skip
    parser.add_argument(
        "--beside", metavar="T[:SHARE]", help="work that runs meanwhile, and its share of HBM: 2ms:40%%"
    )
    parser.add_argument("--runtime", default="current", metavar="R", help="release whose constants are taken")
    parser.add_argument("--seed", type=int, default=0, help="of the random --skew")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Time a collective over chips, by the runtime's own choice of algorithm.

    trnprof collective all-reduce --size 64MiB --device trn2 --chips 64
    trnprof collective all-gather --size 1KiB..1GiB --device trn2u --chips 262144
    trnprof collective all-reduce --size 1GiB --device trn2u --chips 262144 --skew 50us --slow-link efa:5=50%

    The size is that of the whole buffer: of an all-gather the result, of a reduce-scatter the source.
    """
    from sim.collectives import exchange
    from sim.fabrics import between, fabric, members

    made = fabric(args.device, args.chips, args.lnc, args.runtime)
    group = _group(args.group, args.busy, made)
    slow, skew = [_slow(text) for text in args.slow_link], _skew(args, members(made, group))
    kind, element, work = args.kind.replace("-", "_"), DTYPES[args.dtype], _work(args.beside)

    def timed(size: int, where: Fabric) -> Exchange:
        return exchange(kind, size, where, group, args.algorithm, skew, slow=slow, element_bytes=element)

    sizes = _sizes(args.size or ["32MiB"])
    found = [timed(size, made) for size in sizes]
    if len(found) > 1:
        emit_json([to_json(each, made, work) for each in found]) if args.json else emit(_many(found, made))
        return
    interval = between(lambda where: timed(sizes[0], where).duration_ps, made) if skew is None else None
    if args.json:
        emit_json(to_json(found[0], made, work, interval))
    else:
        emit(_one(found[0], made, work, interval))


def to_json(
    found: Exchange, made: Fabric, work: tuple[float, float] | None = None, interval: tuple[float, float] | None = None
) -> dict[str, Any]:
    """What a collective took; times in ns, as everywhere in JSON."""
    more: dict[str, Any] = {}
    if interval is not None:
        more["interval_ns"] = [end / 1e3 for end in interval]
    if work is not None:
        pair = _beside(found, work)
        more["beside"] = {
            "work_ns": work[0] / 1e3,
            "total_ns": pair.total_ps / 1e3,
            "exposed_ns": pair.exposed_ps / 1e3,
            "slowed_ns": (pair.work_ps - work[0]) / 1e3,
        }
    return more | {
        "kind": found.kind,
        "size_bytes": found.size_bytes,
        "ranks": found.ranks,
        "fabric": made.name,
        "device": made.device.name,
        "chips": made.chips,
        "lnc": made.lnc,
        "algorithm": found.algorithm,
        "steps": found.steps,
        "duration_ns": found.duration_ps / 1e3,
        "start_ns": found.start_ps / 1e3,
        "late_ns": found.late_ps / 1e3,
        "algorithm_bytes_per_s": _flow(found, 1.0),
        "bus_bytes_per_s": _flow(found, _bus(found)),
        "bytes_on_wire": found.bytes_on_wire,
        "memory_bytes": found.memory_bytes,
        "memory_share": found.memory_share,
        "dma_share": found.dma_share,
        "links": [
            {"level": use.level, "bytes": use.bytes, "busy_ns": use.busy_ps / 1e3, "share": use.share}
            for use in found.links
        ],
        "stages": [
            {
                "kind": stage.kind,
                "level": stage.level,
                "algorithm": stage.algorithm,
                "members": stage.members,
                "steps": stage.load.steps,
                "hops_ns": stage.hops_ps / 1e3,
                "link_ns": stage.link_ps / 1e3,
                "memory_ns": stage.memory_ps / 1e3,
            }
            for stage in found.stages
        ],
    }


def _bus(found: Exchange) -> float:
    """nccom-test's factor from algorithm to bus bandwidth."""
    return found.bytes_on_wire / found.size_bytes if found.size_bytes else 0.0


def _flow(found: Exchange, factor: float) -> float | None:
    return found.size_bytes * factor / found.duration_ps * 1e12 if found.duration_ps else None


def _work(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    time, _, part = text.partition(":")
    try:
        return _picoseconds("--beside", time), share(part) if part else 0.0
    except ArgumentTypeError as fault:
        raise UsageError(f"--beside {text}: {fault}") from None


def _beside(found: Exchange, work: tuple[float, float]) -> Overlap:
    from sim.overlap import beside

    return beside(round(work[0]), work[1], found)


def _facts(
    found: Exchange, work: tuple[float, float] | None, interval: tuple[float, float] | None
) -> Iterator[tuple[str, str, str]]:
    from trnprof import words

    inside = (
        "" if interval is None else f", {words.time(interval[0])} to {words.time(interval[1])} by what is uncertain"
    )
    steps = f"{found.algorithm}, {words.count(found.steps)} steps{inside}"
    yield "time", words.estimate(words.time(found.duration_ps)), steps
    if found.late_ps:
        yield "late", words.estimate(words.time(found.late_ps)), "of it, by late ranks and slow links"
    if work is not None:
        pair = _beside(found, work)
        slowed = words.estimate(words.time(pair.work_ps - work[0]))
        yield (
            "exposed",
            words.estimate(words.time(pair.exposed_ps)),
            f"after work of {words.time(work[0])}, slowed {slowed}",
        )
    yield "start", words.estimate(words.time(found.start_ps)), "before the first byte, as far as it is not hidden"
    yield "bus", words.estimate(words.rate(_flow(found, _bus(found)))), "as nccom-test counts it"
    engines = words.estimate(words.share(found.dma_share))
    moved = f"of a rank's HBM bandwidth: {words.size(found.memory_bytes)}; {engines} of its DMA engines"
    yield "memory", words.estimate(words.share(found.memory_share)), moved


def _one(found: Exchange, made: Fabric, work: tuple[float, float] | None, interval: tuple[float, float] | None) -> str:
    from trnprof import words

    head = f"{found.kind.replace('_', '-')} of {words.size(found.size_bytes)} over {words.count(found.ranks)} ranks"
    lines = [f"{head}, {words.count(made.chips)} chips: {made.title}"]
    lines.append(columns(list(_facts(found, work, interval)), frozenset((1,)), indent="  "))
    stages = [("stage", "level", "algorithm", "members", "steps", "hops", "links", "memory", "")]
    for stage in found.stages:
        times = (words.time(each) for each in (stage.hops_ps, stage.link_ps, stage.memory_ps))
        parts = {"hops": stage.hops_ps, "links": stage.link_ps, "memory": stage.memory_ps}
        counts = (words.count(stage.members), words.count(stage.load.steps))
        name = (stage.kind.replace("_", "-"), stage.level, stage.algorithm)
        stages.append((*name, *counts, *map(words.estimate, times), f"mostly {max(parts, key=parts.get)}"))
    return "\n".join([*lines, "", columns(stages, frozenset(range(3, 8)), indent="  ")])


def _many(found: list[Exchange], made: Fabric) -> str:
    from trnprof import words

    rows = [("size", "time", "algorithm bandwidth", "bus bandwidth", "algorithm", "steps")]
    for each in found:
        flows = (words.estimate(words.rate(_flow(each, factor))) for factor in (1.0, _bus(each)))
        time = words.estimate(words.time(each.duration_ps))
        rows.append((words.size(each.size_bytes), time, *flows, each.algorithm, words.count(each.steps)))
    head = (
        f"{found[0].kind.replace('_', '-')} over {words.count(found[0].ranks)} ranks, {words.count(made.chips)} chips"
    )
    return f"{head}: {made.title}\n" + columns(rows, frozenset((0, 1, 2, 3, 5)), indent="  ")


def _sizes(texts: list[str]) -> list[int]:
    found = []
    for text in texts:
        first, dots, last = text.partition("..")
        low = _bytes(first)
        high = _bytes(last) if dots else low
        if dots and not 0 < low <= high:
            raise UsageError(f"--size {text}: a range goes from more than 0 upwards")
        while low <= high:
            found.append(low)
            if not dots:
                break
            low *= 4
    return found


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
    factor = UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"--size {text}: expected a number of bytes, such as 65536 or 64MiB")
    return round(float(match[1]) * factor)


def _group(text: str | None, busy: bool, made: Fabric) -> Group | None:
    from sim.fabrics import Group

    if text is None:
        return Group(made.ranks, alone=not busy)
    match = re.fullmatch(r"(\d+)(?:/(\d+))?", text)
    if match is None:
        raise UsageError(f"--group {text}: expected SIZE or SIZE/STRIDE, such as 8/64")
    return Group(int(match[1]), int(match[2] or 1), alone=not busy)


def _picoseconds(option: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)", text.strip())
    if match is None:
        raise UsageError(f"{option} {text}: expected a time, such as 50us")
    return float(match[1]) * PICOSECONDS[match[2]]


def _skew(args: Namespace, ranks: int) -> np.ndarray | None:
    """When each rank comes: at random with a mean, and some later still."""
    import numpy as np

    if not args.skew:
        return None
    times = np.zeros(ranks)
    for text in args.skew:
        rank, equals, late = text.rpartition("=")
        if not equals:
            times += np.random.default_rng(args.seed).exponential(_picoseconds("--skew", late), ranks)
        elif not rank.isdecimal() or int(rank) >= ranks:
            raise InputError(f"--skew {text}: there are ranks 0 to {ranks - 1}")
        else:
            times[int(rank)] += _picoseconds("--skew", late)
    return times


def _slow(text: str) -> Slow:
    from sim.arrivals import Slow

    match = re.fullmatch(r"(?:(\w+):)?(\d+)=(.+)", text)
    if match is None:
        raise UsageError(f"--slow-link {text}: expected RANK=SHARE or LEVEL:RANK=SHARE, such as efa:5=50%")
    try:
        return Slow(int(match[2]), share(match[3]), match[1])
    except ArgumentTypeError as fault:
        raise UsageError(f"--slow-link {text}: {fault}") from None

"""The cards: everything known of one instruction, one transfer or one idle gap, in words."""

from __future__ import annotations

import numpy as np

from sim.trace import NONE, Engine, Memory, RegionKind, Wait
from trnprof.view import format as words
from trnprof.view.causes import cause, waiting
from trnprof.view.labels import title
from trnprof.view.links import Links
from trnprof.view.operands import decode
from trnprof.view.records import Achieved, Card, Fact, GapCard, Link, TransferCard
from trnprof.view.timeline import Timeline
from trnprof.work import DMA_OPCODES

SHOWN_LINKS = 6

_MEMORY = {
    Memory.HBM: "HBM",
    Memory.SBUF: "SBUF",
    Memory.PSUM: "PSUM",
    Memory.REGISTER: "registers",
    Memory.HOST: "host",
}

_BYTES = (
    ("hbm_read_bytes", "HBM read"),
    ("hbm_write_bytes", "HBM written"),
    ("sbuf_read_bytes", "SBUF read"),
    ("sbuf_write_bytes", "SBUF written"),
    ("psum_read_bytes", "PSUM read"),
    ("psum_write_bytes", "PSUM written"),
    ("spill_save_bytes", "spilled"),
    ("spill_reload_bytes", "reloaded after a spill"),
)

_CLOCKS = {Engine.VECTOR: "clock_vector", Engine.SCALAR: "clock_scalar", Engine.GPSIMD: "clock_gpsimd"}

_PS_PER_NS = 1000
_HERTZ_PER_GHZ = 1e9


class Cards:
    """Writes the cards of one trace."""

    def __init__(self, timeline: Timeline, links: Links):
        self.trace = timeline.trace
        self.timeline = timeline
        self.window = timeline.window
        self.machine = timeline.machine
        self.labels = timeline.labels
        self.links = links
        self.estimated = self.trace.meta.is_simulation

    def instruction(self, row: int) -> Card:
        table = self.trace.instructions
        t0, t1 = int(table.start_ps[row]), int(table.end_ps[row])
        name, engine = title(self.trace, table, row), int(table.engine[row])
        after, before = self.links.predecessors(row), self.links.successors(row)
        raw = self._text("operands", row)
        return Card(
            row=row,
            title=name,
            id=self._id(row),
            track=self.timeline.track_of(row),
            colour=engine,
            t0_ps=t0,
            t1_ps=t1,
            estimated=self.estimated,
            spoken=f"{name}, {words.ENGINE_WORDS[engine]}, {self._exact(t1 - t0)} at {words.moment(t0)}",
            facts=tuple(self._facts(row)),
            achieved=self._achieved(row),
            wait=self._wait(row),
            operands=decode(self.trace, raw, row),
            source=self._source(row),
            after=tuple(self.link(r, row) for r in after[:SHOWN_LINKS]),
            after_count=len(after),
            before=tuple(self.link(r, None) for r in before[:SHOWN_LINKS]),
            before_count=len(before),
            transfers=tuple(self._moved(int(t)) for t in self.links.transfers(row)),
            raw=words.plain(raw, 4000),
        )

    def _facts(self, row: int) -> list[Fact]:
        table = self.trace.instructions
        t0, t1, engine = int(table.start_ps[row]), int(table.end_ps[row]), int(table.engine[row])
        place = f"{self._id(row)}, {words.count(row + 1)} of {words.count(len(table))}"
        found = [
            Fact("Engine", words.ENGINE_WORDS[engine], engine, place),
            Fact("Start", words.moment(t0), t0, f"to {words.moment(t1)}"),
            Fact("Duration", self._exact(t1 - t0), t1 - t0, "estimated" if self.estimated else "captured"),
        ]
        region = int(table.region[row])
        if region != NONE:
            found.append(Fact("Region", self._region(region), region, self._around(region)))
        elif table.control[row]:
            found.append(Fact("Region", "control, no work of the kernel"))
        found += self._size(row)
        for column, label in _BYTES:
            value = int(table.column(column)[row])
            if value:
                note = "" if column.startswith("hbm") else "a partition"
                found.append(Fact(label, words.size(value), value, note))
        return found

    def _region(self, row: int) -> str:
        return words.plain(self.trace.text(self.trace.regions, "name", row) or "", 80)

    def _around(self, row: int) -> str:
        """What the region lies in: `in attention, layer 1, llama-tiny`; loops and lines are told by the timeline."""
        table, names = self.trace.regions, []
        above = int(table.parent[row])
        while above != NONE:
            if table.kind[above] <= RegionKind.OPERATOR:
                names.append(self._region(above))
            above = int(table.parent[above])
        return f"in {', '.join(names)}" if names else ""

    def _size(self, row: int) -> list[Fact]:
        table = self.trace.instructions
        found = []
        dtype = self._text("dtype", row)
        if dtype:
            found.append(Fact("dtype", words.plain(dtype, 24), dtype))
        partitions, elements, flops = (int(table.column(c)[row]) for c in ("partitions", "elements", "flops"))
        if partitions:
            found.append(Fact("Partitions", f"{partitions} of 128", partitions))
        if elements:
            macs = table.engine[row] == Engine.TENSOR
            found.append(
                Fact("MACs" if macs else "Elements", words.count(elements), elements, "" if macs else "a partition")
            )
        if flops:
            span = int(table.end_ps[row] - table.start_ps[row])
            rate = flops / span * 1e12 if span else None
            found.append(Fact("FLOPs", words.work(flops), flops, self.estimate(words.flops(rate)) if rate else ""))
        return found

    def _achieved(self, row: int) -> Achieved | None:
        """The time that the work needs at the engine's documented rate, against the time it took."""
        table = self.trace.instructions
        engine, elements = Engine(int(table.engine[row])), int(table.elements[row])
        took = int(table.end_ps[row] - table.start_ps[row])
        if table.control[row] or took <= 0 or self._text("opcode", row).startswith(DMA_OPCODES):
            return None
        if engine == Engine.TENSOR and table.flops[row]:
            roof = self.machine.tensor(self._text("dtype", row) or None)
            if roof is None:
                return None
            needs = float(table.flops[row]) / (roof.value / self.machine.cores) * 1e12
            what = f"{words.work(int(table.flops[row]))} need {words.time(needs)} at the {roof.name} roof"
        else:
            clock = self.machine.figures.get(_CLOCKS.get(engine, "")) if self.machine.figures else None
            if not clock or not elements:
                return None
            needs = elements / clock * _PS_PER_NS
            rate = words.frequency(clock * _HERTZ_PER_GHZ)
            what = f"{words.plural(elements, 'element')} a partition need {words.time(needs)} at {rate}"
        share = needs / took
        return Achieved(share, f"{what}; it took {self._exact(took)}.", words.share(share))

    def _wait(self, row: int) -> Fact | None:
        """Idle time of the engine before the instruction."""
        gap = self.idle_before(row)
        if gap is None:
            return None
        text = cause(*self._cause(row))[1]
        took = self.estimate(words.time(gap[1] - gap[0]))
        return Fact("Wait before it", took, gap[1] - gap[0], f"idle for {text}" if text else waiting(text))

    def idle_before(self, row: int) -> tuple[int, int] | None:
        """The stretch in which the engine did nothing before the instruction, inside the kernel window."""
        table = self.trace.instructions
        start = int(table.start_ps[row])
        if table.control[row] or not self.window[0] <= start < self.window[1]:
            return None
        same = (table.engine[:row] == table.engine[row]) & (table.core[:row] == table.core[row])
        reach = int(table.end_ps[:row][same].max(initial=self.window[0]))
        return (reach, start) if start > reach else None

    def _cause(self, row: int) -> tuple[int, int]:
        table = self.trace.instructions
        other = int(table.wait_for[row])
        return int(table.wait[row]), int(table.engine[other]) if other != NONE else NONE

    def _source(self, row: int) -> Fact | None:
        text = self._text("source", row)
        return Fact("Source", words.place(text), text) if text else None

    def link(self, row: int, waiter: int | None) -> Link:
        """A neighbour; with the waiter given, a predecessor with its slack."""
        table = self.trace.instructions
        engine, start, finish = int(table.engine[row]), int(table.start_ps[row]), self.links.finish_ps(row)
        moved = self.links.transfers(row) if waiter is not None else ()
        slack = None if waiter is None else int(table.start_ps[waiter]) - finish
        return Link(
            row=row,
            title=title(self.trace, table, row),
            id=self._id(row),
            engine=engine,
            colour=engine,
            words=f"at {words.moment(start)}" if slack is None else self._slack(row, waiter, slack),
            track=self.timeline.track_of(int(moved[-1]), "transfers") if len(moved) else self.timeline.track_of(row),
            t0_ps=start,
            t1_ps=finish,
            slack_ps=slack,
            binding=waiter is not None and row == self.links.binding(waiter),
            transfer=int(moved[-1]) if len(moved) else NONE,
        )

    def _slack(self, row: int, waiter: int, slack: int) -> str:
        """How long a predecessor was done; one on the same engine may still be finishing."""
        table = self.trace.instructions
        if table.wait_for[waiter] == row and table.wait[waiter] == Wait.ENGINE:
            return "engine busy"
        return words.slack(slack) if slack >= 0 else "overlaps"

    def _moved(self, row: int) -> Fact:
        table = self.trace.transfers
        label, _ = self.labels[int(self.labels.transfers(np.array([row]))[0])]
        span = int(table.end_ps[row] - table.start_ps[row])
        rate = words.rate(int(table.bytes[row]) / span * 1e12) if span else words.NOT_AVAILABLE
        return Fact(label, words.size(int(table.bytes[row])), row, self.estimate(rate))

    def transfer(self, row: int) -> TransferCard:
        table = self.trace.transfers
        t0, t1 = int(table.start_ps[row]), int(table.end_ps[row])
        label, _ = self.labels[int(self.labels.transfers(np.array([row]))[0])]
        trigger = int(table.instruction[row])
        packets = int(np.count_nonzero(self.trace.packets.transfer == row))
        moved = words.size(int(table.bytes[row]))
        return TransferCard(
            row=row,
            title=label,
            id=f"transfer {int(table.id[row])}",
            track=self.timeline.track_of(row, "transfers"),
            colour=int(Engine.DMA),
            t0_ps=t0,
            t1_ps=t1,
            estimated=self.estimated,
            spoken=f"{label}, {moved}, {self._exact(t1 - t0)} at {words.moment(t0)}",
            facts=tuple(self._transfer_facts(row, packets)),
            trigger=self.link(trigger, None) if trigger != NONE else None,
            packets=packets,
        )

    def _transfer_facts(self, row: int, packets: int) -> list[Fact]:
        table = self.trace.transfers
        t0, t1, size = (int(table.column(c)[row]) for c in ("start_ps", "end_ps", "bytes"))
        source, dest = int(table.source_memory[row]), int(table.dest_memory[row])
        found = [
            Fact("Queue", words.plain(self.trace.text(table, "queue", row) or "unknown", 80)),
            Fact("Start", words.moment(t0), t0, f"to {words.moment(t1)}"),
            Fact("Duration", self._exact(t1 - t0), t1 - t0, "estimated" if self.estimated else "captured"),
            Fact("Moved", words.size(size), size, f"in {words.plural(packets, 'packet')}" if packets else ""),
        ]
        if t1 > t0:
            rate = size / (t1 - t0) * 1e12
            found.append(Fact("Rate", self.estimate(words.rate(rate)), rate))
        if source != NONE or dest != NONE:
            found.append(Fact("Way", f"{_MEMORY.get(source, 'unknown')} to {_MEMORY.get(dest, 'unknown')}"))
        descriptors = int(table.descriptors[row])
        if descriptors:
            each = words.size(round(size / descriptors))
            found.append(Fact("Descriptors", words.count(descriptors), descriptors, f"{each} each"))
        if table.wait_ps[row]:
            text = cause(int(table.wait[row]), NONE)[1]
            found.append(Fact("Waited", words.time(int(table.wait_ps[row])), int(table.wait_ps[row]), waiting(text)))
        return found

    def gap(self, track: str, engine: int, span: tuple[int, int], row: int) -> GapCard:
        """Idle time that ended when `row` started."""
        wait, culprit = self._cause(row)
        colour, text = cause(wait, culprit)
        other = int(self.trace.instructions.wait_for[row])
        took = self.estimate(words.time(span[1] - span[0]))
        name = words.ENGINE_WORDS[engine]
        return GapCard(
            track=track,
            engine=engine,
            colour=colour,
            t0_ps=span[0],
            t1_ps=span[1],
            title=f"Idle {took}",
            spoken=f"{name} idle for {took}, {waiting(text)}",
            facts=(
                Fact("Engine", name, engine),
                Fact("From", words.moment(span[0]), span[0], f"to {words.moment(span[1])}"),
                Fact("Waits for", text or "not recorded", Wait(wait).name.lower()),
            ),
            waited_for=self.link(other, row) if other != NONE else None,
            then=self.link(row, None),
        )

    def _text(self, column: str, row: int) -> str:
        return self.trace.text(self.trace.instructions, column, row) or ""

    def _id(self, row: int) -> str:
        return words.plain(self._text("name", row), 80) or f"#{int(self.trace.instructions.id[row])}"

    def _exact(self, ps: int) -> str:
        return self.estimate(words.exact(ps))

    def estimate(self, text: str) -> str:
        return words.estimate(text, self.estimated)

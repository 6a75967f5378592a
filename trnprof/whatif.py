"""What-ifs: the same kernel on a machine with other figures, by running the emulator again.

A setting has a friendly name (`SETTINGS`) or is any figure of the device; its value is a number in the figure's unit, a
factor such as `2x`, or a word where nothing but a word will do (`matmul=free`, `buffers=unlimited`). Captured profiles
are timed anew from their rows (`trnprof.coarse`), which is coarser and knows fewer settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from typing import TYPE_CHECKING

from sim.errors import InputError, UnsupportedError, UsageError
from sim.spec import Device
from sim.trace import Trace
from trnprof import coarse
from trnprof.bounds import Verdict, classify
from trnprof.machine import device_of
from trnprof.regions import whole
from trnprof.work import Index

if TYPE_CHECKING:
    from sim.retiming import Ideal

Value = float | int | str

SAID = {
    "tensor_engine_clock_freq": "clock_tensor",
    "hbm_ddr_bandwidth": "hbm_nc",
    "dma_ddr_bandwidth": "dma_core_peak",
}
"""What a profile says of its own machine, and the figure that it moves with."""

MOST = 256
"""Runs of a grid."""

ONE_OF_TWO = {"hbm_bw": "the DMA engines carry no more", "dma_bw": "HBM gives no more"}
"""Settings that help a kernel bound by memory only as far as the other goes."""

TELLING = 0.01
"""Changes of the time below this are none."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a friendly name stands for."""

    figures: tuple[str, ...]
    """Figures that are changed together; a plain number is given to each."""
    meaning: str
    word: str = ""
    """The one value that it takes, where it stands for no figure."""
    free: str = ""
    """Of `sim.retiming.FREE`."""
    without: str = ""
    """Of `sim.retiming.WITHOUT`."""


SETTINGS: dict[str, Setting] = {
    "hbm_bw": Setting(("hbm_bw",), "HBM bandwidth"),
    "dma_bw": Setting(("dma_engine_peak",), "bandwidth of every DMA engine"),
    "memory_bw": Setting(("hbm_bw", "dma_engine_peak"), "HBM and DMA engines together; as factors"),
    "dma_queues": Setting(("dma_engines_nc",), "DMA engines of a core, which serve its queues"),
    "dma_latency": Setting(
        tuple(f"dma.{part}_{way}" for part in ("dispatch", "stagger", "notify") for way in ("load", "store")),
        "from trigger to first byte, from last byte to semaphore",
    ),
    "descriptor_cost": Setting(("dma.desc_ovh",), "time of every descriptor on a DMA engine"),
    "issue_cost": Setting(
        ("dma.issue_static", "dma.issue_hw", "dma.issue_hw_scratch", "dma.issue_sw"),
        "what a DMA trigger costs the engine that gives it",
    ),
    "tensor_clock": Setting(("clock_tensor",), "TensorE"),
    "vector_clock": Setting(("clock_vector",), "VectorE"),
    "scalar_clock": Setting(("clock_scalar",), "ScalarE"),
    "gpsimd_clock": Setting(("clock_gpsimd",), "GpSimdE"),
    "clock": Setting(("clock_tensor", "clock_vector", "clock_scalar", "clock_gpsimd"), "all engines; as a factor"),
    "overhead": Setting(
        ("pe.issue_ovh", "pe.issue_ovh_16", "dve.issue_ovh", "act.issue_ovh", "gp.start"),
        "what an instruction costs its engine beyond its elements; as a factor",
    ),
    "semaphore": Setting(("sem.wake", "sem.same"), "from a completion until the waiter starts"),
    "table_load": Setting(("act.table_load",), "load of an activation table"),
    "sbuf": Setting(("sbuf_partition_bytes",), "SBUF of a partition"),
    "link_bw": Setting(("neuronlink_bw",), "NeuronLinks of a chip"),
    "link_latency": Setting(
        ("cc.base", "cc.alpha_ring", "cc.alpha_inter"), "start and hops of collectives; as a factor"
    ),
    "matmul": Setting((), "TensorE does its work in no time", word="free", free="tensor"),
    "vector": Setting((), "VectorE does", word="free", free="vector"),
    "scalar": Setting((), "ScalarE does", word="free", free="scalar"),
    "gpsimd": Setting((), "GpSimdE does", word="free", free="gpsimd"),
    "dma": Setting((), "bytes move in no time, and triggers cost none", word="free", free="dma"),
    "buffers": Setting((), "no instruction waits for a buffer to be free", word="unlimited", without="buffers"),
    "dependencies": Setting((), "no instruction waits for another's result", word="none", without="dependences"),
}


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """What a change would do."""

    settings: dict[str, str]
    """As asked for."""
    before_ps: int
    """The kernel window as it is: of an emulated trace, by this version of the emulator."""
    time_ps: int
    """The kernel window as it would be."""
    before: Verdict
    verdict: Verdict
    """On the whole of it."""
    idle: tuple[str, ...]
    """Settings on which no time of this kernel depends."""
    coarse: bool
    """From measured times, scaled."""
    was: Trace
    """The trace as it is."""
    trace: Trace
    """The trace as it would be."""
    notes: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """New time by old; None without an old one."""
        return self.time_ps / self.before_ps if self.before_ps else None

    def to_json(self) -> dict[str, object]:
        return {
            "settings": dict(self.settings),
            "before_ps": self.before_ps,
            "time_ps": self.time_ps,
            "ratio": self.ratio,
            "speedup": self.before_ps / self.time_ps if self.time_ps else None,
            "bound_before": self.before.bound,
            "bound": self.verdict.bound,
            "engine": self.verdict.engine,
            "share": self.verdict.share,
            "margin": self.verdict.margin,
            "idle": list(self.idle),
            "coarse": self.coarse,
            "notes": list(self.notes),
        }


def what_if(trace: Trace, settings: Mapping[str, Value]) -> WhatIf:
    """The trace with other settings.

    raises : InputError for an unknown setting or a value that it cannot have; UnsupportedError for an emulated trace
             that holds no program, or a setting that a captured profile cannot answer; CapacityError where the kernel
             no longer fits
    """
    return what_ifs(trace, [settings])[0]


def what_ifs(trace: Trace, settings: Sequence[Mapping[str, Value]]) -> list[WhatIf]:
    """The trace with each of several settings."""
    machine = _Modelled(trace) if trace.meta.model else _Machine(trace)
    return [machine.with_(each) for each in settings]


def choices(texts: Iterable[str]) -> dict[str, list[str]]:
    """The values of each setting, from texts such as `hbm_bw=1x,2x`; UsageError for what is none."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values.strip():
            raise UsageError(f"{text}: expected NAME=VALUE, such as hbm_bw=2x")
        if name in found:
            raise UsageError(f"{text}: {name} is given twice", remedy=f"{name}=1x,2x gives several values")
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
    return found


def grid(choices: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """Every combination of the values of each setting; InputError for more than `MOST`."""
    found = [dict(zip(choices, values)) for values in product(*choices.values())]
    if len(found) > MOST:
        raise InputError(f"{len(found)} combinations; at most {MOST} are run at once")
    return found


class _Machine:
    """What a trace ran on, and how to run it again."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.emulated = trace.recorded is not None or trace.meta.is_simulation
        self.was = trace
        if self.emulated:
            from sim.retiming import retime

            self.was = retime(trace).trace
            self.device = device_of(trace).replace(trace.meta.what_if)
            self.notes = _changed(self.was, trace)
        else:
            self.device = device_of(trace)
            self.notes = ("From a captured profile: measured times, scaled, not emulated anew.",)
        self.before = _judged(self.was)

    def with_(self, settings: Mapping[str, Value]) -> WhatIf:
        asked = {name: str(value) for name, value in settings.items()}
        figures, ideal = changes(self.device, settings)
        moved = {name: self._moved_by(name, figures) for name in asked}
        if self.emulated:
            from sim.retiming import retime

            done = retime(self.trace, figures, ideal)
            made, idle = done.trace, tuple(name for name, ids in moved.items() if ids and not ids & done.read)
        else:
            made, idle = self._scaled(moved, figures, ideal), ()
        verdict = _judged(made)
        return WhatIf(
            settings=asked,
            before_ps=_window(self.was),
            time_ps=_window(made),
            before=self.before,
            verdict=verdict,
            idle=idle,
            coarse=not self.emulated,
            was=self.was,
            trace=made,
            notes=(*self.notes, *self._halves(figures, asked, made, verdict)),
        )

    def _halves(self, figures: Mapping[str, Value], asked: Iterable[str], made: Trace, after: Verdict) -> Iterator[str]:
        """Why more of one bandwidth gains nothing where memory stays the bound."""
        still = self.before.bound == after.bound == "memory_bandwidth"
        same = abs(_window(made) - _window(self.was)) < TELLING * _window(self.was)
        table = self.device.replace(figures)
        for name in ONE_OF_TWO if still and same else ():
            if [name] == [*asked] and all(table[id] > self.device[id] for id in SETTINGS[name].figures):
                yield f"{name} alone gains nothing here, for {ONE_OF_TWO[name]}: memory_bw moves both."

    def _moved_by(self, name: str, figures: Mapping[str, Value]) -> set[str]:
        """Figures that a setting moves, those that follow included."""
        own = SETTINGS[name].figures if name in SETTINGS else (name,)
        return _moved(self.device, self.device.replace({id: figures[id] for id in own if id in figures}))

    def _scaled(self, moved: Mapping[str, set[str]], figures: Mapping[str, Value], ideal: Ideal) -> Trace:
        """From measured times; the settings that they cannot answer are refused by name."""
        known = coarse.known_figures(self.device)
        for name, ids in moved.items():
            if (ids and not ids & known) or (name in SETTINGS and SETTINGS[name].without):
                raise UnsupportedError(
                    f"{name}: a captured profile does not say what it would do",
                    remedy="emulate the kernel: trnprof run FILE.py::KERNEL -o DIR",
                )
        after = self.device.replace(figures)
        made = coarse.retime(self.trace, self.device, after, ideal.free)
        given = {id: after[id] for id in sorted(_moved(self.device, after))}
        said = {
            name: value * (after[SAID[name]] / self.device[SAID[name]] if SAID.get(name) in self.device else 1)
            for name, value in made.meta.machine.items()
        }
        return replace(made, meta=replace(made.meta, what_if=given, machine=said))


class _Modelled:
    """A whole model, whose operators are emulated again."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.device = device_of(trace).replace(trace.meta.what_if)
        self.was = self._run({})
        self.before = _judged(self.was)
        self.notes = _changed(self.was, trace)

    def with_(self, settings: Mapping[str, Value]) -> WhatIf:
        figures, ideal = changes(self.device, settings)
        if ideal.free or ideal.without:
            named = ", ".join(name for name in settings if name in SETTINGS and SETTINGS[name].word)
            raise UnsupportedError(
                f"{named}: only the trace of one kernel says what it would do, this is that of a model",
                remedy="ask of an operator's kernel: trnprof run FILE.py::KERNEL -o DIR",
            )
        made = self._run(figures)
        return WhatIf(
            settings={name: str(value) for name, value in settings.items()},
            before_ps=_window(self.was),
            time_ps=_window(made),
            before=self.before,
            verdict=_judged(made),
            idle=(),
            coarse=False,
            was=self.was,
            trace=made,
            notes=self.notes,
        )

    def _run(self, figures: Mapping[str, Value]) -> Trace:
        """The model on the device with other figures. A fabric of its own name has links of its own."""
        from trnprof.models import run_model

        asked = dict(self.trace.meta.model)
        links = _moved(self.device, self.device.replace(figures)) & set(SETTINGS["link_bw"].figures)
        if asked.get("fabric") and links:
            raise UnsupportedError(
                f"link_bw: the links are those of {asked['fabric']}, not of {self.device.name}",
                remedy="emulate the model without --fabric, or with --slow-link",
            )
        return run_model(asked.pop("config"), device=self.device.replace(figures), must_fit=False, **asked).trace


def _changed(was: Trace, trace: Trace) -> tuple[str, ...]:
    """What is to be said of a trace that is not as it was when it was made."""
    if _window(was) == _window(trace):
        return ()
    return ("The emulator has changed since the trace was made: compared with its time of today.",)


def changes(table: Device, settings: Mapping[str, Value]) -> tuple[dict[str, Value], Ideal]:
    """(figures of the device, what is free or ignored) that settings stand for; InputError for one that none is."""
    from sim.retiming import Ideal

    figures: dict[str, Value] = {}
    free, without = set(), set()
    for name, value in settings.items():
        setting = SETTINGS.get(name)
        if setting is None:
            figures[_known(table, name)] = value
        elif setting.word:
            if str(value).strip().lower() != setting.word:
                raise InputError(f"{name} cannot be {value!r}", remedy=f"{name}={setting.word}, or leave it out")
            free |= {setting.free} - {""}
            without |= {setting.without} - {""}
        else:
            found = _present(table, name, setting)
            _check_units(table, name, found, value)
            figures |= dict.fromkeys(found, value)
    return figures, Ideal(frozenset(free), frozenset(without))


def _known(table: Device, name: str) -> str:
    if name in table:
        return name
    near = get_close_matches(name, [*SETTINGS, *table.figures], n=3)
    remedy = f"nearest: {', '.join(near)}; " if near else ""
    raise InputError(f"no setting {name!r}", remedy=f"{remedy}trnprof what-if --list names them all")


def _present(table: Device, name: str, setting: Setting) -> tuple[str, ...]:
    found = tuple(id for id in setting.figures if id in table)
    if not found:
        raise InputError(f"{name}: {table.name} has no such figure", remedy="trnprof what-if --list names them all")
    return found


def _check_units(table: Device, name: str, ids: tuple[str, ...], value: Value) -> None:
    """One number cannot stand for figures of several units."""
    units = dict.fromkeys(table.figure(id).unit for id in ids)
    if len(units) > 1 and not str(value).strip().lower().endswith("x"):
        raise InputError(
            f"{name} cannot be {value!r}: it stands for figures in {', '.join(units)}", remedy="a factor: 2x"
        )


def _moved(before: Device, after: Device) -> set[str]:
    """Figures that differ, those that follow others included."""
    return {id for id in after.figures if after[id] != before[id]}


def _window(trace: Trace) -> int:
    return trace.meta.window[1] - trace.meta.window[0]


def _judged(trace: Trace) -> Verdict:
    return classify(trace, [whole(trace, Index(trace))])[0]

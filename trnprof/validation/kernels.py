"""Runs the kernels whose time was published, and sets every figure beside its measurement.

Like is compared with like: a profile's total_time with `total_ns`, a benchmark's p50 with `benchmark_ns`, a device
time with the kernel window; counters under AWS's names.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, TrnprofError
from trnprof.home import data_dir
from trnprof.validation.coverage import Case
from trnprof.validation.published import Call, Record, Tensor
from trnprof.validation.score import Comparison, Skipped

if TYPE_CHECKING:
    from sim import Run
    from sim.interval import Doubt
    from trnprof.bounds import Verdict

OURS = "traces/"
"""Where kernels of our own lie."""

LEVELS = {
    "hbm_read_bytes": ("bytes", "bytes"),
    "hbm_write_bytes": ("bytes", "bytes"),
    "spill_save_bytes": ("spill", "bytes"),
    "spill_reload_bytes": ("spill", "bytes"),
    "matmul_instruction_count": ("count", "count"),
    "hardware_flops": ("count", "FLOP"),
    "tensor_engine_active_time_percent": ("share", "share"),
    "vector_engine_active_time_percent": ("share", "share"),
    "scalar_engine_active_time_percent": ("share", "share"),
    "dma_active_time_percent": ("share", "share"),
}
"""Counter -> level and unit. GpSimdE's share is preamble in all of these kernels, and left out."""

PREAMBLE_COUNTED = re.compile(r"neuron-profile total_time \(single run")
"""Metric of profiles whose active times count preamble and semaphore instructions, which are not the kernel's."""

MEASURED = "; measured: "
"""Between our bound class and those that agree with the measurement."""

SHORT = 10_000
"""Instructions up to which a kernel is timed on as many machines as are asked for; a longer one on fewer."""

FEWEST = 4
"""Machines on which any kernel is timed."""

TIMES = ("latency_ns", "total_ns", "benchmark_ns")
"""In the order of `sim.spread.times`."""

Outcome = Comparison | Skipped


@dataclass(frozen=True, slots=True)
class Bars:
    """What intervals are made from; each time by the names of `Result.times`."""

    generation: str
    drawn: Sequence[Mapping[str, float]]
    others: Mapping[str, Mapping[str, float]]
    doubt: Doubt


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave."""

    times: Mapping[str, float]
    """By the names of `TIMES`."""
    bars: Bars | None
    summary: Mapping[str, Any]
    verdict: Verdict


class Bench:
    """Runs calls over folders of checkouts; records that differ in what they measure share a run."""

    def __init__(self, folders: Sequence[Path], samples: int = 0):
        """samples : machines on which a kernel is timed for its interval; 0 for none"""
        self.folders = folders
        self.samples = samples
        self.cases: list[Case] = []
        """Of the published kernels that were timed, what their intervals are made from."""
        self._known: dict[Call, Result] = {}

    def compare(self, record: Record) -> list[Outcome]:
        """The comparisons of a record, its time first, or why there are none."""
        found = [] if record.instructions and record.run is None else [*self._one(record, record.run, record.id)]
        if record.ours is not None:
            found += self._one(record, record.ours, f"{record.id} (same algorithm, our code)")
        return found

    def _one(self, record: Record, call: Call | None, id: str) -> Iterator[Outcome]:
        if call is None:
            yield Skipped(id, _why_not(record))
            return
        try:
            result = self._result(call)
        except TrnprofError as error:
            yield Skipped(id, str(error))
            return
        case = _case(record, call, id, result)
        if case is not None and call is record.run:
            self.cases.append(case)
        yield _time(record, call, id, result, case)
        yield from _counters(record, call, id, result)
        yield from _bound(record, call, id, result)

    def _result(self, call: Call) -> Result:
        key = replace(call, compare="")
        if key not in self._known:
            self._known[key] = _result(execute(call, self.folders), self.samples)
        return self._known[key]


def _why_not(record: Record) -> str:
    if record.is_limit:
        return "an upper limit that a test asserted, not a measurement"
    if record.value_ns is None:
        return f"{record.metric}: not the time of a kernel"
    return "the kernel's code is not public, or not the emulator's to run"


def _find(call: Call, folders: Sequence[Path]) -> Path:
    if call.file.startswith(OURS):
        return data_dir("traces") / call.file.removeprefix(OURS)
    found = next((file for folder in folders for file in sorted(folder.glob(call.file))), None)
    if found is None:
        raise InputError(f"{call.file.partition('/')[0]} is in none of the folders given")
    return found


def execute(call: Call, folders: Sequence[Path]) -> Run:
    """Run a call at full size, without values; InputError where no folder has its file."""
    import sim

    file = _find(call, folders)
    arguments = [_argument(item) for item in call.arguments]
    options = sim.Options.for_generation(call.generation) if call.generation else None
    with _stubbed(call.stubs), tempfile.TemporaryDirectory() as folder:
        kernel = sim.load(f"{_source(call, file, Path(folder))}::{call.kernel}", call.device)
        return sim.run(kernel, *arguments, device=call.device, values=False, options=options)


def _argument(item: Any) -> Any:
    import sim

    return sim.TensorSpec(item.shape, item.dtype) if isinstance(item, Tensor) else item


@contextmanager
def _stubbed(names: Sequence[str]) -> Iterator[None]:
    """Modules with any function one may import, for files that import more than their kernel needs."""
    made = [name for name in names if name not in sys.modules]
    for name in made:
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__, module.__getattr__ = [], _anything
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]


def _anything(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *arguments, **named: None


def _source(call: Call, file: Path, folder: Path) -> Path:
    """The file to load: itself, or a copy of the code block that is meant, or of itself with its imports."""
    if not call.block and not call.prelude:
        return file
    text = file.read_text(encoding="utf-8")
    if call.block:
        words, number = call.block
        blocks = re.findall(r"\.\. code-block:: python\n\n((?: {3,}.*\n|\s*\n)+)", text)
        fitting = [block for block in blocks if all(word in block for word in words)]
        if not fitting:
            raise InputError(f"{file}: no code block contains {', '.join(words)}")
        text = textwrap.dedent(fitting[number])
    target = folder / "kernel.py"
    target.write_text(call.prelude + text, encoding="utf-8")
    return target


def _result(run: Run, samples: int) -> Result:
    from trnprof.bounds import classify

    times = {name: getattr(run, name) for name in TIMES}
    return Result(times, _bars(run, samples) if samples else None, counters(run), classify(run.trace)[0])


def counters(run: Run) -> dict[str, Any]:
    """A run's summary with spills as published profiles count them: all that goes to HBM and is no argument or result,
    so that what the kernel itself keeps there is among them (facts of the timing prototype, section 10).
    """
    from trnprof.summary import summarize

    found = summarize(run.trace)
    for name, kept in zip(("spill_save_bytes", "spill_reload_bytes"), run.program.scratch_bytes()):
        found[name] = (found.get(name) or 0) + kept
    return found


def _bars(run: Run, samples: int) -> Bars:
    from sim import spread

    drawn: list[Mapping[str, float]] = []
    others: dict[str, Mapping[str, float]] = {}

    def note(scenario: spread.Scenario) -> None:
        found = dict(zip(TIMES, spread.times(scenario.trace), strict=True))
        if scenario.decision:
            others[scenario.decision] = found
        else:
            drawn.append(found)

    machines = max(min(samples, FEWEST), min(samples, samples * SHORT // len(run.program)))
    bars = spread.error_bars(run, machines, each=note)
    return Bars(run.trace.recorded().options.generation, drawn, others, bars.doubt)


def _case(record: Record, call: Call, id: str, result: Result) -> Case | None:
    """What the interval of a time is made from."""
    bars, name = result.bars, call.compare
    if bars is None:
        return None
    drawn = tuple(times[name] for times in bars.drawn)
    others = {decision: times[name] for decision, times in bars.others.items()}
    return Case(id, call.file, bars.generation, record.value_ns, result.times[name], drawn, others, bars.doubt)


def _time(record: Record, call: Call, id: str, result: Result, case: Case | None) -> Comparison:
    bar = None if case is None else case.interval(case.published)
    low, high = (None, None) if bar is None else (bar.low, bar.high)
    estimate, own = result.times[call.compare], call is record.ours
    families = () if own else record.families
    level = "kernel" if not own else "our kernel"
    return Comparison(id, level, call.compare, record.value_ns, estimate, "ns", call.device, low, high, families)


def _counters(record: Record, call: Call, id: str, result: Result) -> Iterator[Comparison]:
    alone = PREAMBLE_COUNTED.search(record.metric) is not None
    for name, measured in record.counters.items():
        if name.endswith("_active_time"):
            name, measured = f"{name}_percent", measured * 1e9 / record.value_ns
        level, unit = LEVELS.get(name, ("", ""))
        if not level or name not in result.summary:
            continue
        if alone and unit == "share":
            level = "share with preamble"
        yield Comparison(id, level, name, measured, result.summary[name], unit, call.device)


def _bound(record: Record, call: Call, id: str, result: Result) -> Iterator[Comparison]:
    """1 where the bound class agrees, 0 where not."""
    if record.bound:
        found = result.verdict
        agrees = float(found.bound in record.bound)
        level = f", level with {found.runner_up}" if found.margin == 0 else ""
        note = f"{found.bound}{level}{MEASURED}{' or '.join(record.bound)}"
        yield Comparison(id, "bound", "bound", 1.0, agrees, "share", call.device, note=note)

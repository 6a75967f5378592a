"""Assertions on kernels for pytest: the fixture `trnprof_kernel` emulates a kernel and says whether it is still fast.

    def test_silu_stays_bandwidth_bound(trnprof_kernel):
        kernel = trnprof_kernel("kernels.py::silu", x="bf16[1024,2048]")
        kernel.stays("memory_bandwidth").under(us=40).moves_at_most(mib=12)

`--trnprof-traces DIR` keeps the trace of every kernel that a test ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sim import Run
    from sim.trace import Trace
    from trnprof.bounds import Verdict

UNITS_PS = {"ns": 1_000, "us": 1_000_000, "ms": 1_000_000_000}
UNITS_BYTES = {"bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that ran; every claim about it returns it again, so that claims can follow one another."""

    run: Run
    kept: Path | None = None
    """Where its trace lies."""
    _verdicts: list[Verdict] = field(default_factory=list)

    @property
    def trace(self) -> Trace:
        """The trace of the run."""
        return self.run.trace

    @property
    def verdict(self) -> Verdict:
        """What bounds the kernel."""
        from trnprof.bounds import classify

        if not self._verdicts:
            self._verdicts.append(classify(self.trace)[0])
        return self._verdicts[0]

    @property
    def latency_us(self) -> float:
        """First instruction issued to last completion."""
        return self.run.latency_ns / 1000

    def stays(self, *bounds: str) -> Kernel:
        """Claim that one of these bounds the kernel: compute, memory_bandwidth, memory_capacity, network, latency."""
        __tracebackhide__ = True
        from sim.errors import UsageError
        from trnprof.bounds import BOUNDS

        unknown = sorted({*bounds} - {*BOUNDS})
        if unknown or not bounds:
            raise UsageError(f"no bound {', '.join(unknown)}", remedy=f"there are {', '.join(BOUNDS)}")
        if self.verdict.bound not in bounds:
            self._fail(f"is bound by {self.verdict.bound}, not by {' or '.join(bounds)}")
        return self

    def under(self, **limit: float) -> Kernel:
        """Claim that the kernel takes no longer than this: `us=40`, `ns=` or `ms=`."""
        __tracebackhide__ = True
        amount, unit = _one(limit, UNITS_PS)
        took = (self.trace.meta.window[1] - self.trace.meta.window[0]) / UNITS_PS[unit]
        if took > amount:
            self._fail(f"takes {took:.4g} {unit}, more than {amount:g} {unit}")
        return self

    def moves_at_most(self, **limit: float) -> Kernel:
        """Claim that the kernel reads and writes no more of HBM than this: `mib=12`, `bytes=`, `kib=` or `gib=`."""
        __tracebackhide__ = True
        from trnprof.summary import summarize

        amount, unit = _one(limit, UNITS_BYTES)
        found = summarize(self.trace)
        moved = (found["hbm_read_bytes"] + found["hbm_write_bytes"]) / UNITS_BYTES[unit]
        if moved > amount:
            self._fail(f"moves {moved:.4g} {unit}, more than {amount:g} {unit}")
        return self

    def finds_nothing(self) -> Kernel:
        """Claim that there is no race, no read of unwritten memory, nothing else that is wrong."""
        __tracebackhide__ = True
        wrong = [finding.sentence for finding in self.run.findings if not finding.is_warning]
        if wrong:
            self._fail(f"has {len(wrong)} findings: {'; '.join(wrong[:3])}")
        return self

    def _fail(self, what: str) -> None:
        __tracebackhide__ = True
        meta = self.trace.meta
        lines = [f"{meta.kernel} on {meta.device} {what}"]
        lines += [f"  {item.sentence}" for item in self.verdict.evidence[:3]]
        lines += [f"  its trace: {self.kept}"] if self.kept else []
        pytest.fail("\n".join(lines), pytrace=False)


def _one(limit: dict[str, float], units: dict[str, int]) -> tuple[float, str]:
    """The amount and its unit."""
    from sim.errors import UsageError

    if len(limit) != 1 or not limit.keys() <= units.keys():
        raise UsageError(f"one limit is needed, not {', '.join(limit) or 'none'}", remedy=f"one of {', '.join(units)}")
    unit, amount = next(iter(limit.items()))
    return amount, unit


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trnprof")
    group.addoption("--trnprof-traces", metavar="DIR", help="keep the trace of every kernel that trnprof_kernel ran")


@pytest.fixture
def trnprof_kernel(request: pytest.FixtureRequest) -> Callable[..., Kernel]:
    """Emulates a kernel: `trnprof_kernel(kernel, *inputs, device="trn2", values=False, **named)` gives a `Kernel`.

    kernel : a `@nki.jit` function, or "file.py::name" beside the test
    named  : the kernel's parameters; text is what `trnprof run --arg` takes, such as "bf16[128,512]"
    values : compute the outputs too; shapes and times alone are faster
    """
    kept = request.config.getoption("--trnprof-traces")
    count = 0

    def run(kernel: Any, *inputs: Any, device: str = "trn2", values: bool = False, **named: Any) -> Kernel:
        nonlocal count
        import sim

        if isinstance(kernel, str):
            kernel = sim.load(_beside(kernel, request.path.parent))
        options = {name: named.pop(name) for name in ("lnc", "seed", "passes") if name in named}
        found = sim.run(kernel, *inputs, device=device, values=values, **options, **_parsed(named, values))
        count += 1
        return Kernel(found, _keep(found, kept, request.node.nodeid, count) if kept else None)

    return run


def _beside(target: str, folder: Path) -> str:
    """A target relative to the test's own folder where it is there."""
    file, colons, name = target.partition("::")
    place = folder / file
    return f"{place if place.exists() else file}{colons}{name}"


def _parsed(named: dict[str, Any], values: bool) -> dict[str, Any]:
    from trnprof.arguments import parse

    texts = [f"{name}={value}" for name, value in named.items() if isinstance(value, str)]
    return {**named, **parse(texts, seed=0, values=values)}


def _keep(run: Run, folder: str, test: str, number: int) -> Path:
    """Write the trace; a test that runs several kernels gets a folder each."""
    from trnprof.export import export

    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-")
    place = Path(folder) / (name if number == 1 else f"{name}-{number}")
    export(run.trace, "parquet", place)
    return place

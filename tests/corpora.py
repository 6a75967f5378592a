"""Runs public NKI kernels, unmodified, against their own references and prints what came of each.

    python tests/corpora.py FOLDER [--only TEXT] [--json FILE] [--page FILE] [--seconds N]

FOLDER holds checkouts under their GitHub names; corpora that are not there are left out. Each kernel runs in a process
of its own. Nothing of the checkouts is copied.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

CORPORA = (
    "tests.corpora_current",
    "tests.corpora_sdk",
    "tests.corpora_accelopt",
    "tests.corpora_fusion",
    "tests.corpora_samples",
    "tests.corpora_history",
    "tests.corpora_library",
    "tests.corpora_nested",
    "tests.corpora_pypi",
)
"""Modules with a function `cases(folder) -> list[Case]`."""


@dataclass(frozen=True)
class Outcome:
    """What came of one kernel."""

    ran: bool = False
    right: bool | None = None
    """Values agree with the reference; None when there was nothing to compare."""
    error: float | None = None
    """Largest relative L2 distance of an output from its reference."""
    tolerance: str = ""
    shapes: str = ""
    instructions: int | None = None
    latency_us: float | None = None
    seconds: float | None = None
    """Of this machine, values and time."""
    verdict: str = ""
    findings: tuple[str, ...] = ()
    """The first three."""
    finding_count: int | None = None
    kernels: tuple[str, ...] = ()
    """`file:line` of the kernels that ran, those that others called included."""
    guesses: tuple[str, ...] = ()
    """Calls of which the emulator guesses a part (`sim.engines.GUESSED`)."""
    reason: str = ""
    """Why it failed, or has no time."""
    known: str = ""
    """Why it cannot be right, where that is known beforehand: the fault is the file's, or a stated limit's."""


@dataclass(frozen=True)
class Case:
    """One kernel of a corpus."""

    corpus: str
    file: str
    """Relative to the folder of checkouts."""
    kernel: str
    run: Callable[[Path], Outcome]
    device: str = "trn2"
    needs: tuple[str, ...] = ()
    """Modules that it imports: better once, before it gets its own process."""

    @property
    def id(self) -> str:
        return f"{self.file}::{self.kernel}"


@dataclass(frozen=True)
class Check:
    """How near a result must be: relative L2, or NumPy's allclose."""

    l2: float | None = None
    rtol: float = 0.0
    atol: float = 0.0

    def __str__(self) -> str:
        return f"L2 {self.l2:g}" if self.l2 is not None else f"rtol {self.rtol:g}, atol {self.atol:g}"

    def holds(self, got: Any, want: Any) -> bool:
        import numpy as np

        if self.l2 is not None:
            return distance(got, want) <= self.l2
        return bool(np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=self.rtol, atol=self.atol))


@dataclass(frozen=True)
class Launch:
    """A kernel with its inputs, and what it must compute."""

    kernel: Any
    inputs: tuple
    reference: Callable[[], Any]
    check: Check
    scalars: Mapping[str, Any] = field(default_factory=dict)
    shape_outputs: Callable[[Any, Any], Any] | None = None
    """(result, reference) -> the result in the reference's shapes."""


def distance(got: Any, want: Any) -> float:
    """Relative L2."""
    import numpy as np

    a, b = (np.asarray(side).astype(np.float64) for side in (got, want))
    norm = float(np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / norm if norm else float(np.linalg.norm(a - b))


def _nothing(name: str) -> None:
    """Whatever is imported from a stub."""
    if name.startswith("__"):
        raise AttributeError(name)


@contextmanager
def imported(path: Path, device: str, stubs: tuple[str, ...] = ()) -> Iterator[types.ModuleType]:
    """A file of a checkout as a module, with the emulator's stand-ins; `stubs` are packages that it imports in vain."""
    import sim

    for name in stubs:
        module = sys.modules[name] = types.ModuleType(name)
        module.__getattr__ = _nothing
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    sys.path.insert(0, str(path.parent))
    with sim.stand_ins(device):
        spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def measure(launch: Launch, device: str) -> Outcome:
    """Run a launch with values and time; a kernel that does not fit on the chip is still checked for its values."""
    import sim
    from sim import launch as launching
    from sim.errors import CapacityError

    known: dict[str, Any] = {"ran": True, "shapes": shapes_of(launch.inputs), "tolerance": str(launch.check)}
    started = time.perf_counter()
    try:
        run = sim.run(launch.kernel, *launch.inputs, device=device, **launch.scalars)
        result, findings = run.result, run.findings
        known |= timed(run)
    except CapacityError as error:
        result, program = launching.evaluate(launch.kernel, *launch.inputs, device=device, **launch.scalars)
        findings = program.findings
        known |= {"instructions": len(program), "reason": f"no time: {error}"}
    known |= {"seconds": time.perf_counter() - started, **found(findings)}
    return Outcome(**known, **compared(launch, result))


def timed(run: Any) -> dict[str, Any]:
    return measured(run.program, run.trace)


def measured(program: Any, trace: Any) -> dict[str, Any]:
    import trnprof

    verdicts = trnprof.classify(trace)
    first, last = trace.meta.window
    return {
        "instructions": len(program),
        "latency_us": (last - first) / 1e6,
        "verdict": verdicts[0].bound if verdicts else "",
    }


def found(findings: Any) -> dict[str, Any]:
    return {"findings": tuple(finding.sentence for finding in findings[:3]), "finding_count": len(findings)}


def compared(launch: Launch, result: Any) -> dict[str, Any]:
    want = launch.reference()
    got = result if launch.shape_outputs is None else launch.shape_outputs(result, want)
    pairs = list(zip(*(side if isinstance(side, (tuple, list)) else (side,) for side in (got, want)), strict=True))
    wrong = [f"shape {a.shape}, reference {b.shape}" for a, b in pairs if a.shape != b.shape]
    if wrong:
        return {"right": False, "reason": wrong[0]}
    error = max(distance(a, b) for a, b in pairs)
    return {"right": all(launch.check.holds(a, b) for a, b in pairs), "error": error}


def shapes_of(inputs: tuple) -> str:
    return " ".join(str(list(value.shape)) for value in inputs if hasattr(value, "shape"))


def cases(folder: Path) -> list[Case]:
    return [case for name in CORPORA for case in importlib.import_module(name).cases(folder)]


# -- the runner ------------------------------------------------------------------------------------


SETTLING = 10
"""Seconds in which a case that is done has to end."""


def in_process(case: Case, folder: Path, seconds: float) -> Outcome:
    """Run one case in a process of its own: a fork of this one, which has imported the emulator."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(case, folder, sender))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        worker.start()
    sender.close()
    try:
        if receiver.poll(seconds):
            outcome = receiver.recv()
            worker.join(SETTLING)
            return outcome
        return Outcome(reason=f"more than {seconds:.0f} s")
    except EOFError:
        worker.join()
        return Outcome(reason=f"ended with code {worker.exitcode}")
    finally:
        worker.kill()
        worker.join()


def _work(case: Case, folder: Path, sender: Connection) -> None:
    """What a case prints is dropped, and files that it writes go to a folder that is dropped too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        sender.send(run_case(case, folder))
        os.chdir("/")


def run_case(case: Case, folder: Path) -> Outcome:
    """The outcome of a case, with what was seen of its launches; nothing in it names a folder of this machine."""
    from tests.launched import watched

    with watched() as seen:
        try:
            outcome = case.run(folder)
        except Exception as error:
            outcome = Outcome(reason=f"{type(error).__name__}: {error}")
    last = {"instructions": outcome.instructions}
    if seen.last and outcome.instructions is None:
        program, trace = seen.last
        last = measured(program, trace) | found(trace.meta.findings)
    outcome = replace(outcome, **last, shapes=outcome.shapes or seen.shapes)
    kernels = {*outcome.kernels, *seen.places(folder)}
    guesses = {*outcome.guesses, *seen.guesses()}
    return without_folders(replace(outcome, kernels=tuple(sorted(kernels)), guesses=tuple(sorted(guesses))), folder)


def without_folders(outcome: Outcome, folder: Path) -> Outcome:
    roots = [f"{path}/" for root in (folder, *folder.iterdir()) for path in {root.parent, root.resolve().parent}]
    roots = sorted({str(folder) + "/", *roots, f"{ROOT}/"}, key=len, reverse=True)

    def short(text: str) -> str:
        for root in roots:
            text = text.replace(root, "")
        return text

    return replace(outcome, reason=short(outcome.reason), findings=tuple(map(short, outcome.findings)))


COLUMNS = ("corpus", "kernel", "ran", "values", "error", "instructions", "time", "verdict", "reason")


def row(case: Case, outcome: Outcome) -> tuple[str, ...]:
    values = {True: "right", False: "WRONG", None: "-"}[outcome.right] if outcome.ran else "-"
    values = "known" if outcome.known and not outcome.right else values
    latency = "-" if outcome.latency_us is None else f"{outcome.latency_us:.1f} us"
    return (
        case.corpus,
        case.kernel,
        "yes" if outcome.ran else "NO",
        values,
        "-" if outcome.error is None else f"{outcome.error:.1e}",
        "-" if outcome.instructions is None else str(outcome.instructions),
        latency,
        outcome.verdict or "-",
        "; ".join(filter(None, (outcome.known, outcome.reason))) or "; ".join(outcome.findings),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose corpus, file or kernel contains this")
    parser.add_argument("--json", type=Path, help="write the outcomes here")
    parser.add_argument("--page", type=Path, help="write the table here, in Markdown")
    parser.add_argument("--seconds", type=float, default=900, help="most that a case may take")
    options = parser.parse_args()
    folder = options.folder.resolve()
    chosen = [case for case in cases(folder) if options.only in f"{case.corpus} {case.id}"]
    _preload({name for case in chosen for name in case.needs})
    done = []
    for case in chosen:
        done.append((case, in_process(case, folder, options.seconds)))
        widths = (20, 46, 3, 6, 8, 8, 12, 18, 160)
        print("  ".join(text[:width] for text, width in zip(row(*done[-1]), widths)), flush=True)
    _write(options, done)
    right = sum(outcome.right is True for _, outcome in done)
    known = sum(bool(outcome.known) and not outcome.right for _, outcome in done)
    ran = sum(outcome.ran for _, outcome in done)
    print(f"{len(done)} kernels: {ran} ran, {right} right, {known} known exceptions", file=sys.stderr)
    return 0 if right + known == len(done) else 1


def _preload(modules: set[str]) -> None:
    """What every case needs, once: the emulator, with its compiled code loaded."""
    import numpy as np

    for name in sorted(modules):
        with suppress(ImportError):
            importlib.import_module(name)

    import sim
    import trnprof

    with sim.stand_ins("trn2"):
        import nki
        import nki.language as nl

        def doubled(a: Any) -> Any:
            out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.multiply(nl.load(a), 2))
            return out

        run = sim.run(nki.jit(doubled), np.ones((128, 128), np.float32))
    trnprof.classify(run.trace)


def _write(options: argparse.Namespace, done: list[tuple[Case, Outcome]]) -> None:
    if options.json:
        keys = [item.name for item in fields(Case) if item.name not in ("run", "needs")]
        records = [{key: getattr(case, key) for key in keys} | asdict(outcome) for case, outcome in done]
        options.json.write_text(json.dumps(records, indent=1))
    if options.page:
        from tests import conformance

        options.page.write_text(conformance.page(options.folder.resolve(), done))


if __name__ == "__main__":
    from tests.corpora import main as entry

    raise SystemExit(entry())

"""The entry of the emulator: run a kernel, get its values and its trace."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import reprlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import SourceFileLoader
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sim import compiler, display, dtypes, garbage, recycling, spec, stages
from sim.errors import CapacityError, InputError, TrnprofError, UnsupportedError
from sim.memory import View, storage_dtype
from sim.nki import environment, frameworks, lockstep, session, shim, subset
from sim.nki.kernel import Kernel
from sim.nki.tensor import NkiTensor
from sim.program import Program, ProgramBuilder, Role, TooManyValues, is_ours
from sim.record import record
from sim.retiming import Recording
from sim.schedule import schedule
from sim.trace import NONE, Finding, Memory, RegionKind, Trace


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and dtype of an input without its data, for runs with `values=False`."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, slots=True)
class PerRank:
    """An argument of which every rank has its own."""

    values: tuple[Any, ...]


def of_rank(value: Any, rank: int) -> Any:
    """What a rank sees of an argument."""
    if not isinstance(value, PerRank):
        return value
    if rank >= len(value.values):
        raise InputError(f"PerRank has {len(value.values)} values, rank {rank} has none")
    return value.values[rank]


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """What one kernel launch gave."""

    outputs: tuple[np.ndarray, ...] | None
    """Arrays in the kernel's dtypes; None with values=False."""
    trace: Trace
    program: Program
    """The instructions before time: what passes and what-ifs start from."""
    result: Any = None
    """`outputs` in the shape that the kernel returned them: one array, a tuple, a dict."""
    ranks: tuple[tuple[np.ndarray, ...], ...] | None = None
    """`outputs` of every rank; trace and program are those of rank 0."""

    def __repr__(self) -> str:
        outputs = ", ".join(f"{output['dtype']}{output['shape']}" for output in self.trace.meta.outputs)
        meta = self.trace.meta
        return f"Run({meta.kernel} on {meta.device}, latency_ns={self.latency_ns:.1f}, outputs=({outputs}))"

    def _repr_html_(self) -> str | None:
        return display.html(self)

    @property
    def latency_ns(self) -> float:
        """Kernel window: first instruction issued to last completion."""
        first, last = self.trace.meta.window
        return (last - first) / 1e3

    @property
    def total_ns(self) -> float:
        """What a profile calls total_time: the window with preamble and tail."""
        return self.trace.meta.total_ps / 1e3

    @property
    def benchmark_ns(self) -> float | None:
        """What nki.benchmark's p50 reports."""
        value = self.trace.meta.benchmark_ps
        return None if value is None else value / 1e3

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.trace.meta.findings


def run(
    kernel: Callable,
    *inputs: Any,
    device: str = "trn2",
    lnc: int = 1,
    values: bool = True,
    seed: int = 0,
    options: compiler.Options | None = None,
    passes: Mapping[str, bool | int] | None = None,
    ranks: int = 1,
    **scalars: Any,
) -> Run:
    """Run one kernel on the emulated device.

    kernel  : a function decorated with @nki.jit, `kernel[grid]`, or a plain function
    inputs  : ndarrays, torch or jax arrays, scalars; TensorSpec with values=False
    lnc     : physical cores of one logical core, 1 or 2; `kernel[2]` says the same
    values  : False traces shapes and time only, at full size, without touching data
    options : what the compiler is taken to do; by default what it does for the kernel's API generation
    passes  : single passes to switch, by the names of `sim.passes.PASSES`: {"hoist": False, "buffers": 4}
    ranks   : logical cores that run the kernel together, for its collectives; `PerRank` gives each its own input
    raises  : InputError, UnsupportedError, CapacityError with the kernel's source line
    """
    target = spec.device(device)
    if not callable(kernel):
        raise InputError(f"sim.run: kernel: {kernel!r} is no function", remedy="get one with sim.load('FILE.py::NAME')")
    if not target.emulated:
        raise UnsupportedError(f"{target.title} has no timing model", remedy="only its roofline is known")
    if lnc not in (1, 2):
        raise InputError(f"lnc={lnc!r}: a logical core has 1 or 2 physical cores")
    wrapped = kernel if isinstance(kernel, Kernel) else _decorated(kernel)
    grid = wrapped.grid or ((lnc,) if lnc > 1 else ())
    wrapped.check_grid(grid, target)
    if ranks < 1:
        raise InputError(f"ranks={ranks}: at least one must run")
    asked = (target, values, seed, wrapped, grid, ranks, inputs, scalars)
    try:
        options = options or compiler.Options.for_generation(wrapped.generation)
        return _run(asked, options.switched(passes or {}))
    finally:
        stages.enter(None)


def _run(asked: tuple, options: compiler.Options) -> Run:
    """One launch; `asked` is what `_launched` takes."""
    _, values, _, wrapped, *_ = asked
    if values:
        environment.check_rounding()
    tracings, returned = _launched(*asked)
    outputs = [tracing.outputs(one) for tracing, one in zip(tracings, returned, strict=True)]
    finished = tracings[0].program.finish(wrapped.__name__)
    own = finished.findings + tracings[0].findings(finished, outputs[0])
    finished = replace(finished, findings=own + _of_other_ranks(own, tracings, outputs))
    trace = _time(finished, options, tracings[0].described(outputs[0]))
    if not values:
        return Run(None, trace, finished)
    if not environment.is_precise():
        finished.release()
        with dtypes.widened():
            tracings, returned = _launched(*asked)
        outputs = [tracing.outputs(one) for tracing, one in zip(tracings, returned, strict=True)]
    arrays = tuple(tuple(_host_array(view) for view in views) for views in outputs)
    for tracing in tracings:
        tracing.write_back()
    finished.release()
    return Run(arrays[0], trace, finished, _like(returned[0], iter(arrays[0])), arrays)


def _launched(
    target: spec.Device,
    values: bool,
    seed: int,
    kernel: Kernel,
    grid: tuple[int, ...],
    ranks: int,
    inputs: tuple,
    scalars: dict,
) -> tuple[list[_Tracing], list[Any]]:
    """Run the kernel on every rank, without values on one for all; what each returned."""
    tracings = [
        _Tracing(ProgramBuilder(target, values, seed + rank), kernel, grid, rank, ranks)
        for rank in range(ranks if values else 1)
    ]
    stages.enter(_stage(tracings))
    with shim.in_place(target.name):
        if len(tracings) > 1:
            return tracings, _together(tracings, inputs, scalars)
        tracing, returned = _traced(tracings[0], inputs, scalars, seed)
    return [tracing], [returned]


def _of_other_ranks(known: Iterable[Finding], tracings: list[_Tracing], outputs: list) -> tuple[Finding, ...]:
    """What only other ranks than the first do wrong; accesses that collide are looked for in the first alone."""
    said, found = {finding.sentence for finding in known}, []
    for tracing, views in zip(tracings[1:], outputs[1:]):
        program = tracing.program.finish(tracing.kernel.__name__)
        for finding in program.findings + tracing.findings(program, views):
            if finding.sentence not in said:
                said.add(finding.sentence)
                found.append(replace(finding, sentence=f"rank {tracing.rank}: {finding.sentence}", instruction=NONE))
    return tuple(found)


def _stage(tracings: list[_Tracing], total: int | None = None) -> stages.Stage:
    programs = [tracing.program for tracing in tracings]
    name = "computing" if programs[0].values else "tracing"
    return stages.Stage(tracings[0].kernel.__name__, name, lambda: sum(map(len, programs)), total)


def evaluate(
    kernel: Callable, *inputs: Any, device: str = "trn2", seed: int = 0, **scalars: Any
) -> tuple[Any, Program]:
    """What a kernel computes, whether or not it fits on the chip: its result as returned, and its instructions."""
    wrapped = kernel if isinstance(kernel, Kernel) else _decorated(kernel)
    tracing = _Tracing(ProgramBuilder(spec.device(device), True, seed), wrapped, wrapped.grid)
    try:
        with shim.in_place(device):
            tracing, returned = _traced(tracing, inputs, scalars, seed)
    finally:
        stages.enter(None)
    arrays = [view.array().copy() for view in tracing.outputs(returned)]
    tracing.write_back()
    return _like(returned, iter(arrays)), tracing.program.finish(wrapped.__name__)


def _together(tracings: list[_Tracing], inputs: tuple, scalars: dict) -> list[Any]:
    """Run the programs of all ranks; what the first program of each rank returned."""
    bodies = {place: body for tracing in tracings for place, body in tracing.bodies(inputs, scalars).items()}
    returned = lockstep.Crew(bodies, len(tracings)).run()
    return [returned[lockstep.Place(tracing.rank)] for tracing in tracings]


def _traced(tracing: _Tracing, inputs: tuple, scalars: dict, seed: int) -> tuple[_Tracing, Any]:
    """A launch whose kernel has run, and what it returned; in two passes when its values are larger than memory."""
    try:
        return tracing, tracing.trace(inputs, scalars)
    except TooManyValues:
        device, kernel, grid = tracing.program.device, tracing.kernel, tracing.grid
    shapes = _Tracing(ProgramBuilder(device, False, seed), kernel, grid)
    kept = [view.storage.index for view in shapes.outputs(shapes.trace(inputs, scalars))]
    plan = recycling.plan(shapes.program.finish(kernel.__name__), kept)
    tracing = _Tracing(ProgramBuilder(device, True, seed), kernel, grid)
    tracing.program.dropping = plan.after
    stages.enter(_stage([tracing], len(shapes.program)))
    try:
        returned = tracing.trace(inputs, scalars)
    finally:
        recycling.check(plan, tracing.program.finish(kernel.__name__))
    return tracing, returned


def _decorated(function: Callable) -> Kernel:
    """A plain function as a kernel of the API generation that its module imports."""
    modules = [value for value in getattr(function, "__globals__", {}).values() if isinstance(value, ModuleType)]
    if any(module.__name__.partition(".")[0] == "neuronxcc" for module in modules):
        from sim.nki.legacy.kernel import jit

        return jit(function)
    return Kernel(function)


def _time(program: Program, options: compiler.Options, outputs: tuple) -> Trace:
    """Compile, place and schedule the program."""
    stages.enter(stages.Stage(program.kernel, "scheduling", partial(len, program)))
    made = record(schedule(program, options), outputs=outputs)
    return replace(made, recorded=partial(Recording, program, options))


class _Tracing:
    """One launch: binds arguments to tensors, runs the kernel's Python over its grid."""

    def __init__(self, program: ProgramBuilder, kernel: Kernel, grid: tuple[int, ...], rank: int = 0, ranks: int = 1):
        self.program = program
        self.kernel = kernel
        self.grid = grid
        self.rank = rank
        self.ranks = ranks
        self.bound: list[tuple[NkiTensor, Any]] = []
        """(tensor, caller's array) of every array argument."""
        self.given: Iterable[Any] = ()
        """Every argument as the caller gave it."""

    def trace(self, inputs: tuple, scalars: dict) -> Any:
        """Run the kernel for every program of the grid; returns what the first returned."""
        bodies = self.bodies(inputs, scalars)
        with garbage.ignored():
            if self.ranks > 1 or self.kernel.at_once(self.grid):
                returned = lockstep.Crew(bodies, self.ranks).run()
            else:
                returned = {place: body() for place, body in bodies.items()}
        return returned[lockstep.Place()]

    def bodies(self, inputs: tuple, scalars: dict) -> dict[lockstep.Place, Callable[[], Any]]:
        """What runs each program of the grid."""
        with session.building(self.program), self.program.inside(RegionKind.KERNEL, self.kernel.__name__):
            arguments, named = self._bind(inputs, scalars)
        self.program.grid = self.grid
        self.program.pause = lockstep.pause if self.kernel.at_once(self.grid) else None
        return {
            lockstep.Place(self.rank, number): partial(self._once, place, arguments, named)
            for number, place in enumerate(np.ndindex(*self.grid))
        }

    def _once(self, place: tuple[int, ...], arguments: list, named: dict) -> Any:
        program = self.program
        program.begin(self.kernel.core(self.grid, place), place)
        try:
            with session.building(program), program.inside(RegionKind.KERNEL, self.kernel.__name__):
                return self.kernel.function(*arguments, **named)
        except (Exception, SystemExit) as error:
            fault = _fault(error, self.kernel)
            fault.device = program.device.name
            if fault is error:
                raise
            raise fault from error

    def _bind(self, inputs: tuple, scalars: dict) -> tuple[list, dict]:
        signature = inspect.signature(self.kernel.function)
        try:
            own = [of_rank(value, self.rank) for value in inputs]
            given = signature.bind(*own, **{name: of_rank(value, self.rank) for name, value in scalars.items()})
        except TypeError as error:
            raise InputError(f"{self.kernel.__name__}{signature}: {error}") from None
        names = list(given.arguments)
        args = [self._tensor(names[i] if i < len(names) else f"arg{i}", a) for i, a in enumerate(given.args)]
        self.given = given.arguments.values()
        return args, {name: self._tensor(name, value) for name, value in given.kwargs.items()}

    def _tensor(self, name: str, value: Any) -> Any:
        """An array argument as an HBM tensor, anything else as it is; a list of arrays is bound one by one."""
        if isinstance(value, (list, tuple)) and any(_is_array(item) for item in value):
            return type(value)([self._tensor(f"{name}_{i}", item) for i, item in enumerate(value)])
        if not _is_array(value):
            return value
        if not isinstance(value, TensorSpec):
            array = frameworks.host_array(value)
        try:
            kind = dtypes.parse(value.dtype if isinstance(value, (TensorSpec, dtypes.Packed)) else array.dtype)
        except InputError as error:
            raise InputError(f"{self.kernel.__name__}: argument {name}: {error.message}", remedy=error.remedy) from None
        shape = value.shape if isinstance(value, TensorSpec) else array.shape
        if not shape or min(shape) < 1:
            fault = f"{self.kernel.__name__}: argument {name}: shape {list(shape)} has no elements or no dimension"
            raise InputError(fault)
        buffer = "shared_hbm" if self.grid else "private_hbm"
        storage = self.program.allocate(tuple(shape), kind, Memory.HBM, name, role="IN", buffer=buffer)
        if self.program.values:
            if isinstance(value, TensorSpec):
                raise InputError(f"argument {name}: a TensorSpec has no data", remedy="pass an array, or values=False")
            storage.fill(np.asarray(array, storage_dtype(kind)))
        storage.written = None
        tensor = self.kernel.tensor(storage, storage.layout, 0)
        self.bound.append((tensor, value))
        return tensor

    def outputs(self, returned: Any) -> list[NkiTensor]:
        """The HBM tensors that the kernel returned, else the arguments that it wrote, which stay inputs.

        raises: InputError for what cannot be an output
        """
        found = list(_leaves(returned))
        for view in found:
            if not isinstance(view, NkiTensor):
                what = f"{self.kernel.__name__} returns {reprlib.repr(view)} of type {type(view).__name__}"
                source = self.kernel.place
                raise InputError(what, source=source, remedy="return tensors that are allocated in nl.shared_hbm")
            if view.layout.memory is not Memory.HBM and not self.kernel.on_chip_results:
                raise InputError(
                    f"{self.kernel.__name__} returns `{view.name}`, which is in {view.storage.buffer}",
                    source=self.program.strings[view.storage.source],
                    remedy="allocate outputs in nl.shared_hbm",
                )
        if not found:
            written = self.program.written_storages()
            found = [tensor for tensor, _ in self.bound if tensor.storage.index in written]
        for view in found:
            if view.storage.role != "IN":
                view.storage.role = "OUT"
        return found

    def findings(self, program: Program, outputs: list[NkiTensor]) -> tuple[Finding, ...]:
        """What is wrong with the kernel apart from its instructions."""
        found = self._unwritten(program, outputs) if outputs else self._without_output(program)
        if self.kernel.generation != "current":
            return found
        return found + subset.findings(self.kernel.function, self.given)

    def _without_output(self, program: Program) -> tuple[Finding, ...]:
        """A finding for a kernel that computes, and of which nothing is left."""
        if not len(program):
            return ()
        name, source = self.kernel.__name__, self.kernel.place
        sentence = f"`{name}` ({source}) returns no tensor and writes none of its arguments: nothing of it is left"
        return (Finding("no_output", sentence, source=source),)

    def _unwritten(self, program: Program, outputs: list[NkiTensor]) -> tuple[Finding, ...]:
        """A finding for each output that the kernel leaves unwritten; with values also for one written in part."""
        roles = compiler.operand_roles(program)
        begun = {tensor.storage.index for tensor, _ in self.bound}
        begun.update(program.operands[roles != Role.READ, 0].tolist())
        found = []
        for view in {id(view): view for view in outputs}.values():
            size, mask = prod(view.shape), view.written_array()
            missing = size if view.storage.index not in begun else 0 if mask is None else size - np.count_nonzero(mask)
            if missing:
                place = program.strings[view.storage.source]
                made = f" (allocated at {place})" if place else ""
                sentence = f"{missing} of {size} elements of the output `{view.name}`{made} are never written"
                found.append(Finding("unwritten_output", sentence, source=place))
        return tuple(found)

    def described(self, outputs: list[NkiTensor]) -> tuple:
        """Name, shape, dtype and, with values, sha256 of each output."""
        return tuple(
            {
                "name": view.name,
                "shape": list(view.shape),
                "dtype": str(view.dtype),
                "sha256": hashlib.sha256(np.ascontiguousarray(view.array()).tobytes()).hexdigest()
                if self.program.values
                else None,
            }
            for view in outputs
        )

    def write_back(self) -> None:
        """What the kernel wrote into its arguments is seen in the caller's arrays, as on the vendor's simulator."""
        written = self.program.written_storages()
        for tensor, array in self.bound:
            if tensor.storage.index in written:
                frameworks.write_into(array, tensor.array())


def _host_array(view: View) -> np.ndarray:
    """A copy of a tensor's values."""
    array = view.array().copy()
    return dtypes.Packed(array, view.layout.dtype) if view.layout.dtype in dtypes.PACKED else array


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, TensorSpec)) or (
        hasattr(value, "__array__") and hasattr(value, "shape") and not isinstance(value, (np.generic, View, type))
    )


def _leaves(value: Any) -> list[Any]:
    """The tensors in what a kernel returned, and what stands in their places."""
    if isinstance(value, NkiTensor) or _is_array(value) or isinstance(value, (int, float, str)):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in _leaves(item)]


def _like(value: Any, arrays: Any) -> Any:
    """The returned structure with arrays in place of tensors; a kernel that returns nothing gives None."""
    if isinstance(value, NkiTensor):
        return next(arrays)
    if isinstance(value, dict):
        return {key: _like(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_like(item, arrays) for item in value)
    return value


def _fault(error: BaseException, kernel: Kernel) -> TrnprofError:
    """What a running kernel raised, as an error that names the line and, in a function that it calls, the caller's."""
    fault, source = error, _raised_at(error)
    if isinstance(error, MemoryError):
        message = f"this machine has no memory for the values of `{kernel.__name__}`: {error}"
        fault = CapacityError(message, source=source, remedy="trace it without values, or use smaller inputs")
    elif not isinstance(error, TrnprofError):
        fault = InputError(f"{type(error).__name__}: {error}", source=source)
    fault.source = fault.source or source
    code = getattr(kernel.function, "__code__", None)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is code:
            caller = f"{code.co_filename}:{line}"
            fault.caller = caller if caller != fault.source else None
            break
    return fault


def _raised_at(error: BaseException) -> str | None:
    """`path:line` of the innermost frame of the user's own code."""
    if isinstance(error, SyntaxError):
        return error.filename and f"{error.filename}:{error.lineno}"
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if not is_ours(name) and not name.startswith("<frozen "):
            found = f"{name}:{line}"
    return found


def call(kernel: Kernel, args: tuple, named: dict) -> Any:
    """A plain call of a kernel under the stand-ins: runs it, records the launch, returns what it returned."""
    return recorded(kernel, args, named).result


def recorded(kernel: Kernel, args: tuple, named: dict) -> Run:
    """`call`, giving back the launch; its result is in the form of the arguments."""
    setting = shim.setting.get() or shim.Setting("trn2")
    device = environment.target_device(kernel.device or setting.device)
    lnc = environment.logical_cores(kernel.grid, kernel.__name__) if kernel.generation == "current" else 1
    rest = {"values": setting.values, "seed": setting.seed, "passes": setting.passes}
    done = run(kernel, *args, device=device, lnc=lnc, **rest, **named)
    setting.launches.append(done)
    asked = next(filter(None, map(frameworks.framework, (*args, *named.values()))), None)
    return done if asked is None else replace(done, result=frameworks.in_framework(done.result, asked))


def load(path: str, device: str = "trn2") -> Any:
    """`file.py` -> its module, `file.py::name` -> a kernel of it, imported with the stand-ins in place.

    raises: InputError for a file or a name that is not there, or a file that cannot be imported
    """
    file, _, name = str(path).partition("::")
    where = Path(file)
    if not where.is_file():
        raise InputError(f"{file}: no such file")
    module = _import(where, device)
    if not name:
        return module
    found = getattr(module, name, None)
    if not callable(found):
        kernels = [key for key, value in vars(module).items() if isinstance(value, Kernel)]
        raise InputError(f"{file} has no kernel `{name}`", remedy=f"it has {', '.join(kernels) or 'none'}")
    return found


def _import(where: Path, device: str) -> ModuleType:
    path = where.resolve()
    root, package = _package(path)
    name = f"{package}.{path.stem}" if package else path.stem
    spec_ = importlib.util.spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    module = importlib.util.module_from_spec(spec_)
    folders = [str(path.parent), str(root)] if package else [str(path.parent)]
    sys.path[:0] = folders
    try:
        with shim.stand_ins(device):
            spec_.loader.exec_module(module)
    except TrnprofError:
        raise
    except SyntaxError as error:
        at = f"{where}:{error.lineno}" if error.lineno else str(where)
        raise InputError(f"SyntaxError: {error.msg}", source=at) from error
    except (Exception, SystemExit) as error:
        at = _raised_at(error) or str(where)
        raise InputError(f"{type(error).__name__} while importing: {error}", source=at) from error
    finally:
        for folder in folders:
            sys.path.remove(folder)
    return module


def _package(path: Path) -> tuple[Path, str]:
    """The folder that holds the package of a file, and the package's dotted name, empty without one.

    A package of that name that was imported from elsewhere is forgotten, so that relative imports find this one.
    """
    names, folder = [], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if names and str(folder / names[0]) not in getattr(sys.modules.get(names[0]), "__path__", ()):
        for name in [name for name in sys.modules if name.partition(".")[0] == names[0]]:
            del sys.modules[name]
    return folder, ".".join(names)

"""Runs the tests of AWS's nki-library on the emulator: a pytest plugin that takes the place of their conftest.

Their tests hand a kernel, its inputs and a lazy reference to `test_manager.execute`; ours runs the kernel in the
emulator, compares as they do, and writes one line of JSON a case to the file that `LIBRARY_ROWS` names.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

ROWS = Path(os.environ.get("LIBRARY_ROWS", "library_rows.jsonl"))
CASES = int(os.environ.get("LIBRARY_CASES", "3"))
"""Cases run of each test function, the smallest first."""
FOLDER = Path(os.environ.get("LIBRARY_FOLDER", ".."))
"""What the places of kernels are told relative to."""
TEST = os.environ.get("LIBRARY_TEST", "")
"""Only tests whose name, with its parameters, contains these words."""
SIZES = json.loads(os.environ.get("LIBRARY_SIZES", "{}"))
"""Parameters that take the place of a test's own, where those are larger than the emulator's memory or time allow."""
SECONDS = int(os.environ.get("LIBRARY_SECONDS", "120"))
"""Most seconds a case may take."""
BYTES = int(os.environ.get("LIBRARY_BYTES", str(1 << 30)))
"""Inputs larger than this are traced for time alone."""

HOST_PACKAGES = (
    "aws_embedded_metrics",
    "boto3",
    "botocore",
    "fabric2",
    "paramiko",
    "plotext",
    "filelock",
)
"""What their test tools import to talk to real machines; nothing of it is called here."""

_stack = ExitStack()
_current: dict[str, Any] = {}


class Anything:
    """Stands for whatever is imported from a package of the host tools."""

    def __init__(self, *args: Any, **named: Any):
        pass

    def __call__(self, *args: Any, **named: Any) -> Anything:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class HostPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook for `HOST_PACKAGES`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in HOST_PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__getattr__ = Anything().__getattr__  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _neuron_dtypes() -> types.ModuleType:
    """Their internal package of number formats, as far as the tests use it."""
    from sim import dtypes

    module = types.ModuleType("neuron_dtypes")

    def static_cast(array: Any, dtype: Any) -> Any:
        target, source = dtypes.parse(dtype), getattr(array, "dtype", None)
        array = array if source is not None else np.asarray(array)
        if source is not None and source in dtypes.PACKED:
            numbers = dtypes.unpack(np.asarray(array), source)
            array = numbers.reshape(*numbers.shape[:-2], -1)
        if target in dtypes.PACKED:
            groups = array.reshape(*array.shape[:-1], array.shape[-1] // 4, 4)
            return dtypes.Packed(dtypes.pack(groups, target), target)
        return dtypes.cast(np.asarray(array), target)

    def sizeinbytes(dtype: Any) -> int:
        return dtypes.parse(dtype).itemsize

    def is_float_type(dtype: Any) -> bool:
        return str(dtype).startswith(("float", "bfloat", "tfloat", "complex"))

    module.static_cast, module.sizeinbytes, module.is_float_type = static_cast, sizeinbytes, is_float_type
    module.finfo = ml_dtypes.finfo
    module.bfloat16 = np.dtype(ml_dtypes.bfloat16)
    for name in ("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        setattr(module, name, np.dtype(getattr(ml_dtypes, name)))
    for kind in dtypes.PACKED:
        setattr(module, kind.name, kind)
    return module


def _keep_packed_dtypes() -> None:
    """Their tests make arrays of packed elements with NumPy, which does not know the formats."""
    from sim import dtypes

    def keeping(make: Callable) -> Callable:
        def made(shape: Any, dtype: Any = float, *args: Any, **named: Any) -> Any:
            array = make(shape, getattr(dtype, "storage", dtype), *args, **named)
            return dtypes.Packed(array, dtype) if isinstance(dtype, dtypes.Format) else array

        return made

    def joining(join: Callable) -> Callable:
        def joined(arrays: Any, *args: Any, **named: Any) -> Any:
            parts = list(arrays)
            array = join(parts, *args, **named)
            return dtypes.Packed(array, parts[0].dtype) if isinstance(parts[0], dtypes.Packed) else array

        return joined

    for name in ("zeros", "empty", "ones"):
        setattr(np, name, keeping(getattr(np, name)))
    for name in ("stack", "concatenate"):
        setattr(np, name, joining(getattr(np, name)))


def _scale_as_before_nki_05() -> None:
    """Their references follow quantize_mx as it was until NKI 0.4: a scale half as large, and saturation."""
    from sim import dtypes
    from sim.engines import vector_v4

    vector_v4.LARGEST_EXPONENT = {kind: largest + 1 for kind, largest in vector_v4.LARGEST_EXPONENT.items()}
    pack = dtypes.pack

    def saturated(values: np.ndarray, kind: Any) -> np.ndarray:
        limit = float(ml_dtypes.finfo(kind.packed).max)
        return pack(np.clip(values, -limit, limit), kind)

    dtypes.pack = saturated


def _names_left_out() -> None:
    """A test file uses a name that it does not import."""
    import builtins

    from test.utils.common_dataclasses import Platforms

    builtins.Platforms = Platforms


def _old_places() -> None:
    """A test imports its kernel from where it was before."""
    import importlib

    kernels = importlib.import_module("nkilib_src.nkilib.experimental.collectives")
    sys.modules["nkilib_src.nkilib.experimental.subkernels"] = kernels
    for name in ("topk_reduce", "topk_reduce_torch"):
        module = importlib.import_module(f"nkilib_src.nkilib.experimental.collectives.{name}")
        sys.modules[f"nkilib_src.nkilib.experimental.subkernels.{name}"] = module


def _orchestrator() -> types.ModuleType:
    module = types.ModuleType("test.utils.test_orchestrator")
    module.Orchestrator = Emulator
    return module


def pytest_configure(config: pytest.Config) -> None:
    import sim

    config.addinivalue_line("markers", "coverage_parametrize: their sweeps")
    sys.meta_path.insert(0, HostPackages())
    sys.modules["neuron_dtypes"] = _neuron_dtypes()
    _keep_packed_dtypes()
    _scale_as_before_nki_05()
    sys.modules["test.utils.test_orchestrator"] = _orchestrator()
    _stack.enter_context(sim.stand_ins())
    _old_places()
    _names_left_out()


def pytest_unconfigure(config: pytest.Config) -> None:
    _stack.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Their two ways of making cases."""
    from test.utils import coverage_parametrized_tests as coverage
    from test.utils import ranged_test_harness as ranged

    if ranged.RANGE_TEST_FIXTURE_NAME in metafunc.fixturenames:
        config = getattr(metafunc.function, ranged.RANGE_TEST_CONFIG_ATTR_KEY)
        ids, cases = ranged.RangeTestHarness(config).get_unique_test_cases()
        metafunc.parametrize(ranged.RANGE_TEST_FIXTURE_NAME, cases, ids=ids)
        return
    marker = metafunc.definition.get_closest_marker("coverage_parametrize")
    if marker is None:
        return
    params = {**marker.kwargs}
    options = {"filter_func": params.pop("filter", None)}
    for name in ("enable_automatic_boundary_tests", "enable_invalid_combination_tests"):
        params.pop(name, None)
        options[name] = False
    for name in ("coverage", "n_tests_per_boundary_value", "max_invalid_tests"):
        params.pop(name, None)
    cases = coverage.generate_parametrized_test_case(params=params, coverage="singles", **options)
    names, values, ids = coverage.extract_parametrize_args(params, cases)
    metafunc.parametrize(names, values, ids=ids)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the smallest cases of each test function."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _expects_refusal(item) or item.get_closest_marker("skip") or not all(w in item.name for w in TEST.split()):
            continue
        groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(item) for group in groups.values() for item in sorted(group, key=_size)[:CASES]}
    items[:] = [item for item in items if id(item) in kept]
    for item in items:
        if SIZES:
            item.callspec.params.update(SIZES)


def _expects_refusal(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    options = params.get("range_test_options")
    return bool(params.get("is_negative_test_case") or getattr(options, "is_negative_test_case", False))


def _size(item: pytest.Item) -> float:
    """How large a case is likely to be: the product of its sizes."""
    callspec = getattr(item, "callspec", None)
    return prod(_numbers(callspec.params)) if callspec else 1


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        yield max(1.0, float(value))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif hasattr(value, "tensors"):
        yield from _numbers(value.tensors)


class TooLong(Exception):
    """A case ran out of its time."""


@contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    from tests.launched import watched

    _current.clear()
    _current["case"] = item.nodeid
    started = time.perf_counter()
    try:
        with watched() as seen, _deadline(SECONDS):
            yield
        if "latency_us" not in _current:
            _current["refused"] = True
    except BaseException as error:
        if not isinstance(error, (pytest.skip.Exception, KeyboardInterrupt)):
            _current.setdefault("reason", _reason(error))
        raise
    finally:
        _current["seconds"] = round(time.perf_counter() - started, 2)
        _current["kernels"] = seen.places(FOLDER)
        _current["guesses"], _current["shapes"] = seen.guesses(), seen.shapes
        if "kernel" in _current or "reason" in _current:
            with ROWS.open("a") as file:
                file.write(json.dumps(_current, default=sorted) + "\n")


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if TooLong.__name__ in text:
        return f"more than {SECONDS} s"
    return f"{type(error).__name__}: {text}"[:400]


class Emulator:
    """Their `test_manager`."""

    def __init__(self) -> None:
        from test.utils.common_dataclasses import TraceMode

        self.trace_mode = TraceMode.Simulator

    def execute(self, case: Any) -> None:
        """Run one kernel and compare it with its reference."""
        from test.utils.common_dataclasses import PerRankLazyInputGenerator

        name = getattr(case.kernel_func, "__name__", str(case.kernel_func))
        _current["kernel"] = name
        options = case.compiler_input
        device = options.platform_target.get_compile_target()
        ranks = case.inference_args.collective_ranks
        if isinstance(case.kernel_input, PerRankLazyInputGenerator):
            inputs = _per_rank([case.kernel_input.for_rank(rank) for rank in range(ranks)])
        else:
            inputs = case.kernel_input
        _current["device"], _current["lnc"] = device, options.logical_nc_config
        run = _launch(case.kernel_func, inputs, device, options.logical_nc_config, ranks)
        _current["instructions"] = len(run.program)
        _current["latency_us"] = round(run.latency_ns / 1e3, 2)
        _current["verdict"] = _verdict(run.trace)
        _current["finding_count"] = len(run.findings)
        _current["first_finding"] = run.findings[0].sentence + f" ({run.findings[0].source})" if run.findings else ""
        if run.outputs is None:
            _current["right"] = None
            return
        self._compare(case.validation_args, run, ranks)

    def _compare(self, wanted: Any, run: Any, ranks: int) -> None:
        from test.utils.common_dataclasses import LazyGoldenGenerator, PerRankLazyGoldenGenerator

        if wanted is None:
            _current["right"] = None
            return
        golden = wanted.golden_output
        if isinstance(golden, PerRankLazyGoldenGenerator):
            pairs = [(run.ranks[rank], golden.for_rank(rank)) for rank in range(ranks)]
        elif isinstance(golden, LazyGoldenGenerator):
            pairs = [(_named(run.outputs, golden), golden.golden)]
        else:
            pairs = [(run.outputs, golden)]
        if pairs[0][1] is None:
            _current["right"] = None
            return
        errors = [_error(outputs, expected, wanted) for outputs, expected in pairs]
        _current["error"] = max(error for _, error in errors)
        _current["right"] = all(right for right, _ in errors)
        assert _current["right"], f"largest error {_current['error']:.3g} of the range"


def _named(outputs: tuple, golden: Any) -> tuple:
    """The outputs that the reference has, in its order."""
    if golden.golden is None or len(outputs) < len(golden.output_ndarray):
        return outputs
    by_name = dict(zip(golden.output_ndarray, outputs))
    return tuple(by_name[name] for name in golden.golden)


def _per_rank(inputs: list[dict[str, Any]]) -> dict[str, Any]:
    import sim

    arrays = {name for name, value in inputs[0].items() if isinstance(value, np.ndarray)}
    return {
        name: sim.PerRank(tuple(given[name] for given in inputs)) if name in arrays else value
        for name, value in inputs[0].items()
    }


def _launch(kernel: Callable, inputs: dict[str, Any], device: str, lnc: int, ranks: int) -> Any:
    import sim

    named = {name.removesuffix(".must_alias_input"): value for name, value in (inputs or {}).items()}
    given = inspect.signature(kernel).bind(**named)
    size = sum(getattr(value, "nbytes", 0) for value in named.values())
    values = size <= BYTES
    return sim.run(kernel, *given.args, device=device, lnc=lnc, ranks=ranks, values=values, **given.kwargs)


def _verdict(trace: Any) -> str | None:
    import trnprof

    verdicts = trnprof.classify(trace)
    return verdicts[0].bound if verdicts else None


def _error(outputs: tuple, expected: dict[str, Any], wanted: Any) -> tuple[bool, float]:
    """(whether all outputs agree as their tests ask for, the largest error as a share of the range)."""
    from test.integration.nkilib.utils.comparators import get_largest_abs_diff, maxAllClose

    from sim import dtypes

    if len(outputs) < len(expected):
        raise AssertionError(f"{len(outputs)} outputs, the reference has {list(expected)}")
    right, largest = True, 0.0
    for output, (name, want) in zip(outputs, expected.items()):
        if hasattr(want, "validator"):
            right &= bool(want.validator(None).validate(output.reshape(-1).view(np.uint8)))
            continue
        packed = isinstance(output, dtypes.Packed)
        got, gold = _comparable(output, packed), _comparable(want, packed)
        if os.environ.get("LIBRARY_SAVE"):
            np.savez(os.environ["LIBRARY_SAVE"] + name, got=got, gold=gold)
        if got.shape != gold.shape:
            got = got.reshape(gold.shape)
        with np.errstate(all="ignore"):
            right &= bool(maxAllClose(got, gold, wanted.relative_accuracy, wanted.absolute_accuracy))
            largest = max(largest, get_largest_abs_diff(got, gold, wanted.absolute_accuracy))
    return right, largest


def _comparable(array: Any, packed: bool) -> np.ndarray:
    """Packed elements are compared byte by byte."""
    plain = np.ascontiguousarray(np.asarray(array))
    return plain.view(np.uint8) if packed else plain.astype(np.float32)


@pytest.fixture
def test_manager() -> Emulator:
    return Emulator()


@pytest.fixture
def collector() -> Any:
    from test.utils.metrics_collector import NoopMetricsCollector

    return NoopMetricsCollector()


@pytest.fixture
def platform_target(request: pytest.FixtureRequest) -> Any:
    """Trn2, or what a test is for."""
    from test.utils.common_dataclasses import Platforms

    marker = request.node.get_closest_marker("platforms")
    excluded = marker.kwargs.get("exclude") or [] if marker else []
    return next(platform for platform in (Platforms.TRN2, Platforms.TRN3, Platforms.TRN1) if platform not in excluded)

"""The rules of the house, kept by reading the source."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for room in ("sim", "trnprof", "traces") for path in (ROOT / room).rglob("*.py"))
SOURCES.append(ROOT / "app.py")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def where(path: Path, node: ast.AST | None = None) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno if node else 1}"


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in nodes(path) if isinstance(node, FUNCTION))


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, env={**os.environ, **env}, check=False)


def modules_after(statement: str) -> set[str]:
    """Names of the top-level packages that a fresh interpreter has loaded after a statement."""
    probe = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = run(sys.executable, "-c", probe)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_imports_run_one_way() -> None:
    done = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import trnprof.cli; trnprof.cli.build_parser().format_help()", "numba numpy dash textual pyarrow plotly"),
        ("import trnprof", "numba numpy dash textual pyarrow plotly"),
        ("import sim.spec, sim.trace", "numba dash textual pyarrow plotly"),
        ("import trnprof.view, trnprof.bounds, trnprof.readers", "dash textual plotly rich flask"),
        ("import sim; sim.run", "dash textual plotly rich flask"),
    ],
    ids=["help", "package", "ground", "below the views", "emulator"],
)
def test_an_import_costs_no_more_than_it_must(statement: str, heavy: str) -> None:
    assert not modules_after(statement) & set(heavy.split())


def jit_decorator(function: ast.FunctionDef) -> ast.expr | None:
    """The decorator by which numba compiles a function, None when it does not."""
    for decorator in function.decorator_list:
        name = ast.unparse(decorator).partition("(")[0].removeprefix("numba.")
        if name in ("njit", "vectorize", "guvectorize", "stencil", "cfunc"):
            return decorator
    return None


@cache
def compiled() -> list[tuple[Path, ast.FunctionDef, ast.expr]]:
    found = ((path, function, jit_decorator(function)) for path in SOURCES for function in functions(path))
    return [(path, function, decorator) for path, function, decorator in found if decorator is not None]


@cache
def entered(kernels: Path) -> set[str]:
    """What plain code takes from a module of compiled code."""
    package, name = ".".join(kernels.parent.relative_to(ROOT).parts), kernels.stem
    taken: set[str] = set()
    for path in SOURCES:
        imports = [
            (node.module, alias) for node in nodes(path) if isinstance(node, ast.ImportFrom) for alias in node.names
        ]
        taken |= {alias.name for module, alias in imports if module == f"{package}.{name}"}
        module = {alias.asname or name for origin, alias in imports if (origin, alias.name) == (package, name)}
        attributes = [node for node in nodes(path) if isinstance(node, ast.Attribute)]
        taken |= {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id in module}
    return taken


def test_compiled_code_lives_in_jit_folders_and_is_cached() -> None:
    faults = []
    for path, function, decorator in compiled():
        options = {word.arg: ast.unparse(word.value) for word in getattr(decorator, "keywords", [])}
        arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        if path.parent.name != "jit":
            faults.append(f"{where(path, function)} {function.name}: outside a jit folder")
        if options.get("cache") != "True":
            faults.append(f"{where(path, function)} {function.name}: not cached")
        for option in {"fastmath", "parallel", "nogil"} & set(options):
            faults.append(f"{where(path, function)} {function.name}: {option}")
        if len(arguments) > 10:
            faults.append(f"{where(path, function)} {function.name}: {len(arguments)} parameters")
    assert compiled()
    assert not faults, "\n".join(faults)


def test_every_kernel_that_plain_code_enters_has_a_plain_twin() -> None:
    faults = []
    for path, function, _ in compiled():
        twins = ROOT / "tests" / "naive" / path.name
        names = {twin.name for twin in functions(twins)} if twins.exists() else set()
        if function.name in entered(path) - names:
            faults.append(f"{where(path, function)} {function.name}: no namesake in {twins.relative_to(ROOT)}")
    assert not faults, "\n".join(faults)


def test_every_compiled_function_is_entered_or_part_of_one_that_is() -> None:
    faults = []
    for path in {path for path, _, _ in compiled()}:
        kernels = {function.name: function for where_, function, _ in compiled() if where_ == path}
        reached, new = set(), entered(path) & kernels.keys()
        while new:
            reached |= new
            names = {node.id for name in new for node in ast.walk(kernels[name]) if isinstance(node, ast.Name)}
            new = (names & kernels.keys()) - reached
        faults += [f"{where(path, kernels[name])} {name}: nobody runs it" for name in kernels.keys() - reached]
    assert not faults, "\n".join(faults)


def test_plain_twins_are_plain() -> None:
    imports = {
        name
        for path in (ROOT / "tests" / "naive").glob("*.py")
        for node in nodes(path)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
        + ([node.module] if isinstance(node, ast.ImportFrom) and node.module else [])
    }
    assert not {name for name in imports if name.startswith("numba") or ".jit" in name}


def p90(sizes: list[int]) -> int:
    return sorted(sizes)[len(sizes) * 9 // 10]


def test_files_stay_short() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    longest = sorted(sizes.items(), key=lambda item: -item[1])[:10]
    assert p90(list(sizes.values())) <= 400, longest


def test_functions_stay_short() -> None:
    sizes = {
        f"{where(path, function)} {function.name}": function.end_lineno - function.lineno + 1
        for path in SOURCES
        for function in functions(path)
    }
    offenders = [f"{lines} lines: {name}" for name, lines in sizes.items() if lines > 60]
    assert not offenders, "\n".join(offenders)
    assert p90(list(sizes.values())) <= 35, sorted(sizes.items(), key=lambda item: -item[1])[:10]


def test_names_say_what_a_module_is_about() -> None:
    empty = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base", "core"}
    assert not [str(path) for path in SOURCES if empty & {*path.stem.split("_"), path.parent.name}]


def test_ruff_finds_nothing() -> None:
    done = run(sys.executable, "-m", "ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_formatter_would_change_nothing() -> None:
    done = run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_device_number_names_its_source() -> None:
    from sim import spec

    figures = [(device.name, figure) for device in spec.devices() for figure in device.figures.values()]
    assert len(figures) > 100
    faults = [
        f"{device} {figure.id}"
        for device, figure in figures
        if not figure.source.strip() or figure.kind not in ("documented", "measured", "derived", "guess")
    ]
    assert not faults, "\n".join(faults)


TIMED = [*sorted((ROOT / "sim" / "engines").glob("*.py")), ROOT / "sim" / "schedule.py"]
LAWS = {"Cost", "DmaCost", "cycles", "ns", "picoseconds"}
"""Calls that turn figures into time; so does everything in `sim.engines.laws`."""


def called(node: ast.AST) -> str:
    """`laws.vector` of a call of it, empty for anything else."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def tells_time(path: Path, function: ast.FunctionDef) -> bool:
    calls = {called(node) for node in ast.walk(function)}
    in_name = function.name.endswith(("cost", "cycles", "_ns", "_ps", "_rate"))
    return path.name in ("laws.py", "schedule.py") or in_name or any(c in LAWS or c.startswith("laws.") for c in calls)


def literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Numbers that may be costs: not indices, shapes, limits in a comparison, unit steps, nor 0, 1 and 2."""
    for child in ast.iter_child_nodes(node):
        name = called(child)
        if name.startswith(("checks.", "np.")) or name == "fail" or isinstance(child, (ast.JoinedStr, ast.Compare)):
            continue
        if isinstance(child, ast.Constant) and type(child.value) in (int, float) and child.value not in (0, 1, 2, 1000):
            yield child
        yield from literals(child.value if isinstance(child, ast.Subscript) else child)


def test_what_takes_time_has_no_number_of_its_own() -> None:
    faults = [
        f"{where(path, number)} {function.name}: {number.value}"
        for path in TIMED
        for function in functions(path)
        if tells_time(path, function)
        for number in literals(function)
    ]
    assert not faults, "figures belong into sim/devices:\n" + "\n".join(faults)


def is_rate(node: ast.AST) -> bool:
    """Whether a number is a fraction, as rates are and sizes are not."""
    number = getattr(node, "value", None)
    return called(node) == "Fraction" or (type(number) is float and number not in (0, 1))


def test_a_table_of_rates_says_where_they_are_from() -> None:
    faults = []
    for path in TIMED:
        body = ast.parse(path.read_text()).body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            table = isinstance(statement, (ast.Assign, ast.AnnAssign)) and any(map(is_rate, ast.walk(statement)))
            if table and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                faults.append(where(path, statement))
    assert not faults, "\n".join(faults)

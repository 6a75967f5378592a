"""Python that the emulator runs and NKI's own compiler refuses: its parser, up to release 0.6, or its tracing since.

The parser reads the source of a kernel and of the functions it calls. Only what the documents name is looked for.
sources: NKI migration guide, "Language restrictions" (0.3.0); NKI language guide, "NKI Values" and "Class Support";
         generators: what release 0.7 lists as new; registers: NKI 0.6 reference, "VirtualRegister"
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from sim.nki import environment
from sim.nki.objects import NKIObject
from sim.nki.session import builder
from sim.program import is_ours
from sim.trace import Finding

TRACED = "NKI's tracing refuses it from release 0.7 on"


class Fault(NamedTuple):
    """One construct that is refused."""

    rule: str
    """What it is, as a sentence's subject."""
    remedy: str
    source: str
    """`path:line`"""


IDENTITY = ("`is`", "compare with `==` or `!=`")
GENERATOR = ("a generator", "build a list in a loop")
SEPARATOR = ("`*` before keyword-only parameters", "move all parameters with defaults to the end")
KEYS = ("a dictionary key that is no string", "use strings as keys")
LISTS = ("a list as an argument of a kernel", "pass a tuple")


def findings(kernel: Callable, arguments: Iterable[Any]) -> tuple[Finding, ...]:
    """A warning for each rule that a kernel breaks, with the first line that does.

    arguments : what the kernel was launched with
    """
    if not isinstance(kernel, FunctionType):
        return ()
    faults = [*_signature(kernel), *_arguments(kernel, arguments)]
    for function in _reached(kernel):
        faults += _constructs(function.__code__, function.__code__.co_filename)
        faults += _classes(function)
    by_rule: dict[str, list[Fault]] = {}
    for fault in faults:
        by_rule.setdefault(fault.rule, []).append(fault)
    return tuple(_finding(rule, found) for rule, found in by_rule.items())


def note_untraceable(what: str, remedy: str) -> None:
    """A warning, once a line, for what the running kernel does that only the parser of earlier releases takes."""
    program = builder()
    source = program.where()
    sentence = f"{what} ({source}): {TRACED}; {remedy}"
    if not environment.is_parsed() and all(known.sentence != sentence for known in program.findings):
        program.findings.append(Finding("unsupported_python", sentence, len(program) - 1, source))


def _finding(rule: str, faults: list[Fault]) -> Finding:
    lines = list(dict.fromkeys(fault.source for fault in faults))
    more = f", and in {len(lines) - 1} more lines" if len(lines) > 1 else ""
    sentence = f"{rule} ({lines[0]}{more}): NKI's compiler refuses it up to release 0.6; {faults[0].remedy}"
    return Finding("unsupported_python", sentence, source=lines[0])


def _at(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}"


def _signature(kernel: FunctionType) -> Iterator[Fault]:
    parameters = inspect.signature(kernel).parameters.values()
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        yield Fault(*SEPARATOR, _at(kernel.__code__))
    if any(isinstance(parameter.default, list) for parameter in parameters):
        yield Fault(*LISTS, _at(kernel.__code__))


def _arguments(kernel: FunctionType, arguments: Iterable[Any]) -> Iterator[Fault]:
    for value in arguments:
        kind = type(value)
        if kind is list:
            yield Fault(*LISTS, _at(kernel.__code__))
        elif kind.__module__ == kernel.__module__ and _refused(kind):
            yield _class_fault(kind, kernel)


def _reached(kernel: FunctionType) -> list[FunctionType]:
    """The kernel and the user's functions that it names, directly or through others."""
    found, waiting = {kernel: None}, [kernel]
    while waiting:
        for value in _named(waiting.pop()):
            function = getattr(value, "function", value)
            if isinstance(function, FunctionType) and function not in found and _of_user(function.__module__, function):
                found[function] = None
                waiting.append(function)
    return list(found)


def _named(function: FunctionType) -> list[Any]:
    """The module's values that a function names."""
    return [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]


def _of_user(module: str | None, function: FunctionType) -> bool:
    first = (module or "").partition(".")[0]
    return first not in sys.stdlib_module_names and not is_ours(function.__code__.co_filename)


def _classes(function: FunctionType) -> Iterator[Fault]:
    for value in _named(function):
        if isinstance(value, type) and value.__module__ == function.__module__ and _refused(value):
            yield _class_fault(value, function)


def _refused(kind: type) -> bool:
    """Whether a class of the user's own lacks the base that the compiler asks for, or has others beside it."""
    return kind.__bases__ != (NKIObject,) and not issubclass(kind, Enum)


def _class_fault(kind: type, function: FunctionType) -> Fault:
    rule = f"class `{kind.__name__}`, which does not derive from NKIObject alone,"
    return Fault(rule, "derive it from nki.language.NKIObject", _at(function.__code__))


@lru_cache(maxsize=4096)
def _constructs(code: CodeType, path: str) -> tuple[Fault, ...]:
    """Refused constructs in the source of one function; none when it has no source.

    path : of the code, as code objects of different files may be equal
    """
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return ()
    return tuple(Fault(*rule, f"{path}:{first + node.lineno - 1}") for node in ast.walk(tree) for rule in _rules(node))


def _rules(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        yield IDENTITY
    if isinstance(node, (ast.GeneratorExp, ast.Yield, ast.YieldFrom)):
        yield GENERATOR
    if isinstance(node, ast.Dict) and any(_no_string(key) for key in node.keys):
        yield KEYS


def _no_string(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Tuple) or (isinstance(key, ast.Constant) and not isinstance(key.value, str))

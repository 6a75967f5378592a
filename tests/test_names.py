"""Every name that a release of the API documents is there, with its parameters and defaults.

The lists in `names/` are made by `tests.documented`; that of release 0.7 is read off its reference pages.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.errors import InputError, UnsupportedError
from sim.nki import functions, shim

NAMES = Path(__file__).parent / "names"
DOCUMENTED = {path.stem: path.read_text().splitlines() for path in sorted(NAMES.glob("*.txt"))}
UNTOLD = object()
"""A default that the stubs leave open."""


@pytest.fixture(scope="module", autouse=True)
def stand_ins() -> Iterator[None]:
    with sim.stand_ins("trn3"):
        yield


@pytest.mark.parametrize("release", DOCUMENTED)
def test_every_documented_name_is_there(release: str) -> None:
    faults = [fault for line in DOCUMENTED[release] for fault in _faults(line)]
    assert faults == []


def test_the_lists_are_whole() -> None:
    assert {release: len(lines) for release, lines in DOCUMENTED.items()} == {
        "neuronxcc-2.26.1": 235,
        "nki-0.4": 5,
        "nki-0.6": 273,
        "nki-0.7": 56,
    }


def _faults(line: str) -> Iterator[str]:
    name, bracket, parameters = line.partition("(")
    name, _, value = name.partition(" = ")
    try:
        module, found = _resolved(name)
    except UnsupportedError as error:
        if not any(name.startswith(refused) and reason in str(error) for refused, reason in shim.REASONS.items()):
            yield f"{name}: {error}"
        return
    except AttributeError as error:
        yield f"{name}: {error}"
        return
    if value and found.value != ast.literal_eval(value):
        yield f"{name} is {found.value!r}, not {value}"
    if bracket:
        wanted = _wanted(f"({parameters}", module)
        yield from (f"{name}: {fault}" for fault in _differences(wanted, _own(found)))


def _resolved(name: str) -> tuple[Any, Any]:
    """The module, and what the name stands for in it."""
    module = name.rpartition(".")[0]
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ImportError:
            module = module.rpartition(".")[0]
    value = found
    for part in name.removeprefix(f"{module}.").split("."):
        value = getattr(value, part)
    return found, value


def _wanted(parameters: str, module: Any) -> list[tuple[str, Any]]:
    """Names and defaults as they are seen from a module; `**` and a `*` that takes values keep their stars."""
    arguments = ast.parse(f"lambda {parameters[1:-1]}: 0", mode="eval").body.args
    empty = [inspect.Parameter.empty] * (len(arguments.args) - len(arguments.defaults))
    defaults = [*empty, *(_default(node, module) for node in arguments.defaults)]
    found = list(zip((argument.arg for argument in arguments.args), defaults, strict=True))
    found += [(f"*{arguments.vararg.arg}", None)] if arguments.vararg else []
    for argument, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((argument.arg, _default(node, module) if node else inspect.Parameter.empty))
    return found + ([("**", None)] if arguments.kwarg else [])


def _default(node: ast.expr, module: Any) -> Any:
    text = ast.unparse(node)
    if text == "...":
        return UNTOLD
    root = "neuronxcc.nki" if module.__name__.startswith("neuronxcc") else "nki"
    language = importlib.import_module(f"{root}.language")
    return eval(text, vars(language) | vars(builtins) | vars(module))


def _own(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def _differences(wanted: list[tuple[str, Any]], own: list[inspect.Parameter]) -> Iterator[str]:
    """What a caller who follows the documents would stumble on; more parameters with defaults are none.

    `**kwargs` of the older API, of which no document says what it takes, would swallow misspelt arguments.
    """
    kinds = inspect.Parameter
    by_name = {parameter.name: parameter for parameter in own}
    positional = [p.name for p in own if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    for name, default in wanted:
        if name == "**":
            continue
        if name.startswith("*"):
            if all(parameter.kind is not kinds.VAR_POSITIONAL for parameter in own):
                yield f"takes no {name}"
        elif name not in by_name:
            yield f"has no {name}"
        elif not _same(by_name.pop(name).default, default):
            yield f"{name}={own[[p.name for p in own].index(name)].default!r}, documented {default!r}"
    names = [name for name, _ in wanted]
    if positional and [n for n in names if n in positional] != [n for n in positional if n in names]:
        yield f"order {positional}, documented {names}"
    for parameter in by_name.values():
        if parameter.default is kinds.empty and parameter.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL):
            yield f"asks for {parameter.name}"


def _same(ours: Any, documented: Any) -> bool:
    if documented is UNTOLD:
        return ours is not inspect.Parameter.empty
    if documented is inspect.Parameter.empty:
        return True
    if isinstance(documented, (list, tuple)):
        return list(ours) == list(documented)
    operator = functions.name_of(documented) if callable(documented) else None
    return ours == documented if operator is None else functions.name_of(ours) == operator


def test_a_documented_name_that_is_missing_says_why() -> None:
    import nki.language as nl

    assert not hasattr(nl, "int64")
    for name, reason in shim.REASONS.items():
        module, _, last = name.rpartition(".")
        with pytest.raises(UnsupportedError, match=name) as raised:
            getattr(importlib.import_module(module), last)
        assert reason in str(raised.value)


def test_what_only_the_compiler_minds_is_taken_and_checked() -> None:
    import nki
    from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

    config = CompileConfig(address_rotation=AddressRotation.DISABLE, non_ssa_legalization=True)
    made = nki.jit(compile_config=config, specialization_config=SpecializationConfig())(_nothing)
    assert made.function is _nothing and made.device is None
    assert nki.jit(platform_target="gen4")(_nothing)[2].device == "trn3"
    with pytest.raises(InputError, match=r"nki.jit: compile_config: \{'barrier_check': True\} is no nki.compiler"):
        nki.jit(compile_config={"barrier_check": True})(_nothing)


def _nothing() -> None:
    pass


def test_a_framework_kernel_can_be_named_but_not_used() -> None:
    import neuronxcc.nki as legacy

    with pytest.raises(UnsupportedError, match="FrameworkKernel is not emulated"):
        legacy.FrameworkKernel()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "nki.language.arange",
            r"nki.language.arange is not emulated \(it belongs to the older API, neuronxcc.",
        ),
        ("neuronxcc.nki.language.fori_loop", r"\(it belongs to the newer API, nki.language\)"),
        ("nki.language.sofmax", r"\(did you mean nki.language.softmax\?\)"),
        ("nki.language.float64", r"float64 is not emulated: an element of a tensor has 32 bits at most; use float32"),
        ("nki.isa.teleport", r"nki.isa.teleport is not emulated$"),
    ],
)
def test_a_name_that_is_missing_says_where_it_may_be_found(line: str, message: str):
    module, _, name = line.rpartition(".")
    with sim.stand_ins():
        with pytest.raises(AttributeError, match=message):
            getattr(importlib.import_module(module), name)
        with pytest.raises(ImportError, match=message):
            exec(f"from {module} import {name}", {})

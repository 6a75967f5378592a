"""A JAX function as a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from sim.errors import InputError, UnsupportedError
from sim.frontends.graph import FrameworkGraph
from sim.frontends.ir import Program, Value
from sim.frontends.lowering import lower
from sim.frontends.stablehlo.reading import Reader

FORMATS = {
    "float32": "fp32", "float64": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "int64": "int32", "uint64": "uint32", "int32": "int32",
    "uint32": "uint32", "int16": "int16", "uint16": "uint16", "int8": "int8", "uint8": "uint8", "bool": "bool",
}  # fmt: skip


def trace(function: Callable[..., Any], args: Sequence[Any], weights: Sequence[int] = ()) -> FrameworkGraph:
    """The graph of a function over example arguments.

    weights : numbers of arguments that are parameters
    """
    name = getattr(function, "__name__", "function")
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    try:
        exported = jax.export.export(jitted, platforms=["cpu"], disabled_checks=_unchecked())(*args)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:300]
        raise UnsupportedError(f"{name}: JAX cannot export it: {type(error).__name__}: {first}") from error
    inputs = [Value(*_spec(name, aval), name, role)
              for (name, role), aval in zip(_names(args, weights), exported.in_avals, strict=True)]  # fmt: skip
    return lower(name, read(exported.mlir_module(), inputs, exported.module_kept_var_idx), {})


def _unchecked() -> list[Any]:
    """Calls that JAX would not promise to keep: what is not known here is told by name."""
    check = jax.export.DisabledSafetyCheck
    return [check.platform(), *(check.custom_call(name) for name in ("Sharding", "lapack_spotrf_ffi"))]


def _names(args: Sequence[Any], weights: Sequence[int]) -> list[tuple[str, str]]:
    """Names and roles of the leaves of the arguments."""
    found = []
    for path, _ in jax.tree_util.tree_flatten_with_path(tuple(args))[0]:
        number = path[0].idx
        rest = jax.tree_util.keystr(path[1:], simple=True, separator=".")
        role = "weight" if number in weights else "activation"
        found.append((f"{number}.{rest}" if rest else str(number), role))
    return found


def _spec(name: str, aval: Any) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an argument, in the formats that the device has."""
    dtype = FORMATS.get(str(aval.dtype))
    if dtype is None:
        raise InputError(f"input {name}: dtype {aval.dtype}, the device has none such")
    return tuple(aval.shape), dtype


def read(text: str, inputs: Sequence[Value], kept: Sequence[int]) -> Program:
    """A module of StableHLO as a program; `kept` are the numbers of the inputs that it asks for."""
    context = make_ir_context()
    with context, ir.Location.unknown(context):
        return Reader(ir.Module.parse(text, context)).read(inputs, kept)

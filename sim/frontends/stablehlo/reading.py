"""Reads the operations of a StableHLO module; calls and composites are read where they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from sim.frontends.builder import Builder
from sim.frontends.ir import NUMPY, UNSUPPORTED, Node, Program, Value

DTYPES = {
    "f32": "fp32", "f64": "fp32", "f16": "fp16", "bf16": "bf16", "f8E4M3": "fp8_e4m3", "f8E4M3FN": "fp8_e4m3",
    "f8E5M2": "fp8_e5m2", "i64": "int32", "ui64": "uint32", "i32": "int32", "ui32": "uint32", "i16": "int16",
    "ui16": "uint16", "i8": "int8", "ui8": "uint8", "i1": "bool",
}  # fmt: skip
"""64-bit numbers become 32-bit ones, as the device has no others."""

INNER = ("while", "body", "cond", "closed_call")
"""Scopes that JAX opens by itself; it also has one for each einsum, by its letters."""

Spec = tuple[tuple[int, ...], str]


class Unwritten(Exception):
    """What a rule cannot write down, and why."""


class Reader:
    """Writes operations down one after the other."""

    def __init__(self, module: ir.Module):
        self.builder = Builder()
        # Its operations go with it.
        self.module = module
        self.functions = {text(one.attributes["sym_name"]): one for one in module.body.operations}
        self.made: dict[Any, Any] = {}
        self.inside = 0
        """Calls that are being read."""

    def read(self, inputs: Sequence[Value], kept: Sequence[int]) -> Program:
        """The main function.

        kept : numbers of the inputs that it asks for
        """
        outputs = self.walk(self.functions["main"].regions[0].blocks[0], [inputs[at] for at in kept])
        return Program(tuple(inputs), tuple(self.builder.nodes), tuple(outputs))

    def walk(self, block: Any, given: Sequence[Any]) -> list[Any]:
        """What a block gives back for its arguments."""
        self.made.update(zip(block.arguments, given, strict=True))
        for op in block.operations:
            if op.operation.name in ("func.return", "stablehlo.return"):
                return [self.made[value] for value in op.operands]
            made = self._done(op)
            for result, value in zip(op.results, made, strict=True):
                self.made[result] = value
        return []

    def _done(self, op: Any) -> list[Any]:
        from sim.frontends.stablehlo.rules import RULES

        name = op.operation.name
        if not self.inside:
            found = place(op)
            self.builder.place = self.builder.place if found is None else found
        self.builder.source = name
        inputs = [self.made[value] for value in op.operands]
        if name in ("func.call", "call"):
            return self.call(text(op.attributes["callee"]).lstrip("@"), inputs)
        specs = [spec_of(result.type) for result in op.results]
        if name == "stablehlo.composite":
            return self._composite(op, inputs, specs)
        told = f"{name} @{text(op.attributes['call_target_name'])}" if name == "stablehlo.custom_call" else name
        rule = RULES.get(name.removeprefix("stablehlo."))
        strange = next((one for one, spec in zip(op.results, specs) if spec is None), None)
        if strange is not None:
            return self._unsupported(told, f"values of {strange.type}", inputs, specs)
        if any(isinstance(one, Value) and one.dtype == "strange" for one in inputs):
            return self._unsupported(told, "complex numbers", inputs, specs)
        if rule is None:
            return self._unsupported(told, "nobody has written it", inputs, specs)
        return self._ruled(rule, told, op, inputs, specs)

    def _ruled(self, rule: Any, told: str, op: Any, inputs: list, specs: list) -> list[Any]:
        try:
            made = rule(self, op, inputs, specs)
        except Unwritten as error:
            return self._unsupported(told, str(error), inputs, specs)
        values = list(made) if isinstance(made, (tuple, list)) else [made]
        for value, spec in zip(values, specs, strict=True):
            if isinstance(value, Value) and (value.shape, value.dtype) != spec:
                here = f"{value.dtype}{list(value.shape)}"
                raise ValueError(f"{told}: {here} here, {spec[1]}{list(spec[0])} in StableHLO")
        return values

    def call(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """A function of the module, read where it is called: values of an earlier call give way."""
        block = self.functions[name].regions[0].blocks[0]
        self.inside += 1
        found = self.walk(block, inputs)
        self.inside -= 1
        return found

    def _composite(self, op: Any, inputs: list, specs: list) -> list[Any]:
        """By its own name where there is a rule, else by its parts."""
        from sim.frontends.stablehlo.rules import RULES

        name = text(op.attributes["name"])
        if name in RULES:
            return self._ruled(RULES[name], name, op, inputs, specs)
        return self.call(text(op.attributes["decomposition"]).lstrip("@"), inputs)

    def region(self, op: Any, number: int, given: Sequence[Value]) -> list[Any]:
        """What a region makes of values, written down here."""
        self.inside += 1
        found = self.walk(op.regions[number].blocks[0], given)
        self.inside -= 1
        return found

    def apart(self, op: Any, number: int, specs: Sequence[Spec]) -> tuple[Program, list[Value], list[Value]]:
        """A region as a program of its own, its arguments, and the values from outside that it asks for."""
        outer, self.builder = self.builder, Builder()
        self.builder.place, self.builder.source = outer.place, outer.source
        arguments = [Value(*spec, name=f"carried {at}") for at, spec in enumerate(specs)]
        outputs = self.region(op, number, arguments)
        inner, self.builder = self.builder, outer
        known = {*arguments, *(value for node in inner.nodes for value in node.outputs)}
        asked = [value for node in inner.nodes for value in node.inputs] + outputs
        captured = [one for one in dict.fromkeys(asked) if one not in known and one.data is None]
        return Program((*arguments, *captured), tuple(inner.nodes), (*outputs, *captured)), arguments, captured

    def tried(self, op: Any, number: int, numbers: Sequence[float], dtypes: Sequence[str]) -> list[float | None]:
        """What a region makes of numbers; None for what cannot be said ahead."""
        from sim.frontends.rewriting import simplify

        outer, self.builder = self.builder, Builder()
        given = [self.builder.constant(one, dtype) for one, dtype in zip(numbers, dtypes)]
        outputs = self.region(op, number, given)
        inner, self.builder = self.builder, outer
        return [one.number for one in simplify(Program((), tuple(inner.nodes), tuple(outputs))).outputs]

    def _unsupported(self, name: str, why: str, inputs: Sequence[Any], specs: Sequence[Spec | None]) -> list[Any]:
        tensors = [one for one in inputs if isinstance(one, Value)]
        outputs = tuple(Value((1,), "strange") if spec is None else Value(*spec) for spec in specs)
        shown = outputs or (Value((1,), "fp32"),)
        node = Node(UNSUPPORTED, tuple(tensors), shown, {"name": name, "why": why}, self.builder.place, name)
        self.builder.nodes.append(node)
        return list(outputs)


def place(op: Any) -> str | None:
    """The scopes that an operation was written in, those of a gradient under `backward`; None where nothing is said."""
    found = re.match(r'loc\("([^"]*)"', str(op.location))
    if found is None or "/" not in found[1]:
        return None
    path = found[1].rpartition("/")[0]
    backward = "transpose(" in path
    bare = re.sub(r"\b(?:jit|pjit)\([^()]*\)", "", path)
    while re.search(r"\w+\(([^()]*)\)", bare):
        bare = re.sub(r"\w+\(([^()]*)\)", r"\1", bare)
    parts = [part for part in bare.split("/") if part and part not in INNER and "->" not in part]
    return "/".join((["backward"] if backward else []) + parts)


def text(attribute: Any) -> str:
    """The text of an attribute."""
    return str(getattr(attribute, "value", attribute)).strip('"')


def spec_of(kind: Any) -> Spec | None:
    """Shape and dtype of a type; None for one that the device does not have."""
    try:
        tensor = ir.RankedTensorType(kind)
    except ValueError:
        return None
    dtype = DTYPES.get(str(tensor.element_type))
    return None if dtype is None else (tuple(tensor.shape), dtype)


def elements(attribute: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
    """The numbers of a dense attribute."""
    if attribute.is_splat:
        single = attribute.get_splat_value().value
        return np.full(shape, single, NUMPY[dtype])
    try:
        return np.array(attribute).reshape(shape).astype(NUMPY[dtype])
    except (TypeError, ValueError):
        numbers = [float(attribute[at]) for at in range(len(attribute))]
        return np.array(numbers).reshape(shape).astype(NUMPY[dtype])

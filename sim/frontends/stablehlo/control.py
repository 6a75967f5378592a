"""Loops and branches, and calls of what is not StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.frontends.ir import Value
from sim.frontends.stablehlo.folding import top_k
from sim.frontends.stablehlo.reading import Reader, Unwritten, text
from sim.frontends.stablehlo.shapes import known_number

HANDED_ON = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
             "LayoutConstraint")  # fmt: skip
LONGEST = 1 << 20
"""Trips of a loop."""


def loop(reader: Reader, op: Any, inputs: list, specs: list) -> list[Value]:
    """A loop that counts up to a number that is known; its body once, to be done so often."""
    trips = _trips(reader, op, inputs)
    program, arguments, captured = reader.apart(op, 1, specs)
    b = reader.builder
    shapes = [(one.shape, one.dtype) for one in program.inputs]
    made = b.add("loop", [*inputs, *captured], *shapes, body=program, trips=trips)
    return [made] if len(shapes) == 1 else list(made[: len(arguments)])


def _trips(reader: Reader, op: Any, inputs: list) -> int:
    """How often the body is done: the counter is the one value that the condition compares with a number."""
    block = op.regions[0].blocks[0]
    operations = list(block.operations)
    compares = [one for one in operations if one.operation.name == "stablehlo.compare"]
    others = [one for one in operations if one.operation.name not in ("stablehlo.constant", "stablehlo.return")]
    if len(compares) != 1 or len(others) != 1 or "LT" not in str(compares[0].attributes["comparison_direction"]):
        raise Unwritten("how often it is done depends on data")
    counter, limit = compares[0].operands
    places = list(block.arguments)
    if counter not in places:
        raise Unwritten("how often it is done depends on data")
    at = places.index(counter)
    first = known_number(reader.builder, inputs[at])
    last = _number(reader, limit, operations, places, inputs)
    step = _step(op, at, reader)
    if first is None or last is None or not step:
        raise Unwritten("how often it is done depends on data")
    trips = max(0, -(-int(last - first) // int(step)))
    if trips > LONGEST:
        raise Unwritten(f"{trips} times are more than {LONGEST}")
    return trips


def _number(reader: Reader, value: Any, operations: list, places: list, inputs: list) -> float | None:
    """A number that the condition holds itself, that comes from outside, or that the loop carries unchanged."""
    for one in operations:
        if one.operation.name == "stablehlo.constant" and one.results[0] == value:
            return float(one.attributes["value"].get_splat_value().value)
    known = inputs[places.index(value)] if value in places else reader.made.get(value)
    return known_number(reader.builder, known) if isinstance(known, Value) else None


def _step(op: Any, at: int, reader: Reader) -> float | None:
    """What the body adds to its counter."""
    block = op.regions[1].blocks[0]
    operations = list(block.operations)
    counter = operations[-1].operands[at]
    for one in operations:
        if one.operation.name == "stablehlo.add" and one.results[0] == counter:
            if one.operands[0] != block.arguments[at]:
                return None
            return _number(reader, one.operands[1], operations, [], [])
    return None


def case(reader: Reader, op: Any, inputs: list, specs: list) -> list[Value]:
    """A branch that is known is the only one that is done; else all are, and one is chosen."""
    b, number, count = reader.builder, known_number(reader.builder, inputs[0]), len(op.regions)
    is_if = op.operation.name == "stablehlo.if"
    if number is not None:
        chosen = (0 if number else 1) if is_if else int(number) if 0 <= number < count else count - 1
        return reader.region(op, chosen, [])
    made = [reader.region(op, branch, []) for branch in range(count)]
    found = made[-1]
    for branch in range(count - 2, -1, -1):
        mask = inputs[0] if is_if else b.map("equal", inputs[0], branch)
        found = [b.map("select", mask, one, other, dtype=one.dtype) for one, other in zip(made[branch], found)]
    return found


def mapped(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """A function of single elements, done on all at once."""
    return reader.region(op, 0, inputs)[0]


def custom_call(reader: Reader, op: Any, inputs: list, specs: list) -> Any:
    target = text(op.attributes["call_target_name"])
    if target in HANDED_ON:
        return inputs[0]
    if target == "mhlo.topk":
        return top_k(reader, op, inputs, specs)
    raise Unwritten("a call of what is not StableHLO")


def refused(why: str) -> Callable[..., Any]:
    def rule(reader: Reader, op: Any, inputs: list, specs: list) -> Any:
        raise Unwritten(why)

    return rule


HOST, DYNAMIC, RANDOM = "it speaks with the host", "shapes that depend on data", "random numbers"
ALGEBRA, COMPLEX, QUANTIZED = "linear algebra that is no product", "complex numbers", "quantized numbers"
SPECIAL = "a special function without an operator"
REFUSED = {
    **dict.fromkeys(("infeed", "outfeed", "send", "recv", "create_token", "after_all", "async_start",
                     "async_done"), HOST),
    **dict.fromkeys(("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad",
                     "dynamic_reshape", "real_dynamic_slice", "set_dimension_size"), DYNAMIC),
    **dict.fromkeys(("rng", "rng_bit_generator"), RANDOM),
    **dict.fromkeys(("cholesky", "triangular_solve"), ALGEBRA),
    **dict.fromkeys(("complex", "real", "imag", "fft", "chlo.broadcast_complex", "chlo.conj",
                     "chlo._asin_acos_kernel"), COMPLEX),
    **dict.fromkeys(("uniform_quantize", "uniform_dequantize"), QUANTIZED),
    **dict.fromkeys(("chlo.bessel_i1e", "chlo.broadcast_next_after", "chlo.broadcast_polygamma", "chlo.broadcast_zeta",
                     "chlo.next_after", "chlo.polygamma", "chlo.zeta", "chlo.mulhi"), SPECIAL),
    "chlo.ragged_dot": "groups whose sizes depend on data", "chlo.scan": "a loop that no exporter of JAX writes",
    "unary_einsum": "a sum over letters of one tensor", "get_tuple_element": "tuples", "tuple": "tuples",
}  # fmt: skip
"""What is told by name, and why."""

RULES: dict[str, Callable[..., Any]] = {
    **{name: refused(why) for name, why in REFUSED.items()},
    "while": loop, "case": case, "if": case, "map": mapped, "custom_call": custom_call,
}  # fmt: skip

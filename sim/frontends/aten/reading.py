"""Reads the nodes of an FX graph, and takes apart those that no rule knows, as PyTorch itself would."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from sim.errors import InputError
from sim.frontends.aten.rules import RULES
from sim.frontends.builder import Builder
from sim.frontends.ir import NUMPY, UNSUPPORTED, Program, Value

DTYPES = {
    torch.float32: "fp32", torch.float64: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2", torch.int64: "int32", torch.int32: "int32",
    torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool",
}  # fmt: skip
"""64-bit numbers become 32-bit ones, as the device has no others."""

ATEN = "aten."
STRANGE = "strange"
"""What stands for the dtype of a tensor that the device does not have."""
SIZES = ("sym_", "_assert", "_check")
DEEP = 8
"""Decompositions inside each other."""

RANDOM = ("rand", "randn", "randperm", "native_dropout", "bernoulli", "normal", "uniform", "randint", "multinomial")
COMPLEX = (torch.complex64, torch.complex128, torch.complex32)
WHY = {
    "nonzero": "how many elements come out depends on data",
    "masked_scatter": "which element goes where depends on data",
    "masked_select": "how many elements come out depends on data",
    "_local_scalar_dense": "a number on the host", "_embedding_bag": "bags whose sizes depend on data",
    "resize_": "it changes a size in place",
    "_fft_c2r": "complex numbers", "_fft_r2c": "complex numbers", "_fft_c2c": "complex numbers",
}  # fmt: skip
"""Why there is nothing for an operator, where more is known than that nobody has written it."""


def array(tensor: torch.Tensor) -> np.ndarray:
    """The values of a tensor, in the format that the graph has for them."""
    dtype, plain = DTYPES[tensor.dtype], tensor.detach().cpu().contiguous()
    if dtype in ("bf16", "fp8_e4m3", "fp8_e5m2"):
        plain = plain.to(torch.float32)
    return plain.numpy().astype(NUMPY[dtype])


class Reader:
    """Writes the nodes of a graph down one after the other."""

    def __init__(self, builder: Builder | None = None, depth: int = 0):
        self.builder = builder or Builder()
        self.depth = depth
        self.roles: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.known: dict[str, np.ndarray] = {}
        """Values of inputs that stay as they are."""
        self.made: dict[Any, Any] = {}

    def read(self, module: torch.fx.GraphModule) -> Program:
        inputs = [self._input(node) for node in module.graph.nodes if node.op == "placeholder"]
        outputs = [one for one in self.walk(module) if one is not None]
        ready = [one if isinstance(one, Value) else self.builder.constant(one, "fp32") for one in outputs]
        return Program(tuple(one for one in inputs if one), tuple(self.builder.nodes), tuple(ready))

    def walk(self, module: torch.fx.GraphModule) -> list[Any]:
        """What the graph gives back; its placeholders are known already."""
        outputs: list[Any] = []
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self.made[node] = self._held(getattr(module, node.target))
            elif node.op == "output":
                outputs = flat(self._known(node.args[0]))
            elif node.op == "call_function":
                self.made[node] = self._call(node)
        return outputs

    def _held(self, tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if isinstance(tensor, torch._subclasses.FakeTensor):
            if tensor.constant is None:
                raise LookupError("a constant whose values PyTorch does not say")
            tensor = tensor.constant
        return self.builder.constant(array(tensor), DTYPES[tensor.dtype])

    def _input(self, node: torch.fx.Node) -> Value | None:
        held = node.meta.get("val")
        if not isinstance(held, torch.Tensor):
            self.made[node] = held
            return None
        if held.dtype not in DTYPES:
            raise InputError(f"input {node.name}: dtype {held.dtype}, the device has none such")
        name = self.names.get(node.name, node.name)
        if node.name in self.known:
            self.made[node] = self.builder.constant(self.known[node.name], DTYPES[held.dtype])
            return None
        value = Value(tuple(held.shape), DTYPES[held.dtype], name, self.roles.get(node.name, "activation"))
        self.made[node] = value
        return value

    def _known(self, given: Any) -> Any:
        return torch.fx.node.map_arg(given, lambda node: self.made[node])

    def _call(self, node: torch.fx.Node) -> Any:
        name = str(node.target)
        if "getitem" in name:
            return self.made[node.args[0]][node.args[1]]
        if not self.depth:
            self.builder.place = place(node)
        self.builder.source = name
        if _is_size(node, name):
            return node.meta.get("val")
        specs = [spec_of(one) for one in flat(node.meta.get("val"))]
        args, named = self._known(node.args), self._known(node.kwargs)
        known = name.removeprefix(ATEN)
        rule = RULES.get(known) or RULES.get(known.split(".")[0])
        tensors = [one for one in flat([list(args), list(named.values())]) if isinstance(one, Value)]
        strange = next((spec for spec in specs if isinstance(spec, str)), None)
        if strange is not None or any(one.dtype == STRANGE for one in tensors):
            return self._unsupported(name, strange or "it takes what is not supported", tensors, node)
        if rule is None:
            return self._apart(node, name, args, named, tensors)
        try:
            return self._checked(rule(self.builder, specs, *args, **named), specs)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            return self._unsupported(name, f"with arguments that its rule does not know: {error}", tensors, node)

    def _apart(self, node: torch.fx.Node, name: str, args: Any, named: Any, tensors: list[Value]) -> Any:
        """An operator without a rule, as PyTorch's own parts."""
        short = name.removeprefix(ATEN).split(".")[0]
        if short in WHY or short in RANDOM:
            return self._unsupported(name, WHY.get(short, "random numbers"), tensors, node)
        module = parts(node) if self.depth < DEEP else None
        if module is None:
            return self._unsupported(name, "nobody has written it", tensors, node)
        inner = Reader(self.builder, self.depth + 1)
        given = [one for one in flat([list(args), list(named.values())]) if isinstance(one, Value)]
        for placeholder, value in zip((one for one in module.graph.nodes if one.op == "placeholder"), given):
            inner.made[placeholder] = value
        try:
            made = inner.walk(module)
        except LookupError as error:
            return self._unsupported(name, str(error), tensors, node)
        if isinstance(node.meta["val"], (tuple, list)):
            return made
        return made[0] if made else self._unsupported(name, "nobody has written it", tensors, node)

    def _unsupported(self, name: str, why: str, tensors: list[Value], node: torch.fx.Node) -> Any:
        specs = [spec_of(one) for one in flat(node.meta.get("val"))]
        real = [((1,), STRANGE) if isinstance(spec, str) else spec for spec in specs if spec is not None]
        if not real:
            self.builder.nodes.append(_nothing(self.builder, name, why, tensors))
            return None
        made = iter(flat([self.builder.unsupported(name, why, tensors, *real)]))
        outputs = [next(made) if spec is not None else None for spec in specs]
        return outputs if isinstance(node.meta["val"], (tuple, list)) else outputs[0]

    def _checked(self, made: Any, specs: list) -> Any:
        """Results in the dtypes that PyTorch says."""
        several = isinstance(made, (tuple, list))
        values = list(made) if several else [made]
        for at, (value, spec) in enumerate(zip(values, specs)):
            if isinstance(value, Value) and spec is not None:
                if value.shape != spec[0]:
                    raise ValueError(f"{self.builder.source}: {list(value.shape)} here, {list(spec[0])} in PyTorch")
                values[at] = self.builder.cast(value, spec[1])
        return values if several else values[0]


def _is_size(node: torch.fx.Node, name: str) -> bool:
    """Whether a node is a size, or checks one: it computes nothing."""
    if any(torch.is_tensor(one) for one in flat(node.meta.get("val"))):
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or name.removeprefix(ATEN).startswith(SIZES)


def _nothing(builder: Builder, name: str, why: str, inputs: list[Value]) -> Any:
    """An operator that gives no tensor."""
    from sim.frontends.ir import Node

    return Node(UNSUPPORTED, tuple(inputs), (Value((1,), "fp32"),), {"name": name, "why": why}, builder.place, name)


def parts(node: torch.fx.Node) -> torch.fx.GraphModule | None:
    """A graph that does the same by other operators; None where PyTorch knows of none."""
    decompose = _decomposition(node.target)
    if decompose is None:
        return None
    held = torch.fx.node.map_arg((list(node.args), dict(node.kwargs)), lambda one: one.meta["val"])
    leaves = [one for one in flat([held[0], list(held[1].values())]) if isinstance(one, torch.Tensor)]

    def again(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        args, named = torch.utils._pytree.tree_map(
            lambda one: next(left) if isinstance(one, torch.Tensor) else one, held
        )
        found = decompose(*args, **named)
        return list(found) if isinstance(found, (tuple, list)) else found

    try:
        mode = torch._guards.detect_fake_mode(leaves)
        with warnings.catch_warnings(), mode or torch._subclasses.FakeTensorMode():
            warnings.simplefilter("ignore")
            return make_fx(again)(*leaves)
    except Exception:
        return None


def _decomposition(target: Any) -> Callable[..., Any] | None:
    if not isinstance(target, torch._ops.OpOverload):
        return None
    table = torch._decomp.decomposition_table
    if target in table:
        return table[target]
    if target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return target.decompose
    return None


def place(node: torch.fx.Node) -> str:
    """The path of the module that a node comes from."""
    if "place" in node.meta:
        return node.meta["place"]
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return paths[-1].removeprefix("L['self'].") if paths else ""


def spec_of(value: Any) -> Any:
    """Shape and dtype; None for what is no tensor, a text where the device has no such tensors."""
    if not isinstance(value, torch.Tensor):
        return None
    if any(not isinstance(size, int) for size in value.shape):
        return "a size that depends on data"
    if value.dtype in DTYPES:
        return tuple(value.shape), DTYPES[value.dtype]
    return "complex numbers" if value.dtype in COMPLEX else f"numbers of {value.dtype}"


def flat(value: Any) -> list:
    """Lists and tuples within each other as one list."""
    if isinstance(value, (list, tuple)):
        return [one for each in value for one in flat(each)]
    if isinstance(value, dict):
        return [one for each in value.values() for one in flat(each)]
    return [value]

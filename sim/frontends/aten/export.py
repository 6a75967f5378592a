"""A PyTorch module as a program: its forward pass, or that with the gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from sim.errors import UnsupportedError
from sim.frontends.aten.reading import DTYPES, Reader, array, flat
from sim.frontends.graph import FrameworkGraph
from sim.frontends.lowering import lower

BACKWARD = "backward"
WHOLE = (
    "_scaled_dot_product_flash_attention_for_cpu", "native_layer_norm_backward", "native_group_norm_backward",
    "_softmax_backward_data", "_log_softmax_backward_data", "embedding_dense_backward", "silu_backward",
)  # fmt: skip
"""What PyTorch would take apart, and has a rule here."""

UNDIVIDED = ("linear", "matmul", "scaled_dot_product_attention")
"""The same, of a forward pass alone."""


def trace(module: torch.nn.Module, inputs: Sequence[Any]) -> FrameworkGraph:
    """The graph of a module's forward pass over example inputs."""
    try:
        table = torch.export.default_decompositions()
        for name in UNDIVIDED:
            table.pop(getattr(torch.ops.aten, name).default)
        with _quiet():
            program = torch.export.export(module, tuple(inputs), strict=False).run_decompositions(table)
    except Exception as error:
        raise _refused(module, error) from error
    reader = Reader()
    weights: dict[str, np.ndarray] = {}
    held = {**dict(program.state_dict), **program.constants}
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if kind == "PARAMETER":
            reader.roles[spec.arg.name] = "weight"
            reader.names[spec.arg.name] = spec.target
            _keep(weights, spec.target, held[spec.target])
        elif kind in ("BUFFER", "CONSTANT_TENSOR"):
            reader.roles[spec.arg.name] = "index"
            _keep(reader.known, spec.arg.name, held[spec.target])
    made = reader.read(program.graph_module)
    asked = program.graph_signature.output_specs
    returned = [at for at, spec in enumerate(asked) if spec.kind.name == "USER_OUTPUT"]
    return lower(type(module).__name__, _only(made, returned), weights)


def trace_backward(
    module: torch.nn.Module, inputs: Sequence[Any], loss: Callable[..., Any] | None = None
) -> FrameworkGraph:
    """The graph of a loss and its gradients by every parameter that has one."""
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    trained = [name for name, one in module.named_parameters() if one.requires_grad]

    def valued(tensors: dict[str, torch.Tensor], rest: dict[str, torch.Tensor], given: tuple) -> torch.Tensor:
        out = torch.func.functional_call(module, {**tensors, **rest}, given)
        return loss(out) if loss else sum(one.sum() for one in flat(out) if torch.is_tensor(one))

    def step(tensors: dict[str, torch.Tensor], rest: dict[str, torch.Tensor], given: tuple) -> tuple:
        gradients, value = torch.func.grad_and_value(valued)(tensors, rest, given)
        return value, *(gradients[name] for name in trained)

    leaves = {name: held[name].detach() for name in trained}
    rest = {name: one.detach() for name, one in held.items() if name not in leaves}
    table = {**torch._decomp.core_aten_decompositions()}
    for name in WHOLE:
        table.pop(getattr(torch.ops.aten, name).default, None)
    try:
        with _quiet():
            pure = torch.func.functionalize(step)
            made = make_fx(pure, decomposition_table=table, tracing_mode="fake")(leaves, rest, tuple(inputs))
    except Exception as error:
        raise _refused(module, error) from error
    reader = Reader()
    weights: dict[str, np.ndarray] = {}
    asked = [node for node in made.graph.nodes if node.op == "placeholder"]
    names = (*leaves, *rest)
    for node, name in zip(asked, names):
        reader.roles[node.name] = "weight" if name in trained else "index"
        reader.names[node.name] = name
        _keep(weights, name, held[name])
    _place(made, dict(zip((node.name for node in asked), names)))
    program = reader.read(made)
    return lower(f"{type(module).__name__} with gradients", program, weights, ["loss", *trained])


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch warns of what it does itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _place(made: torch.fx.GraphModule, names: dict[str, str]) -> None:
    """Says of each node which module it belongs to: that of the weight it takes, or of the node before it."""
    nodes = list(made.graph.nodes)
    loss = nodes[-1].args[0][0]
    path, before = "", ""
    for node in nodes:
        if node.op != "call_function":
            continue
        owners = [names[one.name] for one in node.all_input_nodes if one.name in names]
        path = owners[0].rpartition(".")[0] if owners else path
        node.meta["place"] = f"{before}{path}"
        before = f"{BACKWARD}/" if node is loss else before


def _keep(weights: dict[str, np.ndarray], name: str, tensor: torch.Tensor) -> None:
    """Values of a tensor that has any."""
    if not tensor.is_meta and not isinstance(tensor, torch._subclasses.FakeTensor) and tensor.dtype in DTYPES:
        weights[name] = array(tensor)


def _only(program: Any, outputs: list[int]) -> Any:
    """Without what a module writes into its buffers."""
    from dataclasses import replace

    return replace(program, outputs=tuple(program.outputs[at] for at in outputs))


def _refused(module: torch.nn.Module, error: Exception) -> UnsupportedError:
    first = (str(error).strip().splitlines() or [""])[0][:300]
    return UnsupportedError(f"{type(module).__name__}: PyTorch cannot export it: {type(error).__name__}: {first}")

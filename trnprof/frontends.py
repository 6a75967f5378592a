"""Functions of frameworks as graphs of operators, to be emulated as models are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sim.errors import UnsupportedError

if TYPE_CHECKING:
    from sim.frontends.graph import FrameworkGraph

__all__ = ["from_jax", "from_torch"]


def from_torch(
    module: Any, example_inputs: Sequence[Any], *, backward: bool = False, loss: Callable[..., Any] | None = None
) -> FrameworkGraph:
    """A PyTorch module as operators of `sim.ops`.

    module         : a torch.nn.Module, exported by `torch.export`
    example_inputs : tensors of the shapes and dtypes that are meant
    backward       : also the gradients of a loss by all parameters; outputs are the loss and the gradients
    loss           : of the module's output; its sum by default
    raises         : UnsupportedError where torch is not installed, or where it cannot export the module
    """
    _need("torch")
    from sim.frontends.aten.export import trace, trace_backward

    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    return trace_backward(module, inputs, loss) if backward else trace(module, inputs)


def from_jax(function: Callable[..., Any], *example_args: Any, weights: int | Sequence[int] = ()) -> FrameworkGraph:
    """A JAX function as operators of `sim.ops`.

    function     : what `jax.jit` takes; of a gradient, what `jax.grad` gives
    example_args : arrays, `jax.ShapeDtypeStruct`s, or trees of them
    weights      : numbers of the arguments that are a model's parameters
    raises       : UnsupportedError where jax is not installed
    """
    _need("jax")
    from sim.frontends.stablehlo.export import trace

    return trace(function, example_args, (weights,) if isinstance(weights, int) else tuple(weights))


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise UnsupportedError(f"{package} is not installed", remedy=f"pip install 'trnprof[{package}]'")

"""Functions of frameworks as graphs of operators, to be emulated as models are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, TrnprofError, UnsupportedError

if TYPE_CHECKING:
    from sim.frontends.graph import FrameworkGraph
    from sim.models import Sharding, Workload

__all__ = ["FrameworkModel", "from_jax", "from_torch", "load"]


@dataclass(frozen=True, slots=True)
class FrameworkModel:
    """A graph as `run_model` takes models: one phase, on one logical core."""

    made: FrameworkGraph
    phases: tuple[str, ...] = ("encode",)

    @property
    def name(self) -> str:
        return self.made.name

    def graph(self, workload: Workload, sharding: Sharding) -> FrameworkGraph:
        """raises : InputError for any sharding, UnsupportedError that lists what nobody has written"""
        if sharding.ranks > 1:
            fault = f"{self.name}: a framework's graph is for one logical core"
            raise InputError(fault, remedy="describe the model to spread it")
        if self.made.unsupported:
            told = ", ".join(map(str, self.made.unsupported))
            raise UnsupportedError(f"{self.name}: there is no operator for {told}")
        return self.made

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Nothing stays from call to call."""
        return 0


def load(target: str) -> FrameworkModel:
    """The graph that a function of a file returns, which takes no arguments: `model.py::build`.

    raises : InputError for a missing file or function, what it raises, or what it returns
    """
    import sim
    from sim.frontends.graph import FrameworkGraph

    path, _, name = target.partition("::")
    if not name:
        raise InputError(f"{target}: no function is named", remedy="FILE.py::FUNCTION, as trnprof run takes it")
    function = sim.load(target)
    try:
        made = function()
    except TrnprofError:
        raise
    except Exception as error:
        file = str(Path(path).resolve())
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
        at = f"{path}:{lines[-1]}" if lines else path
        raise InputError(f"{type(error).__name__}: {error}", source=at) from error
    if not isinstance(made, FrameworkGraph):
        kind = type(made).__name__
        raise InputError(
            f"{target}: returns {kind}", remedy="return what trnprof.frontends.from_torch or from_jax gives"
        )
    return FrameworkModel(made)


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

"""PyTorch modules as operators, against PyTorch."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import InputError, UnsupportedError
from sim.models.emulation import emulate, missing
from sim.trace import validate

if find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("torch is not installed: pip install 'trnprof[torch]'", allow_module_level=True)

import torch
from torch import nn
from torch.nn import functional

from tests.torch_functions import FUNCTIONS
from tests.torch_models import Decoder, models
from trnprof.cli import main
from trnprof.frontends import from_torch

MODELS = pytest.mark.parametrize("name", ["decoder", "conv net", "audio encoder"])
TOLERANCE = 2e-5
"""Of 1 + the largest value: both compute in fp32 or wider."""


def error(found: np.ndarray, wanted: torch.Tensor) -> float:
    expected = wanted.detach().double().numpy()
    assert found.shape == expected.shape
    return float(np.abs(found.astype(float) - expected).max() / (1 + np.abs(expected).max()))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def graph_of(function: Any, *inputs: torch.Tensor) -> Any:
    return from_torch(Function(function), inputs)


def operators(graph: Any) -> list[str]:
    return [operation.operator for operation, _ in graph.operations()]


@MODELS
def test_a_model_computes_what_pytorch_does(name: str) -> None:
    model, x = models()[name]
    graph = from_torch(model, [x])
    assert graph.unsupported == ()
    (found,) = graph.run(x)
    assert error(found, model(x)) < TOLERANCE


@MODELS
def test_its_gradients_are_those_of_pytorch(name: str) -> None:
    model, x = models()[name]
    graph = from_torch(model, [x], backward=True, loss=lambda out: out.square().mean())
    loss, *found = graph.run(x)
    wanted = model(x).square().mean()
    gradients = torch.autograd.grad(wanted, list(model.parameters()))
    assert [one.name for one in graph.outputs] == ["loss", *dict(model.named_parameters())]
    assert error(loss, wanted) < TOLERANCE
    assert max(error(one, other) for one, other in zip(found, gradients, strict=True)) < TOLERANCE


def test_kernels_compute_what_the_references_do() -> None:
    model, x = models()["decoder"]
    (found,) = from_torch(model, [x]).run(x, kernels=True)
    assert error(found, model(x)) < TOLERANCE


def test_layers_that_are_alike_are_told_once_and_emulated() -> None:
    graph = from_torch(Decoder(layers=3).eval(), [torch.randint(0, 50, (2, 16))])
    layers = {layer.name: layer.repeat for layer in graph.sections[0].layers}
    assert layers["layers"] == 3
    assert missing(graph) == ()
    done = emulate(graph)
    assert done.duration_ps > 0
    assert {one.operation.operator for one in done.instances} >= {"attention", "matmul", "rmsnorm", "gather"}
    validate(done.trace)


def test_what_belongs_together_is_one_operator() -> None:
    (layer,) = (one for one in from_torch(*_decoder()).sections[0].layers if one.name == "layers")
    names = [one.operator for one in layer.operations]
    assert names.count("attention") == 1
    assert names.count("rmsnorm") == 2
    assert names.count("matmul") == 7
    assert "softmax" not in names
    (attention,) = (one for one in layer.operations if one.operator == "attention")
    assert attention.scalars["causal"] is True
    assert [one.shape[1] for one in attention.inputs] == [4, 2, 2], "keys and values come once for the heads that share"
    assert sum(one.scalars.get("activation") == "silu" for one in layer.operations) == 1


def _decoder() -> tuple[nn.Module, list[torch.Tensor]]:
    return Decoder().eval(), [torch.randint(0, 50, (2, 16))]


def test_bias_and_activation_belong_to_the_product() -> None:
    graph = from_torch(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), [torch.randn(3, 8)])
    assert operators(graph) == ["matmul", "matmul"]
    first, second = (operation for operation, _ in graph.operations())
    assert first.scalars == {"transpose_w": True, "activation": "gelu"}
    assert [one.role for one in second.inputs] == ["activation", "weight", "weight"]
    assert graph.weight_bytes == 4 * sum(
        p.numel() for p in nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)).parameters()
    )


def test_a_chain_of_functions_reads_and_writes_once() -> None:
    graph = graph_of(lambda x, y: torch.where(x > y, (x * 2 + 1).exp(), y.abs() - x), *torch.randn(2, 9, 7).unbind())
    assert operators(graph) == ["expression"]


@pytest.mark.parametrize(
    "written",
    [
        lambda x, w, b: functional.layer_norm(x, (24,), w, b),
        lambda x, w, b: (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * w + b,
        lambda x, w, b: torch.addcmul(b, (x - x.sum(-1, True) / 24)
                                      * (x.square().mean(-1, True) - x.mean(-1, True).square() + 1e-5) ** -0.5, w),
    ],
    ids=["by name", "by variance", "by mean of squares"],
)  # fmt: skip
def test_a_norm_is_found_however_it_is_written(written: Any) -> None:
    assert operators(graph_of(written, torch.randn(6, 24), torch.rand(24), torch.rand(24))) == ["layernorm"]


def test_what_looks_like_a_norm_and_is_none_stays_as_it_is() -> None:
    graph = graph_of(lambda x: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-5), torch.randn(6, 24))
    assert "layernorm" not in operators(graph)


@pytest.mark.parametrize(
    "mask", [None, torch.ones(12, 12, dtype=torch.bool).tril(), torch.full((12, 12), float("-inf")).triu(1)]
)
def test_attention_by_hand_is_attention(mask: torch.Tensor | None) -> None:
    def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2) / 8**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1) @ v

    q, k, v = torch.randn(3, 2, 4, 12, 8).unbind()
    graph = graph_of(by_hand, q, k, v)
    assert operators(graph) == ["attention"]
    assert error(graph.run(q, k, v)[0], by_hand(q, k, v)) < TOLERANCE


def test_another_mask_leaves_attention_in_parts() -> None:
    q, k, v = torch.randn(3, 2, 4, 12, 8).unbind()
    mask = torch.rand(12, 12) > 0.3
    mask.fill_diagonal_(True)
    graph = graph_of(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, mask), q, k, v)
    assert "attention" not in operators(graph)
    assert error(graph.run(q, k, v)[0], functional.scaled_dot_product_attention(q, k, v, mask)) < TOLERANCE


def test_what_nobody_has_written_is_told_by_name_and_stays() -> None:
    graph = graph_of(lambda x: (x + torch.rand_like(x)).nonzero(), torch.randn(4, 4))
    assert {one.name for one in graph.unsupported} == {"aten.rand.default", "aten.nonzero.default"} or {
        one.name.split(".")[1] for one in graph.unsupported
    } == {"rand_like", "nonzero"}
    assert set(missing(graph)) == {one.name for one in graph.unsupported}
    with pytest.raises(UnsupportedError, match="nonzero"):
        graph.run(torch.randn(4, 4))
    with pytest.raises(UnsupportedError, match="nonzero"):
        emulate(graph)


def test_faulty_inputs_are_told() -> None:
    graph = from_torch(nn.Linear(8, 4), [torch.randn(3, 8)])
    with pytest.raises(InputError, match=r"0 inputs, it takes 1"):
        graph.run()
    with pytest.raises(InputError, match=r"\[3, 7\], must be \[3, 8\]"):
        graph.run(np.zeros((3, 7)))
    with pytest.raises(UnsupportedError, match="cannot export"):
        from_torch(Function(lambda x: x if x.sum() > 0 else -x), [torch.randn(3)])
    with pytest.raises(InputError, match="complex64"):
        graph_of(lambda x: x.real, torch.randn(3, dtype=torch.complex64))


def test_weights_without_values_still_make_a_graph() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4096, 14336, dtype=torch.bfloat16), nn.SiLU())
    graph = from_torch(model, [torch.empty(1, 2048, 4096, dtype=torch.bfloat16, device="meta")])
    assert graph.weight_bytes == 2 * (4096 * 14336 + 14336)
    assert graph.weights == {}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_that_nobody_listed(name: str) -> None:
    function, x = FUNCTIONS[name], torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    graph = graph_of(function, x)
    assert graph.unsupported == ()
    wanted = function(x)
    flat = torch.utils._pytree.tree_leaves(wanted)
    allowed = 1e-2 if name == "half" else 1e-4 if name == "special" else TOLERANCE
    assert max(error(one, other) for one, other in zip(graph.run(x), flat, strict=True)) < allowed


def test_the_sum_of_many_is_spread_over_the_partitions() -> None:
    x = torch.randn(64, 300)
    graph = graph_of(lambda x: (x.sum(), x.mean(), x.max()), x)
    assert [operation.inputs[0].shape for operation, _ in graph.operations()] == [(128, 150), (128,)] * 3
    assert max(error(one, other) for one, other in zip(graph.run(x), (x.sum(), x.mean(), x.max()))) < TOLERANCE


FILE = """
import torch
from trnprof.frontends import from_torch
def build():
    return from_torch(torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU()), [torch.zeros(32, 64)])
def strange():
    return from_torch(Strange(), [torch.zeros(4)])
class Strange(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()
def nothing():
    return 3
"""


def test_the_command_emulates_what_a_function_returns(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "net.py"
    path.write_text(FILE)
    assert main(["model", f"{path}::build", "--json"]) in (None, 0)
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "Sequential"
    assert [(one["operator"], one["calls"]) for one in told["operators"]] == [("matmul", 1)]
    assert told["held"]["weights"] == 4 * (64 * 128 + 128)
    for function, code, words in (("strange", 3, "_fft_r2c"), ("nothing", 1, "returns int"), ("none", 1, "none")):
        assert main(["model", f"{path}::{function}"]) == code
        assert words in capsys.readouterr().err

"""JAX functions as operators, against JAX."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from sim.errors import InputError, UnsupportedError
from sim.models.emulation import emulate, missing

if find_spec("jax") is None and not os.environ.get("CI"):
    pytest.skip("jax is not installed: pip install 'trnprof[jax]'", allow_module_level=True)

import jax
import jax.numpy as jnp

from tests.jax_models import models, normal
from trnprof.frontends import from_jax

MODELS = pytest.mark.parametrize("name", ["decoder", "conv net", "audio encoder"])
TOLERANCE = 2e-5
"""Of 1 + the largest value: both compute in fp32 or wider."""


def error(found: np.ndarray, wanted: Any) -> float:
    expected = np.asarray(wanted).astype(float)
    assert found.shape == expected.shape
    return float(np.abs(found.astype(float) - expected).max(initial=0) / (1 + np.abs(expected).max(initial=0)))


def check(function: Any, *args: Any, tolerance: float = TOLERANCE) -> Any:
    """The graph of a function that computes what JAX does."""
    graph = from_jax(function, *args)
    assert graph.unsupported == ()
    found = graph.run(*jax.tree_util.tree_leaves(args))
    wanted = jax.tree_util.tree_leaves(jax.jit(function)(*args))
    assert max(error(one, other) for one, other in zip(found, wanted, strict=True)) < tolerance
    return graph


def operators(graph: Any) -> list[str]:
    return [operation.operator for operation, _ in graph.operations()]


@MODELS
def test_a_model_computes_what_jax_does(name: str) -> None:
    check(*models()[name])


@MODELS
def test_its_gradients_are_those_of_jax(name: str) -> None:
    function, weights, x = models()[name]
    check(jax.value_and_grad(lambda p, x: jnp.square(function(p, x)).mean()), weights, x)


def test_kernels_compute_what_the_references_do() -> None:
    function, weights, x = models()["audio encoder"]
    leaves = jax.tree_util.tree_leaves((weights, x))
    (found,) = from_jax(function, weights, x).run(*leaves, kernels=True)
    assert error(found, function(weights, x)) < TOLERANCE


def test_a_scan_over_layers_is_a_layer_that_is_repeated() -> None:
    function, weights, x = models()["decoder"]
    graph = from_jax(function, weights, x, weights=0)
    (repeated,) = (one for one in graph.sections[0].layers if one.repeat == 2)
    names = [one.operator for one in repeated.operations]
    assert names.count("attention") == 1
    assert names.count("rmsnorm") == 2
    assert names.count("matmul") == 7
    assert missing(graph) == ()
    assert emulate(graph).duration_ps > 0


def test_arguments_that_are_weights_are_counted_as_such() -> None:
    graph = from_jax(lambda p, x: x @ p["w"] + p["b"], {"w": normal(8, 4), "b": normal(4)}, normal(3, 8), weights=0)
    assert operators(graph) == ["matmul"]
    assert graph.weight_bytes == 4 * (8 * 4 + 4)
    assert [one.name for one in graph.inputs] == ["0.b", "0.w", "1"]


@pytest.mark.parametrize("form", [jax.nn.gelu, lambda x: jax.nn.gelu(x, approximate=False), jax.nn.silu, jax.nn.relu])
def test_an_activation_belongs_to_the_product_before_it(form: Any) -> None:
    graph = check(lambda x, w: form(x @ w), normal(6, 8), normal(8, 4))
    if form is not jax.nn.relu:
        assert operators(graph) == ["matmul"]


FUNCTIONS = {
    "sort": lambda x: jnp.sort(x, -1),
    "argsort": lambda x: jnp.argsort(x, 0, descending=True),
    "top_k": lambda x: jax.lax.top_k(x, 3),
    "argmax": lambda x: (jnp.argmax(x, 1), jnp.argmin(x)),
    "cumsum": lambda x: (jnp.cumsum(x, 1), jax.lax.cumsum(x, 0, reverse=True)),
    "cumprod": lambda x: jnp.cumprod(x, 1),
    "cummax": lambda x: jax.lax.cummax(x, 1),
    "gather": lambda x: x[jnp.array([1, 3, 1]), 2:5],
    "take along": lambda x: jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
    "set": lambda x: x.at[jnp.array([1, 3]), 2].set(7.0),
    "add at": lambda x: x.at[jnp.array([1, 1, 3])].add(x[:3]),
    "max at": lambda x: x.at[jnp.array([1, 1, 3])].max(x[:3] * 5),
    "slice by number": lambda x: jax.lax.dynamic_slice(x, (jnp.argmax(x[:, 0]), 1), (2, 3)),
    "update by number": lambda x: jax.lax.dynamic_update_slice(x, x[:2, :2], (jnp.argmin(x[:, 0]), 3)),
    "pad": lambda x: jax.lax.pad(x, 1.5, ((1, 2, 1), (-1, 0, 2))),
    "roll": lambda x: jnp.roll(x, (1, -2), (0, 1)),
    "where": lambda x: jnp.where(jnp.isnan(x / x) | (x > 0.5), x, -x),
    "integers": lambda x: (jnp.int32(x * 10) // 3, jnp.int32(x * 10) % 4, jnp.int32(x * 9) >> 1, ~jnp.int32(x * 9)),
    "bits": lambda x: (jax.lax.population_count(jnp.uint32(jnp.abs(x) * 99)), jax.lax.clz(jnp.int32(jnp.abs(x) * 99))),
    "random": lambda x: jax.random.uniform(jax.random.key(3), x.shape),
    "dropout": lambda x: jnp.where(jax.random.bernoulli(jax.random.key(3), 0.7, x.shape), x / 0.7, 0),
    "loop": lambda x: jax.lax.fori_loop(0, 5, lambda at, y: y * 0.5 + at, x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row.sum(), c * row), 0.0, x),
    "branch": lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: jax.lax.switch(jnp.argmax(x[0]) % 3, [jnp.tanh, jnp.exp, jnp.abs], x),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
    "norm": lambda x: jnp.linalg.norm(x, axis=1),
    "variance": lambda x: (jnp.var(x, 1, ddof=1), jnp.std(x)),
    "product": lambda x: jnp.prod(x, 1),
    "any": lambda x: (jnp.any(x > 1, 1), jnp.all(x > -9)),
    "einsum": lambda x: jnp.einsum("ij,kj,ik->i", x, x, x @ x.T),
    "one hot": lambda x: jax.nn.one_hot(jnp.argmax(x, 1), 9),
    "triangle": lambda x: jnp.triu(x, 1) + jnp.eye(*x.shape),
    "half": lambda x: (x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16).T).astype(jnp.float32),
    "average pool": lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 3), (1, 2), "SAME"),
    "jacobian": lambda x: jax.jacrev(lambda row: jnp.tanh(row) * row.sum())(x[0]),
    "hessian": lambda x: jax.hessian(lambda row: jnp.sum(jnp.exp(row) * row))(x[0]),
    "batched": lambda x: jax.vmap(lambda row, at: row[at] * jnp.cumsum(row))(x, jnp.arange(x.shape[0])),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_that_nobody_listed(name: str) -> None:
    tolerance = 1e-2 if name == "half" else TOLERANCE
    check(FUNCTIONS[name], normal(5, 7), tolerance=tolerance)


SPECIAL = {
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "erfinv": lambda x: jax.scipy.special.erfinv(x / 4),
    "lgamma": lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 0.1),
    "digamma": lambda x: jax.scipy.special.digamma(jnp.abs(x) + 0.1),
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "tan": jnp.tan,
    "asin": lambda x: jnp.arcsin(x / 4),
    "acos": lambda x: jnp.arccos(x / 4),
    "atan": lambda x: jnp.arctan(x * 3),
    "atan2": lambda x: jnp.arctan2(x, x[::-1]),
    "asinh": jnp.arcsinh,
    "acosh": lambda x: jnp.arccosh(jnp.abs(x) + 1),
    "atanh": lambda x: jnp.arctanh(x / 4),
    "log1p": lambda x: jnp.log1p(jnp.abs(x) * 1e-4),
    "expm1": lambda x: jnp.expm1(x * 1e-3),
    "cbrt": jnp.cbrt,
    "sin": lambda x: jnp.sin(x * 9),
    "cos": lambda x: jnp.cos(x * 9),
    "round": lambda x: jnp.round(x * 3),
    "sign": jnp.sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "power": lambda x: jnp.power(jnp.abs(x), 1.7),
    "remainder": lambda x: (jnp.mod(x, 0.7), jnp.fmod(x, 0.7)),
    "logistic": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
}


@pytest.mark.parametrize("name", list(SPECIAL))
def test_functions_that_no_engine_has_are_written_with_those_that_one_has(name: str) -> None:
    check(SPECIAL[name], normal(5, 7), tolerance=1e-4)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (jnp.fft.fft, "stablehlo.fft"),
        (lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y * 2, jnp.abs(x)), "stablehlo.while"),
        (lambda x: jnp.linalg.cholesky(x @ x.T), "lapack_spotrf_ffi"),
    ],
)
def test_what_nobody_has_written_is_told_by_name_and_stays(function: Any, name: str) -> None:
    graph = from_jax(function, normal(5, 5))
    assert any(name in one.name for one in graph.unsupported)
    assert set(missing(graph)) >= {one.name for one in graph.unsupported if name in one.name}
    with pytest.raises(UnsupportedError, match=name):
        graph.run(normal(5, 5))
    with pytest.raises(UnsupportedError, match=name):
        emulate(graph)


def test_faulty_inputs_are_told() -> None:
    with pytest.raises(InputError, match="complex64"):
        from_jax(jnp.abs, jnp.zeros(3, jnp.complex64))
    with pytest.raises(UnsupportedError, match="cannot export"):
        from_jax(lambda x: x if x > 0 else -x, jnp.float32(1))

"""Plain calls take arrays of PyTorch and JAX and give back the same kind; run modes; NKI_PRECISE_FP."""

import ml_dtypes
import numpy as np
import pytest

import sim
from sim import dtypes
from sim.errors import InputError
from sim.nki import frameworks
from tests.chip import normal


def kernel():
    import nki
    import nki.language as nl

    @nki.jit
    def add_and_keep(x, y):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        first, second = nl.load(x), nl.load(y)
        nl.store(out, nl.add(first, second))
        nl.store(y, first)
        return out

    return nki, add_and_keep


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn", "int32", "uint8", "int8"]
)
def test_a_plain_call_gives_tensors_of_torch_for_tensors_of_torch(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    x = torch.arange(-8, 24).reshape(4, 8).clamp(min=0).to(dtype)
    y = torch.ones(4, 8).to(dtype)
    with sim.stand_ins():
        nki, kernel_ = kernel()
        for call in (kernel_, nki.simulate(kernel_)):
            given = y.clone()
            out = call(x, given)
            assert isinstance(out, torch.Tensor)
            assert out.dtype == dtype
            np.testing.assert_array_equal(out.float(), (x.float() + 1).to(dtype).float())
            np.testing.assert_array_equal(given.float(), x.float(), "what the kernel writes is seen by the caller")


class Array:
    """What a launch needs to know of an array of JAX."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values


Array.__module__ = "jaxlib.xla_extension"


def test_a_plain_call_gives_arrays_of_jax_for_arrays_of_jax(monkeypatch):
    import sys
    import types

    jax = types.ModuleType("jax")
    jax.numpy = types.SimpleNamespace(asarray=Array)
    monkeypatch.setitem(sys.modules, "jax", jax)
    x = normal(4, 8)
    with sim.stand_ins():
        _, kernel_ = kernel()
        out = kernel_(Array(x), Array(x.copy()))
    assert isinstance(out, Array)
    np.testing.assert_array_equal(out.values, 2 * x)


def test_outputs_keep_the_structure_that_the_kernel_returned():
    torch = pytest.importorskip("torch")
    given = frameworks.in_framework({"a": [normal(2, 2), 3], "b": (normal(2, 2),)}, "torch")
    assert isinstance(given["a"][0], torch.Tensor)
    assert given["a"][1] == 3
    assert isinstance(given["b"], tuple)


def test_arrays_of_numpy_stay_what_they_are():
    x, y = normal(4, 8), normal(4, 8, seed=1)
    with sim.stand_ins():
        _, kernel_ = kernel()
        out = kernel_(x, y_ := y.copy())
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_array_equal(y_, x)


def test_packed_elements_keep_their_format_through_a_launch():
    def copies():
        import nki
        import nki.language as nl

        @nki.jit
        def kernel(x):
            assert x.dtype == nl.float8_e4m3fn_x4
            out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
            nki.isa.dma_copy(out, x)
            return out

        return kernel

    numbers = normal(4, 6, 4)
    packed = dtypes.Packed(dtypes.pack(numbers, dtypes.float8_e4m3fn_x4), dtypes.float8_e4m3fn_x4)
    with sim.stand_ins("trn3"):
        import nki.isa  # noqa: F401

        (out,) = sim.run(copies(), packed, device="trn3").outputs
    assert out.dtype == "float8_e4m3fn_x4"
    np.testing.assert_array_equal(out.view(np.uint32), packed.view(np.uint32))
    assert out.view(np.uint32).dtype == np.uint32
    with pytest.raises(TypeError, match="are four numbers each"):
        out.astype(np.float32)


def test_a_benchmark_tells_the_estimate():
    x = normal(128, 64)
    with sim.stand_ins() as setting:
        nki, kernel_ = kernel()
        timed = nki.benchmark(warmup=2, iters=5)(kernel_)
        np.testing.assert_array_equal(timed(x, x.copy()), 2 * x)
        run = setting.launches[-1]
        for mode in (nki.baremetal, nki.profile):
            np.testing.assert_array_equal(mode(kernel_)(x, x.copy()), 2 * x)
    assert timed.benchmark_result.is_estimate
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) == run.benchmark_ns / 1e3
    with pytest.raises(InputError, match=r"get_latency_percentile\(33\)"):
        timed.benchmark_result.nc_latency.get_latency_percentile(33)


def test_a_launch_grid_survives_the_mode():
    with sim.stand_ins():
        nki, kernel_ = kernel()
        assert nki.benchmark(kernel_[2]).grid == nki.benchmark(kernel_)[2].grid == (2,)


def rounding():
    import nki
    import nki.language as nl

    @nki.jit
    def powers(x, y):
        assert x.dtype == nl.bfloat16
        out = nl.ndarray((64, 48), x.dtype, nl.shared_hbm)
        product = nl.copy(nl.matmul(nl.load(x), nl.load(y), transpose_x=True), dtype=nl.bfloat16)
        nl.store(out, nl.exp(product))
        return out

    return powers


def test_low_precision_is_not_rounded_on_demand_and_costs_the_same_time(monkeypatch):
    x, y = (normal(128, columns, seed=columns, scale=0.08).astype(ml_dtypes.bfloat16) for columns in (64, 48))
    exact = np.exp(x.astype(np.float32).T @ y.astype(np.float32))
    with sim.stand_ins():
        kernel_ = rounding()
        rounded = sim.run(kernel_, x, y)
        monkeypatch.setenv("NKI_PRECISE_FP", "0")
        wide = sim.run(kernel_, x, y)
    assert rounded.outputs[0].dtype == ml_dtypes.bfloat16
    assert np.abs(rounded.outputs[0].astype(np.float32) - exact).max() > 1e-3
    assert wide.outputs[0].dtype == np.float32
    np.testing.assert_allclose(wide.outputs[0], exact, rtol=1e-6)
    assert wide.latency_ns == rounded.latency_ns
    assert not dtypes.wide


def test_the_environment_chooses_the_device(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    with sim.stand_ins("trn2") as setting:
        _, kernel_ = kernel()
        kernel_(normal(4, 8), normal(4, 8))
    assert setting.launches[-1].program.device.name == "trn3"

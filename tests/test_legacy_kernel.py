"""Launches of legacy kernels: run modes, grids, allocation, memory, and what the caller sees."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sim
from sim import launch, recycling
from sim import program as programs
from sim.errors import InputError, UnsupportedError
from sim.nki.legacy import language as language
from sim.nki.legacy.launch_grid import core_of, grid_of, nc, spmd_dim
from sim.nki.shim import Setting

F32 = np.float32


@pytest.fixture
def api() -> Iterator[types.SimpleNamespace]:
    """The legacy API as a kernel file imports it."""
    with sim.stand_ins("trn2") as setting:
        import neuronxcc.nki as nki
        import neuronxcc.nki.compiler as ncc
        import neuronxcc.nki.isa as nisa
        import neuronxcc.nki.language as nl

        yield types.SimpleNamespace(nki=nki, ncc=ncc, nisa=nisa, nl=nl, setting=setting)


def doubling(api: types.SimpleNamespace) -> Any:
    nl = api.nl

    def kernel(a: Any, factor: float = 2.0) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), factor, dtype=a.dtype))
        return out

    return kernel


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape or (128, 64)).astype(F32)


# -- run modes -------------------------------------------------------------------------------------


def test_every_way_to_decorate_a_kernel_runs_it(api: types.SimpleNamespace) -> None:
    nki, x, kernel = api.nki, numbers(), doubling(api)
    ways = [
        nki.jit(kernel),
        nki.jit()(kernel),
        nki.jit(mode="simulation", platform_target="trn1")(kernel),
        nki.trace(kernel),
        nki.baremetal(save_neff_name="file.neff")(kernel),
        nki.baremetal(kernel, additional_compile_opt="--x"),
        nki.profile(working_directory="/nowhere")(kernel),
        nki.jit(nki.jit(kernel), mode="simulation"),
        api.ncc.skip_middle_end_transformations(nki.jit(kernel)),
        api.ncc.enable_stack_allocator(log_level=1)(nki.jit(kernel)),
    ]
    for decorated in ways:
        assert np.array_equal(decorated(x), 2 * x)
        assert decorated.__name__ == "kernel"
    assert np.array_equal(nki.simulate_kernel(kernel, x, factor=3.0), 3 * x)
    assert [run.trace.meta.device for run in api.setting.launches[:3]] == ["trn2", "trn2", "trn1"]
    with pytest.raises(InputError, match="mode='fast'"):
        nki.jit(kernel, mode="fast")


def test_a_benchmark_gives_the_estimate_for_every_percentile(api: types.SimpleNamespace) -> None:
    timed = api.nki.benchmark(warmup=5, iters=10)(doubling(api))
    assert timed.benchmark_result is None
    timed(numbers())
    latency = timed.benchmark_result.nc_latency
    assert latency.is_estimate
    assert latency.get_latency_percentile(50) == api.setting.launches[-1].benchmark_ns / 1e3
    assert latency.get_latency_percentile(99) == latency.get_latency_percentile(0)
    with pytest.raises(InputError, match="get_latency_percentile\\(42\\)"):
        latency.get_latency_percentile(42)


def test_what_a_kernel_writes_into_an_argument_is_seen_in_the_callers_array(api: types.SimpleNamespace) -> None:
    nl, x, out = api.nl, numbers(), np.zeros((128, 64), F32)

    @api.nki.trace
    def kernel(a: Any, b: Any) -> None:
        nl.store(b, nl.exp(nl.load(a)))

    assert api.nki.simulate_kernel(kernel, x, out) is None
    assert np.allclose(out, np.exp(x), rtol=1e-5)


def test_a_kernel_called_in_a_kernel_is_inlined(api: types.SimpleNamespace) -> None:
    inner = api.nki.jit(doubling(api))

    @api.nki.jit
    def outer(a: Any) -> Any:
        return inner(inner(a))

    x = numbers()
    assert np.array_equal(outer(x), 4 * x)
    assert len(api.setting.launches) == 1

    @api.nki.jit
    def wrong(a: Any) -> Any:
        return inner[2, 2](a)

    with pytest.raises(InputError, match="a kernel with a launch grid cannot be called inside a kernel"):
        wrong(x)


def test_a_tile_on_chip_may_be_returned(api: types.SimpleNamespace) -> None:
    nl = api.nl
    x = numbers()
    assert np.array_equal(api.nki.jit(lambda a: nl.load(a))(x), x)


def test_a_plain_function_of_a_legacy_module_is_a_legacy_kernel(api: types.SimpleNamespace) -> None:
    nl, x = api.nl, numbers()

    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        out[...] = nl.load(a)
        return out

    own = types.FunctionType(kernel.__code__, {"nl": nl}, "kernel", None, kernel.__closure__)
    assert launch._decorated(own).generation == "legacy"
    assert launch._decorated(kernel).generation == "current"
    assert np.array_equal(sim.run(own, x).outputs[0], x)


def test_a_row_outside_raises_as_the_vendors_simulation(api: types.SimpleNamespace) -> None:
    nl, nisa = api.nl, api.nisa

    @api.nki.jit(mode="simulation")
    def kernel(a: Any) -> Any:
        out = nl.ndarray((64, 16), dtype=a.dtype, buffer=nl.shared_hbm)
        rows = nisa.iota(3 * nl.arange(64)[:, None], dtype=np.int32)
        nl.store(out, nl.load(a[rows, nl.arange(16)[None, :]]))
        return out

    with pytest.raises(IndexError, match=r"^index 2064 is out of bounds for axis 0 with size 2048$"):
        kernel(numbers(128, 16))
    with pytest.raises(InputError, match="index 129 of partition 43"):
        sim.run(kernel, numbers(128, 16))


def test_types_and_strings_are_arguments_like_others(api: types.SimpleNamespace) -> None:
    nl = api.nl

    @api.nki.jit
    def kernel(a: Any, dtype: Any, label: str) -> Any:
        out = nl.ndarray(a.shape, dtype=dtype, buffer=nl.shared_hbm, name=label)
        nl.store(out, nl.load(a, dtype=dtype))
        return out

    assert kernel(numbers(), np.float16, "x").dtype == np.float16


# -- grids -----------------------------------------------------------------------------------------


def test_a_grid_spreads_over_cores_where_it_says_so() -> None:
    places = [(i, j) for i in range(4) for j in range(2)]
    cores = {
        "plain": (4, 2),
        "outer": (spmd_dim(nc(2), 2), 2),
        "sugar": (nc(2) * 2, 2),
        "inner": (spmd_dim(2, nc(2)), 2),
        "inner sugar": (2 * nc(2), 2),
    }
    found = {name: [core_of(grid, place) for place in places] for name, grid in cores.items()}
    assert found["plain"] == [0] * 8
    assert found["outer"] == found["sugar"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found["inner"] == found["inner sugar"] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert grid_of(0, "k") == (1,)
    with pytest.raises(InputError, match="a launch grid is made of positive integers"):
        grid_of((2, "x"), "k")


def test_every_program_of_a_grid_writes_its_part(api: types.SimpleNamespace) -> None:
    nl = api.nl

    @api.nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.program_id(0), nl.program_id(1)
        assert (nl.num_programs(), nl.num_programs(1), nl.program_ndim()) == (8, 2, 2)
        rows, columns = i * 128 + nl.arange(128)[:, None], j * 32 + nl.arange(32)[None, :]
        nl.store(out[rows, columns], value=nl.load(a[rows, columns]) + 1.0)
        return out

    x = numbers(512, 64)
    for grid, cores in (((4, 2), {0}), ((nc(2) * 2, 2), {0, 1})):
        run = sim.run(kernel[grid], x)
        assert np.array_equal(run.outputs[0], x + 1)
        assert set(run.program.core.tolist()) == cores


# -- allocation ------------------------------------------------------------------------------------


def behind(start: int, partition: int, fdim_size: int, pdim_size: int, idx: tuple[int, ...]) -> tuple[int, int]:
    """An allocation function that orders its parameters in its own way."""
    return partition, start + idx[0] * fdim_size


def test_blocks_lie_where_the_kernel_puts_them(api: types.SimpleNamespace) -> None:
    nl, ncc = api.nl, api.ncc

    @api.nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray(
            (4, nl.par_dim(128), 64), F32, buffer=ncc.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,))
        )
        own = nl.ndarray(
            (4, nl.par_dim(128), 64),
            F32,
            buffer=ncc.sbuf.alloc(functools.partial(behind, 8192, 0)),
        )
        banks = nl.ndarray((4, nl.par_dim(64), 128), F32, buffer=ncc.psum.mod_alloc(base_bank=2, num_bank_tiles=(3,)))
        for i in nl.affine_range(4):
            tiles[i] = nl.load(a[i])
            banks[i] = api.nisa.nc_transpose(tiles[i], engine=api.nisa.tensor_engine)
            own[i] = nl.copy(tiles[i])
            nl.store(out[i], own[i])
        return out

    x = numbers(4, 128, 64)
    result, program = launch.evaluate(kernel, x)
    assert np.array_equal(result, x)
    placed = [s.address for s in program.storages if s.address is not None]
    wide, bank = 64 * 4, 2048
    assert placed[0::3] == [(0, 1024), (0, 1024 + wide), (0, 1024), (0, 1024 + wide)]
    assert placed[1::3] == [(0, 2 * bank), (0, 3 * bank), (0, 4 * bank), (0, 2 * bank)]
    assert placed[2::3] == [(0, 8192 + i * wide) for i in range(4)]


def test_a_tensor_made_in_a_loop_keeps_the_address_of_its_first_iteration(api: types.SimpleNamespace) -> None:
    nl, ncc = api.nl, api.ncc

    def addresses(loop: Any) -> list:
        counter = [0]

        @api.nki.jit
        def kernel(a: Any) -> Any:
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            for _ in loop(2):
                for i in nl.affine_range(2):
                    tile = nl.ndarray((128, 64), F32, buffer=ncc.sbuf.mod_alloc(base_addr=counter[0]))
                    counter[0] += 256
                    tile[...] = nl.load(a[i])
                    nl.store(out[i], tile)
            return out

        _, program = launch.evaluate(kernel, numbers(2, 128, 64))
        return [storage.address[1] for storage in program.storages if storage.address]

    assert addresses(nl.sequential_range) == [0, 0, 0, 0]
    assert addresses(nl.static_range) == [0, 0, 512, 512]


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (lambda ncc: ncc.sbuf.alloc(lambda idx, pdim_size, fdim_size: 5), r"5 is no \(partition, byte\)"),
        (lambda ncc: ncc.psum.alloc(lambda idx, pdim_size, fdim_size: (0, 0)), r"\(bank, partition, byte\)"),
        (lambda ncc: ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2, 2)), "for a tensor of 1 block dimensions"),
    ],
)
def test_addresses_that_are_none_are_named(api: types.SimpleNamespace, buffer: Any, message: str) -> None:
    @api.nki.jit
    def kernel(a: Any) -> Any:
        return api.nl.ndarray((2, api.nl.par_dim(128), 64), F32, buffer=buffer(api.ncc))[0]

    with pytest.raises(InputError, match=message):
        launch.evaluate(kernel, numbers())


# -- more values than memory -----------------------------------------------------------------------


def chain(api: types.SimpleNamespace, choose: Any = None) -> Any:
    nl = api.nl

    @api.nki.jit
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        blocks = nl.ndarray((16, nl.par_dim(128), 64), F32)
        blocks[0] = nl.load(a)
        for i in nl.sequential_range(15):
            blocks[i + 1] = nl.add(blocks[i], 1.0)
            if choose is not None and choose(blocks[i + 1]):
                blocks[i + 1] = nl.add(blocks[0], 0.0)
        nl.store(out, blocks[15])
        return out

    return kernel


def test_tiles_larger_than_memory_are_dropped_after_their_last_use(
    api: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers()
    before = sim.run(chain(api), x)
    monkeypatch.setattr(programs, "VALUES_LIMIT", 4 * 128 * 64 * 4)
    run = sim.run(chain(api), x)
    assert np.array_equal(run.outputs[0], before.outputs[0])
    assert np.array_equal(run.program.form, before.program.form)
    result, program = launch.evaluate(chain(api), x)
    assert np.array_equal(result, before.outputs[0])
    held = [storage for storage in program.storages if storage.memory.name == "SBUF" and storage.bytes is not None]
    assert len(held) <= 3


def test_a_run_keeps_no_values_but_its_outputs(api: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    for precise in ("1", "0"):
        monkeypatch.setenv("NKI_PRECISE_FP", precise)
        run = sim.run(chain(api), numbers())
        assert np.isfinite(run.outputs[0]).all()
        assert all(storage.bytes is None for storage in run.program.storages)


def test_a_kernel_that_looks_at_values_cannot_drop_them(
    api: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "VALUES_LIMIT", 4 * 128 * 64 * 4)

    def choose(tile: Any) -> bool:
        return tile.storage.bytes is not None and tile.array()[0, 0] > 3

    with pytest.raises(UnsupportedError, match="what it does depends on their values"):
        sim.run(chain(api, choose), numbers())


def test_a_plan_keeps_what_is_asked_for(api: types.SimpleNamespace) -> None:
    _, program = launch.evaluate(chain(api), numbers())
    last = len(program) - 1
    plan = recycling.plan(program, kept=[program.operands[-1, 0]])
    assert program.operands[-1, 0] not in plan.after.get(last, [])
    assert sum(map(len, plan.after.values())) == 15


# -- the packages ----------------------------------------------------------------------------------


def test_the_modules_that_public_kernels_import_are_there(api: types.SimpleNamespace) -> None:
    from neuronxcc.nki.isa.constants import dge_mode
    from neuronxcc.nki.language import par_dim
    from neuronxcc.nki.typing import tensor
    from neuronxcc.starfish.support.dtype import static_cast
    from neuronxcc.starfish.support.util import allclose

    assert tensor[128, 512] is tensor
    assert par_dim(128) == 128
    assert dge_mode.hwdge is api.nisa.dge_mode.hwdge
    assert allclose(static_cast(np.ones(3), api.nl.bfloat16), np.ones(3))
    with pytest.raises((ImportError, UnsupportedError), match=r"neuronxcc\.nki\.kernels"):
        import neuronxcc.nki.kernels  # noqa: F401


NAMES = """
    abs add affine_range all all_reduce arange arctan atomic_rmw bfloat16 bfp16 bitwise_and bitwise_or
    bitwise_xor bool_ broadcast_to ceil copy cos device_print divide dropout ds empty_like equal erf erf_dx exp
    expand_dims finfo float16 float32 float8_e4m3 float8_e5m2 floor fmod fp32 full gather_flattened gelu
    gelu_apprx_sigmoid gelu_apprx_tanh gelu_dx gemm_grid gemm_stationary_grid greater greater_equal hbm int16
    int32 int8 invert left_shift less less_equal load load_transpose2d log logical_and logical_not logical_or
    logical_xor loop_reduce matmul max maximum mean mgrid min minimum mish mod multiply nc ndarray negative
    not_equal num_programs ones par_dim power private_hbm prod program_id program_ndim psum rand random_seed
    reciprocal relu right_shift rms_norm rsqrt sbuf sequential_range shared_constant shared_hbm
    shared_identity_matrix sigmoid sign silu silu_dx sin softmax softplus spmd_dim sqrt square static_cast
    static_range store subtract sum tan tanh tfloat32 tile_size transpose trunc uint16 uint32 uint8 var where
    zeros zeros_like
"""
"""`nki.language` of v2.26.1."""
CALLS = """
    activation activation_reduce affine_select bn_aggr bn_stats builtin_custom_op dge_mode dma_copy dma_engine
    dma_transpose dropout engine fp32 get_nc_version gpsimd_engine iota local_gather max8 memset nc_find_index8
    nc_match_replace8 nc_matmul nc_stream_shuffle nc_transpose nc_version oob_mode range_select reciprocal
    reduce_cmd scalar_engine scalar_tensor_tensor select_reduce sequence_bounds tensor_copy
    tensor_copy_dynamic_dst tensor_copy_dynamic_src tensor_copy_predicated tensor_engine tensor_partition_reduce
    tensor_reduce tensor_scalar tensor_scalar_reduce tensor_tensor tensor_tensor_scan unknown_engine
    vector_engine
"""
"""`nki.isa` of v2.26.1."""


def test_the_documented_names_are_there(api: types.SimpleNamespace) -> None:
    assert [name for name in NAMES.split() if not hasattr(api.nl, name)] == []
    assert [name for name in CALLS.split() if not hasattr(api.nisa, name)] == []


def test_calls_outside_a_kernel_say_so(api: types.SimpleNamespace) -> None:
    with pytest.raises(InputError, match="outside a kernel"):
        api.nl.zeros((128, 4), F32)
    assert api.nl.tile_size.gemm_moving_fmax == 512
    assert api.nl.tile_size.psum_fmax == 512


def test_device_print_writes_to_stderr(api: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    nl = api.nl

    @api.nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        nl.device_print("value:", tile)
        return tile

    kernel(np.full((1, 2), 1.5, F32))
    assert "value: [[1.5 1.5]]" in capsys.readouterr().err


def test_the_stand_ins_go_when_they_are_left() -> None:
    with sim.stand_ins() as setting:
        assert isinstance(setting, Setting)
        import neuronxcc.nki.language as nl

        assert nl.exp is language.exp
    assert "neuronxcc" not in sys.modules

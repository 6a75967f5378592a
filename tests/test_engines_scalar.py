"""The Scalar Engine: activation functions against their definitions, registers, and cost against profiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from sim.trace import NONE, Engine
from tests.chip import Chip, fp32, normal, rounded


def test_sine_goes_on_as_a_cubic_beyond_pi():
    with Chip() as chip:
        dst = chip.tensor((1, 2))
        nisa.activation(dst, nl.sin, chip.tensor([[9.0, -9.0]]))
    np.testing.assert_allclose(fp32(dst), [[27.65, -27.65]], atol=0.01)


@given(
    st.tuples(st.integers(1, 128), st.integers(1, 30)),
    st.sampled_from(["none", "number", "column"]),
    st.sampled_from(["number", "column"]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_scale_comes_before_bias_and_both_before_the_function(shape, bias, scale, dtype):
    data, shift, factor = normal(*shape), normal(shape[0], 1, seed=1), normal(shape[0], 1, seed=2)
    with Chip() as chip:
        dst = chip.tensor(shape, dtype)
        given_bias = {"none": None, "number": 0.5, "column": chip.tensor(shift)}[bias]
        given_scale = {"number": 1.5, "column": chip.tensor(factor)}[scale]
        nisa.activation(dst, nl.relu, chip.tensor(data, dtype), given_bias, given_scale)
    shifts = {"none": np.float32(0), "number": np.float32(0.5), "column": shift}[bias]
    factors = np.float32(1.5) if scale == "number" else factor
    expected = np.maximum(rounded(data, dtype) * factors + shifts, 0)
    np.testing.assert_array_equal(fp32(dst), rounded(expected, dtype))


def test_sums_stay_in_the_registers_until_they_are_read():
    tiles = [normal(32, 20, seed=i) for i in range(3)]
    with Chip() as chip:
        dst, res = chip.tensor((32, 20)), chip.tensor((32, 1))
        commands = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce, nisa.reduce_cmd.reduce
        for i, (data, command) in enumerate(zip(tiles, commands, strict=True)):
            nisa.activation(dst, nl.square, chip.tensor(data), None, 1.0, nl.add, res if i == 2 else None, command)
        opcodes = [chip.program.forms[number].opcode for number in chip.program._form]
        assert opcodes == ["ACTIVATE"] * 3 + ["ACTIVATION_READ_ACCUMULATOR"]
    np.testing.assert_allclose(fp32(res)[:, 0], np.square(np.concatenate(tiles, 1)).sum(1), rtol=1e-5)


def test_activation_reduce_starts_from_zero():
    data = normal(32, 20)
    with Chip() as chip:
        dst, res = chip.tensor((32, 20), "bfloat16"), chip.tensor((32, 1))
        for _ in range(2):
            nisa.activation_reduce(dst, nl.exp, chip.tensor(data), nl.add, res, scale=0.5)
    np.testing.assert_allclose(fp32(res)[:, 0], np.exp(data / 2).sum(1), rtol=1e-5)


def test_dependencies_reach_both_instructions_of_a_call():
    with Chip() as chip:
        dst, res, data = chip.tensor((32, 20)), chip.tensor((32, 1)), chip.tensor(normal(32, 20))
        first = nisa.activation_reduce(dst, nl.exp, data, nl.add, res)
        copied = nisa.tensor_copy(chip.tensor((32, 20)), data).depends_on(first)
        nisa.activation_reduce(dst, nl.exp, data, nl.add, res).depends_on(copied)
        order = chip.program.finish().order.tolist()
    assert [[first, then] for first, then, at_issue in order if not at_issue] == [[1, 2], [2, 3]]


def test_instructions_that_share_the_registers_keep_their_order():
    with Chip() as chip:
        dst, res, data = chip.tensor((32, 20)), chip.tensor((32, 1)), chip.tensor(normal(32, 20))
        nisa.activation_reduce(dst, nl.exp, data, nl.add, res)
        nisa.activation(dst, nl.exp, data)
        nisa.activation(dst, nl.exp, data, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce)
        order = chip.program.finish().order.tolist()
    assert order == [[0, 1, 1], [1, 3, 1]]


def test_activate2_reverses_and_reduces():
    data, column = normal(16, 12), normal(16, 1, seed=3)
    with Chip("trn3") as chip:
        dst, res = chip.tensor((16, 12)), chip.tensor((16, 1))
        nisa.activate2(
            dst, nl.copy, chip.tensor(data), 2.0, chip.tensor(column), nl.multiply, nl.subtract, reverse1=True,
            reduce_op=nl.maximum, reduce_res=res, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
    expected = column - data * 2
    np.testing.assert_array_equal(fp32(dst), expected)
    np.testing.assert_array_equal(fp32(res)[:, 0], expected.max(1))


def test_prelu_has_a_slope_for_what_is_negative():
    with Chip("trn3") as chip:
        dst = chip.tensor((1, 2))
        data = chip.tensor([[-4.0, 4.0]])
        nisa.activate2(dst, AluOp("prelu"), data, 0.0, 0.0, AluOp("bypass"), None, relu_param=0.25)
    assert dst.array().tolist() == [[-1.0, 4.0]]


# -- cost ------------------------------------------------------------------------------------------


def activated(device, op, memory="tensor", **options):
    with Chip(device, values=False) as chip:
        nisa.activation(chip.tensor((128, 512)), op, getattr(chip, memory)((128, 512)), **options)
        return chip.form


def test_latency_is_what_profiles_show():
    assert activated("trn2", nl.exp).cost.latency_ps / 1000 == pytest.approx(706, abs=2)
    assert activated("trn1", nl.copy, "psum").cost.latency_ps / 1000 == pytest.approx(522, abs=2)
    assert activated("trn2", nl.copy, "psum").cost.occupancy_ps / 1000 == pytest.approx(512 / 1.2 + 45, abs=1)


def test_short_activations_take_64_cycles():
    with Chip("trn2", values=False) as chip:
        nisa.activation(chip.tensor((128, 1)), nl.copy, chip.tensor((128, 1)))
        assert chip.form.cost.occupancy_ps == round(64 / 1.2 * 1000)


def test_only_functions_with_a_table_ask_for_one():
    tables = {
        name: activated("trn2", AluOp(name)).cost.table for name in ("copy", "square", "relu", "exp", "silu", "sigmoid")
    }
    assert [tables[name] for name in ("copy", "square", "relu")] == [NONE] * 3
    assert len({tables[name] for name in ("exp", "silu", "sigmoid")} - {NONE}) == 3


def test_a_read_of_the_registers_is_an_instruction_of_its_own():
    with Chip(values=False) as chip:
        nisa.activation_reduce(chip.tensor((128, 8)), nl.exp, chip.tensor((128, 8)), nl.add, chip.tensor((128, 1)))
        assert chip.form.engine is Engine.SCALAR
        assert chip.form.cost.latency_ps == 279_000

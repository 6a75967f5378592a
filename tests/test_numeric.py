"""Jitted inner loops equal their plain twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.jit import numeric
from tests.naive import numeric as naive


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_the_scan_equals_its_plain_twin(seed, p, n, op0, op1, reverse):
    source = np.random.default_rng(seed)
    data0, data1 = source.standard_normal((2, p, n)).astype(np.float32)
    results = []
    for module in (numeric, naive):
        state, out = np.ones(p, np.float32), np.empty((p, n), np.float32)
        with np.errstate(all="ignore"):
            module.scan(data0, data1, state, op0, op1, reverse, out)
        results.append((state, out))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_the_error_function_equals_its_plain_twin(name):
    values = np.linspace(-6, 6, 401, dtype=np.float32)
    one, other = np.empty_like(values), np.empty_like(values)
    getattr(numeric, name)(values, one)
    getattr(naive, name)(values, other)
    np.testing.assert_array_max_ulp(one, other, 1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(8, 30))
def test_matching_equals_its_plain_twin(seed, p, n):
    source = np.random.default_rng(seed)
    data, wanted = source.integers(0, 6, (p, n)).astype(np.float32), source.integers(0, 7, (p, 8)).astype(np.float32)
    one, other = np.empty((p, 8), np.int64), np.empty((p, 8), np.int64)
    numeric.match_in_order(data, wanted, one)
    naive.match_in_order(data, wanted, other)
    np.testing.assert_array_equal(one, other)

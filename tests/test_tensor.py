"""Views of tensors address the bytes that NumPy's views of the same array do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import spec
from sim.errors import InputError
from sim.memory import Layout, View, contains, overlap
from sim.nki import isa
from sim.nki.session import building
from sim.nki.tensor import DynamicSlice, NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Memory

FP32 = np.dtype(np.float32)


@pytest.fixture
def program():
    builder = ProgramBuilder(spec.device("trn2"))
    with building(builder):
        yield builder


def tensor(builder, shape, memory=Memory.HBM):
    storage = builder.allocate(shape, FP32, memory)
    storage.fill(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    return NkiTensor(storage, storage.layout, 0)


@st.composite
def shapes_and_keys(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    key = []
    for size in shape:
        start = draw(st.integers(0, size - 1))
        kind = draw(st.sampled_from(["int", "slice", "step"]))
        stop = draw(st.integers(start + 1, size))
        key.append(start if kind == "int" else slice(start, stop, 1 if kind == "slice" else draw(st.integers(1, 3))))
    return shape, tuple(key[: draw(st.integers(1, len(key)))])


@given(shapes_and_keys())
def test_an_hbm_view_holds_what_the_numpy_view_holds(case):
    shape, key = case
    builder = ProgramBuilder(spec.device("trn2"))
    with building(builder):
        view = tensor(builder, shape)[key]
    expected = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)[key]
    np.testing.assert_array_equal(view.array().reshape(expected.shape), expected)


def test_an_int_on_the_partition_dimension_keeps_it(program):
    assert tensor(program, (4, 8), Memory.SBUF)[2].shape == (1, 8)
    assert tensor(program, (4, 8), Memory.HBM)[2].shape == (8,)


def test_ellipsis_negative_and_dynamic_slices(program):
    t = tensor(program, (4, 6, 8))
    a = np.arange(192, dtype=np.float32).reshape(4, 6, 8)
    np.testing.assert_array_equal(t[..., -1].array(), a[..., -1])
    np.testing.assert_array_equal(t[:, DynamicSlice(2, 3)].array(), a[:, 2:5])
    np.testing.assert_array_equal(t[-1, 1::2].array(), a[-1, 1::2])


VIEWS = [
    ("permute", lambda t: t.permute((0, 2, 1)), lambda a: a.transpose(0, 2, 1)),
    ("reshape", lambda t: t.reshape((4, 48)), lambda a: a.reshape(4, 48)),
    ("reshape of a slice", lambda t: t[:, 2:4].reshape((4, 16)), lambda a: a[:, 2:4].reshape(4, 16)),
    ("reshape_dim", lambda t: t.reshape_dim(2, (2, -1)), lambda a: a.reshape(4, 6, 2, 4)),
    ("flatten_dims", lambda t: t.flatten_dims(1, 2), lambda a: a.reshape(4, 48)),
    ("expand and squeeze", lambda t: t.expand_dim(1).squeeze_dim(1), lambda a: a),
    ("slice", lambda t: t.slice(2, 1, 7, 2), lambda a: a[:, :, 1:7:2]),
    ("select", lambda t: t.select(1, 3), lambda a: a[:, 3]),
    ("broadcast", lambda t: t[:, 0:1].broadcast(1, 5), lambda a: np.broadcast_to(a[:, 0:1], (4, 5, 8))),
    ("ap", lambda t: t.ap([[48, 4], [2, 3]], offset=5), lambda a: a.reshape(4, 48)[:, 5:11:2]),
    ("view narrows", lambda t: t.view(np.dtype(np.uint16)), lambda a: a.view(np.uint16)),
    ("rearrange", lambda t: t.rearrange(("p", ("h", "w"), "c"), ("p", "c", "w", "h"), {"h": 2}),
     lambda a: a.reshape(4, 2, 3, 8).transpose(0, 3, 2, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("take", "expected"), [v[1:] for v in VIEWS], ids=[v[0] for v in VIEWS])
@pytest.mark.parametrize("memory", [Memory.HBM, Memory.SBUF])
def test_a_view_method_copies_nothing_and_agrees_with_numpy(program, take, expected, memory):
    t = tensor(program, (4, 6, 8), memory)
    a = np.arange(192, dtype=np.float32).reshape(4, 6, 8)
    np.testing.assert_array_equal(take(t).array(), expected(a))


BAD = [
    (lambda t: t[9], "index 9 is outside dimension 0 of size 4"),
    (lambda t: t[:, 0:9], "slice 0:9 runs past dimension 1 of size 6"),
    (lambda t: t[0, 0, 0, 0], "4 indices for a tensor of 3 dimensions"),
    (lambda t: t["a"], "index 'a' of type str"),
    (lambda t: t.reshape((5, 7)), "192 elements do not fill [5, 7]"),
    (lambda t: t.permute((1, 0, 2)), "dimension 0 of an on-chip tensor is the partition"),
    (lambda t: t.broadcast(1, 3), "dimension 1 has size 6, only 1 can be repeated"),
    (lambda t: t[:, ::2].reshape((4, 24)), "without a copy"),
    (lambda t: t.reshape((2, 96)), "reshape: shape: [2, 96], dimension 0 of an on-chip"),
]


@pytest.mark.parametrize(("take", "words"), BAD, ids=[words for _, words in BAD])
def test_an_impossible_view_names_the_numbers(program, take, words):
    with pytest.raises(InputError) as error:
        take(tensor(program, (4, 6, 8), Memory.SBUF))
    assert words in error.value.message


def test_a_pattern_outside_its_tensor_is_refused_when_it_is_used(program):
    outside = tensor(program, (4, 6, 8), Memory.SBUF).ap([[48, 4], [1, 60]])
    with pytest.raises(InputError, match="memset: dst: ap: bytes 0 to 816 reach outside the 768"):
        isa.memset(outside, 0)


def test_an_empty_slice_is_refused_when_it_is_used(program):
    with pytest.raises(InputError, match=r"memset: .*a slice of shape \[4, 0, 8\] is empty"):
        isa.memset(tensor(program, (4, 6, 8), Memory.SBUF)[:, 3:3], 0)


def test_equal_layouts_are_one_object():
    assert Layout.dense((4, 8), FP32, Memory.SBUF) is Layout.dense((4, 8), FP32, Memory.SBUF)
    assert Layout.dense((4, 8), FP32, Memory.SBUF) is not Layout.dense((4, 8), FP32, Memory.HBM)


def test_columns_of_one_matrix_share_a_period_but_no_window(program):
    t = tensor(program, (16, 64))
    left, right = t[:, :32], t[:, 32:]
    assert left.layout is right.layout
    assert (left.layout.period, left.layout.width) == (256, 128)
    assert left.offset % 256 + left.layout.width <= right.offset % 256


def test_boxes_of_views_overlap_and_contain(program):
    t = tensor(program, (8, 64), Memory.SBUF)
    assert overlap(t[0:4], t[3:8]) and not overlap(t[0:4], t[4:8])
    assert contains(t, t[2:3, 4:8]) and not contains(t[2:3], t)


def test_written_elements_are_remembered_across_dtypes(program):
    storage = program.allocate((2, 4), FP32, Memory.SBUF)
    whole = NkiTensor(storage, storage.layout, 0)
    whole[0:1].view(np.dtype(np.uint16))[:, 0:4].mark_written()
    np.testing.assert_array_equal(whole.written_array(), [[True, True, False, False], [False] * 4])
    whole.mark_written()
    assert whole.written_array() is None


def test_a_view_is_what_an_instruction_reads(program):
    assert isinstance(tensor(program, (2, 2)), View)

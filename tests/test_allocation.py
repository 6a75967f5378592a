"""Where storages lie: real capacity, banks, live ranges, and errors that say what is in the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import allocation
from sim.compiler import Options
from sim.errors import CapacityError
from sim.jit import allocation as jit
from sim.program import Role
from sim.trace import Engine, Memory
from tests.naive import allocation as naive
from tests.programs import Builder, random_program

R, W = Role.READ, Role.WRITE
BANK = 2048
SBUF = 224 * 1024


def place(build: Builder) -> allocation.Placement:
    return allocation.place(build.finish(), Options())


def use(build: Builder, *tiles) -> None:
    """Tiles that are alive together."""
    for tile in tiles:
        build.op(Engine.VECTOR, (W, tile))
    build.op(Engine.VECTOR, *((R, tile) for tile in tiles))


tiles = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=25)


@settings(max_examples=200)
@given(
    spans=tiles,
    strategy=st.sampled_from((jit.ROTATE, jit.FIRST, jit.BEST)),
    bank=st.sampled_from((0, 16, 32)),
    align=st.sampled_from((1, 4)),
    fixed=st.lists(
        st.tuples(st.integers(0, 90), st.integers(1, 30), st.integers(0, 30), st.integers(0, 20)), max_size=3
    ),
)
def test_places_are_those_of_the_twin(spans: list, strategy: int, bank: int, align: int, fixed: list):
    spans = sorted(spans, key=lambda span: span[1])
    size, first, length = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    last = first + length
    boxes = [(low, low + width, born, born + life) for low, width, born, life in fixed]
    rules = (strategy, 96, bank, align)
    offset = np.zeros(size.size, np.int64)
    table = np.array(boxes, np.int64).reshape(-1, 4)
    count = jit.place(size, first, last, np.argsort(last, kind="stable"), rules, table, offset)
    assert offset[:count].tolist() == naive.place(size.tolist(), first.tolist(), last.tolist(), rules, boxes)


@given(seed=st.integers(0, 10**6), cores=st.integers(1, 2))
def test_no_two_live_tiles_share_a_byte_and_all_lie_inside(seed: int, cores: int):
    program = random_program(seed, 60, cores=cores)
    found = allocation.place(program, Options())
    chip = [i for i, s in enumerate(program.storages) if s.memory is not Memory.HBM and found.first[i] >= 0]
    for one in chip:
        a = program.storages[one]
        limit = SBUF if a.memory is Memory.SBUF else 8 * BANK
        assert 0 <= found.offset[one] <= limit - a.pitch
        for other in (index for index in chip if index > one):
            b = program.storages[other]
            if a.memory is b.memory and found.core[one] == found.core[other]:
                together = found.first[one] <= found.last[other] and found.first[other] <= found.last[one]
                apart = (
                    found.offset[one] + a.pitch <= found.offset[other]
                    or found.offset[other] + b.pitch <= found.offset[one]
                )
                assert apart or not together


def test_places_rotate_so_that_reuse_comes_late():
    build = Builder()
    for _ in range(4):
        use(build, build.sbuf(16))
    assert place(build).offset.tolist() == [0, 64, 128, 192]


def test_psum_rotates_through_its_banks():
    build = Builder()
    for _ in range(9):
        use(build, build.psum(64))
    assert (place(build).offset // BANK).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0]


def test_small_psum_tiles_share_banks_when_there_are_more_than_banks():
    build = Builder()
    use(build, *(build.psum(128) for _ in range(32)))
    found = place(build)
    assert sorted(found.offset.tolist()) == list(range(0, 8 * BANK, 512))
    assert found.strategies[0, Memory.PSUM] == "first fit"


def test_a_psum_tile_of_two_banks_begins_at_a_bank():
    build = Builder()
    use(build, build.psum(64), build.psum(1024))
    assert place(build).offset.tolist() == [0, BANK]


def test_what_nothing_accesses_takes_no_space():
    build = Builder()
    for _ in range(100):
        build.sbuf(4096)
    use(build, build.sbuf(4096))
    found = place(build)
    assert found.first.tolist() == [-1] * 100 + [0]


def test_a_tile_may_lie_where_a_dead_one_lay():
    build = Builder()
    for _ in range(50):
        use(build, build.sbuf(SBUF // 8))
    assert set(place(build).offset.tolist()) == {0, SBUF // 2}


def test_fragments_are_overcome_by_another_strategy():
    build = Builder()
    half, quarter = SBUF // 8, SBUF // 16
    kept = build.sbuf(quarter)
    use(build, build.sbuf(quarter))
    build.op(Engine.VECTOR, (W, kept))
    use(build, build.sbuf(half), build.sbuf(64))
    use(build, build.sbuf(half + quarter))
    build.op(Engine.VECTOR, (R, kept))
    assert place(build).strategies[0, Memory.SBUF] == "first fit"


def test_over_capacity_names_the_tile_and_what_is_alive():
    build = Builder()
    big, small, last = (
        build.sbuf(SBUF // 8, name="big"),
        build.sbuf(64, name="small"),
        build.sbuf(SBUF // 8, name="last"),
    )
    use(build, big, small, last)
    with pytest.raises(CapacityError) as raised:
        place(build)
    text = str(raised.value)
    assert raised.value.exit_code == 4
    assert text.index("`last`") < text.index("`big`") < text.index("`small`")
    for part in ("SBUF is full", "float32[128, 28672]", "114688 bytes", f"of {SBUF}", "programs.py:"):
        assert part in text


def test_psum_over_capacity_is_an_error():
    build = Builder()
    use(build, *(build.psum(512) for _ in range(9)))
    with pytest.raises(CapacityError, match="PSUM is full"):
        place(build)


def test_hbm_over_capacity_is_an_error():
    build = Builder()
    use(build, build.sbuf())
    build.hbm(1 << 16, 1 << 16, name="huge")
    with pytest.raises(CapacityError, match=r"HBM is full: .*`huge`"):
        place(build)


def test_addresses_that_the_kernel_chose_are_kept_and_others_avoid_them():
    build = Builder()
    fixed, free = build.sbuf(64, address=(0, 128)), build.sbuf(64)
    use(build, fixed, free)
    found = place(build)
    assert found.offset.tolist() == [128, 384]
    assert not len(found.together)


def test_an_address_is_free_again_when_its_tile_is_dead():
    build = Builder()
    build.program.device = build.program.device.replace({"sbuf.usable_partition_bytes": 256})
    use(build, build.sbuf(64, address=(0, 0)))
    use(build, build.sbuf(64))
    assert place(build).offset.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("partition", "offset", "found"), [(0, 0, True), (64, 0, True), (0, 256, False)], ids=["same", "below", "beside"]
)
def test_live_tiles_at_the_same_bytes_are_paired(partition: int, offset: int, found: bool):
    build = Builder()
    one = build.sbuf(64, 64, address=(0, 0), name="one")
    other = build.sbuf(64, 64, address=(partition, offset), name="other")
    use(build, one, other)
    assert place(build).together.tolist() == ([[0, 1]] if found else [])


def test_tiles_alike_are_named_once_with_their_number():
    build = Builder()
    tiles = [build.sbuf(SBUF // 64, name="t") for _ in range(16)]
    use(build, *tiles, build.sbuf(64, name="last"))
    with pytest.raises(CapacityError, match=rf"16 × `t` float32\[128, {SBUF // 64}\] {SBUF // 16} bytes \("):
        place(build)


def test_an_address_outside_is_an_error():
    build = Builder()
    use(build, build.sbuf(64, address=(0, SBUF - 128)))
    with pytest.raises(CapacityError, match="229504"):
        place(build)


def test_every_core_has_its_own_memory():
    build = Builder()
    for core in range(2):
        build.program.core = core
        use(build, build.sbuf(SBUF // 8 + 64))
    found = place(build)
    assert found.core.tolist() == [0, 1]
    assert found.offset.tolist() == [0, 0]

"""`nki.isa`: enums, and what a kernel asks about the device."""

import itertools

import pytest

from sim.nki import isa as nisa
from tests.chip import Chip


def test_enums_have_the_documented_numbers():
    assert [(e.name, e.value) for e in nisa.engine] == [
        ("tensor", 1), ("vector", 5), ("scalar", 2), ("gpsimd", 3), ("dma", 4), ("sync", 6), ("unknown", 0),
    ]  # fmt: skip
    assert [e.name for e in nisa.reduce_cmd] == ["idle", "reset", "reduce", "reset_reduce", "load_reduce"]
    assert all(a < b and a <= b and b > a and b >= a for a, b in itertools.pairwise(nisa.nc_version))
    assert nisa.nc_version.gen3 <= nisa.nc_version.gen3
    assert nisa.nc_version.gen3 >= nisa.nc_version.gen3
    assert nisa.vector_engine is nisa.engine.vector


@pytest.mark.parametrize(
    ("device", "version"), [("trn1", "gen2"), ("inf2", "gen2"), ("trn2", "gen3"), ("trn3", "gen4")]
)
def test_the_version_is_that_of_the_device(device, version):
    with Chip(device):
        assert nisa.get_nc_version() is nisa.nc_version[version]
        assert nisa.get_nc_sub_version() == 0

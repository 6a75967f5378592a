"""`nki.isa` has the documented names, argument order and enums."""

import inspect
import itertools

import pytest

from sim.nki import isa as nisa
from tests.chip import Chip

SIGNATURES = """
activate2 dst op data imm0 imm1 op0 op1 relu_param reverse0 reverse1 reduce_op reduce_res reduce_cmd name
activation dst op data bias scale reduce_op reduce_res reduce_cmd name
activation_reduce dst op data reduce_op reduce_res bias scale name
affine_select dst pattern channel_multiplier on_true_tile on_false_value cmp_op offset name
bn_aggr dst data name
bn_stats dst data name
dma_compute dst srcs reduce_op scales unique_indices oob_mode name
dma_copy dst src priority oob_mode dge_mode engine name
dma_transpose dst src axes priority dge_mode oob_mode name
dropout dst data prob name
exponential dst src max_value reduce_res reduce_cmd reduce_init name
iota dst pattern offset channel_multiplier name
local_gather dst src_buffer index num_elem_per_idx num_valid_indices name
max8 dst src name
memset dst value engine name
nc_find_index8 dst data vals name
nc_match_replace8 dst data vals imm dst_idx name
nc_matmul dst stationary moving is_stationary_onezero is_moving_onezero is_transpose accumulate tile_position \
    tile_size perf_mode name
nc_matmul_mx dst stationary moving stationary_scale moving_scale tile_position tile_size accumulate name
nc_n_gather dst data indices name
nc_stream_shuffle dst src shuffle_mask name
nc_transpose dst data engine name
nonzero_with_count dst src index_offset padding_val name
quantize_mx dst src dst_scale name
rand2 dst min max name
rand_get_state dst engine name
rand_set_state src_seeds engine name
range_select dst on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd reduce_res reduce_op range_start \
    on_false_value name
reciprocal dst data name
register_alloc x
register_load dst src
register_move dst src
register_store dst src
rng dst engine name
scalar_tensor_tensor dst data op0 operand0 op1 operand1 reverse0 reverse1 name
select_reduce dst predicate on_true on_false reduce_res reduce_cmd reduce_op reverse_pred name
sequence_bounds dst segment_ids name
set_rng_seed src_seeds name
tensor_copy dst src engine name
tensor_copy_predicated dst src predicate reverse_pred name
tensor_partition_reduce dst op data name
tensor_reduce dst op data axis negate keepdims name
tensor_scalar dst data op0 operand0 reverse0 op1 operand1 reverse1 engine name
tensor_scalar_cumulative dst src op0 op1 imm0 imm1 reduce_cmd name
tensor_scalar_reduce dst data op0 operand0 reduce_op reduce_res reverse0 reduce_cmd reduce_init reduce_res_negate name
tensor_tensor dst data1 data2 op engine name
tensor_tensor_scan dst data0 data1 initial op0 op1 reverse0 reverse1 name
topk val_dst idx_dst src n name
"""


@pytest.mark.parametrize("documented", SIGNATURES.strip().splitlines(), ids=lambda line: line.split()[0])
def test_arguments_have_the_documented_names_and_order(documented):
    name, *arguments = documented.split()
    ours = [parameter for parameter in inspect.signature(getattr(nisa, name)).parameters if parameter != "dtype"]
    assert ours == arguments


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

"""`nki.language.tile_size`: limits of tiles on the device that the kernel runs on."""

from __future__ import annotations

from sim.memory import PARTITIONS
from sim.nki.shim import device

FP32_BYTES = 4


class TileSize:
    """Hardware tile sizes of the device that the kernel runs on."""

    pmax = PARTITIONS
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1

    @property
    def psum_bank_fmax_bytes(self) -> int:
        return int(device()["psum_bank_bytes"])

    @property
    def psum_bank_fmax(self) -> int:
        """fp32 elements."""
        return self.psum_bank_fmax_bytes // FP32_BYTES

    psum_fmax = psum_bank_fmax

    @property
    def psum_num_banks(self) -> int:
        return int(device()["psum_banks"])

    @property
    def sbuf_size_bytes(self) -> int:
        return int(device()["sbuf_bytes"])

    @property
    def sbuf_fmax_bytes(self) -> int:
        return int(device()["sbuf.usable_partition_bytes"])

    total_available_sbuf_size = sbuf_fmax_bytes

    @property
    def sbuf_fmax(self) -> int:
        """fp32 elements."""
        return self.sbuf_fmax_bytes // FP32_BYTES

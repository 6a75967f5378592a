"""Constraints of the Tensor Engine's instructions."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from tests.limits.limit import Limit, Table, newer
from tests.limits.tiles import X4, G, T, V, half

DOUBLE = nisa.matmul_perf_mode.double_row


def fp8(t, *shape, of="float8_e4m3"):
    return t.s(*shape, dtype=of)


def mx(t, k=32, m=32, n=32, packed=X4, scale="uint8", scales=None, dst="float32", **tiling):
    data = (t.s(k, m, dtype=packed), t.s(k, n, dtype=packed))
    rows = k if scales is None else scales
    factors = (t.s(rows, m, dtype=scale), t.s(k, n, dtype=scale))
    return nisa.nc_matmul_mx(t.p(min(m, 128), n, dtype=dst), *data, *factors, **tiling)


def tiled(t, position, size, k=8, m=8):
    return nisa.nc_matmul(t.p(m, 8), t.s(k, m), t.s(k, 8), tile_position=position, tile_size=size)


MATMUL = [
    Limit(
        "the result lies in one bank of PSUM",
        lambda t, first: nisa.nc_matmul(t.p(8, 1024)[:, first : first + 64], t.s(8, 8), t.s(8, 64)),
        480,
        512,
        "dst | bytes 1920 to 2176 | a PSUM bank of 2048",
    ),
    Limit(
        "the result lies in one bank of PSUM, where the kernel chose the place",
        lambda t, at: nisa.nc_matmul(nl.ndarray((8, 64), nl.float32, nl.psum, address=(0, at)), t.s(8, 8), t.s(8, 64)),
        1924,
        2048,
        "dst | bytes 1924 to 2180 | a PSUM bank of 2048",
    ),
    Limit(
        "the result goes to PSUM",
        lambda t, m: nisa.nc_matmul(t.at(m, 8, 8), t.s(8, 8), t.s(8, 8)),
        "sbuf",
        "psum",
        "dst | SBUF | must be in PSUM",
    ),
    Limit(
        "the stationary tile comes from SBUF",
        lambda t, m: nisa.nc_matmul(t.p(8, 8), t.at(m, 8, 8), t.s(8, 8)),
        "psum",
        "sbuf",
        "stationary | PSUM | must be in SBUF",
    ),
    Limit(
        "the moving tile comes from SBUF",
        lambda t, m: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.at(m, 8, 8)),
        "hbm",
        "sbuf",
        "moving | HBM | must be in SBUF",
    ),
    Limit(
        "operands are tensors",
        lambda t, x: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), x if x else t.s(8, 8)),
        3.0,
        None,
        "moving | 3.0 of type float | must be a tensor",
    ),
    Limit(
        "both tiles contract over as many partitions",
        lambda t, k: nisa.nc_matmul(t.p(8, 8), t.s(32, 8), t.s(k, 8)),
        64,
        32,
        "moving | 64 partitions | 32",
    ),
    Limit(
        "the stationary tile has at most 128 columns",
        lambda t, m: nisa.nc_matmul(t.p(128, 8), t.s(8, m), t.s(8, 8)),
        129,
        128,
        "stationary | free size 129 | 128",
    ),
    Limit(
        "the moving tile has at most 512 columns, one bank of PSUM",
        lambda t, n: nisa.nc_matmul(t.p(8, n), t.s(8, 8), t.s(8, n)),
        513,
        512,
        "moving | free size 513 | 512",
    ),
    Limit(
        "from v4 on the moving tile has at most 4096 columns for an fp32 result",
        lambda t, n: nisa.nc_matmul(t.p(8, n), t.s(8, 8), t.s(8, n)),
        4097,
        4096,
        "moving | free size 4097 | 4096",
        "trn3",
    ),
    Limit(
        "from v4 on the moving tile has at most 8192 columns for a bf16 result",
        lambda t, n: nisa.nc_matmul(t.p(8, n, dtype="bfloat16"), half(t, 8, 8), half(t, 8, n)),
        8193,
        8192,
        "moving | free size 8193 | 8192",
        "trn3",
    ),
    Limit(
        "the result has a partition for each stationary column",
        lambda t, m: nisa.nc_matmul(t.p(m, 8), t.s(8, 64), t.s(8, 8)),
        32,
        64,
        "dst | 32 partitions | 64 columns",
    ),
    Limit(
        "the result has a column for each moving column",
        lambda t, n: nisa.nc_matmul(t.p(8, n), t.s(8, 8), t.s(8, 64)),
        32,
        64,
        "dst | 32 elements | 64 columns",
    ),
    Limit(
        "a 32-bit tile multiplies a 32-bit tile",
        lambda t, d: nisa.nc_matmul(t.p(8, 8), t.s(8, 8, dtype=d), t.s(8, 8)),
        "bfloat16",
        "tfloat32",
        "moving | float32 | bfloat16",
    ),
    Limit(
        "the engine multiplies floats",
        lambda t, d: nisa.nc_matmul(t.p(8, 8), t.s(8, 8, dtype=d), half(t, 8, 8)),
        "int32",
        "float16",
        "stationary | int32 | bfloat16",
    ),
    Limit(
        "OCP fp8 comes with v4",
        lambda t, _: nisa.nc_matmul(t.p(8, 8), fp8(t, 8, 8, of="float8_e4m3fn"), half(t, 8, 8)),
        None,
        None,
        "stationary | float8_e4m3fn | must be bfloat16",
        "trn2",
        "trn3",
    ),
    Limit(
        "legacy and OCP e4m3 do not meet in one matmul",
        lambda t, d: nisa.nc_matmul(t.p(8, 8), fp8(t, 8, 8), t.s(8, 8, dtype=d)),
        "float8_e4m3fn",
        "float8_e5m2",
        "moving | float8_e4m3fn | float8_e4m3 and",
        "trn3",
    ),
    Limit(
        "the result is fp32",
        lambda t, d: nisa.nc_matmul(t.p(8, 8, dtype=d), t.s(8, 8), t.s(8, 8)),
        "bfloat16",
        "float32",
        "dst | bfloat16 | must be float32",
    ),
    Limit(
        "from v4 on the result is fp32 or bf16",
        lambda t, d: nisa.nc_matmul(t.p(8, 8, dtype=d), t.s(8, 8), t.s(8, 8)),
        "float16",
        "bfloat16",
        "dst | float16 | must be float32 or bfloat16",
        "trn3",
    ),
    newer(
        lambda t: nisa.nc_matmul(t.p(8, 8), fp8(t, 8, 2, 8), fp8(t, 8, 2, 8), perf_mode=DOUBLE),
        "perf_mode double_row",
        "trn1",
        3,
        "trn2",
    ),
    Limit(
        "double_row multiplies fp8",
        lambda t, d: nisa.nc_matmul(t.p(8, 8), *t.two(8, 2, 8, dtype=d), perf_mode=DOUBLE),
        "bfloat16",
        "float8_e5m2",
        "stationary | bfloat16 | must be float8_e4m3",
    ),
    Limit(
        "double_row takes two rows of each partition",
        lambda t, two: nisa.nc_matmul(t.p(8, 8), fp8(t, 8, two, 16 // two), fp8(t, 8, 2, 8), perf_mode=DOUBLE),
        4,
        2,
        "stationary | [8, 4, 4] | double_row needs [K, 2, free]",
    ),
    Limit(
        "double_row goes with the full width of columns",
        lambda t, c: nisa.nc_matmul(
            t.p(8, 8), *t.two(8, 2, 8, dtype="float8_e4m3"), perf_mode=DOUBLE, tile_position=(0, 0), tile_size=(64, c)
        ),
        64,
        128,
        "tile_size | column_size 64 | 128",
    ),
    Limit(
        "perf_mode is a member of its enum",
        lambda t, mode: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), perf_mode=mode),
        "triple_row",
        nisa.matmul_perf_mode.none,
        "perf_mode | 'triple_row' | must be one of matmul_perf_mode.none",
    ),
    Limit(
        "a tile of the array has a position and a size",
        lambda t, position: tiled(t, position, (32, 128)),
        (),
        (0, 0),
        "tile_position | () | given together",
    ),
    Limit(
        "a position has a row and a column",
        lambda t, position: tiled(t, position, (32, 128)),
        (0, 0, 0),
        (0, 0),
        "tile_position | (0, 0, 0) | must have 2",
    ),
    Limit(
        "row tiles are 32, 64 or 128 high",
        lambda t, rows: tiled(t, (0, 0), (rows, 128)),
        16,
        32,
        "row_size | 16 | must be one of 32, 64, 128",
    ),
    Limit(
        "row tiles are 64 or 128 high on v2",
        lambda t, rows: tiled(t, (0, 0), (rows, 128)),
        32,
        64,
        "row_size | 32 | must be one of 64, 128",
        "trn1",
    ),
    Limit(
        "column tiles are 32, 64 or 128 wide",
        lambda t, columns: tiled(t, (0, 0), (128, columns)),
        16,
        32,
        "column_size | 16 | must be one of 32, 64, 128",
    ),
    Limit(
        "a tile starts at a multiple of its rows",
        lambda t, r: tiled(t, (r, 0), (32, 128)),
        16,
        32,
        "start_row | 16 | row_size 32",
    ),
    Limit(
        "a tile starts within the rows of the array",
        lambda t, r: tiled(t, (r, 0), (32, 128)),
        128,
        96,
        "start_row | 128 | below 128",
    ),
    Limit(
        "a tile starts at a multiple of its columns",
        lambda t, c: tiled(t, (0, c), (64, 64)),
        96,
        64,
        "start_column | 96 | column_size 64",
    ),
    Limit(
        "a tile starts within the columns of the array",
        lambda t, c: tiled(t, (0, c), (64, 64)),
        128,
        64,
        "start_column | 128 | below 128",
    ),
    Limit(
        "the stationary tile fits the row tile",
        lambda t, k: tiled(t, (0, 0), (32, 128), k=k),
        64,
        32,
        "stationary | partition 64 | row_size 32",
    ),
    Limit(
        "the stationary tile fits the column tile",
        lambda t, m: tiled(t, (0, 0), (128, 32), m=m),
        64,
        32,
        "stationary | free size 64 | column_size 32",
    ),
    Limit(
        "an access of more than 32 partitions starts at 0 or 64",
        lambda t, start: nisa.nc_matmul(t.p(8, 8), t.s(128, 8)[start : start + 64], t.s(64, 8)),
        32,
        64,
        "stationary | partition 32 | must start at 0, 64",
    ),
]

MATMUL_MX = [
    newer(lambda t: mx(t), "nc_matmul_mx", "trn2", 4, "trn3"),
    Limit(
        "data are four numbers in one element",
        lambda t, d: mx(t, packed=d),
        "float8_e5m2",
        "float4_e2m1fn_x4",
        "stationary | float8_e5m2 | float8_e4m3fn_x4",
        "trn3",
    ),
    Limit(
        "scales are powers of two or their bytes",
        lambda t, d: mx(t, scale=d),
        "int8",
        "float8_e8m0fnu",
        "stationary_scale | int8 | float8_e8m0fnu or uint8",
        "trn3",
    ),
    Limit(
        "each quadrant of the data has its rows of scales",
        lambda t, rows: mx(t, k=128, scales=rows),
        96,
        100,
        "stationary_scale | partition 96 | 100",
        "trn3",
    ),
    Limit(
        "a scale stands for each column",
        lambda t, m: nisa.nc_matmul_mx(
            t.p(32, 32),
            *t.two(32, 32, dtype=X4),
            t.s(32, m, dtype="uint8"),
            t.s(32, 32, dtype="uint8"),
        ),
        30,
        32,
        "stationary_scale | 30 elements | stationary has 32",
        "trn3",
    ),
    Limit(
        "partitions come in quadrants of 32",
        lambda t, k: mx(t, k=k),
        48,
        64,
        "stationary | partition 48 | multiple of 32",
        "trn3",
    ),
    Limit(
        "the stationary tile has an even number of columns",
        lambda t, m: mx(t, m=m),
        31,
        30,
        "stationary | free size 31 | odd",
        "trn3",
    ),
    Limit(
        "the stationary tile has at most 128 columns",
        lambda t, m: mx(t, m=m),
        130,
        128,
        "stationary | free size 130 | 128",
        "trn3",
    ),
    Limit(
        "the moving tile has at most 4096 columns",
        lambda t, n: mx(t, n=n),
        4097,
        4096,
        "moving | free size 4097 | 4096",
        "trn3",
    ),
    Limit(
        "the result is fp32 or bf16",
        lambda t, d: mx(t, dst=d),
        "float16",
        "bfloat16",
        "dst | float16 | must be float32 or bfloat16",
        "trn3",
    ),
    Limit(
        "scales come from SBUF",
        lambda t, m: nisa.nc_matmul_mx(
            t.p(32, 32),
            *t.two(32, 32, dtype=X4),
            t.at(m, 32, 32, dtype="uint8"),
            t.s(32, 32, dtype="uint8"),
        ),
        "psum",
        "sbuf",
        "stationary_scale | PSUM | must be in SBUF",
        "trn3",
    ),
    Limit(
        "only rows are tiled",
        lambda t, c: mx(t, tile_position=(0, 0), tile_size=(32, c)),
        64,
        128,
        "tile_size | (32, 64) | column_size 128",
        "trn3",
    ),
    Limit(
        "scales start at every fourth row of the first half of a quadrant",
        lambda t, start: nisa.nc_matmul_mx(
            t.p(32, 32),
            *t.two(32, 32, dtype=X4),
            t.s(64, 32, dtype="uint8")[start : start + 4],
            t.s(32, 32, dtype="uint8"),
        ),
        2,
        4,
        "stationary_scale | partition 2 | 0, 4, 8, 12",
        "trn3",
    ),
]

TRANSPOSE = [
    Limit(
        "the result lies in one bank of PSUM",
        lambda t, first: nisa.nc_transpose(t.p(64, 1024)[:, first : first + 64], t.s(64, 64)),
        481,
        448,
        "dst | bytes 1924 to 2180 | a PSUM bank of 2048",
    ),
    Limit(
        "the Tensor Engine turns at most 128 columns",
        lambda t, n: nisa.nc_transpose(t.p(128, 64), t.s(64, n)),
        256,
        128,
        "data | free size 256 | 128",
    ),
    Limit(
        "the result has the shape of the transpose",
        lambda t, n: nisa.nc_transpose(t.p(64, 64), t.s(64, n)),
        32,
        64,
        "dst | [64, 64] | 32 partitions and 64 elements",
    ),
    Limit(
        "a transpose keeps the dtype",
        lambda t, d: nisa.nc_transpose(t.p(64, 64), t.s(64, 64, dtype=d)),
        "bfloat16",
        "float32",
        "dst | float32 | data has bfloat16",
    ),
    Limit(
        "the Tensor Engine writes to PSUM",
        lambda t, m: nisa.nc_transpose(t.at(m, 64, 16), t.s(16, 64), engine=T),
        "sbuf",
        "psum",
        "dst | SBUF | must be in PSUM",
    ),
    Limit(
        "the Vector Engine turns at most 32 x 32",
        lambda t, n: nisa.nc_transpose(t.s(n, 32), t.s(32, n), engine=V),
        64,
        32,
        "data | 32 x 64 | 32 x 32",
    ),
    Limit(
        "the Tensor or the Vector Engine turns",
        lambda t, e: nisa.nc_transpose(t.p(32, 32), t.s(32, 32), engine=e),
        G,
        T,
        "engine | gpsimd | tensor or vector",
    ),
]

LIMITS: Table = {
    "nki.isa.nc_matmul": MATMUL,
    "nki.isa.nc_matmul_mx": MATMUL_MX,
    "nki.isa.nc_transpose": TRANSPOSE,
}

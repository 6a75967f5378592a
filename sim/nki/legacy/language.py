"""`neuronxcc.nki.language`: tensors, moves, loops and constants of the legacy API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.memory import PARTITIONS, storage_dtype
from sim.nki import isa
from sim.nki.language import DynamicSlice, MemoryRegion, hbm, is_hbm, private_hbm, psum, sbuf, shared_hbm
from sim.nki.language import _TileSize as CurrentTileSize
from sim.nki.legacy.allocation import Buffer
from sim.nki.legacy.blocks import BlockTensor, ParDim, block_dims
from sim.nki.legacy.functions import EXPORTED, FUNCTIONS, matmul, transpose
from sim.nki.legacy.index import Grid, arange, mgrid
from sim.nki.legacy.launch_grid import nc, spmd_dim
from sim.nki.legacy.operands import Cut, Result, elementwise, in_sbuf, operand, tile
from sim.nki.legacy.tile import Tile
from sim.nki.session import active, builder
from sim.program import ProgramBuilder
from sim.trace import Memory, RegionKind

globals().update(EXPORTED)

bool_, int8, int16, int32 = np.bool_, np.int8, np.int16, np.int32
uint8, uint16, uint32 = np.uint8, np.uint16, np.uint32
float16, float32, bfloat16 = np.float16, np.float32, dtypes.bfloat16
float8_e4m3, float8_e5m2, tfloat32 = dtypes.float8_e4m3, dtypes.float8_e5m2, dtypes.tfloat32
par_dim = ParDim

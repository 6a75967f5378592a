"""What the operand text of an instruction, and the place and semaphore text of a DMA, tell.

Source: text of real profiles (neuron-profile 2.27 and 2.28), for example
`S[5] (Tensor)>=4 S[4] (Scalar)++@complete src=fp32@0x2000[1,1][512,1] dst=bf16@0x40[1,1][512,1] channels=128`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from sim.trace import NONE, Memory

DTYPES = {
    "float32": "fp32",
    "fp32r": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "tfloat32": "tf32",
    "fp8_e3": "fp8e3",
    "fp8_e4": "fp8e4",
    "fp8_e5": "fp8e5",
}
"""Spellings in profiles and the usual abbreviation; others (fp32, fp8e4, uint8) are usual already."""

_ACCESS = re.compile(r"\b(?:src|dst|in|out)\d*=(?:(\w+)@)?\w+((?:\[[^\]]*\])+)")
_TILE = re.compile(r"\b(src|dst)\d*=(?:(\w+)@)?(?:0x([0-9a-f]+)|[^\s\[]+)\[([-\d,]+)\]\[([\d,]+)\]")
_LIST = re.compile(r"\[([^\]]*)\]")
_GRID = re.compile(r"(?:^|\s)(\d+)\*(\d+)\s*$")
_CHANNELS = re.compile(r"\bchannels=(\d+)")
_OPERATOR = re.compile(r"\bops?=([\w,]+)")
_WAITED = re.compile(r"\$?S\[(\d+)\](?: \([^)]*\))?\s*(?:>=|==)")
_SIGNALLED = re.compile(r"\bsemaphore=(\d+)")
_ELEMENT = re.compile(r"\b(?:src|dst)_elem_size=(\d+)")


PSUM_ADDRESS = 0x2000000
"""On-chip addresses from here on are PSUM's, on trn2 and inf2."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One access pattern; sizes and steps in elements, innermost first."""

    written: bool
    dtype: str | None
    memory: Memory
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operands:
    """Facts in one operand text; None and 0 stand for what it does not say."""

    dtype: str | None = None
    function: str | None = None
    partitions: int = 0
    elements: int = 0
    """Elements a partition of the larger of source and destination."""
    waits: bool = False
    """Names a semaphore that must be reached first."""
    semaphore: int = -1
    """Semaphore that a DMA raises when it is done."""
    element_bytes: int = 0
    """Contiguous bytes of a DMA descriptor."""


def parse_operands(text: str) -> Operands:
    """Read one operand text; what is not understood stays unknown."""
    dtype, elements = _access(text)
    grid, channels = _GRID.search(text), _CHANNELS.search(text)
    operator, signalled = _OPERATOR.search(text), _SIGNALLED.search(text)
    sizes = [int(size) for size in _ELEMENT.findall(text) if len(size) < 12]
    return Operands(
        dtype=dtype,
        function=operator[1] if operator else None,
        partitions=_small(grid or channels),
        elements=elements,
        waits=_WAITED.search(text) is not None,
        semaphore=_small(signalled, absent=-1),
        element_bytes=min(sizes, default=0),
    )


def parse_tiles(text: str) -> list[Tile]:
    """The tiles that an instruction reads and writes, in the order of the text; what is unclear is left out."""
    found = []
    for way, kind, address, steps, sizes in _TILE.findall(text):
        memory = Memory.HBM if not address else Memory.PSUM if int(address, 16) >= PSUM_ADDRESS else Memory.SBUF
        lists = [tuple(int(number) for number in numbers.split(",")) for numbers in (sizes, steps)]
        if len(lists[0]) == len(lists[1]) and prod(lists[0]):
            found.append(Tile(way == "dst", DTYPES.get(kind, kind) or None, memory, *lists))
    return found


def _access(text: str) -> tuple[str | None, int]:
    """The dtype of the first typed access pattern, and the most elements that one covers."""
    dtype, elements = None, 0
    for kind, lists in _ACCESS.findall(text):
        dtype = dtype or (DTYPES.get(kind, kind) if kind else None)
        sizes = _LIST.findall(lists)[-1].split(",")
        if all(size.strip().isdecimal() and len(size) < 12 for size in sizes):
            elements = max(elements, prod(int(size) for size in sizes))
    return dtype, min(elements, 1 << 62)


def _small(match: re.Match[str] | None, absent: int = 0) -> int:
    """The first group as a number that fits a column."""
    return int(match[1]) if match and len(match[1]) < 9 else absent


def memory_of(place: Any) -> int:
    """Memory of a nested list of tokens such as SB, INPUT, WEIGHT; -1 unknown."""
    text = str(place).upper()
    if "SB" in text:
        return Memory.SBUF
    return Memory.HBM if any(token in text for token in ("INPUT", "OUTPUT", "WEIGHT", "DRAM", "HBM")) else NONE


def semaphore_of(text: Any) -> int:
    """Number of a semaphore: `S[8] (qSync)`, `207`; -1 when there is none."""
    digits = str(text).partition("[")[2].partition("]")[0] or str(text)
    return int(digits) if digits.isdecimal() and len(digits) < 9 else NONE

"""The names by which compiler passes are switched, in Python and on the command line."""

from __future__ import annotations

from sim.errors import InputError

PASSES = {
    "rename": "a tile that is overwritten as a whole gets a buffer of its own",
    "forward": "what Vector and Scalar read of a copy from PSUM in its iteration, they read from PSUM; no copy",
    "pack": "transposes in a row share a PSUM bank and one copy",
    "align": "a result that begins at another partition than the two tiles it combines is copied there",
    "assign": "engines that the kernel leaves open are chosen as legacy compilers choose them",
    "split": "parts of a tile that are never accessed together get places of their own",
    "fuse": "affine loops of as many iterations run together where the second uses what the first makes",
    "hoist": "what does not change in a loop is computed once; inputs are prepared once where all fit into SBUF",
    "distribute": "statements of an affine loop run for all iterations in turn; small neighbours merge",
    "share": "an input that is still resident is not loaded or prepared again",
    "spill": "tiles are saved and reloaded where SBUF cannot hold all",
    "room": "KiB a partition that spilling keeps free",
    "straight": "loops that Python has unrolled are list-scheduled, and placed in that order",
    "keep": "weights that TensorE still has from the matmul before are not loaded again",
    "rotate": "without slots, memory is used again late; off: first fit",
    "buffers": "slots that an allocation site gets for each tile alive at once; 0 for one pool",
    "window": "instructions of an engine among which the oldest ready one goes first; 1 is in order",
}
"""What can be switched by name, and what each does; those in `NUMBERS` take a number."""

NUMBERS = {"buffers": 0, "window": 1, "room": 0}
"""The least number of each."""


def given(text: str) -> tuple[str, bool | int]:
    """`hoist=off`, `buffers=4` as a name and a value.

    raises: InputError that lists what there is
    """
    name, _, value = text.partition("=")
    switches = {"on": True, "off": False}
    if name in NUMBERS and value.isdecimal() and int(value) >= NUMBERS[name]:
        return name, int(value)
    if name in PASSES and name not in NUMBERS and value in switches:
        return name, switches[value]
    known = ", ".join(f"{name}={'N' if name in NUMBERS else 'on|off'}" for name in PASSES)
    raise InputError(f"pass {text!r}", remedy=f"known: {known}")

"""What the compiler is taken to do, with defaults for each API generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.errors import InputError
from sim.passes import given

UNBOUNDED = 1 << 30
"""A window that no queue outgrows."""

WINDOWS = {"current": (64, 64, 64, 64, UNBOUNDED), "legacy": (16, 16, 16, 6, UNBOUNDED)}
"""Per API generation and engine; source: facts of the timing prototype, table 8.1; of GpSimd, merged transfers."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the compiler is taken to do."""

    generation: str = "current"
    """`current` (NKI 0.3 and later) or `legacy` (neuronxcc.nki)."""
    rename: bool = True
    """Give a tile that is overwritten as a whole a buffer of its own."""
    windows: tuple[int, ...] = WINDOWS["current"]
    """Per engine (Tensor, Vector, Scalar, GpSimd, Sync): instructions among which the oldest ready one goes first.
    1 is strictly in order. Sync only triggers DMAs, which the compiler orders freely."""
    forward: bool = False
    """Leave out copies from PSUM where Vector and Scalar can read PSUM itself."""
    pack: bool = False
    """Let transposes share PSUM banks, and copy those of a bank at once."""
    align: bool = False
    """Copy a result that begins at another partition than the tiles it combines."""
    assign: bool = False
    """Choose engines that the kernel leaves open as compilers of the legacy API do."""
    split: bool = False
    """Give parts of a tile that are never accessed together places of their own."""
    fuse: bool = False
    """Run neighbouring affine loops together where the second one uses what the first one makes, in its order."""
    hoist: bool = False
    """Compute once what does not change in a loop; prepare an input once where all that is prepared fits into SBUF."""
    distribute: bool = False
    """Run each statement of an outermost affine loop for all iterations, and merge small neighbours."""
    share: bool = False
    """Do not load or prepare an input again while it is still resident."""
    spill: bool = False
    """Save and reload tiles where SBUF cannot hold all that are alive; else that is a CapacityError."""
    room: int = 8
    """KiB a partition that spilling keeps free: compilers spill ahead of need."""
    straight: bool = False
    """Order loops that Python has unrolled for the engines, and give addresses in that order."""
    rotate: bool = True
    """Without slots: go on where the last tile ended, so that memory is used again late; else first fit."""
    buffers: int = 0
    """Slots that an allocation site gets for each of its tiles alive at once; 0 for one pool of all tiles."""
    sbuf_figure: str = "sbuf.usable_partition_bytes"
    """Figure of the device that bounds SBUF, bytes a partition."""
    keep: bool = True
    """Do not load weights again that TensorE has from the matmul before."""
    clock_phase_ps: int | None = None
    """Start of the kernel within a window of TensorE's clock; None for the device's figure."""

    def __post_init__(self) -> None:
        if len(self.windows) != len(WINDOWS["current"]) or min(self.windows) < 1:
            raise InputError(f"windows {self.windows}: five numbers of at least 1 are needed")

    @classmethod
    def for_generation(cls, generation: str) -> Options:
        """The defaults of an API generation."""
        if generation not in WINDOWS:
            raise InputError(f"API generation {generation!r}", remedy=f"known: {', '.join(WINDOWS)}")
        figure = "sbuf.usable_partition_bytes" + ("_legacy" if generation == "legacy" else "")
        legacy = generation == "legacy"
        return cls(
            generation=generation,
            windows=WINDOWS[generation],
            forward=legacy,
            pack=legacy,
            align=legacy,
            assign=legacy,
            split=legacy,
            fuse=legacy,
            hoist=legacy,
            distribute=legacy,
            share=legacy,
            spill=legacy,
            straight=legacy,
            buffers=2 if legacy else 0,
            sbuf_figure=figure,
        )

    def switched(self, passes: Mapping[str, bool | int]) -> Options:
        """These options with passes switched, by the names of `PASSES`.

        raises: InputError for a name or a value that there is not
        """
        changes: dict[str, bool | int | tuple[int, ...]] = {}
        for name, value in passes.items():
            name, value = given(f"{name}={_word(value)}")
            changes |= {"windows": (value,) * 4 + self.windows[4:]} if name == "window" else {name: value}
        return replace(self, **changes)

    def alternatives(self) -> dict[str, Options]:
        """Each decision that nobody can know of a real compiler, taken the other way, by its name and new value."""
        if self.generation != "legacy":
            return {}
        changes: dict[str, bool | int] = {
            "hoist": not self.hoist,
            "distribute": not self.distribute,
            "share": not self.share,
            "forward": not self.forward,
            "straight": not self.straight,
            "buffers": 4 if self.buffers == 2 else 2,
            "window": 64 if self.windows[0] < 64 else 8,
            "room": 16 if self.room < 16 else 8,
        }
        return {f"{name}={_word(value)}": self.switched({name: value}) for name, value in changes.items()}


def _word(value: bool | int) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)

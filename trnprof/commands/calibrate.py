from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from trnprof.calibrate import Calibration


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a captured profile, in any format that trnprof opens")
    parser.add_argument("-o", "--output", metavar="DEVICE.json", help="write a device file; --device takes it")
    parser.add_argument("--json", action="store_true", help="print the device file")


def execute(args: Namespace) -> None:
    """Fit the constants of the timing model to a captured profile.

    Instruction laws, TensorE's and other clocks, DMA rates and latencies, semaphores: what the profile tells is fitted,
    the rest stays as in the device table. `trnprof run … --device DEVICE.json` then runs on the fitted device.
    Packets that nothing disturbed give DMA rates without contention: fit those on a profile as busy as your kernels.
    """
    from pathlib import Path

    from sim.errors import UsageError
    from trnprof.calibrate import calibrate, dump
    from trnprof.commands.opening import open_trace
    from trnprof.report.charts import replace_file

    if args.output and not args.output.endswith(".json"):
        raise UsageError(f"{args.output}: a device file ends in .json")
    found = calibrate(open_trace(args.profile), Path(args.profile).name)
    if args.output:
        replace_file(Path(args.output), dump(found).encode())
    if args.json:
        emit_json(found.to_json())
        return
    emit(_table(found))
    if not args.output:
        say("nothing was kept; -o DEVICE.json keeps it for --device")


def _table(found: Calibration) -> str:
    lines = [("figure", "table", "fitted", "90 %", "unit", "told by")]
    for id, figure in found.figures.items():
        low, high = figure.spread
        lines.append((id, f"{found.base[id]:g}", f"{figure.value:g}", f"{low:g} to {high:g}", figure.unit, figure.note))
    errors = f"mean error of instructions and packets {found.before:.1%} with the table, {found.after:.1%} fitted"
    return f"{found.device.title}\n{errors}\n\n{columns(lines, frozenset((1, 2, 3)))}"

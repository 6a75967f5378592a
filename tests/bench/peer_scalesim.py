"""A 1024³ GEMM from kernel to verdict, beside SCALE-Sim on the same machine: `python tests/bench/peer_scalesim.py`.

SCALE-Sim (PyPI `scalesim`; 3.0.0 wants NumPy 1) must be importable, by this Python or by that of `--python`; else the
script says so and ends. It is given one 128 × 128 array with a stationary side as TensorE has, the same GEMM, and is
asked for no trace files. Both run in processes of their own that have imported what they need; processor time of the
work alone is compared, the least of some repetitions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE = 1024
ROOT = Path(__file__).resolve().parents[2]

CONFIG = """
[general]
run_name = gemm
[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 8192
FilterSramSzkB: 8192
OfmapSramSzkB: 2048
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 256
Dataflow: ws
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
[run_presets]
InterfaceBandwidth: USER
UseRamulatorTrace: False
"""

LAYOUT = (
    "Layer name, IFMAP Height Intraline Factor, IFMAP Width Intraline Factor, Filter Height Intraline Factor,"
    " Filter Width Intraline Factor, Channel Intraline Factor, Num Filter Intraline Factor,"
    " IFMAP Height Intraline Order, IFMAP Width Intraline Order, Channel Intraline Order, IFMAP Height Interline Order,"
    " IFMAP Width Interline Order, Channel Interline Order, Num Filter Intraline Order, Channel Intraline Order,"
    " Filter Height Intraline Order, Filter Width Intraline Order, Num Filter Interline Order,"
    " Channel Interline Order, Filter Height Interline Order, Filter Width Interline Order,\n"
    "gemm, 1, 1, 1, 1, 1, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3,\n"
)

THEIRS = """
import contextlib, os, sys, time
from scalesim.scale_sim import scalesim
folder = sys.argv[1]
files = [os.path.join(folder, name) for name in ("scale.cfg", "gemm.csv", "layout.csv")]
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
    begin = time.process_time()
    run = scalesim(save_disk_space=True, verbose=False, config=files[0], topology=files[1], layout=files[2],
                   input_type_gemm=True)
    run.run_scale(top_path=folder)
    spent = time.process_time() - begin
print(spent)
"""

OURS = """
import sys, time
import sim, trnprof
kernel = sim.load(sys.argv[1] + "::matmul")
shape = sim.TensorSpec((int(sys.argv[2]),) * 2, "bfloat16")
trnprof.classify(sim.run(kernel, shape, shape, values=False).trace)  # what is imported late
begin = time.process_time()
verdict = trnprof.classify(sim.run(kernel, shape, shape, values=False).trace)[0]
print(time.process_time() - begin)
"""


def spent(python: str, code: str, *given: str) -> float:
    """Processor seconds that a program says it took."""
    done = subprocess.run([python, "-c", code, *given], cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.split()[-1])


def compared(size: int, rounds: int, python: str) -> dict[str, float]:
    """Processor seconds of both, taken in turns."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scale.cfg").write_text(CONFIG)
        (Path(folder) / "layout.csv").write_text(LAYOUT)
        (Path(folder) / "gemm.csv").write_text(f"Layer, M, N, K,\ngemm, {size}, {size}, {size},\n")
        for _ in range(rounds):
            ours.append(spent(sys.executable, OURS, str(ROOT / "traces" / "kernels" / "matmul.py"), str(size)))
            theirs.append(spent(python, THEIRS, folder))
    return {"trnprof_s": min(ours), "scalesim_s": min(theirs), "ratio": min(theirs) / min(ours)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a Python that has SCALE-Sim")
    args = parser.parse_args()
    if subprocess.run([args.python, "-c", "import scalesim"], capture_output=True, check=False).returncode:
        print("skipped: SCALE-Sim is not installed (pip install scalesim)", file=sys.stderr)
        return
    print(json.dumps(compared(args.size, args.rounds, args.python)))


if __name__ == "__main__":
    main()

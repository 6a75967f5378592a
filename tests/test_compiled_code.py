"""Compiled code is kept apart for each state of its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROBE = "import numba, sim.jit; print(numba.config.CACHE_DIR)"


def cache_dir(where: Path, home: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"XDG_CACHE_HOME": str(home), "PYTHONPATH": str(where), **more}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, cwd=where, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def copied(target: Path) -> Path:
    for package in ("sim", "trnprof"):
        (target / package / "jit").mkdir(parents=True)
        for name in ("__init__.py", "jit"):
            source = ROOT / package / name
            if source.is_dir():
                shutil.copytree(source, target / package / name, dirs_exist_ok=True)
            else:
                (target / package / name).write_text("")
    return target


def test_a_change_in_any_compiled_file_begins_a_new_folder(tmp_path):
    tree, home = copied(tmp_path / "tree"), tmp_path / "home"
    before = cache_dir(tree, home)
    assert before == cache_dir(tree, home)
    assert before.startswith(str(home))
    with (tree / "sim" / "jit" / "numeric.py").open("a") as file:
        file.write("# changed\n")
    assert cache_dir(tree, home) != before


def test_earlier_folders_are_bounded(tmp_path):
    tree, home = copied(tmp_path / "tree"), tmp_path / "home"
    cache = home / "trnprof" / "numba"
    for number in range(20):
        (cache / str(number)).mkdir(parents=True)
        os.utime(cache / str(number), (number, number))
    own = Path(cache_dir(tree, home)).name
    assert {path.name for path in cache.iterdir()} == {own, *map(str, range(4, 20))}


def test_the_users_own_cache_folder_stays(tmp_path):
    assert cache_dir(ROOT, tmp_path / "home", NUMBA_CACHE_DIR=str(tmp_path / "own")) == str(tmp_path / "own")

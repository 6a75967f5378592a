"""A profile that is being written is told once, when it is whole."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from sim import tracefile
from sim.errors import InputError
from tests import legacy, synthetic, timelines
from tests.test_unpack import tarred, zipped
from trnprof import cli
from trnprof.watch import Watch

PROFILE = json.dumps(legacy.document()).encode()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2.0
        return self.now


def watching(folder: Path) -> Watch:
    """A watch for which two seconds pass between two looks."""
    return Watch(folder, settle_s=1.0, clock=Clock())


def looks(watch: Watch, times: int = 3) -> list[Path]:
    return [path for _ in range(times) for path in watch.poll()]


FILES = {
    "profile.json": PROFILE,
    "events.json": timelines.dumped(timelines.paired()),
    "kineto.json": timelines.dumped(timelines.kineto()),
    "kineto.json.gz": gzip.compress(timelines.dumped(timelines.kineto())),
    "profile.json.bz2": bz2.compress(PROFILE),
    "profile.json.xz": lzma.compress(PROFILE),
    "sdk.pftrace": timelines.sdk(),
    "slices.csv": b"name,start_us,end_us\na,1,2\nb,2,3\n",
    "both.zip": zipped(("profile.json", PROFILE)),
    "both.tar": tarred(("profile.json", PROFILE)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_told_when_it_is_whole_and_not_before(name: str, tmp_path: Path) -> None:
    watch, data = watching(tmp_path), FILES[name]
    cut = {"slices.csv": len(data) - 3}.get(name, len(data) * 2 // 3)
    (tmp_path / name).write_bytes(data[:cut])
    assert looks(watch) == []
    assert name in watch.waiting[tmp_path / name]
    (tmp_path / name).write_bytes(data)
    assert looks(watch) == [tmp_path / name]
    assert watch.waiting == {}
    assert looks(watch) == []


@pytest.mark.parametrize("cut", range(1, len(PROFILE), 211))
def test_no_beginning_of_a_profile_is_taken_for_the_whole(cut: int, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(PROFILE[:cut])
    assert looks(watching(tmp_path)) == []


def test_a_profile_that_still_grows_is_left_alone(tmp_path: Path) -> None:
    watch, path = watching(tmp_path), tmp_path / "p.json"
    for spaces in range(5):
        path.write_bytes(PROFILE + b" " * spaces)
        assert watch.poll() == []
        assert watch.waiting == {path: "being written"}
    assert looks(watch) == [path]


def test_a_profile_written_anew_is_told_again(tmp_path: Path) -> None:
    watch, path = watching(tmp_path), tmp_path / "p.json"
    path.write_bytes(PROFILE)
    assert looks(watch) == [path]
    path.write_bytes(PROFILE + b"\n")
    assert looks(watch) == [path]
    path.unlink()
    assert looks(watch) == []
    path.write_bytes(PROFILE)
    assert looks(watch) == [path]


def test_a_directory_of_tables_is_one_profile_and_waits_for_every_footer(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "watched"
    tracefile.write(synthetic.attention(), made)
    watch = watching(folder)
    place = folder / "rank_0" / "small@latest"
    place.mkdir(parents=True)
    for path in sorted(made.iterdir()):
        whole = path.read_bytes()
        (place / path.name).write_bytes(whole[: len(whole) // 2])
        if path.suffix == ".parquet":
            assert looks(watch) == []
        (place / path.name).write_bytes(whole)
    assert looks(watch) == [place]


def test_a_trace_of_ours_appears_at_once_and_drafts_do_not(tmp_path: Path) -> None:
    watch = watching(tmp_path)
    shutil.copytree(tracefile.write(synthetic.attention(), tmp_path / "a"), tmp_path / ".draft")
    (tmp_path / "notes.txt").write_text("hello")
    os.symlink(tmp_path / "a", tmp_path / "link")
    assert looks(watch) == [tmp_path / "a"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Watch(tmp_path / "none").poll()


def test_watch_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_bytes(PROFILE)
    (tmp_path / "bad.json").write_bytes(b'{"x": 1}\n')

    def later() -> None:
        time.sleep(0.5)
        (tmp_path / "b.json").write_bytes(PROFILE[:3000])
        time.sleep(0.5)
        (tmp_path / "b.json").write_bytes(PROFILE)

    writer = threading.Thread(target=later)
    writer.start()
    assert cli.main(["watch", str(tmp_path), "--json", "-n", "2", "--settle", "0.1"]) == 0
    writer.join()
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [Path(record["path"]).name for record in found] == ["a.json", "b.json"]
    assert found[0]["time_ns"] == 6060
    assert "bad.json: JSON without instruction and DMA rows" in err

"""`trnprof collective`."""

from __future__ import annotations

import json

import pytest

from sim.collectives import exchange
from sim.fabrics import Group, fabric
from trnprof import cli

MIB = 1 << 20


def ran(capsys, *argv):
    assert cli.main(["collective", *argv]) == 0
    return capsys.readouterr().out


def test_the_time_is_that_of_the_exchange(capsys):
    found = json.loads(ran(capsys, "all-reduce", "--size", "64MiB", "--device", "trn2", "--chips", "64", "--json"))
    ours = exchange("all_reduce", 64 * MIB, fabric("trn2", 64))
    assert found["duration_ns"] == ours.duration_ps / 1e3
    assert found["bus_bytes_per_s"] == pytest.approx(ours.bytes_on_wire / ours.duration_ps * 1e12)
    assert [stage["level"] for stage in found["stages"]] == ["node", "efa", "node"]


def test_a_range_of_sizes_is_a_table(capsys):
    out = ran(capsys, "all_gather", "--size", "1KiB..1MiB", "--size", "3MB")
    assert len(out.splitlines()) == 2 + 6 + 1
    assert "~" in out and "mesh" in out
    assert len(json.loads(ran(capsys, "all_gather", "--size", "1KiB..1MiB", "--json"))) == 6


def test_groups_algorithms_and_what_the_others_do(capsys):
    asked = "all-reduce --size 64MiB --chips 64 --group 4/64 --busy --algorithm +rdh --json"
    found = json.loads(ran(capsys, *asked.split()))
    ours = exchange("all_reduce", 64 * MIB, fabric("trn2", 64), Group(4, 64, alone=False), "+rdh")
    assert (found["ranks"], found["duration_ns"]) == (4, ours.duration_ps / 1e3)


def test_late_ranks_and_slow_links_are_told(capsys):
    out = ran(capsys, "all-reduce", "--size", "1GiB", "--chips", "64", "--skew", "50us", "--skew", "7=2ms",
              "--slow-link", "efa:5=50%")  # fmt: skip
    assert "late" in out
    found = json.loads(ran(capsys, "all-reduce", "--skew", "7=2ms", "--json"))
    assert found["late_ns"] == pytest.approx(2e6)


def test_the_interval_holds_the_time(capsys):
    found = json.loads(ran(capsys, "all-reduce", "--size", "1KiB", "--json"))
    low, high = found["interval_ns"]
    assert low < found["duration_ns"] < high


def test_work_beside_it_hides_it(capsys):
    found = json.loads(ran(capsys, "all-reduce", "--beside", "1s", "--json"))["beside"]
    assert (found["total_ns"], found["exposed_ns"], found["slowed_ns"]) == (1e9, 0, 0)
    found = json.loads(ran(capsys, "all-reduce", "--size", "1GiB", "--beside", "1ms:100%", "--json"))["beside"]
    assert found["exposed_ns"] > 0 and found["slowed_ns"] > 0
    assert "exposed" in ran(capsys, "all-reduce", "--size", "1GiB", "--beside", "1ms:100%")


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["gossip"], 1, "collective: 'gossip' is unknown"),
        (["permute", "--size", "many"], 2, "expected a number of bytes"),
        (["permute", "--size", "4MiB..1MiB"], 2, "a range goes"),
        (["permute", "--size", "0..1MiB"], 2, "a range goes"),
        (["permute", "--group", "4:2"], 2, "expected SIZE or SIZE/STRIDE"),
        (["permute", "--group", "65"], 1, "the fabric has 64"),
        (["permute", "--beside", "1ms:much"], 2, "is not a share"),
        (["permute", "--beside", "long"], 2, "expected a time"),
        (["permute", "--beside", "1ms:150%"], 1, "of memory's bandwidth"),
        (["permute", "--skew", "soon"], 2, "expected a time"),
        (["permute", "--skew", "64=1ms"], 1, "there are ranks 0 to 63"),
        (["permute", "--slow-link", "5"], 2, "expected RANK=SHARE"),
        (["permute", "--slow-link", "5=fast"], 2, "is not a share"),
        (["permute", "--slow-link", "5=0"], 1, "0 to 1 of its rate"),
        (["permute", "--device", "inf1"], 3, "no data of what joins its chips"),
        (["permute", "--device", "abacus"], 1, "unknown device"),
        (["permute", "--chips", "17"], 1, "such as 16 or 32"),
        (["all-reduce", "--algorithm", "magic"], 1, "algorithm: 'magic' is unknown"),
    ],
)
def test_what_cannot_be_is_said(argv, code, says, capsys):
    assert cli.main(["collective", *argv]) == code
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1

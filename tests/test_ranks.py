"""One question to many traces gives what each of them gives alone, whoever does the work."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sim import tracefile
from sim.errors import InputError
from sim.texts import PackedStrings, packed
from tests.synthetic import attention
from tests.test_workers import NEEDS, ROOT
from trnprof import export, ranks
from trnprof.cli import main
from trnprof.ranking import rank
from trnprof.sql import query
from trnprof.summary import summarize
from trnprof.view.search import search

HERE = ranks.Where(workers=1)
ONE = "select opcode, count(*) as n, sum(duration_ns) as ns from instruction group by all"
ALL = "select opcode, sum(n)::int as n, sum(ns) as ns from answer group by all order by ns desc, opcode"


@pytest.fixture(scope="module")
def made() -> list:
    return [attention(), attention(simulated=True), attention(names={"MATMUL": "MATMUL_SPARSE"})]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("job")
    for number, trace in enumerate(made):
        tracefile.write(trace, place / f"rank_{number}" / "trace")
    return place


@pytest.fixture
def paths(folder) -> tuple[Path, ...]:
    return ranks.traces(folder)


def test_the_traces_of_a_folder_come_in_order_and_are_told_apart(folder, paths):
    assert paths == tuple(folder / f"rank_{n}" / "trace" for n in range(3))
    assert ranks.names(paths) == [f"rank_{n}/trace" for n in range(3)]
    assert ranks.traces(paths[1]) == (paths[1],)
    assert ranks.names(paths[:1]) == ["trace"]


def test_rows_of_every_trace_come_with_its_name(made, paths):
    found = ranks.query(paths, ONE, where=HERE).to_pylist()
    expected = [
        {"trace": name, **row}
        for name, trace in zip(ranks.names(paths), made, strict=True)
        for row in query(trace, ONE).to_pylist()
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_second_select_adds_up(made, paths):
    found = ranks.query(paths, ONE, ALL, where=HERE).to_pylist()
    alone = [row for trace in made for row in query(trace, ONE).to_pylist()]
    for row in found:
        mine = [other for other in alone if other["opcode"] == row["opcode"]]
        assert row["n"] == sum(other["n"] for other in mine)
        assert row["ns"] == pytest.approx(sum(other["ns"] for other in mine))
    assert {row["opcode"] for row in found} == {row["opcode"] for row in alone}


def test_a_second_select_reaches_nothing_but_the_answer(paths):
    with pytest.raises(InputError, match="SQL"):
        ranks.query(paths, ONE, "select * from '/etc/passwd'", where=HERE)
    with pytest.raises(InputError, match="views: answer"):
        ranks.query(paths, ONE, "select * from instruction", where=HERE)


def test_groups_add_up_over_traces(made, paths):
    by, groups = ranks.top(paths, None, 100, where=HERE)
    alone = [group for trace in made for group in rank(trace, limit=None)]
    assert by == "opcode"
    assert [group.total_ps for group in groups] == sorted((group.total_ps for group in groups), reverse=True)
    window = sum(trace.meta.window[1] - trace.meta.window[0] for trace in made)
    for group in groups:
        mine = [other for other in alone if other.value == group.value]
        assert (group.count, group.total_ps, group.busy_ps, group.longest_ps) == (
            sum(other.count for other in mine),
            sum(other.total_ps for other in mine),
            sum(other.busy_ps for other in mine),
            max(other.longest_ps for other in mine),
        )
        assert group.share == pytest.approx(group.busy_ps / window)


def test_summaries_are_each_trace_s_own_and_only_what_adds_up_is_added(made, paths):
    found = ranks.summaries(paths, where=HERE)
    assert list(found.values()) == [summarize(trace) for trace in made]
    total = ranks.sums(found)
    assert total["hbm_read_bytes"] == sum(summarize(trace)["hbm_read_bytes"] for trace in made)
    assert not [name for name in total if "percent" in name or "average" in name or "intensity" in name]
    missing = {"a": {"x_bytes": 1, "y_bytes": 2}, "b": {"x_bytes": 3, "y_bytes": None}}
    assert ranks.sums(missing) == {"x_bytes": 4}


def test_a_search_counts_in_each_trace(made, paths):
    found = ranks.search(paths, "sparse|exp", 1, where=HERE)
    assert [part.count for part in found] == [search(trace, "sparse|exp").count for trace in made]
    assert [len(part.records) for part in found] == [1, 1, 1]
    with pytest.raises(InputError, match="not a regular expression"):
        ranks.search(paths, "(", 1, where=HERE)


def test_traces_of_different_kinds_are_not_grouped_by_guess(paths, tmp_path):
    chrome = tmp_path / "chrome.json"
    chrome.write_text(json.dumps([{"name": "a", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]))
    with pytest.raises(InputError, match="general timelines"):
        ranks.top((*paths, chrome), None, 10, where=HERE)
    assert ranks.top((*paths, chrome), "name", 10, where=HERE)[0] == "name"


def test_commands_answer_for_a_folder(folder, capsys):
    def said(*words: str) -> dict | list:
        assert main([*words, "--workers", "1", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    place = str(folder)
    assert {row["trace"] for row in said("sql", place, ONE)} == {f"rank_{n}/trace" for n in range(3)}
    assert said("sql", place, ONE, "--then", "select count(*) as n from answer") != []
    assert said("top", place)["groups"][0]["count"] > 0
    assert said("grep", "exp", place)["traces"] == {f"rank_{n}/trace": 1 for n in range(3)}
    assert set(said("summary", place)) == {"traces", "sums"}
    for words in (("top", place), ("grep", "exp", place), ("summary", place), ("sql", place, ONE)):
        assert main([*words, "--workers", "1"]) == 0
        assert capsys.readouterr().out


def test_packed_names_are_words_in_sql(made):
    trace = made[0]
    texts = [*trace.strings, "µ"]
    strings = PackedStrings(*packed(texts))
    plain, quick = (export.arrow(replace(trace, strings=s), "instructions", trace.instructions)
                    for s in (type(trace.strings)(texts), strings))  # fmt: skip
    assert plain.equals(quick)


SCRIPT = """
import sys
from trnprof import ranks

if __name__ == "__main__":
    engine, folder, one, then = sys.argv[1:]
    if engine == "dask":
        from distributed import LocalCluster

        opened = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    else:
        import ray

        opened = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with opened as cluster:
        where = ranks.Where(engine, address=getattr(cluster, "scheduler_address", None), workers=2)
        paths = ranks.traces(folder)
        print(ranks.query(paths, one, then, where).to_pylist())
        print(ranks.top(paths, None, 3, where))
        print(ranks.sums(ranks.summaries(paths, where)))
        print(ranks.search(paths, "exp", 2, where))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_two_workers_of_a_cluster_say_the_same(engine, folder, paths, tmp_path):
    """One cluster answers all questions; whether one is begun where there is none is told by tests of the workers."""
    if importlib.util.find_spec(NEEDS[engine]) is None:
        pytest.skip(f"{engine} is not installed: pip install 'trnprof[{engine}]'")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    said = subprocess.run(
        [sys.executable, str(script), engine, str(folder), ONE, ALL],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    answers = (
        ranks.query(paths, ONE, ALL, HERE).to_pylist(),
        ranks.top(paths, None, 3, HERE),
        ranks.sums(ranks.summaries(paths, HERE)),
        ranks.search(paths, "exp", 2, HERE),
    )
    assert said.stdout.splitlines() == [str(answer) for answer in answers], said.stderr[-2000:]

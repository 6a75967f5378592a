"""The source that a trace names, beside the time of its lines; no other file is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.test_web import texts
from trnprof.tui import panels as terminal
from trnprof.view import Session
from trnprof.view.code import AROUND, LARGEST, source_files
from trnprof.view.records import SourceRow
from trnprof.web import panels

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "traces" / "attention"


@pytest.fixture(scope="module")
def rows() -> tuple[SourceRow, ...]:
    return Session.open(TRACE).source_lines()


def test_the_code_is_found_by_the_end_of_its_path_with_the_time_of_each_line(rows):
    (file,) = source_files(rows, ROOT)
    text = (ROOT / "traces" / "kernels" / "attention.py").read_text().splitlines()
    assert (file.name, file.missing) == ("attention.py", "")
    assert all(line.text == text[line.number - 1].rstrip() for line in file.lines)
    timed = {line.number: line.row for line in file.lines if line.row}
    assert timed == {row.line: row for row in rows}


def test_lines_without_time_are_shown_near_those_that_have_some_only(rows):
    (file,) = source_files(rows, ROOT)
    near = {k for row in rows for k in range(row.line - AROUND, row.line + AROUND + 1)}
    assert {line.number for line in file.lines} <= near
    for before, line in zip(file.lines, file.lines[1:], strict=False):
        assert line.apart == (line.number > before.number + 1)


def test_a_file_that_is_not_here_or_another_version_says_so(rows, tmp_path):
    (row,) = named("/nowhere/k/attention.py", rows[0])
    (gone,) = source_files((row,), tmp_path)
    assert "not on this machine" in gone.missing and gone.lines == ()
    (tmp_path / "attention.py").write_text("x = 1\n")
    (other,) = source_files((replace(row, line=61),), tmp_path)
    assert "another version" in other.missing


def named(path: str, row: SourceRow) -> tuple[SourceRow, ...]:
    return (replace(row, file=path, source=f"{path}:1", line=1),)


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.py", "a/../../secret.py", "notes.txt", "/etc"])
def test_only_python_files_below_the_named_path_are_read(rows, tmp_path, path):
    (tmp_path / "secret.py").write_text("token = 'secret'\n")
    (tmp_path / "notes.txt").write_text("secret\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (file,) = source_files(named(path, rows[0]), inner)
    assert file.lines == () and "not on this machine" in file.missing


def test_a_file_that_is_too_large_is_not_read(rows, tmp_path):
    (tmp_path / "big.py").write_text("#" * (LARGEST + 1))
    assert source_files(named("big.py", rows[0]), tmp_path)[0].lines == ()


def test_hostile_code_is_shown_as_text(rows, tmp_path):
    (tmp_path / "k.py").write_text("x = '\x1b[2J\u202e<script>'" + "A" * 5000 + "\n", encoding="utf-8")
    (file,) = source_files(named("k.py", rows[0]), tmp_path)
    assert "\x1b" not in file.lines[0].text and "\u202e" not in file.lines[0].text and len(file.lines[0].text) <= 160


def test_both_views_show_the_code_with_its_time(monkeypatch):
    monkeypatch.chdir(ROOT)
    session = Session.open(TRACE)
    line = next(line for line in session.source_files[0].lines if line.row)
    assert line.text in texts(panels.source(session, "")) and line.row.time_words in texts(panels.source(session, ""))
    for width, shows in ((118, True), (78, False)):
        said = "\n".join(
            "".join(text for text, _ in each)
            for each in terminal.sources(session.source_lines(), session.source_files, width)
        )
        assert (line.text.strip()[:20] in said) == shows

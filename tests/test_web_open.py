"""Bringing traces to the web: sent, by path, from the list of recent ones."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from sim.errors import InputError
from trnprof.view import places
from trnprof.view.arrivals import Arrivals
from trnprof.web import application, create_app
from trnprof.web.library import SENT, Library
from trnprof.web.routes import upload_limit

SAMPLE = Path(__file__).resolve().parent.parent / "traces" / "attention"


@pytest.fixture
def memory(tmp_path) -> Path:
    return tmp_path / "state" / "recent.json"


@pytest.fixture
def client(memory):
    return application.build([], memory=memory).server.test_client()


def zipped() -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for file in SAMPLE.iterdir():
            archive.write(file, f"attention/{file.name}")
    return body.getvalue()


def test_a_profile_that_is_sent_is_shown_and_gone_with_the_server(client):
    answer = client.post("/upload?name=my attention.zip", data=zipped())
    assert answer.json == {"name": "my-attention"}
    start = client.get("/trace/my-attention/start").json
    assert "error" not in start, start
    assert start["title"] == "attention"
    assert start["tracks"]


def test_the_name_of_a_file_cannot_leave_its_folder(client):
    for name in ("../../etc/passwd", "/etc/passwd", "..", "\0", "<b>&.json", "a" * 5000, "\u202e.json", ""):
        answer = client.post("/upload", query_string={"name": name}, data=b"{}")
        assert answer.status_code == 200, name
        kept = answer.json["name"]
        assert "/" not in kept and "<" not in kept and len(kept) <= 110
        assert client.get(f"/trace/{kept}/start").status_code == 404, "what is no profile is said to be none"


def test_a_file_beyond_the_limit_is_refused_and_not_kept(monkeypatch, memory):
    monkeypatch.setenv("TRNPROF_UPLOAD_MB", "1")
    assert upload_limit() == 1 << 20
    client = application.build([], memory=memory).server.test_client()
    answer = client.post("/upload?name=big.json", data=b"x" * ((1 << 20) + 1))
    assert answer.status_code == 413
    assert "1\u202fMiB" in answer.json["error"] and "by its path" in answer.json["error"]
    assert client.post("/upload?name=small.json", data=b"x" * 1000).status_code == 200


def test_a_file_that_grows_beyond_the_limit_while_it_comes_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    library = Library([])
    with pytest.raises(InputError, match="larger than"):
        library.take("big", (b"x" * 1000 for _ in range(20)), 5_000)
    assert list(tmp_path.iterdir()) == []
    assert library.names == ()


def test_only_so_many_files_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    library = Library([])
    names = [library.take("a.json", [b"{}"], 100) for _ in range(SENT + 2)]
    assert len(set(names)) == SENT + 2
    assert library.names == tuple(names[2:])
    assert len(list(tmp_path.iterdir())) == SENT


def test_foreign_pages_cannot_send_or_open(client):
    evil = {"Origin": "http://evil.example", "Host": "localhost"}
    assert client.post("/upload?name=a", data=b"{}", headers=evil).status_code == 403
    assert client.post(f"/open?path={SAMPLE}", headers=evil).status_code == 403
    client.get(f"/open?path={SAMPLE}")
    assert client.get("/trace/attention/start").status_code == 404, "only what is posted opens"


def test_a_path_is_opened_on_this_machine_alone(client):
    assert client.post("/open", query_string={"path": str(SAMPLE)}).json == {"name": "attention"}
    assert client.post("/open", query_string={"path": str(SAMPLE)}).json == {"name": "attention"}, "once"
    missing = client.post("/open", query_string={"path": "/nowhere/at/all"})
    assert (missing.status_code, "no such trace" in missing.json["error"]) == (404, True)
    for path in ("", "a\0b"):
        assert client.post("/open", query_string={"path": path}).status_code == 400
    remote = create_app([], hosts=["*"]).server.test_client()
    refused = remote.post("/open", query_string={"path": str(SAMPLE)}, headers={"Host": "a.example"})
    assert (refused.status_code, "its own users" in refused.json["error"]) == (404, True)


def test_what_was_opened_is_remembered_and_offered(client, memory, tmp_path):
    client.post("/open", query_string={"path": str(SAMPLE)})
    client.get("/trace/attention/start")
    client.post("/upload?name=sent.zip", data=zipped())
    client.get("/trace/sent/start")
    assert [place.path for place in places.recent(memory)] == [str(SAMPLE)], "what is sent is not this machine's"
    copy = tmp_path / "copy"
    shutil.copytree(SAMPLE, copy)
    places.remember(memory, copy)
    assert [place.name for place in places.recent(memory)] == ["copy", "attention"]
    shutil.rmtree(copy)
    assert [place.name for place in places.recent(memory)] == ["attention"], "what is gone is not offered"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "b"}', '{"/\\u0000": 1}', "\x00\xff"])
def test_a_damaged_memory_remembers_nothing(memory, text):
    memory.parent.mkdir()
    memory.write_text(text, encoding="utf-8")
    assert places.recent(memory) == ()
    places.remember(memory, SAMPLE)
    assert [place.name for place in places.recent(memory)] == ["attention"]


def test_a_folder_lists_its_traces(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "runs" / "first")
    (tmp_path / "runs" / "second.json").write_text("{}")
    (tmp_path / "runs" / "notes.txt").write_text("no trace")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "third.json").write_text("{}")
    changed = (tmp_path / "runs" / "second.json").stat().st_mtime - 60
    os.utime(tmp_path / "runs" / "second.json", (changed, changed))
    arrivals = Arrivals(tmp_path)
    arrivals.look()
    found = arrivals.places
    assert [place.name for place in found] == ["runs/first", "runs/second.json"]
    assert all(place.size and place.when for place in found)
    assert Library([tmp_path / "runs"]).names == ("runs", "second"), "the one directory of tables is the folder's trace"
    shutil.copytree(SAMPLE, tmp_path / "runs" / "other")
    assert Library([tmp_path / "runs"]).names == ("first", "other", "second")

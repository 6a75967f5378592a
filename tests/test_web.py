"""The web view without a browser: addresses, callbacks as functions, and what protects them."""

from __future__ import annotations

import json
import os
import re
import runpy
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from sim.errors import InputError
from tests.synthetic import US, attention
from trnprof.view import Session, Viewport
from trnprof.view import format as words
from trnprof.view.keys import GROUPS, KEYS, TABS, commands_of, grouped, keys_of
from trnprof.view.palette import BOUNDS, ENGINE_COLOURS, HUE_COLOURS, THEME_COLOURS, contrast, ink_on, stylesheet
from trnprof.web import callbacks, create_app, panels, serve
from trnprof.web.library import Library
from trnprof.web.security import token_for
from trnprof.web.server import listen
from trnprof.web.wire import pack_frame

ROOT = Path(__file__).parent.parent


@pytest.fixture
def library(monkeypatch, tmp_path) -> Library:
    """Two traces; a third that is damaged and a fourth that is gone."""
    made = {"kernel": attention(), "emulated": attention(simulated=True)}

    def opened(path: Path) -> Session:
        if path.stem == "gone":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if path.stem not in made:
            raise InputError(f"{path.name} stops in the middle of an instruction")
        return Session(made[path.stem])

    monkeypatch.setattr(Session, "open", opened)
    return Library([tmp_path / f"{stem}.json" for stem in (*made, "damaged", "gone")])


@pytest.fixture
def client(library, monkeypatch):
    monkeypatch.setattr("trnprof.web.application.Library", lambda paths, **options: library)
    return create_app([]).server.test_client()


def unpack(body: bytes) -> dict:
    """What assets/frames.js does."""
    size = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + size])
    kinds = {"Float64Array": "f8", "Float32Array": "f4", "Int32Array": "i4", "Int16Array": "i2", "Int8Array": "i1"}
    for name, kind, at, length in head["columns"]:
        dtype = np.dtype(kinds.get(kind, "u1"))
        assert (4 + size + at) % dtype.itemsize == 0, f"{name} is not aligned"
        head[name] = np.frombuffer(body, dtype, length, 4 + size + at)
    return head


def texts(component) -> str:
    """All text of a tree of components."""
    if isinstance(component, (str, int, float)):
        return str(component)
    if isinstance(component, (list, tuple)):
        return " ".join(map(texts, component))
    return texts(getattr(component, "children", None) or "")


# --- addresses ------------------------------------------------------------------------------------------------------


def test_a_frame_arrives_as_the_session_made_it(client, library):
    session = library.session("kernel")
    t0, t1 = session.home
    reply = client.get(f"/trace/kernel/frame?t0={t0}&t1={t1}&columns=900")
    sent, frame = unpack(reply.data), session.frame(Viewport(t0, t1, 900))
    np.testing.assert_array_equal(sent["start"], frame.start_ps)
    np.testing.assert_allclose(sent["start"] + sent["length"], frame.end_ps)
    np.testing.assert_array_equal(sent["row"], frame.row)
    assert sent["tracks"] == list(frame.tracks)
    assert sent["bucket"] == frame.bucket_ps
    assert sent["levels"] * len(sent["values"]) == frame.values.size * sent["levels"]


def test_a_frame_of_some_tracks_in_another_colour(client):
    reply = client.get(f"/trace/kernel/frame?t0=0&t1={28 * US}&columns=90&tracks=c0.vector,c0.scalar&colour=wait")
    assert unpack(reply.data)["tracks"] == ["c0.vector", "c0.scalar"]
    assert unpack(reply.data)["colour"] == "wait"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("t0=0&t1=10", "columns"),
        ("t0=zero&t1=10&columns=5", "t0"),
        ("t0=0&t1=10&columns=0", "outside"),
        ("t0=0&t1=10&columns=99999999", "outside"),
        ("t0=10&t1=10&columns=5", "after"),
        ("t0=0&t1=99999999999999999999999&columns=5", "t1"),
        ("t0=0&t1=10&columns=5&colour=rainbow", "colour"),
    ],
)
def test_bad_arguments_are_answered_by_name(client, query, says):
    reply = client.get(f"/trace/kernel/frame?{query}")
    assert reply.status_code == 400
    assert says in reply.get_json()["error"]


def test_cards_steps_and_gaps(client):
    assert client.get("/trace/kernel/card?row=6").get_json()["title"] == "ACTIVATE exp"
    assert client.get("/trace/kernel/step?row=3&by=1").get_json()["row"] == 4
    assert client.get("/trace/kernel/step?row=0&by=1&kind=transfers").get_json()["row"] == 1
    assert client.get("/trace/kernel/step?row=7&by=1").get_json() is None
    assert client.get("/trace/kernel/follow?row=6&by=-1").get_json()["row"] == 5
    assert client.get(f"/trace/kernel/first?t0=0&t1={28 * US}").get_json()["row"] == 2
    assert client.get(f"/trace/kernel/near?track=c0.vector&t={US}").get_json()["row"] == 5
    assert client.get(f"/trace/kernel/gap?track=c0.scalar&t={18 * US}").get_json()["then"]["row"] == 6
    assert client.get("/trace/kernel/card?row=99").status_code == 400
    assert client.get("/trace/kernel/transfer?row=-1").status_code == 400


def test_the_legend_is_that_of_the_session_and_narrows_a_frame(client, library):
    rows = client.get("/trace/kernel/legend?colour=opcode").json
    assert rows == [row.to_json() for row in library.session("kernel").legend("opcode")]
    query = f"t0={9 * US}&t1={26 * US}&columns=900&tracks=c0.tensor,c0.vector&colour=opcode"
    every, alone = (unpack(client.get(f"/trace/kernel/frame?{query}&only={only}").data) for only in ("", "0"))
    assert every["inks"] == "hue"
    assert (alone["flags"] & 1).sum() < (every["flags"] & 1).sum()
    assert client.get(f"/trace/kernel/frame?{query}&only=x").status_code == 400


def test_what_is_in_view_is_a_table_and_a_file(client, library):
    session, span = library.session("kernel"), f"t0={14 * US}&t1={20 * US}"
    assert client.get(f"/trace/kernel/listing?{span}").json == session.listing(14 * US, 20 * US).to_json()
    answer = client.get(f"/trace/kernel/view.csv?{span}")
    assert answer.text == "".join(session.written(14 * US, 20 * US))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="kernel.csv"'
    assert client.get("/trace/kernel/view.csv?t0=a&t1=2").status_code == 400


def test_search_and_goto(client):
    found = client.get("/trace/kernel/search?q=matmul").get_json()
    assert (found["count"], found["rows"], found["starts"][0]) == (3, [3, 4, 7], 15 * US)
    assert client.get("/trace/kernel/search?q=(").get_json()["error"]
    hit = client.get("/trace/kernel/hit?q=matmul&row=3&by=1").get_json()
    assert (hit["number"], hit["card"]["row"]) == (2, 4)
    assert client.get(f"/trace/kernel/goto?text={quote('20.5 µs')}").get_json()["t0_ps"] == 20_500_000
    assert client.get("/trace/kernel/goto?text=nowhere").get_json() is None


@pytest.mark.parametrize("name", ["damaged", "gone", "never"])
def test_a_trace_that_cannot_be_read_is_said_in_words(client, name):
    reply = client.get(f"/trace/{name}/card?row=0")
    assert reply.status_code == 404
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "address", ["/trace/..%2f..%2fetc%2fpasswd/card?row=0", "/assets/../app.py", "/assets/..%2fapp.py"]
)
def test_no_address_reaches_a_file_beside_the_traces(client, address):
    with client.get(address) as reply:
        assert "root:" not in reply.text
        assert "create_app" not in reply.text


def test_two_traces_do_not_mix(client):
    cards = [client.get(f"/trace/{name}/card?row=6").get_json() for name in ("kernel", "emulated")]
    assert [card["estimated"] for card in cards] == [False, True]


def test_large_answers_are_squeezed_when_the_browser_takes_it(client):
    address = f"/trace/kernel/frame?t0=0&t1={28 * US}&columns=9000"
    plain = client.get(address)
    packed = client.get(address, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert zlib.decompress(packed.data, 31) == plain.data


def test_no_byte_of_a_frame_depends_on_chance(library):
    frames = [Session(attention()).frame(Viewport(0, 28 * US, 500)) for _ in range(2)]
    assert pack_frame(frames[0]) == pack_frame(frames[1])


# --- the page -------------------------------------------------------------------------------------------------------


class Sources(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href") and value]


def test_the_page_loads_nothing_from_elsewhere(client):
    page = Sources()
    page.feed(client.get("/").text)
    assert any("timeline.js" in source for source in page.found)
    assert all(source.startswith(("/", "data:,")) and not source.startswith("//") for source in page.found)
    for source in page.found:
        if source.startswith("/"):
            with client.get(source) as reply:
                assert reply.status_code == 200, source


def test_the_policy_forbids_what_is_not_ours(client):
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    script = re.search(r"script-src ([^;]*)", policy)[1]
    assert "unsafe" not in script
    assert "'self'" in script


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8050"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:8050"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example:8050"}, 403),
        ({"Host": "localhost:8050", "Origin": "http://localhost:8050"}, 200),
        ({"Host": "localhost:8050", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:8050", "Origin": "null"}, 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(client, headers, status):
    assert client.get("/", headers=headers).status_code == status


def test_a_host_that_was_asked_for_is_answered():
    client = create_app([], hosts=["build.example"]).server.test_client()
    assert client.get("/", headers={"Host": "build.example:80"}).status_code == 200
    assert client.get("/", headers={"Host": "other.example"}).status_code == 403


def test_off_loopback_a_browser_must_bring_the_token_once():
    client = create_app([], hosts=["*"], token="secret").server.test_client()
    for address in ("/", "/palette.css", "/assets/page.js", "/_dash-layout", "/?token=wrong", "/?token="):
        assert client.get(address, headers={"Host": "build.example"}).status_code == 403, address
    answer = client.get("/?trace=a&token=secret", headers={"Host": "build.example"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/?trace=a")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    client.set_cookie("trnprof", "secret", domain="build.example")
    assert client.get("/?trace=a", headers={"Host": "build.example"}).status_code == 200
    evil = {"Host": "build.example", "Origin": "http://evil.example"}
    assert client.get("/", headers=evil).status_code == 403, "a token does not let other pages ask"


@pytest.mark.parametrize(("hosts", "wanted"), [((), False), (("127.0.0.1",), False), (("*",), True), (("a.b",), True)])
def test_a_token_is_wanted_where_others_can_ask(hosts, wanted):
    fresh = token_for(hosts)
    assert bool(fresh) == wanted
    assert not wanted or (len(fresh) >= 32 and fresh != token_for(hosts))
    assert token_for(hosts, "given") == ("given" if wanted else "")


def test_the_address_that_is_printed_carries_the_token(monkeypatch, capsys):
    monkeypatch.setattr("waitress.serve", lambda *args, **options: options["sockets"][0].close())
    monkeypatch.setenv("TRNPROF_TOKEN", "abc")
    serve([ROOT / "traces" / "attention"], host="0.0.0.0", port=0)
    assert re.search(r"http://[^/ ]+:\d+/\?token=abc ", capsys.readouterr().err)
    serve([ROOT / "traces" / "attention"], port=0)
    assert "token" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "read"), [((), True), (("127.0.0.1",), True), (("build.example",), False), (("*",), False)]
)
def test_source_files_are_read_for_users_of_this_machine_alone(hosts, read, monkeypatch):
    made = []
    monkeypatch.setattr(
        "trnprof.web.application.Library", lambda paths, code, **rest: made.append(code) or Library(paths, code=code)
    )
    create_app([ROOT / "traces" / "attention"], hosts=hosts)
    assert made == [read]
    session = Library([ROOT / "traces" / "attention"], code=read).session("attention")
    assert any(file.lines for file in session.source_files) == read


def test_the_first_trace_is_shown_when_none_is_named(library):
    screen, start = callbacks.page(library, "")
    assert start["name"] == "kernel"
    assert start["home"] == list(library.session("kernel").home)
    assert "captured, trn2, 1 core" in texts(screen)
    assert len(start["tracks"]) == len(library.session("kernel").tracks())


def test_the_verdict_follows_the_picture(library):
    _, start = callbacks.page(library, "")
    strip, title = callbacks.verdict(library, start)
    assert library.session("kernel").verdict.headline in texts(strip)
    assert title == "attention, latency-bound · trnprof"
    assert callbacks.verdict(library, None) == ([], "trnprof")


def test_an_emulated_trace_wears_its_mark(library):
    screen, start = callbacks.page(library, "?trace=emulated")
    assert start["estimated"]
    assert "emulated, trn2, 1 core" in texts(screen)
    assert f"~28.0{words.NARROW}µs" in texts(screen)


@pytest.mark.parametrize(
    ("name", "says"), [("damaged", "stops in the middle"), ("gone", "No such file"), ("x", "no trace")]
)
def test_a_page_that_cannot_be_shown_says_why_and_what_else_is_open(library, name, says):
    screen, start = callbacks.page(library, f"?trace={name}")
    assert start is None
    assert says in texts(screen)
    assert "kernel" in texts(screen)


def test_without_traces_the_page_says_how_to_open_one():
    screen, start = callbacks.page(Library([]), None)
    assert start is None
    assert "No trace is open" in texts(screen)


@pytest.mark.parametrize(
    ("ask", "shows"),
    [
        ({}, "Nothing is selected"),
        ({"row": 6}, "ACTIVATE exp"),
        ({"transfer": 0}, "load q"),
        ({"area": [12 * US, 20 * US], "title": "mine"}, "mine, 8.00"),
        ({"gap": ["c0.scalar", 18 * US]}, "Idle 10.1"),
        ({"gap": ["c0.scalar", 20_500_000]}, "Nothing is selected"),
        ({"row": 999}, "row 999 of 10"),
        ({"tab": "verdict"}, "Reached against limits"),
        ({"tab": "engines"}, "in the kernel window"),
        ({"tab": "engines", "area": [0, US]}, "in the selection"),
        ({"tab": "regions"}, "Q·Kᵀ"),
        ({"tab": "source", "row": 6}, "attention.py:16"),
        ({"tab": "roofline"}, "of roof"),
    ],
)
def test_the_panel_shows_what_is_asked_for(library, ask, shows):
    assert shows in texts(callbacks.panel(library, {"trace": "kernel", "row": -1, **ask}))


def test_a_panel_of_a_lost_trace_is_a_sentence(library):
    assert "stops in the middle" in texts(callbacks.panel(library, {"trace": "damaged", "tab": "verdict"}))


def test_the_roofline_follows_theme_and_selection(library):
    graph = callbacks.chart(library, {"trace": "kernel", "theme": "light", "width": 900, "height": 500})
    figure = next(c for c in walk(graph) if getattr(c, "id", "") == "graph-page").figure
    names = {trace.name for trace in figure.data}
    assert {"HBM", "TensorE fp32", "dots"} <= names
    dots = next(trace for trace in figure.data if trace.name == "dots")
    assert list(dots.customdata[0])[:2] == [10 * US, 25 * US]
    assert figure.layout.xaxis.tickfont.color == THEME_COLOURS["light"]["text-3"]
    ringed = callbacks.chart(library, {"trace": "kernel", "width": 900, "height": 500, "area": [10 * US, 25 * US]})
    with_ring = next(c for c in walk(ringed) if getattr(c, "id", "") == "graph-page").figure
    assert len(with_ring.data) == len(figure.data) + 1


def walk(component):
    if isinstance(component, (list, tuple)):
        for part in component:
            yield from walk(part)
    elif hasattr(component, "children"):
        yield component
        yield from walk(component.children)
    elif hasattr(component, "to_plotly_json"):
        yield component


def test_names_go_in_as_text_never_as_markup(monkeypatch, library):
    hostile = "<script>alert(1)</script>"
    trace = attention(names={"MATMUL": hostile})
    named = replace(trace, meta=replace(trace.meta, kernel=hostile))
    monkeypatch.setattr(Session, "open", lambda path: Session(named))
    other = Library(library.paths.values())
    parts = callbacks.panel(other, {"trace": "kernel", "row": 3})
    assert hostile in texts(parts)
    dangerous = {"dangerouslySetInnerHTML", "dangerously_allow_html", "srcDoc"}
    assert all(not dangerous & set(c.to_plotly_json()["props"]) for c in walk(parts))
    figure = callbacks.panel(other, {"trace": "kernel", "tab": "roofline"})
    chart = next(c.figure for c in walk(figure) if hasattr(c, "figure"))
    hovers = [text for trace in chart.data for text in trace.hovertext or ()]
    shown = [note.text for note in chart.layout.annotations] + hovers
    assert any("&lt;script" in text for text in shown)
    assert not any("<script" in text for text in shown)


def test_names_of_slopes_keep_clear_of_each_other_and_of_dots_and_equal_roofs_share_one():
    import math

    from tests.handmade import make, move, vector
    from trnprof.web import figures

    session = Session(make([vector(0, 1000, 100, hbm_read_bytes=80_000)], [move(0, 900, 80_000)]))
    chart, size = session.roofline(), (968, 600)
    figure = figures.roofline(chart, session.dots(), "light", size)
    plane = figures.Plane(chart, *size, small=False)
    slopes = [note for note in figure.layout.annotations if note.textangle]
    assert {note.text.partition(" ")[0] for note in slopes} == {"DMA", "HBM", "NeuronLink"}
    middles = [(plane.x(10**note.x) + note.xshift, plane.y(10**note.y * 1e12) - note.yshift) for note in slopes]
    assert all(math.dist(a, b) > 13 for k, a in enumerate(middles) for b in middles[:k])
    dot = plane.x(chart.dots[0].intensity), plane.y(chart.dots[0].achieved)
    assert all(math.dist(middle, dot) > 30 for middle in middles)
    named = [note.text for note in figure.layout.annotations if note.x == 1]
    assert any(text.startswith("ScalarE, GpSimdE  0.154") for text in named)
    assert not any(text.startswith("GpSimdE") for text in named)


# --- the one table of keys and the palette --------------------------------------------------------------------------


def test_no_key_does_two_things():
    for view in ("web", "terminal"):
        pressed = [key for row in keys_of(view) for key in (row.keys if view == "web" else row.terminal)]
        assert len(pressed) == len(set(pressed))
    assert {key.group for key in KEYS} == set(GROUPS)
    assert [len(rows) > 0 for _, rows in grouped("web")] == [True] * len(GROUPS)


def test_every_command_of_the_table_acts_in_the_browser():
    script = (ROOT / "assets" / "page.js").read_text()
    for row in commands_of("web"):
        named = re.search(rf"\b{row.action}\b\s*[:,]", script) or row.action.startswith(("tab_", "colour_", "theme_"))
        assert named, f"{row.action} is in the table of keys and nowhere in page.js"


def test_tabs_are_the_same_everywhere():
    script = (ROOT / "assets" / "page.js").read_text()
    listed = re.search(r"TABS = \[([^\]]*)\]", script)[1]
    assert tuple(re.findall(r'"(\w+)"', listed)) == TABS == tuple(panels.TAB_NAMES)


def test_the_browser_knows_the_same_engines_and_bounds():
    script = (ROOT / "assets" / "ink.js").read_text()
    for name, expected in (("ENGINES", ENGINE_COLOURS), ("BOUNDS", BOUNDS)):
        assert tuple(re.findall(r'"([\w-]+)"', re.search(rf"{name} = \[([^\]]*)\]", script)[1])) == expected


def test_every_colour_the_style_asks_for_exists(client):
    style = (ROOT / "assets" / "style.css").read_text()
    own = set(re.findall(r"(--[\w-]+)\s*:", style))
    served = client.get("/palette.css").text
    assert served == stylesheet()
    tokens = {f"--{name}" for name in THEME_COLOURS["dark"]}
    assert set(re.findall(r"var\((--[\w-]+)", style)) <= own | tokens


@pytest.mark.parametrize("theme", THEME_COLOURS)
def test_text_and_bars_can_be_read(theme):
    colours = THEME_COLOURS[theme]
    for ground in ("bg", "surface", "hover"):
        assert all(contrast(colours[text], colours[ground]) >= 4.5 for text in ("text", "text-2", "text-3"))
    for name in (*ENGINE_COLOURS[:-1], *BOUNDS, *HUE_COLOURS):
        assert contrast(colours[name], colours["bg"]) >= 3, name
        assert contrast(ink_on(colours[name]), colours[name]) >= 4.4, name


# --- opening and listening ------------------------------------------------------------------------------------------


def test_traces_of_one_name_are_told_apart():
    assert Library(["a/run.json", "b/run.json", "c/läuft!.json"]).names == ("run", "run-2", "l-uft")


def test_a_trace_is_opened_once_and_the_oldest_is_closed(monkeypatch):
    opened = []
    monkeypatch.setattr(Session, "open", lambda path: opened.append(path.stem) or Session(attention()))
    library = Library([f"{n}.json" for n in "abc"], kept=2)
    first = library.session("a")
    assert library.session("a") is first
    library.session("b")
    library.session("c")
    library.session("a")
    assert opened == ["a", "b", "c", "a"]


def test_the_module_for_wsgi_servers_shows_the_traces_of_the_environment(monkeypatch, tmp_path):
    traces = [str(tmp_path / "one.json"), str(tmp_path / "two.json")]
    monkeypatch.setenv("TRNPROF_TRACES", os.pathsep.join(traces))
    monkeypatch.setenv("TRNPROF_HOSTS", "profiles.example")
    monkeypatch.setenv("TRNPROF_TOKEN", "known")
    server = runpy.run_path(str(ROOT / "app.py"))["server"]
    client = server.test_client()
    assert client.get("/?token=known", headers={"Host": "profiles.example"}).status_code == 302
    client.set_cookie("trnprof", "known", domain="profiles.example")
    assert client.get("/", headers={"Host": "profiles.example"}).status_code == 200
    at = {"Host": "profiles.example"}
    assert client.get("/trace/two/card?row=0", headers=at).status_code == 404
    assert "one, two" in client.get("/trace/three/card?row=0", headers=at).get_json()["error"]


def test_a_taken_port_moves_on_to_the_next():
    first = listen("127.0.0.1", 0)
    first.listen()
    port = first.getsockname()[1]
    second = listen("127.0.0.1", port)
    assert second.getsockname()[1] > port
    first.close()
    second.close()


def test_an_address_that_is_not_ours_is_an_error_with_a_way_on():
    with pytest.raises(InputError, match="choose another"):
        listen("203.0.113.1", 8050)

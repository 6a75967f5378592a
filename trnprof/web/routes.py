"""What the page asks for beside Dash's callbacks: frames as bytes, and small answers as JSON."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, request

from sim.errors import TrnprofError
from trnprof.view import Session, Viewport
from trnprof.view import format as words
from trnprof.view.colours import COLOURS
from trnprof.view.palette import stylesheet
from trnprof.web.jobs import Jobs
from trnprof.web.library import Library
from trnprof.web.start import start_of
from trnprof.web.wire import pack_frame, pack_overview

MOST_COLUMNS = 20_000
MOST_TIME = 2**62
MOST_HITS = 20_000
"""Rows of a search that the page marks; the count is of all."""

MOST_ARRIVED = 20
"""Arrivals that one answer names; the count is of all."""

UPLOAD_MB = 2048
PART = 1 << 20
"""Bytes of a file that are held at a time."""

_COMPRESS_FROM = 32_768
_GZIP = 16 + zlib.MAX_WBITS
_MAX_AGE = 86_400

Answer = Callable[[Session], Response]


class BadArgumentError(ValueError):
    """An argument that is missing or out of range."""


def add_routes(server: Flask, library: Library) -> None:
    """Register every address below `/trace/<name>/`, and the colours."""
    for rule, answer in _ANSWERS.items():
        server.add_url_rule(f"/trace/<name>/{rule}", rule, _route(library, answer))
    jobs = Jobs()
    for rule, act in (("what-if", _suppose), ("what-if/state", _state), ("what-if/cancel", _cancel)):
        methods = ["GET"] if act is _state else ["POST"]
        server.add_url_rule(f"/trace/<name>/{rule}", rule, _route(library, partial(act, jobs)), methods=methods)
    server.add_url_rule("/trace/<name>/pair", "pair", _route(library, partial(_pair, library)))
    server.add_url_rule("/palette.css", "palette", _palette)
    server.add_url_rule("/arrivals", "arrivals", partial(_arrivals, library))
    server.add_url_rule("/open", "open", partial(_open, library), methods=["POST"])
    server.add_url_rule("/upload", "upload", partial(_upload, library), methods=["POST"])
    server.after_request(_compress)


def _route(library: Library, answer: Answer) -> Callable[[str], Response]:
    def respond(name: str) -> Response:
        try:
            return answer(library.session(name))
        except (BadArgumentError, IndexError) as fault:
            return _json({"error": str(fault)}, 400)
        except (TrnprofError, OSError) as fault:
            return _json({"error": str(fault)}, 404)

    return respond


def _palette() -> Response:
    return Response(stylesheet(), mimetype="text/css", headers={"Cache-Control": f"max-age={_MAX_AGE}"})


def _frame(session: Session) -> Response:
    names = request.args.get("tracks")
    colour = _way()
    viewport = Viewport(_time("t0"), _time("t1"), _integer("columns", 1, MOST_COLUMNS))
    if viewport.t1_ps <= viewport.t0_ps:
        raise BadArgumentError("t1: must lie after t0")
    frame = session.frame(viewport, names.split(",") if names is not None else None, colour, _only())
    return Response(pack_frame(frame), mimetype="application/octet-stream")


def _way() -> str:
    colour = request.args.get("colour", "engine")
    if colour not in COLOURS:
        raise BadArgumentError(f"colour: {colour[:40]!r} is none of {', '.join(COLOURS)}")
    return colour


def _only() -> list[int]:
    """Colours that a legend is narrowed to."""
    text = request.args.get("only", "")
    if not re.fullmatch(r"(-?\d{1,2}(,-?\d{1,2}){0,30})?", text, re.ASCII):
        raise BadArgumentError(f"only: {text[:40]!r} are no colours of a legend")
    return [int(part) for part in text.split(",")] if text else []


def _legend(session: Session) -> Response:
    return _json([row.to_json() for row in session.legend(_way())])


def _overview(session: Session) -> Response:
    return Response(
        pack_overview(session.overview(_integer("columns", 1, MOST_COLUMNS))), mimetype="application/octet-stream"
    )


def _card(session: Session) -> Response:
    return _json(session.card(_row("row")).to_json())


def _transfer(session: Session) -> Response:
    return _json(session.transfer_card(_row("row")).to_json())


def _gap(session: Session) -> Response:
    found = session.gap(request.args.get("track", ""), _time("t"))
    return _json(found.to_json() if found else None)


def _step(session: Session) -> Response:
    kind = request.args.get("kind", "instructions")
    row = session.step(_row("row"), _integer("by", -1, 1), kind)
    if row < 0:
        return _json(None)
    return _json((session.card(row) if kind == "instructions" else session.transfer_card(row)).to_json())


def _follow(session: Session) -> Response:
    return _instruction(session, session.follow(_row("row"), _integer("by", -1, 1)))


def _first(session: Session) -> Response:
    return _instruction(session, session.first_in(_time("t0"), _time("t1")))


def _near(session: Session) -> Response:
    """The row of another track at a moment."""
    return _instruction(session, session.nearest(request.args.get("track", ""), _time("t")))


def _instruction(session: Session, row: int) -> Response:
    return _json(session.card(row).to_json() if row >= 0 else None)


def _listing(session: Session) -> Response:
    first = _integer("first", 0, 2**53) if "first" in request.args else 0
    return _json(session.listing(_time("t0"), _time("t1"), first).to_json())


def _written(session: Session) -> Response:
    """What is in view, piece by piece: it may be long."""
    name = re.sub(r"[^\w.-]+", "-", request.view_args["name"], flags=re.ASCII)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(session.written(_time("t0"), _time("t1")), mimetype="text/csv", headers=headers)


def _search(session: Session) -> Response:
    hits = session.search(request.args.get("q", ""))
    return _json(
        {
            "count": hits.count,
            "words": hits.words,
            "error": hits.error,
            "rows": hits.rows[:MOST_HITS].tolist(),
            "starts": hits.start_ps[:MOST_HITS].tolist(),
        }
    )


def _hit(session: Session) -> Response:
    number, row = session.hit(request.args.get("q", ""), _integer("row", -1, 2**53), _integer("by", -1, 1))
    return _json({"number": number, "card": session.card(row).to_json() if row >= 0 else None})


def _goto(session: Session) -> Response:
    found = session.goto(request.args.get("text", "")[:200])
    return _json(found.to_json() if found else None)


def _memory(session: Session) -> Response:
    return _json(session.memory(_time("t")).to_json())


def _suppose(jobs: Jobs, session: Session) -> Response:
    """Begin the what-ifs of a line; the page looks at them until they are over."""
    wished = session.suppositions(request.args.get("set", ""))
    number = jobs.begin([partial(_supposed, session, settings) for settings in wished])
    if number is None:
        return _json({"error": "other what-ifs are running; cancel one, or wait"}, 429)
    return _json({"job": number})


def _supposed(session: Session, settings: dict[str, Any]) -> dict[str, Any]:
    name = ",".join(f"{name}={value}" for name, value in settings.items())
    return {**session.what_if(settings).to_json(), "name": name}


def _state(jobs: Jobs, session: Session) -> Response:
    return _job(jobs.get(request.args.get("job", "")))


def _cancel(jobs: Jobs, session: Session) -> Response:
    return _job(jobs.cancel(request.args.get("job", "")))


def _job(job: Any) -> Response:
    return _json(job.state()) if job else _json({"error": "no such what-if is known any more"}, 404)


def upload_limit() -> int:
    """Bytes of a file that a browser may send: TRNPROF_UPLOAD_MB in MiB, else 2048."""
    text = os.environ.get("TRNPROF_UPLOAD_MB", "")
    return (int(text) if text.isascii() and text.isdigit() and len(text) < 8 else UPLOAD_MB) << 20


def _open(library: Library) -> Response:
    """Serve a trace of this machine by its path."""
    path = request.args.get("path", "")[:4096]
    if not path or "\0" in path:
        return _json({"error": "type the path of a trace"}, 400)
    try:
        return _json({"name": library.add(Path(path).expanduser())})
    except (TrnprofError, OSError, RuntimeError) as fault:
        return _json({"error": str(fault)}, 404)


def _arrivals(library: Library) -> Response:
    """What is served by now, and how often something came."""
    library.look()
    said = {"names": library.names, "arrived": library.arrived[-MOST_ARRIVED:], "count": len(library.arrived)}
    return _json({**said, "waiting": library.waiting, "follows": bool(library.followed)})


def _upload(library: Library) -> Response:
    """Keep a file that is sent, as it comes in."""
    most = upload_limit()
    if request.content_length is None or request.content_length > most:
        said = f"at most {words.size(most)} can be sent; a larger one is opened by its path: trnprof web FILE"
        return _json({"error": said}, 411 if request.content_length is None else 413)
    parts = iter(lambda: request.stream.read(PART), b"")
    try:
        return _json({"name": library.take(request.args.get("name", "")[:400] or "trace", parts, most)})
    except TrnprofError as fault:
        return _json({"error": str(fault)}, 413)
    except OSError as fault:
        return _json({"error": f"the file cannot be kept: {fault.strerror or fault}"}, 507)


def _pair(library: Library, session: Session) -> Response:
    """The same instruction in two traces, and what changed."""
    after = library.session(request.args.get("with", ""))
    row, side = _row("row"), request.args.get("side", "before")
    (after if side == "after" else session).card(row)
    found = after.twin(session, row, after=side == "after")
    return _json(
        {"before": _card_of(session, found.before), "after": _card_of(after, found.after), "words": found.words}
    )


def _card_of(session: Session, row: int) -> dict[str, Any] | None:
    return session.card(row).to_json() if row >= 0 else None


def _start(session: Session) -> Response:
    """What a timeline begins with."""
    return _json(start_of(request.view_args["name"], session))


_ANSWERS: dict[str, Answer] = {
    "frame": _frame,
    "overview": _overview,
    "legend": _legend,
    "card": _card,
    "transfer": _transfer,
    "gap": _gap,
    "step": _step,
    "follow": _follow,
    "first": _first,
    "near": _near,
    "listing": _listing,
    "view.csv": _written,
    "search": _search,
    "hit": _hit,
    "goto": _goto,
    "memory": _memory,
    "start": _start,
}


def _row(name: str) -> int:
    return _integer(name, 0, 2**53)


def _time(name: str) -> int:
    return _integer(name, -MOST_TIME, MOST_TIME)


def _integer(name: str, low: int, high: int) -> int:
    text = request.args.get(name, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadArgumentError(f"{name}: {text[:40]!r} is not a whole number")
    if not low <= int(text) <= high:
        raise BadArgumentError(f"{name}: {text} lies outside {low} to {high}")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), status, mimetype="application/json")


def _compress(response: Response) -> Response:
    """Large answers are squeezed: over a forwarded port the line is slower than the processor."""
    wanted = "gzip" in request.headers.get("Accept-Encoding", "")
    if not wanted or response.is_streamed or response.direct_passthrough or "Content-Encoding" in response.headers:
        return response
    body = response.get_data()
    if len(body) < _COMPRESS_FROM:
        return response
    squeeze = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    response.set_data(squeeze.compress(body) + squeeze.flush())
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response

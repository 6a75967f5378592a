"""What the page asks for beside Dash's callbacks: frames as bytes, and small answers as JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, request

from sim.errors import TrnprofError
from trnprof.view import Session, Viewport
from trnprof.view.palette import stylesheet
from trnprof.view.timeline import COLOURS
from trnprof.web.library import Library
from trnprof.web.wire import pack_frame, pack_overview

MOST_COLUMNS = 20_000
MOST_TIME = 2**62
MOST_HITS = 20_000
"""Rows of a search that the page marks; the count is of all."""

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
    server.add_url_rule("/palette.css", "palette", _palette)
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
    colour = request.args.get("colour", "engine")
    if colour not in COLOURS:
        raise BadArgumentError(f"colour: {colour[:40]!r} is none of {', '.join(COLOURS)}")
    viewport = Viewport(_time("t0"), _time("t1"), _integer("columns", 1, MOST_COLUMNS))
    if viewport.t1_ps <= viewport.t0_ps:
        raise BadArgumentError("t1: must lie after t0")
    frame = session.frame(viewport, names.split(",") if names is not None else None, colour)
    return Response(pack_frame(frame), mimetype="application/octet-stream")


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


_ANSWERS: dict[str, Answer] = {
    "frame": _frame,
    "overview": _overview,
    "card": _card,
    "transfer": _transfer,
    "gap": _gap,
    "step": _step,
    "follow": _follow,
    "first": _first,
    "near": _near,
    "search": _search,
    "hit": _hit,
    "goto": _goto,
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
    if not wanted or response.direct_passthrough or "Content-Encoding" in response.headers:
        return response
    body = response.get_data()
    if len(body) < _COMPRESS_FROM:
        return response
    squeeze = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    response.set_data(squeeze.compress(body) + squeeze.flush())
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response

"""Who may ask, and what a page may load: loopback names, or whoever has the token; nothing from elsewhere."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import NoReturn
from urllib.parse import urlencode, urlsplit

from dash import Dash
from flask import Flask, Response, abort, redirect, request

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")

COOKIE = "trnprof"
"""Holds the token, so that it stands in an address only once."""
TOKEN = "token"
LASTS = 30 * 86_400
"""Seconds that a browser keeps it."""

_POLICY = (
    "default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def token_for(hosts: Sequence[str], given: str = "") -> str:
    """What a browser must know: nothing where only this machine can ask, else the given token or a fresh one."""
    return "" if {host.lower() for host in hosts} <= set(LOOPBACK) else given or secrets.token_urlsafe(24)


def guard(app: Dash, hosts: Sequence[str] = (), token: str = "") -> None:
    """Refuse foreign Host and Origin headers, which is how other pages reach a local server, and set the policy.

    hosts : allowed beside the loopback names; "*" for any
    token : what each request must carry, in the cookie that the first address with `?token=` sets
    """
    server: Flask = app.server
    allowed = {*LOOPBACK, *(host.lower() for host in hosts)}

    @server.before_request
    def check() -> Response | None:
        if _foreign(allowed):
            _refuse("This server answers to loopback names only; see --host.")
        return _admit(token) if token else None

    @server.after_request
    def protect(response: Response) -> Response:
        hashes = " ".join(f"'{value}'" for value in _script_hashes(app))
        response.headers["Content-Security-Policy"] = _POLICY.format(hashes=hashes)
        response.headers.update(_HEADERS)
        return response


def _foreign(allowed: set[str]) -> bool:
    """Whether the request names another host than ours, or comes from a page of another."""
    origin = request.headers.get("Origin")
    source = urlsplit(origin).netloc if origin else ""
    if origin and not source:
        return True
    if "*" in allowed:
        return bool(source) and source != request.host
    return any(_bare(name) not in allowed for name in (request.host, source) if name)


def _admit(token: str) -> Response | None:
    """Let in who has the cookie; set it for who comes with the token, whose address then loses it."""
    if _same(request.cookies.get(COOKIE, ""), token):
        return None
    if not _same(request.args.get(TOKEN, ""), token):
        _refuse("This server wants the token of the address that it printed.")
    rest = [(name, value) for name, value in request.args.items(multi=True) if name != TOKEN]
    answer = redirect(f"{request.path}?{urlencode(rest)}" if rest else request.path)
    answer.set_cookie(COOKIE, token, max_age=LASTS, httponly=True, samesite="Lax", secure=request.is_secure)
    return answer


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _refuse(why: str) -> NoReturn:
    abort(Response(f"{why}\n", 403, mimetype="text/plain"))


def _bare(host: str) -> str:
    """Without the port."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _script_hashes(app: Dash) -> list[str]:
    """Dash's one inline script, which starts its renderer."""
    return [value.strip("'") for value in app.csp_hashes()]

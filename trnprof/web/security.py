"""Who may ask, and what a page may load: loopback names only, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from dash import Dash
from flask import Flask, Response, abort, request

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")

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


def guard(app: Dash, hosts: Sequence[str] = ()) -> None:
    """Refuse foreign Host and Origin headers, which is how other pages reach a local server, and set the policy.

    hosts : allowed beside the loopback names; "*" for any
    """
    server: Flask = app.server
    allowed = {*LOOPBACK, *(host.lower() for host in hosts)}

    @server.before_request
    def check() -> None:
        if "*" in allowed:
            return
        origin = request.headers.get("Origin")
        named = [request.host] + ([urlsplit(origin).netloc] if origin and origin != "null" else [])
        if any(_bare(name) not in allowed for name in named) or origin == "null":
            abort(Response("This server answers to loopback names only; see --host.\n", 403, mimetype="text/plain"))

    @server.after_request
    def protect(response: Response) -> Response:
        hashes = " ".join(f"'{value}'" for value in _script_hashes(app))
        response.headers["Content-Security-Policy"] = _POLICY.format(hashes=hashes)
        response.headers.update(_HEADERS)
        return response


def _bare(host: str) -> str:
    """Without the port."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _script_hashes(app: Dash) -> list[str]:
    """Dash's one inline script, which starts its renderer."""
    return [value.strip("'") for value in app.csp_hashes()]

"""Listens on one port and says where."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from sim.errors import InputError
from trnprof.view import places
from trnprof.web.application import build
from trnprof.web.routes import upload_limit
from trnprof.web.security import LOOPBACK, TOKEN, token_for

EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses that stand for all of the machine: no name can be told foreign then."""

THREADS = 8
TRIES = 20
"""Ports after the one asked for that are tried when it is taken."""


def run(paths: Sequence[str | Path], host: str, port: int, open_browser: bool) -> None:
    """Serve until interrupted."""
    import waitress

    # A page asks for several things at once; that they wait in line is no news.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    missing = next((path for path in map(Path, paths) if not path.exists()), None)
    if missing is not None:
        raise InputError(f"{missing}: no such trace")
    listener = listen(host, port)
    hosts = ("*",) if host in EVERYWHERE else (host,)
    token = token_for(hosts, os.environ.get("TRNPROF_TOKEN", ""))
    app = build(paths, hosts, token, places.memory(os.environ))
    address = f"http://{_shown(host)}:{listener.getsockname()[1]}/{f'?{TOKEN}={token}' if token else ''}"
    sys.stderr.write(f"trnprof: {address}  (Ctrl+C ends)\n")
    if open_browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    waitress.serve(app.server, sockets=[listener], threads=THREADS, ident=None, max_request_body_size=upload_limit())


def _shown(host: str) -> str:
    """The name that a browser can use."""
    if host in LOOPBACK:
        return "localhost"
    name = socket.gethostname() if host in EVERYWHERE else host
    return f"[{name}]" if ":" in name else name


def listen(host: str, port: int) -> socket.socket:
    """A bound socket on the port, or on the next free one."""
    last: OSError | None = None
    for candidate in (port,) if port == 0 else range(port, min(port + TRIES, 65_536)):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.bind((host, candidate))
            return listener
        except OSError as fault:
            listener.close()
            last = fault
    raise InputError(f"{host}:{port}: cannot listen ({last})", remedy="choose another --port or --host")

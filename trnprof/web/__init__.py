"""The browser's view: one Dash page on one port, everything served locally."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dash import Dash

__all__ = ["create_app", "serve"]


def create_app(paths: Sequence[str | Path], hosts: Sequence[str] = (), token: str = "") -> Dash:
    """The application for these traces; `.server` is its WSGI callable.

    hosts : names beside the loopback ones that a browser may address it by; "*" for any; with one that is not
            loopback no source files of this machine are shown
    token : what a browser must bring once as `?token=`, where there is one
    """
    from trnprof.web.application import build

    return build(paths, hosts, token)


def serve(paths: Sequence[str | Path], host: str = "127.0.0.1", port: int = 8050, open_browser: bool = False) -> None:
    """Serve until interrupted; says where on stderr.

    port   : the next free one when it is taken, any with 0
    raises : InputError when no address can be listened on
    """
    from trnprof.web.server import run

    run(paths, host, port, open_browser)

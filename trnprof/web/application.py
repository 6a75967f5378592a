"""Puts the page together: layout, routes, callbacks, and what protects them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dash import Dash, dcc, html

from trnprof.home import data_dir
from trnprof.web import screens
from trnprof.web.callbacks import add_callbacks
from trnprof.web.library import Library
from trnprof.web.routes import add_routes, upload_limit
from trnprof.web.security import LOOPBACK, guard

INDEX = """<!doctype html>
<html lang="en">
<head>
  {%metas%}
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{%title%}</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="/palette.css">
  {%css%}
</head>
<body>
  {%app_entry%}
  <div id="live" class="sr" role="status" aria-live="polite"></div>
  <footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>
"""


def build(paths: Sequence[str | Path], hosts: Sequence[str] = (), token: str = "", memory: Path | None = None) -> Dash:
    """The application; nothing is opened before it is asked for.

    memory : the file that remembers what was opened last
    """
    library = Library(paths, code=set(hosts) <= set(LOOPBACK), memory=memory)
    app = Dash(
        "trnprof",
        assets_folder=str(data_dir("assets")),
        index_string=INDEX,
        title="trnprof",
        update_title=None,
        serve_locally=True,
        suppress_callback_exceptions=True,
    )
    app.layout = html.Div(
        [
            dcc.Location(id="address", refresh=False),
            dcc.Store(id="trace"),
            dcc.Store(id="ask"),
            dcc.Store(id="chart"),
            dcc.Store(id="begun"),
            dcc.Store(id="judged"),
            html.Div(screens.loading(", ".join(library.names)), id="page"),
            screens.help_page(),
        ],
        id="app",
    )
    add_callbacks(app, library)
    add_routes(app.server, library)
    app.server.config["MAX_CONTENT_LENGTH"] = upload_limit()
    guard(app, hosts, token)
    return app

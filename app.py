"""The web view for a WSGI server: `waitress-serve app:server`; `python app.py TRACE…` is `trnprof web TRACE…`.

TRNPROF_TRACES names the traces, separated as in PATH; TRNPROF_HOSTS, separated by commas, the host names that browsers
may use beside the loopback ones; with such names a browser must bring TRNPROF_TOKEN once, as `?token=`.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    from trnprof.cli import main

    sys.exit(main(["web", *sys.argv[1:]]))

from trnprof.web import create_app
from trnprof.web.security import token_for


def named(variable: str, separator: str) -> list[str]:
    return [item for item in os.environ.get(variable, "").split(separator) if item]


hosts = named("TRNPROF_HOSTS", ",")
token = token_for(hosts, os.environ.get("TRNPROF_TOKEN", ""))
if token and "TRNPROF_TOKEN" not in os.environ:
    sys.stderr.write(f"trnprof: browsers must ask with ?token={token}\n")
server = create_app(named("TRNPROF_TRACES", os.pathsep), hosts, token).server

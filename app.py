"""The web view for a WSGI server: `waitress-serve app:server`, or `python app.py TRACE…`.

TRNPROF_TRACES names the traces, separated as in PATH; TRNPROF_HOSTS, separated by commas, the host names that browsers
may use beside the loopback ones.
"""

from __future__ import annotations

import os
import sys

from trnprof.web import create_app, serve


def named(variable: str, separator: str) -> list[str]:
    return [item for item in os.environ.get(variable, "").split(separator) if item]


if __name__ == "__main__":
    serve(sys.argv[1:] or named("TRNPROF_TRACES", os.pathsep))
else:
    server = create_app(named("TRNPROF_TRACES", os.pathsep), named("TRNPROF_HOSTS", ",")).server

"""What `trnprof` can do: a module a command, with `declare(parser)` and `execute(args)`.

The docstring of `execute` is the command's help. Nothing here imports more than the standard library before a command
runs, so that `trnprof --help` answers at once.
"""

from __future__ import annotations

from types import ModuleType

from trnprof.commands import (
    advise,
    baseline,
    calibrate,
    collective,
    compare,
    cost,
    critical,
    demo,
    devices,
    diff,
    export,
    grep,
    inspect,
    model,
    report,
    roofline,
    run,
    sql,
    summary,
    sweep,
    top,
    tui,
    validate,
    watch,
    web,
    what_if,
)

COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "run": run,
    "model": model,
    "summary": summary,
    "roofline": roofline,
    "advise": advise,
    "critical": critical,
    "what-if": what_if,
    "compare": compare,
    "baseline": baseline,
    "cost": cost,
    "report": report,
    "tui": tui,
    "web": web,
    "watch": watch,
    "top": top,
    "grep": grep,
    "diff": diff,
    "sql": sql,
    "inspect": inspect,
    "export": export,
    "sweep": sweep,
    "collective": collective,
    "devices": devices,
    "validate": validate,
    "calibrate": calibrate,
}

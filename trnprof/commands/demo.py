from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands import result
from trnprof.commands.progress import shown
from trnprof.commands.streams import emit, emit_json

if TYPE_CHECKING:
    import numpy as np

TENSORS = ["q_t=bf16[128,512]", "k_t=bf16[128,1024]", "v=bf16[1024,128]"]


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("--no-web", action="store_true", help="end after printing")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--device", default="trn2", metavar="D", help="trn1, inf2, trn2 or trn3 (trn2)")
    parser.add_argument("-o", "--output", metavar="DIR", help="where the trace is written (the user's cache)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Emulate a sample kernel, print the verdict, and serve its timeline to a browser.

    The kernel is attention of one head over 1024 keys, in bf16.
    """
    import sim
    from sim import tracefile
    from trnprof.arguments import parse
    from trnprof.home import cache_dir, data_dir
    from trnprof.summary import summarize

    kernel = sim.load(str(data_dir("traces") / "kernels" / "attention.py") + "::attention", device=args.device)
    tensors = parse(TENSORS, seed=0, values=True)
    with shown(args.json):
        run = sim.run(kernel, device=args.device, **tensors)
    path = args.output or str(cache_dir() / "demo")
    tracefile.write(run.trace, path, summary=summarize(run.trace))
    error = _error(run.outputs[0], **tensors)
    if args.json:
        emit_json({**result.record(run.trace), "trace": path, "error": error})
    else:
        emit(result.text(run.trace, kept=path))
        emit(f"values: {error:.1%} off NumPy's attention in float32 (relative L2)")
    if not args.no_web:
        from trnprof.web import serve

        serve([path], open_browser=args.open)


def _error(output: np.ndarray, q_t: np.ndarray, k_t: np.ndarray, v: np.ndarray) -> float:
    """Relative L2 distance of the kernel's output from attention written in NumPy."""
    import numpy as np

    q, k, values = (tensor.astype(np.float32) for tensor in (q_t.T, k_t.T, v))
    scores = q @ k.T * q.shape[1] ** -0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights / weights.sum(axis=1, keepdims=True) @ values
    return float(np.linalg.norm(output.astype(np.float32) - wanted) / np.linalg.norm(wanted))

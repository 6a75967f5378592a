"""Writes docs/conformance.md: which public kernels run on the emulator, and with what result.

python tests/conformance.py FOLDER OUTCOMES.json PAGE.md     the outcomes that `tests/corpora.py --json` wrote
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from tests.census import Found
    from tests.corpora import Case, Outcome

TABLE = ("kernel", "device", "shapes", "values", "error / tolerance", "instructions", "time", "bound", "findings",
         "guesses", "remark")  # fmt: skip
WIDEST = 150
"""Characters of a remark."""

HEAD = """# Public kernels on the emulator

Written by `python tests/corpora.py FOLDER --page docs/conformance.md`, where FOLDER holds checkouts of the repositories
below. Each kernel runs unmodified, in a process of its own, with values and with time, and is compared with the
reference of its corpus or, where that cannot run without a device, with one of our own in NumPy. No code of the corpora
is part of this project.

A kernel counts as *right* when every case in which it ran agrees with the reference. *error* is the largest relative L2
distance of an output from its reference; tolerances are the corpus' own where it has one. *time* is the estimate of the
kernel's window on the device named (`~`: calibrated, not measured). *findings* counts what the emulator reports: reads
of unwritten memory, races, overlaps, Python that the kernel compiler refuses. *guesses* names the calls of which a part
is documented nowhere, **bold** where values depend on it; what is guessed stands at the end.
"""


def page(folder: Path, done: list[tuple[Case, Outcome]]) -> str:
    from tests.census import census

    counted = census(folder)
    parts = [HEAD, _sources(folder), "## Counts\n", _counts(counted, done), _left_out(folder, done)]
    missing = _uncovered(counted, done)
    if missing:
        parts += ["## Kernels that did not run\n", _bullets(missing)]
    known = [
        f"{case.corpus}, {_file(case)} `{case.kernel}`: {_remark(outcome)}" for case, outcome in done if outcome.known
    ]
    failed = [
        f"{case.corpus}, {_file(case)} `{case.kernel}`: {_remark(outcome) or 'wrong values'}"
        for case, outcome in done
        if outcome.right is not True and not outcome.known
    ]
    if known:
        parts += ["## Exceptions\n", _bullets(known)]
    if failed:
        parts += ["## Failures\n", _bullets(failed)]
    for corpus in dict.fromkeys(case.corpus for case, _ in done):
        parts += [f"## {corpus}\n", _table([item for item in done if item[0].corpus == corpus])]
    parts += ["## What is guessed\n", _guesses(done)]
    return "\n".join(parts)


def _sources(folder: Path) -> str:
    """Each checkout with its commit, which NAME.commit beside it tells where it has no history."""
    lines = []
    for path in sorted(child for child in folder.iterdir() if child.is_dir()):
        command = ["git", "-C", str(path.resolve()), "log", "-1", "--format=%h"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        told = path.with_name(f"{path.name}.commit")
        commit = commit or (told.read_text().strip() if told.is_file() else "")
        versions = ", ".join(sorted(child.name for child in path.iterdir() if child.is_dir()))
        lines.append(f"{path.name} {commit or versions}")
    return _bullets(lines)


def _counts(counted: list[Found], done: list[tuple[Case, Outcome]]) -> str:
    right, ran = _places(done)
    rows = [("corpus", "kernels", "ran", "right")]
    for corpus in dict.fromkeys(found.corpus for found in counted):
        kernels = [found.place for found in counted if found.corpus == corpus and found.line]
        rows.append(
            (corpus, str(len(kernels)), str(sum(k in ran for k in kernels)), str(sum(k in right for k in kernels)))
        )
    rows.append(("all", *(str(sum(int(line[i]) for line in rows[1:])) for i in (1, 2, 3))))
    tests = [outcome.right is True for case, outcome in done if case.kernel.partition(".")[2].startswith("test_")]
    return _lines(rows) + f"\nTests of `nki/test` that pass: {sum(tests)} of {len(tests)}.\n"


def _left_out(folder: Path, done: list[tuple[Case, Outcome]]) -> str:
    """Cases that exist and that this run did not take."""
    from tests.corpora import cases

    taken = {case.id for case, _ in done}
    missing = Counter(case.corpus for case in cases(folder) if case.id not in taken)
    return "".join(f"Not run for this page: {count} cases of {corpus}.\n" for corpus, count in missing.items())


def _places(done: list[tuple[Case, Outcome]]) -> tuple[set[str], set[str]]:
    """Kernels that are right wherever they ran, and kernels that ran to their end."""
    ran = {place for _, outcome in done if outcome.ran for place in outcome.kernels}
    wrong = {place for _, outcome in done if outcome.ran and outcome.right is not True for place in outcome.kernels}
    return ran - wrong, ran


def _uncovered(counted: list[Found], done: list[tuple[Case, Outcome]]) -> list[str]:
    """Kernels that did not run to their end and files that are no Python, with what is known about them."""
    ran = _places(done)[1]
    known = {f"{case.file}::{case.kernel}": outcome for case, outcome in done}
    known |= {place: outcome for _, outcome in done if not outcome.ran for place in outcome.kernels}
    lines = []
    for found in counted:
        if found.place not in ran:
            outcome = known.get(found.place) or known.get(f"{found.file}::{found.name}")
            why = f": {_remark(outcome)}" if outcome else ""
            lines.append(f"{found.corpus}: {found.file} `{found.name}`{why}")
    return lines


def _remark(outcome: Outcome) -> str:
    text = "; ".join(filter(None, (outcome.known, outcome.reason)))
    return text if len(text) <= 2 * WIDEST else text[: 2 * WIDEST] + " …"


def _table(done: list[tuple[Case, Outcome]]) -> str:
    often = Counter(case.kernel for case, _ in done)
    names = (case.kernel if often[case.kernel] == 1 else f"{_file(case)}: {case.kernel}" for case, _ in done)
    return _lines([TABLE, *((name, *_cells(case, outcome)) for name, (case, outcome) in zip(names, done))])


def _file(case: Case) -> str:
    return Path(case.file).name


def _cells(case: Case, outcome: Outcome) -> tuple[str, ...]:
    """What stands behind the name."""
    from sim.engines import GUESSED_VALUES
    from trnprof.view import format as words

    values = {True: "right", False: "wrong", None: "n/a"}[outcome.right] if outcome.ran else "n/a"
    error = "" if outcome.error is None else f"{outcome.error:.1e}"
    return (
        case.device,
        outcome.shapes,
        "exception" if outcome.known and outcome.right is not True else values,
        " / ".join(filter(None, (error, outcome.tolerance))) if outcome.ran else "",
        "" if outcome.instructions is None else str(outcome.instructions),
        "" if outcome.latency_us is None else words.estimate(words.time(outcome.latency_us * 1e6)),
        outcome.verdict.replace("_", " "),
        "" if outcome.finding_count is None else str(outcome.finding_count),
        ", ".join(f"**{call}**" if call in GUESSED_VALUES else call for call in outcome.guesses),
        _remark(outcome)[:WIDEST],
    )


def _guesses(done: list[tuple[Case, Outcome]]) -> str:
    from sim.engines import GUESSED

    calls = sorted({call for _, outcome in done for call in outcome.guesses})
    return _bullets(f"`{call}`: {GUESSED[call]}" for call in calls)


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {_plain(line)}\n" for line in lines)


def _lines(rows: list[tuple[str, ...]]) -> str:
    cells = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "".join("| " + " | ".join(map(_plain, line)) + " |\n" for line in cells)


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def main() -> None:
    from tests.corpora import Outcome, cases

    folder, outcomes, target = (Path(argument) for argument in sys.argv[1:])
    known = {}
    for record in json.loads(outcomes.read_text()):
        values = {name: record[name] for name in Outcome.__dataclass_fields__ if name in record}
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        known[f"{record['file']}::{record['kernel']}"] = Outcome(**values)
    done = [(case, known[case.id]) for case in cases(folder.resolve()) if case.id in known]
    target.write_text(page(folder.resolve(), done))


if __name__ == "__main__":
    main()

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands.streams import columns, emit, emit_json


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--member", metavar="NAME", help="print one member of a NEFF")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Say what a file is, and show the plain parts of a capture or a compiled program.

    NEFF: header and the members of its archive. NTFF: header. Both with the command that converts them.
    """
    from dataclasses import asdict

    from trnprof import words
    from trnprof.readers.plain_parts import inspect, member

    if args.member is not None:
        text = member(args.file, args.member)
        emit_json({"member": args.member, "text": text}) if args.json else emit(text)
        return
    found = inspect(args.file)
    if args.json:
        emit_json(asdict(found))
        return
    lines = [f"{words.plain(found.path, 200)}: {found.kind}, {words.size(found.bytes)}"]
    lines += [f"  {name}: {words.plain(value, 400)}" for name, value in found.facts.items()]
    if found.parts:
        rows = [(words.plain(part.name, 100), words.size(part.bytes), part.about) for part in found.parts]
        lines.append(columns(rows, frozenset((1,)), indent="  "))
    if found.command:
        lines.append(f"to convert it: {found.command}")
    emit("\n".join(lines))

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    from sim.figures import Figure
    from sim.spec import Device


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="trn2, inf2, trn1.32xlarge, NeuronCore-v3, …")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """List the devices, or every number known of one, each with its source and kind.

    kinds: documented by the vendor, measured on hardware, derived from either, or a guess.
    """
    from dataclasses import asdict

    from sim.spec import device, devices, rows

    if args.name is None:
        if args.json:
            emit_json([_head(item) for item in devices()])
        else:
            emit(_listing(devices()))
        return
    found = device(args.name)
    if args.json:
        emit_json({**_head(found), "figures": [{"group": group, **asdict(figure)} for group, figure in rows(found)]})
    else:
        emit(_table(found, rows(found)))


def _head(device: Device) -> dict[str, Any]:
    names = ("name", "title", "neuroncore", "generation", "validated", "emulated")
    return {name: getattr(device, name) for name in names}


def _listing(devices: tuple[Device, ...]) -> str:
    head = [("device", "chip", "core", "figures", "timing")]
    return columns(
        head + [(item.name, item.title, item.neuroncore, str(len(item.figures)), _timing(item)) for item in devices]
    )


def _timing(device: Device) -> str:
    if not device.emulated:
        return "roofline only"
    return "compared with measurements" if device.validated else "not validated"


def _table(device: Device, rows: list[tuple[str, Figure]]) -> str:
    sources = list(dict.fromkeys(figure.source for _, figure in rows))
    lines = [f"{device.name}: {device.title}, {device.neuroncore}, timing {_timing(device)}"]
    for group in dict.fromkeys(group for group, _ in rows):
        inside = [figure for name, figure in rows if name == group]
        lines += ["", group, columns([_words(figure, sources) for figure in inside], frozenset((1, 2)), indent="  ")]
    lines += ["", "sources", *(f"  [{number}] {source}" for number, source in enumerate(sources, 1))]
    return "\n".join(lines)


def _words(figure: Figure, sources: list[str]) -> tuple[str, ...]:
    spread = "" if figure.spread is None else f"{figure.spread[0]:.4g} to {figure.spread[1]:.4g}"
    note = f"{figure.name}; {figure.note}" if figure.note else figure.name
    source = f"[{sources.index(figure.source) + 1}]"
    return figure.id, f"{figure.value:,}", spread, figure.unit, figure.kind, source, note

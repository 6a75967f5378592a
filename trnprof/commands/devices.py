from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    from sim.fabrics import Bandwidth
    from sim.figures import Figure
    from sim.spec import Device


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="trn2, inf2, trn1.32xlarge, NeuronCore-v3, …")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """List the devices, or every number known of one and of what joins its chips, each with its source and kind.

    kinds: documented by the vendor, measured on hardware, derived from either, or a guess.
    """
    from dataclasses import asdict

    from sim.fabrics import bandwidths
    from sim.spec import device, devices, rows

    if args.name is None:
        if args.json:
            emit_json([_head(item) for item in devices()])
        else:
            emit(_listing(devices()))
        return
    found = device(args.name)
    if args.json:
        figures = [{"group": group, **asdict(figure)} for group, figure in rows(found)]
        emit_json({**_head(found), "figures": figures, "fabrics": [asdict(each) for each in bandwidths(found)]})
    else:
        emit(_table(found, rows(found), bandwidths(found)))


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


def _table(device: Device, rows: list[tuple[str, Figure]], joined: list[Bandwidth]) -> str:
    sources = list(dict.fromkeys(figure.source for _, figure in rows))
    lines = [f"{device.name}: {device.title}, {device.neuroncore}, timing {_timing(device)}"]
    for group in dict.fromkeys(group for group, _ in rows):
        inside = [figure for name, figure in rows if name == group]
        lines += ["", group, columns([_words(figure, sources) for figure in inside], frozenset((1, 2)), indent="  ")]
    sources = list(dict.fromkeys([*sources, *(each.source for each in joined)]))
    if joined:
        head = ("fabric", "level", "shape", "", "GB/s a chip", "", "")
        lines += ["", "fabrics", columns([head, *(_joint(each, sources) for each in joined)], frozenset((4,)), "  ")]
    lines += ["", "sources", *(f"  [{number}] {source}" for number, source in enumerate(sources, 1))]
    return "\n".join(lines)


def _joint(each: Bandwidth, sources: list[str]) -> tuple[str, ...]:
    shape = " x ".join(map(str, each.shape)) if all(each.shape) else "any"
    named = (each.fabric, each.level, shape, each.kind_of_joint)
    return (*named, f"{each.value:g}", each.kind, f"[{sources.index(each.source) + 1}] {each.note}".rstrip())


def _words(figure: Figure, sources: list[str]) -> tuple[str, ...]:
    spread = "" if figure.spread is None else f"{figure.spread[0]:.4g} to {figure.spread[1]:.4g}"
    note = f"{figure.name}; {figure.note}" if figure.note else figure.name
    source = f"[{sources.index(figure.source) + 1}]"
    return figure.id, f"{figure.value:,}", spread, figure.unit, figure.kind, source, note

"""Slow twin of `sim/jit/dependences.py`: accesses are sets of bytes, counted one by one.

A byte is (partition, byte in the partition) on chip, (0, byte of the tensor) in HBM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

READ, WRITE, ACCUMULATE = range(3)
FLOW, ANTI, OUTPUT, ORDER = range(4)
COMPLETION, SAME, ISSUE = range(3)

Bytes = set[tuple[int, int]]


@dataclass
class Operand:
    """storage, offset, and of its layout: shape, strides, itemsize."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    role: int


@dataclass
class Place:
    """A storage: where it lies and what it shares its history with; pitch 0 in HBM."""

    space: tuple
    """Memory and core; in HBM the storage itself."""
    group: int
    pitch: int
    partition: int
    low: int
    high: int
    given: bool


@dataclass
class Node:
    instruction: int
    bytes: Bytes
    inherited: bool = False
    seen: bool = False


@dataclass
class Lists:
    writes: list[Node] = field(default_factory=list)
    reads: list[Node] = field(default_factory=list)


@dataclass
class Scene:
    instructions: list[list[Operand]]
    slots: list[int]
    """Bitwise complement for a DMA trigger."""
    tensor: list[bool]
    places: list[Place]
    lists: dict[int, Lists] = field(default_factory=dict)
    owner: dict[tuple, dict[int, int]] = field(default_factory=dict)
    born: set[int] = field(default_factory=set)
    edges: list[dict[int, tuple[int, int, bool]]] = field(default_factory=list)
    """Per instruction: predecessor -> (kind, gate, reuse)."""
    unwritten: dict[int, int] = field(default_factory=dict)


def locate(place: Place, operand: Operand) -> Bytes:
    """Every byte that an operand touches."""
    found = set()
    for index in product(*(range(size) for size in operand.shape)):
        at = operand.offset + sum(i * stride for i, stride in zip(index, operand.strides, strict=True))
        for byte in range(at, at + operand.itemsize):
            partition, low = divmod(byte, place.pitch) if place.pitch else (0, byte)
            found.add((place.partition + partition, (place.low if place.pitch else 0) + low))
    return found


def meets(one: Bytes, other: Bytes) -> bool:
    return bool(one & other)


def fills(box: Bytes, other: Bytes, low: int, high: int) -> bool:
    """Whether a box has all bytes of another set that lie in [low, high)."""
    return {byte for byte in other if low <= byte[1] < high} <= box


def link(nodes: list[Node], node: Node) -> None:
    nodes.append(node)


def cut(nodes: list[Node], box: Bytes) -> None:
    """Take written bytes out of older nodes."""
    for node in nodes:
        node.bytes = node.bytes - box
    nodes[:] = [node for node in nodes if node.bytes]


def mark_seen(nodes: list[Node], box: Bytes) -> None:
    for node in nodes:
        node.seen |= not node.inherited and node.bytes <= box


def add_edge(scene: Scene, i: int, predecessor: int, kind: int, role: int, reuse: bool) -> None:
    """Of several reasons the first kind and the strongest gate stay."""
    ours, theirs = scene.slots[i], scene.slots[predecessor]
    same = theirs >= 0 and theirs in (ours, ~ours)
    gate = COMPLETION if not same else SAME if kind == FLOW else ISSUE
    if role == ACCUMULATE and kind == FLOW and same and scene.tensor[predecessor]:
        kind, gate = ORDER, ISSUE
    known = scene.edges[i].get(predecessor)
    if known:
        gate = min(gate, known[1])
        if known[0] <= kind:
            reuse = known[2] and (reuse or known[0] < kind)
            kind = known[0]
    scene.edges[i][predecessor] = (kind, gate, reuse)


def visit(scene: Scene, i: int, role: int, lists: Lists, box: Bytes) -> bool:
    """Whether it met a write of its own group."""
    found = False
    for node in lists.writes:
        if not meets(node.bytes, box):
            continue
        found |= not node.inherited
        if role != WRITE and not node.inherited:
            add_edge(scene, i, node.instruction, FLOW, role, False)
        elif role != READ and not node.seen:
            add_edge(scene, i, node.instruction, OUTPUT, role, node.inherited)
    for node in lists.reads if role != READ else []:
        if meets(node.bytes, box):
            add_edge(scene, i, node.instruction, ANTI, role, node.inherited)
    return found


def keep(lists: Lists, i: int, role: int, box: Bytes) -> None:
    if role == READ:
        mark_seen(lists.writes, box)
        link(lists.reads, Node(i, box))
    else:
        cut(lists.writes, box)
        cut(lists.reads, box)
        link(lists.writes, Node(i, box))


def inherit(nodes: list[Node], mine: list[Node], low: int, high: int) -> None:
    """Hand the bytes in [low, high) over."""
    for node in nodes:
        part = {byte for byte in node.bytes if low <= byte[1] < high}
        if part:
            mine.append(Node(node.instruction, part, inherited=True, seen=node.seen))
            node.bytes = node.bytes - part


def occupants(low: list[int], high: list[int], order: list[int]) -> list[list[int]]:
    """Per interval in this order: those that lay last at its bytes, by byte."""
    owner: dict[int, int] = {}
    found = []
    for index in order:
        last = [owner[byte] for byte in range(low[index], high[index]) if byte in owner]
        found.append([one for place, one in enumerate(last) if place == 0 or last[place - 1] != one])
        overlay(owner, low[index], high[index], index)
    return found


def overlay(owner: dict[int, int], low: int, high: int, index: int) -> None:
    owner.update(dict.fromkeys(range(low, high), index))


def settle(scene: Scene, storage: int) -> None:
    """At the first access to a storage, take over what is left of those that lay at its bytes."""
    place = scene.places[storage]
    owner = scene.owner.setdefault(place.space, {})
    mine = scene.lists.setdefault(place.group, Lists())
    for old in dict.fromkeys(owner.get(byte) for byte in range(place.low, place.high)):
        if old is not None and scene.places[old].group != place.group:
            theirs = scene.lists[scene.places[old].group]
            inherit(theirs.writes, mine.writes, place.low, place.high)
            inherit(theirs.reads, mine.reads, place.low, place.high)
    overlay(owner, place.low, place.high, storage)
    scene.born.add(storage)


def find(scene: Scene) -> None:
    """Fill the edges of all instructions."""
    for i, operands in enumerate(scene.instructions):
        scene.edges.append({})
        for operand in operands:
            if operand.storage not in scene.born:
                settle(scene, operand.storage)
        boxes = [(operand, locate(scene.places[operand.storage], operand)) for operand in operands]
        for operand, box in boxes:
            place = scene.places[operand.storage]
            found = visit(scene, i, operand.role, scene.lists[place.group], box)
            if operand.role != WRITE and not found and not place.given:
                scene.unwritten.setdefault(i, operand.storage)
        for operand, box in sorted(boxes, key=lambda item: item[0].role != READ):
            keep(scene.lists[scene.places[operand.storage].group], i, operand.role, box)

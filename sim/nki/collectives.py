"""`nki.collectives`: communication between ranks, each of which runs the same kernel (`sim.run(..., ranks=n)`).

Values are exchanged when all members of a replica group have come to the call; without values only time is traced, and
one rank stands for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sim import dtypes
from sim.engines import collectives as wire
from sim.engines import sync
from sim.errors import InputError
from sim.nki import exchanges, functions, lockstep
from sim.nki.isa.issuing import NkiInstruction, issue_transfer
from sim.nki.isa.registers import VirtualRegister
from sim.nki.lockstep import Place
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Engine, Memory

PRIORITIES = range(4)
PRIORITY_GENERATION = 4
CHANNELS = 4
"""Most channels of a ring, when all devices of a node take part."""
GATHER_RANKS = 4
REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}

Tensors = Sequence[NkiTensor]


class ReplicaGroup:
    """Ranks that communicate with each other: lists without a rank in common."""

    def __init__(self, replica_groups: Sequence[Sequence[int]]):
        self.replica_groups = [[int(rank) for rank in group] for group in replica_groups]
        ranks = [rank for group in self.replica_groups for rank in group]
        if not ranks or len(set(ranks)) != len(ranks):
            raise InputError(f"ReplicaGroup({replica_groups}): every rank must stand in one group only")

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.replica_groups})"


class _Call:
    """One collective call of this rank: its name, checks and members."""

    def __init__(self, kind: str, group: Sequence[int], priority: int | None, name: str | None):
        self.kind = kind
        self.group = list(group)
        self.wired = self.group
        """Ranks whose places tell how far data goes."""
        self.name = name
        self.program = builder()
        if priority is not None:
            self._check_priority(priority)

    def _check_priority(self, priority: int) -> None:
        if self.program.device.generation < PRIORITY_GENERATION:
            raise self.fault(f"priority: {priority}, needs NeuronCore-v{PRIORITY_GENERATION} or newer")
        if priority not in PRIORITIES:
            raise self.fault(f"priority: {priority}, must be 0 to 3")

    def fault(self, message: str) -> InputError:
        return InputError(f"nki.collectives.{self.kind}: {message}", source=self.program.where())

    def tensors(self, srcs: Tensors, dsts: Tensors, most: int | None = None, memory: Memory | None = None) -> None:
        """raises: InputError for operands that no collective, or not this one, takes"""
        for argument, given in (("srcs", srcs), ("dsts", dsts)):
            if not isinstance(given, (list, tuple)) or not given:
                raise self.fault(f"{argument}: {given!r}, must be a list of tensors")
            if any(not isinstance(tensor, NkiTensor) for tensor in given):
                raise self.fault(f"{argument}: holds what is no tensor")
            if most is not None and len(given) > most:
                raise self.fault(f"{argument}: {len(given)} tensors, must be {most}")
        if len(srcs) != len(dsts):
            raise self.fault(f"dsts: {len(dsts)} tensors, srcs has {len(srcs)}")
        self._memories([*srcs, *dsts], memory)
        for src, dst in zip(srcs, dsts):
            if src.dtype != dst.dtype:
                raise self.fault(f"dsts: dtype {dtypes.short(dst.dtype)}, srcs has {dtypes.short(src.dtype)}")

    def _memories(self, tensors: Tensors, memory: Memory | None) -> None:
        found = {tensor.layout.memory for tensor in tensors}
        if len(found) > 1:
            raise self.fault("srcs and dsts: some in HBM, some on chip; all must be in one memory")
        (only,) = found
        if memory is not None and only is not memory:
            raise self.fault(f"srcs: a tensor in {only.name}, must be in {memory.name}")
        if only is Memory.PSUM:
            raise self.fault("srcs: a tensor in PSUM, must be in HBM or SBUF")
        if only is Memory.SBUF and len(tensors) > 2:
            raise self.fault(f"srcs: {len(tensors) // 2} tensors in SBUF, several are taken from HBM only")

    def shapes(self, dsts: Tensors, wanted: Sequence[tuple[int, ...]]) -> None:
        for dst, shape in zip(dsts, wanted):
            if dst.shape != tuple(shape):
                raise self.fault(f"dsts: shape {list(dst.shape)}, must be {list(shape)}")

    def run(self, srcs: Tensors, dsts: Tensors, exchange: exchanges.Exchange) -> NkiInstruction | None:
        """Exchange values with the other ranks and append the transfer, whose handle it gives to the core that does.

        The cores of a rank that share the tensors make the call together, and the first of them moves the data.
        """
        own = lockstep.place()
        shared = any(tensor.storage.buffer == "shared_hbm" for tensor in (*srcs, *dsts))
        cores = range(self.program.grid[0]) if shared and self.program.grid else (own.core,)
        key = ("collective", tuple(self.group), tuple(cores), _count(self.program, (own.core, tuple(self.group))))
        members = [Place(rank, core) for rank in (self.group if self.program.values else [own.rank]) for core in cores]
        offer = (self.kind, [src.array() for src in srcs] if self.program.values else None)
        resolve = self._resolved(cores[0], exchange if self.program.values else None)
        results = lockstep.meet(f"nki.collectives.{self.kind}", key, members, offer, resolve)[own.rank]
        handle = None
        if own.core == cores[0]:
            static = (self.kind, len(dsts), tuple(self.wired), len(cores))
            op = wire.OPS[self.kind]
            handle = issue_transfer(self.program, op, (*dsts, *srcs), static, self.name, results=tuple(results))
        if len(cores) > 1:
            mine = [Place(own.rank, core) for core in cores]
            lockstep.meet(f"nki.collectives.{self.kind}", (*key, own.rank), mine, None, dict.fromkeys)
        return handle

    def _resolved(self, core: int, exchange: exchanges.Exchange | None) -> lockstep.Resolve:
        def resolve(offers: Mapping[Place, tuple[str, list[np.ndarray]]]) -> dict[Place, dict[int, list]]:
            kinds = sorted({kind for kind, _ in offers.values()})
            if len(kinds) > 1:
                raise self.fault(f"other ranks of the group are at {' and '.join(kinds)}")
            if exchange is None:
                nothing = {place.rank: () for place in offers}
                return dict.fromkeys(offers, nothing)
            results = exchange([offers[Place(rank, core)][1] for rank in self.group])
            by_rank = dict(zip(self.group, results, strict=True))
            return dict.fromkeys(offers, by_rank)

        return resolve


_calls: WeakKeyDictionary[ProgramBuilder, dict[tuple, int]] = WeakKeyDictionary()


def _count(program: ProgramBuilder, key: tuple) -> int:
    """How many calls a core has made in a group before this one."""
    counts = _calls.setdefault(program, {})
    counts[key] = counts.get(key, 0) + 1
    return counts[key] - 1


def _group(kind: str, replica_group: Any) -> list[int]:
    """The group of this rank."""
    where = builder().where()
    if not isinstance(replica_group, ReplicaGroup):
        raise InputError(f"nki.collectives.{kind}: replica_group: {replica_group!r} is no ReplicaGroup", source=where)
    own = lockstep.place().rank
    for group in replica_group.replica_groups:
        if own in group:
            return group
    raise InputError(f"nki.collectives.{kind}: replica_group: rank {own} is in none of its groups", source=where)


def _reduction(call: _Call, op: Any) -> Callable:
    name = functions.name_of(op)
    if name not in REDUCTIONS:
        raise call.fault(f"op: {name or repr(op)}, must be nl.add, nl.minimum or nl.maximum")
    return REDUCTIONS[name]


def _first_dim(call: _Call, srcs: Tensors, collective_dim: int) -> None:
    if collective_dim != 0:
        raise call.fault(f"collective_dim: {collective_dim}, must be 0")
    for src in srcs:
        if src.shape[0] % len(call.group):
            raise call.fault(f"srcs: dimension 0 of size {src.shape[0]} does not divide by {len(call.group)} ranks")


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Every rank's dsts = the fold of all ranks' srcs."""
    call = _Call("all_reduce", _group("all_reduce", replica_group), priority, name)
    call.tensors(srcs, dsts)
    call.shapes(dsts, [src.shape for src in srcs])
    call.run(srcs, dsts, exchanges.reduced(_reduction(call, op)))


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Every rank's dsts = all ranks' srcs, side by side along collective_dim (0; in SBUF 0 or 1)."""
    call = _Call("all_gather", _group("all_gather", replica_group), priority, name)
    call.tensors(srcs, dsts)
    on_chip = srcs[0].layout.memory is Memory.SBUF
    if collective_dim not in ((0, 1) if on_chip else (0,)):
        raise call.fault(f"collective_dim: {collective_dim}, must be {'0 or 1' if on_chip else '0'}")
    if on_chip and srcs[0].ndim != 2:
        raise call.fault(f"srcs: {srcs[0].ndim} dimensions, a tensor in SBUF must have 2")
    wanted = [
        tuple(size * len(call.group) if dim == collective_dim else size for dim, size in enumerate(src.shape))
        for src in srcs
    ]
    call.shapes(dsts, wanted)
    call.run(srcs, dsts, exchanges.gathered(collective_dim))


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A rank's dsts = its part, along dimension 0, of the fold of all ranks' srcs."""
    call = _Call("reduce_scatter", _group("reduce_scatter", replica_group), priority, name)
    call.tensors(srcs, dsts)
    _first_dim(call, srcs, collective_dim)
    call.shapes(dsts, [(src.shape[0] // len(call.group), *src.shape[1:]) for src in srcs])
    call.run(srcs, dsts, exchanges.scattered(_reduction(call, op)))


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The i-th part of a rank's srcs, along dimension 0, goes to the i-th rank of the group."""
    call = _Call("all_to_all", _group("all_to_all", replica_group), priority, name)
    call.tensors(srcs, dsts, memory=Memory.HBM)
    _first_dim(call, srcs, collective_dim)
    call.shapes(dsts, [src.shape for src in srcs])
    call.run(srcs, dsts, exchanges.swapped)


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """Each rank sends one chunk, whose length the metadata tells, to all; they land in equal slots of dsts."""
    call = _Call("all_gather_v", _group("all_gather_v", replica_group), priority, name)
    if has_rdispls:
        raise call.fault("has_rdispls: True is not supported yet")
    if len(call.group) != GATHER_RANKS:
        raise call.fault(f"replica_group: a group of {len(call.group)} ranks, must be {GATHER_RANKS}")
    if call.program.grid != (2,):
        raise call.fault("needs LNC 2: launch the kernel as kernel[2]")
    return _vary(call, srcs, dsts, metadata_tensor, recv_counts_known, False, exchanges.gathered_chunks)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """Each rank sends a chunk of its own to each other, with lengths and places that the metadata tells."""
    call = _Call("all_to_all_v", _group("all_to_all_v", replica_group), priority, name)
    if has_rdispls and call.program.device.generation < PRIORITY_GENERATION:
        raise call.fault("has_rdispls: True, needs a NeuronSwitch, as trn3 has")
    return _vary(call, srcs, dsts, metadata_tensor, recv_counts_known, bool(has_rdispls), exchanges.swapped_chunks)


class _Prepared(NkiInstruction):
    """The handle of a `…_v_prepare`: what its trigger does."""

    __slots__ = ("trigger",)


_waiting: WeakKeyDictionary[ProgramBuilder, dict[int, _Prepared]] = WeakKeyDictionary()
"""The prepare of each core that no trigger has followed yet."""


def _prepare(kind: str, collective: Callable[..., Any], metadata: NkiTensor, given: tuple) -> NkiInstruction:
    """Read the metadata; the trigger runs the collective, whose set-up is not taken out of its time."""
    program = builder()
    call = _Call(f"{kind}_prepare", (), None, None)
    waiting = _waiting.setdefault(program, {})
    if program.core in waiting:
        raise call.fault("the prepare before it has no trigger yet")
    if not isinstance(metadata, NkiTensor):
        raise call.fault(f"metadata_tensor: {metadata!r} is no tensor")
    first = metadata[(slice(0, 1),) * metadata.ndim]
    read = issue_transfer(program, sync.LOAD, (first,), (Engine.SYNC,), None)
    prepared = _Prepared(program, read._first, read._last)
    prepared.trigger = (kind, partial(collective, *given))
    waiting[program.core] = prepared
    return prepared


def _trigger(kind: str, prepared: Any, name: str | None) -> NkiInstruction:
    program = builder()
    waiting = _waiting.get(program, {})
    if not isinstance(prepared, _Prepared) or prepared is not waiting.get(program.core) or prepared.trigger[0] != kind:
        fault = f"prepare_instr: not of the {kind}_prepare before it, but a {type(prepared).__name__}"
        raise _Call(f"{kind}_trigger", (), None, None).fault(fault)
    del waiting[program.core]
    handle = prepared.trigger[1](name=name)
    return prepared if handle is None else handle.depends_on(prepared)


def all_gather_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an `all_gather_v`, which `all_gather_v_trigger` runs."""
    given = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority)
    return _prepare("all_gather_v", all_gather_v, metadata_tensor, given)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run the `all_gather_v` that was prepared."""
    return _trigger("all_gather_v", prepare_instr, name)


def all_to_all_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an `all_to_all_v`, which `all_to_all_v_trigger` runs."""
    given = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority)
    return _prepare("all_to_all_v", all_to_all_v, metadata_tensor, given)


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run the `all_to_all_v` that was prepared."""
    return _trigger("all_to_all_v", prepare_instr, name)


def _vary(
    call: _Call, srcs: Tensors, dsts: Tensors, metadata: Any, known: bool, placed: bool, chunk: exchanges.Chunk
) -> NkiInstruction | None:
    call.tensors(srcs, dsts, most=1, memory=Memory.HBM)
    rows, ranks = 4 if placed else 3, len(call.group)
    if not isinstance(metadata, NkiTensor) or metadata.dtype != dtypes.uint32:
        raise call.fault("metadata_tensor: must be a tensor of uint32")
    wanted = (rows, ranks) if metadata.layout.memory is Memory.HBM else (1, rows, ranks)
    if metadata.shape != wanted:
        raise call.fault(f"metadata_tensor: shape {list(metadata.shape)}, must be {list(wanted)}")
    return call.run([*srcs, metadata], [*dsts, metadata], exchanges.by_metadata(chunk, dsts[0].size, known, placed))


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """For each (source, target): the target's dsts = the source's srcs."""
    call = _Call("collective_permute", range(lockstep.ranks()), priority, name)
    call.tensors(srcs, dsts, most=1, memory=Memory.HBM)
    call.shapes(dsts, [src.shape for src in srcs])
    pairs = [(int(source), int(target)) for source, target in source_target_pairs]
    targets = [target for _, target in pairs]
    if len(set(targets)) != len(targets):
        raise call.fault(f"source_target_pairs: {pairs}, a rank can receive from one only")
    ranks = lockstep.ranks()
    if call.program.values and any(not 0 <= rank < ranks for pair in pairs for rank in pair):
        raise call.fault(f"source_target_pairs: {pairs}, the launch has ranks 0 to {ranks - 1}")
    call.wired = max(pairs, key=lambda pair: abs(pair[0] - pair[1]), default=call.group)
    call.run(srcs, dsts, exchanges.permuted({target: source for source, target in pairs}))


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each rank's dsts = the srcs of the rank before it in the group, for every channel."""
    kind = "collective_permute_implicit"
    call = _Call(kind, _group(kind, replica_group), priority, name)
    _check_channels(call, channel_ids, srcs_by_channel, dsts_by_channel)
    for srcs, dsts in zip(srcs_by_channel, dsts_by_channel):
        call.tensors(srcs, dsts, most=1)
        call.shapes(dsts, [src.shape for src in srcs])
        call.run(srcs, dsts, exchanges.ring)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Each rank's dsts = op(srcs0, srcs1) of the rank before it in the group, for every channel."""
    kind = "collective_permute_implicit_reduce"
    call = _Call(kind, _group(kind, replica_group), priority, name)
    _check_channels(call, channel_ids, srcs0_by_channel, srcs1_by_channel, dsts_by_channel)
    fold = _reduction(call, op)
    for srcs0, srcs1, dsts in zip(srcs0_by_channel, srcs1_by_channel, dsts_by_channel):
        call.tensors(srcs0, dsts, most=1)
        call.tensors(srcs1, dsts, most=1)
        call.shapes((*dsts, *srcs1), [srcs0[0].shape] * 2)
        call.run((*srcs0, *srcs1), dsts, exchanges.ring_reduced(fold))


def _check_channels(call: _Call, channel_ids: Sequence[int], *by_channel: Any) -> None:
    if list(channel_ids) != list(range(len(channel_ids))) or not channel_ids:
        raise call.fault(f"channel_ids: {list(channel_ids)}, must count up from 0")
    if len(channel_ids) > CHANNELS:
        raise call.fault(f"channel_ids: {len(channel_ids)} channels > {CHANNELS}")
    if any(len(channels) != len(channel_ids) for channels in by_channel):
        raise call.fault(f"{len(channel_ids)} channel_ids for {[len(channels) for channels in by_channel]} channels")


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """The rank whose data this one holds after `iteration_id` steps around the ring."""
    kind = "collective_permute_implicit_current_processing_rank_id"
    group = _group(kind, replica_group)
    if channel_id not in range(CHANNELS):
        fault = f"nki.collectives.{kind}: channel_id: {channel_id}, must be 0 to {CHANNELS - 1}"
        raise InputError(fault, source=builder().where())
    at = group.index(lockstep.place().rank)
    return VirtualRegister(group[(at - int(iteration_id)) % len(group)])


def rank_id(name: str | None = None) -> VirtualRegister:
    """The rank that runs this program."""
    return VirtualRegister(lockstep.place().rank)

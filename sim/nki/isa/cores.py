"""`nki.isa` calls between the two physical cores of a logical core (LNC 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sim.engines import cores as pair
from sim.errors import InputError
from sim.nki import lockstep
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, issue, issue_transfer, member
from sim.nki.lockstep import Place
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine, Memory

ENGINES = {
    "tensor": Engine.TENSOR,
    "vector": Engine.VECTOR,
    "scalar": Engine.SCALAR,
    "gpsimd": Engine.GPSIMD,
    "sync": Engine.SYNC,
    "unknown": Engine.GPSIMD,
}


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: Any = enums.dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send src to the other core and receive its src into dst; both cores make the call (NeuronCore-v3, LNC 2)."""
    call, program = "nki.isa.sendrecv", builder()
    for argument, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        if rank not in pair.CORES:
            raise InputError(f"{call}: {argument}: {rank}, must be 0 or 1", source=program.where())
    by_gpsimd = member(dma_engine, enums.dma_engine, "sendrecv", "dma_engine") == "gpsimd_dma"
    key = (call, program, int(pipe_id))
    brought = lockstep.meet(call, key, _members(pair.CORES), (src, int(send_to_rank)), _sent)
    if int(recv_from_rank) not in brought:
        raise InputError(f"{call}: recv_from_rank: {recv_from_rank} sends to another core", source=program.where())
    operands = (dst, brought[int(recv_from_rank)])
    if by_gpsimd:
        handle = issue(pair.EXCHANGE, operands, (True,), name, Engine.GPSIMD)
    else:
        handle = issue_transfer(program, pair.EXCHANGE, operands, (False,), name)
    # Neither core may touch its source again before the other has taken it.
    lockstep.meet(call, (*key, "taken"), _members(pair.CORES), None, _nothing)
    return handle


def _sent(offers: Mapping[Place, Any]) -> dict[Place, dict[int, NkiTensor]]:
    """Per core: which core sends it what."""
    return {
        place: {other.core: src for other, (src, target) in offers.items() if target == place.core} for place in offers
    }


def _nothing(offers: Mapping[Place, Any]) -> dict[Place, None]:
    return dict.fromkeys(offers)


def _members(cores: Iterable[int]) -> list[Place]:
    own = lockstep.place()
    return [Place(own.rank, core) for core in cores]


def core_barrier(
    data: NkiTensor, cores: int | Sequence[int], engine: Any = enums.engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Wait until every core has come here and its writes to `data`, in shared HBM, are complete."""
    call, program = "nki.isa.core_barrier", builder()
    wanted = (cores,) if isinstance(cores, int) else tuple(cores)
    if wanted not in ((0,), pair.CORES):
        raise InputError(f"{call}: cores: {cores}, must be (0, 1)", source=program.where())
    on = ENGINES.get(member(engine, enums.engine, "core_barrier", "engine"))
    if on is None:
        raise InputError(f"{call}: engine: {engine}, must be a compute engine or sync", source=program.where())
    signal = issue(pair.SIGNAL, (data,), (on,), name, on)
    # Tiles on chip are each core's own: there the cores meet on a line of the kernel.
    shared = data.layout.memory is Memory.HBM
    key = (call, program, data.storage.index if shared else program.where())
    signals = lockstep.meet(call, key, _members(wanted), signal, _all_signals)
    wait = issue(pair.WAIT, (data,), (on,), None, on)
    for other in signals:
        wait.depends_on(other)
    return signal.then(wait)


def _all_signals(offers: Mapping[Place, NkiInstruction]) -> dict[Place, list[NkiInstruction]]:
    return {place: list(offers.values()) for place in offers}

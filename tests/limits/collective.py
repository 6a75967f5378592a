"""Constraints of collectives: four ranks, of which one is traced."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import collectives as ncc
from sim.nki.isa import dma_copy, memset
from tests.limits.limit import Limit, Table
from tests.limits.tiles import ADD, MUL

RANKS = 4
ALL = ncc.ReplicaGroup([list(range(RANKS))])


def tensors(shape, buffer=nl.hbm, dtype=nl.float32, count=1):
    made = [nl.ndarray(shape, dtype, buffer) for _ in range(count)]
    for tensor in made:
        dma_copy(tensor, nl.zeros(shape, dtype)) if tensor.layout.pitch == 0 else memset(tensor, 0)
    return made


def folded(t, kind=ncc.all_reduce, src=(8, 4), dst=(8, 4), op=ADD, group=ALL, extra=(), source=nl.hbm, dtype=nl.float32,
           target=None, count=1, priority=None):  # fmt: skip
    def body():
        outputs = tensors(dst, source if target is None else target, dtype)
        kind(tensors(src, source, count=count), outputs * count, group, *extra, op, priority=priority)

    return t.launch(body)


def moved(t, kind=ncc.all_gather, src=(8, 4), dst=(32, 4), dim=0, buffer=nl.hbm, group=ALL, **named):
    return t.launch(lambda: kind(tensors(src, buffer), tensors(dst, buffer), group, dim, **named))


def varied(t, kind=ncc.all_to_all_v, rows=3, of=nl.uint32, group=ALL, count=1, lnc=None, buffer=nl.hbm, **named):
    def body():
        table = tensors((rows, RANKS), dtype=of)[0]
        kind(tensors((8, 4), buffer, count=count), tensors((32, 4), buffer, count=count), group, table, **named)

    return t.launch(body, **({} if lnc is None else {"lnc": lnc}))


def ringed(t, channels=(0,), group=ALL, dst=(8, 4), per=1, given=None):
    def body():
        number = len(channels) if given is None else given
        srcs = [tensors((8, 4), count=per) for _ in range(number)]
        ncc.collective_permute_implicit(srcs, [tensors(dst, count=per) for _ in srcs], group, channels)

    return t.launch(body)


def reduced(t, op=ADD, second=(8, 4), channels=(0,)):
    def body():
        one, other, out = ([tensors(s)] for s in ((8, 4), second, (8, 4)))
        ncc.collective_permute_implicit_reduce(one, other, out, ALL, op, channels)

    return t.launch(body)


def permuted(t, pairs=((0, 1),), dst=(8, 4), buffer=nl.hbm, count=1):
    return t.launch(lambda: ncc.collective_permute(
        tensors((8, 4), buffer, count=count), tensors(dst, buffer, count=count), pairs))  # fmt: skip


def processed(t, channel=0, group=ALL):
    name = "collective_permute_implicit_current_processing_rank_id"
    return t.launch(lambda: getattr(ncc, name)(0, group, channel))


def prepared(t, kind, table=None, twice=False, handle=None):
    prepare, trigger = getattr(ncc, f"{kind}_prepare"), getattr(ncc, f"{kind}_trigger")

    def body():
        tensor = tensors((3, RANKS), dtype=nl.uint32)[0] if table is None else table
        args = (tensors((8, 4)), tensors((32, 4)), ALL, tensor)
        first = prepare(*args)
        if twice:
            prepare(*args)
        trigger(first if handle is None else handle)

    return t.launch(body, lnc=2)


def in_two_steps(kind):
    return {
        f"nki.collectives.{kind}_prepare": [
            Limit("a tensor holds the metadata", lambda t, x: prepared(t, kind, x), 3, None,
                  "metadata_tensor | 3 | no tensor"),
            Limit("a trigger follows before the next", lambda t, x: prepared(t, kind, twice=x), True, False,
                  "prepare | has no trigger yet | before it"),
        ],
        f"nki.collectives.{kind}_trigger": [
            Limit("a trigger belongs to the prepare before it", lambda t, x: prepared(t, kind, handle=x), 3, None,
                  "prepare_instr | a int | not of the"),
        ],
    }  # fmt: skip


LIMITS: Table = {
    **in_two_steps("all_gather_v"),
    **in_two_steps("all_to_all_v"),
    "nki.collectives.all_reduce": [
        Limit("the fold is one of three", lambda t, op: folded(t, op=op), MUL, nl.minimum,
              "op | multiply | nl.add, nl.minimum or nl.maximum"),
        Limit("a result has its source's shape", lambda t, s: folded(t, dst=s), (4, 8), (8, 4),
              "dsts | [4, 8] | [8, 4]"),
        Limit("a result has its source's dtype", lambda t, d: folded(t, dtype=d), nl.bfloat16, nl.float32,
              "dsts | bf16 | srcs has fp32"),
        Limit("all tensors are in one memory", lambda t, m: folded(t, target=m), nl.sbuf, nl.hbm,
              "srcs and dsts | some on chip | one memory"),
        Limit("PSUM is out of reach", lambda t, m: folded(t, source=m), nl.psum, nl.sbuf, "srcs | PSUM | HBM or SBUF"),
        Limit("several tensors are in HBM", lambda t, m: folded(t, source=m, count=2), nl.sbuf, nl.hbm,
              "srcs | 2 tensors in SBUF | HBM only"),
        Limit("priorities come with v4", lambda t, x: folded(t, priority=x), 0, None, "priority | 0 | NeuronCore-v4"),
        Limit("a priority is 0 to 3", lambda t, x: folded(t, priority=x), 4, 3, "priority | 4 | must be 0 to 3",
              "trn3"),
        Limit("the group is a ReplicaGroup", lambda t, g: folded(t, group=g), [[0, 1, 2, 3]], ALL,
              "replica_group | [[0, 1, 2, 3]] | ReplicaGroup"),
        Limit("the rank is in the group", lambda t, r: folded(t, group=ncc.ReplicaGroup([[r, 2, 3, 4]])), 1, 0,
              "replica_group | rank 0 | in none of its groups"),
    ],
    "nki.collectives.all_gather": [
        Limit("tensors in HBM are joined along dimension 0", lambda t, d: moved(t, dim=d), 1, 0,
              "collective_dim | 1 | must be 0"),
        Limit("tensors in SBUF are joined along 0 or 1", lambda t, d: moved(t, dim=d, dst=(8, 16), buffer=nl.sbuf), 2,
              1,
              "collective_dim | 2 | must be 0 or 1"),
        Limit("tensors in SBUF have 2 dimensions", lambda t, s: moved(t, src=s, dst=(8, 16), dim=1, buffer=nl.sbuf),
              (8, 2, 2), (8, 4), "srcs | 3 dimensions | must have 2"),
        Limit("a result holds all ranks' sources", lambda t, s: moved(t, dst=s), (16, 4), (32, 4),
              "dsts | [16, 4] | [32, 4]"),
    ],
    "nki.collectives.reduce_scatter": [
        Limit("sources are split along dimension 0",
              lambda t, d: folded(t, ncc.reduce_scatter, dst=(2, 4), extra=(d,)), 1, 0,
              "collective_dim | 1 | must be 0"),
        Limit("dimension 0 divides by the ranks",
              lambda t, n: folded(t, ncc.reduce_scatter, (n, 4), (2, 4), extra=(0,)), 10, 8,
              "srcs | size 10 | 4 ranks"),
        Limit("a result holds its rank's part", lambda t, n: folded(t, ncc.reduce_scatter, dst=(n, 4), extra=(0,)), 8,
              2,
              "dsts | [8, 4] | [2, 4]"),
    ],
    "nki.collectives.all_to_all": [
        Limit("tensors are in HBM", lambda t, m: moved(t, ncc.all_to_all, dst=(8, 4), buffer=m), nl.sbuf, nl.hbm,
              "srcs | SBUF | must be in HBM"),
        Limit("parts lie along dimension 0", lambda t, d: moved(t, ncc.all_to_all, dst=(8, 4), dim=d), 1, 0,
              "collective_dim | 1 | must be 0"),
    ],
    "nki.collectives.all_to_all_v": [
        Limit("metadata are uint32", lambda t, d: varied(t, of=d), nl.int32, nl.uint32,
              "metadata_tensor | int32 | uint32"),
        Limit("metadata have three rows", lambda t, n: varied(t, rows=n), 4, 3, "metadata_tensor | [4, 4] | [3, 4]"),
        Limit("one tensor is sent", lambda t, n: varied(t, count=n), 2, 1, "srcs | 2 tensors | must be 1"),
        Limit("tensors are in HBM", lambda t, m: varied(t, buffer=m), nl.sbuf, nl.hbm, "srcs | SBUF | must be in HBM"),
        Limit("places need a NeuronSwitch", lambda t, _: varied(t, rows=4, has_rdispls=True), None, None,
              "has_rdispls | True | NeuronSwitch", "trn2", "trn3"),
    ],
    "nki.collectives.all_gather_v": [
        Limit("places are not supported yet", lambda t, x: varied(t, ncc.all_gather_v, has_rdispls=x, lnc=2), True,
              False,
              "has_rdispls | True | not supported yet"),
        Limit("four ranks take part", lambda t, g: varied(t, ncc.all_gather_v, group=g, lnc=2),
              ncc.ReplicaGroup([[0, 1]]), ALL, "replica_group | 2 ranks | must be 4"),
        Limit("a rank has two cores", lambda t, n: varied(t, ncc.all_gather_v, lnc=n), 1, 2,
              "launch | LNC 2 | kernel[2]"),
    ],
    "nki.collectives.collective_permute": [
        Limit("a rank receives from one", lambda t, p: permuted(t, p), ((0, 1), (2, 1)), ((0, 1), (2, 3)),
              "source_target_pairs | [(0, 1), (2, 1)] | from one only"),
        Limit("one tensor is sent", lambda t, n: permuted(t, count=n), 2, 1, "srcs | 2 tensors | must be 1"),
        Limit("tensors are in HBM", lambda t, m: permuted(t, buffer=m), nl.sbuf, nl.hbm,
              "srcs | SBUF | must be in HBM"),
        Limit("a result has its source's shape", lambda t, s: permuted(t, dst=s), (4, 8), (8, 4),
              "dsts | [4, 8] | [8, 4]"),
    ],
    "nki.collectives.collective_permute_implicit": [
        Limit("channels count up from 0", lambda t, c: ringed(t, c), (1, 2), (0, 1),
              "channel_ids | [1, 2] | count up from 0"),
        Limit("a ring has at most 4 channels", lambda t, n: ringed(t, range(n)), 5, 4, "channel_ids | 5 channels | 4"),
        Limit("each channel has its tensors", lambda t, n: ringed(t, (0, 1), given=n), 1, 2,
              "channel_ids | [1, 1] | 2"),
        Limit("a channel sends one tensor", lambda t, n: ringed(t, per=n), 2, 1, "srcs | 2 tensors | must be 1"),
    ],
    "nki.collectives.collective_permute_implicit_reduce": [
        Limit("the fold is one of three", lambda t, op: reduced(t, op), MUL, nl.maximum,
              "op | multiply | nl.add, nl.minimum or nl.maximum"),
        Limit("both sources have one shape", lambda t, s: reduced(t, second=s), (4, 8), (8, 4),
              "[4, 8] | shape | [8, 4]"),
        Limit("channels count up from 0", lambda t, c: reduced(t, channels=c), (1,), (0,),
              "channel_ids | [1] | count up from 0"),
    ],
    "nki.collectives.collective_permute_implicit_current_processing_rank_id": [
        Limit("a ring has at most 4 channels", lambda t, c: processed(t, c), 4, 3, "channel_id | 4 | must be 0 to 3"),
        Limit("the rank is in the group", lambda t, r: processed(t, group=ncc.ReplicaGroup([[r, 2]])), 1, 0,
              "replica_group | rank 0 | in none of its groups"),
    ],
}  # fmt: skip

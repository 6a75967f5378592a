"""The pipeline schedule of a training step: one forward, one backward, on one or several pieces a stage.

Stages begin with as many forward passes as keep the ones behind them busy, then take forward and backward in turn
(1F1B). With several pieces a stage, microbatches go round in groups of as many as there are stages (interleaved).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.errors import InputError

FORWARD, BACKWARD = 0, 1


@dataclass(frozen=True, slots=True)
class Task:
    """One pass of one microbatch through one piece."""

    direction: int
    microbatch: int
    piece: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How a step went."""

    end_ps: int
    """From the first forward pass to the last backward pass of any stage."""
    busy_ps: tuple[int, ...]
    """Of each stage."""
    most_held: tuple[int, ...]
    """Most passes whose activations a stage held at once."""

    @property
    def slowest(self) -> int:
        """The stage that works longest."""
        return max(range(len(self.busy_ps)), key=lambda stage: self.busy_ps[stage])

    @property
    def bubble_ps(self) -> int:
        """Time in which the slowest stage has nothing to do."""
        return self.end_ps - self.busy_ps[self.slowest]


def run(
    forward_ps: Sequence[Sequence[int]], backward_ps: Sequence[Sequence[int]], microbatches: int, send_ps: int = 0
) -> Pipeline:
    """The schedule of a step, every pass as early as the order of its stage and its inputs allow.

    forward_ps, backward_ps : of each stage, of each of its pieces
    send_ps                 : from one stage to the next
    raises                  : InputError where interleaving needs another number of microbatches
    """
    stages, pieces = len(forward_ps), len(forward_ps[0])
    if pieces > 1 and microbatches % stages:
        raise InputError(
            f"interleave={pieces}: {microbatches} microbatches are no multiple of pp={stages}",
            remedy="take another batch or microbatch",
        )
    orders = [order(stage, stages, pieces, microbatches) for stage in range(stages)]
    times = (forward_ps, backward_ps)
    done: dict[tuple[int, Task], int] = {}
    free, at = [0] * stages, [0] * stages
    left = sum(map(len, orders))
    while left:
        before = left
        for stage in range(stages):
            while at[stage] < len(orders[stage]):
                task = orders[stage][at[stage]]
                ready = _ready(done, stage, task, stages, pieces, send_ps)
                if ready is None:
                    break
                free[stage] = max(free[stage], ready) + times[task.direction][stage][task.piece]
                done[stage, task] = free[stage]
                at[stage] += 1
                left -= 1
        if left == before:
            raise AssertionError("the pipeline schedule waits for itself")
    busy = tuple(microbatches * (sum(forward_ps[stage]) + sum(backward_ps[stage])) for stage in range(stages))
    return Pipeline(max(free), busy, tuple(map(most_held, orders)))


def order(stage: int, stages: int, pieces: int, microbatches: int) -> list[Task]:
    """What a stage does one after the other."""
    total = microbatches * pieces
    ahead = stages - stage - 1
    if pieces > 1:
        ahead = 2 * ahead + (pieces - 1) * stages
    ahead = min(ahead, total)
    tasks = [_task(FORWARD, k, stages, pieces) for k in range(ahead)]
    for k in range(total - ahead):
        tasks += [_task(FORWARD, ahead + k, stages, pieces), _task(BACKWARD, k, stages, pieces)]
    return tasks + [_task(BACKWARD, k, stages, pieces) for k in range(total - ahead, total)]


def _task(direction: int, number: int, stages: int, pieces: int) -> Task:
    """The pass of that number in its direction."""
    if pieces == 1:
        return Task(direction, number, 0)
    group, within = divmod(number, stages * pieces)
    piece = within // stages
    return Task(direction, group * stages + within % stages, pieces - 1 - piece if direction else piece)


def _ready(
    done: dict[tuple[int, Task], int], stage: int, task: Task, stages: int, pieces: int, send: int
) -> int | None:
    """When a pass has its input: from the stage before it, or from the piece before it on the last stage."""
    step, first = (1, stages - 1) if task.direction == FORWARD else (-1, 0)
    edge = 0 if task.direction == FORWARD else stages - 1
    if stage != edge:
        return _plus(done.get((stage - step, task)), send)
    piece = task.piece - step
    if 0 <= piece < pieces:
        return _plus(done.get((first, Task(task.direction, task.microbatch, piece))), send)
    if task.direction == FORWARD:
        return 0
    return done.get((stage, Task(FORWARD, task.microbatch, task.piece)))


def _plus(time: int | None, send: int) -> int | None:
    return None if time is None else time + send


def most_held(tasks: Sequence[Task]) -> int:
    """Most forward passes that wait for their backward pass at once."""
    held = most = 0
    for task in tasks:
        held += 1 if task.direction == FORWARD else -1
        most = max(most, held)
    return most

"""The programs of one launch that wait for each other: threads, of which one runs at a time.

The cores of a rank take turns after a few instructions, as they would on the device; a program that has to wait hands
over at once. The order is the same on every run, and so is the list of instructions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple

from sim.errors import InputError
from sim.nki.session import builder


class Place(NamedTuple):
    """Which program of a launch: its rank among the devices, its core within the rank."""

    rank: int = 0
    core: int = 0

    def __str__(self) -> str:
        return f"core {self.core} of rank {self.rank}"


TURN = 16
"""Instructions after which the next core goes on."""

Resolve = Callable[[Mapping[Place, Any]], Mapping[Place, Any]]
"""What each program brought -> what each takes away."""


class _Gone(BaseException):
    """Unwinds a program whose launch has failed elsewhere."""


class Crew:
    """The programs of one launch."""

    def __init__(self, bodies: Mapping[Place, Callable[[], Any]], ranks: int):
        self.ranks = ranks
        self.places = frozenset(bodies)
        self._bodies = bodies
        self._turns = {place: threading.Semaphore(0) for place in bodies}
        self._steps = dict.fromkeys(bodies, 0)
        self._offers: dict[Hashable, dict[Place, Any]] = {}
        self._taken: dict[Place, Any] = {}
        self._waiting: dict[Place, str] = {}
        self._finished: dict[Place, Any] = {}
        self._failure: BaseException | None = None

    def run(self) -> dict[Place, Any]:
        """Run all; what each returned.

        raises: the first program's error; InputError when all that are left wait
        """
        if len(self._bodies) == 1:
            ((place, body),) = self._bodies.items()
            token = _here.set((self, place))
            try:
                return {place: body()}
            finally:
                _here.reset(token)
        threads = [
            threading.Thread(target=copy_context().run, args=(self._live, place), daemon=True) for place in self._bodies
        ]
        for thread in threads:
            thread.start()
        self._hand_over()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return {place: self._finished[place] for place in self._bodies}

    def _live(self, place: Place) -> None:
        self._turns[place].acquire()
        _here.set((self, place))
        returned = None
        try:
            if self._failure is None:
                returned = self._bodies[place]()
        except _Gone:
            pass
        except BaseException as error:
            self._failure = self._failure or error
        self._finished[place] = returned
        self._hand_over(place)

    def _hand_over(self, place: Place | None = None) -> None:
        """Let the next program go on that neither waits nor has finished."""
        order = list(self._bodies)
        first = 0 if place is None else order.index(place) + 1
        alive = [other for other in (*order[first:], *order[:first]) if other not in self._finished]
        able = [other for other in alive if other not in self._waiting]
        if alive and not able and self._failure is None:
            self._failure = self._deadlock(alive)
        for other in alive if self._failure is not None else able[:1]:
            self._turns[other].release()

    def _stand_by(self, place: Place) -> None:
        """Let others go on until it is this program's turn again."""
        self._hand_over(place)
        self._turns[place].acquire()
        if self._failure is not None:
            raise _Gone

    def count(self, place: Place) -> bool:
        """One more instruction of a program; whether its turn is over."""
        self._steps[place] += 1
        return self._steps[place] % TURN == 0

    def pause(self, place: Place) -> None:
        """Let the rank's other core go on, if it can."""
        others = [other for other in self._bodies if other.rank == place.rank and other != place]
        if any(other not in self._waiting and other not in self._finished for other in others):
            self._stand_by(place)

    def _deadlock(self, stuck: Sequence[Place]) -> InputError:
        told = [f"{place} waits at {self._waiting[place]}" for place in stuck]
        told += [f"{place} has finished" for place in self._finished]
        return InputError(f"deadlock: {'; '.join(told)}", remedy="every program must reach the same calls")

    def meet(self, place: Place, key: Hashable, members: Sequence[Place], offer: Any, resolve: Resolve, at: str) -> Any:
        """Wait until all members have come to the same key; the last one resolves."""
        offers = self._offers.setdefault(key, {})
        offers[place] = offer
        if len(offers) < len(members):
            self._waiting[place] = at
            self._stand_by(place)
        else:
            del self._offers[key]
            self._taken |= resolve(offers)
            for member in members:
                self._waiting.pop(member, None)
        return self._taken.pop(place)


_here: ContextVar[tuple[Crew, Place] | None] = ContextVar("_here", default=None)


def place() -> Place:
    """The running program's place; the first one outside a launch of several."""
    found = _here.get()
    return found[1] if found is not None else Place()


def ranks() -> int:
    """Ranks of the launch."""
    found = _here.get()
    return found[0].ranks if found is not None else 1


def pause() -> None:
    """Let the other core go on after some instructions; the program builder calls this before each."""
    found = _here.get()
    if found is None or not found[0].count(found[1]):
        return
    program = builder()
    held = program.leave()
    found[0].pause(found[1])
    program.resume(held)


def meet(call: str, key: Hashable, members: Sequence[Place], offer: Any, resolve: Resolve) -> Any:
    """Wait for the other members at this key; what the last of them resolved for this program.

    raises: InputError for a member that the launch does not have
    """
    program, found = builder(), _here.get()
    crew, own = found if found is not None else (None, Place())
    if list(members) == [own]:
        return resolve({own: offer})[own]
    missing = [member for member in members if member != own and (crew is None or member not in crew.places)]
    if missing:
        alone = missing[0].rank == own.rank
        remedy = "launch it as kernel[2]" if alone else f"run it with ranks={missing[-1].rank + 1}"
        raise InputError(f"{call}: the launch has no {missing[0]}", source=program.where(), remedy=remedy)
    held = program.leave()
    taken = crew.meet(own, key, members, offer, resolve, f"{call} ({program.where()})")
    program.resume(held)
    return taken

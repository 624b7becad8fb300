"""Stores far away from one tree: requests, answers and watches take their time.

What a session is told comes in the order in which it happened, watches before the answers of reads
that show the change; when it comes, and how sessions overtake each other, is the weather's choice.
Other sessions may write between two operations of one run.  Answers may be lost, as when a session
outlives its connection: what they were to is sent again, and done again.  A session that was ended
learns of it as late as of everything else.

Owner: the event loop.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from odradek.controller.store.base import (
    Check,
    Operation,
    Outcome,
    Read,
    Result,
    SessionState,
    Watch,
    WatchEvent,
    Write,
)
from odradek.controller.store.data_tree import DataTree, Effects, Mutation
from tests.support.memory_store import MemoryStore

#: Between things that are told to one session: less than any delay.
GRAIN_S = 1e-7
DELAYS_S = (0.0001, 0.0003, 0.001, 0.003, 0.02, 0.3)


class Weather:
    """How long things take, and what is lost on the way; calm, nothing is."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.is_calm = True
        #: How probably a store loses the answers to some operations, from one of them on.
        self.answers_lost = 0.0

    def delay_s(self) -> float:
        return DELAYS_S[0] if self.is_calm else self._random.choice(DELAYS_S)

    def happens(self, probability: float) -> bool:
        return not self.is_calm and self._random.random() < probability

    def one_of(self, things: Sequence[int]) -> int:
        return self._random.choice(things)


class Observer(Protocol):
    """Sees every change of the tree in the moment in which it is made."""

    def written(
        self, session_id: int, mutations: Mapping[str, Mutation], fence: Check | None
    ) -> None: ...


class ObservedTree(DataTree):
    """A tree that somebody looks at."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def run(
        self,
        session_id: int,
        operations: Sequence[Operation],
        *,
        fence: Check | None = None,
        now_ms: int,
    ) -> Effects:
        effects = super().run(session_id, operations, fence=fence, now_ms=now_ms)
        self._observer.written(session_id, effects.mutations, fence)
        return effects

    def multi(self, session_id: int, operations: Sequence[Write], *, now_ms: int) -> Effects:
        effects = super().multi(session_id, operations, now_ms=now_ms)
        self._observer.written(session_id, effects.mutations, None)
        return effects


class DistantStore(MemoryStore):
    """One session after the other, all on the same tree as others'."""

    def __init__(self, tree: DataTree, weather: Weather, now_ms: Callable[[], int]) -> None:
        super().__init__(tree, now_ms=now_ms)
        self._weather = weather
        self._told_until_s = 0.0

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        asked = [*map(self._with_watch, operations)]
        outcomes = await super().run(asked, fence=fence)
        if asked and self._weather.happens(self._weather.answers_lost):
            heard = self._weather.one_of(range(len(asked)))
            outcomes[heard:] = await super().run(asked[heard:], fence=fence)
        return outcomes

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        results = await super().multi(operations)
        if self._weather.happens(self._weather.answers_lost):
            return await super().multi(operations)
        return results

    def tell(self, listener: Callable[..., None], event: object) -> None:
        """After all that it was told before."""
        loop = asyncio.get_running_loop()
        earliest_s = loop.time() + self._weather.delay_s()
        self._told_until_s = max(earliest_s, self._told_until_s + GRAIN_S)
        loop.call_at(self._told_until_s, listener, event)

    def _with_watch(self, operation: Operation) -> Operation:
        if isinstance(operation, Read) and operation.watch is not None:
            return replace(operation, watch=_DistantWatch(self, operation.watch))
        return operation

    async def _sent(self) -> int:
        session_id = self.session_id
        await asyncio.sleep(self._weather.delay_s())
        self._check(session_id)
        return session_id

    async def _reached(self, session_id: int) -> None:
        if self._weather.happens(0.1):
            await asyncio.sleep(self._weather.delay_s())
            self._check(session_id)

    async def _received(self, session_id: int) -> None:
        received = asyncio.get_running_loop().create_future()
        self.tell(lambda _: received.done() or received.set_result(None), None)
        await received
        self._check(session_id)

    def _call(self, effects: Effects) -> None:
        for call in effects.watch_calls:
            call.watch(call.event)

    def _tell(self, state: SessionState) -> None:
        for listener in self._listeners:
            self.tell(listener, state)


@dataclass(frozen=True)
class _DistantWatch:
    store: DistantStore
    watch: Watch

    def __call__(self, event: WatchEvent) -> None:
        self.store.tell(self.watch, event)

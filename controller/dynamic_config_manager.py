"""Whose configuration has changed?  Every broker watches for it, and reads what it is now.

Whoever changes a configuration leaves a notice below /config/changes that says whose it was, in one
of two forms (see store/payloads/config.py).  Notices are numbered; of those that a broker has not
seen yet it makes a list of entities, reads their configurations as they are by then, and hands each
to whoever acts on it.  So one that changed twice in the meantime may be told once, or twice alike.

At the start all notices that are there count as unseen.  So they do not in a later session: what
was seen is remembered, and what came in between is found by its number.  A notice is of no use to
anybody after a quarter of an hour; whichever broker comes across it then takes it away.

Whatever fails is logged, and does not end this: what cannot be read is tried again in a while, what
somebody cannot act on is told to the others.

    changes = ConfigChanges(store, take, now_ms=now_ms, start_task=start_task)
    await changes.start()           # the store's session is open, its roots are there

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from odradek.controller.broker_link import StartTask
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Delete,
    Get,
    MetadataStore,
    Node,
    NoNode,
    Outcome,
    SessionExpired,
    SessionState,
    StoreError,
    WatchEvent,
)
from odradek.controller.store.payloads.config import ConfigChange, EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.protocol.errors import KafkaError

log = logging.getLogger(__name__)

#: As Kafka keeps them; it has no setting for this.
EXPIRATION_MS = 15 * 60 * 1000
NONE_SEEN = -1
RETRY_S = 10.0

#: Given whose configuration it is and all that is configured, which may be nothing.  What it
#: refuses with a KafkaError is logged.
Take = Callable[[paths.ConfigEntity, Mapping[str, str]], Awaitable[None]]


class ConfigChanges:
    """From ``start`` to ``close``, over as many sessions as there are."""

    def __init__(
        self,
        store: MetadataStore,
        take: Take,
        *,
        now_ms: Callable[[], int],
        start_task: StartTask,
    ) -> None:
        self._store = store
        self._take = take
        self._now_ms = now_ms
        self._start_task = start_task
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_seen = NONE_SEEN
        #: When each notice that was seen, and is there still, was left.
        self._left_ms: dict[str, int] = {}

    async def start(self) -> None:
        """All notices that are there have been acted on when this returns."""
        self._store.listen(self._session_changed)
        while not await self._has_looked():
            await self._is_due.wait()
        self._task = self._start_task(self._work(), name="config-changes")

    async def _has_looked(self) -> bool:
        """Unless the session was over: ``_is_due`` tells of the next."""
        self._is_due.clear()
        try:
            await self._look()
        except SessionExpired:
            return False
        return True

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _session_changed(self, state: SessionState) -> None:
        """The watch has gone with the session, if it was another."""
        if state is SessionState.CONNECTED:
            self._is_due.set()

    def _changed(self, _: WatchEvent) -> None:
        self._is_due.set()

    async def _work(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._look()
            except SessionExpired:
                log.info("Changes of configurations are looked for again in the next session")
            except StoreError as failure:
                log.error("Changes of configurations are looked for again in a while: %r", failure)
                await asyncio.sleep(RETRY_S)
                self._is_due.set()

    async def _look(self) -> None:
        sequence = paths.CONFIG_CHANGES
        names = sequence.in_order(await self._store.children(sequence.parent, self._changed))
        unseen = [name for name in names if _number(name) > self._last_seen]
        nodes = await self._nodes(sequence.child(name) for name in unseen)
        there = {name: node for name, node in zip(unseen, nodes, strict=True) if node is not None}
        await self._tell([*dict.fromkeys(_entities(there))])
        known = {**self._left_ms, **{name: each.stat.created_ms for name, each in there.items()}}
        self._left_ms = {name: known[name] for name in names if name in known}
        # Not before they were acted on: if the session has ended meanwhile, they are read again.
        self._last_seen = max([self._last_seen, *map(_number, unseen)])
        await self._take_away_old()

    async def _tell(self, entities: list[paths.ConfigEntity]) -> None:
        nodes = await self._nodes(entity.path for entity in entities)
        for entity, node in zip(entities, nodes, strict=True):
            config = _config(entity, node)
            if config is None:
                continue
            log.info("The configuration of %s has changed: %s", entity, ", ".join(config) or "none")
            try:
                await self._take(entity, config)
            except KafkaError as refusal:
                log.error("The configuration of %s has no effect: %r", entity, refusal)
            except StoreError:
                raise
            except Exception:
                log.exception("The configuration of %s may have no effect", entity)

    async def _take_away_old(self) -> None:
        before_ms = self._now_ms() - EXPIRATION_MS
        old = [name for name, left_ms in self._left_ms.items() if left_ms < before_ms]
        if old:
            sequence = paths.CONFIG_CHANGES
            # Others may have been faster.
            _found(await self._store.run([Delete(sequence.child(name)) for name in old]))
            for name in old:
                del self._left_ms[name]

    async def _nodes(self, nodes: Iterable[str]) -> list[Node | None]:
        """None where there is none, or none any more."""
        outcomes = _found(await self._store.run([*map(Get, nodes)]))
        return [outcome if isinstance(outcome, Node) else None for outcome in outcomes]


def _number(name: str) -> int:
    number = paths.CONFIG_CHANGES.number(name)
    assert number is not None, name
    return number


def _found(outcomes: list[Outcome]) -> list[Outcome]:
    for outcome in outcomes:
        if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
            raise outcome
    return outcomes


def _entities(notices: Mapping[str, Node]) -> Iterable[paths.ConfigEntity]:
    for name, node in notices.items():
        try:
            yield ConfigChange.decode(node.value, name).entity
        except PayloadDamaged as damage:
            log.error("A notice of a changed configuration is passed over: %s", damage)


def _config(entity: paths.ConfigEntity, node: Node | None) -> Mapping[str, str] | None:
    """None if it cannot be read: what was in effect stays so."""
    if node is None:
        return {}
    try:
        return EntityConfig.decode(node.value, entity.path).config
    except PayloadDamaged as damage:
        log.error("A changed configuration has no effect: %s", damage)
        return None

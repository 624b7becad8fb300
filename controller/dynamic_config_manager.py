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

from odradek.controller.controller_channel import StartTask
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Delete,
    GetData,
    MetadataStore,
    NoNode,
    Outcome,
    SessionExpired,
    SessionState,
    StoreError,
    WatchEvent,
    ZNode,
)
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.protocol.errors import KafkaError

log = logging.getLogger(__name__)

#: As Kafka keeps them; it has no setting for this.
CHANGE_EXPIRATION_MS = 15 * 60 * 1000
NO_CHANGE_EXECUTED = -1
RETRY_BACKOFF_S = 10.0

#: Given whose configuration it is and all that is configured, which may be nothing.  What it
#: refuses with a KafkaError is logged.
ConfigHandler = Callable[[paths.ConfigEntity, Mapping[str, str]], Awaitable[None]]


class DynamicConfigManager:
    """From ``start`` to ``close``, over as many sessions as there are."""

    def __init__(
        self,
        store: MetadataStore,
        handler: ConfigHandler,
        *,
        now_ms: Callable[[], int],
        start_task: StartTask,
    ) -> None:
        self._store = store
        self._handler = handler
        self._now_ms = now_ms
        self._start_task = start_task
        self._has_changes = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_executed_change = NO_CHANGE_EXECUTED
        #: When each notice that was seen, and is there still, was left.
        self._notification_created_ms: dict[str, int] = {}

    async def start(self) -> None:
        """All notices that are there have been acted on when this returns."""
        self._store.add_session_listener(self._on_session_state_change)
        while not await self._try_process_notifications():
            await self._has_changes.wait()
        self._task = self._start_task(self._run(), name="config-changes")

    async def _try_process_notifications(self) -> bool:
        """Unless the session was over: ``_is_due`` tells of the next."""
        self._has_changes.clear()
        try:
            await self._process_notifications()
        except SessionExpired:
            return False
        return True

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _on_session_state_change(self, state: SessionState) -> None:
        """The watch has gone with the session, if it was another."""
        if state is SessionState.CONNECTED:
            self._has_changes.set()

    def _on_change(self, _: WatchEvent) -> None:
        self._has_changes.set()

    async def _run(self) -> None:
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            try:
                await self._process_notifications()
            except SessionExpired:
                log.info("Changes of configurations are looked for again in the next session")
            except StoreError as error:
                log.error("Changes of configurations are looked for again in a while: %r", error)
                await asyncio.sleep(RETRY_BACKOFF_S)
                self._has_changes.set()

    async def _process_notifications(self) -> None:
        sequence = paths.CONFIG_CHANGES
        names = sequence.sort_children(
            await self._store.get_children(sequence.parent, self._on_change)
        )
        unexecuted = [name for name in names if _change_number(name) > self._last_executed_change]
        nodes = await self._get_nodes(sequence.child_path(name) for name in unexecuted)
        notifications = {
            name: node for name, node in zip(unexecuted, nodes, strict=True) if node is not None
        }
        await self._process_config_changes([*dict.fromkeys(_decode_entities(notifications))])
        created_ms = {
            **self._notification_created_ms,
            **{name: node.stat.created_ms for name, node in notifications.items()},
        }
        self._notification_created_ms = {
            name: created_ms[name] for name in names if name in created_ms
        }
        # Not before they were acted on: if the session has ended meanwhile, they are read again.
        self._last_executed_change = max(
            [self._last_executed_change, *map(_change_number, unexecuted)]
        )
        await self._purge_obsolete_notifications()

    async def _process_config_changes(self, entities: list[paths.ConfigEntity]) -> None:
        nodes = await self._get_nodes(entity.path for entity in entities)
        for entity, node in zip(entities, nodes, strict=True):
            config = _decode_config(entity, node)
            if config is None:
                continue
            log.info("The configuration of %s has changed: %s", entity, ", ".join(config) or "none")
            try:
                await self._handler(entity, config)
            except KafkaError as error:
                log.error("The configuration of %s has no effect: %r", entity, error)
            except StoreError:
                raise
            except Exception:
                log.exception("The configuration of %s may have no effect", entity)

    async def _purge_obsolete_notifications(self) -> None:
        expired_before_ms = self._now_ms() - CHANGE_EXPIRATION_MS
        expired = [
            name
            for name, created_ms in self._notification_created_ms.items()
            if created_ms < expired_before_ms
        ]
        if expired:
            sequence = paths.CONFIG_CHANGES
            # Others may have been faster.
            _raise_unless_no_node(
                await self._store.run([Delete(sequence.child_path(name)) for name in expired])
            )
            for name in expired:
                del self._notification_created_ms[name]

    async def _get_nodes(self, node_paths: Iterable[str]) -> list[ZNode | None]:
        """None where there is none, or none any more."""
        outcomes = _raise_unless_no_node(await self._store.run([*map(GetData, node_paths)]))
        return [outcome if isinstance(outcome, ZNode) else None for outcome in outcomes]


def _change_number(name: str) -> int:
    number = paths.CONFIG_CHANGES.sequence_number(name)
    assert number is not None, name
    return number


def _raise_unless_no_node(outcomes: list[Outcome]) -> list[Outcome]:
    for outcome in outcomes:
        if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
            raise outcome
    return outcomes


def _decode_entities(notifications: Mapping[str, ZNode]) -> Iterable[paths.ConfigEntity]:
    for name, node in notifications.items():
        try:
            yield ConfigChangeNotification.decode(node.value, name).entity
        except CorruptPayload as error:
            log.error("A notice of a changed configuration is passed over: %s", error)


def _decode_config(entity: paths.ConfigEntity, node: ZNode | None) -> Mapping[str, str] | None:
    """None if it cannot be read: what was in effect stays so."""
    if node is None:
        return {}
    try:
        return EntityConfig.decode(node.value, entity.path).config
    except CorruptPayload as error:
        log.error("A changed configuration has no effect: %s", error)
        return None

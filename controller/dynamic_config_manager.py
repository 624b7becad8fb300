"""Watches for configuration changes and passes the new configurations to a handler.

Kafka: DynamicConfigManager and ZkNodeChangeNotificationListener.

Each configuration change creates a notification below /config/changes that names the entity, in one
of two formats (see store/payloads/config.py).  Notifications have sequence numbers.  A broker
collects the entities of the notifications that it has not processed, reads their current
configurations and calls the handler for each.  An entity that changed twice may therefore be
handled once, or twice with the same configuration.

At start-up all existing notifications count as unprocessed.  In a later session they do not: the
broker remembers the last sequence number, so it finds the notifications created in between.  A
notification expires after 15 minutes; any broker that reads it then deletes it.

Errors are logged and do not stop the processing.  A failed read of the store is retried later.  If
the handler fails for one entity, the other entities are still handled.

    manager = DynamicConfigManager(store, handler, now_ms=now_ms, start_task=start_task)
    await manager.start()           # the session is open and the root nodes exist

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

log = logging.getLogger("kafka.server")

#: As in Kafka, which has no setting for it.
CHANGE_EXPIRATION_MS = 15 * 60 * 1000
NO_CHANGE_EXECUTED = -1
RETRY_BACKOFF_S = 10.0

#: Receives the entity and its whole configuration, which may be empty.  A KafkaError that it raises
#: is logged.
ConfigHandler = Callable[[paths.ConfigEntity, Mapping[str, str]], Awaitable[None]]


class DynamicConfigManager:
    """Runs from ``start`` to ``close``, across sessions."""

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
        #: notification name -> creation time, for processed notifications that still exist.
        self._notification_created_ms: dict[str, int] = {}

    async def start(self) -> None:
        """Returns when all existing notifications have been processed."""
        self._store.add_session_listener(self._on_session_state_change)
        while not await self._try_process_notifications():
            await self._has_changes.wait()
        self._task = self._start_task(self._run(), name="config-changes")

    async def _try_process_notifications(self) -> bool:
        """False if the session expired; ``_has_changes`` is set in the next session."""
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
        """A new session has no watches, so the notifications are read again."""
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
                log.info("Session expired; processing config changes again in the next session")
            except StoreError as error:
                log.error(
                    "Failed to process config change notifications, retrying later: %r", error
                )
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
        # Only now: if the session expires before, the notifications are processed again.
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
            log.info(
                "Processing override for entityPath: %s with config: %s",
                entity,
                ", ".join(config) or "none",
            )
            try:
                await self._handler(entity, config)
            except KafkaError as error:
                log.error("Ignoring the invalid configuration of %s: %r", entity, error)
            except StoreError:
                raise
            except Exception:
                log.exception("Error in the config handler for %s; changes may not apply", entity)

    async def _purge_obsolete_notifications(self) -> None:
        expired_before_ms = self._now_ms() - CHANGE_EXPIRATION_MS
        expired = [
            name
            for name, created_ms in self._notification_created_ms.items()
            if created_ms < expired_before_ms
        ]
        if expired:
            sequence = paths.CONFIG_CHANGES
            # Other brokers may have deleted them already.
            _raise_unless_no_node(
                await self._store.run([Delete(sequence.child_path(name)) for name in expired])
            )
            for name in expired:
                del self._notification_created_ms[name]

    async def _get_nodes(self, node_paths: Iterable[str]) -> list[ZNode | None]:
        """None for each node that does not exist."""
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
            log.error("Skipping an unreadable config change notification: %s", error)


def _decode_config(entity: paths.ConfigEntity, node: ZNode | None) -> Mapping[str, str] | None:
    """None if the configuration is unreadable; the previous one then stays in effect."""
    if node is None:
        return {}
    try:
        return EntityConfig.decode(node.value, entity.path).config
    except CorruptPayload as error:
        log.error("Ignoring an unreadable configuration: %s", error)
        return None

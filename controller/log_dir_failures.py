"""Log directories fail: which replicas are gone with them?

A broker tells, by a notification in the tree, no more than that a directory of it has failed.  It
is then told again of everything it has, and what it answers, partition by partition, shows what it
cannot serve any more; so does every later answer.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from odradek.controller.broker_link import Answer
from odradek.controller.context import Context, Replica
from odradek.controller.machinery import Machinery
from odradek.controller.offline_replicas import OfflineReplicas
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import Watch
from odradek.protocol.api.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)


class LogDirs:
    """Which replicas of a broker are offline though the broker is not."""

    def __init__(self, machinery: Machinery, watch: Watch, offline: OfflineReplicas) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._watch = watch
        self._offline = offline

    async def forget_notifications(self) -> None:
        """Of before: all brokers are asked anyway when a controller begins."""
        await self._delete(await self._machinery.reads.log_dir_events(self._watch))

    async def look(self) -> None:
        """Ask the brokers that have sent notifications for what they still have."""
        events = await self._machinery.reads.log_dir_events(self._watch)
        brokers = sorted({broker for broker in events.values() if broker is not None})
        if brokers:
            log.warning("A log directory has failed on each of the brokers %s", brokers)
        replicas = [replica for each in brokers for replica in self._context.replicas_on(each)]
        await self._machinery.replicas.move(replicas, ReplicaState.ONLINE)
        await self._delete(events)

    async def answered(self, answer: Answer, response: LeaderAndIsrResponse) -> None:
        """Take out of service what the broker has no directory for any more."""
        before = self._context.offline_replicas.get(answer.broker, set())
        now = set(before)
        for partition, error in _errors(response, self._context):
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                if answer.broker in self._context.assignment(partition).replicas:
                    now.add(partition)
            elif error is ErrorCode.NONE:
                now.discard(partition)
        self._context.offline_replicas[answer.broker] = now
        if gone := sorted(now - before):
            log.warning("Broker %d has lost %d replicas with their disk", answer.broker, len(gone))
            await self._offline.take_out([Replica(partition, answer.broker) for partition in gone])

    async def _delete(self, names: dict[str, int | None]) -> None:
        await self._machinery.writes.delete_notifications(paths.LOG_DIR_EVENTS, names)


def _errors(
    response: LeaderAndIsrResponse, context: Context
) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """Later versions name topics by ids; those that are gone meanwhile are left out."""
    for each in response.partition_errors:
        yield TopicPartition(each.topic_name, each.partition_index), ErrorCode.of(each.error_code)
    for topic in response.topics:
        name = context.topic_names.get(topic.topic_id)
        if name is None:
            continue
        for each in topic.partition_errors:
            yield TopicPartition(name, each.partition_index), ErrorCode.of(each.error_code)

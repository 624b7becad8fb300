"""What an operator asks of a cluster that is being restarted, killed and cut.

librdkafka asks whom it last took for the controller, once; and (2.16, its issue 5511) it waits in
vain for a broker that had left the metadata for a while.  So every question here is asked by a
client that has just been started, and again until the one who can answer it has been found, as
Java's client does by itself.

Owner: the thread that asks.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.group_members import wait_until

#: Another is the controller; a session has just ended; a broker is not back yet.
NOT_YET = (
    KafkaError.NOT_CONTROLLER,
    KafkaError.UNKNOWN,
    KafkaError.INVALID_REPLICATION_FACTOR,
)

Answers = Mapping[Any, concurrent.futures.Future[Any]]


class ClusterAdmin:
    """Asks whichever of these brokers can answer."""

    def __init__(self, addresses: str) -> None:
        self._addresses = addresses

    def create(self, new: NewTopic) -> None:
        """Perhaps it was by an earlier attempt."""
        self._ask(lambda client: client.create_topics([new]), KafkaError.TOPIC_ALREADY_EXISTS)

    def start_to_create(self, new: NewTopic) -> AdminClient:
        """Where the answer may take as long as a cut; who keeps the client waits for it."""
        client = self._client()
        client.create_topics([new])
        return client

    def delete(self, topic: str) -> None:
        """Perhaps it was by an earlier attempt."""
        self._ask(lambda client: client.delete_topics([topic]), KafkaError.UNKNOWN_TOPIC_OR_PART)

    def configure(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self._ask(lambda client: client.incremental_alter_configs([resource]))

    def elect_preferred(self, partitions: Sequence[TopicPartition] | None = None) -> None:
        """Of all partitions by default; each may have been led by the preferred one before."""
        listed = partitions and [*partitions]
        self._ask(lambda client: {None: client.elect_leaders(ElectionType.PREFERRED, listed)})

    def _client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._addresses})

    def _ask(self, ask: Callable[[AdminClient], Answers], *well_enough: int) -> None:
        def is_answered() -> bool:
            client = self._client()  # which is to live until it has been answered
            try:
                for answer in ask(client).values():
                    answer.result()
            except KafkaException as failure:
                code = failure.args[0].code()
                if code not in (*NOT_YET, *well_enough):
                    raise
                return code in well_enough
            return True

        wait_until(is_answered)

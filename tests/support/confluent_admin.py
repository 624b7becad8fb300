"""confluent-kafka's AdminClient as an Admin.

Owner: the test's thread; librdkafka has its own beneath.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Self

from confluent_kafka import (
    ElectionType,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.admin_driver import TIMEOUT_S, Cluster, Described
from tests.support.client_driver import Refused


class ConfluentAdmin:
    name = "confluent-kafka"
    lacks = ("log_dirs",)

    def __init__(self, address: str) -> None:
        self._made = AdminClient({"bootstrap.servers": address})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def create(
        self, topic: str, *, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        _only(self._made.create_topics([NewTopic(topic, partitions, 1, config=configs or {})]))

    def topics(self) -> Collection[str]:
        return list(self._made.list_topics(timeout=TIMEOUT_S).topics)

    def describe(self, topic: str) -> Mapping[int, Described]:
        told = _only(self._made.describe_topics(TopicCollection([topic])))
        return {
            each.id: Described(each.leader.id, _ids(each.replicas), _ids(each.isr))
            for each in told.partitions
        }

    def delete(self, topic: str) -> None:
        _only(self._made.delete_topics([topic]))

    def grow(self, topic: str, *, partitions: int) -> None:
        _only(self._made.create_partitions([NewPartitions(topic, partitions)]))

    def configs(self, topic: str) -> Mapping[str, str]:
        return self._configs(ConfigResource(ResourceType.TOPIC, topic))

    def broker_configs(self, broker_id: int) -> Mapping[str, str]:
        return self._configs(ConfigResource(ResourceType.BROKER, str(broker_id)))

    def _configs(self, resource: ConfigResource) -> Mapping[str, str]:
        entries = _only(self._made.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():
            # It is called deprecated, and is what older programs use.
            warnings.simplefilter("ignore", DeprecationWarning)
            asked = self._made.alter_configs([resource])
        _only(asked)

    def alter_some(self, topic: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _only(self._made.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, *, before: int) -> int:
        low_watermark = _only(self._made.delete_records([TopicPartition(topic, 0, before)]))
        return int(low_watermark.low_watermark)

    def first_and_next_offset(self, topic: str) -> tuple[int, int]:
        asked = TopicPartition(topic, 0)
        first = _only(self._made.list_offsets({asked: OffsetSpec.earliest()}))
        following = _only(self._made.list_offsets({asked: OffsetSpec.latest()}))
        return first.offset, following.offset

    def log_dirs(self, topic: str) -> Mapping[str, Mapping[int, int]]:
        raise NotImplementedError

    def elect(self, topic: str) -> str:
        asked = TopicPartition(topic, 0)
        answers = _outcome(self._made.elect_leaders(ElectionType.PREFERRED, [asked]))
        return str(answers[asked].name())

    def cluster(self) -> Cluster:
        told = _outcome(self._made.describe_cluster())
        brokers = {node.id: f"{node.host}:{node.port}" for node in told.nodes}
        return Cluster(told.cluster_id, told.controller.id, brokers)


def _only(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return _outcome(future)


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result(TIMEOUT_S)
    except KafkaException as error:
        raise Refused(error.args[0].name()) from error


def _ids(nodes: Collection[Any]) -> tuple[int, ...]:
    return tuple(node.id for node in nodes)

"""aiokafka's admin client as an Admin, on a loop that runs when asked.

Owner: the test's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, Self

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from tests.support.admin_driver import TIMEOUT_S, Cluster, Described
from tests.support.client_driver import Refused


class AiokafkaAdmin:
    name = "aiokafka"
    lacks = ("alter_some", "first_and_next_offset", "log_dirs", "elect")

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._made = self._runner.run(self._begin())
        return self

    def __exit__(self, *failure: object) -> None:
        self._runner.run(self._made.close())
        self._runner.close()

    async def _begin(self) -> AIOKafkaAdminClient:
        made = AIOKafkaAdminClient(
            bootstrap_servers=self._address, request_timeout_ms=TIMEOUT_S * 1000
        )
        await made.start()
        return made

    def _told(self, asking: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._runner.run(asking)
        except KafkaError as error:
            raise Refused(type(error).__name__) from error

    def create(
        self, topic: str, *, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        _check(self._told(self._made.create_topics([new])).topic_errors)

    def topics(self) -> Collection[str]:
        return list(self._told(self._made.list_topics()))

    def describe(self, topic: str) -> Mapping[int, Described]:
        (told,) = self._told(self._made.describe_topics([topic]))
        return {
            each["partition"]: Described(
                each["leader"], tuple(each["replicas"]), tuple(each["isr"])
            )
            for each in told["partitions"]
        }

    def delete(self, topic: str) -> None:
        _check(self._told(self._made.delete_topics([topic])).topic_error_codes)

    def grow(self, topic: str, *, partitions: int) -> None:
        self._told(self._made.create_partitions({topic: NewPartitions(partitions)}))

    def configs(self, topic: str) -> Mapping[str, str]:
        return self._configs(ConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, broker_id: int) -> Mapping[str, str]:
        return self._configs(ConfigResource(ConfigResourceType.BROKER, str(broker_id)))

    def _configs(self, resource: ConfigResource) -> Mapping[str, str]:
        (told,) = self._told(self._made.describe_configs([resource]))
        ((_, _, _, _, entries),) = told.resources
        return {entry[0]: entry[1] for entry in entries}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        (told,) = self._told(self._made.alter_configs([resource]))
        _check([(topic, code) for code, *_ in told.resources])

    def alter_some(self, topic: str, configs: Mapping[str, str]) -> None:
        raise NotImplementedError

    def delete_records(self, topic: str, *, before: int) -> int:
        partition = TopicPartition(topic, 0)
        asked = {partition: RecordsToDelete(before)}
        return int(self._told(self._made.delete_records(asked))[partition])

    def first_and_next_offset(self, topic: str) -> tuple[int, int]:
        raise NotImplementedError

    def log_dirs(self, topic: str) -> Mapping[str, Mapping[int, int]]:
        raise NotImplementedError

    def elect(self, topic: str) -> str:
        raise NotImplementedError

    def cluster(self) -> Cluster:
        told = self._told(self._made.describe_cluster())
        brokers = {each["node_id"]: f"{each['host']}:{each['port']}" for each in told["brokers"]}
        return Cluster(told["cluster_id"], told["controller_id"], brokers)


def _check(lines: Collection[Any]) -> None:
    for _, code, *_ in lines:
        if code:
            raise Refused(for_code(code).__name__)

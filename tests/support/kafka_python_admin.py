"""kafka-python's KafkaAdminClient as an Admin.

Owner: the test's thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from tests.support.admin_driver import TIMEOUT_S, Cluster, Described
from tests.support.client_driver import Refused

with warnings.catch_warnings():
    # It reads its schemas by a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
    from kafka.errors import ElectionNotNeededError, KafkaError


PREFERRED = 0


class KafkaPythonAdmin:
    name = "kafka-python"
    lacks: Collection[str] = ()

    def __init__(self, address: str) -> None:
        self._made = kafka.KafkaAdminClient(
            bootstrap_servers=address, request_timeout_ms=TIMEOUT_S * 1000
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._made.close()

    def create(
        self, topic: str, *, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        new = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        with _refusing():
            self._made.create_topics({topic: new})

    def topics(self) -> Collection[str]:
        return list(self._made.list_topics())

    def describe(self, topic: str) -> Mapping[int, Described]:
        (told,) = self._made.describe_topics([topic])
        return {
            each["partition_index"]: Described(
                each["leader_id"], tuple(each["replica_nodes"]), tuple(each["isr_nodes"])
            )
            for each in told["partitions"]
        }

    def delete(self, topic: str) -> None:
        with _refusing():
            self._made.delete_topics([topic])

    def grow(self, topic: str, *, partitions: int) -> None:
        with _refusing():
            self._made.create_partitions({topic: partitions})

    def configs(self, topic: str) -> Mapping[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        told = self._made.describe_configs([resource], config_filter="all")
        return _values(told["topic"][topic])

    def broker_configs(self, broker_id: int) -> Mapping[str, str]:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        told = self._made.describe_configs([resource], config_filter="all")
        return _values(told["broker"][str(broker_id)])

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """It sends what is configured along, and so we reset that first."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        self._made.reset_configs([resource], incremental=False)
        self._alter(topic, configs, is_incremental=False)

    def alter_some(self, topic: str, configs: Mapping[str, str]) -> None:
        self._alter(topic, configs, is_incremental=True)

    def _alter(self, topic: str, configs: Mapping[str, str], *, is_incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        told = self._made.alter_configs(
            [resource], raise_on_unknown=False, incremental=is_incremental
        )
        if told["topic"][topic] != "OK":
            raise Refused(told["topic"][topic])

    def delete_records(self, topic: str, *, before: int) -> int:
        partition = kafka.TopicPartition(topic, 0)
        with _refusing():
            told = self._made.delete_records({partition: before})
        return int(told[partition]["low_watermark"])

    def first_and_next_offset(self, topic: str) -> tuple[int, int]:
        partition = kafka.TopicPartition(topic, 0)
        first = self._made.list_partition_offsets({partition: OffsetSpec.EARLIEST})
        following = self._made.list_partition_offsets({partition: OffsetSpec.LATEST})
        return first[partition].offset, following[partition].offset

    def log_dirs(self, topic: str) -> Mapping[str, Mapping[int, int]]:
        (told,) = self._made.describe_log_dirs([topic])
        return {
            each["log_dir"]: {
                partition["partition_index"]: partition["partition_size"]
                for found in each["topics"]
                for partition in found["partitions"]
            }
            for each in told["log_dirs"]
        }

    def elect(self, topic: str) -> str:
        told = self._made.elect_leaders(PREFERRED, {topic: [0]}, raise_errors=False)
        ((partition,),) = [each.partition_result for each in told.replica_election_results]
        assert partition.error_code == ElectionNotNeededError.errno
        return "ELECTION_NOT_NEEDED"

    def cluster(self) -> Cluster:
        told = self._made.describe_cluster()
        brokers = {each["broker_id"]: f"{each['host']}:{each['port']}" for each in told["brokers"]}
        return Cluster(told["cluster_id"], told["controller_id"], brokers)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(type(error).__name__) from error


def _values(entries: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: entry["value"] for name, entry in entries.items()}

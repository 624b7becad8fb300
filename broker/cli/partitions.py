"""The partitions of topics, and their log start and end offsets, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.cli import client
from odradek.broker.cli.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, TopicDescription

#: Errors of the cluster or of the library for a partition that does not exist or has no leader;
#: the library itself raises _NOENT if it found no leader.
NO_LEADER_ERRORS = frozenset(
    {
        *("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"),
        *("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_NOENT"),
    }
)
UNKNOWN_OFFSET = -1


class TopicAndPartition(NamedTuple):
    """A partition, written ``orders:0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


Offsets = dict[TopicAndPartition, int]


def describe_topics(
    admin: AdminClient, names: Iterable[str], timeout_s: float
) -> list[TopicDescription]:
    """Return the descriptions by name; describe all topics if ``names`` is empty."""
    from confluent_kafka import TopicCollection

    names = sorted(set(names) or admin.list_topics(timeout=timeout_s).topics)
    if not names:
        return []
    futures = admin.describe_topics(TopicCollection(names), request_timeout=timeout_s)
    return [client.wait_for_result(name, futures[name]) for name in names]


def existing_partitions(
    admin: AdminClient, topic_partitions: Iterable[TopicAndPartition], timeout_s: float
) -> list[TopicAndPartition]:
    """Return the partitions that exist, in order, with or without a leader."""
    topics = admin.list_topics(timeout=timeout_s).topics
    return [
        topic_partition
        for topic_partition in sorted(topic_partitions)
        if topic_partition.topic in topics
        and topic_partition.partition in topics[topic_partition.topic].partitions
    ]


def log_start_offsets(
    admin: AdminClient, topic_partitions: Iterable[TopicAndPartition], timeout_s: float
) -> Offsets:
    return _list_offsets(
        admin, dict.fromkeys(topic_partitions, _offset_spec().earliest()), timeout_s
    )


def log_end_offsets(
    admin: AdminClient, topic_partitions: Iterable[TopicAndPartition], timeout_s: float
) -> Offsets:
    return _list_offsets(admin, dict.fromkeys(topic_partitions, _offset_spec().latest()), timeout_s)


def known_log_end_offsets(
    admin: AdminClient, topic_partitions: Iterable[TopicAndPartition], timeout_s: float
) -> Offsets:
    """Omit partitions that do not exist or have no leader at the moment."""
    specs = dict.fromkeys(topic_partitions, _offset_spec().latest())
    return _list_offsets(admin, specs, timeout_s, requires_leaders=False)


def offsets_for_time(
    admin: AdminClient,
    topic_partitions: Iterable[TopicAndPartition],
    timeout_s: float,
    *,
    timestamp_ms: int,
) -> Offsets:
    """Return the offset of the first record at or after the timestamp.

    Partitions without such a record are omitted.
    """
    specs = dict.fromkeys(topic_partitions, _offset_spec().for_timestamp(timestamp_ms))
    offsets = _list_offsets(admin, specs, timeout_s)
    return {
        topic_partition: offset
        for topic_partition, offset in offsets.items()
        if offset != UNKNOWN_OFFSET
    }


def _offset_spec() -> Any:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec  # as Any: the library's factory methods have no type hints


def _list_offsets(
    admin: AdminClient,
    specs: dict[TopicAndPartition, Any],
    timeout_s: float,
    *,
    requires_leaders: bool = True,
) -> Offsets:
    from confluent_kafka import KafkaException, TopicPartition

    if not specs:
        return {}
    request = {TopicPartition(*topic_partition): spec for topic_partition, spec in specs.items()}
    offsets = {}
    for requested, future in admin.list_offsets(request, request_timeout=timeout_s).items():
        topic_partition = TopicAndPartition(requested.topic, requested.partition)
        error = future.exception()
        if isinstance(error, KafkaException) and error.args[0].name() in NO_LEADER_ERRORS:
            if requires_leaders:
                raise CommandFailed(
                    f"{topic_partition}: there is no such partition, or it has no leader"
                )
            continue
        offsets[topic_partition] = client.wait_for_result(str(topic_partition), future).offset
    return offsets

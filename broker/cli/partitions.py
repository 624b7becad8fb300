"""The partitions of topics, and the offsets of their logs, as their leaders tell them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.cli import client
from odradek.broker.cli.failed import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, TopicDescription

#: What the cluster, or the library by itself, says of a partition that is gone or has no leader;
#: the last of them if it found none that has.
UNLED = frozenset(
    {
        *("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"),
        *("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_NOENT"),
    }
)
NO_RECORD = -1


class Place(NamedTuple):
    """A partition, written ``orders:0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


Offsets = dict[Place, int]


def described_topics(
    admin: AdminClient, names: Iterable[str], timeout_s: float
) -> list[TopicDescription]:
    """By name; all topics if none is named."""
    from confluent_kafka import TopicCollection

    names = sorted(set(names) or admin.list_topics(timeout=timeout_s).topics)
    if not names:
        return []
    futures = admin.describe_topics(TopicCollection(names), request_timeout=timeout_s)
    return [client.outcome(name, futures[name]) for name in names]


def that_exist(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> list[Place]:
    """In order; whether anybody leads them or not."""
    topics = admin.list_topics(timeout=timeout_s).topics
    return [
        place
        for place in sorted(places)
        if place.topic in topics and place.partition in topics[place.topic].partitions
    ]


def starts(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> Offsets:
    return _offsets(admin, dict.fromkeys(places, _kinds().earliest()), timeout_s)


def ends(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> Offsets:
    return _offsets(admin, dict.fromkeys(places, _kinds().latest()), timeout_s)


def ends_that_are_known(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> Offsets:
    """Without the partitions that are gone, or have no leader at the moment."""
    asked = dict.fromkeys(places, _kinds().latest())
    return _offsets(admin, asked, timeout_s, are_all_led=False)


def first_from(
    admin: AdminClient, places: Iterable[Place], timeout_s: float, *, timestamp_ms: int
) -> Offsets:
    """Of the first record of this time or later; without the partitions that have none."""
    asked = dict.fromkeys(places, _kinds().for_timestamp(timestamp_ms))
    found = _offsets(admin, asked, timeout_s)
    return {place: offset for place, offset in found.items() if offset != NO_RECORD}


def _kinds() -> Any:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec  # whose makers the library gives no types


def _offsets(
    admin: AdminClient,
    asked: dict[Place, Any],
    timeout_s: float,
    *,
    are_all_led: bool = True,
) -> Offsets:
    from confluent_kafka import KafkaException, TopicPartition

    if not asked:
        return {}
    wanted = {TopicPartition(*place): kind for place, kind in asked.items()}
    found = {}
    for at, future in admin.list_offsets(wanted, request_timeout=timeout_s).items():
        place = Place(at.topic, at.partition)
        raised = future.exception()
        if isinstance(raised, KafkaException) and raised.args[0].name() in UNLED:
            if are_all_led:
                raise CommandFailed(f"{place}: there is no such partition, or no leader of it")
            continue
        found[place] = client.outcome(str(place), future).offset
    return found

"""The interface of an assignor: from subscriptions and assigned partitions to a target assignment.

An assignor is a pure function.  It assigns every partition of a subscribed topic to exactly one of
the topic's subscribers.  The same input always gives the same output: ties are broken by member id.

Kafka: ConsumerGroupPartitionAssignor.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions
from odradek.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it."""

    #: Ids of existing topics only.
    subscribed_topic_ids: frozenset[Uuid]
    #: The previous target assignment; it may contain unsubscribed topics and deleted partitions.
    assigned_partitions: Partitions = NO_PARTITIONS
    instance_id: str | None = None


#: Subscribers by member id, and the number of partitions of each topic they subscribe to.
Assignor = Callable[[Mapping[str, Subscriber], Mapping[Uuid, int]], dict[str, Partitions]]


def is_homogeneous(subscribers: Mapping[str, Subscriber]) -> bool:
    return len({subscriber.subscribed_topic_ids for subscriber in subscribers.values()}) <= 1

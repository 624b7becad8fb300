"""What an assignor is: from subscriptions and what members have to what they shall have.

An assignor is a pure function.  It gives every partition of a topic that somebody subscribes to to
exactly one of its subscribers, and the same input always the same output: where members are equal,
their ids decide.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions
from odradek.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member, as assignors see it."""

    #: Only topics that exist.
    subscribed_topic_ids: frozenset[Uuid]
    #: What it was to have so far; it may contain what is neither subscribed to nor there any more.
    assigned_partitions: Partitions = NO_PARTITIONS
    instance_id: str | None = None


#: Subscribers by member id, and the number of partitions of each topic they subscribe to.
Assignor = Callable[[Mapping[str, Subscriber], Mapping[Uuid, int]], dict[str, Partitions]]


def is_homogeneous(subscribers: Mapping[str, Subscriber]) -> bool:
    return len({subscriber.subscribed_topic_ids for subscriber in subscribers.values()}) <= 1

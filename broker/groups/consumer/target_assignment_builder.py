"""When a group comes into a new epoch, and who shall have what in it.

The epoch grows when the subscriptions change, or the topics that they are about: their hash tells.
Then an assignor, the one that most members ask for, makes a new target from the old one.  Records
are written only for members whose target is another one.

Owner: none; pure functions on a draft.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.assignors import ASSIGNORS, Assignors
from odradek.broker.groups.consumer.draft import Draft, Surroundings
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import Subscription
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from odradek.broker.groups.consumer.records import Resolved
from odradek.broker.groups.consumer.topics import Topics
from odradek.protocol.errors import InvalidRegularExpression
from odradek.protocol.types import Uuid


def resolve_expressions(draft: Draft, around: Surroundings) -> bool:
    """Whether one of them matches other topics than before.

    A heartbeat asks, for which many names may be looked at in turns before.  Whoever must not wait,
    since a session is over or a classic member joins, takes what was found last.
    """
    group, has_changed = draft.group, False
    for expression in sorted(group.used_expressions()):
        known, found = group.expressions.get(expression), _matching(around.topics, expression)
        if found is not None and (known is None or known.topics != found):
            resolved = Resolved(found, around.now_ms)
            draft.write([records.expression(group.id, expression, resolved)])
            has_changed = True
    return has_changed


def raise_epoch(draft: Draft, around: Surroundings, *, has_changed: bool) -> None:
    """If subscriptions have changed, as the caller knows, or topics; or nobody has had it yet."""
    _forget_unused_expressions(draft)
    group = draft.group
    metadata_hash = around.topics.hash_of(group.subscribed_topics())
    if has_changed or metadata_hash != group.metadata_hash or not group.epoch:
        if group.has_partition_metadata:
            draft.write([records.without_partition_metadata(group.id)])
        draft.put_epoch(group.epoch + 1, metadata_hash)


def assign(draft: Draft, around: Surroundings) -> None:
    """If there is no target for the epoch yet."""
    group = draft.group
    if group.assignment_epoch >= group.epoch:
        return
    target = ASSIGNORS[preferred_assignor(group, around.assignors)](
        _subscribers(group, around.topics),
        around.topics.partition_counts(group.subscribed_topics()),
    )
    for member in sorted(target):
        if group.target.get(member) != target[member]:
            draft.put_target(member, target[member])
    draft.write([records.target_epoch(group.id, group.epoch)])


def preferred_assignor(group: ConsumerGroup, assignors: Assignors) -> str:
    return assignors.preferred(each.metadata.assignor for each in group.members.values())


def _matching(topics: Topics, expression: str) -> frozenset[str] | None:
    """None for one that another broker has accepted, and this one cannot read."""
    try:
        return topics.matching(expression)
    except InvalidRegularExpression:
        return None


def _forget_unused_expressions(draft: Draft) -> None:
    group = draft.group
    unused = sorted(group.expressions.keys() - group.used_expressions())
    draft.write(records.expression(group.id, each, None) for each in unused)


def _subscribers(group: ConsumerGroup, topics: Topics) -> dict[str, Subscriber]:
    ids: Mapping[Subscription, frozenset[Uuid]] = {
        each: frozenset(topics.partition_counts(group.topics_of(each)))
        for each in group.subscriptions
    }
    taken: set[TopicIdPartition] = set()
    return {
        member_id: Subscriber(
            topics=ids[member.subscription],
            has=_not_taken(group.target_of(member_id), taken),
            instance_id=member.instance_id,
        )
        for member_id, member in group.members.items()
    }


def _not_taken(partitions: Partitions, taken: set[TopicIdPartition]) -> Partitions:
    """A classic leader may have given one partition to two, and its group become one of ours."""
    own = partitions if taken.isdisjoint(partitions) else partitions - taken
    taken |= own
    return own

"""When is an offset forgotten, and a group with it?

Once nobody has used it for ``offsets.retention.minutes`` (KIP-211): since the group has become
empty; since the commit, where the group has members that do not subscribe to the topic, or never
had any.  A commit that named a time of its own goes by that.  What a transaction may still change
stays.

A group that is empty and has no offsets left goes too.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.broker.groups.committing import (
    AT_ONCE,
    check_exists,
    forget,
    forget_group,
    forget_group_if_unused,
)
from odradek.broker.groups.group import Group
from odradek.broker.groups.offsets import NEVER, Commit, Place
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.errors import KafkaError, NonEmptyGroup

log = logging.getLogger(__name__)


def forgetting_unused(shard: GroupShard, group_id: str) -> Iterator[None]:
    """Some offsets at a time: in between, others may have their turns.

    What cannot be written now is tried again the next time.
    """
    offsets, count = shard.offsets.get(group_id), 0
    places = [] if offsets is None else [*offsets.committed]
    try:
        for begin in range(0, len(places) or 1, AT_ONCE):
            count += forget(
                shard, group_id, _unused(shard, group_id, places[begin : begin + AT_ONCE])
            )
            yield
        forget_group_if_unused(shard, group_id)
    except KafkaError as failure:
        log.warning("Offsets of %r have expired, but stay: %s", group_id, failure)
    if count:
        log.info("%d offsets of %r have expired", count, group_id)


def _unused(shard: GroupShard, group_id: str, places: Iterable[Place]) -> list[Place]:
    """Of these, now."""
    group, offsets = shard.groups.get(group_id), shard.offsets.get(group_id)
    if offsets is None:
        return []
    world, committed = shard.world, offsets.committed
    now_ms, retention_ms = world.now_ms(), world.settings.retention_ms
    return [
        place
        for place in places
        if place in committed
        and _is_unused(group, place[0], committed[place], now_ms, retention_ms)
        and not offsets.is_pending(place)
    ]


def _is_unused(
    group: Group | None, topic: str, commit: Commit, now_ms: int, retention_ms: int
) -> bool:
    since = commit.committed_ms if group is None else group.unused_since(topic, commit)
    if since is None:
        return False
    if commit.expires_ms != NEVER:
        return now_ms >= commit.expires_ms
    return now_ms - since >= retention_ms


def delete_group(shard: GroupShard, group_id: str) -> None:
    """With its offsets; raises what is said against it."""
    group = check_exists(shard, group_id)
    if group is not None and not group.is_empty:
        raise NonEmptyGroup()
    offsets = shard.offsets.get(group_id)
    if offsets is not None:
        forget(shard, group_id, list(offsets.places()))
    if group is not None:
        forget_group(shard, group)

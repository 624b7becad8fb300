"""What members of the consumer protocol ask for, led to the group that it is about.

Owner: the event loop.
"""

from __future__ import annotations

import logging

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.log_failures import OF_A_GROUP, told
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.outcomes import Client
from odradek.broker.groups.consumer.assignors import assignors_of
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.heartbeat import Decision, Heartbeat, Told, decide_heartbeat
from odradek.broker.groups.consumer.heartbeat_request import (
    check_request,
    heartbeat_of,
    is_leaving,
)
from odradek.broker.groups.consumer.leaving import decide_leave, leaving_member
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.member import JOINING, LEAVING
from odradek.broker.groups.consumer.migration import check_upgrade, dismiss, upgraded
from odradek.broker.groups.consumer.records import as_stored
from odradek.broker.groups.shard import GroupShard
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request
from odradek.protocol.errors import GroupIdNotFound, KafkaError, UnsupportedVersion

log = logging.getLogger(__name__)


def check(settings: ConsumerGroupSettings, request: Request, *, version: int) -> None:
    """Whatever the group.  Raises what the member is told."""
    check_enabled(settings)
    check_request(request, version=version, assignors=assignors_of(settings.assignors))


def check_enabled(settings: ConsumerGroupSettings) -> None:
    if not settings.is_enabled:
        raise UnsupportedVersion("The consumer protocol is switched off.")


def heartbeat(shard: GroupShard, request: Request, client: Client) -> Told:
    """To be told when all that is in the log is replicated.  Raises what the member is told."""
    live = _group(shard, request)
    beat = heartbeat_of(
        request,
        member_id=request.member_id or shard.world.new_id(),
        client_id=client.id,
        client_host=client.host,
    )
    if is_leaving(request):
        return _left(live, beat)
    if shard.groups.get(request.group_id) is live:
        return _beaten(live, beat)
    return _begun(shard, live, beat)


def unmatched(shard: GroupShard, request: Request) -> set[str]:
    """Expressions that a heartbeat needs, if many names have not been looked at yet for them."""
    topics, group = shard.world.topics.now, shard.groups.get(request.group_id)
    used = {request.subscribed_topic_regex} if request.subscribed_topic_regex else set()
    if isinstance(group, LiveGroup) and group.group.seen is not topics:
        used |= group.group.used_expressions()
    return used if topics.would_take_long(used) else set()


def find(shard: GroupShard, group_id: str) -> LiveGroup:
    """Raises GroupIdNotFound."""
    group = shard.groups.get(group_id)
    if not isinstance(group, LiveGroup):
        raise GroupIdNotFound(f"There is no group {group_id} of the consumer protocol.")
    return group


def _group(shard: GroupShard, request: Request) -> LiveGroup:
    """One that is not among the shard's yet, if the member may begin it."""
    is_joining = request.member_epoch == JOINING
    if isinstance(shard.groups.get(request.group_id), LiveGroup) or not is_joining:
        return find(shard, request.group_id)
    return LiveGroup(shard, ConsumerGroup(request.group_id))


def _beaten(live: LiveGroup, beat: Heartbeat) -> Told:
    around = live.around
    decision = decide_heartbeat(live.group, beat, around)
    live.write(decision.draft)
    live.group.seen = around.topics
    live.heard(live.group.members[decision.told.member_id])
    live.has_rejoined(decision.told.member_id)
    return decision.told


def _left(live: LiveGroup, beat: Heartbeat) -> Told:
    if beat.epoch == LEAVING:
        member = leaving_member(live.group, beat.member_id, beat.instance_id)
        live.remove([member.id])
        return Told(member.id, beat.epoch)
    decision = decide_leave(live.group, beat, live.around)
    live.write(decision.draft)
    return decision.told


def _begun(shard: GroupShard, live: LiveGroup, beat: Heartbeat) -> Told:
    """A new group, or a classic one that becomes one of ours: in one batch."""
    classic, around = shard.groups.get(live.id), live.around
    before: list[KeyValue] = []
    if isinstance(classic, ClassicGroup):
        before = [(key, None) for key in classic.tombstones()]
        if not classic.is_empty:
            check_upgrade(classic)
            live.group, of_members = upgraded(classic, around.topics)
            before += [as_stored(record) for record in of_members]
    decision: Decision = decide_heartbeat(live.group, beat, around)
    try:
        shard.log.append([*before, *map(as_stored, decision.draft.records)])
    except KafkaError as failure:
        raise told(failure, OF_A_GROUP) from failure
    if isinstance(classic, ClassicGroup):
        log.info("Group %r is upgraded, with %d members", live.id, len(live.group.members))
        dismiss(classic)
    shard.groups[live.id] = live
    live.adopt(decision.draft)
    live.group.seen = around.topics
    live.begin()
    return decision.told

"""Whoever changes a group is answered once that is replicated, and told so if it is not."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker.groups.consumer.topics import TopicsLens
from odradek.broker.handlers import (
    consumer_group_heartbeat,
    delete_groups,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
)
from odradek.protocol.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.api.delete_groups import DeleteGroupsRequest
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.leave_group import LeaveGroupRequest
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_delete import OffsetDeleteRequest
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from tests.support.calls import called, in_the_end
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.live_group_scene import subscribed
from tests.support.metadata_updates import cluster, state, update

FOLLOWER = 2


class Slow:
    """A coordinator whose log has a follower, which fetches when the test says so."""

    def __init__(self, path, **options):
        self.coordinating = Coordinating(path, partitions=0, **options)
        self.groups = self.coordinating.groups
        self.coordinating.know("a", partitions=2)
        picture = cluster(update({"a": [state(0), state(1)]})).picture
        self.groups.world = replace(self.groups.world, topics=TopicsLens(lambda: picture))
        self.partition = self.coordinating.lead(replicas=(BROKER, FOLLOWER))

    def fetch(self):
        self.partition.follower_fetched(
            FOLLOWER, offset=self.partition.log.end_offset, start_offset=0
        )

    def begin(self, module, request):
        return self.coordinating.hosting.background.start(self._answered(module, request))

    async def _answered(self, module, request):
        call = called(request)
        needs_cluster = module in (offset_commit, offset_delete)
        needed = (self.coordinating.cluster,) if needs_cluster else ()
        if module is offset_commit:
            needed += (self.coordinating.old,)
        try:
            return await in_the_end(module.handle(self.groups, *needed, call))
        except KafkaError as refusal:
            return refusal

    async def answered(self, module, request):
        """With a follower that is quick."""
        answering = self.begin(module, request)
        while not answering.done():
            await asyncio.sleep(0)
            self.fetch()
        return answering.result()

    # What there is before

    async def consumer_group(self):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            topic_partitions=[],
            subscribed_topic_names=["a"],
        )
        return consumer_group_heartbeat, request

    async def classic_member_joins(self):
        await self.answered(*await self.consumer_group())
        first = await self.answered(join_group, joining())
        return join_group, joining(first.member_id)

    async def classic_member_syncs(self):
        joined = await self.answered(*await self.classic_member_joins())
        self.begin(offset_commit, committing("other"))  # nothing of it, but in its log
        await asyncio.sleep(0)
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )
        return sync_group, request

    async def last_member_leaves(self):
        first = await self.answered(join_group, joining())
        await self.answered(join_group, joining(first.member_id))
        return leave_group, leaving(first.member_id)

    async def consumer_member_leaves(self):
        joined = await self.answered(*await self.classic_member_joins())
        return leave_group, leaving(joined.member_id)

    async def group_is_deleted(self):
        await self.answered(offset_commit, committing("g"))
        return delete_groups, DeleteGroupsRequest(groups_names=["g"])

    async def offset_is_deleted(self):
        await self.answered(offset_commit, committing("g"))
        topic = OffsetDeleteRequest.Topic(
            name="a", partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=0)]
        )
        return offset_delete, OffsetDeleteRequest(group_id="g", topics=[topic])


def joining(member_id=""):
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscribed("a"))],
    )


def leaving(member_id):
    members = [LeaveGroupRequest.Member(member_id=member_id)]
    return LeaveGroupRequest(group_id="g", members=members)


def committing(group_id):
    line = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    topic = OffsetCommitRequest.Topic(name="a", partitions=[line])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


CHANGES = [
    Slow.consumer_group,
    Slow.classic_member_joins,
    Slow.classic_member_syncs,
    Slow.last_member_leaves,
    Slow.consumer_member_leaves,
    Slow.group_is_deleted,
    Slow.offset_is_deleted,
]
EACH_CHANGE = pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)


def error(answer):
    """Of the whole answer, or of its only line."""
    if isinstance(answer, KafkaError):
        return answer.error.name
    if hasattr(answer, "results"):
        (answer,) = answer.results
    return ErrorCode.of(answer.error_code).name


@EACH_CHANGE
async def test_nobody_is_answered_before_the_replicas_have_it(tmp_path, change):
    slow = Slow(tmp_path)
    answering = slow.begin(*await change(slow))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not answering.done()
    slow.fetch()
    assert error(await answering) == "NONE"


@EACH_CHANGE
async def test_what_is_not_replicated_in_time_is_to_be_asked_again(tmp_path, change):
    slow = Slow(tmp_path, commit_timeout_ms=50)
    module, request = await change(slow)
    assert error(await slow.begin(module, request)) == "COORDINATOR_NOT_AVAILABLE"


async def test_of_groups_in_two_logs_those_are_deleted_whose_log_is_replicated(tmp_path):
    slow = Slow(tmp_path, commit_timeout_ms=50)
    slow.coordinating.lead(1)
    ids = {slow.coordinating.lookup.partition_of(each): each for each in "abcd"}
    for group_id in ids.values():
        await slow.answered(offset_commit, committing(group_id))
    request = DeleteGroupsRequest(groups_names=[ids[0], ids[1]])
    slow_one, quick_one = (await slow.begin(delete_groups, request)).results
    assert error(slow_one) == "COORDINATOR_NOT_AVAILABLE"
    assert error(quick_one) == "NONE"

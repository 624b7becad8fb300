"""A change of a group is answered once it is replicated, or with an error after the timeout."""

import asyncio
from dataclasses import replace

import pytest

from odradek.broker.groups.consumer.topics import TopicsProvider
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


class SlowReplication:
    """A coordinator whose log has a follower that fetches only when the test calls ``fetch``."""

    def __init__(self, path, **options):
        self.coordinating = Coordinating(path, partitions=0, **options)
        self.groups = self.coordinating.groups
        self.coordinating.know("a", partitions=2)
        snapshot = cluster(update({"a": [state(0), state(1)]})).snapshot
        self.groups.context = replace(
            self.groups.context, topics_provider=TopicsProvider(lambda: snapshot)
        )
        self.partition = self.coordinating.lead(replicas=(BROKER, FOLLOWER))

    def fetch(self):
        self.partition.update_follower_fetch_state(
            FOLLOWER, fetch_offset=self.partition.log.log_end_offset, follower_start_offset=0
        )

    def begin(self, module, request):
        return self.coordinating.hosting.background.start(self._handle(module, request))

    async def _handle(self, module, body):
        request = called(body)
        needs_cluster = module in (offset_commit, offset_delete)
        dependencies = (self.coordinating.cluster,) if needs_cluster else ()
        if module is offset_commit:
            dependencies += (self.coordinating.old,)
        try:
            return await in_the_end(module.handle(self.groups, *dependencies, request))
        except KafkaError as kafka_error:
            return kafka_error

    async def complete(self, module, request):
        """Complete the request while the follower keeps up."""
        task = self.begin(module, request)
        while not task.done():
            await asyncio.sleep(0)
            self.fetch()
        return task.result()

    # Requests that change a group, each with its preparation

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
        await self.complete(*await self.consumer_group())
        first = await self.complete(join_group, join_request())
        return join_group, join_request(first.member_id)

    async def classic_member_syncs(self):
        joined = await self.complete(*await self.classic_member_joins())
        self.begin(offset_commit, commit_request("other"))  # another group in the same log
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
        first = await self.complete(join_group, join_request())
        await self.complete(join_group, join_request(first.member_id))
        return leave_group, leave_request(first.member_id)

    async def consumer_member_leaves(self):
        joined = await self.complete(*await self.classic_member_joins())
        return leave_group, leave_request(joined.member_id)

    async def group_is_deleted(self):
        await self.complete(offset_commit, commit_request("g"))
        return delete_groups, DeleteGroupsRequest(groups_names=["g"])

    async def offset_is_deleted(self):
        await self.complete(offset_commit, commit_request("g"))
        topic = OffsetDeleteRequest.Topic(
            name="a", partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=0)]
        )
        return offset_delete, OffsetDeleteRequest(group_id="g", topics=[topic])


def join_request(member_id=""):
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscribed("a"))],
    )


def leave_request(member_id):
    members = [LeaveGroupRequest.Member(member_id=member_id)]
    return LeaveGroupRequest(group_id="g", members=members)


def commit_request(group_id):
    partition = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    topic = OffsetCommitRequest.Topic(name="a", partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


CHANGES = [
    SlowReplication.consumer_group,
    SlowReplication.classic_member_joins,
    SlowReplication.classic_member_syncs,
    SlowReplication.last_member_leaves,
    SlowReplication.consumer_member_leaves,
    SlowReplication.group_is_deleted,
    SlowReplication.offset_is_deleted,
]
EACH_CHANGE = pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)


def error(response):
    """Return the error of the whole response, or of its only result."""
    if isinstance(response, KafkaError):
        return response.error_code.name
    if hasattr(response, "results"):
        (response,) = response.results
    return ErrorCode.for_code(response.error_code).name


@EACH_CHANGE
async def test_change_is_answered_only_after_replication(tmp_path, change):
    slow = SlowReplication(tmp_path)
    task = slow.begin(*await change(slow))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    slow.fetch()
    assert error(await task) == "NONE"


@EACH_CHANGE
async def test_change_not_replicated_in_time_returns_a_retriable_error(tmp_path, change):
    slow = SlowReplication(tmp_path, commit_timeout_ms=50)
    module, request = await change(slow)
    assert error(await slow.begin(module, request)) == "COORDINATOR_NOT_AVAILABLE"


async def test_each_deleted_group_waits_for_the_replication_of_its_own_log(tmp_path):
    slow = SlowReplication(tmp_path, commit_timeout_ms=50)
    slow.coordinating.lead(1)
    ids = {slow.coordinating.lookup.partition_for(each): each for each in "abcd"}
    for group_id in ids.values():
        await slow.complete(offset_commit, commit_request(group_id))
    request = DeleteGroupsRequest(groups_names=[ids[0], ids[1]])
    slow_one, quick_one = (await slow.begin(delete_groups, request)).results
    assert error(slow_one) == "COORDINATOR_NOT_AVAILABLE"
    assert error(quick_one) == "NONE"

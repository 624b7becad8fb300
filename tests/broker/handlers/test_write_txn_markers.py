"""WriteTxnMarkers: transactions end in the logs, and the offsets of groups with them."""

import asyncio

import pytest

from odradek.broker import turns
from odradek.broker.call import Parked
from odradek.broker.groups.committing import InTransaction, NewCommit, commit_in_transaction
from odradek.broker.groups.group import Committer
from odradek.broker.handlers import write_txn_markers
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest as Request
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.records.control import marker_of
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS, batches_from, records_batch

OTHER = 2
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def scene(tmp_path):
    """Made on the loop of the test, by whoever calls it."""
    return lambda: Coordinating(tmp_path)


def marker(*topics, commit=True, epoch=0, coordinator_epoch=0, producer_id=7):
    return Request.Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        topics=[
            Request.Marker.Topic(name=name, partition_indexes=list(indexes))
            for name, *indexes in topics
        ],
    )


def written(scene, *markers, version=1, timeout_ms=1000):
    world = write_txn_markers.World(scene.groups, lambda: NOW_MS, timeout_ms)
    asked = as_sent(Request(markers=list(markers)), version=version)
    return write_txn_markers.handle(scene.hosting.replicas, world, called(asked, version=version))


async def told(scene, *markers, version=1, timeout_ms=1000):
    """By producer, topic and partition, the error."""
    writing = written(scene, *markers, version=version, timeout_ms=timeout_ms)
    response = as_sent(await in_the_end(writing), version=version)
    return {
        (each.producer_id, topic.name, line.partition_index): ErrorCode.of(line.error_code).name
        for each in response.markers
        for topic in each.topics
        for line in topic.partitions
    }


def open_transaction(partition, **fields):
    fields = {**PRODUCER, "base_sequence": 0, "is_transactional": True, **fields}
    batch = records_batch(b"v", key=b"k", **fields)
    partition.append(batch, acks=1, now_ms=NOW_MS)


@pytest.mark.parametrize("version", versions_of(Request))
@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_ends_as_the_marker_says(scene, version, commit):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition)
    assert partition.log.last_stable_offset == 0
    ended = marker(("events", 0), commit=commit, coordinator_epoch=3)
    assert await told(scene, ended, version=version) == {(7, "events", 0): "NONE"}
    assert partition.log.last_stable_offset == 2
    aborted = partition.log.aborted_transactions(start=0, end=2)
    assert [each.producer_id for each in aborted] == ([] if commit else [7])
    (_, batch) = batches_from(partition.log, 0)
    assert batch.is_control
    assert batch.is_transactional
    (record,) = batch.records()
    assert (marker_of(record).is_commit, marker_of(record).coordinator_epoch) == (commit, 3)


async def test_each_partition_has_its_own_error(scene):
    scene = scene()
    scene.hosting.lead(partition=0)
    scene.hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    scene.know("elsewhere")
    asked = [
        marker(("events", 0, 1, 2), ("elsewhere", 0), ("absent", 0)),
        marker(("events", 0), producer_id=8),
    ]
    assert await told(scene, *asked) == {
        (7, "events", 0): "NONE",
        (7, "events", 1): "NOT_LEADER_OR_FOLLOWER",
        (7, "events", 2): "UNKNOWN_TOPIC_OR_PARTITION",
        (7, "elsewhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (7, "absent", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (8, "events", 0): "NONE",
    }


async def test_an_older_coordinator_is_fenced(scene):
    scene = scene()
    partition = scene.hosting.lead()
    await told(scene, marker(("events", 0), coordinator_epoch=5))
    fenced = await told(scene, marker(("events", 0), coordinator_epoch=4))
    assert fenced == {(7, "events", 0): "TRANSACTION_COORDINATOR_FENCED"}
    assert partition.log.end_offset == 1


async def test_an_older_epoch_of_the_producer_is_fenced(scene):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition, producer_epoch=2)
    fenced = await told(scene, marker(("events", 0), epoch=1))
    assert fenced == {(7, "events", 0): "INVALID_PRODUCER_EPOCH"}
    assert partition.log.last_stable_offset == 0


async def test_a_marker_that_comes_twice_ends_nothing_more(scene):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition)
    for _ in range(2):
        assert set((await told(scene, marker(("events", 0)))).values()) == {"NONE"}
    assert partition.log.last_stable_offset == partition.log.end_offset == 3


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (7, -32_768), (-(2**63), 0)])
async def test_a_marker_of_no_producer_is_not_written(scene, producer_id, epoch):
    scene = scene()
    partition = scene.hosting.lead()
    outcome = await told(scene, marker(("events", 0), producer_id=producer_id, epoch=epoch))
    assert outcome == {(producer_id, "events", 0): "UNKNOWN_SERVER_ERROR"}
    assert partition.log.end_offset == 0


async def test_without_markers_there_is_nothing_to_tell(scene):
    scene = scene()
    assert await told(scene) == {}
    assert await told(scene, marker()) == {}


async def test_the_answer_waits_for_all_replicas(scene):
    scene = scene()
    partition = scene.hosting.lead(replicas=(BROKER, OTHER))
    waiting = written(scene, marker(("events", 0)))
    assert isinstance(waiting, Parked)
    assert waiting.ends_alone
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    answer = await waiting
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


async def test_all_replicas_together_have_the_time_of_one(scene):
    scene = scene()
    for index in range(5):
        scene.hosting.lead(partition=index, replicas=(BROKER, OTHER))
    loop = asyncio.get_running_loop()
    began = loop.time()
    outcome = await told(scene, marker(("events", *range(5))), timeout_ms=200)
    assert set(outcome.values()) == {"REQUEST_TIMED_OUT"}
    assert 0.2 <= loop.time() - began < 2 * 0.2


async def test_replicas_that_are_gone_are_told_of(scene):
    scene = scene()
    partition = scene.hosting.lead(replicas=(BROKER, OTHER))
    waiting = written(scene, marker(("events", 0)))
    partition.follow(OTHER, leader_epoch=1, partition_epoch=1)
    answer = await waiting
    line = answer.markers[0].topics[0].partitions[0]
    assert ErrorCode.of(line.error_code).name == "NOT_LEADER_OR_FOLLOWER"


async def test_many_partitions_get_theirs_in_turns(scene, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    scene = scene()
    partition = scene.hosting.lead()
    many = turns.FEW + 1
    asked = [marker(("events", 0), producer_id=number) for number in range(many)]
    writing = scene.hosting.background.start(told(scene, *asked), "writing")
    ends = set()
    while not writing.done():
        await asyncio.sleep(0)
        ends.add(partition.log.end_offset)
    assert len(ends) > many / 2
    assert writing.result() == {(number, "events", 0): "NONE" for number in range(many)}


@pytest.mark.parametrize("commit", [True, False])
async def test_pending_offsets_are_decided_about_at_once(scene, commit):
    scene = scene()
    scene.know("events")
    shard = scene.groups.shard("g")
    commit_pending(shard, 5)
    assert shard.offsets["g"].is_pending(("events", 0))
    ended = marker((CONSUMER_OFFSETS, 0), commit=commit)
    assert await told(scene, ended) == {(7, CONSUMER_OFFSETS, 0): "NONE"}
    if commit:
        assert shard.offsets["g"].committed["events", 0].offset == 5
    else:
        assert "g" not in shard.offsets


async def test_a_marker_that_is_refused_decides_nothing(scene):
    scene = scene()
    shard = scene.groups.shard("g")
    commit_pending(shard, 5, epoch=1)
    await told(scene, marker((CONSUMER_OFFSETS, 0), epoch=0))
    assert shard.offsets["g"].is_pending(("events", 0))


def test_all_of_it_may_be_refused():
    asked = Request(markers=[marker(("events", 0, 1)), marker(("events", 2), producer_id=8)])
    answer = write_txn_markers.refused(called(asked), InvalidRequest())
    codes = [
        line.error_code
        for each in answer.markers
        for topic in each.topics
        for line in topic.partitions
    ]
    assert codes == [ErrorCode.INVALID_REQUEST.code] * 3


def commit_pending(shard, offset, *, epoch=0):
    new = NewCommit(("events", 0), offset, -1, "", NOW_MS)
    outside = Committer("", None, -1)
    commit_in_transaction(shard, "g", outside, InTransaction(7, epoch), [new])

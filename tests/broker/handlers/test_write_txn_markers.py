"""WriteTxnMarkers: markers end transactions in the logs and decide pending offsets of groups."""

import asyncio

import pytest

from odradek.broker import time_slice
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    TransactionalProducer,
    commit_transactional_offsets,
)
from odradek.broker.handlers import write_txn_markers
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.request import DelayedOperation
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest as Request
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest
from odradek.protocol.records.control_records import parse_end_transaction_marker
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS, batches_from, records_batch

OTHER = 2
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def scene(tmp_path):
    """Return a factory, because the coordinator must be created on the event loop of the test."""
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


def send(scene, *markers, version=1, timeout_ms=1000):
    context = write_txn_markers.TxnMarkerContext(scene.groups, lambda: NOW_MS, timeout_ms)
    body = as_sent(Request(markers=list(markers)), version=version)
    return write_txn_markers.handle(scene.hosting.replicas, context, called(body, version=version))


async def errors(scene, *markers, version=1, timeout_ms=1000):
    """Return the error by producer, topic and partition."""
    pending = send(scene, *markers, version=version, timeout_ms=timeout_ms)
    response = as_sent(await in_the_end(pending), version=version)
    return {
        (marker_result.producer_id, topic.name, partition.partition_index): ErrorCode.for_code(
            partition.error_code
        ).name
        for marker_result in response.markers
        for topic in marker_result.topics
        for partition in topic.partitions
    }


def open_transaction(partition, **fields):
    fields = {**PRODUCER, "base_sequence": 0, "is_transactional": True, **fields}
    batch = records_batch(b"v", key=b"k", **fields)
    partition.append(batch, acks=1, now_ms=NOW_MS)


@pytest.mark.parametrize("version", versions_of(Request))
@pytest.mark.parametrize("commit", [True, False])
async def test_transaction_ends_as_the_marker_says(scene, version, commit):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition)
    assert partition.log.last_stable_offset == 0
    ended = marker(("events", 0), commit=commit, coordinator_epoch=3)
    assert await errors(scene, ended, version=version) == {(7, "events", 0): "NONE"}
    assert partition.log.last_stable_offset == 2
    aborted = partition.log.collect_aborted_transactions(start=0, end=2)
    assert [each.producer_id for each in aborted] == ([] if commit else [7])
    (_, batch) = batches_from(partition.log, 0)
    assert batch.is_control
    assert batch.is_transactional
    (record,) = batch.records()
    assert (
        parse_end_transaction_marker(record).is_commit,
        parse_end_transaction_marker(record).coordinator_epoch,
    ) == (commit, 3)


async def test_each_partition_has_its_own_error(scene):
    scene = scene()
    scene.hosting.lead(partition=0)
    scene.hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    scene.know("elsewhere")
    markers = [
        marker(("events", 0, 1, 2), ("elsewhere", 0), ("absent", 0)),
        marker(("events", 0), producer_id=8),
    ]
    assert await errors(scene, *markers) == {
        (7, "events", 0): "NONE",
        (7, "events", 1): "NOT_LEADER_OR_FOLLOWER",
        (7, "events", 2): "UNKNOWN_TOPIC_OR_PARTITION",
        (7, "elsewhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (7, "absent", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (8, "events", 0): "NONE",
    }


async def test_older_coordinator_epoch_is_fenced(scene):
    scene = scene()
    partition = scene.hosting.lead()
    await errors(scene, marker(("events", 0), coordinator_epoch=5))
    fenced = await errors(scene, marker(("events", 0), coordinator_epoch=4))
    assert fenced == {(7, "events", 0): "TRANSACTION_COORDINATOR_FENCED"}
    assert partition.log.log_end_offset == 1


async def test_older_producer_epoch_is_fenced(scene):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition, producer_epoch=2)
    fenced = await errors(scene, marker(("events", 0), epoch=1))
    assert fenced == {(7, "events", 0): "INVALID_PRODUCER_EPOCH"}
    assert partition.log.last_stable_offset == 0


async def test_repeated_marker_succeeds_and_ends_nothing_more(scene):
    scene = scene()
    partition = scene.hosting.lead()
    open_transaction(partition)
    for _ in range(2):
        assert set((await errors(scene, marker(("events", 0)))).values()) == {"NONE"}
    assert partition.log.last_stable_offset == partition.log.log_end_offset == 3


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (7, -32_768), (-(2**63), 0)])
async def test_marker_without_a_valid_producer_is_not_appended(scene, producer_id, epoch):
    scene = scene()
    partition = scene.hosting.lead()
    outcome = await errors(scene, marker(("events", 0), producer_id=producer_id, epoch=epoch))
    assert outcome == {(producer_id, "events", 0): "UNKNOWN_SERVER_ERROR"}
    assert partition.log.log_end_offset == 0


async def test_empty_request_gets_an_empty_response(scene):
    scene = scene()
    assert await errors(scene) == {}
    assert await errors(scene, marker()) == {}


async def test_response_waits_for_all_replicas(scene):
    scene = scene()
    partition = scene.hosting.lead(replicas=(BROKER, OTHER))
    waiting = send(scene, marker(("events", 0)))
    assert isinstance(waiting, DelayedOperation)
    assert waiting.completes_on_shutdown
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    response = await waiting
    assert response.markers[0].topics[0].partitions[0].error_code == 0


async def test_all_partitions_share_one_timeout(scene):
    scene = scene()
    for index in range(5):
        scene.hosting.lead(partition=index, replicas=(BROKER, OTHER))
    loop = asyncio.get_running_loop()
    started = loop.time()
    outcome = await errors(scene, marker(("events", *range(5))), timeout_ms=200)
    assert set(outcome.values()) == {"REQUEST_TIMED_OUT"}
    assert 0.2 <= loop.time() - started < 2 * 0.2


async def test_leader_change_while_waiting_returns_an_error(scene):
    scene = scene()
    partition = scene.hosting.lead(replicas=(BROKER, OTHER))
    waiting = send(scene, marker(("events", 0)))
    partition.make_follower(OTHER, leader_epoch=1, partition_epoch=1)
    response = await waiting
    partition_response = response.markers[0].topics[0].partitions[0]
    assert ErrorCode.for_code(partition_response.error_code).name == "NOT_LEADER_OR_FOLLOWER"


async def test_many_markers_are_appended_in_time_slices(scene, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    scene = scene()
    partition = scene.hosting.lead()
    many = time_slice.INLINE_ENTRIES_MAX + 1
    markers = [marker(("events", 0), producer_id=number) for number in range(many)]
    task = scene.hosting.background.start(errors(scene, *markers), "writing")
    ends = set()
    while not task.done():
        await asyncio.sleep(0)
        ends.add(partition.log.log_end_offset)
    assert len(ends) > many / 2
    assert task.result() == {(number, "events", 0): "NONE" for number in range(many)}


@pytest.mark.parametrize("commit", [True, False])
async def test_pending_offsets_are_decided_by_the_marker(scene, commit):
    scene = scene()
    scene.know("events")
    shard = scene.groups.shard("g")
    commit_pending(shard, 5)
    assert shard.offsets["g"].is_pending(("events", 0))
    ended = marker((CONSUMER_OFFSETS, 0), commit=commit)
    assert await errors(scene, ended) == {(7, CONSUMER_OFFSETS, 0): "NONE"}
    if commit:
        assert shard.offsets["g"].committed["events", 0].offset == 5
    else:
        assert "g" not in shard.offsets


async def test_rejected_marker_leaves_offsets_pending(scene):
    scene = scene()
    shard = scene.groups.shard("g")
    commit_pending(shard, 5, epoch=1)
    await errors(scene, marker((CONSUMER_OFFSETS, 0), epoch=0))
    assert shard.offsets["g"].is_pending(("events", 0))


def test_request_error_is_returned_for_every_partition():
    body = Request(markers=[marker(("events", 0, 1)), marker(("events", 2), producer_id=8)])
    response = write_txn_markers.error_response(called(body), InvalidRequest())
    codes = [
        partition.error_code
        for each in response.markers
        for topic in each.topics
        for partition in topic.partitions
    ]
    assert codes == [ErrorCode.INVALID_REQUEST.code] * 3


def commit_pending(shard, offset, *, epoch=0):
    entry = OffsetCommitEntry(("events", 0), offset, -1, "", NOW_MS)
    committer = Committer("", None, -1)
    commit_transactional_offsets(shard, "g", committer, TransactionalProducer(7, epoch), [entry])

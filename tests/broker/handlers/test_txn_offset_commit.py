"""TxnOffsetCommit: offsets of a group that are pending in a transaction."""

from types import SimpleNamespace

import pytest

from odradek.broker.handlers import txn_offset_commit
from odradek.broker.request import DelayedOperation
from odradek.broker.transactions.add_partitions_to_txn_manager import TransactionIdentity
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest as Request
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import CoordinatorLoadInProgress, InvalidRequest
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.asked_coordinator import AskedCoordinator
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS

VERSIONS = versions_of(Request)
OTHER = 2
PRODUCER = TransactionIdentity("t", 7, 0)
VERIFICATION_ENABLED = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=True
)


@pytest.fixture
def scene(tmp_path):
    """Return a factory, because the coordinator must be created on the event loop of the test."""

    def make(*, is_verified=True, **options):
        made = Coordinating(tmp_path, **options)
        made.know("events", partitions=2)
        made.coordinator = AskedCoordinator()
        if is_verified:
            offsets_partition(made).log.producer_state_manager.settings = VERIFICATION_ENABLED
        return made

    return make


def offsets_partition(scene):
    return scene.hosting.replicas.partition("__consumer_offsets", 0)


def build_request(*partitions, group="g", **fields):
    entries = [
        Request.Topic.Partition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset, metadata in partitions or [(0, 5, "half")]
    ]
    producer = {"producer_id": 7, "producer_epoch": 0}
    topics = [Request.Topic(name="events", partitions=entries)]
    return Request(transactional_id="t", group_id=group, topics=topics, **producer | fields)


def send(scene, body, *, version):
    request = called(body, version=version)
    return txn_offset_commit.handle(scene.groups, scene.cluster, scene.coordinator, request)


async def commit_errors(scene, *partitions, version=VERSIONS[-1], **fields):
    pending = await in_the_end(send(scene, build_request(*partitions, **fields), version=version))
    response = as_sent(pending, version=version)
    return [
        ErrorCode.for_code(partition.error_code).name for partition in response.topics[0].partitions
    ]


def mark(scene, *, commit=True, epoch=0):
    """Write a marker as WriteTxnMarkers does."""
    batch = build_marker_batch(
        EndTransactionMarker(commit, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=epoch
    )
    partition = offsets_partition(scene)
    partition.append(batch, acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    scene.groups.on_transaction_completed(0, 7, is_commit=commit)


def offsets(scene):
    group_offsets = scene.groups.shard("g").offsets.get("g")
    return group_offsets and {
        partition: committed.offset for partition, committed in group_offsets.committed.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_are_committed_with_the_transaction(scene, version):
    scene = scene()
    assert await commit_errors(scene, (0, 5, "half"), (1, 6, None), version=version) == [
        "NONE",
        "NONE",
    ]
    assert offsets(scene) == {}
    mark(scene)
    assert offsets(scene) == {("events", 0): 5, ("events", 1): 6}


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_of_an_aborted_transaction_are_dropped(scene, version):
    scene = scene()
    await commit_errors(scene, version=version)
    mark(scene, commit=False)
    assert offsets(scene) is None


@pytest.mark.parametrize("version", VERSIONS)
async def test_transaction_coordinator_is_asked_once(scene, version):
    scene = scene()
    for offset in (5, 6):
        assert await commit_errors(scene, (0, offset, ""), version=version) == ["NONE"]
    ((transaction, partitions, capabilities),) = scene.coordinator.asked
    assert transaction == PRODUCER
    assert partitions == [("__consumer_offsets", 0)]
    assert (capabilities.supports_transaction_abortable, capabilities.adds_partitions_on_write) == (
        version >= 4,
        version >= 5,
    )


@pytest.mark.parametrize(("version", "count"), [(4, 0), (5, 1)])
async def test_with_verification_disabled_only_version_5_asks_the_coordinator(
    scene, version, count
):
    scene = scene(is_verified=False)
    assert await commit_errors(scene, version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == count


@pytest.mark.parametrize(
    ("coordinator_error", "expected"),
    [
        ("INVALID_TXN_STATE", "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
        ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
        ("INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING"),
        ("CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS"),
        ("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("NOT_COORDINATOR", "NOT_COORDINATOR"),
    ],
)
async def test_error_of_the_transaction_coordinator_is_returned(scene, coordinator_error, expected):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[coordinator_error]
    assert await commit_errors(scene) == [expected]
    assert offsets(scene) is None
    assert offsets_partition(scene).log.log_end_offset == 0


async def test_marker_before_the_verification_response_rejects_the_offsets(scene):
    scene = scene()
    scene.coordinator.meanwhile = lambda: mark(scene, commit=False)
    assert await commit_errors(scene) == ["INVALID_TXN_STATE"]
    assert offsets(scene) is None
    assert len(scene.coordinator.asked) == 2


async def test_offsets_wait_for_the_end_of_the_last_transaction(scene):
    scene = scene()
    await commit_errors(scene)
    scene.coordinator.words = [ErrorCode.CONCURRENT_TRANSACTIONS, None]

    def end():
        mark(scene, epoch=1)
        scene.coordinator.meanwhile = lambda: None

    scene.coordinator.meanwhile = end
    assert await commit_errors(scene, (0, 6, ""), producer_epoch=1) == ["NONE"]
    mark(scene, epoch=2)
    assert offsets(scene) == {("events", 0): 6}


async def test_leadership_lost_during_verification_returns_not_coordinator(scene):
    scene = scene()
    scene.coordinator.meanwhile = lambda: scene.lead(
        0, leader=OTHER, replicas=(OTHER, BROKER), epoch=1
    )
    assert await commit_errors(scene) == ["NOT_COORDINATOR"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_partition_is_rejected_independently(scene, version):
    scene = scene(metadata_max_bytes=5)
    entries = (0, 7, "right"), (1, 7, "longer"), (2, 7, "")
    assert await commit_errors(scene, *entries, version=version) == [
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    mark(scene)
    assert offsets(scene) == {("events", 0): 7}


@pytest.mark.parametrize("version", VERSIONS)
async def test_unknown_partitions_are_rejected_before_the_group_is_checked(scene, version):
    entries = [(7, 1, "")]
    assert await commit_errors(scene(), *entries, group="", version=version) == [
        "UNKNOWN_TOPIC_OR_PARTITION"
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_empty_group_id_is_rejected(scene, version):
    assert await commit_errors(scene(), group="", version=version) == ["INVALID_GROUP_ID"]


@pytest.mark.parametrize("version", VERSIONS[3:])
async def test_member_of_an_unknown_group_has_an_illegal_generation(scene, version):
    member = {"member_id": "m", "generation_id": 3}
    assert await commit_errors(scene(), version=version, **member) == ["ILLEGAL_GENERATION"]


async def test_member_of_a_group_with_only_offsets_is_unknown(scene):
    scene = scene()
    await commit_errors(scene)
    mark(scene)
    assert await commit_errors(scene, member_id="m", generation_id=3) == ["UNKNOWN_MEMBER_ID"]


@pytest.mark.parametrize("fields", [{"producer_id": -1}, {"producer_epoch": -1}])
@pytest.mark.parametrize("is_verified", [True, False])
async def test_request_without_a_producer_is_rejected(scene, fields, is_verified):
    scene = scene(is_verified=is_verified)
    assert await commit_errors(scene, **fields) == ["UNKNOWN_SERVER_ERROR"]
    assert offsets_partition(scene).log.log_end_offset == 0


async def test_older_producer_epoch_is_fenced(scene):
    scene = scene()
    await commit_errors(scene, producer_epoch=3)
    assert await commit_errors(scene, producer_epoch=2) == ["INVALID_PRODUCER_EPOCH"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, "COORDINATOR_NOT_AVAILABLE"), (2, "COORDINATOR_LOAD_IN_PROGRESS")],
)
async def test_load_in_progress_is_returned_from_version_2_on(scene, version, expected):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.NETWORK_EXCEPTION
    assert await commit_errors(scene, version=version) == [expected]
    response = txn_offset_commit.error_response(
        called(build_request(), version=version), CoordinatorLoadInProgress()
    )
    assert response.topics[0].partitions[0].error_code == ErrorCode[expected].code


async def test_not_coordinator_is_returned(scene):
    assert await commit_errors(scene(partitions=0, is_verified=False)) == ["NOT_COORDINATOR"]


async def test_response_waits_for_all_replicas(scene):
    scene = scene(partitions=0, is_verified=False)
    partition = scene.lead(0, replicas=(BROKER, OTHER))
    waiting = send(scene, build_request(), version=4)
    assert isinstance(waiting, DelayedOperation)
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    response = await waiting
    assert response.topics[0].partitions[0].error_code == 0


async def test_leader_change_while_waiting_returns_not_coordinator(scene):
    scene = scene(partitions=0, is_verified=False)
    partition = scene.lead(0, replicas=(BROKER, OTHER))
    waiting = send(scene, build_request(), version=4)
    partition.make_follower(OTHER, leader_epoch=1, partition_epoch=1)
    response = await waiting
    partition_response = response.topics[0].partitions[0]
    assert ErrorCode.for_code(partition_response.error_code).name == "NOT_COORDINATOR"


def test_request_error_is_returned_for_every_partition():
    body = build_request((0, 1, ""), (1, 1, ""))
    response = txn_offset_commit.error_response(called(body), InvalidRequest())
    codes = [partition.error_code for partition in response.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST.code] * 2

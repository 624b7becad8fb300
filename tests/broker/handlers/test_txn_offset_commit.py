"""TxnOffsetCommit: offsets of a group, pending in a transaction."""

from types import SimpleNamespace

import pytest

from odradek.broker.call import Parked
from odradek.broker.handlers import txn_offset_commit
from odradek.broker.transactions.verification import ClaimedTransaction
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest as Request
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import CoordinatorLoadInProgress, InvalidRequest
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.storage.producers.append import AppendOrigin
from tests.support.asked_coordinator import AskedCoordinator
from tests.support.calls import as_sent, called, in_the_end, versions_of
from tests.support.group_coordinators import Coordinating
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS

VERSIONS = versions_of(Request)
OTHER = 2
PRODUCER = ClaimedTransaction("t", 7, 0)
CHECKED = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=True
)


@pytest.fixture
def scene(tmp_path):
    """Made on the loop of the test, by whoever calls it."""

    def make(*, is_verified=True, **options):
        made = Coordinating(tmp_path, **options)
        made.know("events", partitions=2)
        made.coordinator = AskedCoordinator()
        if is_verified:
            offsets_partition(made).log.producers.settings = CHECKED
        return made

    return make


def offsets_partition(scene):
    return scene.hosting.replicas.partition("__consumer_offsets", 0)


def request(*partitions, group="g", **fields):
    asked = [
        Request.Topic.Partition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset, metadata in partitions or [(0, 5, "half")]
    ]
    producer = {"producer_id": 7, "producer_epoch": 0}
    topics = [Request.Topic(name="events", partitions=asked)]
    return Request(transactional_id="t", group_id=group, topics=topics, **producer | fields)


def committed(scene, asked, *, version):
    call = called(asked, version=version)
    return txn_offset_commit.handle(scene.groups, scene.cluster, scene.coordinator, call)


async def told(scene, *partitions, version=VERSIONS[-1], **fields):
    answer = await in_the_end(committed(scene, request(*partitions, **fields), version=version))
    response = as_sent(answer, version=version)
    return [ErrorCode.of(line.error_code).name for line in response.topics[0].partitions]


def mark(scene, *, commit=True, epoch=0):
    """As WriteTxnMarkers does."""
    batch = marker_batch(
        EndTransactionMarker(commit, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=epoch
    )
    partition = offsets_partition(scene)
    partition.append(batch, acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    scene.groups.transaction_ended(0, 7, is_commit=commit)


def offsets(scene):
    known = scene.groups.shard("g").offsets.get("g")
    return known and {place: each.offset for place, each in known.committed.items()}


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_count_when_the_transaction_is_committed(scene, version):
    scene = scene()
    assert await told(scene, (0, 5, "half"), (1, 6, None), version=version) == ["NONE", "NONE"]
    assert offsets(scene) == {}
    mark(scene)
    assert offsets(scene) == {("events", 0): 5, ("events", 1): 6}


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_of_an_aborted_transaction_never_do(scene, version):
    scene = scene()
    await told(scene, version=version)
    mark(scene, commit=False)
    assert offsets(scene) is None


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_coordinator_of_the_transaction_is_asked_once(scene, version):
    scene = scene()
    for offset in (5, 6):
        assert await told(scene, (0, offset, ""), version=version) == ["NONE"]
    ((transaction, partitions, knowledge),) = scene.coordinator.asked
    assert transaction == PRODUCER
    assert partitions == [("__consumer_offsets", 0)]
    assert (knowledge.is_abortable_known, knowledge.adds) == (version >= 4, version >= 5)


@pytest.mark.parametrize(("version", "count"), [(4, 0), (5, 1)])
async def test_where_nobody_has_to_ask_only_those_are_that_add_the_group(scene, version, count):
    scene = scene(is_verified=False)
    assert await told(scene, version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == count


@pytest.mark.parametrize(
    ("said", "expected"),
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
async def test_what_it_says_against_it_is_told(scene, said, expected):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[said]
    assert await told(scene) == [expected]
    assert offsets(scene) is None
    assert offsets_partition(scene).log.end_offset == 0


async def test_a_marker_that_comes_before_the_answer_keeps_the_offsets_out(scene):
    scene = scene()
    scene.coordinator.meanwhile = lambda: mark(scene, commit=False)
    assert await told(scene) == ["INVALID_TXN_STATE"]
    assert offsets(scene) is None
    assert len(scene.coordinator.asked) == 2


async def test_offsets_wait_for_the_end_of_the_last_transaction(scene):
    scene = scene()
    await told(scene)
    scene.coordinator.words = [ErrorCode.CONCURRENT_TRANSACTIONS, None]

    def end():
        mark(scene, epoch=1)
        scene.coordinator.meanwhile = lambda: None

    scene.coordinator.meanwhile = end
    assert await told(scene, (0, 6, ""), producer_epoch=1) == ["NONE"]
    mark(scene, epoch=2)
    assert offsets(scene) == {("events", 0): 6}


async def test_leadership_that_goes_before_the_answer_is_told_of(scene):
    scene = scene()
    scene.coordinator.meanwhile = lambda: scene.lead(
        0, leader=OTHER, replicas=(OTHER, BROKER), epoch=1
    )
    assert await told(scene) == ["NOT_COORDINATOR"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_line_is_refused_alone(scene, version):
    scene = scene(metadata_max_bytes=5)
    lines = (0, 7, "right"), (1, 7, "longer"), (2, 7, "")
    assert await told(scene, *lines, version=version) == [
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    mark(scene)
    assert offsets(scene) == {("events", 0): 7}


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_that_there_are_not_concern_no_group(scene, version):
    lines = [(7, 1, "")]
    assert await told(scene(), *lines, group="", version=version) == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_needs_a_name(scene, version):
    assert await told(scene(), group="", version=version) == ["INVALID_GROUP_ID"]


@pytest.mark.parametrize("version", VERSIONS[3:])
async def test_members_of_a_group_that_is_gone_are_told_so(scene, version):
    member = {"member_id": "m", "generation_id": 3}
    assert await told(scene(), version=version, **member) == ["ILLEGAL_GENERATION"]


async def test_a_member_of_a_group_that_only_keeps_offsets_is_not_known(scene):
    scene = scene()
    await told(scene)
    mark(scene)
    assert await told(scene, member_id="m", generation_id=3) == ["UNKNOWN_MEMBER_ID"]


@pytest.mark.parametrize("nobody", [{"producer_id": -1}, {"producer_epoch": -1}])
@pytest.mark.parametrize("is_verified", [True, False])
async def test_a_transaction_needs_a_producer(scene, nobody, is_verified):
    scene = scene(is_verified=is_verified)
    assert await told(scene, **nobody) == ["UNKNOWN_SERVER_ERROR"]
    assert offsets_partition(scene).log.end_offset == 0


async def test_an_older_producer_is_fenced(scene):
    scene = scene()
    await told(scene, producer_epoch=3)
    assert await told(scene, producer_epoch=2) == ["INVALID_PRODUCER_EPOCH"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, "COORDINATOR_NOT_AVAILABLE"), (2, "COORDINATOR_LOAD_IN_PROGRESS")],
)
async def test_only_clients_that_know_it_are_told_of_loading(scene, version, expected):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.NETWORK_EXCEPTION
    assert await told(scene, version=version) == [expected]
    answer = txn_offset_commit.refused(
        called(request(), version=version), CoordinatorLoadInProgress()
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode[expected].code


async def test_whoever_is_not_the_coordinator_says_so(scene):
    assert await told(scene(partitions=0, is_verified=False)) == ["NOT_COORDINATOR"]


async def test_the_answer_waits_for_all_replicas(scene):
    scene = scene(partitions=0, is_verified=False)
    partition = scene.lead(0, replicas=(BROKER, OTHER))
    waiting = committed(scene, request(), version=4)
    assert isinstance(waiting, Parked)
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    answer = await waiting
    assert answer.topics[0].partitions[0].error_code == 0


async def test_replicas_that_are_gone_are_told_of(scene):
    scene = scene(partitions=0, is_verified=False)
    partition = scene.lead(0, replicas=(BROKER, OTHER))
    waiting = committed(scene, request(), version=4)
    partition.follow(OTHER, leader_epoch=1, partition_epoch=1)
    answer = await waiting
    line = answer.topics[0].partitions[0]
    assert ErrorCode.of(line.error_code).name == "NOT_COORDINATOR"


def test_all_of_it_may_be_refused():
    asked = request((0, 1, ""), (1, 1, ""))
    answer = txn_offset_commit.refused(called(asked), InvalidRequest())
    codes = [line.error_code for line in answer.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST.code] * 2

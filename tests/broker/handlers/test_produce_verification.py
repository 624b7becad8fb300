"""Produce: a transaction starts in a partition only if the transaction coordinator confirms it."""

from struct import pack_into
from types import SimpleNamespace

import pytest

from odradek.broker.handlers import produce
from odradek.broker.request import DelayedOperation, Disconnect
from odradek.broker.transactions.add_partitions_to_txn_manager import TransactionIdentity
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerIdMapping, KafkaError
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.types import Uuid
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.asked_coordinator import AskedCoordinator
from tests.support.batches import with_checksum
from tests.support.calls import as_sent, called, in_the_end
from tests.support.hosted_partitions import Hosting
from tests.support.legacy_messages import message
from tests.support.logs import NOW_MS, records_batch

TRANSACTIONAL_VERSIONS = range(3, 14)
AN_ID = Uuid(bytes([1] * 16))
RETRIABLE_ERRORS = [
    "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
]
FATAL_ERRORS = [
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "TRANSACTION_ABORTABLE",
    "UNKNOWN_TOPIC_OR_PARTITION",
]
VERIFICATION_ENABLED = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=True
)


class Scene:
    """A broker that leads ``partitions`` partitions."""

    def __init__(self, path, *, partitions=2, is_verified=True):
        self.hosting = Hosting(path)
        self.partitions = []
        for index in range(partitions):
            partition = self.hosting.lead(partition=index, topic_id=AN_ID)
            if is_verified:
                partition.log.producer_state_manager.settings = VERIFICATION_ENABLED
            self.partitions.append(partition)
        self.coordinator = AskedCoordinator()

    def produce(self, *entries, version=11, transactional_id="t", acks=1):
        request = called(build_request(*entries, transactional_id=transactional_id, acks=acks))
        request.version = version
        if version >= 13:
            for topic in request.body.topic_data:
                topic.name, topic.topic_id = "", AN_ID
        hosting = self.hosting
        dependencies = hosting.replicas, hosting.known, hosting.reader, self.coordinator
        return produce.handle(*dependencies, lambda: NOW_MS, request)

    async def send(self, *entries, version=11, **options):
        response = await in_the_end(self.produce(*entries, version=version, **options))
        return as_sent(response, version=version).responses[0].partition_responses

    async def errors(self, *entries, **options):
        return [
            ErrorCode.for_code(each.error_code).name
            for each in await self.send(*entries, **options)
        ]

    def mark(self, *, commit=False, epoch=0):
        """Append a marker of the producer to the first partition."""
        batch = build_marker_batch(
            EndTransactionMarker(commit, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=epoch
        )
        self.partitions[0].append(batch, acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    @property
    def ends(self):
        return [each.log.log_end_offset for each in self.partitions]


@pytest.fixture
def scene(tmp_path):
    return lambda **options: Scene(tmp_path, **options)


def build_request(*entries, transactional_id, acks):
    topics = [ProduceRequest.Topic(name="events", partition_data=list(entries or [entry()]))]
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    )


def entry(index=0, *, sequence=0, epoch=0, producer_id=7, transactional=True):
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    records = records_batch(b"v", **fields, is_transactional=transactional)
    return ProduceRequest.Topic.Partition(index=index, records=memoryview(records))


@pytest.mark.parametrize("version", TRANSACTIONAL_VERSIONS)
async def test_coordinator_is_asked_about_all_partitions_at_once_and_only_once(scene, version):
    scene = scene()
    for sequence in (0, 1):
        entries = entry(0, sequence=sequence), entry(1, sequence=sequence)
        assert await scene.errors(*entries, version=version) == ["NONE", "NONE"]
    ((transaction, partitions, capabilities),) = scene.coordinator.asked
    assert transaction == TransactionIdentity("t", 7, 0)
    assert partitions == [("events", 0), ("events", 1)]
    assert (capabilities.supports_transaction_abortable, capabilities.adds_partitions_on_write) == (
        version >= 11,
        version >= 12,
    )
    assert scene.ends == [2, 2]


async def test_request_that_waits_for_verification_keeps_its_frame(scene):
    scene = scene()
    waiting = scene.produce()
    assert isinstance(waiting, DelayedOperation)
    assert waiting.needs_frame
    assert not waiting.completes_on_shutdown
    await in_the_end(waiting)


async def test_verified_request_waits_for_replicas_like_any_other(scene):
    scene = scene(partitions=0)
    partition = scene.hosting.lead(replicas=(1, 2))
    partition.log.producer_state_manager.settings = VERIFICATION_ENABLED
    delayed = await scene.produce(acks=-1)
    assert isinstance(delayed, DelayedOperation)
    assert not delayed.needs_frame
    partition.update_follower_fetch_state(2, fetch_offset=1, follower_start_offset=0)
    response = await delayed
    assert response.responses[0].partition_responses[0].base_offset == 0


async def test_batch_of_an_open_transaction_is_answered_immediately(scene):
    scene = scene()
    await scene.send()
    response = scene.produce(entry(sequence=1))
    assert response.responses[0].partition_responses[0].base_offset == 1


async def test_batch_outside_a_transaction_needs_no_verification(scene):
    scene = scene()
    plain = entry(transactional=False)
    assert await scene.errors(plain, transactional_id=None) == ["NONE"]
    assert await scene.errors(entry(1, transactional=False)) == ["NONE"]
    assert not scene.coordinator.asked


@pytest.mark.parametrize(("version", "count"), [(11, 0), (12, 1)])
async def test_with_verification_disabled_only_version_12_asks_the_coordinator(
    scene, version, count
):
    scene = scene(is_verified=False)
    assert await scene.errors(version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == count


@pytest.mark.parametrize("version", TRANSACTIONAL_VERSIONS)
@pytest.mark.parametrize("coordinator_error", RETRIABLE_ERRORS)
async def test_retriable_coordinator_errors_become_not_enough_replicas(
    scene, coordinator_error, version
):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[coordinator_error]
    (partition,) = await scene.send(version=version)
    assert ErrorCode.for_code(partition.error_code).name == "NOT_ENOUGH_REPLICAS"
    assert (partition.base_offset, partition.log_start_offset) == (-1, -1)
    if version >= 8:
        assert coordinator_error in partition.error_message
    assert scene.ends == [0, 0]


@pytest.mark.parametrize(
    ("version", "expected"), [(11, "NOT_ENOUGH_REPLICAS"), (12, "CONCURRENT_TRANSACTIONS")]
)
async def test_concurrent_transactions_is_returned_from_version_12_on(scene, version, expected):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    assert await scene.errors(version=version) == [expected]
    assert len(scene.coordinator.asked) > 1


@pytest.mark.parametrize("coordinator_error", FATAL_ERRORS)
async def test_fatal_coordinator_errors_are_returned_and_nothing_is_appended(
    scene, coordinator_error
):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[coordinator_error]
    assert await scene.errors(entry(0), entry(1)) == [coordinator_error, coordinator_error]
    assert scene.ends == [0, 0]


async def test_coordinator_error_with_acks_0_closes_the_connection(scene):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.INVALID_TXN_STATE
    with pytest.raises(Disconnect):
        await in_the_end(scene.produce(acks=0))
    scene.coordinator.refusal = None
    assert await in_the_end(scene.produce(acks=0)) is None
    assert scene.ends == [1, 0]


async def test_t10_batch_after_the_abort_is_not_appended(scene):
    scene = scene()
    await scene.send()
    scene.mark()
    scene.coordinator.refusal = ErrorCode.TRANSACTION_ABORTABLE
    assert await scene.errors(entry(sequence=1)) == ["TRANSACTION_ABORTABLE"]
    assert scene.ends == [2, 0]
    assert scene.partitions[0].log.last_stable_offset == 2


async def test_t10_batch_verified_before_the_abort_is_not_appended(scene):
    scene = scene()

    def abort():
        scene.mark()
        scene.coordinator.meanwhile = lambda: None
        scene.coordinator.words = [None, ErrorCode.TRANSACTION_ABORTABLE]

    scene.coordinator.meanwhile = abort
    assert await scene.errors() == ["TRANSACTION_ABORTABLE"]
    assert scene.ends == [1, 0]


async def test_t10_batch_with_a_marker_during_each_verification_is_not_appended(scene):
    """A verification of one transaction does not count for the next."""
    scene = scene()
    scene.coordinator.meanwhile = scene.mark
    assert await scene.errors() == ["INVALID_TXN_STATE"]
    assert scene.ends == [2, 0]


@pytest.mark.parametrize("version", [11, 12])
async def test_batch_of_the_next_transaction_waits_until_the_last_one_has_ended(scene, version):
    """The producer learns of the end before the partitions do, so its next batch may be early."""
    scene = scene()
    await scene.send(version=version)
    scene.coordinator.words = [ErrorCode.CONCURRENT_TRANSACTIONS, None]
    del scene.coordinator.asked[:]

    def end():
        scene.mark(commit=True, epoch=1)
        scene.coordinator.meanwhile = lambda: None

    scene.coordinator.meanwhile = end
    assert await scene.errors(entry(epoch=1), version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == 2
    assert scene.ends == [3, 0]


async def test_epoch_bump_per_transaction_fences_batches_of_the_last_one(scene):
    scene = scene()
    await scene.send(version=12)
    scene.mark(epoch=1)
    assert await scene.errors(entry(sequence=1), version=12) == ["INVALID_PRODUCER_EPOCH"]
    assert await scene.errors(entry(epoch=1), version=12) == ["NONE"]


async def test_partition_on_another_broker_is_not_verified(scene):
    scene = scene(partitions=1)
    scene.hosting.lead(partition=1, leader=2, replicas=(2, 1))
    assert await scene.errors(entry(0), entry(1), entry(9), version=9) == [
        "NONE",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert [partitions for _, partitions, _ in scene.coordinator.asked] == [[("events", 0)]]


@pytest.mark.parametrize("other", [{"producer_id": 8}, {"epoch": 1}])
async def test_request_with_two_producers_is_rejected(scene, other):
    scene = scene()
    with pytest.raises(InvalidProducerIdMapping):
        scene.produce(entry(0), entry(1, **other))
    assert scene.ends == [0, 0]


async def test_retry_of_a_committed_batch_is_detected_as_a_duplicate(scene):
    """The coordinator may have the partition because the next transaction is open."""
    scene = scene()
    await scene.send()
    scene.mark(commit=True)
    (partition,) = await scene.send()
    assert (partition.error_code, partition.base_offset) == (0, 0)
    assert scene.ends == [2, 0]


def batch_without_producer_id():
    batch = bytearray(entry().records)
    pack_into(">q", batch, 43, -1)
    return with_checksum(batch)


INVALID_RECORDS = {
    "no records": None,
    "nothing": b"",
    "less than a batch": bytes(entry().records)[:60],
    "half a batch": bytes(entry().records)[:-1],
    "two batches": bytes(entry().records) * 2,
    "no producer id": batch_without_producer_id(),
    "old format": message(1, bytes(100)),
}


@pytest.mark.parametrize("records", INVALID_RECORDS.values(), ids=INVALID_RECORDS)
async def test_malformed_batch_is_rejected_without_asking_the_coordinator(scene, records):
    scene = scene()
    broken = entry()
    broken.records = None if records is None else memoryview(bytearray(records))
    try:
        (error,) = await scene.errors(broken)
    except KafkaError as kafka_error:
        error = kafka_error.error_code.name
    assert error != "NONE"
    assert not scene.coordinator.asked
    assert scene.ends == [0, 0]

"""Produce: a transaction begins in a partition only if its coordinator knows of it."""

from struct import pack_into
from types import SimpleNamespace

import pytest

from odradek.broker.call import Disconnect, Parked
from odradek.broker.handlers import produce
from odradek.broker.transactions.verification import ClaimedTransaction
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerIdMapping, KafkaError
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.types import Uuid
from odradek.storage.producers.append import AppendOrigin
from tests.support.asked_coordinator import AskedCoordinator
from tests.support.batches import with_checksum
from tests.support.calls import as_sent, called, in_the_end
from tests.support.hosted_partitions import Hosting
from tests.support.legacy_messages import message
from tests.support.logs import NOW_MS, records_batch

TRANSACTIONAL_VERSIONS = range(3, 14)
AN_ID = Uuid(bytes([1] * 16))
PASSING = [
    "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
]
LASTING = [
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "TRANSACTION_ABORTABLE",
    "UNKNOWN_TOPIC_OR_PARTITION",
]
CHECKED = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=True
)


class Scene:
    """A broker that leads ``partitions`` of them."""

    def __init__(self, path, *, partitions=2, is_verified=True):
        self.hosting = Hosting(path)
        self.partitions = []
        for index in range(partitions):
            led = self.hosting.lead(partition=index, topic_id=AN_ID)
            if is_verified:
                led.log.producers.settings = CHECKED
            self.partitions.append(led)
        self.coordinator = AskedCoordinator()

    def produce(self, *entries, version=11, transactional_id="t", acks=1):
        call = called(request(*entries, transactional_id=transactional_id, acks=acks))
        call.version = version
        if version >= 13:
            for topic in call.request.topic_data:
                topic.name, topic.topic_id = "", AN_ID
        hosting = self.hosting
        needed = hosting.replicas, hosting.known, hosting.reader, self.coordinator
        return produce.handle(*needed, lambda: NOW_MS, call)

    async def told(self, *entries, version=11, **options):
        answer = await in_the_end(self.produce(*entries, version=version, **options))
        return as_sent(answer, version=version).responses[0].partition_responses

    async def errors(self, *entries, **options):
        return [ErrorCode.of(each.error_code).name for each in await self.told(*entries, **options)]

    def mark(self, *, commit=False, epoch=0):
        """A marker of the producer, in the first partition."""
        batch = marker_batch(
            EndTransactionMarker(commit, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=epoch
        )
        self.partitions[0].append(batch, acks=-1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    @property
    def ends(self):
        return [each.log.end_offset for each in self.partitions]


@pytest.fixture
def scene(tmp_path):
    return lambda **options: Scene(tmp_path, **options)


def request(*entries, transactional_id, acks):
    topics = [ProduceRequest.Topic(name="events", partition_data=list(entries or [entry()]))]
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    )


def entry(index=0, *, sequence=0, epoch=0, producer_id=7, transactional=True):
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    records = records_batch(b"v", **fields, is_transactional=transactional)
    return ProduceRequest.Topic.Partition(index=index, records=memoryview(records))


@pytest.mark.parametrize("version", TRANSACTIONAL_VERSIONS)
async def test_the_coordinator_is_asked_about_all_partitions_at_once_and_only_once(scene, version):
    scene = scene()
    for sequence in (0, 1):
        asked = entry(0, sequence=sequence), entry(1, sequence=sequence)
        assert await scene.errors(*asked, version=version) == ["NONE", "NONE"]
    ((transaction, partitions, knowledge),) = scene.coordinator.asked
    assert transaction == ClaimedTransaction("t", 7, 0)
    assert partitions == [("events", 0), ("events", 1)]
    assert (knowledge.is_abortable_known, knowledge.adds) == (version >= 11, version >= 12)
    assert scene.ends == [2, 2]


async def test_the_request_waits_without_being_counted(scene):
    scene = scene()
    waiting = scene.produce()
    assert isinstance(waiting, Parked)
    assert waiting.needs_frame
    assert not waiting.ends_alone
    await in_the_end(waiting)


async def test_once_verified_it_waits_for_replicas_as_any_other(scene):
    scene = scene(partitions=0)
    partition = scene.hosting.lead(replicas=(1, 2))
    partition.log.producers.settings = CHECKED
    later = await scene.produce(acks=-1)
    assert isinstance(later, Parked)
    assert not later.needs_frame
    partition.follower_fetched(2, offset=1, start_offset=0)
    answer = await later
    assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_in_an_open_transaction_it_is_answered_at_once(scene):
    scene = scene()
    await scene.told()
    answer = scene.produce(entry(sequence=1))
    assert answer.responses[0].partition_responses[0].base_offset == 1


async def test_what_is_in_no_transaction_needs_nobody(scene):
    scene = scene()
    plain = entry(transactional=False)
    assert await scene.errors(plain, transactional_id=None) == ["NONE"]
    assert await scene.errors(entry(1, transactional=False)) == ["NONE"]
    assert not scene.coordinator.asked


@pytest.mark.parametrize(("version", "count"), [(11, 0), (12, 1)])
async def test_where_nobody_has_to_ask_only_those_are_that_add_partitions(scene, version, count):
    scene = scene(is_verified=False)
    assert await scene.errors(version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == count


@pytest.mark.parametrize("version", TRANSACTIONAL_VERSIONS)
@pytest.mark.parametrize("said", PASSING)
async def test_what_passes_is_told_as_what_every_producer_repeats(scene, said, version):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[said]
    (line,) = await scene.told(version=version)
    assert ErrorCode.of(line.error_code).name == "NOT_ENOUGH_REPLICAS"
    assert (line.base_offset, line.log_start_offset) == (-1, -1)
    if version >= 8:
        assert said in line.error_message
    assert scene.ends == [0, 0]


@pytest.mark.parametrize(
    ("version", "expected"), [(11, "NOT_ENOUGH_REPLICAS"), (12, "CONCURRENT_TRANSACTIONS")]
)
async def test_a_transaction_that_is_ending_is_told_to_whoever_knows_of_it(
    scene, version, expected
):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    assert await scene.errors(version=version) == [expected]
    assert len(scene.coordinator.asked) > 1


@pytest.mark.parametrize("said", LASTING)
async def test_whatever_else_is_said_is_told_and_nothing_is_appended(scene, said):
    scene = scene()
    scene.coordinator.refusal = ErrorCode[said]
    assert await scene.errors(entry(0), entry(1)) == [said, said]
    assert scene.ends == [0, 0]


async def test_with_acks_0_a_refusal_closes_the_connection(scene):
    scene = scene()
    scene.coordinator.refusal = ErrorCode.INVALID_TXN_STATE
    with pytest.raises(Disconnect):
        await in_the_end(scene.produce(acks=0))
    scene.coordinator.refusal = None
    assert await in_the_end(scene.produce(acks=0)) is None
    assert scene.ends == [1, 0]


async def test_t10_what_comes_after_the_abort_does_not_land(scene):
    scene = scene()
    await scene.told()
    scene.mark()
    scene.coordinator.refusal = ErrorCode.TRANSACTION_ABORTABLE
    assert await scene.errors(entry(sequence=1)) == ["TRANSACTION_ABORTABLE"]
    assert scene.ends == [2, 0]
    assert scene.partitions[0].log.last_stable_offset == 2


async def test_t10_nor_does_what_was_verified_before_it(scene):
    scene = scene()

    def abort():
        scene.mark()
        scene.coordinator.meanwhile = lambda: None
        scene.coordinator.words = [None, ErrorCode.TRANSACTION_ABORTABLE]

    scene.coordinator.meanwhile = abort
    assert await scene.errors() == ["TRANSACTION_ABORTABLE"]
    assert scene.ends == [1, 0]


async def test_t10_whatever_the_coordinator_says(scene):
    """The word of the coordinator about one transaction is none about the next."""
    scene = scene()
    scene.coordinator.meanwhile = scene.mark
    assert await scene.errors() == ["INVALID_TXN_STATE"]
    assert scene.ends == [2, 0]


@pytest.mark.parametrize("version", [11, 12])
async def test_what_came_before_the_last_transaction_had_ended_everywhere_waits_for_that(
    scene, version
):
    """As the next transaction of a producer may, which is told of the end before partitions are."""
    scene = scene()
    await scene.told(version=version)
    scene.coordinator.words = [ErrorCode.CONCURRENT_TRANSACTIONS, None]
    del scene.coordinator.asked[:]

    def end():
        scene.mark(commit=True, epoch=1)
        scene.coordinator.meanwhile = lambda: None

    scene.coordinator.meanwhile = end
    assert await scene.errors(entry(epoch=1), version=version) == ["NONE"]
    assert len(scene.coordinator.asked) == 2
    assert scene.ends == [3, 0]


async def test_with_an_epoch_for_each_transaction_the_last_ones_batches_are_fenced(scene):
    scene = scene()
    await scene.told(version=12)
    scene.mark(epoch=1)
    assert await scene.errors(entry(sequence=1), version=12) == ["INVALID_PRODUCER_EPOCH"]
    assert await scene.errors(entry(epoch=1), version=12) == ["NONE"]


async def test_a_partition_that_is_elsewhere_is_not_asked_about(scene):
    scene = scene(partitions=1)
    scene.hosting.lead(partition=1, leader=2, replicas=(2, 1))
    assert await scene.errors(entry(0), entry(1), entry(9), version=9) == [
        "NONE",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert [partitions for _, partitions, _ in scene.coordinator.asked] == [[("events", 0)]]


@pytest.mark.parametrize("other", [{"producer_id": 8}, {"epoch": 1}])
async def test_one_request_has_one_producer(scene, other):
    scene = scene()
    with pytest.raises(InvalidProducerIdMapping):
        scene.produce(entry(0), entry(1, **other))
    assert scene.ends == [0, 0]


async def test_a_retry_of_what_was_committed_is_known_for_one(scene):
    """If the coordinator has it, as it may while the next transaction is open."""
    scene = scene()
    await scene.told()
    scene.mark(commit=True)
    (line,) = await scene.told()
    assert (line.error_code, line.base_offset) == (0, 0)
    assert scene.ends == [2, 0]


def of_nobody():
    batch = bytearray(entry().records)
    pack_into(">q", batch, 43, -1)
    return with_checksum(batch)


HOSTILE = {
    "no records": None,
    "nothing": b"",
    "less than a batch": bytes(entry().records)[:60],
    "half a batch": bytes(entry().records)[:-1],
    "two batches": bytes(entry().records) * 2,
    "nobody's": of_nobody(),
    "of an old format": message(1, bytes(100)),
}


@pytest.mark.parametrize("records", HOSTILE.values(), ids=HOSTILE)
async def test_what_is_no_batch_of_a_producer_is_refused_without_a_question(scene, records):
    scene = scene()
    broken = entry()
    broken.records = None if records is None else memoryview(bytearray(records))
    try:
        (told,) = await scene.errors(broken)
    except KafkaError as refused:
        told = refused.error.name
    assert told != "NONE"
    assert not scene.coordinator.asked
    assert scene.ends == [0, 0]

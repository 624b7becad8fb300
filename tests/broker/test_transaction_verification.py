"""Transactions by raw requests: only writes that the coordinator knows of succeed (KIP-890)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.logs import records_batch
from tests.support.minimal_requests import find_coordinators
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient, create_topic
from tests.support.wire_client import WireClient

TIMEOUT_MS = 60_000
WAIT_S = 20
#: The last version of Produce in which clients add partitions, and the first without.
ADDED_BY_CLIENTS, ADDED_BY_BROKERS = 11, 12
QUEUED_MAX = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("verified") / "logs"
    # Fewer requests may be in progress than producers wait for coordinators.
    bounds = f"queued.max.requests={QUEUED_MAX}", "queued.max.request.bytes=1"
    with BrokerProcess(data_dir, *bounds).start() as running:
        yield running


@pytest.fixture(scope="module")
def coordinating(broker):
    """Returns the broker once it coordinates groups and transactions."""
    find_coordinators(broker.address)
    return broker


def wait_for(condition, read):
    """Returns the first value that meets the condition: markers follow the EndTxn response."""
    deadline = time.monotonic() + WAIT_S
    while not condition(value := read()):
        assert time.monotonic() < deadline, value
    return value


class Producer:
    """A producer with a transactional id and its own connections."""

    def __init__(self, address, name, topic):
        self.address, self.name, self.topic = address, name, topic
        self.wire = WireClient(address)
        response = self.wire.call(
            ApiKey.INIT_PRODUCER_ID,
            5,
            transactional_id=name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert response.error_code == 0, ErrorCode.for_code(response.error_code)
        self.id, self.epoch = response.producer_id, response.producer_epoch

    @property
    def _producer_fields(self):
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def produce(self, *, version, partition=0, sequence=0, epoch=None):
        batch = records_batch(
            b"v",
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        with PartitionClient(self.address, self.topic, partition) as client:
            fields = {"transactional_id": self.name, **client.produce_values(batch)}
            partition_response = client.answer_to_produce(
                client.wire.call(ApiKey.PRODUCE, version, **fields)
            )
        return ErrorCode.for_code(partition_response.error_code).name

    def add(self, *partitions):
        topic = {"name": self.topic, "partitions": list(partitions)}
        fields = {f"v3_and_below_{name}": value for name, value in self._producer_fields.items()}
        response = self.wire.call(
            ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=[topic], **fields
        )
        codes = {
            partition.partition_error_code
            for partition in response.results_by_topic_v3_and_below[0].results_by_partition
        }
        assert codes == {0}

    def commit_offset(self, offset, *, version):
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": self.topic, "partitions": [partition]}]
        response = self.wire.call(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            group_id=self.name,
            topics=topics,
            **self._producer_fields,
        )
        return ErrorCode.for_code(response.topics[0].partitions[0].error_code).name

    def committed_offset(self):
        topics = [{"name": self.topic, "partition_indexes": [0]}]
        response = self.wire.call(
            ApiKey.OFFSET_FETCH, 7, group_id=self.name, topics=topics, require_stable=True
        )
        partition = response.topics[0].partitions[0]
        return (
            partition.committed_offset
            if not partition.error_code
            else ErrorCode.for_code(partition.error_code).name
        )

    def end(self, *, commit, version):
        response = self.wire.call(
            ApiKey.END_TXN, version, committed=commit, **self._producer_fields
        )
        assert response.error_code == 0, ErrorCode.for_code(response.error_code)
        if version >= 5:
            self.id, self.epoch = response.producer_id, response.producer_epoch

    def end_offset(self, partition=0):
        """Returns the end offset when all markers are written."""
        with PartitionClient(self.address, self.topic, partition) as client:

            def ends():
                stable = client.offset_at(LATEST, isolation_level=READ_COMMITTED)
                return stable, client.offset_at(LATEST)

            return wait_for(lambda ends: ends[0] == ends[1], ends)[0]


def is_stable(committed):
    return committed != "UNSTABLE_OFFSET_COMMIT"


@pytest.fixture
def producer(coordinating, request):
    name = f"t{abs(hash(request.node.name))}"
    create_topic(coordinating.address, name, partitions=2)
    producer = Producer(coordinating.address, name, name)
    yield producer
    producer.wire.close()


class TestPartitionsAddedByClients:
    VERSION = ADDED_BY_CLIENTS

    @pytest.mark.parametrize(
        ("version", "expected"), [(10, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")]
    )
    def test_write_to_a_partition_that_was_not_added_is_rejected(self, producer, version, expected):
        producer.add(1)
        assert producer.produce(version=version) == expected
        assert producer.end_offset() == 0

    @pytest.mark.parametrize("version", range(3, 12))
    def test_writes_to_an_added_partition_succeed(self, producer, version):
        producer.add(0)
        for sequence in range(3):
            assert producer.produce(version=version, sequence=sequence) == "NONE"
        producer.end(commit=True, version=4)
        assert producer.end_offset() == 4

    def test_t10_late_request_is_rejected_after_the_abort_and_in_the_next_transaction(
        self, producer
    ):
        producer.add(0)
        assert producer.produce(version=self.VERSION) == "NONE"
        producer.end(commit=False, version=4)
        assert producer.end_offset() == 2
        late = {"version": self.VERSION, "sequence": 1}
        assert producer.produce(**late) == "TRANSACTION_ABORTABLE"
        producer.add(1)
        assert producer.produce(**late) == "TRANSACTION_ABORTABLE"
        assert producer.end_offset() == 2

    def test_offset_commit_of_a_group_that_was_not_added_is_rejected(self, producer):
        producer.add(0)
        assert producer.commit_offset(5, version=3) == "INVALID_TXN_STATE"
        assert producer.commit_offset(5, version=4) == "TRANSACTION_ABORTABLE"
        assert producer.committed_offset() == -1


class TestPartitionsAddedByBrokers:
    VERSION = ADDED_BY_BROKERS

    def test_partitions_are_added_on_the_first_write(self, producer):
        for partition in (0, 1):
            assert producer.produce(version=self.VERSION, partition=partition) == "NONE"
        producer.end(commit=True, version=5)
        assert [producer.end_offset(0), producer.end_offset(1)] == [2, 2]

    def test_each_transaction_has_its_own_epoch(self, producer):
        for number in range(3):
            epoch = producer.epoch
            assert producer.produce(version=self.VERSION) == "NONE"
            producer.end(commit=number % 2 == 0, version=5)
            assert producer.epoch == epoch + 1
            assert producer.end_offset() == 2 * number + 2

    def test_next_transaction_may_begin_before_the_markers_are_written(self, producer):
        for number in range(50):
            for partition in (0, 1):
                assert producer.produce(version=self.VERSION, partition=partition) == "NONE"
            assert producer.commit_offset(number, version=5) == "NONE"
            producer.end(commit=number % 3 > 0, version=5)
        assert [producer.end_offset(0), producer.end_offset(1)] == [100, 100]
        assert wait_for(is_stable, producer.committed_offset) == 49

    def test_t10_late_request_is_fenced_after_the_end_and_in_the_next_transaction(self, producer):
        old_epoch = producer.epoch
        assert producer.produce(version=self.VERSION) == "NONE"
        producer.end(commit=False, version=5)
        assert producer.end_offset() == 2
        late = {"version": self.VERSION, "sequence": 1, "epoch": old_epoch}
        assert producer.produce(**late) == "INVALID_PRODUCER_EPOCH"
        assert producer.produce(version=self.VERSION) == "NONE"
        assert producer.produce(**late) == "INVALID_PRODUCER_EPOCH"
        producer.end(commit=True, version=5)
        assert producer.end_offset() == 4

    def test_offset_commits_belong_to_the_transaction(self, producer):
        assert producer.commit_offset(5, version=5) == "NONE"
        assert producer.committed_offset() == "UNSTABLE_OFFSET_COMMIT"
        producer.end(commit=True, version=5)
        assert wait_for(is_stable, producer.committed_offset) == 5
        assert producer.commit_offset(6, version=5) == "NONE"
        producer.end(commit=False, version=5)
        assert wait_for(is_stable, producer.committed_offset) == 5


@pytest.mark.parametrize("version", [ADDED_BY_CLIENTS, ADDED_BY_BROKERS])
def test_more_producers_wait_for_coordinators_than_requests_may_be_in_progress(
    coordinating, version
):
    topic, address = f"many-{version}", coordinating.address
    create_topic(address, topic)
    producers = [Producer(address, f"{topic}-{number}", topic) for number in range(8 * QUEUED_MAX)]
    if version == ADDED_BY_CLIENTS:
        for producer in producers:
            producer.add(0)
    with ThreadPoolExecutor(len(producers)) as threads:
        error_names = list(
            threads.map(lambda producer: producer.produce(version=version), producers)
        )
    assert set(error_names) == {"NONE"}
    for producer in producers:
        producer.end(commit=True, version=4 if version == ADDED_BY_CLIENTS else 5)
        producer.wire.close()
    assert producers[0].end_offset() == 2 * len(producers)

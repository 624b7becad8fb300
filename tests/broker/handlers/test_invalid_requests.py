"""Invalid requests that Kafka rejects in its own way, found by sending the same to both brokers."""

import pytest

from odradek.broker.handlers import init_producer_id, leader_and_isr, list_offsets, produce
from odradek.broker.request import Disconnect
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRequest,
    KafkaError,
    StaleControllerEpoch,
    TransactionalIdAuthorizationFailed,
)
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.calls import called
from tests.support.fetches import FetchBench, asked, errors, request
from tests.support.hosted_partitions import BROKER, Hosting, led
from tests.support.logs import NOW_MS, records_batch

TRANSACTION = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
SIZE_POSITION, MAGIC_POSITION = 8, 16


def send_produce(hosting, *batches, acks=1, **fields):
    entries = [
        ProduceRequest.Topic.Partition(index=index, records=memoryview(batch))
        for index, batch in enumerate(batches)
    ]
    topics = [ProduceRequest.Topic(name="events", partition_data=entries)]
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)
    request = called(body, version=9)
    try:
        dependencies = hosting.replicas, hosting.known, hosting.reader, NOBODY_ASKED
        return produce.handle(*dependencies, lambda: NOW_MS, request)
    except KafkaError as error:
        error.request = request
        raise


async def test_transactional_batch_without_transactional_id_fails_the_request(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    hosting.lead(partition=1)
    with pytest.raises(TransactionalIdAuthorizationFailed):
        send_produce(hosting, records_batch(b"a"), records_batch(b"b", **TRANSACTION))
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize("position", [SIZE_POSITION + 3, MAGIC_POSITION])
async def test_malformed_batch_fails_the_request_with_an_error_message(tmp_path, position):
    hosting = Hosting(tmp_path)
    hosting.lead()
    batch = records_batch(b"a")
    batch[SIZE_POSITION + 3] = batch[SIZE_POSITION + 3] if position == MAGIC_POSITION else 3
    batch[MAGIC_POSITION] = 3 if position == MAGIC_POSITION else 2
    with pytest.raises(CorruptMessage) as raised:
        send_produce(hosting, batch)
    response = produce.error_response(raised.value.request, raised.value)
    (partition_response,) = response.responses[0].partition_responses
    assert (partition_response.error_code, partition_response.log_start_offset) == (
        ErrorCode.CORRUPT_MESSAGE.code,
        -1,
    )
    assert partition_response.error_message


async def test_request_error_with_acks_0_closes_the_connection(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    with pytest.raises(TransactionalIdAuthorizationFailed) as raised:
        send_produce(hosting, records_batch(b"a", **TRANSACTION), acks=0)
    with pytest.raises(Disconnect):
        produce.error_response(raised.value.request, raised.value)


async def test_only_a_batch_rejected_by_the_log_returns_the_log_start_offset(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    damaged = records_batch(b"a")
    damaged[-1] ^= 0xFF
    response = send_produce(hosting, records_batch(b"a", base_offset=7))
    assert response.responses[0].partition_responses[0].error_code
    assert response.responses[0].partition_responses[0].log_start_offset == 0
    response = send_produce(hosting, damaged)
    assert response.responses[0].partition_responses[0].log_start_offset == -1


async def test_topic_without_partitions_is_omitted_from_the_response(tmp_path):
    assert send_produce(Hosting(tmp_path)).responses == []


async def test_fetch_with_own_broker_id_as_replica_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    assert errors(bench.fetched(request(asked(), replica_id=BROKER))) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_negative_max_bytes_fails_only_the_first_partition(tmp_path):
    bench = FetchBench(tmp_path)
    for number in (0, 1):
        bench.lead(number).append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    response = bench.fetched(request(asked(0), asked(1), max_bytes=-1))
    assert errors(response) == ["UNKNOWN_SERVER_ERROR", "NONE"]


async def test_unknown_isolation_level_is_rejected(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    with pytest.raises(KafkaError):
        bench.fetched(request(asked(), isolation_level=7))
    list_request = ListOffsetsRequest(replica_id=-1, isolation_level=7, topics=[])
    with pytest.raises(KafkaError):
        list_offsets.handle(
            bench.hosting.replicas, bench.hosting.reader, lambda: NOW_MS, called(list_request)
        )


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_producer_id_and_epoch_must_be_set_together(half):
    body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, **half)
    with pytest.raises(InvalidRequest):
        init_producer_id.handle(None, None, called(body, version=5))


@pytest.mark.parametrize("version", [4, 7])
def test_stale_controller_epoch_is_returned_for_every_partition(version):
    states = LeaderAndIsrRequest.TopicState(topic_name="events", partition_states=[led(0), led(1)])
    body = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=1, topic_states=[states], live_leaders=[]
    )
    response = leader_and_isr.error_response(called(body, version=version), StaleControllerEpoch())
    code = ErrorCode.STALE_CONTROLLER_EPOCH.code
    assert response.error_code == code
    partition_errors = response.partition_errors or response.topics[0].partition_errors
    assert [partition_error.error_code for partition_error in partition_errors] == [code, code]

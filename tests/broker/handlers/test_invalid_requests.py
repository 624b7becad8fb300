"""Mistakes that Kafka refuses in ways of its own, found by asking both brokers the same."""

import pytest

from odradek.broker.call import Disconnect
from odradek.broker.handlers import init_producer_id, leader_and_isr, list_offsets, produce
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


def produced(hosting, *batches, acks=1, **fields):
    entries = [
        ProduceRequest.Topic.Partition(index=index, records=memoryview(batch))
        for index, batch in enumerate(batches)
    ]
    topics = [ProduceRequest.Topic(name="events", partition_data=entries)]
    sent = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)
    call = called(sent, version=9)
    try:
        needed = hosting.replicas, hosting.known, hosting.reader, NOBODY_ASKED
        return produce.handle(*needed, lambda: NOW_MS, call)
    except KafkaError as failure:
        failure.call = call
        raise


async def test_a_transaction_that_nobody_named_spoils_the_whole_request(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    hosting.lead(partition=1)
    with pytest.raises(TransactionalIdAuthorizationFailed):
        produced(hosting, records_batch(b"a"), records_batch(b"b", **TRANSACTION))
    assert partition.log.end_offset == 0


@pytest.mark.parametrize("position", [SIZE_POSITION + 3, MAGIC_POSITION])
async def test_what_is_no_batch_spoils_the_whole_request_in_words(tmp_path, position):
    hosting = Hosting(tmp_path)
    hosting.lead()
    batch = records_batch(b"a")
    batch[SIZE_POSITION + 3] = batch[SIZE_POSITION + 3] if position == MAGIC_POSITION else 3
    batch[MAGIC_POSITION] = 3 if position == MAGIC_POSITION else 2
    with pytest.raises(CorruptMessage) as raised:
        produced(hosting, batch)
    response = produce.refused(raised.value.call, raised.value)
    (line,) = response.responses[0].partition_responses
    assert (line.error_code, line.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE.code, -1)
    assert line.error_message


async def test_a_refusal_of_all_without_acknowledgement_closes_the_connection(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    with pytest.raises(TransactionalIdAuthorizationFailed) as raised:
        produced(hosting, records_batch(b"a", **TRANSACTION), acks=0)
    with pytest.raises(Disconnect):
        produce.refused(raised.value.call, raised.value)


async def test_who_sends_what_the_log_refuses_hears_where_the_log_starts(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    damaged = records_batch(b"a")
    damaged[-1] ^= 0xFF
    response = produced(hosting, records_batch(b"a", base_offset=7))
    assert response.responses[0].partition_responses[0].error_code
    assert response.responses[0].partition_responses[0].log_start_offset == 0
    response = produced(hosting, damaged)
    assert response.responses[0].partition_responses[0].log_start_offset == -1


async def test_a_topic_without_partitions_is_not_in_the_answer(tmp_path):
    assert produced(Hosting(tmp_path)).responses == []


async def test_a_broker_does_not_follow_itself(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    assert errors(bench.fetched(request(asked(), replica_id=BROKER))) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_a_limit_below_zero_spoils_only_the_first_partition(tmp_path):
    bench = FetchBench(tmp_path)
    for number in (0, 1):
        bench.lead(number).append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    response = bench.fetched(request(asked(0), asked(1), max_bytes=-1))
    assert errors(response) == ["UNKNOWN_SERVER_ERROR", "NONE"]


async def test_an_unknown_isolation_level_is_refused(tmp_path):
    bench = FetchBench(tmp_path)
    bench.lead()
    with pytest.raises(KafkaError):
        bench.fetched(request(asked(), isolation_level=7))
    listing = ListOffsetsRequest(replica_id=-1, isolation_level=7, topics=[])
    with pytest.raises(KafkaError):
        list_offsets.handle(
            bench.hosting.replicas, bench.hosting.reader, lambda: NOW_MS, called(listing)
        )


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_a_producer_id_goes_with_its_epoch(half):
    sent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, **half)
    with pytest.raises(InvalidRequest):
        init_producer_id.handle(None, None, called(sent, version=5))


@pytest.mark.parametrize("version", [4, 7])
def test_what_an_old_controller_says_is_refused_partition_by_partition(version):
    states = LeaderAndIsrRequest.TopicState(topic_name="events", partition_states=[led(0), led(1)])
    sent = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=1, topic_states=[states], live_leaders=[]
    )
    response = leader_and_isr.refused(called(sent, version=version), StaleControllerEpoch())
    code = ErrorCode.STALE_CONTROLLER_EPOCH.code
    assert response.error_code == code
    lines = response.partition_errors or response.topics[0].partition_errors
    assert [line.error_code for line in lines] == [code, code]

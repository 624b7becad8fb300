"""Produce: each partition succeeds or fails independently."""

import asyncio

import pytest

from odradek.broker import time_slice
from odradek.broker.handlers import produce
from odradek.broker.request import DelayedOperation, Disconnect
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import Uuid
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.calls import called, in_the_end
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, records_batch
from tests.support.loops import finish_in_virtual_time

OTHER = 2
AN_ID = Uuid(bytes([1] * 16))


def entry(index=0, *values):
    records = memoryview(records_batch(*values or (b"v",)))
    return ProduceRequest.Topic.Partition(index=index, records=records)


def build_request(*entries, topic="events", acks=1, **fields):
    topics = [ProduceRequest.Topic(name=topic, partition_data=list(entries or [entry()]))]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)


def send(hosting, body, *, version=9, client_id="test"):
    request = called(body, version=version)
    request.client_id = client_id
    dependencies = hosting.replicas, hosting.known, hosting.reader, NOBODY_ASKED
    return produce.handle(*dependencies, lambda: NOW_MS, request)


def results(response):
    return [
        (partition.index, ErrorCode.for_code(partition.error_code).name, partition.base_offset)
        for topic in response.responses
        for partition in topic.partition_responses
    ]


async def test_each_partition_succeeds_or_fails_independently(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    response = send(hosting, build_request(entry(0), entry(1), entry(2), entry(0)))
    assert results(response) == [
        (0, "NONE", 0),
        (1, "NOT_LEADER_OR_FOLLOWER", -1),
        (2, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        (0, "NONE", 1),
    ]


async def test_acks_0_gets_no_response(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    assert send(hosting, build_request(acks=0)) is None
    assert partition.log.log_end_offset == 1


async def test_acks_0_with_a_failed_partition_closes_the_connection(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    with pytest.raises(Disconnect, match="unknown partition events-7"):
        send(hosting, build_request(entry(0), entry(7), acks=0))


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_invalid_acks_append_nothing(tmp_path, acks):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    response = send(hosting, build_request(acks=acks))
    assert results(response) == [(0, "INVALID_REQUIRED_ACKS", -1)]
    assert partition.log.log_end_offset == 0


async def test_only_acks_all_waits_for_followers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(replicas=(BROKER, OTHER))
    assert results(send(hosting, build_request(acks=1))) == [(0, "NONE", 0)]
    waiting = send(hosting, build_request(acks=-1))
    assert isinstance(waiting, DelayedOperation)
    assert waiting.completes_on_shutdown
    assert not waiting.needs_frame


async def test_delayed_response_reports_partitions_that_timed_out(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, replicas=(BROKER, OTHER))
    body = build_request(entry(0), entry(1), acks=-1)
    body.timeout_ms = 0
    response = await send(hosting, body)
    assert results(response) == [(0, "NONE", 0), (1, "REQUEST_TIMED_OUT", -1)]


def test_all_partitions_share_the_timeout_of_the_request(tmp_path):
    async def producing():
        hosting = Hosting(tmp_path)
        for partition in (0, 1):
            hosting.lead(partition=partition, replicas=(BROKER, OTHER))
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        response = await send(hosting, build_request(entry(0), entry(1), acks=-1))
        return results(response), loop.time() - started_s

    outcomes, waited_s = finish_in_virtual_time(producing())
    assert outcomes == [(0, "REQUEST_TIMED_OUT", -1), (1, "REQUEST_TIMED_OUT", -1)]
    assert waited_s == pytest.approx(1.0)


async def test_many_partitions_are_appended_in_time_slices_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(time_slice, "TIME_SLICE_S", 0.0)
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, replicas=(BROKER, OTHER))
    many = time_slice.INLINE_ENTRIES_MAX + 1
    body = build_request(*(entry(index % 3) for index in range(many)), acks=-1)
    body.timeout_ms = 0
    producing = hosting.background.start(in_the_end(send(hosting, body)))
    ends = set()
    while not producing.done():
        await asyncio.sleep(0)
        ends.add(hosting.replicas.partition("events", 0).log.log_end_offset)
    assert len(ends) > many / 6
    errors = ("NONE", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION")
    assert results(producing.result()) == [
        (index % 3, errors[index % 3], index // 3 if index % 3 == 0 else -1)
        for index in range(many)
    ]


async def test_records_are_released_once_appended(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(replicas=(BROKER, OTHER))
    body = build_request(acks=-1)
    send(hosting, body)
    assert body.topic_data[0].partition_data[0].records is None


async def test_internal_topics_accept_only_brokers_and_the_admin_client(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead("__consumer_offsets")
    rejected = send(hosting, build_request(topic="__consumer_offsets"))
    assert results(rejected) == [(0, "INVALID_TOPIC_EXCEPTION", -1)]
    accepted = send(hosting, build_request(topic="__consumer_offsets"), client_id="__admin_client")
    assert results(accepted) == [(0, "NONE", 0)]


async def test_missing_records_are_rejected(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    empty = ProduceRequest.Topic.Partition(index=0, records=None)
    assert results(send(hosting, build_request(empty))) == [(0, "INVALID_RECORD", -1)]


async def test_invalid_records_are_named_in_the_response(tmp_path):
    hosting = Hosting(tmp_path, cleanup_policy=("compact",))
    hosting.lead()
    response = send(hosting, build_request())
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == ErrorCode.INVALID_RECORD.code
    assert [error.batch_index for error in partition.record_errors] == [0]
    assert "record 0" in partition.error_message


async def test_topic_can_be_named_by_id(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(topic_id=AN_ID)
    known, unknown = (
        ProduceRequest.Topic(topic_id=each, partition_data=[entry()])
        for each in (AN_ID, Uuid(bytes([2] * 16)))
    )
    body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[known, unknown])
    assert results(send(hosting, body, version=13)) == [
        (0, "NONE", 0),
        (0, "UNKNOWN_TOPIC_ID", -1),
    ]

"""Produce: each partition succeeds or fails alone."""

import asyncio

import pytest

from odradek.broker import turns
from odradek.broker.call import Disconnect, Parked
from odradek.broker.handlers import produce
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


def request(*entries, topic="events", acks=1, **fields):
    topics = [ProduceRequest.Topic(name=topic, partition_data=list(entries or [entry()]))]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)


def produced(hosting, asked, *, version=9, client_id="test"):
    call = called(asked, version=version)
    call.client_id = client_id
    needed = hosting.replicas, hosting.known, hosting.reader, NOBODY_ASKED
    return produce.handle(*needed, lambda: NOW_MS, call)


def lines(response):
    return [
        (line.index, ErrorCode.of(line.error_code).name, line.base_offset)
        for topic in response.responses
        for line in topic.partition_responses
    ]


async def test_each_partition_succeeds_or_fails_alone(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, leader=OTHER, replicas=(OTHER, BROKER))
    response = produced(hosting, request(entry(0), entry(1), entry(2), entry(0)))
    assert lines(response) == [
        (0, "NONE", 0),
        (1, "NOT_LEADER_OR_FOLLOWER", -1),
        (2, "UNKNOWN_TOPIC_OR_PARTITION", -1),
        (0, "NONE", 1),
    ]


async def test_acks_zero_is_never_answered(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    assert produced(hosting, request(acks=0)) is None
    assert partition.log.end_offset == 1


async def test_acks_zero_with_a_failed_partition_closes_the_connection(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    with pytest.raises(Disconnect, match="there is no events-7"):
        produced(hosting, request(entry(0), entry(7), acks=0))


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_any_other_acks_append_nothing(tmp_path, acks):
    hosting = Hosting(tmp_path)
    partition = hosting.lead()
    response = produced(hosting, request(acks=acks))
    assert lines(response) == [(0, "INVALID_REQUIRED_ACKS", -1)]
    assert partition.log.end_offset == 0


async def test_only_acks_all_waits_for_followers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(replicas=(BROKER, OTHER))
    assert lines(produced(hosting, request(acks=1))) == [(0, "NONE", 0)]
    waiting = produced(hosting, request(acks=-1))
    assert isinstance(waiting, Parked)
    assert waiting.ends_alone
    assert not waiting.needs_frame


async def test_an_answer_that_waited_tells_who_was_not_in_time(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, replicas=(BROKER, OTHER))
    asked = request(entry(0), entry(1), acks=-1)
    asked.timeout_ms = 0
    response = await produced(hosting, asked)
    assert lines(response) == [(0, "NONE", 0), (1, "REQUEST_TIMED_OUT", -1)]


def test_all_partitions_together_wait_no_longer_than_the_request_says(tmp_path):
    async def producing():
        hosting = Hosting(tmp_path)
        for partition in (0, 1):
            hosting.lead(partition=partition, replicas=(BROKER, OTHER))
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        response = await produced(hosting, request(entry(0), entry(1), acks=-1))
        return lines(response), loop.time() - begun_s

    told, waited_s = finish_in_virtual_time(producing())
    assert told == [(0, "REQUEST_TIMED_OUT", -1), (1, "REQUEST_TIMED_OUT", -1)]
    assert waited_s == pytest.approx(1.0)


async def test_many_partitions_are_appended_to_in_turns_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    hosting = Hosting(tmp_path)
    hosting.lead(partition=0)
    hosting.lead(partition=1, replicas=(BROKER, OTHER))
    many = turns.FEW + 1
    asked = request(*(entry(index % 3) for index in range(many)), acks=-1)
    asked.timeout_ms = 0
    producing = hosting.background.start(in_the_end(produced(hosting, asked)))
    ends = set()
    while not producing.done():
        await asyncio.sleep(0)
        ends.add(hosting.replicas.partition("events", 0).log.end_offset)
    assert len(ends) > many / 6
    told = ("NONE", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION")
    assert lines(producing.result()) == [
        (index % 3, told[index % 3], index // 3 if index % 3 == 0 else -1) for index in range(many)
    ]


async def test_the_records_are_let_go_of_once_they_are_appended(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(replicas=(BROKER, OTHER))
    asked = request(acks=-1)
    produced(hosting, asked)
    assert asked.topic_data[0].partition_data[0].records is None


async def test_internal_topics_are_written_by_brokers_and_kafkas_tools_only(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead("__consumer_offsets")
    refused = produced(hosting, request(topic="__consumer_offsets"))
    assert lines(refused) == [(0, "INVALID_TOPIC_EXCEPTION", -1)]
    taken = produced(hosting, request(topic="__consumer_offsets"), client_id="__admin_client")
    assert lines(taken) == [(0, "NONE", 0)]


async def test_no_records_are_refused(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    empty = ProduceRequest.Topic.Partition(index=0, records=None)
    assert lines(produced(hosting, request(empty))) == [(0, "INVALID_RECORD", -1)]


async def test_records_that_are_wrong_are_named(tmp_path):
    hosting = Hosting(tmp_path, cleanup_policy=("compact",))
    hosting.lead()
    response = produced(hosting, request())
    (line,) = response.responses[0].partition_responses
    assert line.error_code == ErrorCode.INVALID_RECORD.code
    assert [error.batch_index for error in line.record_errors] == [0]
    assert "record 0" in line.error_message


async def test_a_topic_may_be_named_by_its_id(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(topic_id=AN_ID)
    known, unknown = (
        ProduceRequest.Topic(topic_id=each, partition_data=[entry()])
        for each in (AN_ID, Uuid(bytes([2] * 16)))
    )
    asked = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[known, unknown])
    assert lines(produced(hosting, asked, version=13)) == [
        (0, "NONE", 0),
        (0, "UNKNOWN_TOPIC_ID", -1),
    ]

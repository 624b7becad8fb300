"""The follower's and the leader's fetch sessions always hold the same partitions and offsets."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.fetching.fetch_session_cache import FetchSessionCache
from odradek.broker.replicas.fetch_session_handler import (
    FetchRequestPartition,
    FetchSessionHandler,
    PartitionRequest,
)
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.types import ZERO_UUID, TopicPartition

PartitionResponse = FetchResponse.Topic.Partition
VERSION_WITH_TOPIC_IDS = 17
IDS = {"a": bytes([1] * 16), "b": bytes([2] * 16)}
NEW_IDS = {"a": bytes([9] * 16), "b": bytes([8] * 16)}
PARTITIONS = [TopicPartition(topic, number) for topic in IDS for number in range(3)]

FETCH_OFFSETS = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 3), min_size=1)
STEPS = st.lists(
    st.tuples(FETCH_OFFSETS, st.sampled_from(["answered", "lost", "evicted"])), max_size=12
)


def fetch_partitions(offsets, ids=IDS):
    return {
        partition: FetchRequestPartition(
            PartitionRequest(
                partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 20
            ),
            ids[partition.topic],
        )
        for partition, offset in offsets.items()
    }


def fetch_offsets(partitions):
    return {
        (each.topic_id, each.partition_request.partition): each.partition_request.fetch_offset
        for each in partitions.values()
    }


class Leader:
    """The sessions of a real broker."""

    def __init__(self):
        self.sessions = FetchSessionCache(slots=10, now_ms=lambda: 0)

    def handle(self, session, partitions):
        """Return the request, what the leader understands, and its response."""
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        request.replica_state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
        for partition in PARTITIONS:
            session.update(partition, partitions.get(partition))
        session.fill_request(request)
        fetch = self.sessions.new_context(request, VERSION_WITH_TOPIC_IDS)
        understood = {
            (each.topic_id, each.partition_request.partition): each.partition_request.fetch_offset
            for each in fetch.partitions
        }
        for each in fetch.partitions:
            each.partition_response = PartitionResponse(
                partition_index=each.partition_request.partition,
                error_code=0,
                high_watermark=0,
                records=b"",
            )
        fetch.select_response_partitions(fetch.partitions)
        return request, understood, FetchResponse(session_id=fetch.session_id, responses=[])


@given(STEPS)
def test_leader_and_follower_sessions_hold_the_same_partitions(steps):
    leader, session = Leader(), FetchSessionHandler()
    for offsets, ending in steps:
        partitions = fetch_partitions(offsets)
        _, understood, response = leader.handle(session, partitions)
        assert understood == fetch_offsets(partitions)
        if ending == "answered":
            session.handle_response(response)
        else:
            session.reset()
            if ending == "evicted":
                leader = Leader()


def test_unchanged_partition_is_not_sent_again():
    leader, session = Leader(), FetchSessionHandler()
    first, second = (
        fetch_partitions({PARTITIONS[0]: 0, PARTITIONS[1]: 0}),
        fetch_partitions({PARTITIONS[0]: 5}),
    )
    request, _, response = leader.handle(session, first)
    assert (request.session_id, request.session_epoch) == (0, 0)
    session.handle_response(response)
    request, _, response = leader.handle(session, first | second)
    assert request.session_epoch == 1
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0]
    session.handle_response(response)
    request, _, _ = leader.handle(session, second)
    assert request.topics == []
    assert [each.partitions for each in request.forgotten_topics_data] == [[1]]


@given(
    st.lists(st.tuples(st.sampled_from(PARTITIONS), st.none() | st.integers(0, 3), st.booleans()))
)
def test_only_the_last_of_several_changes_is_sent(changes):
    leader, session = Leader(), FetchSessionHandler()
    initial = fetch_partitions(dict.fromkeys(PARTITIONS[:3], 0))
    session.handle_response(leader.handle(session, initial)[2])
    final = dict(initial)
    for partition, offset, is_recreated in changes:
        ids = NEW_IDS if is_recreated else IDS
        each = None if offset is None else fetch_partitions({partition: offset}, ids)[partition]
        session.update(partition, each)
        final[partition] = each
    final = {partition: each for partition, each in final.items() if each is not None}
    _, understood, _ = leader.handle(session, final)
    assert understood == fetch_offsets(final)
    assert session.is_empty == (not final)


def test_recreated_topic_is_forgotten_by_its_old_topic_id():
    leader, session = Leader(), FetchSessionHandler()
    session.handle_response(leader.handle(session, fetch_partitions({PARTITIONS[0]: 4}))[2])
    request, understood, _ = leader.handle(session, fetch_partitions({PARTITIONS[0]: 0}, NEW_IDS))
    assert [each.topic_id for each in request.forgotten_topics_data] == [IDS["a"]]
    assert understood == {(NEW_IDS["a"], 0): 0}


def test_leader_without_a_session_gets_a_full_fetch_each_time():
    session = FetchSessionHandler()
    for _ in range(2):
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        session.update(PARTITIONS[0], fetch_partitions({PARTITIONS[0]: 0})[PARTITIONS[0]])
        session.fill_request(request)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert len(request.topics) == 1
        session.handle_response(FetchResponse(session_id=0, responses=[]))


def test_topic_ids_are_used_when_all_partitions_have_one():
    session = FetchSessionHandler()
    first, second = PARTITIONS[:2]
    assert session.can_use_topic_ids
    session.update(first, fetch_partitions({first: 0})[first])
    session.update(second, fetch_partitions({second: 0}, {"a": ZERO_UUID})[second])
    assert not session.can_use_topic_ids
    session.update(second, None)
    assert session.can_use_topic_ids
    session.update(first, fetch_partitions({first: 0}, {"a": ZERO_UUID})[first])
    assert not session.can_use_topic_ids
    session.update(first, fetch_partitions({first: 0})[first])
    assert session.can_use_topic_ids


def test_topic_that_gets_its_id_is_not_forgotten_when_topics_go_by_name():
    session = FetchSessionHandler()
    zero_ids = {"a": ZERO_UUID, "b": ZERO_UUID}
    offsets = {TopicPartition("a", 0): 0, TopicPartition("b", 0): 0}
    for partition, each in fetch_partitions(offsets, zero_ids).items():
        session.update(partition, each)
    session.fill_request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]))
    session.handle_response(FetchResponse(session_id=7, responses=[]))
    (partition, each), *_ = fetch_partitions(offsets).items()
    session.update(partition, each)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    session.fill_request(request)
    assert [topic.topic for topic in request.topics] == ["a"]
    assert request.forgotten_topics_data == []

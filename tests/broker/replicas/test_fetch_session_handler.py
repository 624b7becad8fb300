"""A follower's session beside the leader's: both always mean the same partitions and offsets."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.broker.replicas.follower_session import Asked, FollowerSession, Wanted
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.types import ZERO_UUID, TopicPartition

Line = FetchResponse.Topic.Partition
BY_ID = 17
IDS = {"a": bytes([1] * 16), "b": bytes([2] * 16)}
IDS_AGAIN = {"a": bytes([9] * 16), "b": bytes([8] * 16)}
PLACES = [TopicPartition(topic, number) for topic in IDS for number in range(3)]

WANTED = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 3), min_size=1)
STEPS = st.lists(st.tuples(WANTED, st.sampled_from(["answered", "lost", "forgotten"])), max_size=12)


def wanted(offsets, ids=IDS):
    return {
        where: Wanted(
            Asked(partition=where.partition, fetch_offset=offset, partition_max_bytes=1 << 20),
            ids[where.topic],
        )
        for where, offset in offsets.items()
    }


def meaning(partitions):
    return {
        (each.topic_id, each.asked.partition): each.asked.fetch_offset
        for each in partitions.values()
    }


class Leader:
    """The sessions of a real broker."""

    def __init__(self):
        self.sessions = FetchSessions(slots=10, now_ms=lambda: 0)

    def asked(self, session, partitions):
        """What the leader takes it for, and its answer."""
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        request.replica_state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
        for where in PLACES:
            session.want(where, partitions.get(where))
        session.fill(request)
        fetch = self.sessions.open(request, BY_ID)
        meant = {
            (each.topic_id, each.asked.partition): each.asked.fetch_offset for each in fetch.wanted
        }
        for each in fetch.wanted:
            each.line = Line(
                partition_index=each.asked.partition, error_code=0, high_watermark=0, records=b""
            )
        fetch.settle(fetch.wanted)
        return request, meant, FetchResponse(session_id=fetch.session_id, responses=[])


@given(STEPS)
def test_the_leader_always_means_what_the_follower_wants(steps):
    leader, session = Leader(), FollowerSession()
    for offsets, ending in steps:
        partitions = wanted(offsets)
        _, meant, response = leader.asked(session, partitions)
        assert meant == meaning(partitions)
        if ending == "answered":
            session.answered(response)
        else:
            session.lost()
            if ending == "forgotten":
                leader = Leader()


def test_what_has_not_changed_is_not_asked_again():
    leader, session = Leader(), FollowerSession()
    first, second = wanted({PLACES[0]: 0, PLACES[1]: 0}), wanted({PLACES[0]: 5})
    request, _, response = leader.asked(session, first)
    assert (request.session_id, request.session_epoch) == (0, 0)
    session.answered(response)
    request, _, response = leader.asked(session, first | second)
    assert request.session_epoch == 1
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0]
    session.answered(response)
    request, _, _ = leader.asked(session, second)
    assert request.topics == []
    assert [each.partitions for each in request.forgotten_topics_data] == [[1]]


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.none() | st.integers(0, 3), st.booleans())))
def test_what_is_wanted_otherwise_several_times_is_told_as_it_is_in_the_end(changes):
    leader, session = Leader(), FollowerSession()
    meant_at_first = wanted(dict.fromkeys(PLACES[:3], 0))
    session.answered(leader.asked(session, meant_at_first)[2])
    in_the_end = dict(meant_at_first)
    for where, offset, is_made_again in changes:
        ids = IDS_AGAIN if is_made_again else IDS
        each = None if offset is None else wanted({where: offset}, ids)[where]
        session.want(where, each)
        in_the_end[where] = each
    in_the_end = {where: each for where, each in in_the_end.items() if each is not None}
    _, meant, _ = leader.asked(session, in_the_end)
    assert meant == meaning(in_the_end)
    assert session.wants_nothing == (not in_the_end)


def test_a_topic_that_was_made_again_is_forgotten_by_its_old_id():
    leader, session = Leader(), FollowerSession()
    session.answered(leader.asked(session, wanted({PLACES[0]: 4}))[2])
    request, meant, _ = leader.asked(session, wanted({PLACES[0]: 0}, IDS_AGAIN))
    assert [each.topic_id for each in request.forgotten_topics_data] == [IDS["a"]]
    assert meant == {(IDS_AGAIN["a"], 0): 0}


def test_a_leader_that_keeps_no_session_is_asked_for_everything_each_time():
    session = FollowerSession()
    for _ in range(2):
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        session.want(PLACES[0], wanted({PLACES[0]: 0})[PLACES[0]])
        session.fill(request)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert len(request.topics) == 1
        session.answered(FetchResponse(session_id=0, responses=[]))


def test_all_have_ids_once_the_last_without_one_is_wanted_no_more():
    session = FollowerSession()
    first, second = PLACES[:2]
    assert session.has_ids
    session.want(first, wanted({first: 0})[first])
    session.want(second, wanted({second: 0}, {"a": ZERO_UUID})[second])
    assert not session.has_ids
    session.want(second, None)
    assert session.has_ids
    session.want(first, wanted({first: 0}, {"a": ZERO_UUID})[first])
    assert not session.has_ids
    session.want(first, wanted({first: 0})[first])
    assert session.has_ids


def test_by_names_a_topic_that_gets_its_id_is_not_forgotten():
    session = FollowerSession()
    without = {"a": ZERO_UUID, "b": ZERO_UUID}
    places = {TopicPartition("a", 0): 0, TopicPartition("b", 0): 0}
    for where, each in wanted(places, without).items():
        session.want(where, each)
    session.fill(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]))
    session.answered(FetchResponse(session_id=7, responses=[]))
    (where, each), *_ = wanted(places).items()
    session.want(where, each)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    session.fill(request)
    assert [topic.topic for topic in request.topics] == ["a"]
    assert request.forgotten_topics_data == []

"""Requests that are in order, and ask for tens of thousands of things at once."""

import time

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.resident_memory import KEPT_BYTES_MAX, resident_bytes, wait_for
from tests.support.wire_client import WireClient

MANY = 40_000
#: Of what takes longer each.
FEWER = 500
#: How many times others are answered meanwhile.  If it were done in one go, it would be a few.
TURNS_MIN = 20
#: This process may get no turn itself; a broker that holds others up does so every time.
TRIES = 10

TOPIC = "nowhere"
FETCHED = [{"partition": index, "fetch_offset": 0} for index in range(MANY)]

LARGE = {
    ApiKey.FETCH: (11, {"session_epoch": 0, "topics": [{"topic": TOPIC, "partitions": FETCHED}]}),
    ApiKey.LIST_OFFSETS: (
        5,
        {
            "replica_id": -1,
            "topics": [
                {
                    "name": TOPIC,
                    "partitions": [{"partition_index": index} for index in range(MANY)],
                }
            ],
        },
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        3,
        {
            "replica_id": -1,
            "topics": [
                {"topic": TOPIC, "partitions": [{"partition": index} for index in range(MANY)]}
            ],
        },
    ),
    ApiKey.METADATA: (
        9,
        {
            "topics": [{"name": f"{TOPIC}-{index}"} for index in range(MANY)],
            "allow_auto_topic_creation": False,
        },
    ),
    ApiKey.PRODUCE: (
        9,
        {
            "acks": 1,
            "topic_data": [
                {"name": TOPIC, "partition_data": [{"index": index} for index in range(MANY)]}
            ],
        },
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        2,
        {
            "dirs": [
                {"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [*range(MANY // 4)]}]}
            ]
        },
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": f"{TOPIC}-{index}"}
                for index in range(MANY // 4)
            ]
        },
    ),
    ApiKey.CREATE_TOPICS: (
        5,
        {
            "topics": [
                {"name": f"{TOPIC}-{index}", "num_partitions": 1, "replication_factor": 1}
                for index in range(FEWER)
            ],
            "timeout_ms": 1000,
            "validate_only": True,
        },
    ),
    ApiKey.CREATE_PARTITIONS: (
        3,
        {
            "topics": [
                {"name": f"{TOPIC}-{index}", "count": 2, "assignments": None}
                for index in range(FEWER)
            ],
            "timeout_ms": 1000,
            "validate_only": True,
        },
    ),
}


@pytest.fixture(scope="module")
def once(broker, settled):
    """Each of them, once.

    Where much is needed at a time, the interpreter and the C library keep what lies between the few
    things that stay: 26 to 30 MB after all of these, and 34 MB after five times all of these.  So
    what is kept of the first ones has a bound of its own, and all else is measured from there.
    """
    before = resident_bytes(broker.pid)
    with WireClient(broker.address) as client:
        for key, (version, values) in LARGE.items():
            client.call(key, version, **values)
    wait_for(lambda: resident_bytes(broker.pid) - before < 2 * KEPT_BYTES_MAX)


@pytest.mark.parametrize("key", LARGE, ids=lambda key: key.name)
def test_y3_a_large_request_lets_others_have_their_turns(broker, key):
    with WireClient(broker.address) as client, WireClient(broker.address) as other:
        assert any(turns_beside(client, key, other) >= TURNS_MIN for _ in range(TRIES))


def turns_beside(client, key, other):
    """How many times the other is answered while the client's large request is in progress."""
    version, values = LARGE[key]
    client.send(key, version, **values)
    turns = 0
    while not client.is_answered():
        other.call(ApiKey.API_VERSIONS, 0)
        turns += 1
    client.answer(key, version)
    return turns


def test_y3_topics_of_too_many_partitions_hold_up_nobody(broker):
    entries = [
        {"name": f"{TOPIC}-{index}", "num_partitions": 120_000, "replication_factor": 1}
        for index in range(10)
    ]
    with WireClient(broker.address) as client:
        began = time.monotonic()
        answer = client.call(ApiKey.CREATE_TOPICS, 5, topics=entries, timeout_ms=1000)
        assert time.monotonic() - began < 1
    assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_PARTITIONS.code}


def test_y3_what_is_quoted_of_a_request_is_not_too_long_to_be_told(broker):
    gaps = [{"partition_index": index + 1, "broker_ids": [1]} for index in range(MANY // 4)]
    entry = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": gaps,
    }
    with WireClient(broker.address) as client:
        answer = client.call(ApiKey.CREATE_TOPICS, 3, topics=[entry], timeout_ms=1000)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT.code
    assert answer.topics[0].error_message.startswith("Partitions must be numbered from 0")


def test_y3_reassignments_of_what_is_not_there_are_one_line_in_the_log(broker):
    partitions = [{"partition_index": index, "replicas": [1]} for index in range(MANY // 4)]
    with WireClient(broker.address) as client:
        asked = [{"name": TOPIC, "partitions": partitions}]
        answer = client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=asked)
    assert len(answer.responses[0].partitions) == MANY // 4
    assert broker.log_text.count("Skipping reassignment") == 1


def test_y3_what_nobody_knows_is_not_remembered_without_end(broker):
    version, values = LARGE[ApiKey.FETCH]
    with WireClient(broker.address) as client:
        answer = client.call(ApiKey.FETCH, version, **values)
        assert answer.session_id == 0
        few = {"session_epoch": 0, "topics": [{"topic": TOPIC, "partitions": FETCHED[:10]}]}
        session = client.call(ApiKey.FETCH, version, **few).session_id
        assert session > 0
        more = {**values, "session_id": session, "session_epoch": 1}
        assert client.call(ApiKey.FETCH, version, **more).error_code == 0
        after = {"session_id": session, "session_epoch": 2, "topics": []}
        refused = client.call(ApiKey.FETCH, version, **after)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND.code

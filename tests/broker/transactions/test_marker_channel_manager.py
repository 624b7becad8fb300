"""Markers are sent to all partitions of a transaction and retried until each has its own."""

import pytest

from odradek.broker.transactions.transaction_state import TransactionState
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotEnoughReplicas, NotLeaderOrFollower
from odradek.protocol.types import TopicPartition
from tests.support.transactions import ID, OURS, PARTITIONS, transaction

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


#: Which of the partitions are led by another broker.
ELSEWHERE = {
    "both here": set(),
    "both there": {FIRST, SECOND},
    "first there": {FIRST},
    "second there": {SECOND},
}


@pytest.fixture(params=ELSEWHERE)
def prepared(scene, request):
    """A function that completes a prepared transaction whose partitions are local or remote."""
    txn = scene.put(transaction(TransactionState.PREPARE_COMMIT))
    scene.participants.is_here = True
    scene.participants.elsewhere = ELSEWHERE[request.param]

    async def complete():
        scene.markers.complete_transaction(scene.shard, txn)
        assert not scene.participants.elsewhere or scene.state() == "PrepareCommit"

    def complete_and_wait():
        scene.run(complete())
        scene.pass_ms(1)

    return complete_and_wait


def marked(scene):
    return {partition for partition in PARTITIONS if scene.participants.logs[partition].markers}


def test_each_partition_gets_one_marker(scene, prepared):
    prepared()
    assert scene.state() == "CompleteCommit"
    for partition in PARTITIONS:
        (marker,) = scene.participants.logs[partition].markers
        assert marker == (OURS, True, 5)


def test_partition_without_leader_is_retried(scene, prepared):
    scene.participants.leaderless.add(FIRST)
    prepared()
    assert marked(scene) == {SECOND}
    scene.pass_ms(1000)
    assert scene.state() == "PrepareCommit"
    scene.participants.leaderless.clear()
    scene.pass_ms(1000)
    assert scene.state() == "CompleteCommit"
    assert len(scene.participants.logs[SECOND].markers) == 1


def test_lost_request_is_sent_again(scene, prepared):
    scene.participants.lost = 3
    prepared()
    assert scene.state() == "PrepareCommit"
    scene.pass_ms(710)
    assert scene.state() == "CompleteCommit"


def test_retry_interval_grows_to_one_second(scene, prepared):
    scene.participants.refusals[FIRST] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
    prepared()
    refusals = scene.participants.refusals[FIRST]
    assert len(refusals) == 99
    scene.pass_ms(1500)
    assert len(refusals) == 95
    for remaining in (94, 93, 92):
        scene.pass_ms(1000)
        assert len(refusals) == remaining


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ],
    ids=lambda error: error.name,
)
def test_only_the_failed_partition_is_retried(scene, prepared, error):
    scene.participants.refusals[FIRST] = [error, error]
    prepared()
    assert marked(scene) == {SECOND}
    scene.pass_ms(310)
    assert scene.state() == "CompleteCommit"
    assert [len(scene.participants.logs[each].markers) for each in (FIRST, SECOND)] == [1, 1]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
    ids=lambda error: error.name,
)
def test_partition_with_a_fatal_error_needs_no_marker(scene, prepared, error):
    scene.participants.refusals[FIRST] = [error]
    prepared()
    assert scene.state() == "CompleteCommit"
    assert marked(scene) == {SECOND}


def test_deleted_topic_needs_no_marker(scene, prepared):
    scene.participants.deleted.update(PARTITIONS)
    prepared()
    assert scene.state() == "CompleteCommit"
    assert marked(scene) == set()


def test_topic_recreated_with_fewer_partitions_needs_fewer_markers(scene, prepared):
    scene.participants.deleted.add(SECOND)
    prepared()
    assert scene.state() == "CompleteCommit"
    assert marked(scene) == {FIRST}


def test_partition_that_is_not_known_yet_is_retried(scene, prepared):
    scene.participants.unknown.add("events")
    prepared()
    scene.pass_ms(500)
    assert scene.state() == "PrepareCommit"
    scene.participants.unknown.clear()
    scene.pass_ms(400)
    assert scene.state() == "CompleteCommit"


def test_no_marker_is_sent_after_resignation(scene, prepared):
    scene.participants.leaderless.update(PARTITIONS)
    prepared()
    scene.resign()
    scene.participants.leaderless.clear()
    scene.pass_ms(1000)
    assert marked(scene) == set()
    assert not scene.tasks


def test_completion_is_retried_until_the_log_accepts_it(scene, prepared):
    scene.log.failure = NotEnoughReplicas()
    prepared()
    scene.pass_ms(500)
    assert scene.state() == "PrepareCommit"
    assert scene.told(scene.add(OURS)) == "CONCURRENT_TRANSACTIONS"
    scene.log.failure = None
    scene.pass_ms(1000)
    assert scene.shard.transactions[ID].state is TransactionState.COMPLETE_COMMIT
    assert [len(scene.participants.logs[each].markers) for each in PARTITIONS] == [1, 1]


def test_failed_completion_is_logged_once(scene, prepared, caplog):
    scene.log.failure = NotEnoughReplicas()
    prepared()
    scene.pass_ms(60_000)
    logged = [each for each in caplog.messages if "Failed to append completion" in each]
    assert len(logged) == 1
    scene.log.failure = None
    scene.pass_ms(1000)
    assert scene.state() == "CompleteCommit"


def test_completion_is_not_written_after_resignation(scene, prepared):
    scene.log.failure = NotEnoughReplicas()
    prepared()
    end_offset = scene.log.log_end_offset
    scene.resign()
    scene.log.failure = None
    scene.pass_ms(1000)
    assert scene.log.log_end_offset == end_offset
    assert not scene.tasks


def test_completion_is_written_again_after_a_new_leader_epoch(scene, prepared):
    scene.log.is_held = True
    prepared()
    scene.log.release(NotLeaderOrFollower())
    scene.pass_ms(220)
    assert scene.state() == "CompleteCommit"


def test_transaction_with_only_local_partitions_completes_at_once(scene):
    scene.participants.is_here = True
    producer = scene.open()
    scene.run(scene.end(producer))
    assert scene.state() == "CompleteCommit"
    assert not scene.tasks

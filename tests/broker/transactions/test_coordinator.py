"""What is asked of a transactional id, from the first producer to its last transaction."""

import pytest

from odradek.broker.transactions.transaction_state import LAST_EPOCH, Producer, State
from odradek.protocol.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeader,
    RequestTimedOut,
)
from odradek.protocol.types import TopicPartition
from tests.support.transaction_scene import EVENTS, FIRST_ID, as_logged
from tests.support.transactions import ID, OURS, transaction

OTHER = frozenset({TopicPartition("other", 3)})


def outcomes(scene, producer, partitions=EVENTS):
    found = scene.coordinator.verify(ID, producer, partitions)
    return {str(where): failure and failure.error.name for where, failure in found.items()}


# A producer begins


def test_the_first_producer_gets_an_id_and_epoch_0(scene):
    assert scene.run(scene.init()) == (FIRST_ID, 0)
    assert scene.state() == "Empty"


def test_each_id_has_a_producer_of_its_own(scene):
    assert scene.run(scene.init(name="a")).id != scene.run(scene.init(name="b")).id


def test_whoever_comes_next_fences_whoever_was_there(scene):
    first = scene.run(scene.init())
    second = scene.run(scene.init())
    assert second == (first.id, 1)
    assert scene.told(scene.add(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.end(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.init(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.add(second)) == "NONE"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_bounds(scene, timeout_ms):
    assert scene.told(scene.init(timeout_ms=timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"
    assert scene.log.end_offset == 0


def test_the_longest_timeout_is_a_setting(new_scene):
    scene = new_scene(max_timeout_ms=1000)
    assert scene.told(scene.init(timeout_ms=1000)) == "NONE"
    assert scene.told(scene.init(timeout_ms=1001)) == "INVALID_TRANSACTION_TIMEOUT"


def test_an_empty_id_is_none(scene):
    assert scene.told(scene.init(name="")) == "INVALID_REQUEST"
    assert scene.told(scene.add(OURS, name="")) == "INVALID_REQUEST"
    assert scene.told(scene.end(OURS, name="")) == "INVALID_REQUEST"


def test_ids_may_have_to_be_waited_for(scene):
    scene.ids.is_empty = True
    assert scene.run(scene.init()) == (FIRST_ID, 0)


def test_of_two_that_come_at_once_each_gets_an_epoch(scene):
    scene.ids.is_empty = True
    both = [scene.begun(scene.init()) for _ in range(2)]
    scene.pass_ms(100)
    assert sorted(each.result().epoch for each in both) == [0, 1]
    assert len({each.result().id for each in both}) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_is_aborted_first(new_scene, version):
    scene = new_scene(version=version)
    first = scene.open()
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    scene.pass_ms(1)
    assert scene.state() == "CompleteAbort"
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert (marker.producer, marker.is_commit) == ((first.id, 1), False)
    assert scene.run(scene.init()) == (first.id, 2)
    assert scene.told(scene.end(first)) == "PRODUCER_FENCED"


def test_when_the_epochs_are_used_up_there_is_a_new_producer_id(scene):
    scene.put(transaction(State.COMPLETE_COMMIT, producer_epoch=LAST_EPOCH - 1))
    assert scene.run(scene.init()) == (FIRST_ID, 0)


def test_a_fence_may_use_the_last_epoch_and_then_there_is_a_new_id(scene):
    scene.put(transaction(State.ONGOING, producer_epoch=LAST_EPOCH - 1))
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    scene.pass_ms(1)
    assert scene.shard.transactions[ID].producer_epoch == LAST_EPOCH
    assert scene.run(scene.init()).epoch == 0


# Partitions


def test_a_transaction_of_several_partitions(scene):
    producer = scene.open()
    scene.run(scene.add(producer, OTHER))
    assert scene.shard.transactions[ID].partitions == EVENTS | OTHER


def test_what_is_there_already_is_answered_without_a_write(scene):
    producer = scene.open()
    end_offset = scene.log.end_offset
    scene.run(scene.add(producer))
    assert scene.log.end_offset == end_offset


def test_partitions_ask_whether_they_are_in_it(scene):
    producer = scene.open()
    assert outcomes(scene, producer, EVENTS | OTHER) == {
        "events-0": None,
        "other-3": "TRANSACTION_ABORTABLE",
    }


def test_in_no_transaction_no_partition_is(scene):
    producer = scene.run(scene.init())
    assert outcomes(scene, producer) == {"events-0": "TRANSACTION_ABORTABLE"}


# Ends


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_answered_before_and_whatever_becomes_of_markers(scene, is_commit):
    scene.participants.leaderless.add(TopicPartition("events", 0))
    producer = scene.open()
    assert scene.run(scene.end(producer, is_commit=is_commit)) == (-1, -1)
    assert scene.state() == ("PrepareCommit" if is_commit else "PrepareAbort")
    assert scene.told(scene.add(producer)) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    scene.participants.leaderless.clear()
    scene.pass_ms(200)
    assert scene.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert scene.told(scene.end(producer, is_commit=is_commit)) == "NONE"
    assert scene.told(scene.end(producer, is_commit=not is_commit)) == "INVALID_TXN_STATE"
    assert scene.told(scene.add(producer)) == "NONE"


def test_from_version_2_on_an_end_tells_the_next_epoch_and_again_if_it_is_asked_again(scene):
    producer = scene.open()
    after = scene.run(scene.end(producer, client=2))
    assert after == (producer.id, 1)
    scene.pass_ms(1)
    assert scene.run(scene.end(producer, client=2)) == after
    assert scene.told(scene.end(producer, is_commit=False, client=2)) == "INVALID_TXN_STATE"
    assert scene.told(scene.add(producer)) == "PRODUCER_FENCED"
    scene.run(scene.add(after))
    assert scene.told(scene.end(producer, client=2)) == "PRODUCER_FENCED"


def test_an_end_that_uses_the_last_epoch_tells_a_new_producer_id(scene):
    scene.put(transaction(State.ONGOING, producer_epoch=LAST_EPOCH - 1))
    last = Producer(OURS.id, LAST_EPOCH - 1)
    scene.participants.leaderless.add(TopicPartition("events", 0))
    assert scene.run(scene.end(last, client=2)) == (FIRST_ID, 0)
    assert scene.told(scene.add(Producer(FIRST_ID, 0), client=2)) == "CONCURRENT_TRANSACTIONS"
    scene.participants.leaderless.clear()
    scene.pass_ms(110)
    marker = scene.participants.logs[TopicPartition("events", 0)].markers[0]
    assert marker.producer == (OURS.id, LAST_EPOCH)
    assert scene.run(scene.end(last, client=2)) == (FIRST_ID, 0)
    assert scene.told(scene.add(Producer(FIRST_ID, 0), client=2)) == "NONE"


def test_a_transaction_without_partitions_is_complete_at_once(scene):
    producer = scene.run(scene.init())
    after = scene.run(scene.end(producer, is_commit=False, client=2))
    scene.pass_ms(0)
    assert (scene.state(), after) == ("CompleteAbort", (producer.id, 1))


# A log that does not take it


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NotEnoughReplicas(), "COORDINATOR_NOT_AVAILABLE"),
        (NotLeader(), "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR"),
        (MessageTooLarge(), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_cannot_be_written_has_not_happened(scene, failure, error):
    producer = scene.open()
    before = dict(scene.shard.transactions)
    scene.log.failure = failure
    for work in (scene.init(), scene.init(name="new"), scene.add(producer, OTHER)):
        assert scene.told(work) == error
    assert scene.told(scene.end(producer)) == error
    assert scene.shard.transactions == before
    scene.log.failure = None
    assert scene.told(scene.end(producer)) == "NONE"


def test_while_a_step_is_not_replicated_nothing_else_happens(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    assert not ending.done()
    assert scene.state() == "Ongoing"
    assert scene.told(scene.add(producer, OTHER)) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.end(producer)) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    assert outcomes(scene, producer) == {"events-0": None}
    assert not scene.participants.logs
    scene.log.release()
    scene.pass_ms(1)
    assert ending.done()
    assert scene.state() == "CompleteCommit"


def test_a_step_that_is_not_replicated_in_time_may_be_asked_for_again(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    scene.log.release(RequestTimedOut())
    scene.pass_ms(1)
    assert ending.exception().error.name == "COORDINATOR_NOT_AVAILABLE"
    assert scene.state() == "Ongoing"
    assert scene.told(scene.end(producer)) == "NONE"


# Leadership


def test_nobody_is_served_by_who_does_not_coordinate(scene):
    scene.resign()
    for work in (scene.init(), scene.add(OURS), scene.end(OURS)):
        assert scene.told(work) == "NOT_COORDINATOR"


def test_nobody_is_served_before_the_picture_has_the_topic(scene):
    """What it leads a broker hears first: ids would be sought in another partition."""
    scene.has_picture = False
    for work in (scene.init(), scene.add(OURS), scene.end(OURS)):
        assert scene.told(work) == "NOT_COORDINATOR"
    scene.has_picture = True
    assert scene.told(scene.init()) == "NONE"


def test_who_waits_while_leadership_goes_is_told_so(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    scene.resign()
    scene.log.release()
    scene.pass_ms(1)
    assert ending.exception().error.name == "NOT_COORDINATOR"
    assert not scene.participants.logs


def test_what_is_known_is_what_is_in_the_log(scene):
    producer = scene.open()
    scene.open(name="other")
    scene.run(scene.end(producer, client=2))
    scene.pass_ms(1)
    known = as_logged(scene.shard.transactions)
    scene.kill()
    scene.lead()
    assert scene.shard.transactions == known


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_is_prepared_is_completed_by_the_next_coordinator(scene, is_commit):
    scene.participants.leaderless.add(TopicPartition("events", 0))
    scene.run(scene.end(scene.open(), is_commit=is_commit))
    scene.kill()
    scene.participants.leaderless.clear()
    scene.log.partition.leader_epoch = 6
    scene.lead()
    scene.pass_ms(1)
    assert scene.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert (marker.is_commit, marker.coordinator_epoch) == (is_commit, 6)


def test_records_of_another_kind_are_passed_over(scene):
    scene.log.append([(b"\0\x07what", b"ever")])
    scene.kill()
    scene.lead()
    assert scene.shard.transactions == {}

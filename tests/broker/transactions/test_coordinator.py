"""The requests to a transaction coordinator, from InitProducerId to EndTxn."""

import pytest

from odradek.broker.transactions.transaction_state import (
    MAX_PRODUCER_EPOCH,
    ProducerIdAndEpoch,
    TransactionState,
)
from odradek.protocol.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from odradek.protocol.types import TopicPartition
from tests.support.transaction_scene import EVENTS, FIRST_ID, as_logged
from tests.support.transactions import ID, OURS, transaction

OTHER = frozenset({TopicPartition("other", 3)})


def verify_errors(scene, producer, partitions=EVENTS):
    errors = scene.coordinator.verify_partitions(ID, producer, partitions)
    return {str(partition): error and error.error_code.name for partition, error in errors.items()}


# InitProducerId


def test_first_producer_gets_an_id_and_epoch_0(scene):
    assert scene.run(scene.init()) == (FIRST_ID, 0)
    assert scene.state() == "Empty"


def test_each_transactional_id_has_its_own_producer_id(scene):
    assert scene.run(scene.init(name="a")).id != scene.run(scene.init(name="b")).id


def test_new_producer_fences_the_one_before(scene):
    first = scene.run(scene.init())
    second = scene.run(scene.init())
    assert second == (first.id, 1)
    assert scene.told(scene.add(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.end(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.init(first)) == "PRODUCER_FENCED"
    assert scene.told(scene.add(second)) == "NONE"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_transaction_timeout_out_of_range_is_rejected(scene, timeout_ms):
    assert scene.told(scene.init(timeout_ms=timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"
    assert scene.log.log_end_offset == 0


def test_maximum_timeout_is_a_setting(new_scene):
    scene = new_scene(max_timeout_ms=1000)
    assert scene.told(scene.init(timeout_ms=1000)) == "NONE"
    assert scene.told(scene.init(timeout_ms=1001)) == "INVALID_TRANSACTION_TIMEOUT"


def test_empty_transactional_id_is_rejected(scene):
    assert scene.told(scene.init(name="")) == "INVALID_REQUEST"
    assert scene.told(scene.add(OURS, name="")) == "INVALID_REQUEST"
    assert scene.told(scene.end(OURS, name="")) == "INVALID_REQUEST"


def test_init_waits_for_a_producer_id(scene):
    scene.ids.is_empty = True
    assert scene.run(scene.init()) == (FIRST_ID, 0)


def test_concurrent_inits_get_different_epochs(scene):
    scene.ids.is_empty = True
    both = [scene.begun(scene.init()) for _ in range(2)]
    scene.pass_ms(100)
    assert sorted(each.result().epoch for each in both) == [0, 1]
    assert len({each.result().id for each in both}) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_init_aborts_an_open_transaction_first(new_scene, version):
    scene = new_scene(version=version)
    first = scene.open()
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    scene.pass_ms(1)
    assert scene.state() == "CompleteAbort"
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert (marker.producer, marker.is_commit) == ((first.id, 1), False)
    assert scene.run(scene.init()) == (first.id, 2)
    assert scene.told(scene.end(first)) == "PRODUCER_FENCED"


def test_new_producer_id_is_used_when_the_epochs_are_exhausted(scene):
    scene.put(transaction(TransactionState.COMPLETE_COMMIT, producer_epoch=MAX_PRODUCER_EPOCH - 1))
    assert scene.run(scene.init()) == (FIRST_ID, 0)


def test_fencing_may_use_the_last_epoch_and_is_followed_by_a_new_producer_id(scene):
    scene.put(transaction(TransactionState.ONGOING, producer_epoch=MAX_PRODUCER_EPOCH - 1))
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    scene.pass_ms(1)
    assert scene.shard.transactions[ID].producer_epoch == MAX_PRODUCER_EPOCH
    assert scene.run(scene.init()).epoch == 0


# AddPartitionsToTxn


def test_transaction_spans_several_partitions(scene):
    producer = scene.open()
    scene.run(scene.add(producer, OTHER))
    assert scene.shard.transactions[ID].partitions == EVENTS | OTHER


def test_added_partition_is_not_written_again(scene):
    producer = scene.open()
    end_offset = scene.log.log_end_offset
    scene.run(scene.add(producer))
    assert scene.log.log_end_offset == end_offset


def test_verification_reports_partitions_outside_the_transaction(scene):
    producer = scene.open()
    assert verify_errors(scene, producer, EVENTS | OTHER) == {
        "events-0": None,
        "other-3": "TRANSACTION_ABORTABLE",
    }


def test_verification_fails_without_a_transaction(scene):
    producer = scene.run(scene.init())
    assert verify_errors(scene, producer) == {"events-0": "TRANSACTION_ABORTABLE"}


# EndTxn


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_responds_before_the_markers_are_written(scene, is_commit):
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


def test_version_2_end_returns_the_next_epoch_also_when_repeated(scene):
    producer = scene.open()
    after = scene.run(scene.end(producer, client=2))
    assert after == (producer.id, 1)
    scene.pass_ms(1)
    assert scene.run(scene.end(producer, client=2)) == after
    assert scene.told(scene.end(producer, is_commit=False, client=2)) == "INVALID_TXN_STATE"
    assert scene.told(scene.add(producer)) == "PRODUCER_FENCED"
    scene.run(scene.add(after))
    assert scene.told(scene.end(producer, client=2)) == "PRODUCER_FENCED"


def test_end_with_the_last_epoch_returns_a_new_producer_id(scene):
    scene.put(transaction(TransactionState.ONGOING, producer_epoch=MAX_PRODUCER_EPOCH - 1))
    last = ProducerIdAndEpoch(OURS.id, MAX_PRODUCER_EPOCH - 1)
    scene.participants.leaderless.add(TopicPartition("events", 0))
    assert scene.run(scene.end(last, client=2)) == (FIRST_ID, 0)
    assert (
        scene.told(scene.add(ProducerIdAndEpoch(FIRST_ID, 0), client=2))
        == "CONCURRENT_TRANSACTIONS"
    )
    scene.participants.leaderless.clear()
    scene.pass_ms(110)
    marker = scene.participants.logs[TopicPartition("events", 0)].markers[0]
    assert marker.producer == (OURS.id, MAX_PRODUCER_EPOCH)
    assert scene.run(scene.end(last, client=2)) == (FIRST_ID, 0)
    assert scene.told(scene.add(ProducerIdAndEpoch(FIRST_ID, 0), client=2)) == "NONE"


def test_transaction_without_partitions_completes_at_once(scene):
    producer = scene.run(scene.init())
    after = scene.run(scene.end(producer, is_commit=False, client=2))
    scene.pass_ms(0)
    assert (scene.state(), after) == ("CompleteAbort", (producer.id, 1))


# Log errors


@pytest.mark.parametrize(
    ("log_error", "error"),
    [
        (NotEnoughReplicas(), "COORDINATOR_NOT_AVAILABLE"),
        (NotLeaderOrFollower(), "NOT_COORDINATOR"),
        (KafkaStorageError(), "NOT_COORDINATOR"),
        (MessageTooLarge(), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_request_changes_nothing_if_the_log_cannot_be_written(scene, log_error, error):
    producer = scene.open()
    before = dict(scene.shard.transactions)
    scene.log.failure = log_error
    for work in (scene.init(), scene.init(name="new"), scene.add(producer, OTHER)):
        assert scene.told(work) == error
    assert scene.told(scene.end(producer)) == error
    assert scene.shard.transactions == before
    scene.log.failure = None
    assert scene.told(scene.end(producer)) == "NONE"


def test_other_requests_are_rejected_while_a_transition_is_not_replicated(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    assert not ending.done()
    assert scene.state() == "Ongoing"
    assert scene.told(scene.add(producer, OTHER)) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.end(producer)) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    assert verify_errors(scene, producer) == {"events-0": None}
    assert not scene.participants.logs
    scene.log.release()
    scene.pass_ms(1)
    assert ending.done()
    assert scene.state() == "CompleteCommit"


def test_transition_not_replicated_in_time_can_be_requested_again(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    scene.log.release(RequestTimedOut())
    scene.pass_ms(1)
    assert ending.exception().error_code.name == "COORDINATOR_NOT_AVAILABLE"
    assert scene.state() == "Ongoing"
    assert scene.told(scene.end(producer)) == "NONE"


# Leadership


def test_requests_are_rejected_after_resignation(scene):
    scene.resign()
    for work in (scene.init(), scene.add(OURS), scene.end(OURS)):
        assert scene.told(work) == "NOT_COORDINATOR"


def test_requests_are_rejected_until_the_metadata_has_the_topic(scene):
    """A broker learns first that it leads. Ids would be looked up in another partition."""
    scene.has_picture = False
    for work in (scene.init(), scene.add(OURS), scene.end(OURS)):
        assert scene.told(work) == "NOT_COORDINATOR"
    scene.has_picture = True
    assert scene.told(scene.init()) == "NONE"


def test_waiting_request_gets_not_coordinator_on_resignation(scene):
    producer = scene.open()
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    scene.resign()
    scene.log.release()
    scene.pass_ms(1)
    assert ending.exception().error_code.name == "NOT_COORDINATOR"
    assert not scene.participants.logs


def test_state_is_restored_from_the_log(scene):
    producer = scene.open()
    scene.open(name="other")
    scene.run(scene.end(producer, client=2))
    scene.pass_ms(1)
    before = as_logged(scene.shard.transactions)
    scene.kill()
    scene.lead()
    assert scene.shard.transactions == before


@pytest.mark.parametrize("is_commit", [True, False])
def test_next_coordinator_completes_prepared_transactions(scene, is_commit):
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


def test_records_of_unknown_types_are_skipped(scene):
    scene.log.append([(b"\0\x07what", b"ever")])
    scene.kill()
    scene.lead()
    assert scene.shard.transactions == {}

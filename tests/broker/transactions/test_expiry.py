"""Transactions that time out are aborted, and unused transactional ids expire."""

import asyncio
from itertools import pairwise

import pytest

from odradek.broker import time_slice
from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.sources import load
from odradek.broker.task_registry import TaskRegistry
from odradek.broker.transactions.transaction_state import TransactionState
from odradek.protocol.errors import NotEnoughReplicas
from odradek.protocol.types import TopicPartition
from tests.support.transaction_scene import EVENTS
from tests.support.transactions import ID, NOW_MS, TIMEOUT_MS, transaction

INTERVAL, INTERVAL_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms", 700
WEEK_MS = 7 * 24 * 60 * 60 * 1000


def abort(scene):
    scene.run(scene.coordinator.abort_timed_out_transactions())
    scene.pass_ms(1)


def expire(scene):
    scene.run(scene.coordinator.remove_expired_transactional_ids())


@pytest.mark.parametrize("version", [0, 2])
def test_timed_out_transaction_is_aborted_and_its_producer_fenced(new_scene, version):
    scene = new_scene(version=version)
    producer = scene.open()
    scene.pass_ms(TIMEOUT_MS)
    abort(scene)
    assert scene.state() == "Ongoing"
    scene.pass_ms(1)
    abort(scene)
    assert scene.state() == "CompleteAbort"
    (marker,) = scene.participants.logs[TopicPartition("events", 0)].markers
    assert (marker.producer, marker.is_commit) == ((producer.id, 1), False)
    assert scene.told(scene.end(producer)) == "PRODUCER_FENCED"
    assert scene.told(scene.add(producer)) == "PRODUCER_FENCED"


#: With the last value, the timeout ends exactly at a check.
@pytest.mark.parametrize("after_check_ms", [0, 1, INTERVAL_MS - 1, -TIMEOUT_MS % INTERVAL_MS])
def test_t9_transaction_is_aborted_within_its_timeout_and_one_check_interval(scene, after_check_ms):
    scene.participants.is_here = True
    background = start_timeout_schedule(scene)
    scene.pass_ms(INTERVAL_MS + after_check_ms)
    scene.open()
    scene.pass_ms(TIMEOUT_MS)
    assert scene.state() == "Ongoing"
    scene.pass_ms(INTERVAL_MS)
    assert scene.state() == "CompleteAbort"
    scene.run(background.stop())


def start_timeout_schedule(scene):
    """Start the schedules of a broker with only the transaction coordinator doing work."""
    background = TaskRegistry()
    settings = load(file=None, environment={}, overrides=[f"{INTERVAL}={INTERVAL_MS}"])

    async def start():
        no_op = NoOp()
        dynamic = DynamicSettings(settings, broker_id=1)
        start_schedules(background, no_op, no_op, no_op, scene.coordinator, dynamic)

    scene.run(start())
    return background


class NoOp:
    def __getattr__(self, name):
        return self._do_nothing

    async def _do_nothing(self):
        pass


def test_timeout_counts_from_the_first_partition(scene):
    producer = scene.run(scene.init())
    scene.pass_ms(TIMEOUT_MS)
    scene.run(scene.add(producer))
    scene.pass_ms(TIMEOUT_MS - 10)
    scene.run(scene.add(producer, frozenset({TopicPartition("other", 0)})))
    abort(scene)
    assert scene.state() == "Ongoing"
    scene.pass_ms(20)
    abort(scene)
    assert scene.state() == "CompleteAbort"


def test_abort_is_retried_if_the_log_cannot_be_written(scene):
    scene.open()
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.failure = NotEnoughReplicas()
    abort(scene)
    assert scene.state() == "Ongoing"
    scene.log.failure = None
    abort(scene)
    assert scene.state() == "CompleteAbort"


def test_ending_transaction_is_not_aborted(scene):
    producer = scene.open()
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    abort(scene)
    scene.log.release()
    scene.pass_ms(1)
    assert ending.done()
    assert scene.state() == "CompleteCommit"


def test_unreplicated_abort_does_not_delay_others(scene):
    scene.open(name="a")
    scene.open(name="b")
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.is_held = True
    abort(scene)
    assert all(scene.shard.has_pending_transition(each) for each in "ab")
    scene.log.release()
    scene.pass_ms(1)
    assert scene.state("a") == scene.state("b") == "CompleteAbort"


WRITE_S = 0.0001


@pytest.fixture
def many(scene, monkeypatch):
    """Timed-out transactions, and a clock that advances with each write."""
    for number in range(300):
        name = f"{ID}-{number}"
        scene.put(transaction(TransactionState.ONGOING, transactional_id=name, producer_id=number))
    scene.pass_ms(TIMEOUT_MS + 1)
    monkeypatch.setattr(time_slice, "monotonic", lambda: scene.log.log_end_offset * WRITE_S)
    return scene.shard.transactions


async def max_writes_per_slice(scene, act):
    """Return the most writes without a yield, from ``act`` until no task is left."""
    ends = [scene.log.log_end_offset]
    act()
    ends.append(scene.log.log_end_offset)
    while scene.tasks:
        await asyncio.sleep(0)
        ends.append(scene.log.log_end_offset)
    return max(after - before for before, after in pairwise(ends))


@pytest.mark.parametrize("is_here", [True, False], ids=["here", "there"])
def test_many_transactions_are_aborted_in_time_slices(scene, many, is_here):
    scene.participants.is_here = is_here

    def abort_all():
        scene.world.start_task(scene.coordinator.abort_timed_out_transactions(), "abort")

    # As many may complete in the same slice.
    assert scene.run(max_writes_per_slice(scene, abort_all)) <= 2 * (
        time_slice.TIME_SLICE_S / WRITE_S + 1
    )
    assert {each.state for each in many.values()} == {TransactionState.COMPLETE_ABORT}


def test_many_transactions_replicated_at_once_are_completed_in_time_slices(scene, many):
    scene.participants.is_here = True
    scene.log.is_held = True
    abort(scene)
    max_writes = scene.run(max_writes_per_slice(scene, scene.log.release))
    assert max_writes <= time_slice.TIME_SLICE_S / WRITE_S + 1
    assert {each.state for each in many.values()} == {TransactionState.COMPLETE_ABORT}


@pytest.mark.parametrize(
    "state",
    [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT],
)
def test_unused_transactional_id_expires(scene, state):
    txn = scene.put(transaction(state, updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS - 1)
    expire(scene)
    assert scene.state() != "none"
    scene.pass_ms(1)
    expire(scene)
    assert scene.state() == "none"
    assert scene.told(scene.add(txn.producer)) == "INVALID_PRODUCER_ID_MAPPING"
    scene.kill()
    scene.lead()
    assert scene.state() == "none"


def test_expiration_writes_only_a_tombstone(scene):
    scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    expire(scene)
    (record,) = scene.log.batches[-1].records()
    assert (record.key, record.value) == (b"\0\0\0\x06copier", None)
    assert not list(scene.log.replay().records())


def test_expired_id_that_returns_gets_a_new_producer_id(scene):
    first = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    expire(scene)
    second = scene.run(scene.init())
    assert second.epoch == 0
    assert second.id != first.id


@pytest.mark.parametrize(
    "state",
    [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT],
)
def test_id_with_an_open_transaction_does_not_expire(scene, state):
    scene.put(transaction(state))
    scene.pass_ms(WEEK_MS)
    expire(scene)
    assert scene.state() == state.display_name


def test_requests_are_rejected_while_a_tombstone_is_written(scene):
    producer = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    scene.log.is_held = True
    expiring = scene.begun(scene.coordinator.remove_expired_transactional_ids())
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.add(producer)) == "CONCURRENT_TRANSACTIONS"
    scene.log.release()
    scene.pass_ms(1)
    assert expiring.done()
    assert scene.state() == "none"


def test_id_is_kept_if_its_tombstone_cannot_be_written(scene):
    producer = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    scene.log.failure = NotEnoughReplicas()
    expire(scene)
    scene.log.failure = None
    assert scene.state() == "Empty"
    assert scene.told(scene.add(producer, EVENTS)) == "NONE"


def test_many_ids_expire_in_few_batches(scene):
    for number in range(2500):
        scene.put(transaction(transactional_id=f"{ID}-{number}", updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    expire(scene)
    assert scene.shard.transactions == {}
    assert len(scene.log.batches) == 3


def test_long_ids_expire_in_batches_within_the_message_size(scene):
    names = [f"{number:03}" * 300 for number in range(20)]
    for name in names:
        scene.put(transaction(transactional_id=name, updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    scene.log.max_message_bytes = 3000
    expire(scene)
    assert scene.shard.transactions == {}
    assert len(scene.log.batches) == 7


def test_id_too_long_for_a_batch_does_not_keep_other_ids(scene):
    names = ["a", "b" * 500, "c"]
    for name in names:
        scene.put(transaction(transactional_id=name, updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    scene.log.max_message_bytes = 400
    expire(scene)
    assert [*scene.shard.transactions] == ["b" * 500]

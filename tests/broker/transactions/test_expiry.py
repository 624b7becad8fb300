"""Transactions open for too long are aborted, ids that nobody uses are forgotten."""

import asyncio
from itertools import pairwise

import pytest

from odradek.broker import turns
from odradek.broker.background import Background
from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.sources import load
from odradek.broker.transactions.transaction_state import State
from odradek.protocol.errors import NotEnoughReplicas
from odradek.protocol.types import TopicPartition
from tests.support.transaction_scene import EVENTS
from tests.support.transactions import ID, NOW_MS, TIMEOUT_MS, transaction

INTERVAL, INTERVAL_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms", 700
WEEK_MS = 7 * 24 * 60 * 60 * 1000


def abort(scene):
    scene.run(scene.coordinator.abort_timed_out())
    scene.pass_ms(1)


def expire(scene):
    scene.run(scene.coordinator.forget_expired())


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(
    new_scene, version
):
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


#: Of the last, the time is up just when it is looked for, and not a moment before.
@pytest.mark.parametrize("after_check_ms", [0, 1, INTERVAL_MS - 1, -TIMEOUT_MS % INTERVAL_MS])
def test_t9_it_is_aborted_within_the_timeout_and_one_interval_of_the_check(scene, after_check_ms):
    scene.participants.is_here = True
    background = scheduled(scene)
    scene.pass_ms(INTERVAL_MS + after_check_ms)
    scene.open()
    scene.pass_ms(TIMEOUT_MS)
    assert scene.state() == "Ongoing"
    scene.pass_ms(INTERVAL_MS)
    assert scene.state() == "CompleteAbort"
    scene.run(background.stop())


def scheduled(scene):
    """Looks for such transactions as a broker does, and does nothing else."""
    background = Background()
    settings = load(file=None, environment={}, overrides=[f"{INTERVAL}={INTERVAL_MS}"])

    async def start():
        others = Nothing()
        dynamic = DynamicSettings(settings, broker_id=1)
        start_schedules(background, others, others, others, scene.coordinator, dynamic)

    scene.run(start())
    return background


class Nothing:
    def __getattr__(self, name):
        return self._nothing

    async def _nothing(self):
        pass


def test_the_time_counts_from_the_first_partition(scene):
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


def test_what_cannot_be_written_is_tried_again(scene):
    scene.open()
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.failure = NotEnoughReplicas()
    abort(scene)
    assert scene.state() == "Ongoing"
    scene.log.failure = None
    abort(scene)
    assert scene.state() == "CompleteAbort"


def test_what_is_ending_already_is_left_alone(scene):
    producer = scene.open()
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.is_held = True
    ending = scene.begun(scene.end(producer))
    abort(scene)
    scene.log.release()
    scene.pass_ms(1)
    assert ending.done()
    assert scene.state() == "CompleteCommit"


def test_one_that_is_not_replicated_keeps_no_other_waiting(scene):
    scene.open(name="a")
    scene.open(name="b")
    scene.pass_ms(TIMEOUT_MS + 1)
    scene.log.is_held = True
    abort(scene)
    assert all(scene.shard.is_pending(each) for each in "ab")
    scene.log.release()
    scene.pass_ms(1)
    assert scene.state("a") == scene.state("b") == "CompleteAbort"


WRITE_S = 0.0001


@pytest.fixture
def many(scene, monkeypatch):
    """Open for too long; the clock goes on when something is written."""
    for number in range(300):
        name = f"{ID}-{number}"
        scene.put(transaction(State.ONGOING, transactional_id=name, producer_id=number))
    scene.pass_ms(TIMEOUT_MS + 1)
    monkeypatch.setattr(turns, "monotonic", lambda: scene.log.end_offset * WRITE_S)
    return scene.shard.transactions


async def written_at_once_max(scene, act):
    """In one turn, from this act on until nothing is left to do."""
    ends = [scene.log.end_offset]
    act()
    ends.append(scene.log.end_offset)
    while scene.tasks:
        await asyncio.sleep(0)
        ends.append(scene.log.end_offset)
    return max(after - before for before, after in pairwise(ends))


@pytest.mark.parametrize("is_here", [True, False], ids=["here", "there"])
def test_many_are_aborted_in_turns(scene, many, is_here):
    scene.participants.is_here = is_here

    def abort_all():
        scene.world.start(scene.coordinator.abort_timed_out(), "abort")

    # As many may be complete in the same turn.
    assert scene.run(written_at_once_max(scene, abort_all)) <= 2 * (turns.TURN_S / WRITE_S + 1)
    assert {each.state for each in many.values()} == {State.COMPLETE_ABORT}


def test_many_that_are_replicated_at_the_same_time_are_completed_in_turns(scene, many):
    scene.participants.is_here = True
    scene.log.is_held = True
    abort(scene)
    at_once_max = scene.run(written_at_once_max(scene, scene.log.release))
    assert at_once_max <= turns.TURN_S / WRITE_S + 1
    assert {each.state for each in many.values()} == {State.COMPLETE_ABORT}


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_an_id_that_nobody_uses_is_forgotten(scene, state):
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


def test_a_tombstone_is_all_that_is_written(scene):
    scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    expire(scene)
    (record,) = scene.log.batches[-1].records()
    assert (record.key, record.value) == (b"\0\0\0\x06copier", None)
    assert not list(scene.log.replay().records())


def test_one_that_comes_back_begins_anew(scene):
    first = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    expire(scene)
    second = scene.run(scene.init())
    assert second.epoch == 0
    assert second.id != first.id


@pytest.mark.parametrize("state", [State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_an_open_transaction_keeps_its_id(scene, state):
    scene.put(transaction(state))
    scene.pass_ms(WEEK_MS)
    expire(scene)
    assert scene.state() == state.shown


def test_while_a_tombstone_is_written_nothing_else_happens(scene):
    producer = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    scene.log.is_held = True
    expiring = scene.begun(scene.coordinator.forget_expired())
    assert scene.told(scene.init()) == "CONCURRENT_TRANSACTIONS"
    assert scene.told(scene.add(producer)) == "CONCURRENT_TRANSACTIONS"
    scene.log.release()
    scene.pass_ms(1)
    assert expiring.done()
    assert scene.state() == "none"


def test_an_id_whose_tombstone_cannot_be_written_stays(scene):
    producer = scene.run(scene.init())
    scene.pass_ms(WEEK_MS)
    scene.log.failure = NotEnoughReplicas()
    expire(scene)
    scene.log.failure = None
    assert scene.state() == "Empty"
    assert scene.told(scene.add(producer, EVENTS)) == "NONE"


def test_many_expire_in_few_batches(scene):
    for number in range(2500):
        scene.put(transaction(transactional_id=f"{ID}-{number}", updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    expire(scene)
    assert scene.shard.transactions == {}
    assert len(scene.log.batches) == 3


def test_long_ids_expire_in_batches_that_the_log_takes(scene):
    names = [f"{number:03}" * 300 for number in range(20)]
    for name in names:
        scene.put(transaction(transactional_id=name, updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    scene.log.batch_bytes_max = 3000
    expire(scene)
    assert scene.shard.transactions == {}
    assert len(scene.log.batches) == 7


def test_an_id_too_long_for_any_batch_keeps_no_other(scene):
    names = ["a", "b" * 500, "c"]
    for name in names:
        scene.put(transaction(transactional_id=name, updated_ms=NOW_MS))
    scene.pass_ms(WEEK_MS)
    scene.log.batch_bytes_max = 400
    expire(scene)
    assert [*scene.shard.transactions] == ["b" * 500]

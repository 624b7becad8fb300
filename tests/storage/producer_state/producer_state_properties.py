"""Producer state agrees with a simple model under any sequence of log operations."""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.codec import decode as decode_message
from odradek.protocol.codec import encode_bytes
from odradek.protocol.errors import KafkaError
from odradek.protocol.internal.producer_snapshot import ProducerSnapshot
from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.storage.producer_state.producer_state_entry import PACKED_BATCH, ProducerStateEntry
from odradek.storage.producer_state.producer_state_manager import AppendOrigin
from odradek.storage.producer_state.snapshot import CorruptSnapshot, decode, encode
from tests.support.producer_log import NOON, Placed, ProducerLog, batch_by, marker_by
from tests.support.producer_model import ProducerModel, facts_of

EXPIRATION_MS = 100

producer_ids = st.integers(1, 4)
counts = st.integers(1, 3)
# Mostly valid, so that histories make progress.
epoch_steps = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
sequence_steps = st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])
coordinator_steps = st.sampled_from([0, 0, 0, 1, -1])
# Distance from the end of a list; a distance beyond the beginning means the beginning.
steps_back = st.integers(0, 7)


class ProducerStateAgainstAModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.log = ProducerLog(Path(self.directory.name), producer_id_expiration_ms=EXPIRATION_MS)
        self.model = ProducerModel()
        self.now_ms = NOON
        self.high_watermark = 0

    def teardown(self) -> None:
        self.directory.cleanup()

    @rule(producer_id=producer_ids, count=counts, begins=st.booleans())
    def send_next(self, producer_id, count, begins):
        known = self.model.producers.get(producer_id)
        is_open = known is not None and known.transaction is not None
        self.send(producer_id, 0, 0, count, is_open or begins)

    @rule(
        producer_id=producer_ids,
        epoch_step=epoch_steps,
        sequence_step=sequence_steps,
        count=counts,
        transactional=st.booleans(),
    )
    def send(self, producer_id, epoch_step, sequence_step, count, transactional):
        known = self.model.producers.get(producer_id)
        epoch, sequence = 1, SEQUENCE_MAX - 2
        if known is not None:
            epoch = max(0, known.epoch + epoch_step)
            following = known.batches[-1].last_sequence + 1 if known.batches else 0
            sequence = following if epoch == known.epoch else 0
        batch = batch_by(
            producer_id,
            epoch=epoch,
            sequence=(sequence + sequence_step) % (SEQUENCE_MAX + 1),
            count=count,
            timestamp=self.now_ms,
            transactional=transactional,
        )
        self.append(batch, AppendOrigin.CLIENT)

    @precondition(lambda self: self.data_batches())
    @rule(back=steps_back)
    def send_again(self, back):
        self.append(pick(self.data_batches(), back), AppendOrigin.CLIENT)

    @rule(
        producer_id=producer_ids,
        epoch_step=epoch_steps,
        coordinator_step=coordinator_steps,
        is_commit=st.booleans(),
    )
    def end_transaction(self, producer_id, epoch_step, coordinator_step, is_commit):
        known = self.model.producers.get(producer_id)
        epoch, coordinator_epoch = (1, 1) if known is None else (known.epoch, 1)
        if known is not None:
            coordinator_epoch = max(1, known.coordinator_epoch)
        marker = marker_by(
            producer_id,
            epoch=max(0, epoch + epoch_step),
            coordinator_epoch=coordinator_epoch + coordinator_step,
            is_commit=is_commit,
            timestamp=self.now_ms,
        )
        self.append(marker, AppendOrigin.COORDINATOR)

    def append(self, batch, origin):
        """The log and the model both reject the batch, find a duplicate, or append it."""
        original = None if batch.is_control else self.model.original_of(batch)
        expected_error = None if original else self.model.refusal_of(batch)
        end_offset = self.log.end_offset
        if expected_error is not None:
            with pytest.raises(expected_error):
                self.log.send(batch, origin)
            return
        appended = self.log.send(batch, origin)
        if original is not None:
            assert appended == Placed(
                original.first_offset, original.last_offset, original.timestamp, is_duplicate=True
            )
            assert self.log.end_offset == end_offset
        else:
            assert appended.first_offset == end_offset
            self.model.learn(self.log.batches[-1])

    @rule(is_synced=st.booleans())
    def take_snapshot(self, is_synced):
        path = self.log.states.take_snapshot(is_synced=is_synced)
        assert (path is not None) == (self.log.end_offset > self.model.snapshot_offset)
        if path is not None:
            self.model.take_snapshot(self.log.end_offset)

    @precondition(lambda self: self.model.snapshots)
    @rule(back=steps_back)
    def damage_snapshot(self, back):
        offset = pick(sorted(self.model.snapshots), back)
        path = self.log.states.snapshots.path(offset)
        path.write_bytes(path.read_bytes()[:-1])
        self.restart()

    @rule()
    def restart(self):
        self.log.restart(now_ms=self.now_ms)
        self.forget_damaged_snapshots()
        self.reload_model()

    @rule(back=steps_back)
    def truncate(self, back):
        ends = [self.log.start_offset, *(batch.next_offset for batch in self.log.batches)]
        offset = pick(ends, back)
        was_truncated = offset < self.log.end_offset
        self.log.truncate(offset, now_ms=self.now_ms)
        self.high_watermark = min(self.high_watermark, offset)
        if was_truncated:
            self.forget_damaged_snapshots()
            self.reload_model()
        else:
            self.move_start_of_model()

    def forget_damaged_snapshots(self):
        """The loader removed the damaged snapshots that it read; others are still there."""
        snapshot_offsets = self.log.states.snapshots.offsets
        self.model.snapshots = {
            offset: known
            for offset, known in self.model.snapshots.items()
            if offset in snapshot_offsets
        }

    def reload_model(self):
        start, end = self.log.start_offset, self.log.end_offset
        self.model.keep_snapshots(start=start, end=end)
        if end == 0:
            start = 0
        known = self.model.reload(start=start, idle_since_ms=self.now_ms - EXPIRATION_MS)
        for batch in self.log.batches:
            if batch.base_offset >= known:
                self.model.learn(batch)
        assert self.log.states.snapshots.offsets == sorted(self.model.snapshots)

    @rule(back=steps_back)
    def increment_log_start(self, back):
        starts = [self.log.start_offset]
        starts += [
            batch.next_offset
            for batch in self.log.batches
            if batch.next_offset <= self.high_watermark
        ]
        self.log.start_offset = pick(starts, back)
        if self.log.start_offset > starts[0]:
            self.log.batches = [
                batch for batch in self.log.batches if batch.base_offset >= self.log.start_offset
            ]
            self.log.states.on_log_start_offset_incremented(self.log.start_offset)
            self.move_start_of_model(removing=False)

    def move_start_of_model(self, *, removing=True):
        start = self.log.start_offset
        self.model.forget_ended_before(start)
        if removing:
            self.model.keep_snapshots(start=start, end=self.log.end_offset)
        self.model.snapshot_offset = max(self.model.snapshots, default=0)

    @rule(back=steps_back)
    def advance_high_watermark(self, back):
        ends = [self.high_watermark, *(batch.next_offset for batch in self.log.batches)]
        self.high_watermark = max(self.high_watermark, pick(ends, back))
        self.log.states.transactions.on_high_watermark_updated(self.high_watermark)
        self.model.forget_ended_before(self.high_watermark)

    @rule(elapsed_ms=st.sampled_from([1, EXPIRATION_MS // 2, EXPIRATION_MS]))
    def expire(self, elapsed_ms):
        self.now_ms += elapsed_ms
        before = len(self.model.producers)
        self.model.expire(idle_since_ms=self.now_ms - EXPIRATION_MS)
        assert self.log.states.remove_expired_producers(self.now_ms) == before - len(
            self.model.producers
        )

    def data_batches(self):
        return [batch for batch in self.log.batches if not batch.is_control]

    @invariant()
    def producers_agree(self):
        states = self.log.states.active_producers
        assert {key: facts_of(state) for key, state in states.items()} == self.model.facts()

    @invariant()
    def unstable_offsets_agree(self):
        states, model = self.log.states, self.model
        assert states.transactions.first_undecided_offset == model.first_undecided_offset
        assert states.transactions.first_unstable_offset == model.first_unstable_offset

    @invariant()
    def end_offsets_agree(self):
        assert self.log.states.map_end_offset == self.log.end_offset


def pick(choices, back):
    return choices[max(0, len(choices) - 1 - back)]


TestProducerStateAgainstAModel = ProducerStateAgainstAModel.TestCase
TestProducerStateAgainstAModel.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None
)


@st.composite
def histories(draw):
    """Batches of a leader at ascending offsets, each valid or invalid by itself."""
    batches, offset = [], 0
    for _ in range(draw(st.integers(1, 12))):
        producer_id, epoch = draw(st.integers(1, 3)), draw(st.integers(0, 2))
        if draw(st.booleans()):
            batch = batch_by(
                producer_id,
                epoch=epoch,
                sequence=draw(st.integers(0, 3)),
                count=draw(counts),
                transactional=draw(st.booleans()),
            )
        else:
            batch = marker_by(producer_id, epoch=epoch, is_commit=draw(st.booleans()))
        batch.assign_offsets(offset)
        offset = batch.next_offset + draw(st.integers(0, 2))
        batches.append(batch)
    return batches


@given(histories(), st.integers(0, 12))
def test_appending_a_set_equals_appending_its_batches_one_by_one(batches, split):
    with tempfile.TemporaryDirectory() as directory:
        together, one_by_one = ProducerLog(Path(directory)), ProducerLog(Path(directory))
        for batch_set in (batches[:split], batches[split:]):
            together.replicate(*batch_set)
        for batch in batches:
            one_by_one.replicate(batch)
        assert together.states.active_producers == one_by_one.states.active_producers
        assert together.aborted == one_by_one.aborted
        assert (
            together.states.transactions.first_undecided_offset
            == one_by_one.states.transactions.first_undecided_offset
        )
        assert (
            together.states.transactions.first_unstable_offset
            == one_by_one.states.transactions.first_unstable_offset
        )


@given(histories(), histories(), st.sampled_from(AppendOrigin))
def test_validation_changes_nothing(history, batches, origin):
    with tempfile.TemporaryDirectory() as directory:
        log = ProducerLog(Path(directory))
        log.replicate(*history)
        before = dict(log.states.active_producers), log.states.transactions.first_unstable_offset
        contents = [bytes(batch.view) for batch in batches]
        with suppress(KafkaError):
            log.states.analyze_and_validate(batches, origin)
        assert (
            dict(log.states.active_producers),
            log.states.transactions.first_unstable_offset,
        ) == before
        assert [bytes(batch.view) for batch in batches] == contents


int16s, int32s, int64s = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
offsets = st.integers(0, 2**63 - 1)


@st.composite
def stored_states(draw):
    """States that a snapshot can hold: with only the newest batch and its timestamp."""
    timestamp = draw(int64s)
    batch = st.builds(PACKED_BATCH.pack, int32s, offsets, int32s, st.just(timestamp))
    return ProducerStateEntry(
        draw(int16s), draw(int32s), timestamp, draw(st.none() | offsets), draw(st.just(b"") | batch)
    )


@given(st.dictionaries(int64s, stored_states()))
def test_snapshots_round_trip(states):
    assert decode(encode(states), path=Path("any")) == states


@given(st.dictionaries(int64s, stored_states()))
def test_snapshots_match_the_declared_schema(states):
    content = encode(states)
    message = decode_message(ProducerSnapshot, 1, content, position=2)
    assert {
        entry.producer_id: (entry.epoch, entry.timestamp, entry.coordinator_epoch)
        for entry in message.producer_entries
    } == {
        producer_id: (state.epoch, state.last_timestamp, state.coordinator_epoch)
        for producer_id, state in states.items()
    }
    assert content[2:] == encode_bytes(message, 1)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_corrupt_snapshot(content):
    with pytest.raises(CorruptSnapshot):
        decode(content, path=Path("any"))

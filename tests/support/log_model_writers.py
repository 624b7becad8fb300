"""The rules of whoever writes to a log: plain and idempotent producers, transactions, a leader.

A producer that was forgotten comes back with a newer epoch, unless it is certain that nothing of it
has come back to the log's mind: it may then begin anywhere.
"""

from hypothesis.stateful import rule
from hypothesis.strategies import booleans, integers, lists, sampled_from, tuples

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from tests.support.log_model_machine import (
    CODECS,
    ONE_RECORD,
    RECORDS,
    YOUNGEST_MS,
    LogMachine,
    batch_of,
    expect,
    marker_of,
)
from tests.support.logs import NOW_MS, PRODUCER_SETTINGS

NOBODY = -1
IDEMPOTENT = sampled_from([1, 2])
TRANSACTIONAL = sampled_from([11, 12])
WRITERS = sampled_from([NOBODY, 1, 2, 11, 12])
PRODUCERS = sampled_from([1, 2, 11, 12])
#: Mostly not: an epoch in which nothing is written is soon over.
BUMPS = sampled_from([False, False, False, True])


class WriterRules(LogMachine):
    def fields_of(self, producer_id, *, bumps=False, ahead=0):
        """Of the next batch of a producer, or of one that is ``ahead`` of it."""
        model = self.model
        is_new_epoch = bumps or model.is_forgotten(producer_id)
        return {
            "producer_id": producer_id,
            "producer_epoch": model.epoch(producer_id) + is_new_epoch,
            "base_sequence": (0 if is_new_epoch else model.next_sequence(producer_id)) + ahead,
        }

    # Nobody in particular

    @rule(batches=lists(RECORDS, min_size=1, max_size=5), codec=CODECS)
    def append_plainly(self, batches, codec):
        for records in batches:
            self.append(records, codec=codec)

    @rule(records=RECORDS)
    def append_as_a_new_leader(self, records):
        self.leader_epoch += 1
        self.append(records)

    # Sequences and epochs

    @rule(producer_id=IDEMPOTENT, records=RECORDS, bumps=BUMPS)
    def append_with_a_sequence(self, producer_id, records, bumps):
        self.append(records, **self.fields_of(producer_id, bumps=bumps))

    @rule(producer_id=IDEMPOTENT, choice=integers(0, 4))
    def retry(self, producer_id, choice):
        kept = self.model.last_batches(producer_id)
        # What was deleted or compacted before the producers were last read from disk is forgotten,
        # except for the last batch of each, which snapshots hold.
        kept = [b for b in kept[:-1] if b.base_offset >= self.known_from] + kept[-1:]
        forgotten_at = self.model.forgotten.get(producer_id, 0)
        kept = [batch for batch in kept if batch.base_offset >= forgotten_at]
        if not kept:
            return
        batch = kept[choice % len(kept)]
        records = [(record.timestamp, record.key, record.value) for record in batch.records]
        fields = self.fields_of(producer_id) | {"base_sequence": batch.sequence}
        written = self.written_as_leader(batch_of(records, **fields))
        assert written.is_duplicate
        assert (written.first_offset, written.last_offset) == (batch.base_offset, batch.last_offset)

    @rule(producer_id=PRODUCERS, bumps=booleans(), gap=integers(1, 3))
    def skip_a_sequence(self, producer_id, bumps, gap):
        if self.model.is_known(producer_id):
            fields = self.fields_of(producer_id, bumps=bumps, ahead=gap)
            self.refused(OutOfOrderSequenceNumber, batch_of(ONE_RECORD, **fields))

    @rule(producer_id=PRODUCERS, back=integers(1, 2))
    def write_with_an_old_epoch(self, producer_id, back):
        epoch = self.model.epoch(producer_id) - back
        if epoch < 0 or not self.model.is_known(producer_id):
            return
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
        self.refused(InvalidProducerEpoch, batch_of(ONE_RECORD, **fields))
        marker = marker_of(producer_id, producer_epoch=epoch, is_commit=True)
        self.refused(InvalidProducerEpoch, marker, AppendOrigin.COORDINATOR)

    @rule(is_long=booleans())
    def wait(self, is_long):
        """Until all producers have been idle for too long, or for not quite as long."""
        before = set(self.log.producer_state_manager.active_producers)
        idle_since_ms = YOUNGEST_MS if is_long else NOW_MS - 26
        self.log.producer_state_manager.remove_expired_producers(
            idle_since_ms + PRODUCER_SETTINGS.producer_id_expiration_ms
        )
        if is_long:
            self.model.forget_idle_producers()
            assert set(self.log.producer_state_manager.active_producers) == set(
                self.model.open_transactions()
            )
        else:
            assert set(self.log.producer_state_manager.active_producers) == before

    @rule(producer_id=PRODUCERS, gap=integers(0, 3), records=RECORDS)
    def begin_anywhere(self, producer_id, gap, records):
        model = self.model
        if (
            model.is_forgotten(producer_id)
            and producer_id not in self.log.producer_state_manager.active_producers
        ):
            self.append(
                records,
                producer_id=producer_id,
                producer_epoch=model.epoch(producer_id),
                base_sequence=model.next_sequence(producer_id) + gap,
            )

    # Transactions

    @rule(producer_id=TRANSACTIONAL, records=RECORDS, codec=CODECS, bumps=BUMPS)
    def append_in_a_transaction(self, producer_id, records, codec, bumps):
        fields = self.fields_of(producer_id, bumps=bumps)
        self.append(records, codec=codec, is_transactional=True, **fields)

    @rule(producer_id=TRANSACTIONAL, is_commit=booleans(), bumps=BUMPS)
    def end_a_transaction(self, producer_id, is_commit, bumps):
        """With a newer epoch, the producer is fenced."""
        epoch = self.fields_of(producer_id, bumps=bumps)["producer_epoch"]
        self.end_transaction(producer_id, producer_epoch=epoch, is_commit=is_commit)

    @rule(producer_id=TRANSACTIONAL)
    def write_beside_a_transaction(self, producer_id):
        if producer_id in self.model.open_transactions():
            fields = self.fields_of(producer_id)
            self.refused(InvalidTxnState, batch_of(ONE_RECORD, **fields))

    # A leader

    @rule(
        batches=lists(
            tuples(integers(0, 2), RECORDS, WRITERS),
            min_size=1,
            max_size=4,
            unique_by=lambda each: each[2],
        )
    )
    def take_over_several(self, batches):
        """Between them are gaps, as compaction leaves them."""
        numbered, end_offset = [], self.model.end_offset
        for gap, records, producer_id in batches:
            fields = {} if producer_id == NOBODY else self.fields_of(producer_id)
            if producer_id in (11, 12):
                fields["is_transactional"] = True
            numbered.append((end_offset + gap, records, fields))
            end_offset += gap + len(records)
        self.take_over(numbered)

    @rule(ahead=integers(1, 3))
    def take_over_out_of_order(self, ahead):
        end_offset = self.model.end_offset
        offsets = (end_offset + ahead, end_offset)
        batches = bytearray(b"".join(batch_of(ONE_RECORD, base_offset=each) for each in offsets))
        expect(OffsetsOutOfOrder, lambda: self.log.append_as_follower(batches, now_ms=NOW_MS))

    @rule(back=integers(1, 3), records=RECORDS)
    def take_over_what_is_there(self, back, records):
        """Only an empty log does, and begins again with it, if it leads beyond its end."""
        model = self.model
        base = max(0, model.end_offset - back)
        if base == model.end_offset:
            return
        is_beyond = base + len(records) > model.end_offset
        if model.start_offset == model.end_offset and is_beyond:
            self.pause_compaction()
            model.begin_again(base)
            self.take_over([(base, records, {})])
            self.resume_compaction(cut_at=base)
            self.all_producers_are_in_batches = True
            self.producers_were_read()
        else:
            batch = batch_of(records, base_offset=base)
            expect(
                UnexpectedAppendOffset, lambda: self.log.append_as_follower(batch, now_ms=NOW_MS)
            )

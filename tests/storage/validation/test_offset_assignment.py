"""A leader assigns offsets and its epoch in place; a follower keeps those of the leader."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch, batches_in
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Record
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from odradek.storage.validation.offset_assignment import (
    validate_and_assign_offsets,
    validate_follower_records,
)
from tests.support.appends import NOW_MS, PLAIN, admitted, written
from tests.support.batches import batch_of
from tests.support.legacy_messages import message

BIG_OFFSET = 2**40


def leader_batch(base_offset, *timestamps, epoch=3, **fields):
    """A batch as written by a leader."""
    records = (
        Record(base_offset + index, timestamp, b"k", b"v")
        for index, timestamp in enumerate(timestamps)
    )
    return batch_of(*records, base_offset=base_offset, partition_leader_epoch=epoch, **fields)


def validate_as_follower(*batches, next_offset=0):
    return validate_follower_records(bytearray(b"".join(batches)), next_offset=next_offset)


class TestLeader:
    def test_leader_assigns_the_next_offsets_and_its_epoch(self):
        validated = admitted(batch_of(b"a", b"b", b"c"), next_offset=BIG_OFFSET)
        assert (validated.first_offset, validated.last_offset) == (BIG_OFFSET, BIG_OFFSET + 2)
        batch = RecordBatch(written(validated))
        assert (batch.base_offset, batch.partition_leader_epoch) == (BIG_OFFSET, 7)
        assert [record.offset for record in batch] == [BIG_OFFSET + n for n in range(3)]

    def test_leader_changes_only_offset_and_epoch_in_the_received_buffer(self):
        received = bytearray(b"before" + batch_of(b"a", b"b") + b"behind")
        records = memoryview(received)[6:-6]
        expected = bytes(received)
        validated = validate_and_assign_offsets(
            records,
            PLAIN,
            next_offset=5,
            leader_epoch=7,
            origin=AppendOrigin.CLIENT,
            now_ms=NOW_MS,
        )
        assert validated.buffers[0].obj is received
        assert bytes(received) == (
            expected[:6]
            + (5).to_bytes(8, "big")
            + expected[14:18]
            + (7).to_bytes(4, "big")
            + expected[22:]
        )

    def test_batch_views_match_the_buffers(self):
        validated = admitted(batch_of(b"a", b"b"), next_offset=5)
        [batch], [buffer] = validated.batches, validated.buffers
        assert batch.view == buffer
        assert (batch.base_offset, batch.last_offset) == (5, 6)
        assert batch.partition_leader_epoch == 7
        assert validated.size_bytes == len(buffer)

    def test_max_timestamp_is_returned(self):
        records = [Record(0, 70, b"k", b"v"), Record(1, 90, b"k", b"v"), Record(2, 80, b"k", b"v")]
        validated = admitted(batch_of(*records), next_offset=5)
        assert validated.max_timestamp == 90
        assert validated.append_time_ms == -1

    def test_max_timestamp_is_minus_1_without_timestamps(self):
        validated = admitted(batch_of(Record(0, -1, b"k", b"v")), next_offset=5)
        assert validated.max_timestamp == -1


class TestFollower:
    def test_follower_keeps_batches_unchanged(self):
        batches = (
            leader_batch(10, 1, 2),
            leader_batch(12, 3, codec=Codec.ZSTD),
            leader_batch(13, 4, epoch=5),
        )
        validated = validate_as_follower(*batches, next_offset=10)
        assert written(validated) == b"".join(batches)
        assert validated.size_bytes == sum(map(len, batches))
        assert (validated.first_offset, validated.last_offset) == (10, 13)
        assert [batch.partition_leader_epoch for batch in validated.batches] == [3, 3, 5]

    def test_follower_copies_nothing(self):
        received = bytearray(leader_batch(10, 1))
        validated = validate_follower_records(memoryview(received), next_offset=10)
        assert validated.buffers[0].obj is received
        assert written(validated) == leader_batch(10, 1)

    def test_follower_accepts_compacted_batches(self):
        emptied_batch = empty_batch(BatchFields(base_offset=20), last_offset=25, max_timestamp=9)
        validated = validate_as_follower(leader_batch(10, 1), emptied_batch, next_offset=3)
        assert (validated.first_offset, validated.last_offset) == (10, 25)
        assert validated.max_timestamp == 9

    def test_follower_accepts_transaction_markers(self):
        marker = build_marker_batch(
            EndTransactionMarker(False, 0),
            timestamp=1,
            producer_id=5,
            producer_epoch=0,
            base_offset=11,
        )
        assert validate_as_follower(leader_batch(10, 1), marker, next_offset=10).last_offset == 11

    def test_follower_accepts_legacy_formats(self):
        records = [Record(offset, 100 - offset, b"k", b"v") for offset in range(10, 13)]
        plain = build_legacy_set(records, LegacyFormat(magic=0))
        validated = validate_as_follower(plain, leader_batch(13, 1), next_offset=10)
        assert (validated.first_offset, validated.last_offset) == (10, 13)
        assert validated.max_timestamp == 1
        assert len(validated.batches) == 4

    def test_first_offset_of_a_legacy_wrapper_is_its_last_offset(self):
        records = [Record(offset, 100 - offset, b"k", b"v") for offset in range(10, 13)]
        compressed = build_legacy_set(records, LegacyFormat(magic=1, codec=Codec.GZIP))
        assert validate_as_follower(compressed, next_offset=12).first_offset == 12
        with pytest.raises(UnexpectedAppendOffset) as raised:
            validate_as_follower(compressed, next_offset=13)
        assert (raised.value.first_offset, raised.value.last_offset) == (10, 12)

    def test_follower_rejects_offsets_below_its_log_end(self):
        with pytest.raises(UnexpectedAppendOffset, match="offsets 10 to 14") as raised:
            validate_as_follower(leader_batch(10, 1, 2), leader_batch(12, 3, 4, 5), next_offset=11)
        assert (raised.value.first_offset, raised.value.last_offset) == (10, 14)

    @pytest.mark.parametrize("base_offset", [9, 10, 11])
    def test_follower_rejects_offsets_that_do_not_ascend(self, base_offset):
        with pytest.raises(OffsetsOutOfOrder):
            validate_as_follower(
                leader_batch(10, 1, 2), leader_batch(base_offset, 3), next_offset=10
            )

    def test_follower_rejects_legacy_offsets_that_do_not_ascend(self):
        with pytest.raises(OffsetsOutOfOrder):
            validate_as_follower(
                message(1, b"v", offset=10), message(1, b"v", offset=10), next_offset=10
            )

    def test_follower_trims_a_partial_batch_at_the_end(self):
        validated = validate_as_follower(
            leader_batch(10, 1), leader_batch(11, 2)[:-1], next_offset=10
        )
        assert written(validated) == leader_batch(10, 1)
        assert validated.last_offset == 10

    def test_follower_appends_nothing_without_a_complete_batch(self):
        for records in (b"", leader_batch(10, 1)[:-1]):
            validated = validate_as_follower(records, next_offset=10)
            assert (validated.batches, validated.buffers, validated.first_offset) == ([], [], -1)

    def test_follower_checks_every_checksum(self):
        damaged = leader_batch(11, 2)
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            validate_as_follower(leader_batch(10, 1), damaged, next_offset=10)

    def test_max_timestamp_of_all_batches_is_returned(self):
        validated = validate_as_follower(
            leader_batch(10, 1, 9), leader_batch(12, 4, 3), next_offset=10
        )
        assert validated.max_timestamp == 9

    def test_follower_does_not_read_records(self):
        batch = leader_batch(10, 1)
        batch[61:] = bytes(len(batch) - 61)
        batch[17:21] = bytes(4)
        [view] = batches_in(batch)
        view.set_max_timestamp(2, view.timestamp_type)
        assert validate_as_follower(batch, next_offset=10).last_offset == 10

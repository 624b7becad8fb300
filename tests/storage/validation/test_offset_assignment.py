"""Offsets and leader epochs: given by a leader in place, taken by a follower as they are."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch, batches_in
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.legacy_builder import LegacyFormat, legacy_set
from odradek.protocol.records.record import Record
from odradek.storage.admission.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from odradek.storage.admission.offset_assignment import admit, admit_as_follower
from odradek.storage.producers.append import AppendOrigin
from tests.support.appends import NOW_MS, PLAIN, admitted, written
from tests.support.batches import batch_of
from tests.support.legacy_messages import message

BIG_OFFSET = 2**40


def placed(base_offset, *timestamps, epoch=3, **fields):
    """A batch as a leader has written it."""
    records = (Record(base_offset + at, time, b"k", b"v") for at, time in enumerate(timestamps))
    return batch_of(*records, base_offset=base_offset, partition_leader_epoch=epoch, **fields)


def followed(*batches, next_offset=0):
    return admit_as_follower(bytearray(b"".join(batches)), next_offset=next_offset)


class TestLeader:
    def test_gives_the_next_offsets_and_its_epoch(self):
        taken = admitted(batch_of(b"a", b"b", b"c"), next_offset=BIG_OFFSET)
        assert (taken.first_offset, taken.last_offset) == (BIG_OFFSET, BIG_OFFSET + 2)
        batch = RecordBatch(written(taken))
        assert (batch.base_offset, batch.partition_leader_epoch) == (BIG_OFFSET, 7)
        assert [record.offset for record in batch] == [BIG_OFFSET + n for n in range(3)]

    def test_changes_twelve_bytes_where_they_were_received(self):
        received = bytearray(b"before" + batch_of(b"a", b"b") + b"behind")
        records = memoryview(received)[6:-6]
        expected = bytes(received)
        taken = admit(
            records,
            PLAIN,
            next_offset=5,
            leader_epoch=7,
            origin=AppendOrigin.CLIENT,
            now_ms=NOW_MS,
        )
        assert taken.buffers[0].obj is received
        assert bytes(received) == (
            expected[:6]
            + (5).to_bytes(8, "big")
            + expected[14:18]
            + (7).to_bytes(4, "big")
            + expected[22:]
        )

    def test_lends_views_that_agree_with_the_bytes(self):
        taken = admitted(batch_of(b"a", b"b"), next_offset=5)
        [batch], [buffer] = taken.batches, taken.buffers
        assert batch.view == buffer
        assert (batch.base_offset, batch.last_offset) == (5, 6)
        assert batch.partition_leader_epoch == 7
        assert taken.size_bytes == len(buffer)

    def test_tells_the_largest_timestamp(self):
        records = [Record(0, 70, b"k", b"v"), Record(1, 90, b"k", b"v"), Record(2, 80, b"k", b"v")]
        taken = admitted(batch_of(*records), next_offset=5)
        assert taken.max_timestamp == 90
        assert taken.append_time_ms == -1

    def test_tells_where_there_is_no_timestamp(self):
        taken = admitted(batch_of(Record(0, -1, b"k", b"v")), next_offset=5)
        assert taken.max_timestamp == -1


class TestFollower:
    def test_takes_batches_as_they_are(self):
        batches = placed(10, 1, 2), placed(12, 3, codec=Codec.ZSTD), placed(13, 4, epoch=5)
        taken = followed(*batches, next_offset=10)
        assert written(taken) == b"".join(batches)
        assert taken.size_bytes == sum(map(len, batches))
        assert (taken.first_offset, taken.last_offset) == (10, 13)
        assert [batch.partition_leader_epoch for batch in taken.batches] == [3, 3, 5]

    def test_copies_nothing(self):
        received = bytearray(placed(10, 1))
        taken = admit_as_follower(memoryview(received), next_offset=10)
        assert taken.buffers[0].obj is received
        assert written(taken) == placed(10, 1)

    def test_takes_what_compaction_left(self):
        gone = empty_batch(BatchFields(base_offset=20), last_offset=25, max_timestamp=9)
        taken = followed(placed(10, 1), gone, next_offset=3)
        assert (taken.first_offset, taken.last_offset) == (10, 25)
        assert taken.max_timestamp == 9

    def test_takes_markers_and_what_no_client_may_send(self):
        marker = marker_batch(
            EndTransactionMarker(False, 0),
            timestamp=1,
            producer_id=5,
            producer_epoch=0,
            base_offset=11,
        )
        assert followed(placed(10, 1), marker, next_offset=10).last_offset == 11

    def test_takes_old_formats(self):
        records = [Record(offset, 100 - offset, b"k", b"v") for offset in range(10, 13)]
        plain = legacy_set(records, LegacyFormat(magic=0))
        taken = followed(plain, placed(13, 1), next_offset=10)
        assert (taken.first_offset, taken.last_offset) == (10, 13)
        assert taken.max_timestamp == 1
        assert len(taken.batches) == 4

    def test_knows_a_wrapper_by_its_last_offset(self):
        records = [Record(offset, 100 - offset, b"k", b"v") for offset in range(10, 13)]
        packed = legacy_set(records, LegacyFormat(magic=1, codec=Codec.GZIP))
        assert followed(packed, next_offset=12).first_offset == 12
        with pytest.raises(UnexpectedAppendOffset) as refusal:
            followed(packed, next_offset=13)
        assert (refusal.value.first_offset, refusal.value.last_offset) == (10, 12)

    def test_refuses_what_begins_below_its_end_and_tells_the_offsets(self):
        with pytest.raises(UnexpectedAppendOffset, match="offsets 10 to 14") as refusal:
            followed(placed(10, 1, 2), placed(12, 3, 4, 5), next_offset=11)
        assert (refusal.value.first_offset, refusal.value.last_offset) == (10, 14)

    @pytest.mark.parametrize("base_offset", [9, 10, 11])
    def test_refuses_offsets_that_do_not_ascend(self, base_offset):
        with pytest.raises(OffsetsOutOfOrder):
            followed(placed(10, 1, 2), placed(base_offset, 3), next_offset=10)

    def test_refuses_old_offsets_that_do_not_ascend(self):
        with pytest.raises(OffsetsOutOfOrder):
            followed(message(1, b"v", offset=10), message(1, b"v", offset=10), next_offset=10)

    def test_trims_a_partial_batch_at_the_end(self):
        taken = followed(placed(10, 1), placed(11, 2)[:-1], next_offset=10)
        assert written(taken) == placed(10, 1)
        assert taken.last_offset == 10

    def test_has_nothing_to_append_without_a_whole_batch(self):
        for records in (b"", placed(10, 1)[:-1]):
            nothing = followed(records, next_offset=10)
            assert (nothing.batches, nothing.buffers, nothing.first_offset) == ([], [], -1)

    def test_checks_every_checksum(self):
        damaged = placed(11, 2)
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            followed(placed(10, 1), damaged, next_offset=10)

    def test_tells_the_largest_timestamp_of_all_batches(self):
        taken = followed(placed(10, 1, 9), placed(12, 4, 3), next_offset=10)
        assert taken.max_timestamp == 9

    def test_never_looks_inside(self):
        batch = placed(10, 1)
        batch[61:] = bytes(len(batch) - 61)
        batch[17:21] = bytes(4)
        [view] = batches_in(batch)
        view.set_max_timestamp(2, view.timestamp_type)
        assert followed(batch, next_offset=10).last_offset == 10

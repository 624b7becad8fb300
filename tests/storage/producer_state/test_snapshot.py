"""Producer snapshot files: their bytes, Kafka's own files, damage, and file handling."""

import pickle
from pathlib import Path

import pytest

from odradek.protocol.codec import decode as decode_message
from odradek.protocol.codec import encode_bytes
from odradek.protocol.internal.producer_snapshot import ProducerSnapshot
from odradek.protocol.records.batch import batches_in
from odradek.protocol.records.crc32c import crc32c
from odradek.storage.producer_state.producer_state_entry import ProducerStateEntry
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.producer_state.snapshot import (
    CorruptSnapshot,
    ProducerSnapshots,
    decode,
    encode,
)
from tests.support.producer_log import NOON, PARTITION, Settings, batch_by
from tests.support.recorded_producers import names_of_recorded_producers, recorded_producers

PATH = Path("00000000000000000016.snapshot")

RECORDED = [
    pytest.param(recorded_producers(name), offset, id=f"{name} at {offset}")
    for name in names_of_recorded_producers()
    for offset in recorded_producers(name).snapshots
]


def state_after(*batches) -> ProducerStateEntry:
    state = ProducerStateEntry(-1, -1, -1, None, b"")
    for batch in batches:
        state = state.with_batch(batch)
    return state


def dump_fields(producer_id: int, state: ProducerStateEntry) -> dict[str, int | None]:
    """The fields that DumpLogSegments prints."""
    fields = {
        "producer_id": producer_id,
        "epoch": state.epoch,
        "coordinator_epoch": state.coordinator_epoch,
        "transaction_first_offset": state.current_txn_first_offset,
        "last_timestamp": state.last_timestamp,
    }
    batch = state.last_batch
    if batch is not None:
        fields |= {
            "first_sequence": batch.first_sequence,
            "last_sequence": batch.last_sequence,
            "last_offset": batch.last_offset,
            "offset_delta": batch.offset_delta,
        }
    return fields


def with_checksum(content: bytes) -> bytes:
    return content[:2] + crc32c(content[6:]).to_bytes(4, "big") + content[6:]


class TestFormat:
    def test_bytes_of_a_transactional_producer(self):
        batch = batch_by(epoch=2, sequence=8, count=3, timestamp=NOON, transactional=True)
        batch.assign_offsets(40)
        assert encode({7: state_after(batch)}).hex(" ", 2) == (
            "0001 "  # version
            "037a 8af6 "  # checksum
            "0000 0001 "  # count
            "0000 0000 0000 0007 "  # producer id
            "0002 "  # epoch
            "0000 000a "  # last sequence
            "0000 0000 0000 002a "  # last offset
            "0000 0002 "  # offset delta
            "0000 0174 876e 8000 "  # last timestamp
            "ffff ffff "  # coordinator epoch
            "0000 0000 0000 0028"  # transaction first offset
        )

    def test_bytes_without_producers(self):
        assert encode({}).hex(" ", 2) == "0001 4867 4bc7 0000 0000"

    def test_producer_known_only_from_a_marker_round_trips(self):
        state = ProducerStateEntry(3, 5, NOON, None, b"")
        assert decode(encode({7: state}), path=PATH) == {7: state}

    def test_only_the_newest_of_the_last_batches_is_kept(self):
        state = state_after(*(batch_by(sequence=number) for number in range(5)))
        loaded = decode(encode({7: state}), path=PATH)[7]
        assert [batch.last_sequence for batch in loaded.batches] == [4]

    def test_declared_schema_reads_and_writes_the_same_bytes(self):
        content = encode({7: state_after(batch_by()), 8: ProducerStateEntry(3, 5, NOON, 12, b"")})
        message = decode_message(ProducerSnapshot, 1, content, position=2)
        assert [entry.producer_id for entry in message.producer_entries] == [7, 8]
        assert message.crc == crc32c(content[6:])
        assert content == b"\0\1" + encode_bytes(message, 1)


class TestSnapshotsOfKafka:
    @pytest.mark.parametrize(("recorded", "offset"), RECORDED)
    def test_entries_are_those_that_kafka_reads(self, recorded, offset):
        states = decode(recorded.snapshots[offset], path=PATH)
        assert [dump_fields(*entry) for entry in states.items()] == recorded.entries[offset]

    @pytest.mark.parametrize(("recorded", "offset"), RECORDED)
    def test_encoding_again_gives_the_same_bytes(self, recorded, offset):
        content = recorded.snapshots[offset]
        assert encode(decode(content, path=PATH)) == content

    @pytest.mark.parametrize(("recorded", "offset"), RECORDED)
    def test_replay_of_the_log_gives_the_entries_of_the_snapshot(self, recorded, offset, tmp_path):
        states = ProducerStateManager(PARTITION, tmp_path, Settings())
        for segment in recorded.segments.values():
            batches = [batch for batch in batches_in(segment) if batch.base_offset < offset]
            states.replay(batches, end_offset=offset)
        fields = [dump_fields(*entry) for entry in sorted(states.active_producers.items())]
        assert fields == sorted(recorded.entries[offset], key=lambda entry: entry["producer_id"])

    def test_open_transaction_sets_the_first_unstable_offset(self, tmp_path):
        recorded = recorded_producers("transactional")
        for offset, content in recorded.snapshots.items():
            ProducerSnapshots(tmp_path).path(offset).write_bytes(content)
        states = ProducerStateManager(PARTITION, tmp_path, Settings())
        states.truncate_and_reload(start=0, end=100, now_ms=NOON)
        assert states.transactions.first_unstable_offset == 2
        assert states.map_end_offset == 16


class TestDamage:
    content = encode({7: state_after(batch_by()), 8: ProducerStateEntry(3, 5, NOON, 12, b"")})

    def test_every_truncation_is_detected(self):
        for length in range(len(self.content)):
            with pytest.raises(CorruptSnapshot):
                decode(self.content[:length], path=PATH)

    def test_every_flipped_bit_is_detected(self):
        for position in range(len(self.content)):
            for bit in range(8):
                damaged = bytearray(self.content)
                damaged[position] ^= 1 << bit
                with pytest.raises(CorruptSnapshot):
                    decode(bytes(damaged), path=PATH)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "0 bytes, too few for a header"),
            (bytes(102), "unsupported version 0"),
            (b"\0\2" + content[2:], "unsupported version 2"),
            (content[:-1] + b"\1", "checksum .*, but the bytes have "),
            (with_checksum(content[:6] + b"\0\0\0\3" + content[10:]), "3 entries in 102 bytes"),
            (with_checksum(content[:6] + b"\xff" * 4 + content[10:]), "-1 entries in 102 bytes"),
            (with_checksum(content + b"\0"), "2 entries in 103 bytes"),
        ],
    )
    def test_error_names_path_and_reason(self, content, reason):
        with pytest.raises(CorruptSnapshot, match=f"^{PATH}: {reason}"):
            decode(content, path=PATH)

    @pytest.mark.parametrize("offsets", [(5, 5), (5, 50)])
    def test_invalid_first_offsets_of_open_transactions_are_detected(self, tmp_path, offsets):
        states = {
            number: ProducerStateEntry(0, 0, NOON, offset, b"")
            for number, offset in enumerate(offsets)
        }
        snapshots = ProducerSnapshots(tmp_path)
        snapshots.write(50, states, is_synced=False)
        with pytest.raises(CorruptSnapshot, match="invalid first offsets of open transactions"):
            snapshots.read(50)

    def test_missing_file_is_corrupt(self, tmp_path):
        snapshots = ProducerSnapshots(tmp_path)
        snapshots.write(5, {}, is_synced=False).unlink()
        with pytest.raises(CorruptSnapshot, match="the file does not exist"):
            snapshots.read(5)

    def test_corrupt_snapshot_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(CorruptSnapshot(PATH, reason="torn")))
        assert (error.path, error.reason, str(error)) == (PATH, "torn", f"{PATH}: torn")


class TestFiles:
    @pytest.fixture
    def snapshots(self, tmp_path):
        snapshots = ProducerSnapshots(tmp_path)
        for offset in (30, 10, 20):
            snapshots.write(offset, {}, is_synced=False)
        return snapshots

    def remaining(self, snapshots):
        assert ProducerSnapshots(snapshots.directory).offsets == snapshots.offsets
        return snapshots.offsets

    def test_files_are_named_by_offset(self, snapshots):
        assert snapshots.path(10).name == "00000000000000000010.snapshot"
        assert self.remaining(snapshots) == [10, 20, 30]

    def test_given_offsets_are_used_without_listing_the_directory(self, snapshots):
        assert ProducerSnapshots(snapshots.directory, [30, 10]).offsets == [10, 30]

    def test_other_files_are_ignored(self, snapshots):
        for name in ("5.snapshot", "x.snapshot", f"{5:020}.log", f"{5:020}.snapshot.deleted"):
            (snapshots.directory / name).touch()
        assert self.remaining(snapshots) == [10, 20, 30]

    def test_latest_offset(self, snapshots, tmp_path_factory):
        assert snapshots.latest_offset == 30
        assert ProducerSnapshots(tmp_path_factory.mktemp("none")).latest_offset is None

    @pytest.mark.parametrize(
        ("start", "end", "kept"),
        [(10, 30, [10, 20, 30]), (11, 29, [20]), (0, 10, [10]), (31, 40, []), (0, 0, [])],
    )
    def test_snapshots_outside_the_log_are_removed(self, snapshots, start, end, kept):
        snapshots.remove_outside(start=start, end=end)
        assert self.remaining(snapshots) == kept

    @pytest.mark.parametrize(
        ("segments", "kept"),
        [
            ([10, 20, 30], [10, 20, 30]),
            ([10, 20], [10, 20, 30]),  # the last one was written by a clean close
            ([0, 20], [20, 30]),
            ([10, 20, 25], [10, 20, 30]),
            ([10, 30], [10, 30]),
            ([40], []),
            ([], [30]),
        ],
    )
    def test_stray_snapshots_are_removed(self, snapshots, segments, kept):
        snapshots.remove_strays(segments)
        assert self.remaining(snapshots) == kept

    def test_snapshot_marked_deleted_is_renamed(self, snapshots):
        marked = snapshots.mark_deleted(20)
        assert marked == snapshots.directory / "00000000000000000020.snapshot.deleted"
        assert marked.exists()
        assert self.remaining(snapshots) == [10, 30]

    def test_marking_a_missing_snapshot_deleted_returns_none(self, snapshots):
        assert snapshots.mark_deleted(15) is None
        snapshots.path(20).unlink()
        assert snapshots.mark_deleted(20) is None
        assert self.remaining(snapshots) == [10, 30]

    def test_snapshots_move_with_their_directory(self, snapshots, tmp_path_factory):
        moved = tmp_path_factory.mktemp("moved") / "orders-3"
        snapshots.directory.rename(moved)
        snapshots.directory = moved
        assert snapshots.read(20) == {}

    def test_writing_a_snapshot_again_replaces_it(self, snapshots):
        snapshots.write(20, {7: ProducerStateEntry(3, 5, NOON, None, b"")}, is_synced=False)
        snapshots.write(20, {}, is_synced=False)
        assert snapshots.read(20) == {}
        assert self.remaining(snapshots) == [10, 20, 30]

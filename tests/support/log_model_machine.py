"""A log and its model, to which the same things happen: the ground of the rules.

role        as the leader it numbers batches itself; as a follower it takes over numbered ones
replicas    follow at once, or lag: then the high watermark stays behind the end of the log
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.strategies import binary, booleans, integers, lists, none, sampled_from, tuples

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.storage import files
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.log_loader import LogLoadReport, open_log, recover_log
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.fault_points import Unsynced
from tests.support.log_model import LogModel, ModelBatch
from tests.support.logs import NOW_MS, PARTITION, place_of

RETENTION_MS = 30
DELETE_RETENTION_MS = 100
SETTINGS = {
    "cleanup_policy": ("compact", "delete"),
    "segment_bytes": 500,
    "index_interval_bytes": 100,
    "segment_index_bytes": 240,
    "retention_ms": RETENTION_MS,
    "delete_retention_ms": DELETE_RETENTION_MS,
    "min_cleanable_dirty_ratio": 0.0,
}
YOUNGEST_MS = NOW_MS + 25
#: Few, so that many are the same, and all can be asked for.
ALL_TIMESTAMPS = range(NOW_MS - 25, NOW_MS + 26, 5)
TIMESTAMPS = sampled_from(ALL_TIMESTAMPS)
KEYS = sampled_from([b"a", b"b", b"c", b"key of sixteen b", b"a key that is too long for the map"])
RECORDS = lists(tuples(TIMESTAMPS, KEYS, none() | binary(max_size=60)), min_size=1, max_size=4)
CODECS = sampled_from([Codec.NONE, Codec.LZ4])
ONE_RECORD = [(NOW_MS, b"a", b"x")]


class LogMachine(RuleBasedStateMachine):
    settings = SETTINGS
    #: The first value in a batch has at least so many.
    value_bytes = 0

    def __init__(self):
        super().__init__()
        self.synced_system, files.system = files.system, Unsynced()
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name) / "events-0"
        self.model = LogModel(watermark=0)
        self.log = self.opened()
        self.schedule = LogCleanerManager()
        self.compaction = None
        self.known_from = 0
        #: Else some are known from snapshots alone.
        self.all_producers_are_in_batches = True
        self.leader_epoch = 0
        self.now_ms = NOW_MS
        self.is_follower = False
        self.lag = 0

    def teardown(self):
        self.log.close_handlers()
        self.temporary.cleanup()
        files.system = self.synced_system

    def opened(self, *, is_recovered=False, **checkpointed):
        place = place_of(self.directory, **checkpointed, **self.settings)
        if is_recovered:
            recover_log(place)
        return open_log(place, LogLoadReport())

    # Roles and replicas

    @rule(is_follower=booleans())
    def change_roles(self, is_follower):
        self.is_follower = is_follower

    @rule(lag=sampled_from([0, 0, 1, 2, 4, 100]))
    def let_replicas_lag(self, lag):
        """By so many batches, at most."""
        self.lag = lag
        self.follow()

    @rule(count=integers(1, 4))
    def replicate(self, count):
        """So many batches more."""
        before = self.model.high_watermark
        ends = [b.last_offset + 1 for b in self.model.history if b.last_offset >= before]
        self.replicate_to([before, *ends][: count + 1][-1])

    def follow(self):
        if self.lag == 0:
            self.replicate_to(self.model.end_offset)
            return
        replicated = self.model.history[: -self.lag]
        end = replicated[-1].last_offset + 1 if replicated else 0
        self.replicate_to(max(self.model.high_watermark, end))

    def replicate_to(self, offset):
        self.log.update_high_watermark(offset)
        self.model.watermark = offset

    # Writing

    def append(self, records, **fields):
        """One batch, in the present role."""
        records = self._padded(records)
        base = self.model.end_offset
        written = self._written(batch_of(records, **fields), AppendOrigin.CLIENT)
        batch = model_batch(records, base, self.leader_epoch, **fields)
        assert not written.is_duplicate
        assert (written.first_offset, written.last_offset) == (base, batch.last_offset)
        self._appended(batch)

    def end_transaction(self, producer_id, *, producer_epoch, is_commit):
        base = self.model.end_offset
        marker = marker_of(producer_id, producer_epoch=producer_epoch, is_commit=is_commit)
        self._written(marker, AppendOrigin.COORDINATOR)
        self._appended(
            ModelBatch(
                (Record(base, NOW_MS, None, None),),
                base,
                producer_id,
                ends="commit" if is_commit else "abort",
                leader_epoch=self.leader_epoch,
                producer_epoch=producer_epoch,
            )
        )

    def _written(self, batch, origin):
        if not self.is_follower:
            return self.written_as_leader(batch, origin)
        RecordBatch(batch).assign_offsets(self.model.end_offset, self.leader_epoch)
        return self.log.append_as_follower(batch, now_ms=NOW_MS)

    def written_as_leader(self, batch, origin=AppendOrigin.CLIENT):
        return self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, now_ms=NOW_MS, origin=origin
        )

    def _appended(self, *batches):
        for batch in batches:
            self.model.append(batch)
        self.follow()

    def take_over(self, numbered):
        """Several batches at once, as a follower; ``numbered``: base offset, records, fields."""
        epoch = self.leader_epoch
        numbered = [(base, self._padded(records), fields) for base, records, fields in numbered]
        taken = [
            batch_of(records, base_offset=base, partition_leader_epoch=epoch, **fields)
            for base, records, fields in numbered
        ]
        written = self.log.append_as_follower(bytearray(b"".join(taken)), now_ms=NOW_MS)
        batches = [
            model_batch(records, base, epoch, **fields) for base, records, fields in numbered
        ]
        assert written.first_offset == batches[0].base_offset
        assert written.last_offset == batches[-1].last_offset
        self._appended(*batches)

    def _padded(self, records):
        (timestamp, key, value), *others = records
        if value is not None:
            value = value.ljust(self.value_bytes, b"-")
        return [(timestamp, key, value), *others]

    def refused(self, error, batch, origin=AppendOrigin.CLIENT):
        """As the leader; that the log is as it was, the invariants tell."""
        expect(error, lambda: self.written_as_leader(batch, origin))

    # Compaction and producers

    def pause_compaction(self):
        if not self.schedule.pause(PARTITION):
            self.stop_compacting()

    def stop_compacting(self):
        self.compaction.stop()
        self.compaction = None

    def resume_compaction(self, *, cut_at):
        self.schedule.maybe_truncate_checkpoint(self.log, cut_at)
        self.schedule.resume(PARTITION)

    def producers_were_read(self):
        self.known_from = max(self.log.segments.first.base_offset, self.model.decided_end)
        self.model.settled_end = self.log.producer_state_manager.last_snapshot_offset


def expect(error, action):
    with pytest.raises(error) as refused:
        action()
    assert refused.type is error


def batch_of(records, **fields):
    builder = BatchBuilder(BatchFields(**fields))
    for timestamp, key, value in records:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()


def model_batch(records, base, leader_epoch, **fields):
    return ModelBatch(
        tuple(Record(base + delta, *record) for delta, record in enumerate(records)),
        base,
        fields.get("producer_id", -1),
        fields.get("base_sequence", -1),
        fields.get("is_transactional", False),
        leader_epoch=leader_epoch,
        producer_epoch=fields.get("producer_epoch", -1),
    )


def marker_of(producer_id, *, producer_epoch, is_commit):
    return build_marker_batch(
        EndTransactionMarker(is_commit, 0),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )

"""A log as it should be: plain lists, and every answer computed from the whole history.

``history`` holds every batch that was appended and not truncated, even those before the start, as
producers are remembered beyond the deletion of their batches.

Compaction takes nothing out of it, but says which offsets are ``gone``.  Of a part of the log that
it has rewritten:

    data        stays where no later committed record, before the end of the keys that compaction
                knew, has its key; aborted data is gone
    tombstones  likewise, until ``delete.retention.ms`` after their batch was first rewritten with
                one that stays
    markers     may be gone when no data of their transaction is left, and as long after they were
                first rewritten
    aborted     transactions of which data is left are known, from an offset on that does not lie
                beyond it; of which all data is gone, they may be known
    producers   are remembered, and open transactions, and leader epochs

A transaction is unstable until the high watermark has passed its marker; but one that had ended
before the snapshot from which producers were read again is stable: snapshots tell only of open
ones.

A producer that was idle for too long is ``forgotten`` from some offset on.  What it wrote before
may come back whenever producers are read again, or may not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from odradek.protocol.records.record import Record
from odradek.storage.transaction_index import AbortedTxn

BATCHES_KEPT = 5


@dataclass(frozen=True)
class ModelBatch:
    records: tuple[Record, ...]
    base_offset: int
    producer_id: int = -1
    sequence: int = -1
    is_transactional: bool = False
    ends: str | None = None  # "commit" or "abort" if it is a marker
    leader_epoch: int = 0
    producer_epoch: int = 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + max(1, len(self.records)) - 1


@dataclass
class ModelTransaction:
    """A marker that ends nothing is in none."""

    producer_id: int
    batches: list[ModelBatch]
    marker: ModelBatch | None = None  # None: it is open

    @property
    def first_offset(self) -> int:
        return self.batches[0].base_offset

    @property
    def is_aborted(self) -> bool:
        return self.marker is not None and self.marker.ends == "abort"


@dataclass(frozen=True)
class ModelCompaction:
    """A round of compaction, which may rewrite what lies before ``end_offset``."""

    end_offset: int
    known_end: int  # the keys before it are known
    now_ms: int
    delete_retention_ms: int


@dataclass
class Compacted:
    """What has become of a log by compaction; times by the base offset of a batch."""

    gone: set[int] = field(default_factory=set)
    tombstones_until_ms: dict[int, int] = field(default_factory=dict)
    markers_until_ms: dict[int, int] = field(default_factory=dict)


@dataclass
class LogModel:
    history: list[ModelBatch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    compacted: Compacted = field(default_factory=Compacted)
    #: Nobody truncates what was taken for decided: it lay below the high watermark.
    decided_end: int = 0
    #: None: it is the end of the log.
    watermark: int | None = None
    #: Transactions whose markers lie before it are stable, wherever the high watermark is.
    settled_end: int = 0
    #: Producer id -> where the log ended when it was forgotten.
    forgotten: dict[int, int] = field(default_factory=dict)

    @property
    def high_watermark(self) -> int:
        return self.end_offset if self.watermark is None else self.watermark

    def append(self, batch: ModelBatch) -> None:
        self.history.append(batch)
        self.end_offset = batch.last_offset + 1

    def truncate(self, offset: int) -> None:
        assert offset >= self.decided_end, (offset, self.decided_end)
        if offset >= self.end_offset:
            return
        straddling = [
            batch.base_offset
            for batch in self.history
            if batch.base_offset < offset <= batch.last_offset
        ]
        self.history = [batch for batch in self.history if batch.last_offset < offset]
        self.end_offset = min([offset, *straddling])
        self.start_offset = min(self.start_offset, self.end_offset)
        self.forgotten = {each: min(at, self.end_offset) for each, at in self.forgotten.items()}
        if self.watermark is not None:
            self.watermark = min(self.watermark, self.end_offset)

    def end_before(self, offset: int) -> int:
        """Where the last batch before ``offset`` ends."""
        return max((b.last_offset + 1 for b in self.history if b.last_offset < offset), default=0)

    def begin_again(self, offset: int) -> None:
        """All is gone, producers too, and the log begins there."""
        self.history, self.forgotten, self.compacted = [], {}, Compacted()
        self.start_offset = self.end_offset = self.decided_end = offset
        self.settled_end = 0
        if self.watermark is not None:
            self.watermark = offset

    def compact(self, compaction: ModelCompaction, *, start: int, end: int) -> None:
        """The segments from ``start`` to before ``end`` have been rewritten."""
        self._decide(compaction.end_offset)
        outcomes = self._outcomes()
        latest = self._latest_committed(before=compaction.known_end)
        until_ms = compaction.now_ms + compaction.delete_retention_ms
        for batch in self.history:
            if not start <= batch.base_offset < end:
                continue
            if batch.ends:
                self.compacted.markers_until_ms.setdefault(batch.base_offset, until_ms)
            elif outcomes[batch.base_offset] == "abort":
                self.compacted.gone.update(record.offset for record in batch.records)
            elif batch.base_offset < compaction.known_end:
                self._compact_batch(batch, latest, now_ms=compaction.now_ms, until_ms=until_ms)

    def _compact_batch(
        self, batch: ModelBatch, latest: dict[bytes | None, int], *, now_ms: int, until_ms: int
    ) -> None:
        gone, horizons = self.compacted.gone, self.compacted.tombstones_until_ms
        has_passed = horizons.get(batch.base_offset, until_ms) <= now_ms
        for record in batch.records:
            is_old_tombstone = record.value is None and has_passed
            if latest[record.key] != record.offset or is_old_tombstone:
                gone.add(record.offset)
        if any(each.value is None and each.offset not in gone for each in batch.records):
            horizons.setdefault(batch.base_offset, until_ms)

    def _decide(self, end_offset: int) -> None:
        markers = [
            transaction.marker.last_offset + 1
            for transaction in self.transactions()
            if transaction.marker is not None and transaction.first_offset < end_offset
        ]
        producers = {batch.producer_id for batch in self.history if batch.producer_id >= 0}
        told = [self._all_told_by(producer_id) for producer_id in producers]
        forgetting = [
            batch.last_offset + 1
            for batch in told
            if batch is not None and batch.base_offset >= end_offset
        ]
        self.decided_end = max([self.decided_end, end_offset, *markers, *forgetting])

    def _all_told_by(self, producer_id: int) -> ModelBatch | None:
        """The batch from which on all that is known of a producer can be told.

        None if it is its first.  Else compaction need not keep anything before it, as the producer
        has written that much since, or in a newer epoch.
        """
        own = [batch for batch in self.history if batch.producer_id == producer_id]
        newest = [batch for batch in own if batch.producer_epoch == own[-1].producer_epoch]
        first = [*self.last_batches(producer_id), *newest][0]
        return None if first is own[0] else first

    def _outcomes(self) -> dict[int, str]:
        """ "commit", "abort" or "open" by the base offset of every data batch."""
        outcomes = {batch.base_offset: "commit" for batch in self.history if not batch.ends}
        for transaction in self.transactions():
            ends = transaction.marker.ends if transaction.marker else None
            outcomes.update((batch.base_offset, ends or "open") for batch in transaction.batches)
        return outcomes

    def _latest_committed(self, *, before: int) -> dict[bytes | None, int]:
        """By key, the offset of the last record before that offset."""
        outcomes = self._outcomes()
        return {
            record.key: record.offset
            for batch in self.history
            if outcomes.get(batch.base_offset) == "commit" and batch.base_offset < before
            for record in batch.records
        }

    def visible(self, start: int, end: int) -> list[Record]:
        """The data records from ``start`` to before ``end``."""
        return [
            record
            for batch in self.history
            if batch.ends is None and batch.last_offset < end
            for record in batch.records
            if start <= record.offset and record.offset not in self.compacted.gone
        ]

    def committed(self, start: int) -> list[Record]:
        """What a consumer with read_committed sees from ``start`` on."""
        outcomes, end = self._outcomes(), self.last_stable_offset()
        aborted = {
            record.offset
            for batch in self.history
            if outcomes.get(batch.base_offset) == "abort"
            for record in batch.records
        }
        return [record for record in self.visible(start, end) if record.offset not in aborted]

    def lasting_markers(self, now_ms: int) -> set[int]:
        """The offsets of those that must be there."""
        until_ms = self.compacted.markers_until_ms
        return {
            batch.base_offset
            for batch in self.history
            if batch.ends
            and batch.base_offset >= self.start_offset
            and now_ms < until_ms.get(batch.base_offset, now_ms + 1)
        } | {
            transaction.marker.base_offset
            for transaction in self.transactions()
            if transaction.marker is not None and self.first_left(transaction) is not None
        }

    def first_left(self, transaction: ModelTransaction) -> int | None:
        """The offset of the first of its records that can be read."""
        records = [record for batch in transaction.batches for record in batch.records]
        left = [
            record.offset
            for record in records
            if record.offset >= self.start_offset and record.offset not in self.compacted.gone
        ]
        return left[0] if left else None

    def transactions(self) -> list[ModelTransaction]:
        """In the order of their first offsets."""
        found: list[ModelTransaction] = []
        begun: dict[int, ModelTransaction] = {}
        for batch in self.history:
            if batch.ends:
                if batch.producer_id in begun:
                    begun.pop(batch.producer_id).marker = batch
            elif batch.is_transactional:
                if batch.producer_id not in begun:
                    begun[batch.producer_id] = ModelTransaction(batch.producer_id, [])
                    found.append(begun[batch.producer_id])
                begun[batch.producer_id].batches.append(batch)
        return found

    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset."""
        found = [each for each in self.transactions() if each.marker is None]
        return {transaction.producer_id: transaction.first_offset for transaction in found}

    def last_stable_offset(self) -> int:
        settled_end = max(self.settled_end, self.high_watermark)
        unstable = [
            transaction.first_offset
            for transaction in self.transactions()
            if transaction.marker is None or transaction.marker.base_offset >= settled_end
        ]
        return max(self.start_offset, min([*unstable, self.high_watermark]))

    def aborted(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Producer id, first and last offset of those that reach into the range."""
        return [
            (transaction.producer_id, transaction.first_offset, transaction.marker.base_offset)
            for transaction in self.transactions()
            if transaction.marker is not None
            and transaction.is_aborted
            and transaction.marker.base_offset >= start
            and transaction.first_offset < end
        ]

    def check_aborted(self, found: Iterable[AbortedTxn], *, start: int, end: int) -> None:
        """Whether these may be the answer for the range from ``start`` to before ``end``."""
        firsts = {(each.producer_id, each.last_offset): each.first_offset for each in found}
        for transaction in self.transactions():
            if transaction.marker is None or not transaction.is_aborted:
                continue
            last_offset = transaction.marker.base_offset
            first_offset = firsts.pop((transaction.producer_id, last_offset), None)
            if self._is_untouched(transaction):
                is_in_range = transaction.first_offset < end and start <= last_offset
                expected = transaction.first_offset if is_in_range else None
                assert first_offset == expected, transaction
                continue
            first_left = self.first_left(transaction)
            latest = last_offset if first_left is None else first_left
            if first_offset is not None:
                assert transaction.first_offset <= first_offset <= latest, transaction
            elif first_left is not None:
                assert not (first_left < end and start <= last_offset), transaction
        assert not firsts, f"{firsts} were not aborted"

    def _is_untouched(self, transaction: ModelTransaction) -> bool:
        """Whether all of it is there.  Of what is not, compaction forgets where it began."""
        offsets = {record.offset for batch in transaction.batches for record in batch.records}
        return min(offsets) >= self.start_offset and offsets.isdisjoint(self.compacted.gone)

    def first_at_or_after(self, timestamp: int, *, markers: Collection[int]) -> int | None:
        """``markers``: the offsets of those that are there."""
        times = self._timestamps(markers)
        return min((offset for offset in times if times[offset] >= timestamp), default=None)

    def of_largest_timestamp(self, *, markers: Collection[int]) -> tuple[int, int] | None:
        """The first offset with the largest timestamp, and that; ``markers`` as above."""
        times = self._timestamps(markers)
        return max(times.items(), key=lambda each: (each[1], -each[0]), default=None)

    def _timestamps(self, markers: Collection[int]) -> dict[int, int]:
        times = {r.offset: r.timestamp for r in self.visible(self.start_offset, self.end_offset)}
        return times | {
            batch.base_offset: batch.records[0].timestamp
            for batch in self.history
            if batch.base_offset in markers
        }

    def epochs(self) -> list[tuple[int, int]]:
        """Leader epochs and where they began, from the first batch on."""
        begun: dict[int, int] = {}
        for batch in self.history:
            begun.setdefault(batch.leader_epoch, batch.base_offset)
        return self.with_batches(list(begun.items()))

    def with_batches(self, epochs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Without those before the first batch; there may be a gap between the start and that."""
        offsets = [
            max(batch.base_offset, self.start_offset)
            for batch in self.history
            if batch.last_offset >= self.start_offset
        ]
        first_offset = offsets[0] if offsets else self.end_offset
        ends = [*(start for _, start in epochs[1:]), self.end_offset]
        return [
            (epoch, max(start, first_offset))
            for (epoch, start), end in zip(epochs, ends, strict=False)
            if max(start, first_offset) < end
        ]

    # Producers

    def epoch(self, producer_id: int) -> int:
        """The newest that it wrote with, or that its last transaction was ended with."""
        own = [batch.producer_epoch for batch in self.history if batch.producer_id == producer_id]
        return own[-1] if own else 0

    def next_sequence(self, producer_id: int) -> int:
        """In its epoch."""
        kept = self.last_batches(producer_id)
        return kept[-1].sequence + len(kept[-1].records) if kept else 0

    def last_batches(self, producer_id: int) -> list[ModelBatch]:
        """The last five data batches of a producer in its epoch, the newest last."""
        epoch = self.epoch(producer_id)
        own = [b for b in self.history if b.producer_id == producer_id and not b.ends]
        return [batch for batch in own if batch.producer_epoch == epoch][-BATCHES_KEPT:]

    def forget_idle_producers(self) -> None:
        """All but those with open transactions have been idle for too long."""
        producers = {batch.producer_id for batch in self.history if batch.producer_id >= 0}
        for producer_id in producers - self.open_transactions().keys():
            self.forgotten[producer_id] = self.end_offset

    def is_forgotten(self, producer_id: int) -> bool:
        return producer_id in self.forgotten and not self.is_known(producer_id)

    def is_known(self, producer_id: int) -> bool:
        """Whether it has written since it was last forgotten, or ever."""
        since = self.forgotten.get(producer_id, 0)
        own = [batch for batch in self.history if batch.producer_id == producer_id]
        return any(batch.base_offset >= since for batch in own)

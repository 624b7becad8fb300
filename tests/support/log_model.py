"""A log as it should be: plain lists, and every answer computed from the whole history.

``history`` holds every batch that was appended and not truncated, even those before the start, as
producers are remembered beyond the deletion of their batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.protocol.records.record import Record

BATCHES_KEPT = 5


@dataclass(frozen=True)
class ModelBatch:
    records: tuple[Record, ...]
    base_offset: int
    producer_id: int = -1
    sequence: int = -1
    is_transactional: bool = False
    ends: str | None = None  # "commit" or "abort" if it is a marker

    @property
    def last_offset(self) -> int:
        return self.base_offset + max(1, len(self.records)) - 1


@dataclass
class LogModel:
    history: list[ModelBatch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0

    def append(self, batch: ModelBatch) -> None:
        self.history.append(batch)
        self.end_offset = batch.last_offset + 1

    def truncate(self, offset: int) -> None:
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

    def visible(self, start: int, end: int) -> list[Record]:
        """The data records from ``start`` to before ``end``."""
        return [
            record
            for batch in self.history
            if batch.ends is None and batch.last_offset < end
            for record in batch.records
            if start <= record.offset
        ]

    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset."""
        found: dict[int, int] = {}
        for batch in self.history:
            if batch.ends:
                found.pop(batch.producer_id, None)
            elif batch.is_transactional:
                found.setdefault(batch.producer_id, batch.base_offset)
        return found

    def last_stable_offset(self) -> int:
        return max(self.start_offset, min([*self.open_transactions().values(), self.end_offset]))

    def aborted(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Producer id, first and last offset of those that reach into the range."""
        begun: dict[int, int] = {}
        found = []
        for batch in self.history:
            if batch.is_transactional and not batch.ends:
                begun.setdefault(batch.producer_id, batch.base_offset)
            elif batch.ends and batch.producer_id in begun:
                first = begun.pop(batch.producer_id)
                if batch.ends == "abort" and batch.base_offset >= start and first < end:
                    found.append((batch.producer_id, first, batch.base_offset))
        return sorted(found, key=lambda aborted: aborted[1])

    def first_at_or_after(self, timestamp: int) -> int | None:
        for batch in self.history:
            for record in batch.records:
                if record.offset >= self.start_offset and record.timestamp >= timestamp:
                    return record.offset
        return None

    def next_sequence(self, producer_id: int) -> int:
        kept = self.last_batches(producer_id)
        return kept[-1].sequence + len(kept[-1].records) if kept else 0

    def last_batches(self, producer_id: int) -> list[ModelBatch]:
        """The last five data batches of a producer, the newest last."""
        own = [b for b in self.history if b.producer_id == producer_id and not b.ends]
        return own[-BATCHES_KEPT:]

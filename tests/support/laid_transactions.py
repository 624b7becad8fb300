"""Batches of a log with transactions in it, as bytes to be laid into a segment."""

from __future__ import annotations

from typing import Self

from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from tests.support.batches import batch_of

FIRST, SECOND = 1001, 1002


class History:
    """Batches of one record each, at ascending offsets."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    @classmethod
    def usual(cls) -> Self:
        """Offsets 1 and 3 committed, 2 and 4 aborted, 8 open; 0 and 7 and 9 in no transaction."""
        return (
            cls()
            .record()
            .record(FIRST)
            .record(SECOND)
            .record(FIRST)
            .record(SECOND)
            .ends(FIRST, commit=True)
            .ends(SECOND, commit=False)
            .record()
            .record(FIRST)
            .record()
        )

    def record(self, producer: int | None = None) -> Self:
        fields = {} if producer is None else {"producer_id": producer, "producer_epoch": 0}
        sequence = {} if producer is None else {"base_sequence": 0}
        return self._add(
            batch_of(
                b"%d" % len(self.batches),
                base_offset=len(self.batches),
                is_transactional=producer is not None,
                **fields,
                **sequence,
            )
        )

    def ends(self, producer: int, *, commit: bool) -> Self:
        return self._add(
            build_marker_batch(
                EndTransactionMarker(commit, 0),
                timestamp=0,
                producer_id=producer,
                producer_epoch=0,
                base_offset=len(self.batches),
            )
        )

    def _add(self, batch: bytes | bytearray) -> Self:
        self.batches.append(bytes(batch))
        return self

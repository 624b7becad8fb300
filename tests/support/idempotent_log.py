"""A real log, as a client with an idempotent producer sees it.

log = IdempotentLog(directory)
log.send(batch)                 where it went, or where its original is
log.restart()                   as after a crash, or after a clean stop
"""

from pathlib import Path

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log import Written
from odradek.storage.log_truncation import truncate
from odradek.storage.producers.state import ProducerStates
from tests.support.logs import NOW_MS, PRODUCER_SETTINGS, batches_from, opened, recovered

#: Small, so that snapshots are taken and producers come back from them.
SEGMENT_BYTES = 300


class IdempotentLog:
    settings = PRODUCER_SETTINGS

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "orders-3"
        self._log = opened(self._directory, segment_bytes=SEGMENT_BYTES)

    @property
    def states(self) -> ProducerStates:
        return self._log.producers

    @property
    def batches(self) -> list[AnyBatch]:
        return batches_from(self._log, 0)

    def send(self, batch: RecordBatch, *, now_ms: int = NOW_MS) -> Written:
        sent = bytearray(batch.view)
        written = self._log.append_as_leader(sent, leader_epoch=0, now_ms=now_ms)
        self._log.advance_high_watermark(self._log.end_offset)
        return written

    def replicate(self, *batches: AnyBatch) -> None:
        for batch in batches:
            self._log.append_as_follower(bytearray(batch.view), now_ms=NOW_MS)

    def truncate(self, offset: int) -> None:
        truncate(self._log, offset, now_ms=NOW_MS)

    def restart(self, *, is_clean: bool = False) -> None:
        if is_clean:
            self._log.close(now_ms=NOW_MS)
            self._log = opened(self._directory, segment_bytes=SEGMENT_BYTES)
        else:
            self._log.abandon()
            self._log = recovered(self._directory, segment_bytes=SEGMENT_BYTES)

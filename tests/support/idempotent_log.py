"""A real log, as a client with an idempotent producer sees it.

log = IdempotentLog(directory)
log.send(batch)                 where it went, or where its original is
log.restart()                   as after a crash, or after a clean stop
"""

from pathlib import Path

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log_truncation import truncate_to
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.unified_log import LogAppendInfo
from tests.support.logs import NOW_MS, PRODUCER_SETTINGS, batches_from, opened, recovered

#: Small, so that snapshots are taken and producers come back from them.
SEGMENT_BYTES = 300


class IdempotentLog:
    settings = PRODUCER_SETTINGS

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "orders-3"
        self._log = opened(self._directory, segment_bytes=SEGMENT_BYTES)

    @property
    def states(self) -> ProducerStateManager:
        return self._log.producer_state_manager

    @property
    def batches(self) -> list[AnyBatch]:
        return batches_from(self._log, 0)

    def send(self, batch: RecordBatch, *, now_ms: int = NOW_MS) -> LogAppendInfo:
        sent = bytearray(batch.view)
        written = self._log.append_as_leader(sent, leader_epoch=0, now_ms=now_ms)
        self._log.update_high_watermark(self._log.log_end_offset)
        return written

    def replicate(self, *batches: AnyBatch) -> None:
        for batch in batches:
            self._log.append_as_follower(bytearray(batch.view), now_ms=NOW_MS)

    def truncate(self, offset: int) -> None:
        truncate_to(self._log, offset, now_ms=NOW_MS)

    def restart(self, *, is_clean: bool = False) -> None:
        if is_clean:
            self._log.close(now_ms=NOW_MS)
            self._log = opened(self._directory, segment_bytes=SEGMENT_BYTES)
        else:
            self._log.close_handlers()
            self._log = recovered(self._directory, segment_bytes=SEGMENT_BYTES)

"""Logs that are written while their broker is stopped, with what no client can write yet.

    create_topic(broker.address, "events")
    broker.stop()
    with offline_logs(broker.data_dir) as logs:
        with logs.find(TopicPartition("events", 0)) as log:
            end_transaction(log, 7, is_commit=False, timestamp=now_ms)
    broker.start()

Timestamps should be of today: a broker forgets producers that have been silent for a day.

Owner: the test's thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek.storage.manager.log_manager import LogManager
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.unified_log import UnifiedLog
from tests.support.log_managers import managing
from tests.support.logs import NOW_MS
from tests.support.producer_log import marker_by


@contextmanager
def offline_logs(data_dir: Path, **settings: Any) -> Iterator[LogManager]:
    """As a broker has them that runs; closed as one that stops does it."""
    manager = managing(data_dir, **settings)
    try:
        yield manager
    finally:
        manager.close(now_ms=NOW_MS)


def end_transaction(log: UnifiedLog, producer_id: int, *, is_commit: bool, timestamp: int) -> None:
    marker = marker_by(producer_id, is_commit=is_commit, timestamp=timestamp)
    log.append_as_leader(
        bytearray(marker.view), leader_epoch=0, now_ms=timestamp, origin=AppendOrigin.COORDINATOR
    )
    log.update_high_watermark(log.log_end_offset)

"""The truncation offset of a follower whose log has diverged from its leader's (KIP-595).

Kafka: AbstractFetcherThread.truncateOnFetchResponse, truncateToEpochEndOffsets and
getOffsetTruncationState.  log_truncator.py runs the truncation, storage/log_truncation.py changes
the files.

The leader's fetch response contains the largest epoch that the leader has up to the follower's last
epoch, and the end offset of that epoch in the leader's log.  If the follower has records of that
epoch, both logs are equal up to the lower of the two end offsets.  If it has none, the follower
truncates to the end of its own preceding epoch and fetches again.

Owner: none; pure.
"""

from __future__ import annotations

from odradek.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_END, EpochEnd
from odradek.storage.unified_log import UnifiedLog


def truncation_offset(log: UnifiedLog, leader_epoch_end: EpochEnd) -> int:
    """Return the new log end offset; never above the present one, so the process terminates."""
    if leader_epoch_end == UNDEFINED_EPOCH_END:
        return log.high_watermark
    local_epoch_end = log.leader_epoch_cache.end_offset_for(
        leader_epoch_end.epoch, log_end_offset=log.log_end_offset
    )
    if local_epoch_end == UNDEFINED_EPOCH_END:
        # The epoch is newer than all local ones: the logs diverge at the end of the leader's epoch.
        return min(leader_epoch_end.end_offset, log.log_end_offset)
    if local_epoch_end.epoch != leader_epoch_end.epoch:
        return min(local_epoch_end.end_offset, log.log_end_offset)
    return min(local_epoch_end.end_offset, leader_epoch_end.end_offset, log.log_end_offset)

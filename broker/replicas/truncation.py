"""Where does a follower cut its log, when its leader says that the two have parted?  (KIP-595)

The leader answers a fetch with the largest epoch that it has up to the follower's last one, and
where that ends in its log.  If the follower has records of that epoch, the logs are the same up to
where the shorter of the two ends it.  If it has not, it can only go back to the end of its own
epoch before, and has to ask again.

Owner: none; pure.
"""

from __future__ import annotations

from odradek.storage.leader_epoch_file_cache import UNDEFINED_EPOCH_END, EpochEnd
from odradek.storage.unified_log import UnifiedLog


def truncation_offset(log: UnifiedLog, leader_epoch_end: EpochEnd) -> int:
    """Where the log is to end.  Never beyond what it has, so that asking again comes to an end."""
    if leader_epoch_end == UNDEFINED_EPOCH_END:
        return log.high_watermark
    local_epoch_end = log.leader_epoch_cache.end_offset_for(
        leader_epoch_end.epoch, log_end_offset=log.log_end_offset
    )
    if local_epoch_end == UNDEFINED_EPOCH_END:
        # It is newer than all epochs here: the logs part where the leader's ends.
        return min(leader_epoch_end.end_offset, log.log_end_offset)
    if local_epoch_end.epoch != leader_epoch_end.epoch:
        return min(local_epoch_end.end_offset, log.log_end_offset)
    return min(local_epoch_end.end_offset, leader_epoch_end.end_offset, log.log_end_offset)

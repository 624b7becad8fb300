"""Where does a follower cut its log, when its leader says that the two have parted?  (KIP-595)

The leader answers a fetch with the largest epoch that it has up to the follower's last one, and
where that ends in its log.  If the follower has records of that epoch, the logs are the same up to
where the shorter of the two ends it.  If it has not, it can only go back to the end of its own
epoch before, and has to ask again.

Owner: none; pure.
"""

from __future__ import annotations

from odradek.storage.leader_epochs import UNKNOWN_END, EpochEnd
from odradek.storage.log import Log


def cut_for(log: Log, leaders: EpochEnd) -> int:
    """Where the log is to end.  Never beyond what it has, so that asking again comes to an end."""
    if leaders == UNKNOWN_END:
        return log.high_watermark
    own = log.epochs.end_offset_for(leaders.epoch, log_end_offset=log.end_offset)
    if own == UNKNOWN_END:
        # It is newer than all epochs here: the logs part where the leader's ends.
        return min(leaders.end_offset, log.end_offset)
    if own.epoch != leaders.epoch:
        return min(own.end_offset, log.end_offset)
    return min(own.end_offset, leaders.end_offset, log.end_offset)

"""The settings of a topic, each with the server's setting that stands in where the topic has none.

Read on top of the server's tables, log_settings.py and cleaner/settings.py.  The names, ranges and
defaults are Kafka 3.9's.
"""

from odradek.config.definition import (
    Importance,
    SettingError,
    UpdateMode,
    boolean,
    choice,
    integer,
    long,
    number,
    text,
    text_list,
)
from odradek.config.settings import Settings
from odradek.storage.setting_checks import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    TIMESTAMP_TYPES,
    check_gzip_level,
    check_message_format_version,
    check_throttled_replicas,
)

NEVER = 2**63 - 1
WEEK_MS = 7 * 24 * 3_600_000
DAY_MS = 24 * 3_600_000


class TopicSettings(Settings, update=UpdateMode.TOPIC):
    """How the logs of one topic are written, kept and cleaned."""

    cleanup_policy: tuple[str, ...] = text_list(
        "cleanup.policy",
        default=("delete",),
        one_of=CLEANUP_POLICIES,
        synonym="log.cleanup.policy",
        doc="What becomes of old records: `delete` drops old segments, `compact` keeps the last "
        "record of every key; both may be given.",
    )
    compression_type: str = choice(
        "compression.type",
        COMPRESSION_TYPES,
        default="producer",
        synonym="compression.type",
        doc="The codec that batches are stored with; `producer` leaves them as they come.",
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level",
        default=-1,
        check=check_gzip_level,
        synonym="compression.gzip.level",
        doc="How hard gzip tries, where `compression.type` is gzip; -1 is its own default.",
    )
    compression_lz4_level: int = integer(
        "compression.lz4.level",
        default=9,
        at_least=1,
        at_most=17,
        synonym="compression.lz4.level",
        doc="How hard lz4 tries, where `compression.type` is lz4.",
    )
    compression_zstd_level: int = integer(
        "compression.zstd.level",
        default=3,
        at_least=-131072,
        at_most=22,
        synonym="compression.zstd.level",
        doc="How hard zstd tries, where `compression.type` is zstd.",
    )
    delete_retention_ms: int = long(
        "delete.retention.ms",
        default=DAY_MS,
        at_least=0,
        synonym="log.cleaner.delete.retention.ms",
        doc="How long compaction keeps a tombstone, and so how long a reader from the start of the "
        "log may take without missing one.",
    )
    file_delete_delay_ms: int = long(
        "file.delete.delay.ms",
        default=60_000,
        at_least=0,
        synonym="log.segment.delete.delay.ms",
        doc="How long a file stays on disk under another name before it is removed.",
    )
    flush_messages: int = long(
        "flush.messages",
        default=NEVER,
        at_least=1,
        synonym="log.flush.interval.messages",
        doc="After how many records the log is forced to disk; 1 is after each append.",
    )
    flush_ms: int = long(
        "flush.ms",
        default=NEVER,
        at_least=0,
        synonym="log.flush.interval.ms",
        doc="For how long records may wait to be forced to disk.",
    )
    follower_throttled_replicas: tuple[str, ...] = text_list(
        "follower.replication.throttled.replicas",
        default=(),
        check=check_throttled_replicas,
        doc="Which followers fetch within the follower quota: `partition:broker` pairs, or `*`.",
    )
    index_interval_bytes: int = integer(
        "index.interval.bytes",
        default=4096,
        at_least=0,
        synonym="log.index.interval.bytes",
        doc="About how much of the log lies between two entries of an index.",
    )
    leader_throttled_replicas: tuple[str, ...] = text_list(
        "leader.replication.throttled.replicas",
        default=(),
        check=check_throttled_replicas,
        doc="Which replicas are served within the leader quota: `partition:broker` pairs, or `*`.",
    )
    max_compaction_lag_ms: int = long(
        "max.compaction.lag.ms",
        default=NEVER,
        at_least=1,
        synonym="log.cleaner.max.compaction.lag.ms",
        doc="The longest a record may stay out of reach of compaction.",
    )
    max_message_bytes: int = integer(
        "max.message.bytes",
        default=1024 * 1024 + 12,
        at_least=0,
        synonym="message.max.bytes",
        doc="The largest batch that a producer may send, as it is compressed.",
    )
    message_downconversion_enable: bool = boolean(
        "message.downconversion.enable",
        default=True,
        importance=Importance.LOW,
        synonym="log.message.downconversion.enable",
        doc="Whether consumers that know only old record formats are served, at the cost of "
        "rewriting for each of them.",
    )
    message_format_version: str = text(
        "message.format.version",
        default="3.0-IV1",
        check=check_message_format_version,
        synonym="log.message.format.version",
        doc="Has no effect, as in Kafka since 3.0: batches are stored in the present format.",
    )
    message_timestamp_type: str = choice(
        "message.timestamp.type",
        TIMESTAMP_TYPES,
        default="CreateTime",
        synonym="log.message.timestamp.type",
        doc="Whose clock counts: the producer's, or the broker's at the time of append.",
    )
    message_timestamp_before_max_ms: int = long(
        "message.timestamp.before.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.before.max.ms",
        doc="How far a producer's timestamp may lie in the past.",
    )
    message_timestamp_after_max_ms: int = long(
        "message.timestamp.after.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.after.max.ms",
        doc="How far a producer's timestamp may lie in the future.",
    )
    message_timestamp_difference_max_ms: int = long(
        "message.timestamp.difference.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.difference.max.ms",
        doc="The older way to bound timestamps, in both directions; the two above go before it.",
    )
    min_cleanable_dirty_ratio: float = number(
        "min.cleanable.dirty.ratio",
        default=0.5,
        at_least=0,
        at_most=1,
        synonym="log.cleaner.min.cleanable.ratio",
        doc="How much of a log, in bytes, must be new since the last compaction for the next.",
    )
    min_compaction_lag_ms: int = long(
        "min.compaction.lag.ms",
        default=0,
        at_least=0,
        synonym="log.cleaner.min.compaction.lag.ms",
        doc="For how long a record is safe from compaction.",
    )
    min_insync_replicas: int = integer(
        "min.insync.replicas",
        default=1,
        at_least=1,
        synonym="min.insync.replicas",
        doc="How many replicas must be in sync for an append with acks=all to be taken, and for "
        "consumers to be shown what was appended; no more than there are.",
    )
    preallocate: bool = boolean(
        "preallocate",
        default=False,
        synonym="log.preallocate",
        doc="Whether a new segment takes up all its room on disk at once.",
    )
    retention_bytes: int = long(
        "retention.bytes",
        default=-1,
        synonym="log.retention.bytes",
        doc="How large a partition may grow before old segments go; negative is without bound.",
    )
    retention_ms: int = long(
        "retention.ms",
        default=WEEK_MS,
        at_least=-1,
        synonym="log.retention.ms",
        doc="For how long records are kept; negative is for ever.",
    )
    segment_bytes: int = integer(
        "segment.bytes",
        default=1 << 30,
        at_least=14,
        synonym="log.segment.bytes",
        doc="How large a segment may grow, and so the largest set that can be appended.",
    )
    segment_index_bytes: int = integer(
        "segment.index.bytes",
        default=10 << 20,
        at_least=4,
        synonym="log.index.size.max.bytes",
        doc="How large the indexes of a segment may grow; a full one ends the segment.",
    )
    segment_jitter_ms: int = long(
        "segment.jitter.ms",
        default=0,
        at_least=0,
        synonym="log.roll.jitter.ms",
        doc="By how much, at most, the age of a segment is cut at random, so that not all roll at "
        "once.",
    )
    segment_ms: int = long(
        "segment.ms",
        default=WEEK_MS,
        at_least=1,
        synonym="log.roll.ms",
        doc="After how long a segment is rolled even if it is not full.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        default=False,
        synonym="unclean.leader.election.enable",
        doc="Whether a replica that lags may lead when no other is left, though records are lost.",
    )

    def check(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingError(
                "min.compaction.lag.ms",
                str(self.min_compaction_lag_ms),
                f"must be at most max.compaction.lag.ms={self.max_compaction_lag_ms}",
            )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def timestamp_before_limit_ms(self) -> int:
        """Whichever setting bounds the past; the older one only where the newer was left alone."""
        newer = self.message_timestamp_before_max_ms
        return newer if newer != NEVER else self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_limit_ms(self) -> int:
        """Likewise for the future."""
        newer = self.message_timestamp_after_max_ms
        return newer if newer != NEVER else self.message_timestamp_difference_max_ms

    @property
    def max_segment_ms(self) -> int:
        """After how long a segment is rolled: compaction cannot reach records before that."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

"""The settings of a topic.  Each has a server setting (``synonym``) that provides its default.

The server settings are in log_settings.py and cleaner/settings.py.  Names, ranges and defaults are
those of Kafka 3.9.
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
    """How the logs of one topic are written, retained and compacted.  Kafka: LogConfig."""

    cleanup_policy: tuple[str, ...] = text_list(
        "cleanup.policy",
        default=("delete",),
        one_of=CLEANUP_POLICIES,
        synonym="log.cleanup.policy",
        doc="What happens to old records: `delete` deletes old segments, `compact` keeps the last "
        "record of every key; both may be set.",
    )
    compression_type: str = choice(
        "compression.type",
        COMPRESSION_TYPES,
        default="producer",
        synonym="compression.type",
        doc="The codec that batches are stored with; `producer` keeps the codec of the producer.",
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level",
        default=-1,
        check=check_gzip_level,
        synonym="compression.gzip.level",
        doc="The gzip level, if `compression.type` is gzip; -1 is the default of gzip.",
    )
    compression_lz4_level: int = integer(
        "compression.lz4.level",
        default=9,
        at_least=1,
        at_most=17,
        synonym="compression.lz4.level",
        doc="The lz4 level, if `compression.type` is lz4.",
    )
    compression_zstd_level: int = integer(
        "compression.zstd.level",
        default=3,
        at_least=-131072,
        at_most=22,
        synonym="compression.zstd.level",
        doc="The zstd level, if `compression.type` is zstd.",
    )
    delete_retention_ms: int = long(
        "delete.retention.ms",
        default=DAY_MS,
        at_least=0,
        synonym="log.cleaner.delete.retention.ms",
        doc="How long compaction keeps a tombstone, and so how long a consumer that reads from the "
        "start may take without missing it.",
    )
    file_delete_delay_ms: int = long(
        "file.delete.delay.ms",
        default=60_000,
        at_least=0,
        synonym="log.segment.delete.delay.ms",
        doc="How long a renamed file stays on disk before it is removed.",
    )
    flush_messages: int = long(
        "flush.messages",
        default=NEVER,
        at_least=1,
        synonym="log.flush.interval.messages",
        doc="The number of records after which the log is flushed; 1 flushes after each append.",
    )
    flush_ms: int = long(
        "flush.ms",
        default=NEVER,
        at_least=0,
        synonym="log.flush.interval.ms",
        doc="How long records may stay unflushed.",
    )
    follower_throttled_replicas: tuple[str, ...] = text_list(
        "follower.replication.throttled.replicas",
        default=(),
        check=check_throttled_replicas,
        doc="Followers that fetch within the follower quota: `partition:broker` pairs, or `*`.",
    )
    index_interval_bytes: int = integer(
        "index.interval.bytes",
        default=4096,
        at_least=0,
        synonym="log.index.interval.bytes",
        doc="The approximate number of bytes between two index entries.",
    )
    leader_throttled_replicas: tuple[str, ...] = text_list(
        "leader.replication.throttled.replicas",
        default=(),
        check=check_throttled_replicas,
        doc="Replicas that are served within the leader quota: `partition:broker` pairs, or `*`.",
    )
    max_compaction_lag_ms: int = long(
        "max.compaction.lag.ms",
        default=NEVER,
        at_least=1,
        synonym="log.cleaner.max.compaction.lag.ms",
        doc="The longest time that a record may stay uncompacted.",
    )
    max_message_bytes: int = integer(
        "max.message.bytes",
        default=1024 * 1024 + 12,
        at_least=0,
        synonym="message.max.bytes",
        doc="The largest batch that a producer may send, after compression.",
    )
    message_downconversion_enable: bool = boolean(
        "message.downconversion.enable",
        default=True,
        importance=Importance.LOW,
        synonym="log.message.downconversion.enable",
        doc="Whether consumers that only support old record formats are served, which costs a "
        "conversion per fetch.",
    )
    message_format_version: str = text(
        "message.format.version",
        default="3.0-IV1",
        check=check_message_format_version,
        synonym="log.message.format.version",
        doc="Has no effect, as in Kafka since 3.0: batches are stored in the current format.",
    )
    message_timestamp_type: str = choice(
        "message.timestamp.type",
        TIMESTAMP_TYPES,
        default="CreateTime",
        synonym="log.message.timestamp.type",
        doc="Which clock sets timestamps: the producer's, or the broker's at the time of append.",
    )
    message_timestamp_before_max_ms: int = long(
        "message.timestamp.before.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.before.max.ms",
        doc="How far the timestamp of a record may lie in the past.",
    )
    message_timestamp_after_max_ms: int = long(
        "message.timestamp.after.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.after.max.ms",
        doc="How far the timestamp of a record may lie in the future.",
    )
    message_timestamp_difference_max_ms: int = long(
        "message.timestamp.difference.max.ms",
        default=NEVER,
        at_least=0,
        synonym="log.message.timestamp.difference.max.ms",
        doc="The older limit of timestamps, in both directions; the two above override it.",
    )
    min_cleanable_dirty_ratio: float = number(
        "min.cleanable.dirty.ratio",
        default=0.5,
        at_least=0,
        at_most=1,
        synonym="log.cleaner.min.cleanable.ratio",
        doc="The share of a log, in bytes, that must be dirty before it is compacted again.",
    )
    min_compaction_lag_ms: int = long(
        "min.compaction.lag.ms",
        default=0,
        at_least=0,
        synonym="log.cleaner.min.compaction.lag.ms",
        doc="The shortest time before a record may be compacted.",
    )
    min_insync_replicas: int = integer(
        "min.insync.replicas",
        default=1,
        at_least=1,
        synonym="min.insync.replicas",
        doc="The number of in-sync replicas required to accept an append with acks=all, and to "
        "show appended records to consumers; limited to the number of replicas.",
    )
    preallocate: bool = boolean(
        "preallocate",
        default=False,
        synonym="log.preallocate",
        doc="Whether a new segment allocates its maximum size on disk at once.",
    )
    retention_bytes: int = long(
        "retention.bytes",
        default=-1,
        synonym="log.retention.bytes",
        doc="The size of a partition above which old segments are deleted; negative: no limit.",
    )
    retention_ms: int = long(
        "retention.ms",
        default=WEEK_MS,
        at_least=-1,
        synonym="log.retention.ms",
        doc="How long records are kept; -1: no limit.",
    )
    segment_bytes: int = integer(
        "segment.bytes",
        default=1 << 30,
        at_least=14,
        synonym="log.segment.bytes",
        doc="The largest size of a segment, and so of a record set that can be appended.",
    )
    segment_index_bytes: int = integer(
        "segment.index.bytes",
        default=10 << 20,
        at_least=4,
        synonym="log.index.size.max.bytes",
        doc="The largest size of a segment's indexes; a full index rolls the segment.",
    )
    segment_jitter_ms: int = long(
        "segment.jitter.ms",
        default=0,
        at_least=0,
        synonym="log.roll.jitter.ms",
        doc="The largest random reduction of a segment's maximum age, so that segments do not all "
        "roll at once.",
    )
    segment_ms: int = long(
        "segment.ms",
        default=WEEK_MS,
        at_least=1,
        synonym="log.roll.ms",
        doc="The age at which a segment is rolled even if it is not full.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        default=False,
        synonym="unclean.leader.election.enable",
        doc="Whether an out-of-sync replica may become leader if no other is left; loses records.",
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
        """The limit for the past; the older setting applies only if the newer one is not set."""
        newer = self.message_timestamp_before_max_ms
        return newer if newer != NEVER else self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_limit_ms(self) -> int:
        """The limit for the future; the older setting applies only if the newer is not set."""
        newer = self.message_timestamp_after_max_ms
        return newer if newer != NEVER else self.message_timestamp_difference_max_ms

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled; the active segment is never compacted."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

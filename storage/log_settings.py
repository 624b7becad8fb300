"""Server settings for logs: directories, maintenance intervals, and the defaults of topic settings.

Names, ranges and defaults are those of Kafka 3.9, except the default of ``log.dir``: Kafka's
default is in the directory for temporary files, which a restart of the machine may empty.
"""

from odradek.config.definition import (
    Importance,
    SettingError,
    UpdateMode,
    boolean,
    choice,
    integer,
    long,
    text,
    text_list,
    value_of,
)
from odradek.config.settings import Settings
from odradek.storage.setting_checks import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    TIMESTAMP_TYPES,
    check_gzip_level,
    check_message_format_version,
)
from odradek.storage.settings import NEVER

HOUR_MS = 3_600_000


def _check_retention_ms(retention_ms: int) -> str | None:
    return "must be at least 1, or negative for no limit" if retention_ms == 0 else None


class LogSettings(Settings):
    """Settings for all logs of a broker."""

    dir: str = text(
        "log.dir",
        default="kafka-logs",
        importance=Importance.HIGH,
        doc="The directory of all logs, used if `log.dirs` is not set.",
    )
    dirs: str = text(
        "log.dirs",
        default=value_of("log.dir"),
        importance=Importance.HIGH,
        doc="The log directories, separated by commas; best each on its own disk.",
    )
    recovery_threads_per_dir: int = integer(
        "num.recovery.threads.per.data.dir",
        default=1,
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="Threads per log directory that recover logs at startup and flush them at shutdown.",
    )
    retention_check_interval_ms: int = long(
        "log.retention.check.interval.ms",
        default=300_000,
        at_least=1,
        doc="How often the broker checks for segments to delete.",
    )
    flush_scheduler_interval_ms: int = long(
        "log.flush.scheduler.interval.ms",
        default=NEVER,
        importance=Importance.HIGH,
        doc="How often the broker checks for logs that must be flushed.",
    )
    flush_offset_checkpoint_interval_ms: int = integer(
        "log.flush.offset.checkpoint.interval.ms",
        default=60_000,
        at_least=0,
        importance=Importance.HIGH,
        doc="How often the recovery points of logs are checkpointed; recovery begins there.",
    )
    flush_start_offset_checkpoint_interval_ms: int = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        default=60_000,
        at_least=0,
        importance=Importance.HIGH,
        doc="How often the start offsets of logs are checkpointed, which keeps deleted records "
        "deleted after a restart.",
    )
    initial_task_delay_ms: int = long(
        "log.initial.task.delay.ms",
        default=30_000,
        at_least=0,
        importance=Importance.LOW,
        doc="The delay between startup and the first run of these tasks.",
    )
    producer_id_expiration_ms: int = integer(
        "producer.id.expiration.ms",
        default=86_400_000,
        at_least=1,
        importance=Importance.LOW,
        update=UpdateMode.CLUSTER,
        doc="How long a partition keeps the state of an idle producer.",
    )
    producer_id_expiration_check_interval_ms: int = integer(
        "producer.id.expiration.check.interval.ms",
        default=600_000,
        at_least=1,
        importance=Importance.LOW,
        doc="How often the broker checks for expired producers.",
    )
    transaction_partition_verification_enable: bool = boolean(
        "transaction.partition.verification.enable",
        default=True,
        importance=Importance.LOW,
        update=UpdateMode.CLUSTER,
        doc="Whether the first batch of a transaction in a partition is accepted only if the "
        "coordinator has added the partition to the transaction.",
    )
    # From here on: defaults of topic settings.
    cleanup_policy: tuple[str, ...] = text_list(
        "log.cleanup.policy",
        default=("delete",),
        one_of=CLEANUP_POLICIES,
        update=UpdateMode.CLUSTER,
        doc="The default of `cleanup.policy`.",
    )
    compression_type: str = choice(
        "compression.type",
        COMPRESSION_TYPES,
        default="producer",
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `compression.type`.",
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level",
        default=-1,
        check=check_gzip_level,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `compression.gzip.level`.",
    )
    compression_lz4_level: int = integer(
        "compression.lz4.level",
        default=9,
        at_least=1,
        at_most=17,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `compression.lz4.level`.",
    )
    compression_zstd_level: int = integer(
        "compression.zstd.level",
        default=3,
        at_least=-131072,
        at_most=22,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `compression.zstd.level`.",
    )
    segment_delete_delay_ms: int = long(
        "log.segment.delete.delay.ms",
        default=60_000,
        at_least=0,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `file.delete.delay.ms`.",
    )
    flush_interval_messages: int = long(
        "log.flush.interval.messages",
        default=NEVER,
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `flush.messages`.",
    )
    flush_interval_ms: int = long(
        "log.flush.interval.ms",
        default=value_of("log.flush.scheduler.interval.ms"),
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `flush.ms`.",
    )
    index_interval_bytes: int = integer(
        "log.index.interval.bytes",
        default=4096,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `index.interval.bytes`.",
    )
    index_size_max_bytes: int = integer(
        "log.index.size.max.bytes",
        default=10 << 20,
        at_least=4,
        update=UpdateMode.CLUSTER,
        doc="The default of `segment.index.bytes`.",
    )
    message_max_bytes: int = integer(
        "message.max.bytes",
        default=1024 * 1024 + 12,
        at_least=0,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `max.message.bytes`.",
    )
    message_downconversion_enable: bool = boolean(
        "log.message.downconversion.enable",
        default=True,
        importance=Importance.LOW,
        update=UpdateMode.CLUSTER,
        doc="The default of `message.downconversion.enable`.",
    )
    message_format_version: str = text(
        "log.message.format.version",
        default="3.0-IV1",
        check=check_message_format_version,
        doc="The default of `message.format.version`, which has no effect.",
    )
    message_timestamp_type: str = choice(
        "log.message.timestamp.type",
        TIMESTAMP_TYPES,
        default="CreateTime",
        update=UpdateMode.CLUSTER,
        doc="The default of `message.timestamp.type`.",
    )
    message_timestamp_before_max_ms: int = long(
        "log.message.timestamp.before.max.ms",
        default=NEVER,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `message.timestamp.before.max.ms`.",
    )
    message_timestamp_after_max_ms: int = long(
        "log.message.timestamp.after.max.ms",
        default=NEVER,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `message.timestamp.after.max.ms`.",
    )
    message_timestamp_difference_max_ms: int = long(
        "log.message.timestamp.difference.max.ms",
        default=NEVER,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `message.timestamp.difference.max.ms`.",
    )
    min_insync_replicas: int = integer(
        "min.insync.replicas",
        default=1,
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `min.insync.replicas`.",
    )
    preallocate: bool = boolean(
        "log.preallocate",
        default=False,
        update=UpdateMode.CLUSTER,
        doc="The default of `preallocate`.",
    )
    retention_bytes: int = long(
        "log.retention.bytes",
        default=-1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `retention.bytes`.",
    )
    retention_hours: int = integer(
        "log.retention.hours",
        default=168,
        importance=Importance.HIGH,
        doc="The default of `retention.ms`, in hours; the finest unit that is set is used.",
    )
    retention_minutes: int = integer(
        "log.retention.minutes",
        default=value_of("log.retention.hours", multiplier=60),
        importance=Importance.HIGH,
        doc="The default of `retention.ms`, in minutes.",
    )
    retention_ms: int = long(
        "log.retention.ms",
        default=value_of("log.retention.minutes", multiplier=60_000),
        check=_check_retention_ms,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `retention.ms`.",
    )
    segment_bytes: int = integer(
        "log.segment.bytes",
        default=1 << 30,
        at_least=14,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `segment.bytes`.",
    )
    roll_hours: int = integer(
        "log.roll.hours",
        default=168,
        at_least=1,
        importance=Importance.HIGH,
        doc="The default of `segment.ms`, in hours; the finest unit that is set is used.",
    )
    roll_ms: int = long(
        "log.roll.ms",
        default=value_of("log.roll.hours", multiplier=HOUR_MS),
        at_least=1,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `segment.ms`.",
    )
    roll_jitter_hours: int = integer(
        "log.roll.jitter.hours",
        default=0,
        at_least=0,
        importance=Importance.HIGH,
        doc="The default of `segment.jitter.ms`, in hours.",
    )
    roll_jitter_ms: int = long(
        "log.roll.jitter.ms",
        default=value_of("log.roll.jitter.hours", multiplier=HOUR_MS),
        at_least=0,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of `segment.jitter.ms`.",
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        default=False,
        importance=Importance.HIGH,
        update=UpdateMode.CLUSTER,
        doc="The default of the topic setting `unclean.leader.election.enable`.",
    )

    def check(self) -> None:
        if not self.directories:
            raise SettingError("log.dirs", self.dirs, "must name a directory")

    @property
    def directories(self) -> tuple[str, ...]:
        names = (name.strip() for name in self.dirs.split(","))
        return tuple(name for name in names if name)

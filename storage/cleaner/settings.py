"""The ``log.cleaner.*`` settings: resources of the cleaner, and defaults for topics."""

import sys

from odradek.config.definition import SettingError, UpdateMode, boolean, integer, long, number
from odradek.config.settings import Settings
from odradek.storage.settings import DAY_MS, NEVER

MIB = 1024 * 1024


class CleanerSettings(Settings):
    """The memory, I/O rate and schedule of the cleaner.  Kafka: CleanerConfig."""

    enable: bool = boolean(
        "log.cleaner.enable",
        default=True,
        doc="Whether logs are compacted at all. Needed for the topic of consumer group offsets.",
    )
    threads: int = integer(
        "log.cleaner.threads",
        default=1,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="0 stops compaction. A number above 1 adds no worker: one worker process "
        "compacts one log at a time.",
    )
    io_max_bytes_per_second: float = number(
        "log.cleaner.io.max.bytes.per.second",
        default=sys.float_info.max,
        update=UpdateMode.CLUSTER,
        doc="The maximum bytes that the cleaner reads and writes per second, in total.",
    )
    dedupe_buffer_bytes: int = long(
        "log.cleaner.dedupe.buffer.size",
        default=128 * MIB,
        update=UpdateMode.CLUSTER,
        doc="Memory for the last offset of every key, for all cleaner threads together.",
    )
    dedupe_buffer_load_factor: float = number(
        "log.cleaner.io.buffer.load.factor",
        default=0.9,
        update=UpdateMode.CLUSTER,
        doc="How full the dedupe buffer may get. A higher value cleans more keys at once, but "
        "slower.",
    )
    io_buffer_bytes: int = integer(
        "log.cleaner.io.buffer.size",
        default=MIB // 2,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="Memory for reading and writing, for all cleaner threads together.",
    )
    backoff_ms: int = long(
        "log.cleaner.backoff.ms",
        default=15_000,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="How long the cleaner waits when no log needs compaction.",
    )
    min_cleanable_ratio: float = number(
        "log.cleaner.min.cleanable.ratio",
        default=0.5,
        at_least=0,
        at_most=1,
        update=UpdateMode.CLUSTER,
        doc="The default of `min.cleanable.dirty.ratio`.",
    )
    delete_retention_ms: int = long(
        "log.cleaner.delete.retention.ms",
        default=DAY_MS,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `delete.retention.ms`.",
    )
    min_compaction_lag_ms: int = long(
        "log.cleaner.min.compaction.lag.ms",
        default=0,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The default of `min.compaction.lag.ms`.",
    )
    max_compaction_lag_ms: int = long(
        "log.cleaner.max.compaction.lag.ms",
        default=NEVER,
        at_least=1,
        update=UpdateMode.CLUSTER,
        doc="The default of `max.compaction.lag.ms`.",
    )

    def check(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise SettingError(
                "log.cleaner.min.compaction.lag.ms",
                str(self.min_compaction_lag_ms),
                f"must be at most log.cleaner.max.compaction.lag.ms={self.max_compaction_lag_ms}",
            )
        if self.dedupe_buffer_bytes <= self.threads * MIB:
            raise SettingError(
                "log.cleaner.dedupe.buffer.size",
                str(self.dedupe_buffer_bytes),
                f"must be more than 1 MiB for each of log.cleaner.threads={self.threads}",
            )

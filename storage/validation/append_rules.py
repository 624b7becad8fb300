"""The rules of a topic for appended records, computed once from its settings.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from odradek.protocol.records.compression import Codec
from odradek.storage.settings import TopicSettings

UNBOUNDED_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    """Plain attributes only, so that an append computes nothing from the settings."""

    max_message_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    is_compacted: bool
    codec: Codec | None  # None: the codec of the producer
    compression_level: int | None  # None: the codec's default
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    #: Whether every record of every batch must be validated.
    requires_record_validation: bool = field(init=False)
    #: Whether an ordinary producer batch can be appended without changes.
    allows_fast_path: bool = field(init=False)

    def __post_init__(self) -> None:
        has_bounds = (
            self.timestamp_before_max_ms < UNBOUNDED_MS
            or self.timestamp_after_max_ms < UNBOUNDED_MS
        )
        requires_validation = self.is_compacted or (has_bounds and not self.is_log_append_time)
        object.__setattr__(self, "requires_record_validation", requires_validation)
        allows_fast_path = (
            self.codec is None and not requires_validation and not self.is_log_append_time
        )
        object.__setattr__(self, "allows_fast_path", allows_fast_path)


# Thousands of logs share a few different settings.
@lru_cache(maxsize=256)
def append_rules_for(settings: TopicSettings) -> AppendRules:
    codec = _CODECS[settings.compression_type]
    levels = {
        Codec.GZIP: settings.compression_gzip_level,
        Codec.LZ4: settings.compression_lz4_level,
        Codec.ZSTD: settings.compression_zstd_level,
    }
    return AppendRules(
        max_message_bytes=settings.max_message_bytes,
        segment_bytes=settings.segment_bytes,
        segment_ms=settings.max_segment_ms,
        segment_jitter_ms=settings.segment_jitter_ms,
        is_compacted=settings.is_compacted,
        codec=codec,
        compression_level=None if codec is None else levels.get(codec),
        is_log_append_time=settings.is_log_append_time,
        timestamp_before_max_ms=settings.timestamp_before_limit_ms,
        timestamp_after_max_ms=settings.timestamp_after_limit_ms,
    )


_CODECS = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

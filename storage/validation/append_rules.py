"""What a topic demands of the records appended to it, worked out once from its settings.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from odradek.protocol.records.compression import Codec
from odradek.storage.settings import TopicSettings

UNBOUNDED_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    """Attributes only, so that an append reads and computes nothing else."""

    max_message_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    is_compacted: bool
    codec: Codec | None  # None: whatever the producer chose
    level: int | None  # None: the codec's default
    is_append_time: bool
    before_max_ms: int
    after_max_ms: int
    #: Whether every record must be looked at, in whatever batch it comes.
    walks_records: bool = field(init=False)
    #: Whether a batch as producers usually send it is appended as it is.
    takes_usual_batches: bool = field(init=False)

    def __post_init__(self) -> None:
        bounded = self.before_max_ms < UNBOUNDED_MS or self.after_max_ms < UNBOUNDED_MS
        walks = self.is_compacted or (bounded and not self.is_append_time)
        object.__setattr__(self, "walks_records", walks)
        usual = self.codec is None and not walks and not self.is_append_time
        object.__setattr__(self, "takes_usual_batches", usual)


# Thousands of logs have a handful of different settings.
@lru_cache(maxsize=256)
def append_rules(settings: TopicSettings) -> AppendRules:
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
        level=None if codec is None else levels.get(codec),
        is_append_time=settings.is_append_time,
        before_max_ms=settings.timestamp_before_limit_ms,
        after_max_ms=settings.timestamp_after_limit_ms,
    )


_CODECS = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

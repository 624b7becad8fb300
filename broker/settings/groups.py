"""The settings of the group coordinator.  The names, ranges and defaults are Kafka 3.9's."""

from __future__ import annotations

from odradek.config.definition import Importance, integer, long
from odradek.config.settings import Settings
from odradek.protocol.records.compression import Codec


def _codec_rule(number: int) -> str | None:
    return None if number in {*Codec} else "must be the number of a codec, 0 to 4"


class GroupSettings(Settings):
    """Groups of consumers, and the offsets that they commit."""

    min_session_timeout_ms: int = integer(
        "group.min.session.timeout.ms",
        default=6_000,
        doc="The shortest session that a member may ask for.  A shorter one finds out sooner that "
        "a member is gone, and makes for more heartbeats.",
    )
    max_session_timeout_ms: int = integer(
        "group.max.session.timeout.ms",
        default=1_800_000,
        doc="The longest session that a member may ask for.",
    )
    initial_rebalance_delay_ms: int = integer(
        "group.initial.rebalance.delay.ms",
        default=3_000,
        doc="How long the first members of an empty group wait for others, and again for as long "
        "whenever others have come.",
    )
    max_size: int = integer(
        "group.max.size",
        default=2**31 - 1,
        at_least=1,
        doc="How many members a group may have.",
    )
    metadata_max_bytes: int = integer(
        "offset.metadata.max.bytes",
        default=4096,
        importance=Importance.HIGH,
        doc="How long the text may be that goes with a committed offset.",
    )
    load_buffer_bytes: int = integer(
        "offsets.load.buffer.size",
        default=5 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="How much is read at a time when the groups of a partition are loaded.",
    )
    retention_minutes: int = integer(
        "offsets.retention.minutes",
        default=7 * 24 * 60,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long offsets are kept once nobody uses them: since the group has become empty, or "
        "since the commit where it no longer subscribes to the topic, or never had members.",
    )
    retention_check_interval_ms: int = long(
        "offsets.retention.check.interval.ms",
        default=600_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="How often it is looked for such offsets.",
    )
    codec_number: int = integer(
        "offsets.topic.compression.codec",
        default=0,
        check=_codec_rule,
        importance=Importance.HIGH,
        doc="How records of `__consumer_offsets` are compressed: 0 not at all, 1 gzip, 2 snappy, "
        "3 lz4, 4 zstd.",
    )
    commit_timeout_ms: int = integer(
        "offsets.commit.timeout.ms",
        default=5_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long an answer waits until all replicas in sync have what it tells of.",
    )

    @property
    def topic_codec(self) -> Codec:
        return Codec(self.codec_number)

    @property
    def retention_ms(self) -> int:
        return self.retention_minutes * 60_000

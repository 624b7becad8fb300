"""Settings of the group coordinator.  Names, ranges and defaults are Kafka 3.9's."""

from __future__ import annotations

from odradek.config.definition import Importance, integer, long
from odradek.config.settings import Settings
from odradek.protocol.records.compression import Codec


def _codec_rule(number: int) -> str | None:
    return None if number in {*Codec} else "must be a compression codec number from 0 to 4"


class GroupSettings(Settings):
    """Settings of groups and committed offsets."""

    min_session_timeout_ms: int = integer(
        "group.min.session.timeout.ms",
        default=6_000,
        doc="The minimum session timeout of a member; a shorter timeout detects failed members "
        "sooner, but needs more heartbeats.",
    )
    max_session_timeout_ms: int = integer(
        "group.max.session.timeout.ms",
        default=1_800_000,
        doc="The maximum session timeout of a member.",
    )
    initial_rebalance_delay_ms: int = integer(
        "group.initial.rebalance.delay.ms",
        default=3_000,
        doc="How long the first rebalance of an empty group waits for more members; each new "
        "member extends the wait by the same time.",
    )
    max_size: int = integer(
        "group.max.size",
        default=2**31 - 1,
        at_least=1,
        doc="The maximum number of members of a group.",
    )
    metadata_max_bytes: int = integer(
        "offset.metadata.max.bytes",
        default=4096,
        importance=Importance.HIGH,
        doc="The maximum size of the metadata of a committed offset.",
    )
    load_buffer_bytes: int = integer(
        "offsets.load.buffer.size",
        default=5 * 1024 * 1024,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of bytes per read when a partition of `__consumer_offsets` is loaded.",
    )
    retention_minutes: int = integer(
        "offsets.retention.minutes",
        default=7 * 24 * 60,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long unused committed offsets are kept: since the group became empty, or since "
        "the commit if the group does not subscribe to the topic any more or never had members.",
    )
    retention_check_interval_ms: int = long(
        "offsets.retention.check.interval.ms",
        default=600_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="The interval of the check for expired offsets.",
    )
    codec_number: int = integer(
        "offsets.topic.compression.codec",
        default=0,
        check=_codec_rule,
        importance=Importance.HIGH,
        doc="The compression codec of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, "
        "4 zstd.",
    )
    commit_timeout_ms: int = integer(
        "offsets.commit.timeout.ms",
        default=5_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="How long a response waits until all in-sync replicas have the records of its request.",
    )

    @property
    def topic_codec(self) -> Codec:
        return Codec(self.codec_number)

    @property
    def retention_ms(self) -> int:
        return self.retention_minutes * 60_000

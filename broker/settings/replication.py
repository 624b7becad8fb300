"""The settings of replicas on one broker.  The names, ranges and defaults are Kafka 3.9's."""

from odradek.config.definition import Importance, Update, integer, long, text
from odradek.config.settings import Settings

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTORS = ("org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE)


def known_selector(name: str) -> str | None:
    return None if name in _SELECTORS else f"must be one of {', '.join(_SELECTORS)}"


class ReplicationSettings(Settings):
    """How followers fetch, who counts as in sync, and when it is written down what all have."""

    high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms",
        default=5_000,
        importance=Importance.HIGH,
        doc="How often high watermarks are written down.",
    )
    fetchers: int = integer(
        "num.replica.fetchers",
        default=1,
        update=Update.CLUSTER,
        importance=Importance.HIGH,
        doc="How many connections fetch from each leader.",
    )
    fetch_wait_max_ms: int = integer(
        "replica.fetch.wait.max.ms",
        default=500,
        importance=Importance.HIGH,
        doc="How long a leader waits for records before it answers a follower.  It should be less "
        "than `replica.lag.time.max.ms`.",
    )
    fetch_min_bytes: int = integer(
        "replica.fetch.min.bytes",
        default=1,
        importance=Importance.HIGH,
        doc="For how many bytes a leader waits.",
    )
    fetch_max_bytes: int = integer(
        "replica.fetch.max.bytes",
        default=1_048_576,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="How much is fetched of one partition at once; of a larger batch, all of it.",
    )
    fetch_response_max_bytes: int = integer(
        "replica.fetch.response.max.bytes",
        default=10_485_760,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="How much is fetched at once in all.",
    )
    fetch_backoff_ms: int = integer(
        "replica.fetch.backoff.ms",
        default=1_000,
        at_least=0,
        importance=Importance.MEDIUM,
        doc="How long a partition, or a leader, that could not be fetched from is left alone.",
    )
    lag_time_max_ms: int = long(
        "replica.lag.time.max.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="A follower that has not come to the end of its leader's log for so long is out of "
        "sync.",
    )
    socket_timeout_ms: int = integer(
        "replica.socket.timeout.ms",
        default=30_000,
        importance=Importance.HIGH,
        doc="How long a leader's answer is waited for.",
    )
    selector: str | None = text(
        "replica.selector.class",
        default=None,
        check=known_selector,
        importance=Importance.MEDIUM,
        doc="Which replica consumers are sent to.  With "
        f"`{RACK_AWARE}` it is one in their `client.rack`, without it the leader.",
    )
    quota_windows: int = integer(
        "replication.quota.window.num",
        default=11,
        at_least=1,
        importance=Importance.LOW,
        doc="Over how many windows the rate of throttled replicas is measured.",
    )
    quota_window_s: int = integer(
        "replication.quota.window.size.seconds",
        default=1,
        at_least=1,
        importance=Importance.LOW,
        doc="How long each of these windows is.",
    )
    move_quota_windows: int = integer(
        "alter.log.dirs.replication.quota.window.num",
        default=11,
        at_least=1,
        importance=Importance.LOW,
        doc="Over how many windows the rate of copies between log directories is measured.",
    )
    move_quota_window_s: int = integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        default=1,
        at_least=1,
        importance=Importance.LOW,
        doc="How long each of these windows is.",
    )

    @property
    def is_rack_aware(self) -> bool:
        return self.selector == RACK_AWARE


class ReplicationQuotas(Settings, update=Update.CLUSTER):
    """How fast replicas are copied: see broker/replicas/throttles.py.  In no file, as in Kafka."""

    leader_rate: int = long(
        "leader.replication.throttled.rate",
        default=2**63 - 1,
        at_least=0,
        doc="What throttled replicas are sent in a second.",
    )
    follower_rate: int = long(
        "follower.replication.throttled.rate",
        default=2**63 - 1,
        at_least=0,
        doc="What throttled replicas fetch in a second.",
    )
    move_rate: int = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        default=2**63 - 1,
        at_least=0,
        doc="What is copied between log directories in a second.",
    )

"""The settings of groups of the consumer protocol (KIP-848): of all, and of a single one.

Names, ranges and defaults are Kafka's, those of 4.1 where 3.9 has the protocol switched off.
"""

from __future__ import annotations

from odradek.config.definition import SettingError, UpdateMode, choice, integer, text_list
from odradek.config.settings import Settings

#: Whether groups may pass from one protocol to the other while they have members.
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
CONSUMER = "consumer"
#: Kafka's own, which stand for `uniform` and `range`.
_ASSIGNOR_CLASSES = (
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)


class ConsumerGroupSettings(Settings):
    """Groups whose members the broker assigns to: the consumer protocol (KIP-848)."""

    rebalance_protocols: tuple[str, ...] = text_list(
        "group.coordinator.rebalance.protocols",
        default=("classic", CONSUMER),
        one_of=("classic", CONSUMER, "share", "streams", "unknown"),
        doc="Which protocols groups may use.  Without `consumer`, ConsumerGroupHeartbeat is "
        "refused; `classic` is always there.",
    )
    migration_policy: str = choice(
        "group.consumer.migration.policy",
        MIGRATION_POLICIES,
        default="bidirectional",
        doc="Whether a classic group is upgraded when a consumer of the new protocol joins, and "
        "downgraded when the last one leaves and consumers of the classic protocol stay.",
    )
    assignors: tuple[str, ...] = text_list(
        "group.consumer.assignors",
        default=_ASSIGNOR_CLASSES,
        one_of=("uniform", "range", *_ASSIGNOR_CLASSES),
        doc="The assignors that members may ask for; the first is for those who do not.",
    )
    max_size: int = integer(
        "group.consumer.max.size",
        default=2**31 - 1,
        at_least=1,
        doc="How many members a group may have.",
    )
    session_timeout_ms: int = integer(
        "group.consumer.session.timeout.ms",
        default=45_000,
        at_least=1,
        doc="How long a member may be silent.",
    )
    min_session_timeout_ms: int = integer(
        "group.consumer.min.session.timeout.ms",
        default=45_000,
        at_least=1,
        doc="The shortest session that may be set.",
    )
    max_session_timeout_ms: int = integer(
        "group.consumer.max.session.timeout.ms",
        default=60_000,
        at_least=1,
        doc="The longest session that may be set.",
    )
    heartbeat_interval_ms: int = integer(
        "group.consumer.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        doc="How often members are told to send heartbeats.",
    )
    min_heartbeat_interval_ms: int = integer(
        "group.consumer.min.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        doc="The shortest interval that may be set.",
    )
    max_heartbeat_interval_ms: int = integer(
        "group.consumer.max.heartbeat.interval.ms",
        default=15_000,
        at_least=1,
        doc="The longest interval that may be set.",
    )

    @property
    def is_enabled(self) -> bool:
        return CONSUMER in self.rebalance_protocols

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")

    def check(self) -> None:
        check_bounds(self, self, prefix="group.consumer.")


class OneGroupSettings(Settings, update=UpdateMode.GROUP):
    """Of a single group of the consumer protocol, in place of what the broker has for all."""

    session_timeout_ms: int = integer(
        "consumer.session.timeout.ms",
        default=45_000,
        at_least=1,
        synonym="group.consumer.session.timeout.ms",
        doc="How long a member may be silent.",
    )
    heartbeat_interval_ms: int = integer(
        "consumer.heartbeat.interval.ms",
        default=5_000,
        at_least=1,
        synonym="group.consumer.heartbeat.interval.ms",
        doc="How often members are told to send heartbeats.",
    )

    def check_within(self, server: ConsumerGroupSettings) -> None:
        """Whether it may be set so: stored values count even if the server's bounds have moved."""
        check_bounds(self, server, prefix="consumer.")


def check_bounds(
    settings: ConsumerGroupSettings | OneGroupSettings,
    server: ConsumerGroupSettings,
    *,
    prefix: str,
) -> None:
    """Raises SettingError; ``prefix`` is that of the names of what is given."""
    for name in ("session.timeout.ms", "heartbeat.interval.ms"):
        attribute = name.replace(".", "_")
        value = getattr(settings, attribute)
        least, most = (getattr(server, bound + attribute) for bound in ("min_", "max_"))
        if not least <= value <= most:
            rule = f"must be between group.consumer.min.{name} and group.consumer.max.{name}"
            raise SettingError(prefix + name, str(value), rule)
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise SettingError(
            f"{prefix}heartbeat.interval.ms",
            str(settings.heartbeat_interval_ms),
            f"must be less than {prefix}session.timeout.ms",
        )

"""Two settings tables for the tests: some log settings of a broker, and some of a topic."""

from odradek.config.definition import (
    ConfigSource,
    UpdateMode,
    choice,
    integer,
    long,
    password,
    text,
    text_list,
    value_of,
)
from odradek.config.settings import Settings
from odradek.config.types import Password

HOUR_MS = 3_600_000


class LogSettings(Settings):
    dir: str = text("log.dir", default="logs", doc="One directory.")
    dirs: tuple[str, ...] = text_list("log.dirs", default=(), doc="All directories.")
    segment_bytes: int = integer(
        "log.segment.bytes", default=1 << 30, at_least=14, update=UpdateMode.CLUSTER, doc="Size."
    )
    retention_hours: int = integer("log.retention.hours", default=168, doc="Age.")
    retention_minutes: int = integer(
        "log.retention.minutes", default=value_of("log.retention.hours", multiplier=60), doc="Age."
    )
    retention_ms: int = long(
        "log.retention.ms",
        default=value_of("log.retention.minutes", multiplier=60_000),
        update=UpdateMode.CLUSTER,
        check=lambda age: "must not be 0" if age == 0 else None,
        doc="Age.",
    )
    key_password: Password | None = password(
        "ssl.key.password", default=None, update=UpdateMode.BROKER, doc="Secret."
    )


class TopicSettings(Settings, update=UpdateMode.TOPIC):
    segment_bytes: int = integer(
        "segment.bytes", default=1 << 30, at_least=14, synonym="log.segment.bytes", doc="Size."
    )
    retention_ms: int = long(
        "retention.ms", default=168 * HOUR_MS, synonym="log.retention.ms", doc="Age."
    )
    remote: str = choice("remote.storage.enable", ["true", "false"], default="false", doc="Tiers.")


def on_disk(**texts):
    return LogSettings.read(
        {ConfigSource.FILE: {name.replace("_", "."): t for name, t in texts.items()}}
    )

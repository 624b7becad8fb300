"""When is what done to logs, groups and transactions?  The settings say, and may change meanwhile.

As in Kafka, an interval of 0 or less means once, after the start; but for the cleaner's, which is a
pause.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.broker.background import Background
from odradek.broker.log_care import LogCare
from odradek.broker.settings.dynamic import DynamicSettings

#: A timer for longer than this would be of no use, and some loops cannot have one.
_LONGEST_S = 86_400.0
#: How long a segment that was sealed may wait to be synced; Kafka does it at once.
_SEALED_WAIT_S = 5.0
_REMOVAL_EVERY_S = 1.0


class Groups(Protocol):
    """Who keeps the offsets of groups."""

    async def forget_unused(self) -> None: ...


class Transactions(Protocol):
    """Who coordinates transactions."""

    async def abort_timed_out(self) -> None: ...

    async def forget_expired(self) -> None: ...


class Replicas(Protocol):
    """Who knows which followers are in sync."""

    async def look_for_laggards(self) -> None: ...


def start_schedules(
    background: Background,
    care: LogCare,
    replicas: Replicas,
    groups: Groups,
    transactions: Transactions,
    settings: DynamicSettings,
) -> None:
    """From now until ``background`` is stopped."""
    first_after_s = settings.current.log.initial_task_delay_ms / 1000

    def every(
        name: str, interval_s: Callable[[], float], job: Callable[[], Awaitable[None] | None]
    ) -> None:
        background.every(
            lambda: min(interval_s(), _LONGEST_S), job, name=name, first_after_s=first_after_s
        )

    def log_s(name: str) -> Callable[[], float]:
        return lambda: _seconds(getattr(settings.current.log, name))

    flush_s = log_s("flush_scheduler_interval_ms")
    recovery_points_s = log_s("flush_offset_checkpoint_interval_ms")
    starts_s = log_s("flush_start_offset_checkpoint_interval_ms")
    every("retention", log_s("retention_check_interval_ms"), care.apply_retention)
    every("flush", lambda: min(flush_s(), _SEALED_WAIT_S), care.flush)
    # All in one writing, and so as often as the most frequent of them.
    every(
        "checkpoints",
        lambda: min(recovery_points_s(), starts_s(), _watermarks_s(settings)),
        care.checkpoint,
    )
    every(
        "producer expiry",
        log_s("producer_id_expiration_check_interval_ms"),
        care.expire_producers,
    )
    every("compaction", lambda: settings.current.cleaner.backoff_ms / 1000, care.compact)
    every("removal", lambda: _REMOVAL_EVERY_S, care.remove)
    # Twice as often as one may lag, so that nobody is kept for half as long again; as in Kafka.
    background.every(
        lambda: min(_seconds(settings.current.replication.lag_time_max_ms) / 2, _LONGEST_S),
        replicas.look_for_laggards,
        name="in-sync replicas",
    )
    _coordinate(background, groups, transactions, settings)


def _coordinate(
    background: Background, groups: Groups, transactions: Transactions, settings: DynamicSettings
) -> None:
    def every(
        name: str, interval_ms: Callable[[], int], job: Callable[[], Awaitable[None]]
    ) -> None:
        background.every(lambda: min(interval_ms() / 1000, _LONGEST_S), job, name=name)

    every(
        "offset expiry",
        lambda: settings.current.groups.retention_check_interval_ms,
        groups.forget_unused,
    )
    every(
        "transaction timeouts",
        lambda: settings.current.transactions.abort_check_interval_ms,
        transactions.abort_timed_out,
    )
    every(
        "transactional id expiry",
        lambda: settings.current.transactions.expiration_check_interval_ms,
        transactions.forget_expired,
    )


def _watermarks_s(settings: DynamicSettings) -> float:
    return _seconds(settings.current.replication.high_watermark_checkpoint_interval_ms)


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 if milliseconds > 0 else _LONGEST_S

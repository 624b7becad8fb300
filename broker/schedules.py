"""The intervals of log maintenance and of the coordinators.  They follow changes of the settings.

As in Kafka, an interval of 0 or less means that a job runs only once, after the start.  The backoff
of the cleaner is different: it is a pause between two runs.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.broker.log_maintenance import LogMaintenance
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.task_registry import TaskRegistry

#: Longer timers are not useful, and some event loops do not support them.
_MAX_INTERVAL_S = 86_400.0
#: The time within which a sealed segment is flushed; Kafka flushes it at once.
_SEALED_SEGMENT_FLUSH_S = 5.0
_DELETION_INTERVAL_S = 1.0


class Groups(Protocol):
    """The group coordinator, which expires committed offsets."""

    async def cleanup_group_metadata(self) -> None: ...


class Transactions(Protocol):
    """The transaction coordinator."""

    async def abort_timed_out_transactions(self) -> None: ...

    async def remove_expired_transactional_ids(self) -> None: ...


class HostedPartitions(Protocol):
    """The replica manager, which shrinks ISRs."""

    async def maybe_shrink_isr(self) -> None: ...


def start_schedules(
    task_registry: TaskRegistry,
    log_maintenance: LogMaintenance,
    replica_manager: HostedPartitions,
    groups: Groups,
    transactions: Transactions,
    settings: DynamicSettings,
) -> None:
    """Start all scheduled jobs; they run until ``task_registry`` is stopped."""
    initial_delay_s = settings.current.log.initial_task_delay_ms / 1000

    def schedule(
        name: str, interval_s: Callable[[], float], job: Callable[[], Awaitable[None] | None]
    ) -> None:
        task_registry.schedule(
            lambda: min(interval_s(), _MAX_INTERVAL_S),
            job,
            name=name,
            initial_delay_s=initial_delay_s,
        )

    def log_interval_s(name: str) -> Callable[[], float]:
        return lambda: _seconds(getattr(settings.current.log, name))

    flush_s = log_interval_s("flush_scheduler_interval_ms")
    recovery_points_s = log_interval_s("flush_offset_checkpoint_interval_ms")
    start_offsets_s = log_interval_s("flush_start_offset_checkpoint_interval_ms")
    schedule(
        "retention", log_interval_s("retention_check_interval_ms"), log_maintenance.apply_retention
    )
    schedule("flush", lambda: min(flush_s(), _SEALED_SEGMENT_FLUSH_S), log_maintenance.flush)
    # One job writes all checkpoints, so it runs as often as the most frequent of them.
    schedule(
        "checkpoints",
        lambda: min(
            recovery_points_s(), start_offsets_s(), _high_watermark_checkpoint_interval_s(settings)
        ),
        log_maintenance.checkpoint,
    )
    schedule(
        "producer expiry",
        log_interval_s("producer_id_expiration_check_interval_ms"),
        log_maintenance.expire_producers,
    )
    schedule(
        "compaction", lambda: settings.current.cleaner.backoff_ms / 1000, log_maintenance.compact
    )
    schedule("removal", lambda: _DELETION_INTERVAL_S, log_maintenance.delete_pending_files)
    # As in Kafka: a follower leaves the ISR after at most 1.5 times the maximum lag.
    task_registry.schedule(
        lambda: min(_seconds(settings.current.replication.lag_time_max_ms) / 2, _MAX_INTERVAL_S),
        replica_manager.maybe_shrink_isr,
        name="in-sync replicas",
    )
    _start_coordinator_schedules(task_registry, groups, transactions, settings)


def _start_coordinator_schedules(
    task_registry: TaskRegistry,
    groups: Groups,
    transactions: Transactions,
    settings: DynamicSettings,
) -> None:
    def schedule(
        name: str, interval_ms: Callable[[], int], job: Callable[[], Awaitable[None]]
    ) -> None:
        task_registry.schedule(lambda: min(interval_ms() / 1000, _MAX_INTERVAL_S), job, name=name)

    schedule(
        "offset expiry",
        lambda: settings.current.groups.retention_check_interval_ms,
        groups.cleanup_group_metadata,
    )
    schedule(
        "transaction timeouts",
        lambda: settings.current.transactions.abort_check_interval_ms,
        transactions.abort_timed_out_transactions,
    )
    schedule(
        "transactional id expiry",
        lambda: settings.current.transactions.expiration_check_interval_ms,
        transactions.remove_expired_transactional_ids,
    )


def _high_watermark_checkpoint_interval_s(settings: DynamicSettings) -> float:
    return _seconds(settings.current.replication.high_watermark_checkpoint_interval_ms)


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000 if milliseconds > 0 else _MAX_INTERVAL_S

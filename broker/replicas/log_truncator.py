"""A follower's log is cut, or begins anew elsewhere, while nobody else works on it.

Invariant: only what the fetcher follows, in the epoch that it was followed in, is begun to be cut.

Owner: the event loop; of a fetcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from odradek.broker.replicas.followed import Followed
from odradek.broker.replicas.following import Following
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog

log = logging.getLogger(__name__)


class Logs(Protocol):
    """Who cuts logs."""

    def truncate(self, hosted: HostedLog, offset: int, /, *, now_ms: int) -> DiskWork: ...

    def truncate_fully(self, hosted: HostedLog, new_start: int, /, *, now_ms: int) -> DiskWork: ...


class Care(Protocol):
    """Who keeps compaction and retention away meanwhile."""

    async def hold_off(self, partition: TopicPartition, /) -> None: ...

    def allow(self, partition: TopicPartition, /) -> None: ...

    async def carry_out(self, work: DiskWork, /) -> None: ...


class Cutting:
    """Of what one fetcher follows."""

    def __init__(
        self, following: Following, logs: Logs, care: Care, now_ms: Callable[[], int]
    ) -> None:
        self._following = following
        self._logs = logs
        self._care = care
        self._now_ms = now_ms

    async def cut(self, followed: Followed, offset: int) -> None:
        if offset < followed.partition.log.segments.first.base_offset:
            await self._empty(followed)

        def cut(hosted: HostedLog) -> DiskWork:
            own = hosted.log
            # Only after an unclean election does it have less than all had.
            level = logging.WARNING if offset < own.high_watermark else logging.INFO
            log.log(level, "%s is cut at %d: it went to %d", own.partition, offset, own.end_offset)
            return self._logs.truncate(hosted, offset, now_ms=self._now_ms())

        await self._change(followed, cut)

    async def begin_anew(self, followed: Followed, start: int) -> None:
        """At ``start``, before which its leader has nothing."""

        def begin_anew(hosted: HostedLog) -> DiskWork:
            where = hosted.partition
            log.warning("%s begins anew at %d: its leader has nothing before", where, start)
            return self._logs.truncate_fully(hosted, start, now_ms=self._now_ms())

        await self._empty(followed)
        await self._change(followed, begin_anew)

    async def _empty(self, followed: Followed) -> None:
        """By a disk thread: else whatever begins anew sleeps on the loop, for each segment."""
        segments = followed.partition.log.segments
        if not segments.is_bare:
            await self.cut(followed, segments.first.base_offset)

    async def _change(self, followed: Followed, plan: Callable[[HostedLog], DiskWork]) -> None:
        """Unless another leads by the time that nobody else works on the log."""
        partition, care = followed.partition, self._care
        where = partition.topic_partition
        await care.hold_off(where)
        try:
            if followed.is_current and self._following.find(where) is followed:
                try:
                    work = plan(partition.hosted)
                finally:
                    partition.cut()  # even if it was broken off
                await care.carry_out(work)
        finally:
            # What held it off is gone with a log that has been deleted.
            if not partition.hosted.is_deleted:
                care.allow(where)

"""A follower's fetches from one leader: some of the partitions that this broker follows there.

    wanted     each partition from the end of its log on, unless it is left alone for a while
    sent       as an incremental fetch; the leader waits until there is something
    taken      records appended, watermark and start of the leader followed
    parted     a log that has records which its leader has not is cut, and asks again
    throttled  left alone until the rate allows more, unless it has all
    refused    left alone for a while; the controller will say who leads
    failed     likewise: whatever fails for one partition, or once, the others are fetched on

A partition takes nothing of an answer if it follows in another epoch by then, or ends elsewhere
than where it did when it was asked for: what would be appended might not continue its log.

Invariant: nothing is asked for a log that is being cut, whoever cuts it.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.replicas.followed import Followed
from odradek.broker.replicas.follower_session import FollowerSession, Wanted, have_ids
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.throttles import Throttle
from odradek.broker.replicas.truncation import cut_for
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.turns import Turn
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import TopicPartition
from odradek.storage.leader_epochs import NO_EPOCH, EpochEnd
from odradek.storage.log_lookup import EARLIEST, LATEST
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog

log = logging.getLogger(__name__)

Line = FetchResponse.Topic.Partition

#: The last by topic names, and one that tells the epoch of the broker that asks.
BY_NAME, BY_ID = 12, 17
LIST_OFFSETS_VERSION = 7
#: How soon a log is looked at again that is being cut.
SHORTEST_REST_S = 0.01
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class Logs(Protocol):
    """Who cuts logs."""

    def truncate(self, hosted: HostedLog, offset: int, /, *, now_ms: int) -> DiskWork: ...

    def truncate_fully(self, hosted: HostedLog, new_start: int, /, *, now_ms: int) -> DiskWork: ...


class Care(Protocol):
    """Who keeps compaction and retention away meanwhile."""

    async def hold_off(self, partition: TopicPartition, /) -> None: ...

    def allow(self, partition: TopicPartition, /) -> None: ...

    async def carry_out(self, work: DiskWork, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all fetchers of a broker stand on."""

    broker_id: int
    logs: Logs
    care: Care
    settings: Callable[[], ReplicationSettings]
    broker_epoch: Callable[[], int]
    now_ms: Callable[[], int]
    throttle: Throttle


class Fetcher:
    """One connection to one leader."""

    def __init__(self, leader: Node, client: Client, ground: Ground) -> None:
        self.leader = leader
        self._client = client
        self._ground = ground
        self._session = FollowerSession()
        self._followed: dict[TopicPartition, Followed] = {}
        self._has_news = asyncio.Event()
        self._is_reached = True
        self._is_closed = False

    def follow(self, partition: Partition) -> None:
        self._followed[partition.topic_partition] = Followed(partition)
        self._has_news.set()

    def forget(self, partition: TopicPartition) -> None:
        self._followed.pop(partition, None)

    def partitions(self) -> list[Partition]:
        return [each.partition for each in self._followed.values()]

    @property
    def is_idle(self) -> bool:
        return not self._followed

    def close(self) -> None:
        """It ends by itself: a cut that is under way must be carried out."""
        self._is_closed = True
        self._followed.clear()
        self._client.close()
        self._has_news.set()

    async def run(self) -> None:
        while not self._is_closed:
            try:
                await self._go_on()
            except Exception:
                # Else nothing that this leader leads would be replicated here any more.
                log.exception("Fetching from broker %d failed, and goes on", self.leader.id)
                self._session.lost()
                await asyncio.sleep(self._backoff_s)
        self._client.close()  # again: it may have connected since

    async def _go_on(self) -> None:
        await self._cut_unknown_tails()
        wanted = self._wanted()
        if not wanted:
            await self._rest()
            return
        try:
            response = await self._fetch(wanted)
        except (OSError, DecodeError) as failure:
            await self._not_reached(str(failure))
            return
        await self._take(response)

    async def _rest(self) -> None:
        """Until there is something to fetch."""
        if self._is_closed:
            return
        self._has_news.clear()
        rests = [each.rests_until for each in self._followed.values()]
        timeout_s = max(SHORTEST_REST_S, min(rests) - monotonic()) if rests else None
        with suppress(TimeoutError):  # then one of them has rested for long enough
            async with asyncio.timeout(timeout_s):
                await self._has_news.wait()

    async def _not_reached(self, why: str) -> None:
        if self._is_closed:
            return
        if self._is_reached:
            log.warning("Broker %d cannot be fetched from: %s", self.leader.id, why)
        self._is_reached = False
        self._session.lost()
        await asyncio.sleep(self._backoff_s)

    @property
    def _backoff_s(self) -> float:
        return self._ground.settings().fetch_backoff_ms / 1000

    # Asking

    def _wanted(self) -> dict[TopicPartition, Wanted]:
        now, limit_bytes = monotonic(), self._ground.settings().fetch_max_bytes
        throttle = self._ground.throttle
        wanted = {}
        for where, followed in self._followed.items():
            followed.asked_offset = None
            if followed.partition.hosted.is_being_cut:  # in an earlier epoch
                followed.rests_until = max(followed.rests_until, now + SHORTEST_REST_S)
            elif not followed.has_all and throttle.holds_up(where):
                rest_s = min(throttle.rate.rest_s, self._backoff_s)  # it may be raised meanwhile
                followed.rests_until = max(followed.rests_until, now + rest_s)
            if followed.rests_until > now or followed.is_new or not followed.is_current:
                continue
            wanted[where] = followed.wanted(limit_bytes)
        return wanted

    async def _fetch(self, wanted: dict[TopicPartition, Wanted]) -> FetchResponse:
        settings, ground = self._ground.settings(), self._ground
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            topics=[],
        )
        version = BY_ID if have_ids(wanted.values()) else BY_NAME
        if version == BY_ID:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=ground.broker_id, replica_epoch=ground.broker_epoch()
            )
        else:
            request.replica_id = ground.broker_id
        self._session.fill(request, wanted)
        response = await self._client.send(request, version=version)
        assert isinstance(response, FetchResponse), response
        return response

    # Taking

    async def _take(self, response: FetchResponse) -> None:
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            # That a session is gone says nothing of who has not asked in one.
            is_session_gone = error in _SESSION_ERRORS and not self._session.begins
            self._session.lost()
            if not is_session_gone:
                await self._not_reached(error.name)
            return
        self._is_reached = True
        names = self._session.names()
        self._session.answered(response)
        turn = Turn()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for line in topic.partitions:
                followed = self._followed.get(TopicPartition(name, line.partition_index))
                if followed is not None and followed.is_as_asked:
                    try:
                        await self._take_line(followed, line)
                    except Exception as failure:  # noqa: BLE001 - it is logged, once
                        self._failed(followed, failure)
                if turn.is_over:
                    await turn.next()

    async def _take_line(self, followed: Followed, line: Line) -> None:
        error = ErrorCode.of(line.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_place(followed)
        elif error is not ErrorCode.NONE:
            self._leave_alone(followed, error.name)
        elif line.diverging_epoch.epoch >= 0 or line.diverging_epoch.end_offset >= 0:
            parted = EpochEnd(line.diverging_epoch.epoch, line.diverging_epoch.end_offset)
            await self._cut(followed, cut_for(followed.partition.log, parted))
        else:
            records = line.records or b""
            assert not isinstance(records, FileRegion), records
            followed.partition.append_as_follower(
                memoryview(records),
                leader_epoch=followed.epoch,
                high_watermark=line.high_watermark,
                start_offset=line.log_start_offset,
                now_ms=self._ground.now_ms(),
            )
            followed.taken(high_watermark=line.high_watermark)
            self._ground.throttle.record(followed.partition.topic_partition, len(records))

    def _failed(self, followed: Followed, failure: Exception) -> None:
        """It concerns nobody else."""
        if isinstance(failure, KafkaError | OSError | DecodeError):
            self._leave_alone(followed, str(failure), level=logging.WARNING)
        else:
            self._leave_alone(followed, repr(failure), level=logging.ERROR, failure=failure)

    def _leave_alone(
        self,
        followed: Followed,
        why: str,
        *,
        level: int = logging.INFO,
        failure: Exception | None = None,
    ) -> None:
        """Said once for each reason, however often it is tried again."""
        followed.rest(now_s=monotonic(), most_s=self._backoff_s)
        if followed.trouble != why:
            followed.trouble = why
            told = (followed.partition.topic_partition, self.leader.id, why)
            log.log(level, "%s is not fetched from broker %d: %s", *told, exc_info=failure)

    # Cutting

    async def _cut_unknown_tails(self) -> None:
        """A log without epochs cannot be compared: at first it goes back to what all had."""
        for followed in [each for each in self._followed.values() if each.is_new]:
            partition, own = followed.partition, followed.partition.log
            if partition.hosted.is_being_cut or followed.rests_until > monotonic():
                continue
            try:
                if own.epochs.latest_epoch == NO_EPOCH and own.end_offset > own.high_watermark:
                    await self._cut(followed, own.high_watermark)
                followed.is_new = False
            except Exception as failure:  # noqa: BLE001 - it is logged, once
                self._failed(followed, failure)

    async def _cut(self, followed: Followed, offset: int) -> None:
        if offset < followed.partition.log.segments.first.base_offset:
            await self._empty(followed)

        def cut(hosted: HostedLog) -> DiskWork:
            own, now_ms = hosted.log, self._ground.now_ms()
            # Only after an unclean election does it have less than all had.
            level = logging.WARNING if offset < own.high_watermark else logging.INFO
            log.log(level, "%s is cut at %d: it went to %d", own.partition, offset, own.end_offset)
            return self._ground.logs.truncate(hosted, offset, now_ms=now_ms)

        await self._change(followed, cut)

    async def _change(self, followed: Followed, plan: Callable[[HostedLog], DiskWork]) -> None:
        """Unless another leads by the time that nobody else works on the log."""
        partition, care = followed.partition, self._ground.care
        where = partition.topic_partition
        await care.hold_off(where)
        try:
            if followed.is_current and self._followed.get(where) is followed:
                try:
                    work = plan(partition.hosted)
                finally:
                    partition.cut()  # even if it was broken off
                await care.carry_out(work)
        finally:
            # What held it off is gone with a log that has been deleted.
            if not partition.hosted.is_deleted:
                care.allow(where)

    async def _find_place(self, followed: Followed) -> None:
        """The leader has nothing at the end of this log: it ends before, or begins behind it."""
        partition, ground = followed.partition, self._ground
        own_end = partition.log.end_offset
        leaders_end = await self._offset_at(followed, LATEST)
        if leaders_end < own_end:
            await self._cut(followed, leaders_end)
            return
        leaders_start = await self._offset_at(followed, EARLIEST)
        if leaders_start <= own_end:
            # It has records for us by now; if it says the same again, there is no hurry.
            self._leave_alone(followed, ErrorCode.OFFSET_OUT_OF_RANGE.name)
            return

        def begin_anew(hosted: HostedLog) -> DiskWork:
            where, now_ms = hosted.partition, ground.now_ms()
            log.warning("%s begins anew at %d: its leader has nothing before", where, leaders_start)
            return ground.logs.truncate_fully(hosted, leaders_start, now_ms=now_ms)

        await self._empty(followed)
        await self._change(followed, begin_anew)

    async def _empty(self, followed: Followed) -> None:
        """By a disk thread: else whatever begins anew sleeps on the loop, for each segment."""
        segments = followed.partition.log.segments
        if not segments.is_bare:
            await self._cut(followed, segments.first.base_offset)

    async def _offset_at(self, followed: Followed, timestamp: int) -> int:
        """Raises what the leader says instead."""
        topic, number = followed.partition.topic_partition
        asked = ListOffsetsRequest.Topic.Partition(
            partition_index=number, current_leader_epoch=followed.epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._ground.broker_id,
            topics=[ListOffsetsRequest.Topic(name=topic, partitions=[asked])],
        )
        response = await self._client.send(request, version=LIST_OFFSETS_VERSION)
        assert isinstance(response, ListOffsetsResponse), response
        ((line,),) = [each.partitions for each in response.topics]
        if line.error_code:
            raise KafkaError(error=ErrorCode.of(line.error_code))
        return line.offset

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

Only those partitions are looked at that something has happened to since the last fetch; see
following.py for what that is.

Invariant: nothing is asked for a log that is being cut, whoever cuts it.  A fetcher begins to cut
only what it follows (cutting.py), and asks for nothing meanwhile; what was begun in an earlier
epoch is seen when the partition is followed anew, and looked for until it has ended.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import Client
from odradek.broker.replicas.cutting import Care, Cutting, Logs
from odradek.broker.replicas.followed import Followed
from odradek.broker.replicas.follower_session import FollowerSession, Wanted
from odradek.broker.replicas.following import Following
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
        self._following = Following()
        self._cutting = Cutting(self._following, ground.logs, ground.care, ground.now_ms)
        self._has_news = asyncio.Event()
        self._is_throttled = False
        self._is_reached = True
        self._is_closed = False

    def follow(self, partition: Partition) -> None:
        self._following.follow(partition)
        self._has_news.set()

    def forget(self, partition: TopicPartition) -> None:
        self._following.forget(partition)

    def partitions(self) -> list[Partition]:
        return [each.partition for each in self._following]

    @property
    def is_idle(self) -> bool:
        return not self._following

    def close(self) -> None:
        """It ends by itself: a cut that is under way must be carried out."""
        self._is_closed = True
        self._following.forget_all()
        self._client.close()
        self._has_news.set()

    async def run(self) -> None:
        while not self._is_closed:
            try:
                await self._go_on()
            except Exception:
                # Else nothing that this leader leads would be replicated here any more.
                log.exception("Fetching from broker %d failed, and goes on", self.leader.id)
                self._begin_again()
                await asyncio.sleep(self._backoff_s)
        self._client.close()  # again: it may have connected since

    async def _go_on(self) -> None:
        await self._look()
        if self._session.wants_nothing:
            await self._rest()
            return
        try:
            response = await self._fetch()
        except (OSError, DecodeError) as failure:
            await self._not_reached(str(failure))
            return
        await self._take(response)

    async def _rest(self) -> None:
        """Until there is something to fetch."""
        if self._is_closed:
            return
        self._has_news.clear()
        due_s = self._following.next_due_s
        timeout_s = None if self.is_idle else max(SHORTEST_REST_S, due_s - monotonic())
        with suppress(TimeoutError):  # then one of them has rested for long enough
            async with asyncio.timeout(timeout_s):
                await self._has_news.wait()

    async def _not_reached(self, why: str) -> None:
        if self._is_closed:
            return
        if self._is_reached:
            log.warning("Broker %d cannot be fetched from: %s", self.leader.id, why)
        self._is_reached = False
        self._begin_again()
        await asyncio.sleep(self._backoff_s)

    def _begin_again(self) -> None:
        """What has been asked for is of no account any more."""
        self._session.lost()
        self._following.touch_all()

    @property
    def _backoff_s(self) -> float:
        return self._ground.settings().fetch_backoff_ms / 1000

    # Asking

    async def _look(self) -> None:
        """At what has been touched, until nothing is: nothing comes between that and the fetch."""
        following, throttle = self._following, self._ground.throttle
        if throttle.is_exceeded != self._is_throttled:
            self._is_throttled = not self._is_throttled
            following.touch_all()
        following.wake(monotonic())
        turn = Turn()
        while touched := following.touched():
            for where in touched:
                followed = following.find(where)
                if followed is not None and followed.is_new:
                    await self._cut_unknown_tail(followed)
                self._session.want(where, self._wanted(followed))
                if turn.is_over:
                    await turn.next()

    def _wanted(self, followed: Followed | None) -> Wanted | None:
        """None if it is left alone; then it is looked at again when it has rested."""
        if followed is None:
            return None
        where, throttle, now = (
            followed.partition.topic_partition,
            self._ground.throttle,
            monotonic(),
        )
        followed.asked_offset = None
        if followed.partition.hosted.is_being_cut:  # in an earlier epoch
            followed.rests_until = max(followed.rests_until, now + SHORTEST_REST_S)
        elif not followed.has_all and throttle.holds_up(where):
            rest_s = min(throttle.rate.rest_s, self._backoff_s)  # it may be raised meanwhile
            followed.rests_until = max(followed.rests_until, now + rest_s)
        if followed.rests_until > now:
            self._following.rests(where, followed.rests_until)
            return None
        if followed.is_new or not followed.is_current:
            return None
        return followed.wanted(self._ground.settings().fetch_max_bytes)

    async def _fetch(self) -> FetchResponse:
        settings, ground = self._ground.settings(), self._ground
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            topics=[],
        )
        self._session.fill(request)
        version = BY_ID if self._session.has_ids else BY_NAME
        if version == BY_ID:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=ground.broker_id, replica_epoch=ground.broker_epoch()
            )
        else:
            request.replica_id = ground.broker_id
        response = await self._client.send(request, version=version)
        assert isinstance(response, FetchResponse), response
        return response

    # Taking

    async def _take(self, response: FetchResponse) -> None:
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            # That a session is gone says nothing of who has not asked in one.
            is_session_gone = error in _SESSION_ERRORS and not self._session.begins
            self._begin_again()
            if not is_session_gone:
                await self._not_reached(error.name)
            return
        self._is_reached = True
        names = self._session.names()
        self._session.answered(response)
        if not response.responses:
            self._following.touch_all()
        turn = Turn()
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for line in topic.partitions:
                await self._take_line(TopicPartition(name, line.partition_index), line)
                if turn.is_over:
                    await turn.next()

    async def _take_line(self, where: TopicPartition, line: Line) -> None:
        """Whatever comes of it, it is looked at before the next fetch."""
        self._following.touch(where)
        followed = self._following.find(where)
        if followed is None or not followed.is_as_asked:
            return
        try:
            await self._take_from(followed, line)
        except Exception as failure:  # noqa: BLE001 - it is logged, once
            self._failed(followed, failure)

    async def _take_from(self, followed: Followed, line: Line) -> None:
        error = ErrorCode.of(line.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_place(followed)
        elif error is not ErrorCode.NONE:
            self._leave_alone(followed, error.name)
        elif line.diverging_epoch.epoch >= 0 or line.diverging_epoch.end_offset >= 0:
            parted = EpochEnd(line.diverging_epoch.epoch, line.diverging_epoch.end_offset)
            await self._cutting.cut(followed, cut_for(followed.partition.log, parted))
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

    async def _cut_unknown_tail(self, followed: Followed) -> None:
        """A log without epochs cannot be compared: at first it goes back to what all had."""
        partition, own = followed.partition, followed.partition.log
        if partition.hosted.is_being_cut or followed.rests_until > monotonic():
            return
        try:
            if own.epochs.latest_epoch == NO_EPOCH and own.end_offset > own.high_watermark:
                await self._cutting.cut(followed, own.high_watermark)
            followed.is_new = False
        except Exception as failure:  # noqa: BLE001 - it is logged, once
            self._failed(followed, failure)

    async def _find_place(self, followed: Followed) -> None:
        """The leader has nothing at the end of this log: it ends before, or begins behind it."""
        own_end = followed.partition.log.end_offset
        leaders_end = await self._offset_at(followed, LATEST)
        if leaders_end < own_end:
            await self._cutting.cut(followed, leaders_end)
            return
        leaders_start = await self._offset_at(followed, EARLIEST)
        if leaders_start <= own_end:
            # It has records for us by now; if it says the same again, there is no hurry.
            self._leave_alone(followed, ErrorCode.OFFSET_OUT_OF_RANGE.name)
            return
        await self._cutting.begin_anew(followed, leaders_start)

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

"""One partition on two brokers, each with logs of its own, and a fetcher between them.

Owner: the event loop.
"""

import asyncio
from types import SimpleNamespace

from odradek.broker.handlers import list_offsets
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.replica_fetcher import FetcherContext, ReplicaFetcher
from odradek.broker.replicas.replication_quota_manager import RateQuota, ReplicationQuotaManager
from odradek.broker.settings.replication import ReplicationSettings
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import Uuid
from tests.support.calls import as_sent, called, in_the_end
from tests.support.fetches import FetchBench
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS, bytes_of, records_batch
from tests.support.loops import at_end

LEADER, FOLLOWER = 1, 2
TOPIC_ID = Uuid(bytes([7] * 16))
SETTINGS = ReplicationSettings(fetch_wait_max_ms=0, fetch_backoff_ms=10)


class Wire:
    """To the leader's handlers; while it is cut, nobody answers."""

    def __init__(self, bench):
        self.bench = bench
        self.is_cut = False
        self.refusal = None
        self.versions = set()
        self._is_used = asyncio.Event()
        #: Whether answers come, and whether one does not.
        self.may_answer, self.is_held = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def used(self, times=1):
        """Until it has been asked for something so many times more."""
        for _ in range(times):
            self._is_used.clear()
            await self._is_used.wait()

    async def send(self, request, *, version):
        self._is_used.set()
        await asyncio.sleep(0)
        if self.is_cut:
            raise ConnectionResetError("cut")
        self.versions.add(version)
        if self.refusal is not None:
            return FetchResponse(error_code=self.refusal.code, responses=[])
        call = called(as_sent(request, version=version), version=version)
        if not isinstance(request, FetchRequest):
            replicas = self.bench.hosting.replicas
            answer = list_offsets.handle(replicas, None, lambda: NOW_MS, call)
            return as_sent(await in_the_end(answer), version=version)
        answer = await in_the_end(self.bench.answered(call))
        for topic in answer.responses:
            for line in topic.partitions:
                if isinstance(line.records, FileRegion):
                    line.records = bytes_of(line.records)
        self.is_held.set()
        await self.may_answer.wait()
        return as_sent(answer, version=version)

    def close(self):
        self.is_cut = True


class Pair:
    """One partition on two brokers."""

    def __init__(self, path, *, topic_id=TOPIC_ID, settings=SETTINGS):
        self.topic_id = topic_id
        self.bench = FetchBench(path / "leader", segment_bytes=2000)
        self.there = Hosting(path / "follower", segment_bytes=2000)
        self.epoch = -1
        self.lead()
        self.now_s = 0.0
        self.throttle = ReplicationQuotaManager(
            RateQuota(windows=11, window_s=1, now_s=lambda: self.now_s)
        )
        self.ground = FetcherContext(
            broker_id=FOLLOWER,
            log_manager=self.there.logs,
            log_maintenance=self.there.care,
            settings=lambda: settings,
            broker_epoch=lambda: 1,
            now_ms=lambda: NOW_MS,
            follower_quota=self.throttle,
        )
        self.connect()
        at_end(self._close)

    def connect(self):
        """A fetcher that follows nothing as yet."""
        self.wire = Wire(self.bench)
        self.fetcher = ReplicaFetcher(Node(LEADER, "leader", 1, None), self.wire, self.ground)
        self.task = self.there.background.start(self.fetcher.run(), "fetcher")

    async def _close(self):
        self.fetcher.close()

    def lead(self):
        """In the next epoch."""
        self.epoch += 1
        both = (LEADER, FOLLOWER)
        self.leader = self.bench.lead(
            epoch=self.epoch, replicas=both, in_sync=[LEADER], topic_id=self.topic_id
        )

    def follow(self):
        self.follower = self.there.lead(
            leader=9, epoch=self.epoch, replicas=(1, 2, 9), topic_id=self.topic_id
        )
        self.fetcher.add_partition(self.follower)

    def write(self, *values, to=None, epoch=None):
        log = (to or self.leader).log
        for value in values:
            log.append_as_leader(
                records_batch(value), leader_epoch=epoch or self.epoch, now_ms=NOW_MS
            )

    async def settle(self):
        """Until the follower has all, and knows that others have it too."""
        log = self.leader.log
        log.update_high_watermark(log.log_end_offset)
        await self.agree()
        assert content(self.follower) == content(self.leader)

    async def agree(self):
        async with asyncio.timeout(10):
            while self.state(self.follower) != self.state(self.leader):
                await self.wire.used()

    def hold_cuts(self):
        """Until one is to be carried out, and until it may be."""
        begun, may_run = asyncio.Event(), asyncio.Event()
        carry_out = self.there.care.execute

        async def carry_out_later(work):
            begun.set()
            await may_run.wait()
            await carry_out(work)

        self.there.care.execute = carry_out_later
        return begun, may_run

    def part(self):
        """The follower has led, and has records that the leader of now never had."""
        self.wire.is_cut = True
        self.write(b"other", to=self.follower, epoch=1)
        self.lead()
        self.lead()
        self.write(b"2")
        self.follow()
        self.wire.is_cut = False

    def state(self, partition):
        log = partition.log
        return log.log_start_offset, log.high_watermark, log.log_end_offset


def content(partition):
    return b"".join(bytes_of(_whole(each)) for each in partition.log.segments)


def _whole(segment):
    return SimpleNamespace(
        descriptor=segment.file.descriptor, position=0, length=segment.size_bytes
    )

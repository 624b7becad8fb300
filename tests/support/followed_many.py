"""A fetcher of many partitions, whose logs and whose leader the test plays, in virtual time.

    scene = Scene()                        on a loop of ``finish_in_virtual_time``
    scene.follow(0)                        partition 0 of the topic
    await scene.answered({0: 3})           three records for it; REFUSED, or nothing for others
    scene.meant                            what the leader takes the session for

Owner: the event loop.
"""

import asyncio
from types import SimpleNamespace

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas import replica_fetcher as fetcher_module
from odradek.broker.replicas.replica_fetcher import FetcherContext, ReplicaFetcher
from odradek.broker.replicas.replication_quota_manager import RateQuota, ReplicationQuotaManager
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.task_registry import TaskRegistry
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.loops import at_end

TOPIC, TOPIC_ID = "many", Uuid(bytes([7] * 16))
REFUSED = "refused"
BACKOFF_S = 0.1
#: In virtual time: until nothing but waits is left.
A_MOMENT_S = 1e-6


class FollowedPartition:
    """As far as a fetcher looks at one; ``on_look`` is called whenever it does.

    What does not continue its log is noted in ``gaps``: who fetches would only log the failure.
    """

    def __init__(self, number, on_look, gaps):
        self.on_look = on_look
        self._gaps = gaps
        self.number = number
        self.topic_partition = TopicPartition(TOPIC, number)
        self.topic_id = TOPIC_ID
        self.leader_state = None
        self.leader_epoch = 0
        self.log = SimpleNamespace(
            log_end_offset=0,
            log_start_offset=0,
            high_watermark=0,
            leader_epoch_cache=SimpleNamespace(latest_epoch=0),
        )
        self._hosted = SimpleNamespace(is_truncating=False)

    @property
    def hosted_log(self):
        self.on_look(self.number)
        return self._hosted

    @property
    def is_truncating(self):
        return self._hosted.is_truncating

    @is_truncating.setter
    def is_truncating(self, value):
        self._hosted.is_truncating = value

    def append_as_follower(self, records, **_):
        base, count = records
        if base != self.log.log_end_offset:
            self._gaps.append((self.number, self.log.log_end_offset, base))
        self.log.log_end_offset += count


class Scene:
    """``on_asked`` is called for each request, when ``meant`` is as the leader takes it."""

    def __init__(self, on_asked=lambda: None):
        self.loop = asyncio.get_running_loop()
        self.on_asked = on_asked
        self.partitions = {}
        self.looked_at = []
        self.gaps = []
        self.meant = {}
        self._request, self._answer = None, None
        self.throttle = ReplicationQuotaManager(
            RateQuota(windows=11, window_s=1, now_s=self.loop.time)
        )
        settings = ReplicationSettings(fetch_backoff_ms=int(1000 * BACKOFF_S))
        ground = FetcherContext(
            broker_id=2,
            log_manager=None,
            log_maintenance=None,
            settings=lambda: settings,
            broker_epoch=lambda: 1,
            now_ms=lambda: 0,
            follower_quota=self.throttle,
        )
        self._monotonic, fetcher_module.monotonic = fetcher_module.monotonic, self.loop.time
        self.fetcher = ReplicaFetcher(Node(1, "leader", 1, None), self, ground)
        self._task = TaskRegistry().start(self.fetcher.run(), "fetcher")
        at_end(self._end)

    async def _end(self):
        self.fetcher.close()
        await self._task
        fetcher_module.monotonic = self._monotonic

    # What the controller says

    def add_partition(self, number):
        """In the next epoch, if it has been followed before."""
        if number not in self.partitions:
            self.partitions[number] = FollowedPartition(number, self.looked_at.append, self.gaps)
        partition = self.partitions[number]
        partition.leader_epoch += 1
        self.fetcher.add_partition(partition)
        return partition

    def remove_partition(self, number):
        self.fetcher.remove_partition(TopicPartition(TOPIC, number))

    # The leader

    async def send(self, request, *, version):
        if request.session_epoch == 0:
            self.meant.clear()
        for topic in request.topics:
            self.meant |= {each.partition: each for each in topic.partitions}
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del self.meant[number]
        self._request, self._answer = request, self.loop.create_future()
        self.on_asked()
        return await self._answer

    def close(self):
        if self.is_asked:
            self._answer.set_exception(ConnectionResetError("closed"))

    @property
    def is_asked(self):
        return self._answer is not None and not self._answer.done()

    async def asked(self, after_s=A_MOMENT_S):
        """What is named in the request that is there by then; None if there is none."""
        await asyncio.sleep(after_s)
        if not self.is_asked:
            return None
        return [each.partition for topic in self._request.topics for each in topic.partitions]

    async def answered(self, lines=None):
        """With a line for each of ``lines`` that it was asked for: how many records, or REFUSED."""
        told = [self._line(*each) for each in (lines or {}).items() if each[0] in self.meant]
        topic = FetchResponse.Topic(topic="", topic_id=TOPIC_ID, partitions=told)
        self.looked_at.clear()
        response = FetchResponse(session_id=1, responses=[topic] if told else [])
        self._answer.set_result(response)
        return await self.asked()

    def _line(self, number, outcome):
        line = FetchResponse.Topic.Partition(
            partition_index=number, error_code=0, high_watermark=100, records=b""
        )
        if outcome == REFUSED:
            line.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER.code
        else:
            line.records = bytes([self.meant[number].fetch_offset, outcome])
        return line

    def fails(self, error):
        """The fetch that is on its way, by an error code for the whole or an exception.

        The leader has no session any more.
        """
        self.meant.clear()
        if isinstance(error, ErrorCode):
            self._answer.set_result(FetchResponse(error_code=error.code, responses=[]))
        else:
            self._answer.set_exception(error)

"""Clients of a virtual cluster, who keep count of what they were told.

Each has a partition.  It sends one record after the other, idempotent, until that is acknowledged;
asks for records and for the end of the log; and commits how many were acknowledged.  It believes
nobody who knows of an earlier leader than it does, as clients do.

Owner: the event loop, a virtual one.
"""

import asyncio

from odradek.protocol.api.delete_records import DeleteRecordsRequest
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api.offset_commit import OffsetCommitRequest
from odradek.protocol.api.offset_fetch import OffsetFetchRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.logs import records_batch
from tests.support.virtual_brokers import CLIENT

TOPIC = "t"
PRODUCE, FETCH, LIST_OFFSETS = 9, 12, 7
FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH = 4, 8, 8
DELETE_RECORDS = 2
LATEST, EARLIEST = -1, -2
HIGH_WATERMARK = -1
#: What clients may try again.
RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class Client:
    """Of one partition."""

    def __init__(self, cluster, partition):
        self.cluster, self.partition = cluster, partition
        self.acked, self.seen, self.committed = {}, {}, -1
        #: The latest that it has heard of, of the leader.
        self.epoch = -1
        self._is_over = False
        self._tasks = []

    def start(self):
        loop = self.cluster.loop
        work = self._write(), self._read(), self._commit()
        self._tasks = [loop.create_task(each) for each in work]

    async def stop(self):
        self._is_over = True
        for task in self._tasks:
            await task

    def cancel(self):
        for task in self._tasks:
            task.cancel()

    def _leader(self):
        """None if nobody knows, or who was asked knows less than we do."""
        state = self.cluster.state_of(self.partition)
        if state is None or state.leader < 0 or state.leader_epoch < self.epoch:
            return None
        self.epoch = state.leader_epoch
        return state.leader

    async def _ask(self, leader, request, version):
        """None if nobody answered."""
        client = self.cluster.lines.client(CLIENT, leader, timeout_s=4)
        try:
            return await client.send(request, version=version)
        except OSError:
            return None

    async def _write(self):
        count = 0
        while not self._is_over:
            value = f"{self.partition}-{count}".encode()
            offset = await self._written(value, count)
            if offset is None:
                return
            self.acked[offset] = value
            count += 1
            await asyncio.sleep(self.cluster.random.choice((0, 0.01, 0.1)))

    async def _written(self, value, sequence):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        named = ProduceRequest.Topic
        while True:
            entry = named.Partition(
                index=self.partition, records=records_batch(value, timestamp=0, **fields)
            )
            request = ProduceRequest(
                acks=-1, timeout_ms=1500, topic_data=[named(name=TOPIC, partition_data=[entry])]
            )
            leader = self._leader()
            response = None if leader is None else await self._ask(leader, request, PRODUCE)
            if response is not None:
                line = response.responses[0].partition_responses[0]
                error = ErrorCode.for_code(line.error_code)
                if error is ErrorCode.NONE:
                    return line.base_offset
                if error not in RETRIED:
                    self.cluster.wrong(f"{value!r} is refused: {error.name}")
                    return None
            await asyncio.sleep(0.05)

    async def _read(self):
        position, end = 0, 0
        while not self._is_over:
            self.cluster.look()
            position = await self._polled(position)
            end = await self._looked(end)
            await asyncio.sleep(0.05)

    async def _polled(self, position):
        named, leader = FetchRequest.Topic, self._leader()
        if leader is None:
            return position
        asked = named.Partition(
            partition=self.partition,
            current_leader_epoch=self.epoch,
            fetch_offset=position,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[named(topic=TOPIC, partitions=[asked])],
        )
        response = await self._ask(leader, request, FETCH)
        if response is None or not response.responses:
            return position
        line = response.responses[0].partitions[0]
        error = ErrorCode.for_code(line.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._begun_anew(leader, position)
        if error is not ErrorCode.NONE:
            if error not in RETRIED:
                self.cluster.wrong(f"{self.partition} from {position} on: {error.name}")
            return position
        return self._taken(bytes(line.records or b""), position)

    def _taken(self, records, position):
        for batch in batches_of_any_magic(records):
            for record in batch.records():
                value = bytes(record.value)
                first = self.seen.setdefault(record.offset, value)
                if first != value:
                    self.cluster.wrong(f"{record.offset} is {first} and {value}")
                position = max(position, record.offset + 1)
        return position

    async def _looked(self, end):
        leader = self._leader()
        found = None if leader is None else await self._offset_at(leader, LATEST)
        if found is None:
            return end
        if found < end:
            self.cluster.wrong(f"{self.partition} ends at {found}, and ended at {end}")
        return max(end, found)

    async def _begun_anew(self, leader, position):
        """Where records were deleted, and only there, a position is refused."""
        earliest = await self._offset_at(leader, EARLIEST)
        if earliest is not None and earliest <= position:
            self.cluster.wrong(f"{self.partition} from {position} on is refused: {earliest}")
        return position if earliest is None else max(position, earliest)

    async def _offset_at(self, leader, timestamp):
        named = ListOffsetsRequest.Topic
        asked = named.Partition(
            partition_index=self.partition, current_leader_epoch=self.epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[named(name=TOPIC, partitions=[asked])])
        response = await self._ask(leader, request, LIST_OFFSETS)
        line = None if response is None else response.topics[0].partitions[0]
        return None if line is None or line.error_code else line.offset

    async def delete_records(self):
        """All that may be read now."""
        named, leader = DeleteRecordsRequest.Topic, self._leader()
        if leader is None:
            return
        entry = named.Partition(partition_index=self.partition, offset=HIGH_WATERMARK)
        topic = named(name=TOPIC, partitions=[entry])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        await self._ask(leader, request, DELETE_RECORDS)

    # What a group has come to

    async def _coordinator(self):
        brokers = self.cluster.lines.running
        if not brokers:
            return None
        request = FindCoordinatorRequest(coordinator_keys=[self._group])
        asked = self.cluster.random.choice([*brokers])
        response = await self._ask(asked, request, FIND_COORDINATOR)
        if response is None or response.coordinators[0].error_code:
            return None
        return response.coordinators[0].node_id

    async def _commit(self):
        while not self._is_over:
            offset, coordinator = len(self.acked), await self._coordinator()
            if coordinator is not None and await self._is_committed(coordinator, offset):
                self.committed = offset
            await asyncio.sleep(0.1)

    async def _is_committed(self, coordinator, offset):
        named = OffsetCommitRequest.Topic
        entry = named.Partition(
            partition_index=self.partition, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self._group, topics=[named(name=TOPIC, partitions=[entry])]
        )
        response = await self._ask(coordinator, request, OFFSET_COMMIT)
        return response is not None and not response.topics[0].partitions[0].error_code

    async def check_commit(self):
        """When all is quiet; a commit that was not answered may be there too."""
        named = OffsetFetchRequest.Group
        group = named(
            group_id=self._group,
            topics=[named.Topic(name=TOPIC, partition_indexes=[self.partition])],
        )
        while self.committed >= 0:
            coordinator = await self._coordinator()
            request = OffsetFetchRequest(groups=[group])
            response = coordinator and await self._ask(coordinator, request, OFFSET_FETCH)
            if response is not None and not response.groups[0].error_code:
                found = response.groups[0].topics[0].partitions[0].committed_offset
                if found < self.committed:
                    self.cluster.wrong(f"{self._group} is at {found}, not {self.committed}")
                return
            await asyncio.sleep(0.1)

    @property
    def _group(self):
        return f"group-{self.partition}"

    def compare(self, content, *, start):
        """With what all replicas have; nothing is left before ``start``."""
        values = [bytes(value) for _, value in content]
        there = {offset: bytes(value) for offset, value in content}
        if len(set(values)) < len(values):
            self.cluster.wrong(f"{self.partition} has values twice")
        for kind, known in (("acknowledged", self.acked), ("seen", self.seen)):
            for offset, value in known.items():
                if offset >= start and there.get(offset) != value:
                    self.cluster.wrong(f"{value!r} was {kind} at {offset}: {there.get(offset)!r}")

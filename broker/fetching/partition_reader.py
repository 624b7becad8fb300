"""What a fetch finds in one partition: records, or why there are none.

    found        it is here, and of the topic that is meant
    role         who reads must know the right leader epoch, and may have to ask the leader
    divergence   a reader that has records of an epoch that ended earlier here must cut them first
    records      from the batch that holds the offset on, up to what the reader may see

Records stay in their file: a line has a region of it.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Protocol

from odradek.broker.fetching.closest_replica import ClosestReplica, Place
from odradek.broker.fetching.wanted import Asked, Line, Wanted
from odradek.broker.replicas.leader import Heard, LeaderRole
from odradek.broker.replicas.partition import NO_LEADER_EPOCH, Partition
from odradek.broker.replicas.portion import Portion
from odradek.broker.replicas.throttles import Throttle
from odradek.protocol.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeader,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import ZERO_UUID, Uuid
from odradek.storage import files
from odradek.storage.leader_epochs import UNKNOWN_END

NOTHING = b""
UNKNOWN = -1
_LAST_VERSION_WITH_HARD_LIMITS = 2
_FIRST_VERSION_WITH_STORAGE_ERRORS = 6
#: The beginning of a batch in every format: its offset, and the size of what follows.
_HEAD = Struct(">8xi")
_DivergingEpoch = Line.EpochEndOffset


class Replicas(Protocol):
    """The part of the replica manager that reading needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Topics(Protocol):
    """The part of the cluster's picture that reading needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def name_of(self, topic_id: Uuid, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """What a broker serves at most, holds back from followers, and sends consumers away for."""

    fetch_max_bytes: int
    throttle: Throttle
    closest: ClosestReplica | None = None


@dataclass(slots=True)
class Terms:
    """What holds for all partitions of one fetch; treat as immutable."""

    version: int
    replica_id: int  # a follower's; below zero it is a consumer
    replica_epoch: int  # in which the follower is registered, if it tells
    max_bytes: int
    min_bytes: int
    is_committed: bool  # only what no open transaction can undo
    needs_leader: bool
    place: Place

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def has_hard_limits(self) -> bool:
        return self.version <= _LAST_VERSION_WITH_HARD_LIMITS

    def code_of(self, failure: KafkaError) -> int:
        """Old consumers do not know that a disk can fail; they are sent to look for the leader."""
        is_too_new = isinstance(failure, KafkaStorageError)
        if is_too_new and self.version < _FIRST_VERSION_WITH_STORAGE_ERRORS:
            return NotLeader.error.code
        return code_of(failure)


class PartitionReading:
    """Reads partitions, one after the other, on the same terms."""

    __slots__ = ("_closest", "_replicas", "_throttle", "_topics", "terms")

    def __init__(self, replicas: Replicas, topics: Topics, policy: Policy, terms: Terms) -> None:
        self._replicas = replicas
        self._topics = topics
        self._throttle = policy.throttle
        self._closest = None if terms.is_follower else policy.closest
        self.terms = terms

    def line_of(self, wanted: Wanted, left_bytes: int, *, at_least_one: bool) -> Line:
        """At most as many bytes as are left, unless at least one batch is to be read."""
        asked, terms = wanted.asked, self.terms
        partition = self._found(wanted)
        role = self._role_in(partition, asked)
        wanted.role = None
        if self._closest is not None and role is not None:
            closer = self._closest.than(role, terms.place, asked.fetch_offset)
            if closer is not None:
                line = _empty_line(asked, partition)
                line.preferred_read_replica = closer
                return line
        if asked.last_fetched_epoch >= 0:
            diverging = _diverging(partition, asked)
            if diverging is not None:
                line = _empty_line(asked, partition)
                line.diverging_epoch = diverging
                return line
        up_to = self._end_of(partition)
        limit_bytes = min(asked.partition_max_bytes, left_bytes)
        offset, log = asked.fetch_offset, partition.hosted.log
        has_none = (
            offset >= up_to
            or (limit_bytes == 0 and not at_least_one)
            or (terms.is_follower and self._is_held_up(partition, role))
        )
        if has_none and log.start_offset <= offset <= log.end_offset and partition.hosted.is_usable:
            if offset >= up_to:
                wanted.role, wanted.is_committed = role, terms.is_committed
            line = _empty_line(asked, partition)
            if terms.is_committed:
                line.aborted_transactions = []
            return line
        return self._read(partition, asked, limit_bytes, up_to, at_least_one)

    def _is_held_up(self, partition: Partition, role: LeaderRole | None) -> bool:
        """A follower that is in sync never is."""
        is_in_sync = role is not None and self.terms.replica_id in role.in_sync
        return not is_in_sync and self._throttle.holds_up(partition.topic_partition)

    def told(self, lines: Iterable[Wanted]) -> None:
        """What a follower is sent counts, in sync or not."""
        if not self.terms.is_follower:
            return
        for wanted in lines:
            if wanted.line is not None and wanted.line.records and wanted.partition is not None:
                where = wanted.partition.topic_partition
                self._throttle.record(where, len(wanted.line.records))

    def note_follower(self, wanted: Wanted, line: Line, heard: Heard | None) -> None:
        """What a follower asks for tells what it has, unless that has to be cut."""
        asked = wanted.asked
        if wanted.partition is not None and line.diverging_epoch.epoch < 0:
            wanted.progress = wanted.partition.follower_fetched(
                self.terms.replica_id,
                offset=asked.fetch_offset,
                start_offset=asked.log_start_offset,
                broker_epoch=self.terms.replica_epoch,
                heard=heard,
            )
        else:
            wanted.forgotten()

    def tells_nothing(self, wanted: Wanted, role: LeaderRole, heard: Heard) -> bool:
        """Whether a follower that asks again has been noted to have all, as all others have."""
        progress, partition = wanted.progress, wanted.partition
        return (
            progress is not None
            and partition is not None
            and progress.heard is heard
            and role.followers.get(self.terms.replica_id) is progress
            and partition.log.high_watermark == partition.log.end_offset
            and self.terms.replica_id in role.in_sync
            and progress.broker_epoch == self.terms.replica_epoch
        )

    def failed(self, wanted: Wanted, failure: KafkaError) -> Line:
        wanted.role = None
        wanted.forgotten()  # that its session asks says nothing of this partition any more
        return Line(
            partition_index=wanted.asked.partition,
            error_code=self.terms.code_of(failure),
            high_watermark=UNKNOWN,
            aborted_transactions=None,
            records=NOTHING,
        )

    def goes_on_elsewhere(self, wanted: Wanted) -> bool:
        """Whether a later segment has readable records too: one read ends with its segment."""
        line, partition = wanted.line, wanted.partition
        if line is None or not line.records or partition is None:
            return False
        last = partition.log.segments.holding(self._end_of(partition) - 1)
        return last is not None and last.base_offset > wanted.asked.fetch_offset

    def _found(self, wanted: Wanted) -> Partition:
        """The partition, if it is here and of the topic that is meant."""
        index = wanted.asked.partition
        if wanted.topic is None:
            wanted.topic = self._topics.name_of(wanted.topic_id)
            if wanted.topic is None:
                raise UnknownTopicId(f"no topic has the id {wanted.topic_id}")
        if not self._topics.has_partition(wanted.topic, index):
            raise UnknownTopicOrPartition(f"there is no {wanted.topic}-{index}")
        wanted.partition = partition = self._replicas.partition(wanted.topic, index)
        if wanted.topic_id != ZERO_UUID and partition.topic_id not in (None, wanted.topic_id):
            raise InconsistentTopicId(f"{wanted.topic}-{index} has the id {partition.topic_id}")
        return partition

    def _role_in(self, partition: Partition, asked: Asked) -> LeaderRole | None:
        """None where a consumer reads from a follower."""
        terms = self.terms
        # All below zero stands for none here; elsewhere only -1 does.
        known_epoch = max(NO_LEADER_EPOCH, asked.current_leader_epoch)
        if not terms.needs_leader:
            partition.check_epoch(known_epoch)
            return partition.leader
        role = partition.leading(known_epoch)
        is_other = terms.replica_id != partition.leader_id
        if terms.is_follower and not (is_other and terms.replica_id in role.replicas):
            # It may know of its assignment before we do: it should ask again.
            failure = NotLeader if known_epoch == NO_LEADER_EPOCH else UnknownLeaderEpoch
            raise failure(f"{terms.replica_id} has no replica of {partition.topic_partition}")
        return role

    def _end_of(self, partition: Partition) -> int:
        terms = self.terms
        return partition.readable_up_to(
            is_follower=terms.replica_id >= 0, committed=terms.is_committed
        )

    def _read(
        self, partition: Partition, asked: Asked, limit_bytes: int, up_to: int, at_least_one: bool
    ) -> Line:
        if limit_bytes < 0 and asked.fetch_offset < up_to:
            raise KafkaError(f"{limit_bytes} bytes cannot be read")
        portion = partition.read(
            asked.fetch_offset,
            max_bytes=limit_bytes,
            up_to=up_to,
            committed=self.terms.is_committed,
            at_least_one=at_least_one,
        )
        records = portion.records
        if records.length <= limit_bytes and not at_least_one:
            with partition.hosted:
                is_whole = self._is_whole(records)
            if not is_whole:
                return _empty_line(asked, partition)
        return Line(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=portion.high_watermark,
            last_stable_offset=portion.last_stable_offset,
            log_start_offset=portion.start_offset,
            aborted_transactions=_aborted(portion),
            records=records if records.length else NOTHING,
        )

    def _is_whole(self, records: FileRegion) -> bool:
        """Whether the first batch is, or need not be."""
        if self.terms.has_hard_limits or not records.length:
            return True
        if records.length < _HEAD.size:
            return False
        head = files.read_at(records.descriptor, _HEAD.size, records.position)
        return _HEAD.size + int(_HEAD.unpack(head)[0]) <= records.length


def _diverging(partition: Partition, asked: Asked) -> _DivergingEpoch | None:
    """Where the logs part, if the reader has records that are not in this one (KIP-595)."""
    log, epoch = partition.log, asked.last_fetched_epoch
    end = log.epochs.end_offset_for(epoch, log_end_offset=log.end_offset)
    if end == UNKNOWN_END:
        raise OffsetOutOfRange(f"{partition.topic_partition} does not know epoch {epoch}")
    if asked.fetch_offset < log.start_offset:
        raise OffsetOutOfRange(
            f"{partition.topic_partition} begins at {log.start_offset}, not {asked.fetch_offset}"
        )
    if end.epoch < epoch or end.end_offset < asked.fetch_offset:
        return _DivergingEpoch(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _empty_line(asked: Asked, partition: Partition) -> Line:
    log = partition.hosted.log
    return Line(
        partition_index=asked.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=None,
        records=NOTHING,
    )


def _aborted(portion: Portion) -> list[Line.AbortedTransaction] | None:
    if portion.aborted is None:
        return None
    return [
        Line.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in portion.aborted
    ]

"""Fetch session: incremental fetches of one client (KIP-227).

The first fetch of a session names every partition.  Each later fetch names the partitions whose
request changed, and those to forget.  The response includes only partitions with

    records, an error, a diverging epoch or a preferred read replica,
    or a high watermark or a log start offset that the client does not know yet.

A partition whose records were sent moves to the end of the session, so none starves behind others
when responses are full.  dirty_partitions.py decides which partitions are read.

Unknown partitions stay in the session, because they may be created.  But a client with too many of
them gets no session.

Invariant: every request of a session has the epoch that follows that of the request before.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odradek.broker.fetching.dirty_partitions import AllPartitions, DirtyPartitions
from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionKey
from odradek.broker.replicas.leader_state import FollowerFetchState
from odradek.protocol.errors import InvalidFetchSessionEpoch

INVALID_SESSION_ID = 0
#: The epoch that requests a new session, and the one that ends a session or uses none.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1
#: The number of unknown partitions that a session may have.
UNKNOWN_PARTITIONS_MAX = 1000


def next_epoch(epoch: int) -> int:
    """Return the next epoch.  It skips zero when it wraps: zero would request a new session."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSession:
    """The partitions that one client fetches with many requests."""

    __slots__ = (
        "created_ms",
        "dirty_partitions",
        "epoch",
        "follower_fetch_state",
        "id",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "size",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, FetchPartition],
        dirty_partitions: DirtyPartitions,
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        """``is_privileged``: the session of a follower, which consumers cannot evict."""
        self.id = session_id
        self.partitions = partitions
        self.dirty_partitions = dirty_partitions
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.follower_fetch_state = FollowerFetchState(now_ms)
        #: The epoch that the next request must have.
        self.epoch = next_epoch(INITIAL_EPOCH)
        #: The number of partitions at the last use, which decides about its eviction.
        self.size = len(partitions)

    def update(
        self, requested: dict[PartitionKey, FetchPartition], forgotten: Iterable[PartitionKey]
    ) -> None:
        partitions = self.partitions
        for key, requested_partition in requested.items():
            fetch_partition = partitions.get(key)
            if fetch_partition is None:
                partitions[key] = fetch_partition = requested_partition
            else:
                fetch_partition.update_request(requested_partition.partition_request)
            self.dirty_partitions.add(fetch_partition)
        for key in forgotten:
            forgotten_partition = partitions.pop(key, None)
            if forgotten_partition is not None:
                forgotten_partition.leave_session()
                self.dirty_partitions.remove(forgotten_partition)

    def move_to_end(self, fetch_partition: FetchPartition) -> None:
        """Move the partition to the end, unless it was forgotten while the response was pending."""
        key = fetch_partition.key
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = fetch_partition
            self.dirty_partitions.move_to_end(fetch_partition)


def has_too_many_unknown(fetch_partitions: Sequence[FetchPartition]) -> bool:
    return (
        len(fetch_partitions) > UNKNOWN_PARTITIONS_MAX
        and sum(fetch_partition.partition is None for fetch_partition in fetch_partitions)
        > UNKNOWN_PARTITIONS_MAX
    )


class SessionlessFetchContext:
    """A fetch without a session: all partitions are read and sent, and nothing is cached."""

    __slots__ = ("partitions", "session_id")

    follower_fetch_state = None

    def __init__(self, partitions: AllPartitions) -> None:
        self.partitions = partitions
        self.session_id = INVALID_SESSION_ID

    def select_response_partitions(self, results: list[FetchPartition]) -> list[FetchPartition]:
        """Return the partitions to include in the response."""
        return results


class IncrementalFetchContext:
    """An incremental fetch of a session: the response has the changed partitions only."""

    __slots__ = (
        "_close_session",
        "_epoch",
        "_session",
        "follower_fetch_state",
        "partitions",
        "session_id",
    )

    def __init__(self, session: FetchSession, close_session: Callable[[int], None]) -> None:
        """The session already has the changes of the request; ``close_session`` removes it."""
        self._session = session
        self._close_session = close_session
        self._epoch = session.epoch
        self.partitions = session.dirty_partitions
        self.session_id = session.id
        self.follower_fetch_state = session.follower_fetch_state

    def select_response_partitions(self, results: list[FetchPartition]) -> list[FetchPartition]:
        """Return the partitions to include in the response.

        Raises InvalidFetchSessionEpoch if another request of the session came meanwhile.
        """
        session = self._session
        if session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session {session.id} has a newer request, next epoch {session.epoch}"
            )
        if has_too_many_unknown(results):
            self._close_session(session.id)
        included = [
            fetch_partition
            for fetch_partition in results
            if fetch_partition.maybe_update_response_data()
        ]
        for fetch_partition in included:
            if (
                fetch_partition.partition_response is not None
                and fetch_partition.partition_response.records
            ):
                session.move_to_end(fetch_partition)
        return included

"""Offsets of consumers older than 0.9, which are stored in ZooKeeper under /consumers.

OffsetCommit v0 and OffsetFetch v0 use these.  They are separate from the offsets that later
versions commit: neither sees the other.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.groups.offsets import TopicPartitionTuple
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Create,
    GetData,
    MetadataStore,
    NodeExists,
    NoNode,
    Outcome,
    StoreError,
    ZNode,
)
from odradek.controller.store.path_validation import is_valid_path
from odradek.controller.store.payloads.consumer_offset import ConsumerOffset
from odradek.protocol.errors import InvalidGroupId
from odradek.protocol.types import TopicPartition


class ZooKeeperOffsets:
    """The offsets of all groups in the cluster's metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def commit(self, group_id: str, partition: TopicPartitionTuple, offset: int) -> None:
        path = _path(group_id, partition)
        value = ConsumerOffset(offset).encode()
        try:
            await self._store.set(path, value)
        except NoNode:
            await self._create(path, value)

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartitionTuple]
    ) -> list[int | None]:
        """Return the offsets in the order of ``partitions``; None where none is committed."""
        znode_paths = [_path(group_id, partition) for partition in partitions]
        outcomes = await self._store.run([GetData(path) for path in znode_paths])
        return [
            _read_offset(outcome, path) for outcome, path in zip(outcomes, znode_paths, strict=True)
        ]

    async def _create(self, path: str, value: bytes) -> None:
        """Create the znode and its parents; another client may create them at the same time."""
        parts = path.split("/")
        parent_paths = ["/".join(parts[:depth]) for depth in range(2, len(parts))]
        for outcome in await self._store.run([Create(parent) for parent in parent_paths]):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise outcome
        try:
            await self._store.create(path, value)
        except NodeExists:
            await self._store.set(path, value)


def _path(group_id: str, partition: TopicPartitionTuple) -> str:
    path = paths.consumer_offset(group_id, TopicPartition(*partition))
    if not is_valid_path(path):
        raise InvalidGroupId(f"group id {group_id!r}: must be a valid part of a ZooKeeper path")
    return path


def _read_offset(result: Outcome, path: str) -> int | None:
    if isinstance(result, ZNode):
        return ConsumerOffset.decode(result.value, path).offset
    if isinstance(result, NoNode):
        return None
    assert isinstance(result, StoreError), result
    raise result

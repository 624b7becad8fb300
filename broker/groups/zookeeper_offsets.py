"""Where consumers older than 0.9 keep their offsets: in the metadata store, under /consumers.

OffsetCommit and OffsetFetch v0 are about these; what later versions commit is not seen here, nor
the other way round.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.groups.offsets import Place
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Create,
    Get,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    Outcome,
    StoreError,
)
from odradek.controller.store.legal_paths import is_legal
from odradek.controller.store.payloads.consumer_offset import ConsumerOffset
from odradek.protocol.errors import InvalidGroupId
from odradek.protocol.types import TopicPartition


class OldOffsets:
    """Of all groups, in the one store of a cluster."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def commit(self, group_id: str, place: Place, offset: int) -> None:
        path = _path(group_id, place)
        value = ConsumerOffset(offset).encode()
        try:
            await self._store.set(path, value)
        except NoNode:
            await self._create(path, value)

    async def fetch(self, group_id: str, places: Sequence[Place]) -> list[int | None]:
        """In the order of ``places``; None where nothing was committed."""
        asked = [_path(group_id, place) for place in places]
        found = await self._store.run([Get(path) for path in asked])
        return [_offset_in(each, path) for each, path in zip(found, asked, strict=True)]

    async def _create(self, path: str, value: bytes) -> None:
        """With all nodes above it; somebody else may be about to, too."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(2, len(parts))]
        for outcome in await self._store.run([Create(each) for each in above]):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExists):
                raise outcome
        try:
            await self._store.create(path, value)
        except NodeExists:
            await self._store.set(path, value)


def _path(group_id: str, place: Place) -> str:
    path = paths.consumer_offset(group_id, TopicPartition(*place))
    if not is_legal(path):
        raise InvalidGroupId(f"a group of the name {group_id!r} cannot be kept in the store")
    return path


def _offset_in(found: Outcome, path: str) -> int | None:
    if isinstance(found, Node):
        return ConsumerOffset.decode(found.value, path).offset
    if isinstance(found, NoNode):
        return None
    assert isinstance(found, StoreError), found
    raise found

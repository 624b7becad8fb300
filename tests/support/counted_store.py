"""A store that notes what it is asked, for tests of what things cost."""

from collections.abc import Sequence

from odradek.controller.store.base import (
    Check,
    MetadataStore,
    Operation,
    Outcome,
    Result,
    SessionListener,
    Write,
)


class CountedStore(MetadataStore):
    """Another store; ``runs`` are the operations of each of its runs since ``forget``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.session_id = store.session_id
        self.runs: list[Sequence[Operation]] = []

    def forget(self) -> None:
        self.runs.clear()

    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        self.runs.append(operations)
        return await self._store.run(operations, fence=fence)

    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        return await self._store.multi(operations)

    async def open_session(self) -> None:
        await self._store.open_session()

    async def close(self) -> None:
        await self._store.close()

    def add_session_listener(self, listener: SessionListener) -> None:
        self._store.add_session_listener(listener)

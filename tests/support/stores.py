"""The metadata stores that one suite of tests is run against, each with a tree of the test's own.

    embedded    the tree in SQLite
    memory      the tree without a disk, for simulations
    zookeeper   a real ZooKeeper, below a chroot; skipped, with the reason, where there is none

A conftest.py that imports ``stores`` from here has them as a fixture.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pytest

from odradek.controller.store.base import MetadataStore, SessionExpired, WatchEvent
from odradek.controller.store.data_tree import DataTree, Mutation
from odradek.controller.store.embedded import EmbeddedStore
from odradek.controller.store.journal import JournalError, SqliteJournal
from tests.support.loops import at_end, on_a_thread
from tests.support.memory_store import MemoryStore

NOW_MS = 1_700_000_000_000


class Stores(Protocol):
    """How a test gets at stores of one kind."""

    async def open(self) -> MetadataStore:
        """A session on the test's tree, another one each time; closed when the test has ended."""

    async def expire(self, store: MetadataStore) -> None:
        """End the session without the store's doing; it has heard of it afterwards."""


class FailingJournal(SqliteJournal):
    """Fails at a commit, as with a full disk, when told so."""

    fails = False

    def commit(self, mutations: Iterable[Mutation], zxid: int) -> None:
        if self.fails:
            raise JournalError(f"{self.file}: a test has its way")
        super().commit(mutations, zxid)


class EmbeddedStores:
    def __init__(self, folder: Path) -> None:
        self._journal = FailingJournal(folder / "metadata.db")
        self._is_used = False

    async def open(self) -> MetadataStore:
        if self._is_used:
            pytest.skip("an embedded store has one session")
        self._is_used = True
        store = EmbeddedStore(self._journal, run_in_thread=on_a_thread, now_ms=lambda: NOW_MS)
        at_end(store.close)
        await store.open_session()
        return store

    async def expire(self, store: MetadataStore) -> None:
        self._journal.fails = True
        with pytest.raises(SessionExpired):
            await store.set("/", b"never kept")
        self._journal.fails = False


class MemoryStores:
    def __init__(self) -> None:
        self._tree = DataTree()

    async def open(self) -> MetadataStore:
        store = MemoryStore(self._tree, now_ms=lambda: NOW_MS)
        at_end(store.close)
        await store.open_session()
        return store

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, MemoryStore)
        store.expire()


@pytest.fixture(params=["embedded", "memory", "zookeeper"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    match request.param:
        case "embedded":
            return EmbeddedStores(tmp_path)
        case "memory":
            return MemoryStores()
        case _:
            found: Stores = request.getfixturevalue("zookeeper_stores")
            return found


class Seen:
    """A watch, and the events it was called with."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)

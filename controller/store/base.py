"""What a metadata store is: a tree of small nodes with versions, watches, ephemerals and sessions.

The model is ZooKeeper's, since the tree is Kafka's own.  Nodes are named by absolute paths below
the store's root (a chroot is the store's affair).  Every write to a node raises its version by one;
a write that names a version is refused if the node has another.  Ephemeral nodes belong to the
session that created them and go with it.  A watch is asked for with a read and called once, on the
loop, when that which was read has changed; it comes before the answer of any read that shows the
change.

    run     many operations at once: pipelined, done in order, each with its own outcome
    multi   several writes as one: all are done or none

A connection that breaks is the store's affair too: operations wait for it to come back and are sent
again.  So a write may find that it has been done already, by itself: whoever creates a node must be
ready for NodeExists, whoever names a version for BadVersion, and look.  Only the end of the session
is told to the caller: every operation then fails with SessionExpired, also those under way, until
``open_session`` has begun another.

Owner: the event loop; whatever threads an implementation has end inside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANY_VERSION = -1


class Stat(NamedTuple):
    """What is known of a node besides its value."""

    created_zxid: int  # the transaction that made it: of a broker's node, the broker's epoch
    modified_zxid: int
    created_ms: int  # 0 if the store does not tell: of what was just created in a multi
    modified_ms: int
    version: int
    children_version: int
    ephemeral_owner: int  # a session; 0 for a persistent node
    children_count: int


class ZNode(NamedTuple):
    value: bytes
    stat: Stat


class WatchEventType(Enum):
    """What has happened to a watched node."""

    CREATED = "it is there"
    DELETED = "it is gone"
    DATA_CHANGED = "its value was written"
    CHILDREN_CHANGED = "a child was created or deleted"


class WatchEvent(NamedTuple):
    type: WatchEventType
    path: str


Watch = Callable[[WatchEvent], None]


class SessionState(Enum):
    CONNECTED = "the store answers"
    SUSPENDED = "it does not answer; the session may still live"
    EXPIRED = "the session is over, and its ephemeral nodes are gone"


SessionListener = Callable[[SessionState], None]


# Reads


@dataclass(frozen=True, slots=True)
class GetData:
    """-> Node.  The watch is for its value and its end."""

    path: str
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """-> Stat, or None.  The watch is for its beginning, its value and its end."""

    path: str
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class GetChildren:
    """-> list of names, in no order.  The watch is for children coming and going, and its end."""

    path: str
    watch: Watch | None = None


# Writes, which may be parts of a multi


@dataclass(frozen=True, slots=True)
class Create:
    """-> Created.  A sequential node gets ten digits appended, counted by its parent."""

    path: str
    value: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """-> Stat."""

    path: str
    value: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """-> None."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """-> None; BadVersion or NoNode if the node does not have this version."""

    path: str
    version: int


class CreateResult(NamedTuple):
    path: str
    stat: Stat


Read = GetData | Exists | GetChildren
Write = Create | SetData | Delete | Check
Operation = Read | Write


# What may go wrong


class StoreError(Exception):
    """An operation could not be done; ``path`` says on which node."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{type(self).__name__} at {self.path}" if self.path else type(self).__name__


class NoNode(StoreError):
    """There is no such node, or no parent to create it in."""


class NodeExists(StoreError):
    """There is such a node already."""


class BadVersion(StoreError):
    """The node has another version than the write was for."""


class NotEmpty(StoreError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral node cannot have children."""


class NotPermitted(StoreError):
    """The node's access list, or the server, does not allow it."""


class SessionExpired(StoreError):
    """The session is over; a new one must be opened."""


class FenceCheckFailed(StoreError):
    """The node that a write was conditional on has changed: somebody else is in charge."""


class CannotOpenSession(Exception):
    """A session could not begin; the text says why, and where."""


class MultiFailed(StoreError):
    """Nothing of a multi was done; ``cause`` is why, at ``slot`` of its operations."""

    def __init__(self, index: int, cause: StoreError) -> None:
        super().__init__(cause.path)
        self.index = index
        self.cause = cause


Result = ZNode | Stat | CreateResult | list[str] | None
Outcome = Result | StoreError


class MetadataStore(ABC):
    """A tree of nodes.  ``run`` and ``multi`` do everything; the rest is for single operations."""

    #: Of the session that is open; ephemeral nodes carry it.
    session_id: int

    @abstractmethod
    async def open_session(self) -> None:
        """Connect, and begin a session; also after one has expired.  Raises CannotOpen."""

    @abstractmethod
    async def close(self) -> None:
        """End the session and let go of everything."""

    @abstractmethod
    def add_session_listener(self, listener: SessionListener) -> None:
        """Tell ``listener`` of every change of the session's state from now on."""

    @abstractmethod
    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        """Do them in order, not as one.  The outcome of each is its result or its StoreError.

        With a ``fence`` each write is done only if that check holds in the same moment, and is
        Fenced otherwise.  Reads take no notice of it.  Raises nothing but SessionExpired, and
        ValueError, before anything is done, where a path is none: see legal_paths.py.
        """

    @abstractmethod
    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        """Do them all as one change, or raise MultiFailed and do nothing; ValueError as ``run``."""

    async def get(self, path: str, watch: Watch | None = None) -> ZNode:
        node = await self._run_one(GetData(path, watch))
        assert isinstance(node, ZNode), node
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        stat = await self._run_one(Exists(path, watch))
        assert stat is None or isinstance(stat, Stat), stat
        return stat

    async def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = await self._run_one(GetChildren(path, watch))
        assert isinstance(names, list), names
        return names

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        is_sequential: bool = False,
    ) -> CreateResult:
        created = await self._run_one(Create(path, value, is_ephemeral, is_sequential))
        assert isinstance(created, CreateResult), created
        return created

    async def set(self, path: str, value: bytes, *, version: int = ANY_VERSION) -> Stat:
        stat = await self._run_one(SetData(path, value, version))
        assert isinstance(stat, Stat), stat
        return stat

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._run_one(Delete(path, version))

    async def _run_one(self, operation: Operation) -> Result:
        (outcome,) = await self.run([operation])
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

"""The interface of a metadata store: a tree of znodes with versions, watches and sessions.

The model is ZooKeeper's, since the tree is Kafka's.  Znodes are named by absolute paths below the
store's root; the store adds the chroot.  Every write to a znode increments its version.  A write
that names a version fails if the znode has another version.  Ephemeral znodes belong to the session
that created them and are deleted when it ends.  A read can register a watch.  The watch is called
once, on the event loop, when the data that was read changes, and before the response of any read
that shows the change.

    run     several operations, pipelined: done in order, each with its own outcome
    multi   several writes in one transaction: all of them are done or none

The store also handles connection loss: operations wait for the reconnect and are sent again.  A
write can therefore fail because its own first attempt succeeded.  A caller that creates a znode
must handle NodeExists, a caller that names a version must handle BadVersion, and both must read the
znode to find out.  Only session expiry is visible to the caller: every operation, also one in
flight, fails with SessionExpired until ``open_session`` has begun another session.

Owner: the event loop; threads of an implementation are not visible outside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANY_VERSION = -1


class Stat(NamedTuple):
    """The metadata of a znode."""

    created_zxid: int  # the transaction that created it; for a broker's znode, the broker epoch
    modified_zxid: int
    created_ms: int  # 0 if the store does not return it: for a znode just created in a multi
    modified_ms: int
    version: int
    children_version: int
    ephemeral_owner: int  # the session id; 0 for a persistent znode
    children_count: int


class ZNode(NamedTuple):
    value: bytes
    stat: Stat


class WatchEventType(Enum):
    """What happened to a watched znode."""

    CREATED = "the znode was created"
    DELETED = "the znode was deleted"
    DATA_CHANGED = "the value was written"
    CHILDREN_CHANGED = "a child was created or deleted"


class WatchEvent(NamedTuple):
    type: WatchEventType
    path: str


Watch = Callable[[WatchEvent], None]


class SessionState(Enum):
    CONNECTED = "connected to the store"
    SUSPENDED = "disconnected; the session may still be alive"
    EXPIRED = "the session has expired and its ephemeral znodes are deleted"


SessionListener = Callable[[SessionState], None]


# Reads


@dataclass(frozen=True, slots=True)
class GetData:
    """Returns a ZNode.  The watch fires when the value changes or the znode is deleted."""

    path: str
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """Returns a Stat, or None.  The watch fires on creation, value change and deletion."""

    path: str
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class GetChildren:
    """Returns the names, unordered.  The watch fires on child changes and on deletion."""

    path: str
    watch: Watch | None = None


# Writes, which may also be part of a multi


@dataclass(frozen=True, slots=True)
class Create:
    """Returns a CreateResult.  A sequential znode gets ten digits, counted by its parent."""

    path: str
    value: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Returns a Stat."""

    path: str
    value: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Returns None."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Returns None; fails with BadVersion or NoNode if the znode does not have this version."""

    path: str
    version: int


class CreateResult(NamedTuple):
    path: str
    stat: Stat


Read = GetData | Exists | GetChildren
Write = Create | SetData | Delete | Check
Operation = Read | Write


# Errors


class StoreError(Exception):
    """An operation failed; ``path`` is its znode."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{type(self).__name__} at {self.path}" if self.path else type(self).__name__


class NoNode(StoreError):
    """The znode does not exist, or the parent of the znode to create does not exist."""


class NodeExists(StoreError):
    """The znode exists already."""


class BadVersion(StoreError):
    """The znode does not have the version that the operation names."""


class NotEmpty(StoreError):
    """A znode with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral znode cannot have children."""


class NotPermitted(StoreError):
    """The ACL of the znode, or the server, does not allow the operation."""


class SessionExpired(StoreError):
    """The session has expired; a new one must be opened."""


class FenceCheckFailed(StoreError):
    """The fence of a write does not hold any more: another broker has become the controller."""


class CannotOpenSession(Exception):
    """A session could not be opened; the message says where and why."""


class MultiFailed(StoreError):
    """A multi failed and changed nothing; ``cause`` is the error of the operation at ``index``."""

    def __init__(self, index: int, cause: StoreError) -> None:
        super().__init__(cause.path)
        self.index = index
        self.cause = cause


Result = ZNode | Stat | CreateResult | list[str] | None
Outcome = Result | StoreError


class MetadataStore(ABC):
    """A tree of znodes.  ``run`` and ``multi`` do everything; the rest is for convenience."""

    #: The id of the open session; the owner of its ephemeral znodes.
    session_id: int

    @abstractmethod
    async def open_session(self) -> None:
        """Connect and begin a session, also after one has expired.  Raises CannotOpenSession."""

    @abstractmethod
    async def close(self) -> None:
        """End the session and release all resources."""

    @abstractmethod
    def add_session_listener(self, listener: SessionListener) -> None:
        """Call ``listener`` on every later change of the session state."""

    @abstractmethod
    async def run(
        self, operations: Sequence[Operation], *, fence: Check | None = None
    ) -> list[Outcome]:
        """Run ``operations`` in order, not atomically.  Each outcome is a result or a StoreError.

        With a ``fence``, each write is done only if that check holds in the same transaction;
        otherwise its outcome is FenceCheckFailed.  Reads ignore the fence.  Raises only
        SessionExpired, and ValueError, before anything is done, if a path is invalid: see
        path_validation.py.
        """

    @abstractmethod
    async def multi(self, operations: Sequence[Write]) -> list[Result]:
        """Do all ``operations`` atomically or raise MultiFailed; raises ValueError like ``run``."""

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

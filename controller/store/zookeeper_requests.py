"""The store's operations in ZooKeeper's terms, and its answers in ours.

A write under a fence is a multi of two: the check, and the write.  ZooKeeper tells no Stat of what
is created in a multi; it is put together from what is known, and the times, which are not, are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo import exceptions
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import ZnodeStat

from odradek.controller.store.base import (
    BadVersion,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Fenced,
    Get,
    MultiFailed,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    Outcome,
    Read,
    Result,
    SessionExpired,
    Set,
    Stat,
    StoreError,
    Write,
)
from odradek.controller.store.zookeeper_access import access_list
from odradek.controller.store.zookeeper_watches import Watcher, Watchers

EPHEMERAL_FLAG = 1
SEQUENTIAL_FLAG = 2
# The server's jute.maxbuffer as it comes, less what stands around values and paths.  A longer
# request is answered by closing the connection, and would be sent again for ever.
REQUEST_BYTES_MAX = 0xFFFFF - 1024
BYTES_PER_OPERATION = 128

REQUESTS = {Get: wire.GetData, Exists: wire.Exists, Children: wire.GetChildren}

ERRORS: dict[type[Exception], type[StoreError]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.NoAuthError: NotPermitted,
    exceptions.InvalidACLError: NotPermitted,
    exceptions.NotReadOnlyCallError: NotPermitted,
    exceptions.SessionExpiredError: SessionExpired,
}
#: What is said of all operations of a multi but the one that it failed for.
UNDONE = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


class Translator:
    """For one session, ``session_id``.  Paths on the server begin with the chroot."""

    def __init__(self, *, chroot: str, set_acl: bool) -> None:
        self.session_id = 0
        self._chroot = chroot
        self._set_acl = set_acl
        self._watchers = Watchers()

    def request(self, operation: Operation) -> Any:
        if isinstance(operation, Read):
            watcher = self._watchers.left_by(operation)
            return REQUESTS[type(operation)](self._outer(operation.path), watcher)
        part = self._part(operation)
        if isinstance(operation, Create):
            return wire.Create2(*part)
        return wire.Transaction([part]) if isinstance(operation, Check) else part

    def multi(self, operations: Sequence[Write]) -> Any:
        return wire.Transaction([self._part(operation) for operation in operations])

    def arm(self, watcher: Watcher) -> Any:
        """A read that sets a lost watch again, and shows what it has missed."""
        kind = wire.GetChildren2 if watcher.is_for_children else wire.Exists
        return kind(self._outer(watcher.path), watcher)

    def outcome(self, operation: Operation, answer: Any) -> Outcome:
        """Of ``request``."""
        if isinstance(answer, Exception):
            return failure(answer, operation.path)
        match operation:
            case Get():
                value, stat = answer
                return Node(value or b"", _stat(stat))
            case Exists() | Set():
                return None if answer is None else _stat(answer)
            case Children():
                return list(answer)
            case Create():
                path, stat = answer
                return Created(self._inner(path), _stat(stat))
            case Delete():
                return None
            case Check(path=path):
                failed = _first_failure(answer, [path])
                return failed and failed.cause

    def fenced_outcome(self, operations: Sequence[Write], answer: Any, zxid: int) -> Outcome:
        """Of a multi of two, of which the first is the fence."""
        outcome = self.multi_outcome(operations, answer, zxid)
        if not isinstance(outcome, MultiFailed):
            return outcome if isinstance(outcome, StoreError) else outcome[1]
        return outcome.cause if outcome.slot else Fenced(outcome.path)

    def multi_outcome(
        self, operations: Sequence[Write], answer: Any, zxid: int
    ) -> list[Result] | StoreError:
        if isinstance(answer, Exception):
            refused = failure(answer, operations[0].path)
            return refused if isinstance(refused, SessionExpired) else MultiFailed(0, refused)
        failed = _first_failure(answer, [operation.path for operation in operations])
        if failed is not None:
            return failed
        return [
            self._done(operation, result, zxid)
            for operation, result in zip(operations, answer, strict=True)
        ]

    def _done(self, operation: Write, result: Any, zxid: int) -> Result:
        if isinstance(operation, Create):
            owner = self.session_id if operation.is_ephemeral else 0
            return Created(self._inner(result), Stat(zxid, zxid, 0, 0, 0, 0, owner, 0))
        return _stat(result) if isinstance(operation, Set) else None

    def _part(self, operation: Write) -> Any:
        path = self._outer(operation.path)
        match operation:
            case Create(value=value, is_ephemeral=is_ephemeral, is_sequential=is_sequential):
                acl = access_list(operation.path, set_acl=self._set_acl)
                flags = is_ephemeral * EPHEMERAL_FLAG | is_sequential * SEQUENTIAL_FLAG
                return wire.Create(path, value, acl, flags)
            case Set(value=value, version=version):
                return wire.SetData(path, value, version)
            case Delete(version=version):
                return wire.Delete(path, version)
            case Check(version=version):
                return wire.CheckVersion(path, version)

    def _outer(self, path: str) -> str:
        return self._chroot if self._chroot and path == "/" else self._chroot + path

    def _inner(self, path: str) -> str:
        return path[len(self._chroot) :]


def is_too_long(operations: Sequence[Operation]) -> bool:
    """Whether the server would not even look at them, sent as one."""
    size = sum(
        BYTES_PER_OPERATION
        + len(operation.path)
        + (len(operation.value) if isinstance(operation, Create | Set) else 0)
        for operation in operations
    )
    return size > REQUEST_BYTES_MAX


def failure(error: Exception, path: str) -> StoreError:
    kind = ERRORS.get(type(error))
    if kind is not None:
        return kind(path)
    unforeseen = StoreError(path)
    unforeseen.add_note(f"ZooKeeper answered {error!r}")
    return unforeseen


def _first_failure(answer: Sequence[Any], paths: Sequence[str]) -> MultiFailed | None:
    for slot, (result, path) in enumerate(zip(answer, paths, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, UNDONE):
            return MultiFailed(slot, failure(result, path))
    return None


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        created_zxid=stat.czxid,
        modified_zxid=stat.mzxid,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
        version=stat.version,
        children_version=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        children_count=stat.numChildren,
    )

"""Translates the store's operations to ZooKeeper requests, and responses to outcomes.

A write with a fence is a multi of two operations: the check and the write.  ZooKeeper returns no
Stat for a znode created in a multi, so the Stat is built from known values; its times are 0.
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
    Create,
    CreateResult,
    Delete,
    Exists,
    FenceCheckFailed,
    GetChildren,
    GetData,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    Outcome,
    Read,
    Result,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    Write,
    ZNode,
)
from odradek.controller.store.zookeeper_security import default_acls
from odradek.controller.store.zookeeper_watches import Watcher, WatcherRegistry

EPHEMERAL_FLAG = 1
SEQUENTIAL_FLAG = 2
# The server's default jute.maxbuffer, less the overhead of values and paths.  The server closes the
# connection on a longer request, which would then be sent again endlessly.
REQUEST_BYTES_MAX = 0xFFFFF - 1024
OPERATION_OVERHEAD_BYTES = 128

READ_REQUESTS = {GetData: wire.GetData, Exists: wire.Exists, GetChildren: wire.GetChildren}

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
#: The error of every operation of a failed multi except the one that caused the failure.
ROLLED_BACK_ERRORS = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


class RequestTranslator:
    """Translates for one session, ``session_id``.  Paths on the server begin with the chroot."""

    def __init__(self, *, chroot: str, set_acl: bool) -> None:
        self.session_id = 0
        self._chroot = chroot
        self._set_acl = set_acl
        self._watcher_registry = WatcherRegistry()

    def to_request(self, operation: Operation) -> Any:
        if isinstance(operation, Read):
            watcher = self._watcher_registry.get_or_create(operation)
            return READ_REQUESTS[type(operation)](self._with_chroot(operation.path), watcher)
        part = self._to_write_request(operation)
        if isinstance(operation, Create):
            return wire.Create2(*part)
        return wire.Transaction([part]) if isinstance(operation, Check) else part

    def to_multi_request(self, operations: Sequence[Write]) -> Any:
        return wire.Transaction([self._to_write_request(operation) for operation in operations])

    def to_watch_request(self, watcher: Watcher) -> Any:
        """Return a read that registers a lost watch again and shows what it has missed."""
        request_type = wire.GetChildren2 if watcher.is_for_children else wire.Exists
        return request_type(self._with_chroot(watcher.path), watcher)

    def to_outcome(self, operation: Operation, response: Any) -> Outcome:
        """Translate the response to ``to_request``."""
        if isinstance(response, Exception):
            return to_store_error(response, operation.path)
        match operation:
            case GetData():
                value, stat = response
                return ZNode(value or b"", _stat(stat))
            case Exists() | SetData():
                return None if response is None else _stat(response)
            case GetChildren():
                return list(response)
            case Create():
                path, stat = response
                return CreateResult(self._without_chroot(path), _stat(stat))
            case Delete():
                return None
            case Check(path=path):
                failed = _first_error(response, [path])
                return failed and failed.cause

    def to_fenced_outcome(self, operations: Sequence[Write], response: Any, zxid: int) -> Outcome:
        """Translate the response to a multi of two operations, the first of which is the fence."""
        outcome = self.to_multi_outcome(operations, response, zxid)
        if not isinstance(outcome, MultiFailed):
            return outcome if isinstance(outcome, StoreError) else outcome[1]
        return outcome.cause if outcome.index else FenceCheckFailed(outcome.path)

    def to_multi_outcome(
        self, operations: Sequence[Write], response: Any, zxid: int
    ) -> list[Result] | StoreError:
        if isinstance(response, Exception):
            error = to_store_error(response, operations[0].path)
            return error if isinstance(error, SessionExpired) else MultiFailed(0, error)
        failed = _first_error(response, [operation.path for operation in operations])
        if failed is not None:
            return failed
        return [
            self._to_result(operation, result, zxid)
            for operation, result in zip(operations, response, strict=True)
        ]

    def _to_result(self, operation: Write, result: Any, zxid: int) -> Result:
        if isinstance(operation, Create):
            owner = self.session_id if operation.is_ephemeral else 0
            return CreateResult(
                self._without_chroot(result), Stat(zxid, zxid, 0, 0, 0, 0, owner, 0)
            )
        return _stat(result) if isinstance(operation, SetData) else None

    def _to_write_request(self, operation: Write) -> Any:
        path = self._with_chroot(operation.path)
        match operation:
            case Create(value=value, is_ephemeral=is_ephemeral, is_sequential=is_sequential):
                acl = default_acls(operation.path, set_acl=self._set_acl)
                flags = is_ephemeral * EPHEMERAL_FLAG | is_sequential * SEQUENTIAL_FLAG
                return wire.Create(path, value, acl, flags)
            case SetData(value=value, version=version):
                return wire.SetData(path, value, version)
            case Delete(version=version):
                return wire.Delete(path, version)
            case Check(version=version):
                return wire.CheckVersion(path, version)

    def _with_chroot(self, path: str) -> str:
        return self._chroot if self._chroot and path == "/" else self._chroot + path

    def _without_chroot(self, path: str) -> str:
        return path[len(self._chroot) :]


def exceeds_max_size(operations: Sequence[Operation]) -> bool:
    """Return whether the server would reject the operations, sent as one request, by size."""
    size = sum(
        OPERATION_OVERHEAD_BYTES
        + len(operation.path)
        + (len(operation.value) if isinstance(operation, Create | SetData) else 0)
        for operation in operations
    )
    return size > REQUEST_BYTES_MAX


def to_store_error(error: Exception, path: str) -> StoreError:
    error_type = ERRORS.get(type(error))
    if error_type is not None:
        return error_type(path)
    unexpected = StoreError(path)
    unexpected.add_note(f"unexpected ZooKeeper error: {error!r}")
    return unexpected


def _first_error(response: Sequence[Any], paths: Sequence[str]) -> MultiFailed | None:
    for index, (result, path) in enumerate(zip(response, paths, strict=True)):
        if isinstance(result, Exception) and not isinstance(result, ROLLED_BACK_ERRORS):
            return MultiFailed(index, to_store_error(result, path))
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

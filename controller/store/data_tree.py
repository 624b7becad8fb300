"""The tree of znodes in memory: versions, ephemerals, sequences, sessions.  ZooKeeper: DataTree.

Every change has a number, the zxid, one higher than the last one; all parts of a multi share one
zxid.  The number of a sequential znode is the count of all children that its parent ever had.
Several sessions may share a tree.  This module neither awaits nor writes: an operation is done at
once, and its ``Effects`` contain the outcomes, the znodes to persist and the watches to call.  The
embedded store returns no outcome and calls no watch before the mutations that it shows are on disk.

A mutation is a whole znode, or the path of a deleted one, so only the last of several changes to a
znode has to be written.  Ephemeral znodes are not persisted, but the zxid and the creation count of
their parent are: neither goes back when the process restarts.

Owner: the creator of the tree; in a broker, the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.controller.store.base import (
    ANY_VERSION,
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
    Operation,
    Outcome,
    Read,
    Result,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
    WatchEventType,
    Write,
    ZNode,
)
from odradek.controller.store.path_validation import ROOT, check_paths, is_valid_path
from odradek.controller.store.watch_manager import WatchCall, WatchManager

NO_OWNER = 0


class NodeRecord(NamedTuple):
    """A persistent znode, as the journal stores it."""

    path: str
    value: bytes
    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    version: int
    creations: int  # the number of children ever created


class DeletedNode(NamedTuple):
    """The znode at this path is deleted from the journal."""

    path: str


Mutation = NodeRecord | DeletedNode


@dataclass(slots=True)
class Effects:
    """The result of operations: ``mutations`` by path, ``watch_calls`` in calling order."""

    outcomes: list[Outcome] = field(default_factory=list)
    mutations: dict[str, Mutation] = field(default_factory=dict)
    watch_calls: list[WatchCall] = field(default_factory=list)


@dataclass(slots=True)
class _DataNode:
    value: bytes
    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    version: int = 0
    creations: int = 0
    owner: int = NO_OWNER
    # A dictionary, not a set: the order of names then depends on the operations alone.
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> Stat:
        return Stat(
            created_zxid=self.created_zxid,
            modified_zxid=self.modified_zxid,
            created_ms=self.created_ms,
            modified_ms=self.modified_ms,
            version=self.version,
            # Creations plus deletions; every created child that is not present was deleted.
            children_version=2 * self.creations - len(self.children),
            ephemeral_owner=self.owner,
            children_count=len(self.children),
        )


@dataclass(slots=True)
class _Transaction:
    """Writes that are done atomically; ``undo`` holds the function that reverts each of them."""

    session_id: int
    zxid: int
    now_ms: int
    undo: list[Callable[[], None]] = field(default_factory=list)
    changed_paths: list[str] = field(default_factory=list)
    events: list[WatchEvent] = field(default_factory=list)


class DataTree:
    """All znodes, sessions and watches; ``zxid`` is that of the last change."""

    def __init__(self, *, zxid: int = 0, records: Iterable[NodeRecord] = ()) -> None:
        """Load ``records``; raise ValueError if they do not form a tree."""
        self.zxid = zxid
        self._nodes = {ROOT: _DataNode(b"", 0, 0, 0, 0)}
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._watch_manager = WatchManager()
        for record in sorted(records):
            self._load_record(record)

    def records(self) -> list[NodeRecord]:
        """Return all persistent znodes."""
        return [
            record for path in self._nodes if isinstance(record := self._mutation(path), NodeRecord)
        ]

    def begin_session(self) -> int:
        """Return the id of the new session: the zxid of its beginning, so it is never reused."""
        self.zxid += 1
        self._ephemerals[self.zxid] = {}
        return self.zxid

    def end_session(self, session_id: int, *, now_ms: int) -> Effects:
        """Remove the watches of the session and delete its ephemeral znodes."""
        self._watch_manager.remove_session(session_id)
        deletes = [Delete(path) for path in self._ephemerals[session_id]]
        effects = self.multi(session_id, deletes, now_ms=now_ms)
        del self._ephemerals[session_id]
        return effects

    def run(
        self,
        session_id: int,
        operations: Sequence[Operation],
        *,
        fence: Check | None = None,
        now_ms: int,
    ) -> Effects:
        """Do the operations one by one, in order; the ``fence`` is checked with every write."""
        self._check_operations(session_id, operations)
        effects = Effects()
        for operation in operations:
            try:
                if isinstance(operation, Read):
                    outcome: Outcome = self._read(session_id, operation)
                elif fence is None:
                    (outcome,) = self._write(session_id, [operation], effects, now_ms)
                else:
                    _, outcome = self._write(session_id, [fence, operation], effects, now_ms)
            except MultiFailed as error:
                is_fenced = fence is not None and error.index == 0
                outcome = FenceCheckFailed(error.path) if is_fenced else error.cause
            except StoreError as error:
                # The traceback's frames hold the effects, which would be a reference cycle.
                outcome = error.with_traceback(None)
            effects.outcomes.append(outcome)
        return effects

    def multi(self, session_id: int, operations: Sequence[Write], *, now_ms: int) -> Effects:
        """Do all operations atomically, or raise MultiFailed and change nothing."""
        self._check_operations(session_id, operations)
        effects = Effects()
        effects.outcomes += self._write(session_id, operations, effects, now_ms)
        return effects

    def _check_operations(self, session_id: int, operations: Iterable[Operation]) -> None:
        """Raise before anything is done: an error must not leave a run half done."""
        if session_id not in self._ephemerals:
            raise SessionExpired
        check_paths(operations)

    def _read(self, session_id: int, operation: Read) -> Result:
        path, watch = operation.path, operation.watch
        node = self._nodes.get(path)
        match operation:
            case Exists():
                # A watch on a missing znode fires when it is created.
                if watch is not None:
                    self._watch_manager.add_data_watch(path, session_id, watch)
                return None if node is None else node.stat
            case _ if node is None:
                raise NoNode(path)
            case GetData():
                if watch is not None:
                    self._watch_manager.add_data_watch(path, session_id, watch)
                return ZNode(node.value, node.stat)
            case GetChildren():
                if watch is not None:
                    self._watch_manager.add_child_watch(path, session_id, watch)
                return list(node.children)

    def _write(
        self, session_id: int, operations: Sequence[Write], effects: Effects, now_ms: int
    ) -> list[Result]:
        transaction = _Transaction(session_id, self.zxid + 1, now_ms)
        results: list[Result] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, transaction))
            except StoreError as cause:
                for undo in reversed(transaction.undo):
                    undo()
                raise MultiFailed(index, cause.with_traceback(None)) from None
        if transaction.events:
            self.zxid = transaction.zxid
        for path in transaction.changed_paths:
            effects.mutations[path] = self._mutation(path)
        for event in transaction.events:
            effects.watch_calls += self._watch_manager.trigger_watches(event)
        return results

    def _apply(self, operation: Write, transaction: _Transaction) -> Result:
        match operation:
            case Create():
                return self._create(operation, transaction)
            case SetData():
                return self._set(operation, transaction)
            case Delete():
                self._delete(operation, transaction)
            case Check():
                self._get_node(operation.path, operation.version)
        return None

    def _create(self, operation: Create, transaction: _Transaction) -> CreateResult:
        path = operation.path
        parent_path = parent_of(path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(operation.path)
        if operation.is_sequential:
            path = f"{path}{parent.creations:010d}"
        if path in self._nodes:
            raise NodeExists(operation.path)
        if parent.owner != NO_OWNER:
            raise NoChildrenForEphemerals(operation.path)
        node = _DataNode(
            operation.value,
            created_zxid=transaction.zxid,
            modified_zxid=transaction.zxid,
            created_ms=transaction.now_ms,
            modified_ms=transaction.now_ms,
            owner=transaction.session_id if operation.is_ephemeral else NO_OWNER,
        )
        parent.creations += 1
        self._add(path, node)
        transaction.undo.append(lambda: self._undo_create(path, parent))
        transaction.changed_paths += (
            [path, parent_path] if node.owner == NO_OWNER else [parent_path]
        )
        transaction.events.append(WatchEvent(WatchEventType.CREATED, path))
        transaction.events.append(WatchEvent(WatchEventType.CHILDREN_CHANGED, parent_path))
        return CreateResult(path, node.stat)

    def _undo_create(self, path: str, parent: _DataNode) -> None:
        self._remove(path)
        parent.creations -= 1

    def _set(self, operation: SetData, transaction: _Transaction) -> Stat:
        path = operation.path
        node = self._get_node(path, operation.version)
        before = (node.value, node.version, node.modified_zxid, node.modified_ms)

        def undo() -> None:
            node.value, node.version, node.modified_zxid, node.modified_ms = before

        node.value = operation.value
        node.version += 1
        node.modified_zxid = transaction.zxid
        node.modified_ms = transaction.now_ms
        transaction.undo.append(undo)
        if node.owner == NO_OWNER:
            transaction.changed_paths.append(path)
        transaction.events.append(WatchEvent(WatchEventType.DATA_CHANGED, path))
        return node.stat

    def _delete(self, operation: Delete, transaction: _Transaction) -> None:
        path = operation.path
        node = self._get_node(path, operation.version)
        if node.children:
            raise NotEmpty(path)
        self._remove(path)
        transaction.undo.append(lambda: self._add(path, node))
        if node.owner == NO_OWNER:
            transaction.changed_paths.append(path)
        transaction.events.append(WatchEvent(WatchEventType.DELETED, path))
        transaction.events.append(WatchEvent(WatchEventType.CHILDREN_CHANGED, parent_of(path)))

    def _get_node(self, path: str, version: int) -> _DataNode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node

    def _add(self, path: str, node: _DataNode) -> None:
        self._nodes[path] = node
        self._nodes[parent_of(path)].children[_name_of(path)] = None
        if node.owner != NO_OWNER:
            self._ephemerals[node.owner][path] = None

    def _remove(self, path: str) -> None:
        node = self._nodes.pop(path)
        del self._nodes[parent_of(path)].children[_name_of(path)]
        if node.owner != NO_OWNER:
            del self._ephemerals[node.owner][path]

    def _mutation(self, path: str) -> Mutation:
        node = self._nodes.get(path)
        if node is None or node.owner != NO_OWNER:
            return DeletedNode(path)
        return NodeRecord(
            path,
            node.value,
            created_zxid=node.created_zxid,
            modified_zxid=node.modified_zxid,
            created_ms=node.created_ms,
            modified_ms=node.modified_ms,
            version=node.version,
            creations=node.creations,
        )

    def _load_record(self, record: NodeRecord) -> None:
        path = record.path
        node = _DataNode(
            record.value,
            created_zxid=record.created_zxid,
            modified_zxid=record.modified_zxid,
            created_ms=record.created_ms,
            modified_ms=record.modified_ms,
            version=record.version,
            creations=record.creations,
        )
        if path == ROOT:
            self._nodes[ROOT] = node
        elif not is_valid_path(path) or parent_of(path) not in self._nodes:
            raise ValueError(f"no parent for {path!r}, or the path is invalid")
        else:
            self._add(path, node)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]

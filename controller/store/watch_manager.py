"""The one-shot watches on a tree in memory, triggered like ZooKeeper's.  ZooKeeper: WatchManager.

GetData and Exists register data watches, GetChildren registers child watches.

    created   triggers the data watches of the znode, then the child watches of its parent
    written   triggers the data watches of the znode
    deleted   triggers the data and child watches of the znode, then the child watches of its parent

A watch that is registered twice for the same data is called once.  A watch that is registered both
as data watch and as child watch of a znode is called once when the znode is deleted.

Invariant: a watch is removed when the change is made, however late it is called.  A watch that is
registered after a change is never called for it.

Owner: the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.controller.store.base import Watch, WatchEvent, WatchEventType


class WatchCall(NamedTuple):
    """A watch to call, with its event."""

    watch: Watch
    event: WatchEvent


class _RegisteredWatch(NamedTuple):
    session_id: int
    watch: Watch


# Dictionaries, not sets: watches are called in the order of their registration.
_WatchTable = dict[str, dict[_RegisteredWatch, None]]


class WatchManager:
    """The watches of all sessions on a tree."""

    def __init__(self) -> None:
        self._data_watches: _WatchTable = {}
        self._child_watches: _WatchTable = {}

    def add_data_watch(self, path: str, session_id: int, watch: Watch) -> None:
        self._data_watches.setdefault(path, {})[_RegisteredWatch(session_id, watch)] = None

    def add_child_watch(self, path: str, session_id: int, watch: Watch) -> None:
        self._child_watches.setdefault(path, {})[_RegisteredWatch(session_id, watch)] = None

    def trigger_watches(self, event: WatchEvent) -> list[WatchCall]:
        """Remove and return the watches that this event triggers."""
        change, path = event
        if change is WatchEventType.CHILDREN_CHANGED:
            return _watch_calls(self._child_watches.pop(path, {}), event)
        triggered = self._data_watches.pop(path, {})
        if change is WatchEventType.DELETED:
            triggered = triggered | self._child_watches.pop(path, {})
        return _watch_calls(triggered, event)

    def remove_session(self, session_id: int) -> None:
        """Remove the watches of a session that has ended; they are never called."""
        self._data_watches = _without_session(session_id, self._data_watches)
        self._child_watches = _without_session(session_id, self._child_watches)


def _watch_calls(registered: Iterable[_RegisteredWatch], event: WatchEvent) -> list[WatchCall]:
    return [WatchCall(registration.watch, event) for registration in registered]


def _without_session(session_id: int, table: _WatchTable) -> _WatchTable:
    remaining = {
        path: {watch: None for watch in registered if watch.session_id != session_id}
        for path, registered in table.items()
    }
    return {path: registered for path, registered in remaining.items() if registered}

"""Who is to be called for what: the one-shot watches on a tree, fired as ZooKeeper fires them.

A watch left by Get or Exists waits at the node's value, one left by Children at its children:

    created   calls those at the node's value, then those at its parent's children
    written   calls those at its value
    deleted   calls those at its value and its children, then those at its parent's children

A watch left twice at one place waits there once; one that waits at both the value and the children
of a node hears of the node's end once.

Invariant: a watch is taken away when the change is made, however late it is called; so one that was
left after a change is never called for it.

Owner: the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.controller.store.base import Watch, WatchEvent, WatchEventType


class WatchCall(NamedTuple):
    """A watch that has to be called."""

    watch: Watch
    event: WatchEvent


class _RegisteredWatch(NamedTuple):
    session_id: int
    watch: Watch


# Dictionaries, not sets: watches are called in the order in which they were left.
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
        """Those waiting for this event, who wait no longer."""
        change, path = event
        if change is WatchEventType.CHILDREN_CHANGED:
            return _watch_calls(self._child_watches.pop(path, {}), event)
        triggered = self._data_watches.pop(path, {})
        if change is WatchEventType.DELETED:
            triggered = triggered | self._child_watches.pop(path, {})
        return _watch_calls(triggered, event)

    def remove_session(self, session_id: int) -> None:
        """The session is over: its watches are never called."""
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

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

from odradek.controller.store.base import Change, Watch, WatchEvent


class Call(NamedTuple):
    """A watch that has to be called."""

    watch: Watch
    event: WatchEvent


class _Waiting(NamedTuple):
    session_id: int
    watch: Watch


# Dictionaries, not sets: watches are called in the order in which they were left.
_Places = dict[str, dict[_Waiting, None]]


class Watches:
    """The watches of all sessions on a tree."""

    def __init__(self) -> None:
        self._at_values: _Places = {}
        self._at_children: _Places = {}

    def wait_at_value(self, path: str, session_id: int, watch: Watch) -> None:
        self._at_values.setdefault(path, {})[_Waiting(session_id, watch)] = None

    def wait_at_children(self, path: str, session_id: int, watch: Watch) -> None:
        self._at_children.setdefault(path, {})[_Waiting(session_id, watch)] = None

    def taken_for(self, event: WatchEvent) -> list[Call]:
        """Those waiting for this event, who wait no longer."""
        change, path = event
        if change is Change.CHILDREN:
            return _calls(self._at_children.pop(path, {}), event)
        waiting = self._at_values.pop(path, {})
        if change is Change.DELETED:
            waiting = waiting | self._at_children.pop(path, {})
        return _calls(waiting, event)

    def forget(self, session_id: int) -> None:
        """The session is over: its watches are never called."""
        self._at_values = _without(session_id, self._at_values)
        self._at_children = _without(session_id, self._at_children)


def _calls(waiting: Iterable[_Waiting], event: WatchEvent) -> list[Call]:
    return [Call(each.watch, event) for each in waiting]


def _without(session_id: int, places: _Places) -> _Places:
    left = {
        path: {each: None for each in waiting if each.session_id != session_id}
        for path, waiting in places.items()
    }
    return {path: waiting for path, waiting in left.items() if waiting}

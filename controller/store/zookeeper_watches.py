"""Who is to be called for what, as kazoo holds them for one session with ZooKeeper.

A watch left twice at one place waits there once: reads of one kind at one path, with one watch, all
carry the same Watcher, which kazoo keeps in a set.  It is armed by the answer to any of them, and
spent when it is called; an answer that comes after that arms it again.

A watch that was lost with a connection is armed again by a read, whose answer shows whether the
watch should have been called meanwhile: kazoo, unlike ZooKeeper's own clients, forgets its watches.
One that is spent is let go, though kazoo may still hold it.

Owner: the event loop; kazoo's thread holds Watchers, and lets them go.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType

from odradek.controller.store.base import GetChildren, Read, Watch, WatchEvent, WatchEventType

WATCH_EVENT_TYPES = {
    EventType.CREATED: WatchEventType.CREATED,
    EventType.DELETED: WatchEventType.DELETED,
    EventType.CHANGED: WatchEventType.DATA_CHANGED,
    EventType.CHILD: WatchEventType.CHILDREN_CHANGED,
}


class Watcher:
    """One watch.  Kazoo holds it, and would call it; see zookeeper_handler.py."""

    __slots__ = ("__weakref__", "is_armed", "is_for_children", "node_was_missing", "path", "watch")

    def __init__(self, path: str, watch: Watch, *, is_for_children: bool) -> None:
        self.path = path
        self.watch = watch
        self.is_for_children = is_for_children
        self.is_armed = False
        self.node_was_missing = False

    def missed_event(self, response: Any, *, after_zxid: int) -> WatchEventType | None:
        """What has happened since then, going by the answer to ``Translator.arm``."""
        if isinstance(response, NoNodeError):
            return WatchEventType.DELETED
        if isinstance(response, Exception):
            return (
                WatchEventType.CHILDREN_CHANGED
                if self.is_for_children
                else WatchEventType.DATA_CHANGED
            )
        if self.is_for_children:
            return WatchEventType.CHILDREN_CHANGED if response[1].pzxid > after_zxid else None
        if response is None or self.node_was_missing:
            return _existence_change(exists=response is not None, existed=not self.node_was_missing)
        return WatchEventType.DATA_CHANGED if response.mzxid > after_zxid else None

    def arm(self, response: Any) -> None:
        """By what came of a read; one that failed left no watch."""
        if not isinstance(response, Exception):
            self.is_armed = True
            self.node_was_missing = response is None

    def __call__(self, event: object) -> None:
        raise AssertionError("kazoo hands it over to the loop instead")


class WatcherRegistry:
    """Those that kazoo holds or that are on their way: who is neither is forgotten."""

    def __init__(self) -> None:
        self._watchers: WeakValueDictionary[tuple[str, bool, Watch], Watcher] = (
            WeakValueDictionary()
        )

    def get_or_create(self, read: Read) -> Watcher | None:
        if read.watch is None:
            return None
        is_for_children = isinstance(read, GetChildren)
        key = (read.path, is_for_children, read.watch)
        watcher = self._watchers.get(key)
        if watcher is None:
            watcher = Watcher(read.path, read.watch, is_for_children=is_for_children)
            self._watchers[key] = watcher
        return watcher


class WatchTrigger:
    """One change, for which a watch that waits for it at several places is called once."""

    def __init__(self) -> None:
        self._called: set[tuple[Watch, str]] = set()

    def fire(self, watcher: Watcher, event_type: WatchEventType) -> None:
        key = (watcher.watch, watcher.path)
        is_new = watcher.is_armed and key not in self._called
        watcher.is_armed = False
        if is_new:
            self._called.add(key)
            watcher.watch(WatchEvent(event_type, watcher.path))


def _existence_change(*, exists: bool, existed: bool) -> WatchEventType | None:
    if exists == existed:
        return None
    return WatchEventType.CREATED if exists else WatchEventType.DELETED

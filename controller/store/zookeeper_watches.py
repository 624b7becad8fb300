"""The watches of one session with ZooKeeper, as kazoo holds them.

A watch that is registered twice for the same data is called once: reads of one kind, of one path
and with one watch share a Watcher, which kazoo keeps in a set.  The response of any of these reads
arms the Watcher; calling the watch disarms it; a later response arms it again.

A watch that was lost with a connection is registered again by a read.  The response shows whether
the watch should have fired while disconnected.  This is necessary because kazoo, unlike ZooKeeper's
own clients, forgets its watches when the connection is lost.  A disarmed Watcher is ignored, even
if kazoo still holds it.

Owner: the event loop; kazoo's thread only stores Watchers and drops them.
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
    """One watch.  Kazoo stores it as a callable; zookeeper_handler.py intercepts the call."""

    __slots__ = ("__weakref__", "is_armed", "is_for_children", "node_was_missing", "path", "watch")

    def __init__(self, path: str, watch: Watch, *, is_for_children: bool) -> None:
        self.path = path
        self.watch = watch
        self.is_for_children = is_for_children
        self.is_armed = False
        self.node_was_missing = False

    def missed_event(self, response: Any, *, after_zxid: int) -> WatchEventType | None:
        """Return the change since then, by the response to ``to_watch_request``, or None."""
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
        """Arm it by the response of a read; a failed read registers no watch."""
        if not isinstance(response, Exception):
            self.is_armed = True
            self.node_was_missing = response is None

    def __call__(self, event: object) -> None:
        raise AssertionError("kazoo must pass the watcher to the event loop, not call it")


class WatcherRegistry:
    """The Watchers that kazoo holds or that are in requests; all others are garbage collected."""

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
    """One change; it calls a watch once, even if the watch is registered in several ways."""

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

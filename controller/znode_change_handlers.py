"""Which event does a change in the tree become?

Each method is a watch, to be left with the read that the event is about; see store/base.py.  They
are the same whenever they are left, so one that was left twice is called once.  Many topics may
change at once, and are read at once; so it is noted which they are, and one event stands for all.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from odradek.controller import events
from odradek.controller.store import paths
from odradek.controller.store.base import WatchEvent


class TreeWatches:
    """``put_once`` is the event queue's."""

    def __init__(self, put_once: Callable[[Hashable], None]) -> None:
        self._put_once = put_once
        self._changed_topics: dict[str, None] = {}

    def controller(self, _: WatchEvent) -> None:
        self._put_once(events.ControllerChanged())

    def brokers(self, _: WatchEvent) -> None:
        self._put_once(events.BrokersChanged())

    def broker(self, event: WatchEvent) -> None:
        broker = paths.broker_id(event.path.removeprefix(f"{paths.BROKER_IDS}/"))
        assert broker is not None, event
        self._put_once(events.BrokerChanged(broker))

    def topics(self, _: WatchEvent) -> None:
        self._put_once(events.TopicsChanged())

    def topic(self, event: WatchEvent) -> None:
        topic = paths.topic_of(event.path)
        assert topic is not None, event
        self._changed_topics[topic] = None
        self._put_once(events.TopicNodesChanged())

    def take_changed_topics(self) -> list[str]:
        """Those that have changed since they were taken last."""
        changed, self._changed_topics = [*self._changed_topics], {}
        return changed

    def deletions(self, _: WatchEvent) -> None:
        self._put_once(events.DeletionsChanged())

    def reassignments(self, _: WatchEvent) -> None:
        self._put_once(events.ReassignmentsChanged())

    def preferred_elections(self, _: WatchEvent) -> None:
        self._put_once(events.PreferredElectionsChanged())

    def isr_changes(self, _: WatchEvent) -> None:
        self._put_once(events.IsrNotified())

    def log_dir_events(self, _: WatchEvent) -> None:
        self._put_once(events.LogDirNotified())

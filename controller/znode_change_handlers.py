"""Watches that turn changes of znodes into controller events.

Kafka: BrokerChangeHandler, TopicChangeHandler, PartitionModificationsHandler and the other
ZNodeChangeHandler classes.  Each method is a watch, passed with the read that the event repeats;
see store/base.py.  Each read passes the same method, so a watch that is registered twice is called
once.  Many topics may change at the same time and are read together: on_partition_modifications
records their names, and one event covers all of them.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from odradek.controller import events
from odradek.controller.store import paths
from odradek.controller.store.base import WatchEvent


class ZNodeChangeHandlers:
    """``put_if_absent`` is a method of the event queue."""

    def __init__(self, put_if_absent: Callable[[Hashable], None]) -> None:
        self._put_if_absent = put_if_absent
        self._changed_topics: dict[str, None] = {}

    def on_controller_change(self, _: WatchEvent) -> None:
        self._put_if_absent(events.ControllerChange())

    def on_broker_change(self, _: WatchEvent) -> None:
        self._put_if_absent(events.BrokerChange())

    def on_broker_modifications(self, event: WatchEvent) -> None:
        broker = paths.parse_broker_id(event.path.removeprefix(f"{paths.BROKER_IDS}/"))
        assert broker is not None, event
        self._put_if_absent(events.BrokerModifications(broker))

    def on_topic_change(self, _: WatchEvent) -> None:
        self._put_if_absent(events.TopicChange())

    def on_partition_modifications(self, event: WatchEvent) -> None:
        topic = paths.topic_from_path(event.path)
        assert topic is not None, event
        self._changed_topics[topic] = None
        self._put_if_absent(events.PartitionModifications())

    def take_changed_topics(self) -> list[str]:
        """Return the topics that changed since the last call, and forget them."""
        changed, self._changed_topics = [*self._changed_topics], {}
        return changed

    def on_topic_deletion(self, _: WatchEvent) -> None:
        self._put_if_absent(events.TopicDeletion())

    def on_zk_partition_reassignment(self, _: WatchEvent) -> None:
        self._put_if_absent(events.ZkPartitionReassignment())

    def on_zk_preferred_replica_election(self, _: WatchEvent) -> None:
        self._put_if_absent(events.ZkPreferredReplicaElection())

    def on_isr_change_notification(self, _: WatchEvent) -> None:
        self._put_if_absent(events.IsrChangeNotification())

    def on_log_dir_event_notification(self, _: WatchEvent) -> None:
        self._put_if_absent(events.LogDirEventNotification())

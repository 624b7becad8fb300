"""The cluster's topics as groups see them at one moment: by name, by id, by expression.

A group looks again whenever it is shown other topics than the last time.  To find that nothing of
its own has changed costs a look-up for each topic subscribed to: hashes are kept with the topics of
the picture, and what an expression matches for as long as no name comes or goes.

Topics without an id, which brokers older than 2.8 make, cannot be assigned and are not seen.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.broker.groups.consumer.metadata_hash import hash_of_group, hash_of_topic
from odradek.broker.groups.consumer.regular_expression import matching
from odradek.broker.metadata.picture import Picture, Topic
from odradek.protocol.types import Uuid

#: A guess: more than the groups of a broker use.
EXPRESSIONS_KEPT = 1000


class _HashWith(NamedTuple):
    """What the hash of a topic depends on beside the topic."""

    racks: frozenset[tuple[int, str]]


class TopicsLens:
    """Shows the topics of the present picture, the same as long as it is the same."""

    def __init__(self, picture: Callable[[], Picture]) -> None:
        self._picture = picture
        self._topics = Topics(picture())

    @property
    def now(self) -> Topics:
        self._topics = self._topics.after(self._picture())
        return self._topics


class Topics:
    """Those of one picture."""

    def __init__(
        self, picture: Picture, *, matches: dict[str, frozenset[str]] | None = None
    ) -> None:
        self.picture = picture
        self._names = picture.names
        self._matches: dict[str, frozenset[str]] = {} if matches is None else matches
        self._hashed_with: _HashWith | None = None

    def after(self, picture: Picture) -> Topics:
        """The same, if it is the same picture."""
        if picture is self.picture:
            return self
        has_same_names = picture.topics.keys() == self.picture.topics.keys()
        return Topics(picture, matches=self._matches if has_same_names else None)

    def id_of(self, name: str) -> Uuid | None:
        topic = self._topic(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)

    def partition_counts(self, names: Iterable[str]) -> dict[Uuid, int]:
        """By id, of those that exist."""
        found = (self._topic(name) for name in names)
        return {topic.id: len(topic.partitions) for topic in found if topic is not None}

    def matching(self, expression: str) -> frozenset[str]:
        """Raises InvalidRegularExpression."""
        if expression not in self._matches:
            if len(self._matches) >= EXPRESSIONS_KEPT:
                self._matches.clear()  # members may tell another one by every heartbeat
            self._matches[expression] = matching(expression, self.picture.topics)
        return self._matches[expression]

    def hash_of(self, names: Iterable[str]) -> int:
        """That of a group which subscribes to them."""
        found = ((name, self._topic(name)) for name in names)
        return hash_of_group({name: self._hash(topic) for name, topic in found if topic})

    def _topic(self, name: str) -> Topic | None:
        topic = self.picture.topics.get(name)
        return topic if topic is not None and topic.id in self._names else None

    def _hash(self, topic: Topic) -> int:
        if self._hashed_with is None:
            self._hashed_with = _HashWith(frozenset(_racks(self.picture).items()))
        known: int | None = topic.views.get(self._hashed_with)
        if known is None:
            racks = dict(self._hashed_with.racks)
            known = hash_of_topic(
                topic.name,
                topic.id,
                [
                    [racks[replica] for replica in partition.replicas if replica in racks]
                    for partition in topic.partitions.values()
                ],
            )
            topic.views[self._hashed_with] = known
        return known


def _racks(picture: Picture) -> Mapping[int, str]:
    """Of the live brokers that have one."""
    return {
        node.id: node.rack
        for nodes in picture.brokers.nodes.values()
        for node in nodes.values()
        if node.rack
    }

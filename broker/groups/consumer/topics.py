"""The cluster's topics as groups see them at one moment: by name, by id, by expression.

A group looks again whenever it is shown other topics than the last time.  To find that nothing of
its own has changed costs a look-up for each topic subscribed to, once for all groups that subscribe
to the same: hashes are kept with the topics of the picture, and what an expression matches for as
long as no name comes or goes.

A hash has the racks of brokers, and a broker that restarts keeps its own, as it does in Kafka's
registry: else all groups would be assigned anew.  One that was away before we came has none here.

Topics without an id, which brokers older than 2.8 make, cannot be assigned and are not seen.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from odradek.broker.groups.consumer.expressions import Expressions
from odradek.broker.groups.consumer.metadata_hash import hash_of_group, hash_of_topic
from odradek.broker.metadata.picture import Picture, Topic
from odradek.broker.turns import Turn
from odradek.protocol.types import Uuid

#: A guess: more than the groups of a broker that wake at the same time have.
SUBSCRIPTIONS_KEPT = 100


Found = TypeVar("Found")


class _HashWith(NamedTuple):
    """What the hash of a topic depends on beside the topic: brokers and their racks."""

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

    async def match_in_turns(self, expressions: Iterable[str]) -> None:
        """After that, asking for what they match is quick, unless topics have come meanwhile."""
        turn = Turn()
        for expression in expressions:
            await self.now.match_in_turns(expression, turn)

    @property
    def expressions(self) -> Expressions:
        """Those that groups have asked for."""
        return self._topics.expressions


class Topics:
    """Those of one picture."""

    def __init__(self, picture: Picture, *, before: Topics | None = None) -> None:
        self.picture = picture
        self._names = picture.names
        self.expressions: Expressions = Expressions() if before is None else before.expressions
        #: The same object as long as the names are the same.
        self._named = picture.topics
        if before is not None and before._named.keys() == picture.topics.keys():
            self._named = before._named
        else:
            self.expressions.names_changed(self._named)
        self._hashed_with = _hashed_with(picture, before)
        #: By the names subscribed to.
        self._counts: dict[frozenset[str], Mapping[Uuid, int]] = {}
        self._hashes: dict[frozenset[str], int] = {}

    def after(self, picture: Picture) -> Topics:
        """The same, if it is the same picture."""
        return self if picture is self.picture else Topics(picture, before=self)

    def id_of(self, name: str) -> Uuid | None:
        topic = self._topic(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)

    def partition_counts(self, names: frozenset[str]) -> Mapping[Uuid, int]:
        """By id, of those that exist."""
        counts = self._counts.get(names)
        if counts is None:
            found = [topic for topic in map(self._topic, names) if topic is not None]
            counts = {topic.id: topic.told_count for topic in found}
            _keep(self._counts, names, counts)
        return counts

    def hash_of(self, names: frozenset[str]) -> int:
        """That of a group which subscribes to them."""
        number = self._hashes.get(names)
        if number is None:
            found = [topic for topic in map(self._topic, names) if topic is not None]
            number = hash_of_group({topic.name: self._hash(topic) for topic in found})
            _keep(self._hashes, names, number)
        return number

    # Expressions

    def matching(self, expression: str) -> frozenset[str]:
        """Raises InvalidRegularExpression."""
        return self.expressions.found(expression, self._named)

    def would_take_long(self, expressions: Iterable[str]) -> bool:
        """To find what they match, all of them together."""
        return self.expressions.would_take_long(expressions, self._named)

    async def match_in_turns(self, expression: str, turn: Turn) -> None:
        await self.expressions.find_in_turns(expression, self._named, turn)

    def _topic(self, name: str) -> Topic | None:
        topic = self.picture.topics.get(name)
        return topic if topic is not None and topic.id in self._names else None

    def _hash(self, topic: Topic) -> int:
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


def _keep(kept: dict[frozenset[str], Found], names: frozenset[str], found: Found) -> None:
    if len(kept) >= SUBSCRIPTIONS_KEPT:
        kept.clear()
    kept[names] = found


def _hashed_with(picture: Picture, before: Topics | None) -> _HashWith:
    if before is not None and before.picture.brokers is picture.brokers:
        return before._hashed_with
    nodes = [node for nodes in picture.brokers.nodes.values() for node in nodes.values()]
    racks = {node.id: node.rack for node in nodes if node.rack}
    alive = {node.id for node in nodes}
    away = () if before is None else before._hashed_with.racks
    return _HashWith(frozenset([*racks.items(), *(each for each in away if each[0] not in alive)]))

"""Metadata: the brokers, and the leaders and replicas of topics.

    all topics      a null list; in version 0 an empty one
    by id           as soon as one topic has an id, those that have none are passed over
    unknown names   are created if the client, the settings and the name allow it

The answer does not wait for the leaders of what it creates: clients ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.picture import Picture
from odradek.broker.metadata.topic_view import ShownTopic, View, show_in_turns, shown
from odradek.broker.turns import FEW, Turn
from odradek.controller.topic_names import is_topic_name
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.protocol.types import ZERO_UUID, Uuid

BY_TOPIC_ID = 12


class Cluster(Protocol):
    """What is known of the cluster."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def picture(self) -> Picture: ...


class Creator(Protocol):
    """Creates topics because they were asked for."""

    @property
    def serves_clients(self) -> bool: ...

    async def create(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


def handle(
    cluster: Cluster, creator: Creator, call: Call[MetadataRequest]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    request, topics = call.request, _Topics(call, cluster.picture)
    response = _without_topics(cluster, call)
    creates = topics.missing and request.allow_auto_topic_creation and creator.serves_clients
    if creates or topics.are_many:
        return _answer_in_turns(response, topics, creator if creates else None)
    response.topics = topics.shown()
    return response


async def _answer_in_turns(
    response: MetadataResponse, topics: _Topics, creator: Creator | None
) -> MetadataResponse:
    response.topics = await topics.shown_in_turns(creator)
    return response


class _Topics:
    """Those that are asked for: there, or missing."""

    def __init__(self, call: Call[MetadataRequest], picture: Picture) -> None:
        self._brokers = picture.brokers
        self._view = _view(call)
        names, self._unknown_ids = _asked_for(call, picture)
        self._known = [picture.topics[name] for name in names if name in picture.topics]
        self.missing = [name for name in names if name not in picture.topics]

    @property
    def are_many(self) -> bool:
        partition_count = sum([len(topic.partitions) for topic in self._known])
        return len(self._unknown_ids) + len(self.missing) + partition_count > FEW

    def shown(self) -> list[ShownTopic]:
        brokers, view = self._brokers, self._view
        return [
            *map(_unknown_id, self._unknown_ids),
            *[shown(topic, brokers, view) for topic in self._known],
            *[_failed(name, _not_there(name), view) for name in self.missing],
        ]

    async def shown_in_turns(self, creator: Creator | None) -> list[ShownTopic]:
        """What is missing is created, where there is a creator."""
        turn, view, missing = Turn(), self._view, self.missing
        lines = await turn.listed(map(_unknown_id, self._unknown_ids))
        lines += await show_in_turns(self._known, self._brokers, view)
        if creator is None:
            failed = (_failed(name, _not_there(name), view) for name in missing)
        else:
            told = await creator.create(missing)
            failed = (_failed(name, told[name], view) for name in missing)
        return lines + await turn.listed(failed)


def refused(call: Call[MetadataRequest], failure: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[
            ShownTopic(
                error_code=code_of(failure),
                name=each.name or "",
                topic_id=each.topic_id,
                partitions=[],
            )
            for each in call.request.topics or ()
        ],
        error_code=code_of(failure),
    )


def _view(call: Call[MetadataRequest]) -> View:
    is_asked = call.request.include_topic_authorized_operations
    operations = (
        authorized_operations.ON_A_TOPIC if is_asked else authorized_operations.NOT_ASKED_FOR
    )
    return View.of_version(call.version, call.peer.listener, operations)


def _without_topics(cluster: Cluster, call: Call[MetadataRequest]) -> MetadataResponse:
    picture = cluster.picture
    is_asked = call.request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in picture.brokers.at(call.peer.listener).values()
        ],
        cluster_id=cluster.cluster_id,
        controller_id=picture.controller_id,
        topics=[],
        cluster_authorized_operations=(
            authorized_operations.ON_THE_CLUSTER
            if is_asked
            else authorized_operations.NOT_ASKED_FOR
        ),
    )


def _asked_for(
    call: Call[MetadataRequest], picture: Picture
) -> tuple[Collection[str], Collection[Uuid]]:
    """Names, and the ids that are no topic's; each once."""
    topics = call.request.topics
    if topics is None or (call.version == 0 and not topics):
        return picture.topics.keys(), ()
    _check_topics(topics, call.version)
    ids = dict.fromkeys(each.topic_id for each in topics if each.topic_id != ZERO_UUID)
    if ids:
        names = [picture.names[each] for each in ids if each in picture.names]
        return names, [each for each in ids if each not in picture.names]
    if any(each.name is None for each in topics):
        # Kafka's answer too: it has not thought of this.
        raise KafkaError("A topic has neither a name nor an id.")
    return dict.fromkeys(each.name for each in topics if each.name is not None), ()


def _check_topics(topics: Iterable[MetadataRequest.Topic], version: int) -> None:
    for each in topics:
        if version < BY_TOPIC_ID and each.name is None:
            raise InvalidRequest(f"In version {version} a topic must have a name.")
        if version < BY_TOPIC_ID and each.topic_id != ZERO_UUID:
            raise InvalidRequest(f"In version {version} topics cannot be asked for by their ids.")


def _not_there(name: str) -> KafkaError:
    return UnknownTopicOrPartition() if is_topic_name(name) else InvalidTopic()


def _unknown_id(topic_id: Uuid) -> ShownTopic:
    return ShownTopic(
        error_code=UnknownTopicId.error.code, name=None, topic_id=topic_id, partitions=[]
    )


def _failed(name: str, failure: KafkaError, view: View) -> ShownTopic:
    return ShownTopic(
        error_code=code_of(failure),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=view.operations,
    )

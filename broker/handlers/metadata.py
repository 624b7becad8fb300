"""Metadata: the brokers, and the leaders and replicas of topics.

    all topics      a null list; in version 0 an empty one
    by id           as soon as one topic has an id, those that have none are passed over
    unknown names   are created if the client, the settings and the name allow it

The answer does not wait for the leaders of what it creates: clients ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping
from itertools import chain
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.picture import Picture
from odradek.broker.metadata.topic_view import ShownTopic, View, shown
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

_Topics = Iterable[MetadataRequest.Topic]


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
    request, picture = call.request, cluster.picture
    view = _view(call)
    response = _without_topics(cluster, call)
    if request.topics is None or (call.version == 0 and not request.topics):
        response.topics = [shown(each, picture.brokers, view) for each in picture.topics.values()]
        return response
    _check_topics(request.topics, call.version)
    names, unknown_ids = _asked_for(request.topics, picture)
    missing = [name for name in names if name not in picture.topics]
    topics = chain(
        (_unknown_id(each) for each in unknown_ids),
        (
            shown(picture.topics[name], picture.brokers, view)
            for name in names
            if name in picture.topics
        ),
    )
    if not (request.allow_auto_topic_creation and creator.serves_clients):
        topics = chain(topics, (_failed(name, _not_there(name), view) for name in missing))
        missing = []
    if missing or len(request.topics) > FEW:
        return _answer_in_turns(response, topics, creator, missing, view)
    response.topics = list(topics)
    return response


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


async def _answer_in_turns(
    response: MetadataResponse,
    topics: Iterable[ShownTopic],
    creator: Creator,
    created: Collection[str],
    view: View,
) -> MetadataResponse:
    turn = Turn()
    response.topics = await turn.listed(topics)
    if created:
        told = await creator.create(created)
        response.topics += await turn.listed(_failed(name, told[name], view) for name in created)
    return response


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


def _check_topics(topics: _Topics, version: int) -> None:
    for each in topics:
        if version < BY_TOPIC_ID and each.name is None:
            raise InvalidRequest(f"In version {version} a topic must have a name.")
        if version < BY_TOPIC_ID and each.topic_id != ZERO_UUID:
            raise InvalidRequest(f"In version {version} topics cannot be asked for by their ids.")


def _asked_for(topics: _Topics, picture: Picture) -> tuple[list[str], list[Uuid]]:
    """Names, and the ids that are no topic's; each once."""
    ids = dict.fromkeys(each.topic_id for each in topics if each.topic_id != ZERO_UUID)
    if ids:
        names = [picture.names[each] for each in ids if each in picture.names]
        return names, [each for each in ids if each not in picture.names]
    if any(each.name is None for each in topics):
        # Kafka's answer too: it has not thought of this.
        raise KafkaError("A topic has neither a name nor an id.")
    return list(dict.fromkeys(each.name for each in topics if each.name is not None)), []


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

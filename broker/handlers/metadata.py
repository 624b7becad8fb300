"""Metadata: return the brokers, and the leaders and replicas of topics.

    all topics      a null list; in version 0 an empty list
    by id           if any topic has an id, the topics without one are ignored
    unknown names   are created if the client, the settings and the name allow it

The response does not wait for the leaders of the topics that it creates: clients retry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import Protocol

from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot
from odradek.broker.metadata.topic_metadata import (
    TopicMetadataOptions,
    TopicResponse,
    topic_response,
    topic_responses_sliced,
)
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.controller.topic_names import is_valid_topic_name
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

FIRST_VERSION_WITH_TOPIC_IDS = 12


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def snapshot(self) -> MetadataSnapshot: ...


class TopicCreator(Protocol):
    """Creates topics on first use.  Kafka: AutoTopicCreationManager."""

    @property
    def is_enabled_for_clients(self) -> bool: ...

    async def create(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


def handle(
    metadata_cache: ClusterMetadata, topic_creator: TopicCreator, request: Request[MetadataRequest]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    body, topics = request.body, _RequestedTopics(request, metadata_cache.snapshot)
    response = _response_without_topics(metadata_cache, request)
    creates_topics = (
        topics.missing and body.allow_auto_topic_creation and topic_creator.is_enabled_for_clients
    )
    if creates_topics or topics.is_large:
        return _respond_sliced(response, topics, topic_creator if creates_topics else None)
    response.topics = topics.topic_responses()
    return response


async def _respond_sliced(
    response: MetadataResponse, topics: _RequestedTopics, topic_creator: TopicCreator | None
) -> MetadataResponse:
    response.topics = await topics.topic_responses_sliced(topic_creator)
    return response


class _RequestedTopics:
    """The topics of a request: known topics, missing names and unknown ids."""

    def __init__(self, request: Request[MetadataRequest], snapshot: MetadataSnapshot) -> None:
        self._brokers = snapshot.brokers
        self._options = _topic_metadata_options(request)
        names, self._unknown_ids = _requested_topics(request, snapshot)
        self._known = [snapshot.topics[name] for name in names if name in snapshot.topics]
        self.missing = [name for name in names if name not in snapshot.topics]

    @property
    def is_large(self) -> bool:
        partition_count = sum([len(topic.partitions) for topic in self._known])
        return len(self._unknown_ids) + len(self.missing) + partition_count > INLINE_ENTRIES_MAX

    def topic_responses(self) -> list[TopicResponse]:
        brokers, options = self._brokers, self._options
        return [
            *map(_unknown_topic_id_response, self._unknown_ids),
            *[topic_response(topic, brokers, options) for topic in self._known],
            *[_topic_error(name, _missing_topic_error(name), options) for name in self.missing],
        ]

    async def topic_responses_sliced(
        self, topic_creator: TopicCreator | None
    ) -> list[TopicResponse]:
        """Create the missing topics if there is a creator."""
        time_slice, options, missing = TimeSlice(), self._options, self.missing
        responses = await time_slice.collect(map(_unknown_topic_id_response, self._unknown_ids))
        responses += await topic_responses_sliced(self._known, self._brokers, options)
        if topic_creator is None:
            missing_responses = (
                _topic_error(name, _missing_topic_error(name), options) for name in missing
            )
        else:
            errors = await topic_creator.create(missing)
            missing_responses = (_topic_error(name, errors[name], options) for name in missing)
        return responses + await time_slice.collect(missing_responses)


def error_response(request: Request[MetadataRequest], error: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[
            TopicResponse(
                error_code=code_of(error),
                name=each.name or "",
                topic_id=each.topic_id,
                partitions=[],
            )
            for each in request.body.topics or ()
        ],
        error_code=code_of(error),
    )


def _topic_metadata_options(request: Request[MetadataRequest]) -> TopicMetadataOptions:
    is_requested = request.body.include_topic_authorized_operations
    operations = (
        authorized_operations.TOPIC_OPERATIONS
        if is_requested
        else authorized_operations.AUTHORIZED_OPERATIONS_OMITTED
    )
    return TopicMetadataOptions.for_version(request.version, request.context.listener, operations)


def _response_without_topics(
    metadata_cache: ClusterMetadata, request: Request[MetadataRequest]
) -> MetadataResponse:
    snapshot = metadata_cache.snapshot
    is_requested = request.body.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in snapshot.brokers.nodes_for_listener(request.context.listener).values()
        ],
        cluster_id=metadata_cache.cluster_id,
        controller_id=snapshot.controller_id,
        topics=[],
        cluster_authorized_operations=(
            authorized_operations.CLUSTER_OPERATIONS
            if is_requested
            else authorized_operations.AUTHORIZED_OPERATIONS_OMITTED
        ),
    )


def _requested_topics(
    request: Request[MetadataRequest], snapshot: MetadataSnapshot
) -> tuple[Collection[str], Collection[Uuid]]:
    """Return the names, and the ids of unknown topics, each once."""
    topics = request.body.topics
    if topics is None or (request.version == 0 and not topics):
        return snapshot.topics.keys(), ()
    _check_topics(topics, request.version)
    ids = dict.fromkeys(each.topic_id for each in topics if each.topic_id != ZERO_UUID)
    if ids:
        names = [snapshot.topic_names[each] for each in ids if each in snapshot.topic_names]
        return names, [each for each in ids if each not in snapshot.topic_names]
    if any(each.name is None for each in topics):
        # Kafka does not handle this case and returns the same error (UNKNOWN_SERVER_ERROR).
        raise KafkaError("A topic has neither a name nor an id.")
    return dict.fromkeys(each.name for each in topics if each.name is not None), ()


def _check_topics(topics: Iterable[MetadataRequest.Topic], version: int) -> None:
    for each in topics:
        if version < FIRST_VERSION_WITH_TOPIC_IDS and each.name is None:
            raise InvalidRequest(f"In version {version} a topic must have a name.")
        if version < FIRST_VERSION_WITH_TOPIC_IDS and each.topic_id != ZERO_UUID:
            raise InvalidRequest(f"In version {version} topics cannot be requested by id.")


def _missing_topic_error(name: str) -> KafkaError:
    return UnknownTopicOrPartition() if is_valid_topic_name(name) else InvalidTopic()


def _unknown_topic_id_response(topic_id: Uuid) -> TopicResponse:
    return TopicResponse(
        error_code=UnknownTopicId.error_code.code, name=None, topic_id=topic_id, partitions=[]
    )


def _topic_error(name: str, error: KafkaError, options: TopicMetadataOptions) -> TopicResponse:
    return TopicResponse(
        error_code=code_of(error),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=options.authorized_operations,
    )

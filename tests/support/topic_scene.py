"""Brokers with a real controller, a real tree and the handlers of topics: no network, no logs.

    async with ControlledCluster(stores) as cluster:
        broker = await started(cluster, 1)
        answer = await broker.ask(MetadataRequest(topics=None), version=12)

Requests go through the router as bytes.  What the controller tells a broker is obeyed as a
simulated broker does, and its UpdateMetadata fills the picture as on a real one.

Owner: the event loop.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from odradek.broker.handlers import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_topic_partitions,
    elect_leaders,
    list_partition_reassignments,
    metadata,
    update_metadata,
)
from odradek.broker.metadata.auto_topic_creation_manager import AutoTopicCreationManager
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.replicas.controller_fence import ControllerFence
from odradek.broker.request import RequestContext
from odradek.broker.router import Route, Router
from odradek.controller.controller import KafkaController
from odradek.controller.controller_channel import ControlRequest
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.topic_admin import TopicAdmin
from odradek.controller.topic_names import random_topic_id
from odradek.controller.topic_planning import TopicDefaults
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.header import request_frame, response_header_version
from odradek.protocol.registry import api
from odradek.protocol.schema import Message
from tests.support.calls import called, in_the_end
from tests.support.controlled_cluster import ControlledCluster
from tests.support.controller_scene import LISTENER
from tests.support.metadata_updates import CLUSTER_ID

PARTITIONS_MAX = 2000
SIZE_BYTES = 4


@dataclass
class TopicBroker:
    """One broker's picture, and its answers."""

    cluster: MetadataCache
    router: Router

    async def ask(self, request: Message, *, version: int) -> Any:
        key = ApiKey(request.__schema__.key)
        frame = b"".join(request_frame(key, version, 1, "a test", request))
        peer = RequestContext(
            connection_id="here-there-0", client_host="127.0.0.1", listener=LISTENER
        )
        parts = self.router(memoryview(bytearray(frame[SIZE_BYTES:])), peer)
        parts = await in_the_end(parts)
        assert parts is not None, request
        # The correlation id, and in later versions an empty section of tagged fields.
        body = SIZE_BYTES + 4 + response_header_version(key, version)
        return decode(api(key).response, version, b"".join(parts), body)


async def started(
    controlled: ControlledCluster, broker: int, *, may_delete: bool = True
) -> TopicBroker:
    """One more broker, when it has heard of itself."""
    known = MetadataCache(CLUSTER_ID)
    _keep_informed(controlled, broker, known)
    await controlled.start(broker)
    store, controller = controlled.sessions[broker], controlled.controllers[broker]
    random = Random(broker)
    admin = TopicAdmin(
        store,
        MetadataReader(store),
        defaults=lambda: TopicDefaults(num_partitions=2, replication_factor=1),
        random=random,
        new_topic_id=lambda: random_topic_id(random),
    )
    creator = AutoTopicCreationManager(
        admin,
        is_enabled=lambda: True,
        internal_topic=lambda name: None,
        start_task=lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
    )
    routes = [
        *_describing(known, creator),
        *_administering(controller, admin, known, may_delete=may_delete),
        *_controlling(controller, known),
    ]
    await controlled.until(lambda: known.is_alive(broker))
    return TopicBroker(known, Router({route.api_key: route for route in routes}))


def _keep_informed(controlled: ControlledCluster, broker: int, known: MetadataCache) -> None:
    fence = ControllerFence(lambda: -1)
    before = controlled.brokers.on_the_way_back

    async def also_known(to: int, request: ControlRequest) -> None:
        if to == broker and isinstance(request, UpdateMetadataRequest):
            replicas = SimpleNamespace(drop_if_reassigned=lambda partition, topic_id, state: None)
            update_metadata.handle(known, replicas, fence, lambda deleted: None, called(request))
        await before(to, request)

    controlled.brokers.on_the_way_back = also_known


def _describing(known: MetadataCache, creator: AutoTopicCreationManager) -> list[Route]:
    return [
        Route(ApiKey.METADATA, partial(metadata.handle, known, creator), metadata.error_response),
        Route(ApiKey.DESCRIBE_CLUSTER, partial(describe_cluster.handle, known)),
        Route(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            partial(describe_topic_partitions.handle, known, PARTITIONS_MAX),
            describe_topic_partitions.error_response,
        ),
    ]


def _administering(
    controller: KafkaController, admin: TopicAdmin, known: MetadataCache, *, may_delete: bool
) -> list[Route]:
    return [
        Route(
            ApiKey.CREATE_TOPICS,
            partial(create_topics.handle, controller, admin, known),
            create_topics.error_response,
        ),
        Route(
            ApiKey.CREATE_PARTITIONS,
            partial(create_partitions.handle, controller, admin, known),
            create_partitions.error_response,
        ),
        Route(
            ApiKey.DELETE_TOPICS,
            partial(delete_topics.handle, controller, admin, known, may_delete),
            delete_topics.error_response,
        ),
    ]


def _controlling(controller: KafkaController, known: MetadataCache) -> list[Route]:
    return [
        Route(
            ApiKey.ELECT_LEADERS,
            partial(elect_leaders.handle, controller, known),
            elect_leaders.error_response,
        ),
        Route(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            partial(alter_partition_reassignments.handle, controller),
        ),
        Route(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            partial(list_partition_reassignments.handle, controller),
        ),
    ]

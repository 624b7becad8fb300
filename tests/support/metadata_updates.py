"""UpdateMetadata as a test says it, and what a broker knows after some."""

from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.types import ZERO_UUID, Uuid

CLUSTER_ID = "the-cluster"
INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
GOING = -2

LiveBroker = UpdateMetadataRequest.LiveBroker
TopicState = UpdateMetadataRequest.TopicState


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"-")[:16])


def live_broker(
    number: int, *, listeners: Sequence[str] = (INSIDE,), rack: str | None = None
) -> LiveBroker:
    endpoints = [
        LiveBroker.Endpoint(
            host=f"{each.lower()}{number}", port=9092, listener=each, security_protocol=0
        )
        for each in listeners
    ]
    return LiveBroker(id=number, endpoints=endpoints, rack=rack)


def state(
    number: int = 0,
    *,
    leader: int = 1,
    replicas: Sequence[int] = (1, 2),
    isr: Sequence[int] | None = None,
    offline: Sequence[int] = (),
    topic: str = "",
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic,
        partition_index=number,
        controller_epoch=1,
        leader=leader,
        leader_epoch=5,
        isr=list(replicas if isr is None else isr),
        zk_version=3,
        replicas=list(replicas),
        offline_replicas=list(offline),
    )


def update(
    topics: Mapping[str, Iterable[UpdateMetadataPartitionState]] | None = None,
    *,
    brokers: Iterable[LiveBroker] | None = None,
    has_ids: bool = True,
    **fields: object,
) -> UpdateMetadataRequest:
    live = [live_broker(1), live_broker(2)] if brokers is None else list(brokers)
    told = {"controller_id": 1, "controller_epoch": 1, "broker_epoch": -1, **fields}
    return UpdateMetadataRequest(
        topic_states=[
            TopicState(
                topic_name=name,
                topic_id=topic_id(name) if has_ids else ZERO_UUID,
                partition_states=list(states),
            )
            for name, states in (topics or {}).items()
        ],
        live_brokers=live,
        **told,
    )


def cluster(*updates: UpdateMetadataRequest) -> MetadataCache:
    """What a broker knows after these."""
    cache = MetadataCache(CLUSTER_ID)
    for each in updates:
        cache.update(each)
    return cache

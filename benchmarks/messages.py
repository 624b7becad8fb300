"""The messages that the codec benchmark encodes and decodes."""

from __future__ import annotations

from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.join_group import JoinGroupRequest
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.types import Uuid

BATCH_BYTES = 16 * 1024


def fetch_request() -> FetchRequest:
    partitions = [
        FetchRequest.Topic.Partition(
            partition=partition,
            current_leader_epoch=7,
            fetch_offset=1_000_000 + partition,
            partition_max_bytes=1_048_576,
        )
        for partition in range(10)
    ]
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=52_428_800,
        topics=[FetchRequest.Topic(topic="page-views", partitions=partitions)],
        rack_id="",
    )


def fetch_response() -> FetchResponse:
    partitions = [
        FetchResponse.Topic.Partition(
            partition_index=partition,
            error_code=0,
            high_watermark=1_000_100,
            last_stable_offset=1_000_100,
            log_start_offset=0,
            aborted_transactions=None,
            records=bytes(1024),
        )
        for partition in range(10)
    ]
    return FetchResponse(responses=[FetchResponse.Topic(topic="page-views", partitions=partitions)])


def produce_request() -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=3, records=bytes(BATCH_BYTES))
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.Topic(name="page-views", partition_data=[partition])],
    )


def metadata_response() -> MetadataResponse:
    """1,000 partitions: 100 topics of ten, each partition on three of five brokers."""
    brokers = [
        MetadataResponse.Broker(node_id=node, host=f"broker-{node}.example", port=9092)
        for node in range(5)
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id="vPeOCWypqUOSepEvx0cbog",
        controller_id=0,
        topics=[_topic(number) for number in range(100)],
    )


def _topic(number: int) -> MetadataResponse.Topic:
    partitions = []
    for partition in range(10):
        replicas = [(number + partition + step) % 5 for step in range(3)]
        partitions.append(
            MetadataResponse.Topic.Partition(
                error_code=0,
                partition_index=partition,
                leader_id=replicas[0],
                leader_epoch=4,
                replica_nodes=replicas,
                isr_nodes=replicas,
                offline_replicas=[],
            )
        )
    return MetadataResponse.Topic(
        error_code=0,
        name=f"topic-{number:03}",
        topic_id=Uuid(number.to_bytes(16, "big")),
        partitions=partitions,
    )


def join_group_request() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="page-view-counters",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="consumer-1-6a1bdbd6-7a3e-4d5c-9a7e-52b0a0a7c6f1",
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.Protocol(name=name, metadata=bytes(60))
            for name in ("range", "cooperative-sticky")
        ],
    )

"""Partitions that are led by another broker, which is told of in the name of the real controller.

At the end all is as before: the broker that was not there is gone, and so is its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import Uuid
from tests.interop.differential_requests import (
    BROKER_ID,
    Asked,
    Scope,
    Step,
    Values,
    fetch,
    fetched,
    produce,
)
from tests.support.logs import records_batch

TOPIC, TOPIC_ID = "v", Uuid(b"v" * 16)
STRANGER, ABSENT = 9, 10
#: Of the first controller of a cluster.
CONTROLLER_EPOCH = 1
NOBODY, BEING_DELETED = -1, -2
LEADERS = {0: STRANGER, 1: ABSENT, 2: NOBODY, 3: STRANGER}
VERSION = 8


def scenario(scope: Scope) -> Iterator[Step]:
    leaders = _told(LEADERS, BROKER_ID, STRANGER)
    yield Step("leaders elsewhere", ApiKey.UPDATE_METADATA, VERSION, leaders)
    asked = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    yield Step("brokers and leaders", ApiKey.METADATA, 12, asked)
    records = bytes(records_batch(b"x"))
    for version in scope.of(ApiKey.PRODUCE, 3):
        for partition in (*LEADERS, 7):
            values = produce(version, TOPIC, records, partition=partition)
            yield Step(f"produced to {partition}", ApiKey.PRODUCE, version, values)
        several = _produced_to_all(records)
        yield Step("produced to all", ApiKey.PRODUCE, version, several)
    for version in scope.of(ApiKey.FETCH):
        values = fetch(version, TOPIC, *(fetched(partition, 0) for partition in (*LEADERS, 7)))
        yield Step("fetched from all", ApiKey.FETCH, version, values)
    gone = _told(dict.fromkeys(LEADERS, BEING_DELETED), BROKER_ID)
    yield Step("as before", ApiKey.UPDATE_METADATA, VERSION, gone)
    yield Step("brokers as before", ApiKey.METADATA, 12, asked)


def _produced_to_all(records: bytes) -> Values:
    entries = [{"index": each, "records": records} for each in LEADERS]
    topic = {"name": TOPIC, "partition_data": entries}
    return {"acks": -1, "timeout_ms": 1000, "topic_data": [topic]}


def _told(leaders: dict[int, int], *alive: int) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        states = [
            {
                "partition_index": partition,
                "controller_epoch": CONTROLLER_EPOCH,
                "leader": leader,
                "leader_epoch": 5 + partition,
                "isr": [STRANGER],
                "replicas": [STRANGER],
            }
            for partition, leader in leaders.items()
        ]
        topic = {"topic_name": TOPIC, "topic_id": TOPIC_ID, "partition_states": states}
        return {
            "controller_id": BROKER_ID,
            "controller_epoch": CONTROLLER_EPOCH,
            "topic_states": [topic],
            "live_brokers": [_reached(each, broker) for each in alive],
        }

    return of


def _reached(broker_id: int, broker: Asked) -> dict[str, Any]:
    port = broker.port if broker_id == BROKER_ID else 9999
    endpoint = {"host": "127.0.0.1", "port": port, "listener": "PLAINTEXT", "security_protocol": 0}
    return {"id": broker_id, "endpoints": [endpoint], "rack": None}

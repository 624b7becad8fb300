"""What brokers and controllers ask of one another, from controllers and brokers that are not.

A request of the real controller would change the broker for all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import ZERO_UUID
from tests.interop.differential_requests import (
    BROKER_ID,
    Asked,
    Scope,
    Step,
    Values,
    created,
    new_topic,
)

STRANGER = 9
OLD_EPOCH = 0
#: No controller comes to these.
FAR_EPOCH = 1 << 40


def orders(scope: Scope) -> Iterator[Step]:
    """All from a controller of before."""
    yield from created(new_topic("k-0", 2))
    for version in scope.of(ApiKey.LEADER_AND_ISR):
        for name, values in _leaders(version).items():
            yield Step(f"leaders, {name}", ApiKey.LEADER_AND_ISR, version, values)
    for version in scope.of(ApiKey.STOP_REPLICA):
        for topic in ("k-0", "nope"):
            values = _stopped(version, topic)
            yield Step(f"{topic} stopped", ApiKey.STOP_REPLICA, version, values)
    for version in scope.of(ApiKey.UPDATE_METADATA):
        yield Step("metadata", ApiKey.UPDATE_METADATA, version, _told(version))
    values = {"topics": [{"name": "k-0"}], "allow_auto_topic_creation": False}
    yield Step("all as before", ApiKey.METADATA, 12, values)


def _of_old(**values: Any) -> Values:
    return {"controller_id": STRANGER, "controller_epoch": OLD_EPOCH, **values}


def _state(topic: str, index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "controller_epoch": OLD_EPOCH,
        "leader": STRANGER,
        "leader_epoch": 5,
        "isr": [STRANGER],
        "replicas": [STRANGER, BROKER_ID],
        "topic_name": topic,
    }


def _leaders(version: int) -> dict[str, Values]:
    def order(*states: dict[str, Any]) -> Values:
        if version < 2:
            return _of_old(ungrouped_partition_states=states)
        named = [
            {key: value for key, value in state.items() if key != "topic_name"} for state in states
        ]
        topics = (
            [{"topic_name": states[0]["topic_name"], "partition_states": named}] if states else []
        )
        return _of_old(topic_states=topics)

    return {
        "none": order(),
        "one": order(_state("k-0", 0)),
        "two": order(_state("k-0", 0), _state("k-0", 1)),
        "unknown": order(_state("nope", 0)),
    }


def _stopped(version: int, topic: str) -> Values:
    if version == 0:
        return _of_old(ungrouped_partitions=[{"topic_name": topic, "partition_index": 0}])
    if version < 3:
        return _of_old(topics=[{"name": topic, "partition_indexes": [0, 1]}])
    states = [
        {"partition_index": index, "leader_epoch": 5, "delete_partition": True} for index in (0, 1)
    ]
    return _of_old(topic_states=[{"topic_name": topic, "partition_states": states}])


def _told(version: int) -> Values:
    return _of_old(topic_states=[], ungrouped_partition_states=[], live_brokers=[])


def requests(scope: Scope) -> Iterator[Step]:
    """Of brokers, to the controller."""
    yield from created(new_topic("q-0", 2))
    for version in scope.of(ApiKey.CONTROLLED_SHUTDOWN):
        for broker in (STRANGER, -1):
            values = {"broker_id": broker}
            yield Step(f"{broker} shuts down", ApiKey.CONTROLLED_SHUTDOWN, version, values)
        if version >= 2:
            values = {"broker_id": BROKER_ID, "broker_epoch": 1}
            yield Step("an old epoch shuts down", ApiKey.CONTROLLED_SHUTDOWN, version, values)
    yield from _ids(scope)
    for version in scope.of(ApiKey.ALTER_PARTITION):
        for broker, epoch in ((STRANGER, 1), (BROKER_ID, FAR_EPOCH), (BROKER_ID, 1)):
            for topic in ("q-0", "nope"):
                values_of = _altered(version, topic, broker, epoch)
                name = f"{topic} altered by {broker} in {epoch}"
                yield Step(name, ApiKey.ALTER_PARTITION, version, values_of)


def _ids(scope: Scope) -> Iterator[Step]:
    for version in scope.of(ApiKey.ALLOCATE_PRODUCER_IDS):
        for broker, epoch in ((STRANGER, 1), (BROKER_ID, FAR_EPOCH), (BROKER_ID, -1)):
            values = {"broker_id": broker, "broker_epoch": epoch}
            name = f"ids for {broker} in {epoch}"
            yield Step(name, ApiKey.ALLOCATE_PRODUCER_IDS, version, values)


def _altered(version: int, topic: str, broker: int, epoch: int) -> Callable[[Asked], Values]:
    def of(side: Asked) -> Values:
        entry = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}
        if version < 3:
            isr: dict[str, Any] = {"new_isr": [BROKER_ID]}
        else:
            isr = {"new_isr_with_epochs": [{"broker_id": BROKER_ID, "broker_epoch": epoch}]}
        known = side.topic_id(topic) if version >= 2 else ZERO_UUID
        named = {"topic_name": topic, "topic_id": known, "partitions": [{**entry, **isr}]}
        return {"broker_id": broker, "broker_epoch": epoch, "topics": [named]}

    return of

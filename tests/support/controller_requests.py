"""What only a controller is asked for, and what it alone may tell brokers, in every version.

Owner: the thread of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.registry import api
from odradek.protocol.types import ZERO_UUID
from tests.support.wire_client import WireClient, error_codes

TIMEOUT_MS = 10_000
NOBODY = 999
#: As an epoch.
FAR_AHEAD = 1 << 20

Values = Mapping[str, Any]


def asked_of_the_controller(topic: str) -> dict[ApiKey, Values]:
    """About a topic that there is not; one is made, grown and deleted if it is asked in order."""
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    grown = {"name": topic, "count": 2, "assignments": None}
    not_moved = {"partition_index": 0, "replicas": None}
    return {
        ApiKey.CREATE_TOPICS: {"topics": [new], "timeout_ms": TIMEOUT_MS},
        ApiKey.CREATE_PARTITIONS: {"topics": [grown], "timeout_ms": TIMEOUT_MS},
        ApiKey.ELECT_LEADERS: {"topic_partitions": [{"topic": topic, "partitions": [0]}]},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            "topics": [{"name": topic, "partitions": [not_moved]}],
            "timeout_ms": TIMEOUT_MS,
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": None, "timeout_ms": TIMEOUT_MS},
        ApiKey.ALTER_PARTITION: {"broker_id": NOBODY},
        ApiKey.ALLOCATE_PRODUCER_IDS: {"broker_id": NOBODY},
        ApiKey.UPDATE_FEATURES: {"feature_updates": []},
        ApiKey.CONTROLLED_SHUTDOWN: {"broker_id": NOBODY},
        ApiKey.DELETE_TOPICS: {
            "topics": [{"name": topic, "topic_id": ZERO_UUID}],
            "topic_names": [topic],
            "timeout_ms": TIMEOUT_MS,
        },
    }


def answers(
    address: str,
    asked: Mapping[ApiKey, Values],
    is_wanted: Callable[[ApiKey, int], bool] = lambda *_: True,
) -> dict[tuple[ApiKey, int], str]:
    """By version, the name of what is amiss, or of nothing."""
    found = {}
    with WireClient(address) as client:
        for key, values in asked.items():
            versions = api(key).stable
            for version in range(versions.low, versions.high + 1):
                if is_wanted(key, version):
                    found[key, version] = amiss(client.call(key, version, **values))
    return found


def amiss(answer: Any) -> str:
    (code,) = error_codes(answer) - {0} or {0}
    return ErrorCode.for_code(code).name


def told_by_a_controller(topic: str, **epochs: int) -> dict[ApiKey, Values]:
    """What would undo the first partition of a topic, and have all brokers forgotten."""
    named = {"topic_name": topic, "partition_index": 0}
    led = named | {
        "controller_epoch": FAR_AHEAD,
        "leader": NOBODY,
        "leader_epoch": FAR_AHEAD,
        "isr": [NOBODY],
        "replicas": [NOBODY],
    }
    stopped = {"partition_index": 0, "leader_epoch": FAR_AHEAD, "delete_partition": True}
    return {
        ApiKey.LEADER_AND_ISR: {**epochs, **_of_topic(topic, led | {"partition_epoch": FAR_AHEAD})},
        ApiKey.UPDATE_METADATA: {**epochs, **_of_topic(topic, led | {"zk_version": FAR_AHEAD})},
        ApiKey.STOP_REPLICA: {
            **epochs,
            "delete_partitions": True,
            "ungrouped_partitions": [named],
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "topic_states": [{"topic_name": topic, "partition_states": [stopped]}],
        },
    }


def _of_topic(topic: str, state: Values) -> Values:
    """As old versions have it, and as new ones have."""
    grouped = {"topic_name": topic, "partition_states": [state]}
    return {"ungrouped_partition_states": [state], "topic_states": [grouped]}


def names_broker_epoch(key: ApiKey, version: int) -> bool:
    """Before that, a broker cannot know in which of its lives it is told."""
    (field,) = [each for each in api(key).request.__schema__.fields if each.name == "broker_epoch"]
    return version in field.versions

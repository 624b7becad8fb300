"""A small valid request for every API that a broker serves, for all versions alike.

``VALUES[key](scene, version)`` is what ``wire_client.request`` makes a request of.  None of them
disturbs what another relies on: they may be sent in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID, Uuid
from tests.support.batches import batch_of
from tests.support.legacy_messages import message
from tests.support.wire_client import call

TOPIC = "every-version"
GROUP = "every-version"
ABSENT_BROKER = 999
TOPIC_RESOURCE = 2
SET = 0
EARLIEST = -2
GROUP_KEY, TRANSACTION_KEY = 0, 1
TIMEOUT_MS = 10_000
#: Of the first controller of a new cluster.
CONTROLLER_EPOCH = 1
LISTENER = "PLAINTEXT"

Values = Mapping[str, Any]
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Scene:
    """What the requests are about: a topic of one partition, on the one broker."""

    address: str
    log_dir: str
    broker_id: int
    topic_id: Uuid


def prepared(address: str, log_dir: str) -> Scene:
    broker_id = call(address, ApiKey.DESCRIBE_CLUSTER, 0).brokers[0].broker_id
    scene = Scene(address, log_dir, broker_id, create(address, TOPIC))
    call(address, ApiKey.PRODUCE, 9, **_produce(scene, 9))
    find_coordinators(address)
    return scene


def find_coordinators(address: str) -> None:
    """Of a group and a transaction; as clients do, again and again until there are any."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    for key_type in (GROUP_KEY, TRANSACTION_KEY):
        while True:
            found = call(address, ApiKey.FIND_COORDINATOR, 3, key=GROUP, key_type=key_type)
            if not found.error_code:
                break
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE.code, found
            assert time.monotonic() < deadline, found


def create(address: str, topic: str) -> Uuid:
    answer = call(address, ApiKey.CREATE_TOPICS, 7, topics=[_new(topic)], timeout_ms=TIMEOUT_MS)
    assert answer.topics[0].error_code == 0, answer
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


def _new(topic: str) -> Values:
    return {"name": topic, "num_partitions": 1, "replication_factor": 1}


def _produce(scene: Scene, version: int) -> Values:
    if version < 3:
        records = message(0 if version < 2 else 1, b"of old")
    else:
        records = bytes(batch_of(b"first", b"second"))
    partition = {"index": 0, "records": records}
    topic = {"name": TOPIC, "topic_id": scene.topic_id, "partition_data": [partition]}
    return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic]}


def _fetch(scene: Scene, version: int) -> Values:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topic = {"topic": TOPIC, "topic_id": scene.topic_id, "partitions": [partition]}
    return {"max_wait_ms": 100, "min_bytes": 1, "session_epoch": -1, "topics": [topic]}


def _list_offsets(scene: Scene, version: int) -> Values:
    partition = {"partition_index": 0, "timestamp": EARLIEST}
    return {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [partition]}]}


def _create_topics(scene: Scene, version: int) -> Values:
    return {"topics": [_new(f"created-{next(_NUMBERS)}")], "timeout_ms": TIMEOUT_MS}


def _delete_topics(scene: Scene, version: int) -> Values:
    name = f"deleted-{next(_NUMBERS)}"
    topic_id = create(scene.address, name)
    by_id = {"name": None, "topic_id": topic_id}
    return {"topics": [by_id], "topic_names": [name], "timeout_ms": TIMEOUT_MS}


def _create_partitions(scene: Scene, version: int) -> Values:
    name = f"grown-{next(_NUMBERS)}"
    create(scene.address, name)
    topic = {"name": name, "count": 2, "assignments": None}
    return {"topics": [topic], "timeout_ms": TIMEOUT_MS}


def _describe_configs(scene: Scene, version: int) -> Values:
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC}
    return {"resources": [resource | {"configuration_keys": None}]}


def _alter_configs(scene: Scene, version: int) -> Values:
    config = {"name": "retention.ms", "value": "1000000", "config_operation": SET}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC}
    return {"resources": [resource | {"configs": [config]}]}


def _alter_configs_of_old(scene: Scene, version: int) -> Values:
    values = _alter_configs(scene, version)
    del values["resources"][0]["configs"][0]["config_operation"]
    return values


def _leader_epochs(scene: Scene, version: int) -> Values:
    partition = {"partition": 0, "leader_epoch": 0}
    return {"topics": [{"topic": TOPIC, "partitions": [partition]}]}


def _delete_records(scene: Scene, version: int) -> Values:
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}
    return {"topics": [topic], "timeout_ms": TIMEOUT_MS}


def _alter_log_dirs(scene: Scene, version: int) -> Values:
    topic = {"name": TOPIC, "partitions": [0]}
    return {"dirs": [{"path": scene.log_dir, "topics": [topic]}]}


def _metadata(scene: Scene, version: int) -> Values:
    return {"topics": [{"name": TOPIC, "topic_id": ZERO_UUID}]}


def _reassign(scene: Scene, version: int) -> Values:
    partition = {"partition_index": 0, "replicas": [scene.broker_id]}
    return {"topics": [{"name": TOPIC, "partitions": [partition]}]}


def _of_the_broker(scene: Scene, version: int) -> Values:
    return {"broker_id": scene.broker_id}


def _of_the_controller(scene: Scene, version: int) -> Values:
    return {"controller_id": scene.broker_id, "controller_epoch": CONTROLLER_EPOCH}


def _update_metadata(scene: Scene, version: int) -> Values:
    """Who is alive is told whole each time."""
    host, _, port = scene.address.rpartition(":")
    endpoint = {"host": host, "port": int(port), "listener": LISTENER, "security_protocol": 0}
    alive = {"id": scene.broker_id, "v0_host": host, "v0_port": int(port), "endpoints": [endpoint]}
    return {**_of_the_controller(scene, version), "live_brokers": [{**alive, "rack": None}]}


def _member(scene: Scene, version: int) -> Values:
    """Of a group that there is not."""
    return {"group_id": GROUP, "member_id": "nobody", "generation_id": 1}


def _sync(scene: Scene, version: int) -> Values:
    return {**_member(scene, version), "protocol_type": "consumer", "protocol_name": "range"}


def _leave(scene: Scene, version: int) -> Values:
    members = [{"member_id": "nobody", "group_instance_id": None}]
    return {"group_id": GROUP, "member_id": "nobody", "members": members}


def _commit(scene: Scene, version: int) -> Values:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "half"}
    topic = {"name": TOPIC, "partitions": [partition]}
    return {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": [topic]}


def _commit_in_transaction(scene: Scene, version: int) -> Values:
    """Of a group without a name, which no transaction is about."""
    topics = _commit(scene, version)["topics"]
    return {"transactional_id": "t", "group_id": "", "producer_id": 1, "topics": topics}


def _write_markers(scene: Scene, version: int) -> Values:
    name = f"marked-{next(_NUMBERS)}"
    create(scene.address, name)
    topics = [{"name": name, "partition_indexes": [0]}]
    return {"markers": [{"producer_id": 1, "transaction_result": True, "topics": topics}]}


def _offsets(scene: Scene, version: int) -> Values:
    """For version 0 they must be there."""
    if version == 0:
        call(scene.address, ApiKey.OFFSET_COMMIT, 0, **_commit(scene, 0))
    topics = [{"name": TOPIC, "partition_indexes": [0]}]
    groups = [{"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": topics}]
    return {"group_id": GROUP, "topics": topics, "groups": groups}


def _delete_offsets(scene: Scene, version: int) -> Values:
    call(scene.address, ApiKey.OFFSET_COMMIT, 9, **_commit(scene, 9))
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0}]}
    return {"group_id": GROUP, "topics": [topic]}


def _delete_group(scene: Scene, version: int) -> Values:
    name = f"deleted-{next(_NUMBERS)}"
    values = {**_commit(scene, 9), "group_id": name}
    call(scene.address, ApiKey.OFFSET_COMMIT, 9, **values)
    return {"groups_names": [name]}


def _of_a_new_producer(scene: Scene) -> Values:
    """Transactional."""
    name = f"producer-{next(_NUMBERS)}"
    values = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    found = call(scene.address, ApiKey.INIT_PRODUCER_ID, 4, **values)
    assert found.error_code == 0, found
    return {
        "transactional_id": name,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
    }


def _add_to_transaction(scene: Scene, version: int) -> Values:
    producer = _of_a_new_producer(scene)
    topics = [{"name": TOPIC, "partitions": [0]}]
    if version >= 4:
        return {"transactions": [{**producer, "topics": topics}]}
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return {**old, "v3_and_below_topics": topics}


def _add_offsets_to_transaction(scene: Scene, version: int) -> Values:
    return {**_of_a_new_producer(scene), "group_id": GROUP}


def _end_transaction(scene: Scene, version: int) -> Values:
    values = _add_to_transaction(scene, 3)
    added = call(scene.address, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **values)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    producer = {
        name.removeprefix("v3_and_below_"): value
        for name, value in values.items()
        if not name.endswith("topics")
    }
    return {**producer, "committed": True}


def _always(**values: Any) -> Callable[[Scene, int], Values]:
    return lambda scene, version: values


VALUES: Mapping[ApiKey, Callable[[Scene, int], Values]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.LEADER_AND_ISR: _of_the_controller,
    ApiKey.STOP_REPLICA: _of_the_controller,
    ApiKey.UPDATE_METADATA: _update_metadata,
    ApiKey.CONTROLLED_SHUTDOWN: _always(broker_id=ABSENT_BROKER),
    ApiKey.API_VERSIONS: _always(client_software_name="wire", client_software_version="1"),
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.OFFSET_DELETE: _delete_offsets,
    ApiKey.TXN_OFFSET_COMMIT: _commit_in_transaction,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.FIND_COORDINATOR: _always(key=GROUP, key_type=0, coordinator_keys=[GROUP]),
    ApiKey.JOIN_GROUP: _always(
        group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000
    ),
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.HEARTBEAT: _member,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.DESCRIBE_GROUPS: _always(groups=[GROUP]),
    ApiKey.LIST_GROUPS: _always(),
    ApiKey.DELETE_GROUPS: _delete_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _always(group_id=GROUP, member_id="nobody", member_epoch=1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _always(group_ids=[GROUP]),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _always(transactional_id=None, transaction_timeout_ms=60_000),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_to_transaction,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets_to_transaction,
    ApiKey.END_TXN: _end_transaction,
    ApiKey.DESCRIBE_TRANSACTIONS: _always(transactional_ids=["nobody"]),
    ApiKey.LIST_TRANSACTIONS: _always(),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _leader_epochs,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs_of_old,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _always(topics=[{"topic": TOPIC, "partitions": [0]}]),
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _always(topic_partitions=[{"topic": TOPIC, "partitions": [0]}]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _always(topics=None),
    ApiKey.ALTER_PARTITION: _of_the_broker,
    ApiKey.UPDATE_FEATURES: _always(feature_updates=[]),
    ApiKey.DESCRIBE_CLUSTER: _always(),
    ApiKey.DESCRIBE_PRODUCERS: _always(topics=[{"name": TOPIC, "partition_indexes": [0]}]),
    ApiKey.ALLOCATE_PRODUCER_IDS: _of_the_broker,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _always(topics=[{"name": TOPIC}]),
}

#: What is answered where it is not 0; nobody but a broker knows its own epoch, and nobody joins a
#: group without offering a protocol.
ERROR_CODES: Mapping[ApiKey, ErrorCode] = {
    ApiKey.CONTROLLED_SHUTDOWN: ErrorCode.BROKER_NOT_AVAILABLE,
    ApiKey.ALTER_PARTITION: ErrorCode.STALE_BROKER_EPOCH,
    ApiKey.ALLOCATE_PRODUCER_IDS: ErrorCode.STALE_BROKER_EPOCH,
    ApiKey.ELECT_LEADERS: ErrorCode.ELECTION_NOT_NEEDED,
    ApiKey.JOIN_GROUP: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.CONSUMER_GROUP_DESCRIBE: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.SYNC_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.HEARTBEAT: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.LEAVE_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.DESCRIBE_GROUPS: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.DESCRIBE_TRANSACTIONS: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ApiKey.TXN_OFFSET_COMMIT: ErrorCode.INVALID_GROUP_ID,
}

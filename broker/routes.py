"""Everything this broker answers: from API key to handler, and what each handler may touch.

What ApiVersions answers is computed from this table, so that nothing is advertised which is not
served.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from odradek.broker.fetching.closest_replica import ClosestReplica
from odradek.broker.fetching.partition_reading import Policy
from odradek.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)
from odradek.broker.router import Route
from odradek.broker.services import Services
from odradek.protocol.api_keys import ApiKey


def routes(broker: Services) -> Mapping[ApiKey, Route]:
    """The table."""
    table = [
        *_records(broker),
        *_cluster(broker),
        *_topics(broker),
        *_offsets(broker),
        *_groups(broker),
        *_transactions(broker),
        *_control(broker),
    ]
    served = {route.key: route for route in table}
    versions = {key: route.versions for key, route in served.items()}
    features = broker.features
    own = Route(
        ApiKey.API_VERSIONS, lambda call: api_versions.handle(versions, features.current, call)
    )
    versions[ApiKey.API_VERSIONS] = own.versions
    served[ApiKey.API_VERSIONS] = own
    return served


def _records(broker: Services) -> list[Route]:
    replicas, cluster, now_ms = broker.replicas, broker.cluster, broker.now_ms
    policy = _fetch_policy(broker)
    return [
        Route(
            ApiKey.PRODUCE,
            partial(produce.handle, replicas, cluster, broker.reader, broker.verifier, now_ms),
            produce.refused,
        ),
        Route(
            ApiKey.FETCH,
            partial(fetch.handle, replicas, cluster, broker.fetch_sessions, policy),
            fetch.refused,
        ),
        Route(
            ApiKey.LIST_OFFSETS,
            partial(list_offsets.handle, replicas, broker.reader, now_ms),
            list_offsets.refused,
        ),
        Route(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            partial(offset_for_leader_epoch.handle, replicas),
            offset_for_leader_epoch.refused,
        ),
        Route(
            ApiKey.DELETE_RECORDS,
            partial(delete_records.handle, replicas, broker.moves, cluster),
            delete_records.refused,
        ),
        Route(
            ApiKey.DESCRIBE_PRODUCERS,
            partial(describe_producers.handle, replicas, cluster),
            describe_producers.refused,
        ),
        Route(
            ApiKey.DESCRIBE_LOG_DIRS,
            partial(describe_log_dirs.handle, broker.logs, broker.disk),
            describe_log_dirs.refused,
        ),
        Route(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            partial(alter_replica_log_dirs.handle, broker.moves),
            alter_replica_log_dirs.refused,
        ),
    ]


def _fetch_policy(broker: Services) -> Policy:
    """As in Kafka, neither setting changes at run time."""
    current = broker.settings.current
    return Policy(
        fetch_max_bytes=current.broker.fetch_max_bytes,
        throttle=broker.throttles.leader,
        closest=ClosestReplica(broker.cluster) if current.replication.is_rack_aware else None,
    )


def _cluster(broker: Services) -> list[Route]:
    cluster = broker.cluster
    limit = broker.settings.current.broker.described_partitions_max
    return [
        Route(
            ApiKey.METADATA,
            partial(metadata.handle, cluster, broker.topic_creator),
            metadata.refused,
        ),
        Route(ApiKey.DESCRIBE_CLUSTER, partial(describe_cluster.handle, cluster)),
        Route(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            partial(describe_topic_partitions.handle, cluster, limit),
            describe_topic_partitions.refused,
        ),
    ]


def _topics(broker: Services) -> list[Route]:
    controller, admin, cluster = broker.controller, broker.topic_admin, broker.cluster
    may_delete = broker.settings.current.controller.delete_topic_enable
    return [
        Route(
            ApiKey.CREATE_TOPICS,
            partial(create_topics.handle, controller, admin, cluster),
            create_topics.refused,
        ),
        Route(
            ApiKey.DELETE_TOPICS,
            partial(delete_topics.handle, controller, admin, cluster, may_delete),
            delete_topics.refused,
        ),
        Route(
            ApiKey.CREATE_PARTITIONS,
            partial(create_partitions.handle, controller, admin, cluster),
            create_partitions.refused,
        ),
        Route(
            ApiKey.DESCRIBE_CONFIGS,
            partial(describe_configs.handle, broker.config_descriptions),
            describe_configs.refused,
        ),
        Route(
            ApiKey.ALTER_CONFIGS,
            partial(alter_configs.handle, broker.config_admin),
            alter_configs.refused,
        ),
        Route(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            partial(incremental_alter_configs.handle, broker.config_admin),
            incremental_alter_configs.refused,
        ),
    ]


def _offsets(broker: Services) -> list[Route]:
    groups, cluster, old = broker.groups, broker.cluster, broker.old_offsets
    return [
        Route(
            ApiKey.OFFSET_COMMIT,
            partial(offset_commit.handle, groups, cluster, old),
            offset_commit.refused,
        ),
        Route(
            ApiKey.TXN_OFFSET_COMMIT,
            partial(txn_offset_commit.handle, groups, cluster, broker.verifier),
            txn_offset_commit.refused,
        ),
        Route(
            ApiKey.OFFSET_FETCH,
            partial(offset_fetch.handle, groups, cluster, old),
            offset_fetch.refused,
        ),
        Route(ApiKey.OFFSET_DELETE, partial(offset_delete.handle, groups, cluster)),
    ]


def _groups(broker: Services) -> list[Route]:
    groups = broker.groups
    return [
        Route(
            ApiKey.FIND_COORDINATOR,
            partial(find_coordinator.handle, broker.coordinators),
            find_coordinator.refused,
        ),
        Route(ApiKey.JOIN_GROUP, partial(join_group.handle, groups), join_group.refused),
        Route(ApiKey.SYNC_GROUP, partial(sync_group.handle, groups), sync_group.refused),
        Route(ApiKey.HEARTBEAT, partial(heartbeat.handle, groups), heartbeat.refused),
        Route(ApiKey.LEAVE_GROUP, partial(leave_group.handle, groups)),
        Route(
            ApiKey.DESCRIBE_GROUPS,
            partial(describe_groups.handle, groups),
            describe_groups.refused,
        ),
        Route(ApiKey.LIST_GROUPS, partial(list_groups.handle, groups)),
        Route(ApiKey.DELETE_GROUPS, partial(delete_groups.handle, groups), delete_groups.refused),
        Route(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            partial(consumer_group_heartbeat.handle, groups),
            consumer_group_heartbeat.refused,
        ),
        Route(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            partial(consumer_group_describe.handle, groups),
            consumer_group_describe.refused,
        ),
    ]


def _transactions(broker: Services) -> list[Route]:
    transactions, cluster = broker.transactions, broker.cluster
    timeout_ms = broker.settings.current.broker.request_timeout_ms
    ending = write_txn_markers.World(broker.groups, broker.now_ms, timeout_ms)
    return [
        Route(
            ApiKey.INIT_PRODUCER_ID,
            partial(init_producer_id.handle, broker.producer_ids, transactions),
            init_producer_id.refused,
        ),
        Route(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            partial(add_partitions_to_txn.handle, transactions, cluster),
            add_partitions_to_txn.refused,
        ),
        Route(
            ApiKey.ADD_OFFSETS_TO_TXN,
            partial(add_offsets_to_txn.handle, transactions, broker.groups.lookup),
            add_offsets_to_txn.refused,
        ),
        Route(ApiKey.END_TXN, partial(end_txn.handle, transactions), end_txn.refused),
        Route(
            ApiKey.WRITE_TXN_MARKERS,
            partial(write_txn_markers.handle, broker.replicas, ending),
            write_txn_markers.refused,
        ),
        Route(
            ApiKey.DESCRIBE_TRANSACTIONS,
            partial(describe_transactions.handle, transactions),
            describe_transactions.refused,
        ),
        Route(ApiKey.LIST_TRANSACTIONS, partial(list_transactions.handle, transactions)),
    ]


def _control(broker: Services) -> list[Route]:
    """What brokers and controllers ask of one another, and what is asked of the controller."""
    controller, replicas, fence = broker.controller, broker.replicas, broker.fence
    return [
        Route(
            ApiKey.LEADER_AND_ISR,
            partial(leader_and_isr.handle, replicas, fence, broker.topic_configs),
            leader_and_isr.refused,
        ),
        Route(ApiKey.STOP_REPLICA, partial(stop_replica.handle, replicas, fence)),
        Route(
            ApiKey.UPDATE_METADATA,
            partial(
                update_metadata.handle,
                broker.cluster,
                replicas,
                fence,
                broker.partitions_deleted,
            ),
        ),
        Route(ApiKey.CONTROLLED_SHUTDOWN, partial(controlled_shutdown.handle, controller)),
        Route(ApiKey.ALTER_PARTITION, partial(alter_partition.handle, controller)),
        Route(ApiKey.ALLOCATE_PRODUCER_IDS, partial(allocate_producer_ids.handle, controller)),
        Route(
            ApiKey.ELECT_LEADERS,
            partial(elect_leaders.handle, controller, broker.cluster),
            elect_leaders.refused,
        ),
        Route(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            partial(alter_partition_reassignments.handle, controller),
        ),
        Route(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            partial(list_partition_reassignments.handle, controller),
        ),
        Route(ApiKey.UPDATE_FEATURES, partial(update_features.handle, controller, broker.features)),
    ]

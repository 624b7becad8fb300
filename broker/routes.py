"""The table from API key to handler, with the services that each handler receives.

The response to ApiVersions is computed from this table, so the broker advertises exactly the APIs
that it supports.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from odradek.broker.fetching.partition_reader import FetchPolicy
from odradek.broker.fetching.replica_selector import RackAwareReplicaSelector
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
from odradek.broker.services import BrokerServices
from odradek.protocol.api_keys import ApiKey


def build_routes(services: BrokerServices) -> Mapping[ApiKey, Route]:
    """Build the whole table."""
    table = [
        *_record_routes(services),
        *_cluster_routes(services),
        *_topic_routes(services),
        *_offset_routes(services),
        *_group_routes(services),
        *_transaction_routes(services),
        *_control_routes(services),
    ]
    routes = {route.api_key: route for route in table}
    versions = {key: route.versions for key, route in routes.items()}
    features = services.features
    api_versions_route = Route(
        ApiKey.API_VERSIONS,
        lambda request: api_versions.handle(versions, features.current, request),
    )
    versions[ApiKey.API_VERSIONS] = api_versions_route.versions
    routes[ApiKey.API_VERSIONS] = api_versions_route
    return routes


def _record_routes(services: BrokerServices) -> list[Route]:
    replicas, cluster, now_ms = services.replica_manager, services.metadata_cache, services.now_ms
    policy = _create_fetch_policy(services)
    return [
        Route(
            ApiKey.PRODUCE,
            partial(
                produce.handle,
                replicas,
                cluster,
                services.record_inspector,
                services.add_partitions_to_txn_manager,
                now_ms,
            ),
            produce.error_response,
        ),
        Route(
            ApiKey.FETCH,
            partial(fetch.handle, replicas, cluster, services.fetch_session_cache, policy),
            fetch.error_response,
        ),
        Route(
            ApiKey.LIST_OFFSETS,
            partial(list_offsets.handle, replicas, services.record_inspector, now_ms),
            list_offsets.error_response,
        ),
        Route(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            partial(offset_for_leader_epoch.handle, replicas),
            offset_for_leader_epoch.error_response,
        ),
        Route(
            ApiKey.DELETE_RECORDS,
            partial(delete_records.handle, replicas, services.alter_log_dirs_manager, cluster),
            delete_records.error_response,
        ),
        Route(
            ApiKey.DESCRIBE_PRODUCERS,
            partial(describe_producers.handle, replicas, cluster),
            describe_producers.error_response,
        ),
        Route(
            ApiKey.DESCRIBE_LOG_DIRS,
            partial(describe_log_dirs.handle, services.log_manager, services.disk_executor),
            describe_log_dirs.error_response,
        ),
        Route(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            partial(alter_replica_log_dirs.handle, services.alter_log_dirs_manager),
            alter_replica_log_dirs.error_response,
        ),
    ]


def _create_fetch_policy(services: BrokerServices) -> FetchPolicy:
    """As in Kafka, these settings cannot change at run time."""
    current = services.settings.current
    return FetchPolicy(
        fetch_max_bytes=current.broker.fetch_max_bytes,
        leader_quota=services.quota_managers.leader,
        replica_selector=RackAwareReplicaSelector(services.metadata_cache)
        if current.replication.is_rack_aware
        else None,
    )


def _cluster_routes(services: BrokerServices) -> list[Route]:
    cluster = services.metadata_cache
    limit = services.settings.current.broker.described_partitions_max
    return [
        Route(
            ApiKey.METADATA,
            partial(metadata.handle, cluster, services.auto_topic_creation_manager),
            metadata.error_response,
        ),
        Route(ApiKey.DESCRIBE_CLUSTER, partial(describe_cluster.handle, cluster)),
        Route(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            partial(describe_topic_partitions.handle, cluster, limit),
            describe_topic_partitions.error_response,
        ),
    ]


def _topic_routes(services: BrokerServices) -> list[Route]:
    controller, admin, cluster = services.controller, services.topic_admin, services.metadata_cache
    delete_topic_enable = services.settings.current.controller.delete_topic_enable
    return [
        Route(
            ApiKey.CREATE_TOPICS,
            partial(create_topics.handle, controller, admin, cluster),
            create_topics.error_response,
        ),
        Route(
            ApiKey.DELETE_TOPICS,
            partial(delete_topics.handle, controller, admin, cluster, delete_topic_enable),
            delete_topics.error_response,
        ),
        Route(
            ApiKey.CREATE_PARTITIONS,
            partial(create_partitions.handle, controller, admin, cluster),
            create_partitions.error_response,
        ),
        Route(
            ApiKey.DESCRIBE_CONFIGS,
            partial(describe_configs.handle, services.config_helper),
            describe_configs.error_response,
        ),
        Route(
            ApiKey.ALTER_CONFIGS,
            partial(alter_configs.handle, services.config_admin_manager),
            alter_configs.error_response,
        ),
        Route(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            partial(incremental_alter_configs.handle, services.config_admin_manager),
            incremental_alter_configs.error_response,
        ),
    ]


def _offset_routes(services: BrokerServices) -> list[Route]:
    groups, cluster, zookeeper_offsets = (
        services.groups,
        services.metadata_cache,
        services.zookeeper_offsets,
    )
    return [
        Route(
            ApiKey.OFFSET_COMMIT,
            partial(offset_commit.handle, groups, cluster, zookeeper_offsets),
            offset_commit.error_response,
        ),
        Route(
            ApiKey.TXN_OFFSET_COMMIT,
            partial(
                txn_offset_commit.handle, groups, cluster, services.add_partitions_to_txn_manager
            ),
            txn_offset_commit.error_response,
        ),
        Route(
            ApiKey.OFFSET_FETCH,
            partial(offset_fetch.handle, groups, cluster, zookeeper_offsets),
            offset_fetch.error_response,
        ),
        Route(ApiKey.OFFSET_DELETE, partial(offset_delete.handle, groups, cluster)),
    ]


def _group_routes(services: BrokerServices) -> list[Route]:
    groups = services.groups
    return [
        Route(
            ApiKey.FIND_COORDINATOR,
            partial(find_coordinator.handle, services.coordinator_lookups),
            find_coordinator.error_response,
        ),
        Route(ApiKey.JOIN_GROUP, partial(join_group.handle, groups), join_group.error_response),
        Route(ApiKey.SYNC_GROUP, partial(sync_group.handle, groups), sync_group.error_response),
        Route(ApiKey.HEARTBEAT, partial(heartbeat.handle, groups), heartbeat.error_response),
        Route(ApiKey.LEAVE_GROUP, partial(leave_group.handle, groups)),
        Route(
            ApiKey.DESCRIBE_GROUPS,
            partial(describe_groups.handle, groups),
            describe_groups.error_response,
        ),
        Route(ApiKey.LIST_GROUPS, partial(list_groups.handle, groups)),
        Route(
            ApiKey.DELETE_GROUPS,
            partial(delete_groups.handle, groups),
            delete_groups.error_response,
        ),
        Route(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            partial(consumer_group_heartbeat.handle, groups),
            consumer_group_heartbeat.error_response,
        ),
        Route(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            partial(consumer_group_describe.handle, groups),
            consumer_group_describe.error_response,
        ),
    ]


def _transaction_routes(services: BrokerServices) -> list[Route]:
    transactions, cluster = services.transactions, services.metadata_cache
    timeout_ms = services.settings.current.broker.request_timeout_ms
    marker_context = write_txn_markers.TxnMarkerContext(
        services.groups, services.now_ms, timeout_ms
    )
    return [
        Route(
            ApiKey.INIT_PRODUCER_ID,
            partial(init_producer_id.handle, services.producer_id_manager, transactions),
            init_producer_id.error_response,
        ),
        Route(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            partial(add_partitions_to_txn.handle, transactions, cluster),
            add_partitions_to_txn.error_response,
        ),
        Route(
            ApiKey.ADD_OFFSETS_TO_TXN,
            partial(add_offsets_to_txn.handle, transactions, services.groups.lookup),
            add_offsets_to_txn.error_response,
        ),
        Route(ApiKey.END_TXN, partial(end_txn.handle, transactions), end_txn.error_response),
        Route(
            ApiKey.WRITE_TXN_MARKERS,
            partial(write_txn_markers.handle, services.replica_manager, marker_context),
            write_txn_markers.error_response,
        ),
        Route(
            ApiKey.DESCRIBE_TRANSACTIONS,
            partial(describe_transactions.handle, transactions),
            describe_transactions.error_response,
        ),
        Route(ApiKey.LIST_TRANSACTIONS, partial(list_transactions.handle, transactions)),
    ]


def _control_routes(services: BrokerServices) -> list[Route]:
    """Requests between brokers and the controller, and requests that only the controller serves."""
    controller, replicas, fence = (
        services.controller,
        services.replica_manager,
        services.controller_fence,
    )
    return [
        Route(
            ApiKey.LEADER_AND_ISR,
            partial(leader_and_isr.handle, replicas, fence, services.topic_configs),
            leader_and_isr.error_response,
        ),
        Route(ApiKey.STOP_REPLICA, partial(stop_replica.handle, replicas, fence)),
        Route(
            ApiKey.UPDATE_METADATA,
            partial(
                update_metadata.handle,
                services.metadata_cache,
                replicas,
                fence,
                services.on_partitions_deleted,
            ),
        ),
        Route(ApiKey.CONTROLLED_SHUTDOWN, partial(controlled_shutdown.handle, controller)),
        Route(ApiKey.ALTER_PARTITION, partial(alter_partition.handle, controller)),
        Route(ApiKey.ALLOCATE_PRODUCER_IDS, partial(allocate_producer_ids.handle, controller)),
        Route(
            ApiKey.ELECT_LEADERS,
            partial(elect_leaders.handle, controller, services.metadata_cache),
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
        Route(
            ApiKey.UPDATE_FEATURES, partial(update_features.handle, controller, services.features)
        ),
    ]

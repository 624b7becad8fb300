"""One file per API, under Kafka's name: the version notes, the request schema, the response schema.

reading and writing  produce.py fetch.py list_offsets.py offset_for_leader_epoch.py
                     delete_records.py
the cluster          api_versions.py metadata.py describe_cluster.py
                     describe_topic_partitions.py update_features.py
topics               create_topics.py create_partitions.py delete_topics.py elect_leaders.py
                     alter_partition_reassignments.py list_partition_reassignments.py
configuration        describe_configs.py alter_configs.py incremental_alter_configs.py
                     describe_client_quotas.py alter_client_quotas.py
                     list_client_metrics_resources.py
groups               find_coordinator.py join_group.py sync_group.py heartbeat.py leave_group.py
                     offset_commit.py offset_fetch.py offset_delete.py list_groups.py
                     describe_groups.py delete_groups.py
groups, KIP-848      consumer_group_heartbeat.py consumer_group_describe.py
share groups         share_group_heartbeat.py share_group_describe.py share_fetch.py
                     share_acknowledge.py initialize_share_group_state.py
                     read_share_group_state.py write_share_group_state.py
                     delete_share_group_state.py read_share_group_state_summary.py
transactions         init_producer_id.py add_partitions_to_txn.py add_offsets_to_txn.py
                     txn_offset_commit.py end_txn.py write_txn_markers.py describe_producers.py
                     describe_transactions.py list_transactions.py
security             sasl_handshake.py sasl_authenticate.py create_acls.py describe_acls.py
                     delete_acls.py create_delegation_token.py renew_delegation_token.py
                     expire_delegation_token.py describe_delegation_token.py
                     describe_user_scram_credentials.py alter_user_scram_credentials.py
log directories      describe_log_dirs.py alter_replica_log_dirs.py
telemetry            get_telemetry_subscriptions.py push_telemetry.py
between brokers      alter_partition.py allocate_producer_ids.py leader_and_isr.py
                     stop_replica.py update_metadata.py controlled_shutdown.py
"""

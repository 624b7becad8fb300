"""Request handlers: one module per API translates a request into calls and results into a response.

A module has the name that its API has in protocol/api/.  ``handle`` takes the objects that it needs
and a ``Request``, and returns the response, an awaitable of it or a ``DelayedOperation``.
``error_response`` builds the response to a request that fails as a whole; where a top-level error
code is enough, the default of broker/router.py serves instead.  Kafka: KafkaApis.

Requests from the controller:

    leader_and_isr.py         set the partitions that this broker leads and follows
    stop_replica.py           stop or delete replicas of this broker
    update_metadata.py        update the metadata cache

Records:

    produce.py                append record batches
    produce_verification.py   verify partitions with the transaction coordinator (KIP-890)
    delayed_produce.py        delay the response until followers or the disk have the records
    produce_responses.py      fill in the errors of partitions
    offloaded_validation.py   validate record batches outside of the event loop before the append
    fetch.py                  read record batches, or wait for them
    list_offsets.py           look up offsets by timestamp
    offset_for_leader_epoch.py  look up the end offset of a leader epoch
    delete_records.py         delete the oldest records of partitions
    describe_producers.py     list the active producers of partitions

Log directories:

    describe_log_dirs.py      list the logs and the disk space of the log directories
    alter_replica_log_dirs.py  move replicas between log directories

Cluster metadata:

    api_versions.py           list the supported APIs, versions and features
    metadata.py               list brokers, topics, leaders and replicas
    describe_cluster.py       list the brokers only
    describe_topic_partitions.py  list topics page by page

Groups:

    find_coordinator.py       find the coordinator of a group or a transactional id
    join_group.py             join a classic group
    sync_group.py             send and receive the assignments of a classic group
    heartbeat.py              keep a member of a classic group alive
    leave_group.py            remove members from a group
    offset_commit.py          commit offsets
    txn_offset_commit.py      commit offsets in a transaction
    offset_fetch.py           read committed offsets
    offset_delete.py          delete committed offsets
    describe_groups.py        show the state and the members of classic groups
    list_groups.py            list groups
    delete_groups.py          delete groups
    consumer_group_heartbeat.py  join, stay in and leave a group of the consumer protocol (KIP-848)
    consumer_group_describe.py  show the state and the members of groups of the consumer protocol

Transactions:

    init_producer_id.py       assign a producer id and epoch
    add_partitions_to_txn.py  add partitions to a transaction, or verify them
    add_offsets_to_txn.py     add the offsets of a group to a transaction
    end_txn.py                commit or abort a transaction
    write_txn_markers.py      append transaction markers to partitions
    describe_transactions.py  show the state and the partitions of transactions
    list_transactions.py      list transactions
    transaction_responses.py  shared: responses of pending transitions, errors for old clients

Topics:

    create_topics.py          create topics
    create_partitions.py      add partitions to topics
    delete_topics.py          delete topics
    controller_guard.py       shared: reject these requests unless this broker is the controller

Configurations:

    describe_configs.py       show configurations
    alter_configs.py          replace configurations
    incremental_alter_configs.py  change single settings

Requests to the controller:

    elect_leaders.py          elect leaders
    alter_partition_reassignments.py  start or cancel reassignments
    list_partition_reassignments.py   list ongoing reassignments
    update_features.py        change finalized feature levels
    alter_partition.py        change the ISR of partitions
    allocate_producer_ids.py  allocate a block of producer ids to a broker
    controlled_shutdown.py    move leaders away from a broker that is about to stop

Shared:

    alter_config_resources.py  apply configuration changes resource by resource
    current_leaders.py        add the current leaders and their endpoints to responses (KIP-951)
    error_messages.py         the error message that a client receives
    replicated_response.py    delay a response until the group's log is replicated
"""
